//! The stall detector: a pure state machine over time and the watched thread's pulse. No clock, no
//! thread, no system call: whoever drives it hands in one [`Look`] after another.
//!
//! # How it counts
//! The watchdog looks once every `timeout`. A turn is *slow* while the beat stands still from one
//! look to the next. Slow turns that follow each other without rest are a **row**; its time runs
//! from the last look at which all was well (so it is never short of the truth, and at most one
//! time-out too long). A row of `timeout × strikes` is a stall: one long freeze as well as several
//! short ones, one stall each. From the second slow turn on, the watchdog asks to be woken at each
//! beat, so that the turns of a row are measured exactly; a turn shorter than `timeout`, or a rest
//! of a tenth of it, breaks the row.
//!
//! Time that the thread could not have used is not counted: when the look itself came late (the
//! machine slept, the process was stopped, the watchdog had no CPU), only what the thread's own
//! CPU clock shows is; and none while a debugger holds it or while a nested run loop waits for
//! events. A row that would have been a stall but for that is *dropped*, with the reason.

use std::time::Duration;

use super::heartbeat::Beat;

/// When a freeze of the watched thread is a stall.
///
/// ```
/// use std::time::Duration;
/// use wedjat::Stall;
/// let stall = Stall::default().timeout(Duration::from_millis(100)).strikes(3);
/// assert_eq!(stall.threshold(), Duration::from_millis(300));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// One strike, 50 ms: the watchdog looks so often.
    pub timeout: Duration,
    /// So many strikes in a row are a stall, 5.
    pub strikes: u32,
    /// From `install` to the end of the first turn; `None` for the same as later turns.
    pub launch: Option<Duration>,
}

impl Default for Stall {
    fn default() -> Stall {
        Stall {
            timeout: Duration::from_millis(50),
            strikes: 5,
            launch: None,
        }
    }
}

impl Stall {
    /// Sets the length of one strike; at least 1 ms, at most a minute.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Stall {
        self.timeout = timeout.clamp(Duration::from_millis(1), Duration::from_secs(60));
        self
    }

    /// Sets how many strikes in a row are a stall; at least 1, at most 10,000.
    #[must_use]
    pub fn strikes(mut self, strikes: u32) -> Stall {
        self.strikes = strikes.clamp(1, 10_000);
        self
    }

    /// Sets how long the launch may take, from `install` to the end of the first turn.
    #[must_use]
    pub fn launch(mut self, limit: Duration) -> Stall {
        self.launch = Some(limit);
        self
    }

    /// A freeze of so long is a stall: `timeout × strikes`.
    pub fn threshold(&self) -> Duration {
        self.timeout.saturating_mul(self.strikes)
    }
}

/// What the watchdog sees at one moment. Times are nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look {
    /// Monotonic clock, without sleep.
    pub now: u64,
    /// The same with the time that the machine slept.
    pub boot: u64,
    /// When this look was due.
    pub due: u64,
    /// What the watched thread last said.
    pub beat: Beat,
    /// CPU time of the watched thread.
    pub cpu: u64,
    /// How long the watched thread was ready to run but had no CPU; needed only while its beat
    /// stands nearly still.
    pub delay: Option<u64>,
    /// The same of the watchdog's own thread.
    pub own_delay: Option<u64>,
    /// Whether a tracer is attached to the watched thread.
    pub traced: bool,
    /// What keeps the watched thread for good reason.
    pub held: Held,
}

/// A good reason for the watched thread not to beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Held {
    /// None.
    #[default]
    No,
    /// It is stopped, by a signal or by a tracer.
    Stopped,
    /// A nested run loop waits for events.
    Modal,
}

/// Why time was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The machine slept.
    Sleep,
    /// A debugger held the process or the thread.
    Debugger,
    /// The process was stopped or suspended.
    Background,
    /// The watchdog itself had no CPU.
    Late,
    /// A nested run loop waited for events.
    Modal,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 5] = [
        Reason::Sleep,
        Reason::Debugger,
        Reason::Background,
        Reason::Late,
        Reason::Modal,
    ];

    /// The word in the `loss` section.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Sleep => "sleep",
            Reason::Debugger => "debugger",
            Reason::Background => "background",
            Reason::Late => "late",
            Reason::Modal => "modal",
        }
    }
}

/// What a stall was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The launch: no turn has ended yet.
    Launch,
    /// The thread used the CPU.
    Busy,
    /// The thread waited in the kernel: for a lock, a file, a peer.
    Blocked,
    /// The thread was ready to run, but the machine gave it no CPU.
    Starved,
}

impl Class {
    /// The word in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Launch => "launch",
            Class::Busy => "busy",
            Class::Blocked => "blocked",
            Class::Starved => "starved",
        }
    }
}

