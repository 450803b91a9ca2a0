//! The state machine itself: looks in, decisions out.

use super::launch::Before;
use super::look::{Decision, Held, Look, Next};
use super::outcome::{How, Reason, StallEndInfo};
use super::row::{Doubt, Row, Used};
use super::settings::Stall;
use crate::report::time::nanos;
use crate::trigger::heartbeat::Beat;

/// The detector. See the module's text.
#[derive(Debug, Clone)]
pub struct Detector {
    pub(super) timeout: u64,
    pub(super) strikes: u32,
    launch: u64,
    /// Whether all waiting before the first beat counts.
    pub(super) launch_waits: bool,
    /// How many looks there were.
    pub(super) looks: u32,
    /// The last look.
    pub(super) last: Look,
    /// When the thread was last seen to work; it rests this long after.
    active: u64,
    /// Whether the watchdog sleeps until the bell.
    pub(super) asleep: bool,
    pub(super) row: Option<Row>,
}

/// The watchdog sleeps for good after so long without a beat.
pub(super) const REST_AFTER: u64 = 500_000_000;
/// While a stall lasts, the watchdog looks at least so often.
const STALL_PERIOD: u64 = 1_000_000_000;
/// After so long a stall, samples come ever more slowly: each a fortieth later than the one before.
const SAMPLES_SLOW_DOWN: u64 = 2_000_000_000;
/// An app that has not beaten for so long is left alone until it does.
pub(super) const NEVER_BEAT: u64 = 60_000_000_000;

impl Detector {
    /// Begins at `look`, the moment of the install.
    pub fn new(stall: &Stall, look: Look) -> Detector {
        let threshold = nanos(stall.threshold());
        let mut detector = Detector {
            timeout: nanos(stall.timeout).max(1_000_000),
            strikes: stall.strikes.max(1),
            launch: stall.launch.map_or(threshold, nanos),
            launch_waits: stall.launch_waits,
            looks: 0,
            last: look,
            active: look.now,
            asleep: false,
            row: None,
        };
        detector.row = Some(Row {
            first: look.now,
            ..detector.row_from(&look, look.now, true)
        });
        detector
    }

    /// The first wait.
    pub fn first(&mut self) -> Next {
        self.next(self.last.now, self.last.now)
    }

    /// Takes one look, and says what to do and when to look again.
    pub fn look(&mut self, look: &Look) -> (Decision, Next) {
        if look.held == Held::Ended {
            // Nothing is left to watch.
            let nothing = Next {
                due: None,
                call: false,
            };
            return (self.give_up(look, How::ThreadEnded), nothing);
        }
        self.looks = self.looks.wrapping_add(1);
        let now = look.now.max(self.last.now);
        let interval = now - self.last.now;
        let steps = look.beat.since(self.last.beat);
        let decision = match self.row.take() {
            None => self.without_row(look, now, steps),
            Some(row) => self.with_row(row, look, now, interval, steps),
        };
        if steps > 0 || !look.beat.idle() {
            self.active = now;
        }
        let due = look.due;
        // Clocks that were not read stand where they stood.
        self.last = Look {
            now,
            cpu: look.cpu.max(self.last.cpu),
            delay: look.delay.or(self.last.delay),
            own_delay: look.own_delay.or(self.last.own_delay),
            ..*look
        };
        (decision, self.next(now, due))
    }

    /// The monitor goes.
    pub fn stop(&mut self, look: &Look) -> Decision {
        self.give_up(look, How::Uninstalled)
    }

    fn give_up(&mut self, look: &Look, how: How) -> Decision {
        let now = look.now.max(self.last.now);
        match self.row.take() {
            Some(row) if row.stalled => Decision::Ended(StallEndInfo {
                info: self.info(&row, look, now),
                how,
            }),
            Some(row) if row.missed => Decision::Forget,
            _ => Decision::Nothing,
        }
    }

    /// The last look found nothing wrong.
    fn without_row(&mut self, look: &Look, now: u64, steps: u64) -> Decision {
        if look.beat.idle() {
            return Decision::Nothing;
        }
        // A turn has begun since the last look; how long ago is only known if its begin rang.
        let rang = self.asleep && steps == 1;
        let from = if rang {
            now
        } else {
            self.last.now.max(now.saturating_sub(self.timeout))
        };
        self.row = Some(self.row_from(look, from, false));
        Decision::Nothing
    }