/// A stall, at the moment when it is sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallInfo {
    /// Monotonic clock at its start, nanoseconds; to within one time-out.
    pub start: u64,
    /// How long it has lasted so far, nanoseconds, without what is not counted.
    pub lasted: u64,
    /// What it is made of so far.
    pub class: Class,
    /// How many turns it has taken so far; 1 for one long freeze.
    pub turns: u32,
    /// Whether no heartbeat ever came.
    pub never_beat: bool,
    /// CPU time that the thread used since, nanoseconds.
    pub cpu: u64,
    /// Time that it was ready but had no CPU, nanoseconds.
    pub delay: u64,
    /// One strike, nanoseconds.
    pub timeout: u64,
    /// Strikes.
    pub strikes: u32,
}

/// A stall, when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallEndInfo {
    /// What is known of it now; `lasted` is its whole duration.
    pub info: StallInfo,
    /// How it ended.
    pub how: How,
}

/// How a stall ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum How {
    /// The thread beats again.
    Recovered,
    /// The monitor was uninstalled while it lasted.
    Uninstalled,
}

impl How {
    /// The word in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            How::Recovered => "recovered",
            How::Uninstalled => "uninstalled",
        }
    }
}

/// What to do after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Nothing.
    Nothing,
    /// A first beat was missed: take a stack, in case that it becomes a stall. So many nanoseconds
    /// since the start.
    FirstMiss {
        /// Since the start, nanoseconds.
        at: u64,
    },
    /// Take a further stack.
    Sample {
        /// Since the start, nanoseconds.
        at: u64,
    },
    /// What was missed came after all: forget the stacks.
    Forget,
    /// It is a stall: take a stack and report.
    Stalled(StallInfo),
    /// The stall is over.
    Ended(StallEndInfo),
    /// It would have been a stall but for a good reason: forget the stacks, count the reason.
    Dropped(Reason),
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Monotonic clock, nanoseconds; `None`: only when the bell rings.
    pub due: Option<u64>,
    /// Whether the next beat shall ring the bell.
    pub call: bool,
}

/// The detector. See the module's text.
#[derive(Debug, Clone)]
pub struct Detector {
    timeout: u64,
    strikes: u32,
    launch: u64,
    /// The last look.
    last: Look,
    /// When the thread was last seen to work; it rests this long after.
    active: u64,
    /// Whether the watchdog sleeps until the bell.
    asleep: bool,
    row: Option<Row>,
}

/// Slow turns that follow each other without rest.
#[derive(Debug, Clone)]
struct Row {
    /// No later than this it was all well.
    from: u64,
    /// No later than this it had begun.
    first: u64,
    /// CPU and delay at its first look.
    cpu: u64,
    delay: Option<u64>,
    launch: bool,
    turns: u32,
    /// Upper bound of the present turn's start.
    turn_from: u64,
    /// Whether its first turns may have been quick ones with a rest behind them.
    doubt: Option<Doubt>,
    /// When the last slow turn that is over ended.
    slow_end: Option<u64>,
    /// Since when a nested run loop waits.
    modal: Option<u64>,
    /// Since when the thread is idle between two turns of the row.
    idle: Option<u64>,
    counted: u64,
    not_counted: [u64; Reason::ALL.len()],
    missed: bool,
    stalled: bool,
    next_sample: u64,
    /// Whether beats ring.
    exact: bool,
}

/// A turn that followed another with no CPU used between: either both were blocked, or the thread
/// was at rest. What it does later tells.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    /// What the row had counted before.
    before: u64,
    /// The looks before and after.
    from: u64,
    now: u64,
    cpu: u64,
}

impl Doubt {
    fn at(before: u64, from: u64, now: u64, cpu: u64) -> Doubt {
        Doubt {
            before,
            from,
            now,
            cpu,
        }
    }
}

/// How much of the time between two turns a thread used. One that only works uses all of it, one
/// that only blocks nothing; one that used some of it rested.
enum Used {
    None,
    Some,
    All,
}

/// The watchdog sleeps for good after so long without a beat.
const REST_AFTER: u64 = 500_000_000;
/// While a stall lasts, the watchdog looks at least so often.
const STALL_PERIOD: u64 = 1_000_000_000;
/// After so long a stall, samples come ever more slowly: each a fortieth later than the one before.
const SAMPLES_SLOW_DOWN: u64 = 2_000_000_000;
/// An app that has not beaten for so long is left alone until it does.
const NEVER_BEAT: u64 = 60_000_000_000;