    fn with_row(
        &mut self,
        mut row: Row,
        look: &Look,
        now: u64,
        mut interval: u64,
        steps: u64,
    ) -> Decision {
        let tolerance = self.tolerance();
        match self.before_first_beat(&mut row, look, now, interval) {
            Before::Works => {}
            Before::Begins => interval = 0,
            Before::Unclear => {
                self.row = Some(row);
                return Decision::Nothing;
            }
            Before::Rests => return self.rests(row, look, now),
        }
        if look.beat.idle() {
            let idle = match row.idle {
                Some(since) if steps == 0 => since,
                _ => now,
            };
            if row.idle.is_none() {
                self.count(&mut row, look, now, interval, true);
            }
            // A short rest does not break a row of slow turns, unless it was the launch or the last
            // turn was a quick one.
            if row.idle.is_none() {
                if now - row.turn_from + tolerance < self.timeout {
                    return self.over(row, look, idle);
                }
                let proven = row.launch || row.exact || row.stalled || steps == 0;
                if !proven {
                    match self.used(look, interval) {
                        Used::Some => return self.over(row, look, idle),
                        Used::None => row.doubt = Some(Doubt::at(row.counted, now, now, look.cpu)),
                        Used::All => {}
                    }
                }
                row.slow_end = Some(idle);
            } else if steps > 0 {
                return self.over(row, look, idle);
            }
            if row.launch || steps > 2 || now - idle >= tolerance {
                return self.over(row, look, idle);
            }
            row.idle = Some(idle);
            self.row = Some(row);
            return Decision::Nothing;
        }
        let launched = row.launch && look.beat.depth() != look.beat.count();
        if launched || steps > 2 {
            // The first turn of all ended, or more than one turn did.
            return self.broken(row, look, now, interval);
        }
        if steps == 2 && !(row.launch || row.exact || row.stalled || row.idle.is_some()) {
            match self.used(look, interval) {
                Used::Some => return self.broken(row, look, now, interval),
                Used::None => {
                    row.doubt = Some(Doubt::at(row.counted, self.last.now, now, look.cpu));
                }
                Used::All => {}
            }
        }
        self.count(&mut row, look, now, interval, steps == 0);
        row.delay = row.delay.or(look.delay);
        row.modal = match look.held {
            Held::Modal => Some(row.modal.filter(|_| steps == 0).unwrap_or(now)),
            _ => None,
        };
        if steps > 0 && !row.launch {
            let began = if row.idle.is_some() || row.exact {
                now
            } else {
                self.last.now
            };
            if row.idle.is_none() {
                if now - row.turn_from + tolerance < self.timeout {
                    return self.broken(row, look, now, 0);
                }
                row.slow_end = Some(now);
            }
            row.idle = None;
            row.turns = row.turns.saturating_add(1);
            row.turn_from = began;
            row.exact = true;
        }
        let limit = if row.launch {
            self.launch
        } else {
            self.threshold()
        };
        if let Some(doubt) = row
            .doubt
            .take_if(|_| row.counted.saturating_add(tolerance) >= limit)
            && look.cpu.saturating_sub(doubt.cpu) > (now - doubt.now) / 2
        {
            // It works now; so it was at rest then.
            row.counted -= doubt.before;
            (row.from, row.first) = (doubt.from, doubt.now);
            row.turns = row.turns.saturating_sub(1).max(1);
        }
        let at = now - row.from;
        let decision = if !row.stalled && row.counted.saturating_add(tolerance) >= limit {
            row.stalled = true;
            row.missed = true;
            row.next_sample = now + self.sample_period(at);
            Decision::Stalled(self.info(&row, look, now))
        } else if self.last.beat == look.beat && look.held != Held::No || interval == 0 {
            Decision::Nothing
        } else if !row.missed && now - row.first + tolerance >= self.timeout {
            row.missed = true;
            row.next_sample = now + self.sample_period(at);
            Decision::FirstMiss { at }
        } else if row.missed && now + tolerance >= row.next_sample {
            row.next_sample = now + self.sample_period(at);
            Decision::Sample { at }
        } else {
            Decision::Nothing
        };
        self.row = Some(row);
        decision
    }