impl Detector {
    /// Begins at `look`, the moment of the install.
    pub fn new(stall: &Stall, look: Look) -> Detector {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let threshold = nanos(stall.threshold());
        let mut detector = Detector {
            timeout: nanos(stall.timeout).max(1_000_000),
            strikes: stall.strikes.max(1),
            launch: stall.launch.map_or(threshold, nanos),
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
        let now = look.now.max(self.last.now);
        match self.row.take() {
            Some(row) if row.stalled => Decision::Ended(StallEndInfo {
                info: self.info(&row, look, now),
                how: How::Uninstalled,
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
        interval: u64,
        steps: u64,
    ) -> Decision {
        let tolerance = self.tolerance();
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

    /// How much the thread used of the time between two turns, one of which was seen by the last
    /// look and the other by this.
    fn used(&self, look: &Look, interval: u64) -> Used {
        let delay = match (look.delay, self.last.delay) {
            (Some(now), Some(then)) => now.saturating_sub(then),
            _ => 0,
        };
        let used = look.cpu.saturating_sub(self.last.cpu).saturating_add(delay);
        if used < interval / 50 {
            Used::None
        } else if used < interval - interval / 10 {
            Used::Some
        } else {
            Used::All
        }
    }

    /// Adds the time since the last look to the row, or to the reasons why it is not counted.
    fn count(&self, row: &mut Row, look: &Look, now: u64, interval: u64, same: bool) {
        let late = now.saturating_sub(look.due);
        let used = look.cpu.saturating_sub(self.last.cpu);
        let slept = look
            .boot
            .saturating_sub(self.last.boot)
            .saturating_sub(interval);
        let (lost, reason) = if look.held == Held::Modal || self.asleep && row.modal.is_some() {
            (interval, Reason::Modal)
        } else if look.held == Held::Stopped {
            (
                interval,
                if look.traced {
                    Reason::Debugger
                } else {
                    Reason::Background
                },
            )
        } else if late > self.timeout / 2 {
            let own = match (look.own_delay, self.last.own_delay) {
                (Some(now), Some(then)) => now.saturating_sub(then),
                _ => 0,
            };
            let used = if same { used } else { 0 };
            if own >= late / 2 {
                // Only the watchdog was late. A beat that stood still all the time is a freeze even
                // so; of one that did not, nobody knows how long it did.
                (if same { 0 } else { late.min(interval) }, Reason::Late)
            } else {
                // What the thread's own clock shows was no sleep of the process.
                let lost = late.min(interval).saturating_sub(used);
                let reason = if look.traced {
                    Reason::Debugger
                } else {
                    Reason::Background
                };
                (lost, reason)
            }
        } else {
            (0, Reason::Late)
        };
        row.counted = row.counted.saturating_add(interval - lost);
        row.add(reason, lost);
        // The monotonic clock has left the machine's sleep out already.
        row.add(Reason::Sleep, slept);
    }

    /// The thread went on after the row's last turn, which was over at `end`.
    fn over(&mut self, row: Row, look: &Look, end: u64) -> Decision {
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

    fn row_from(&self, look: &Look, from: u64, launch: bool) -> Row {
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
        }
    }

    fn info(&self, row: &Row, look: &Look, now: u64) -> StallInfo {
        let start = row.from.midpoint(row.first);
        // The monotonic clock leaves the machine's sleep out by itself; and if only the watchdog was
        // late, the thread's time went on.
        let lost: u64 = [Reason::Debugger, Reason::Background, Reason::Modal]
            .iter()
            .map(|&reason| row.not_counted[reason as usize])
            .sum();
        let lasted = now.saturating_sub(start).saturating_sub(lost);
        // At the end, the thread is idle again and its clocks are not read any more.
        let cpu = look.cpu.max(self.last.cpu).saturating_sub(row.cpu);
        let delay = match (look.delay.or(self.last.delay), row.delay) {
            (Some(now), Some(then)) => now.saturating_sub(then),
            _ => 0,
        };
        let class = if row.launch {
            Class::Launch
        } else if cpu >= lasted / 2 || cpu > delay && cpu >= lasted / 3 {
            Class::Busy
        } else if delay >= lasted / 2 || delay > cpu && cpu + delay >= lasted / 2 {
            Class::Starved
        } else {
            Class::Blocked
        };
        StallInfo {
            start,
            lasted,
            class,
            turns: row.turns,
            never_beat: look.beat == Beat::NONE,
            cpu,
            delay,
            timeout: self.timeout,
            strikes: self.strikes,
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
        if row.idle.is_some() {
            return Next {
                due: Some(now + tolerance),
                call: true,
            };
        }
        if row.stalled {
            if row.launch && self.last.beat == Beat::NONE && now - row.from > NEVER_BEAT {
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

impl Row {
    fn add(&mut self, reason: Reason, time: u64) {
        let sum = &mut self.not_counted[reason as usize];
        *sum = sum.saturating_add(time);
    }
}