    /// The thread went on after the row's last turn, which was over at `end`.
    pub(super) fn over(&mut self, row: Row, look: &Look, end: u64) -> Decision {
        if row.stalled {
            // If quick turns came after the last slow one, it ended before them.
            let end = row.slow_end.map_or(end, |slow| slow.min(end));
            let info = self.info(&row, look, end);
            return Decision::Ended(StallEndInfo {
                info,
                how: How::Recovered,
            });
        }
        let lost: u64 = row.not_counted.iter().sum();
        let limit = if row.launch {
            self.launch
        } else {
            self.threshold()
        };
        if row.counted.saturating_add(lost) >= limit && lost > 0 {
            let longest = (0..Reason::ALL.len()).max_by_key(|&at| row.not_counted[at]);
            return Decision::Dropped(Reason::ALL[longest.unwrap_or(0)]);
        }
        if row.missed {
            Decision::Forget
        } else {
            Decision::Nothing
        }
    }

    /// A quick turn came, and another one runs: the row is over, and perhaps a new one has begun.
    fn broken(&mut self, mut row: Row, look: &Look, now: u64, interval: u64) -> Decision {
        if interval > 0 {
            self.count(&mut row, look, now, interval, false);
        }
        let end = if row.exact || row.stalled {
            now
        } else {
            self.last.now.midpoint(now)
        };
        let from = if row.exact {
            now
        } else {
            self.last.now.max(now.saturating_sub(self.timeout))
        };
        let decision = self.over(row, look, end);
        self.row = Some(self.row_from(look, from, false));
        decision
    }

    pub(super) fn row_from(&self, look: &Look, from: u64, launch: bool) -> Row {
        Row {
            from,
            first: look.now,
            cpu: look.cpu,
            delay: look.delay,
            launch,
            turns: 1,
            turn_from: from,
            doubt: None,
            slow_end: None,
            modal: None,
            idle: None,
            counted: look.now.saturating_sub(from),
            not_counted: [0; Reason::ALL.len()],
            missed: false,
            stalled: false,
            next_sample: u64::MAX,
            exact: false,
            rests: None,
        }
    }

    fn next(&mut self, now: u64, due: u64) -> Next {
        let tolerance = self.tolerance();
        self.asleep = false;
        // The next on the grid of time-outs; from now on if this look came far off it.
        let on_grid = due.saturating_add(self.timeout);
        let mut at = if on_grid > now {
            on_grid
        } else {
            now + self.timeout
        };
        at = at.min(now + self.timeout);
        let Some(row) = &self.row else {
            self.asleep = now.saturating_sub(self.active) >= REST_AFTER;
            return Next {
                due: (!self.asleep).then_some(at),
                call: self.asleep,
            };
        };
        if let Some(since) = row.rests {
            let rested = now.saturating_sub(since);
            return Next {
                due: Detector::next_at_rest(rested, now, at),
                call: true,
            };
        }
        if row.idle.is_some() {
            return Next {
                due: Some(now + tolerance),
                call: true,
            };
        }
        if row.stalled {
            let never_beat = row.launch && self.last.beat == Beat::NONE;
            if never_beat && self.launch_waits && now - row.from > NEVER_BEAT {
                return Next {
                    due: None,
                    call: true,
                };
            }
            let at = row.next_sample.clamp(now + 1, now + STALL_PERIOD);
            return Next {
                due: Some(at),
                call: true,
            };
        }
        if row.modal.is_some_and(|since| now - since >= REST_AFTER) {
            // A nested loop only ends after an event, whose turn rings.
            self.asleep = true;
            return Next {
                due: None,
                call: true,
            };
        }
        let limit = if row.launch {
            self.launch
        } else {
            self.threshold()
        };
        let rest = limit
            .saturating_sub(tolerance)
            .saturating_sub(row.counted)
            .max(1);
        let at = self.next_in_wait(now).unwrap_or(at);
        Next {
            due: Some(at.min(now + rest)),
            call: row.exact,
        }
    }

    fn threshold(&self) -> u64 {
        self.timeout.saturating_mul(u64::from(self.strikes))
    }

    /// A tenth of a strike: what the clocks and the scheduler may be off.
    fn tolerance(&self) -> u64 {
        self.timeout / 10
    }

    fn sample_period(&self, at: u64) -> u64 {
        if at < SAMPLES_SLOW_DOWN {
            self.timeout
        } else {
            self.timeout.max(at / 40)
        }
    }
}
