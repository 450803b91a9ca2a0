//! The state machine itself: observations in, decisions out.

use super::Stall;
use super::episode::{CpuShare, Episode, Launching};
use super::observation::{Decision, Held, Next, Observation, Reason, StallEndInfo};
use crate::report::StallOutcome;
use crate::report::time::nanos;
use crate::trigger::heartbeat::Beat;

/// The detector. See the module's text.
#[derive(Debug, Clone)]
pub struct Detector {
    pub(super) timeout: u64,
    pub(super) strikes: u32,
    pub(super) launch_threshold: u64,
    /// True if all waiting before the first beat counts.
    pub(super) launch_waits: bool,
    /// Count of observations.
    pub(super) observations: u32,
    /// The last observation.
    pub(super) last: Observation,
    /// Time at which the thread was last seen to work; its rest is measured from here.
    pub(super) active: u64,
    pub(super) episode: Option<Episode>,
    /// Time for which nested run loops have waited within the outermost turn, nanoseconds.
    modal: u64,
}

impl Detector {
    /// Begins with the observation that was made at the install; or, of a thread whose launch is over, before its first beat.
    pub fn new(stall: &Stall, observation: Observation) -> Detector {
        let threshold = nanos(stall.threshold());
        let mut detector = Detector {
            timeout: nanos(stall.timeout).max(1_000_000),
            strikes: stall.strikes.max(1),
            launch_threshold: stall.launch_threshold.map_or(threshold, nanos),
            launch_waits: stall.launch_waits,
            observations: 0,
            last: observation,
            active: observation.now,
            episode: None,
            modal: 0,
        };
        if !observation.launched {
            detector.episode = Some(detector.episode_from(&observation, observation.now, true));
        }
        detector
    }

    /// Returns true while a stall lasts.
    pub fn is_stalled(&self) -> bool {
        self.episode.as_ref().is_some_and(|of| of.stalled)
    }

    /// Returns true while a turn or a launch that was observed is not over.
    pub fn is_in_turn(&self) -> bool {
        self.episode.is_some()
    }

    /// The first wait.
    pub fn first_wait(&mut self) -> Next {
        self.next(self.last.now, self.last.now)
    }

    /// Takes one observation, and returns what to do and when to observe again.
    pub fn observe(&mut self, observation: &Observation) -> (Decision, Next) {
        let observation = &self.as_of_beat(*observation);
        if observation.held == Held::Ended {
            // Nothing is left to watch.
            let nothing = Next {
                due: None,
                wake_on_beat: false,
            };
            let ended = self.give_up(observation, StallOutcome::ThreadEnded);
            return (ended, nothing);
        }
        self.observations = self.observations.wrapping_add(1);
        let now = observation.now.max(self.last.now);
        let interval = now - self.last.now;
        let beats = observation.beat.since(self.last.beat);
        let decision = match self.episode.take() {
            None => self.observe_no_episode(observation, now, beats),
            Some(mut episode) => {
                // The first observation of an episode may have left it unread.
                episode.delay = episode.delay.or(observation.delay);
                self.observe_episode(episode, observation, now, interval, beats)
            }
        };
        if beats > 0 || !observation.rests() {
            self.active = now;
        }
        let decision = self.drop_nested_wait(decision, observation, interval);
        let due = observation.due;
        // Clocks that were not read stand where they stood.
        self.last = Observation {
            now,
            // A boot clock that lagged and catches up is no sleep of the machine.
            boot: observation
                .boot
                .max(self.last.boot.saturating_add(interval)),
            cpu: observation.cpu.max(self.last.cpu),
            delay: observation.delay.or(self.last.delay),
            sleeps: observation.sleeps.or(self.last.sleeps),
            ..*observation
        };
        (decision, self.next(now, due))
    }

    /// An observation that a beat woke was due at that beat, however late it came. If the thread rests since, it is one of the
    /// beat's time.
    fn as_of_beat(&self, mut observation: Observation) -> Observation {
        let beats = observation.beat.since(self.last.beat);
        let woke = observation.woke.map(|at| at.min(observation.now));
        observation.woke = woke.filter(|at| beats > 0 && *at > self.last.now);
        if let Some(at) = observation.woke {
            observation.due = observation.due.min(at);
            if beats == 1 && observation.beat.idle() {
                observation.boot = observation.boot.saturating_sub(observation.now - at);
                observation.now = at;
            }
        }
        observation
    }

    /// Counts the time for which a nested run loop has waited; a turn that took long for that alone is no stall.
    fn drop_nested_wait(
        &mut self,
        decision: Decision,
        observation: &Observation,
        interval: u64,
    ) -> Decision {
        if self.last.held == Held::Modal {
            self.modal = self.modal.saturating_add(interval);
        }
        if !observation.beat.idle() {
            return decision;
        }
        let waited = std::mem::take(&mut self.modal) >= self.threshold();
        match decision {
            Decision::Nothing | Decision::Forget if waited => Decision::Dropped(Reason::Modal),
            decision => decision,
        }
    }

    /// The monitor goes.
    pub fn stop(&mut self, observation: &Observation) -> Decision {
        self.give_up(&self.as_of_beat(*observation), StallOutcome::Uninstalled)
    }

    fn give_up(&mut self, observation: &Observation, outcome: StallOutcome) -> Decision {
        let now = observation.now.max(self.last.now);
        match self.episode.take() {
            Some(episode) if episode.stalled => {
                // The turn may have been over before: at the beat that woke the watchdog, or at any time since the last look.
                let beats = observation.beat != self.last.beat;
                let ended = observation.woke.unwrap_or(self.last.now);
                let turn_end = episode.idle.or(beats.then_some(ended));
                Decision::Ended(StallEndInfo {
                    info: self.info(&episode, observation, turn_end.unwrap_or(now)),
                    outcome: turn_end.map_or(outcome, |_| StallOutcome::Recovered),
                })
            }
            Some(episode) if episode.missed => Decision::Forget,
            _ => Decision::Nothing,
        }
    }

    /// The last observation found nothing wrong.
    fn observe_no_episode(&mut self, observation: &Observation, now: u64, beats: u64) -> Decision {
        if observation.rests() && (beats == 0 || observation.pinged.is_some()) {
            return Decision::Nothing;
        }
        if let Some(episode) = self.episode_of_ping(observation, now) {
            return self.continue_episode(episode, observation, now, 0);
        }
        // A turn has begun since the last observation; how long ago is known only where its begin woke the watchdog.
        let begun = observation.woke.filter(|_| beats == 1);
        let from = begun.unwrap_or(self.last.now.max(now.saturating_sub(self.timeout)));
        let mut episode = self.episode_from(observation, from, false);
        if begun.is_some() {
            (episode.begun_by, episode.counted) = (from, 0);
            self.count(&mut episode, observation, now, now - from, true);
            // The machine slept before the turn.
            episode.not_counted[Reason::Sleep as usize] = 0;
        } else {
            let unseen = observation.lag.min(now - self.last.now);
            episode.add(Reason::Late, unseen);
        }
        if observation.rests() {
            return self.end_episode(episode, observation, now);
        }
        self.continue_episode(episode, observation, now, 0)
    }

    fn observe_episode(
        &mut self,
        mut episode: Episode,
        observation: &Observation,
        now: u64,
        mut interval: u64,
        beats: u64,
    ) -> Decision {
        let tolerance = self.tolerance();
        // A launch that is a stall already stays one.
        if episode.launch && observation.launched && !episode.stalled {
            episode.launch = false;
            if self.launch_threshold > self.threshold() && observation.beat != Beat::NONE {
                // The launch had a longer limit of its own; the rest of its turn is measured by itself.
                episode = self.episode_from(&self.last, self.last.now, false);
            }
        }
        if observation.launched && observation.beat == Beat::NONE {
            return self.observe_rest(episode, observation, now, interval, beats);
        }
        match self.before_first_beat(&mut episode, observation, now, interval) {
            Launching::Works => {}
            Launching::Begins => interval = 0,
            Launching::Unclear => {
                self.episode = Some(episode);
                return Decision::Nothing;
            }
            Launching::Rests => return self.rest_before_first_beat(episode, observation, now),
        }
        if observation.rests() {
            return self.observe_rest(episode, observation, now, interval, beats);
        }
        let launched = episode.launch && observation.beat.depth() != observation.beat.count();
        // A turn began after another, and none knows for how long the thread rested between them.
        let follows = beats == 2 || beats == 1 && episode.idle.is_some();
        let is_hidden = follows && !episode.stalled && self.is_late(observation, now);
        if beats == 2 && self.was_quick(&episode, observation) {
            return self.restart_episode(episode, observation, now, 0);
        }
        if launched || beats > 2 || is_hidden {
            // The first turn of all ended, or more than one turn did.
            return self.restart_episode(episode, observation, now, interval);
        }
        if beats == 2
            && !(episode.launch || episode.beat_wakes || episode.stalled || episode.idle.is_some())
        {
            match self.estimate_use(observation, interval) {
                CpuShare::Part => return self.restart_episode(episode, observation, now, interval),
                CpuShare::Nothing => episode.note_ambiguous(self.last.now, now, observation.cpu),
                CpuShare::All => {}
            }
        }
        self.count(&mut episode, observation, now, interval, beats == 0);
        episode.delay = episode.delay.or(observation.delay);
        // A nested loop is about to wait, or it is over: the next observation shows which.
        episode.nested = (beats > 0 && observation.beat.nested()).then_some(now);
        if beats > 0 && !episode.launch {
            let began = match self.new_ping(observation) {
                Some(begun) => begun.min(now),
                None if episode.idle.is_some() || episode.beat_wakes => now,
                None => self.last.now,
            };
            if episode.idle.is_none() {
                if now - episode.turn_from + tolerance < self.timeout {
                    return self.restart_episode(episode, observation, now, 0);
                }
                episode.slow_end = Some(now);
            }
            episode.idle = None;
            episode.turns = episode.turns.saturating_add(1);
            episode.turn_from = began;
            episode.beat_wakes = true;
        }
        let limit = self.limit(&episode);
        if let Some(ambiguous) = episode
            .ambiguous
            .take_if(|_| episode.counted.saturating_add(tolerance) >= limit)
            && observation.cpu.saturating_sub(ambiguous.cpu) > (now - ambiguous.observed_after) / 2
        {
            // It works now; so it was at rest then.
            episode.counted -= ambiguous.counted_before;
            episode.well_at = ambiguous.observed_before;
            episode.begun_by = ambiguous.observed_after;
            episode.turns = episode.turns.saturating_sub(1).max(1);
        }
        self.continue_episode(episode, observation, now, interval)
    }

    /// The thread waits for its next event: in its run loop, or in a nested one.
    fn observe_rest(
        &mut self,
        mut episode: Episode,
        observation: &Observation,
        now: u64,
        interval: u64,
        beats: u64,
    ) -> Decision {
        if beats > 0 && self.was_quick(&episode, observation) {
            return self.end_episode(episode, observation, now);
        }
        let nested = episode.nested.take();
        let idle = match episode.idle.or(nested) {
            Some(since) if beats == 0 => since,
            _ => now,
        };
        if episode.idle.is_none() && (beats > 0 || nested.is_none()) {
            self.count(&mut episode, observation, now, interval, beats == 0);
            // A short rest does not break an episode of slow turns, unless it was the launch or the last
            // turn was a quick one.
            if now - episode.turn_from + self.tolerance() < self.timeout {
                return self.end_episode(episode, observation, idle);
            }
            let proven = episode.launch || episode.beat_wakes || episode.stalled || beats == 0;
            if !proven {
                match self.estimate_use(observation, interval) {
                    CpuShare::Part => return self.end_episode(episode, observation, idle),
                    CpuShare::Nothing => episode.note_ambiguous(now, now, observation.cpu),
                    CpuShare::All => {}
                }
            }
            episode.slow_end = Some(idle);
        } else if episode.idle.is_some() && beats > 0 {
            return self.end_episode(episode, observation, idle);
        }
        // Seen late, it may have begun to rest long ago.
        let is_hidden = beats > 0 && !episode.stalled && self.is_late(observation, now);
        if episode.launch || beats > 2 || is_hidden || now - idle >= self.tolerance() {
            return self.end_episode(episode, observation, idle);
        }
        episode.idle = Some(idle);
        self.episode = Some(episode);
        Decision::Nothing
    }

    /// The episode goes on: perhaps it is a stall by now, or it is time for a stack.
    #[inline(never)]
    fn continue_episode(
        &mut self,
        mut episode: Episode,
        observation: &Observation,
        now: u64,
        interval: u64,
    ) -> Decision {
        let (tolerance, limit) = (self.tolerance(), self.limit(&episode));
        let at = now - episode.well_at;
        let decision = if !episode.stalled && episode.counted.saturating_add(tolerance) >= limit {
            episode.stalled = true;
            episode.missed = true;
            episode.next_sample = now + self.sample_period(at);
            Decision::Stalled(self.info(&episode, observation, now))
        } else if self.last.beat == observation.beat && observation.held != Held::No
            || interval == 0
        {
            Decision::Nothing
        } else if !episode.missed && now - episode.begun_by + tolerance >= self.timeout {
            episode.missed = true;
            episode.beat_wakes |= observation.pinged.is_some();
            episode.next_sample = now + self.sample_period(at);
            Decision::FirstMiss { at }
        } else if episode.missed && now + tolerance >= episode.next_sample {
            episode.next_sample = now + self.sample_period(at);
            Decision::Sample { at }
        } else {
            Decision::Nothing
        };
        self.episode = Some(episode);
        decision
    }

    /// The thread went on after the episode's last turn, which was over at `end`.
    pub(super) fn end_episode(
        &mut self,
        episode: Episode,
        observation: &Observation,
        end: u64,
    ) -> Decision {
        if episode.stalled {
            // If quick turns came after the last slow one, it ended before them.
            let seen = self.last.now.saturating_sub(episode.turn_from);
            let is_slow = episode.idle.is_none() && seen + self.tolerance() >= self.timeout;
            let slow_end = episode.slow_end.filter(|_| !is_slow);
            let end = slow_end.map_or(end, |slow| slow.min(end));
            let end = observation.woke.map_or(end, |woke| woke.min(end));
            let info = self.info(&episode, observation, end);
            return Decision::Ended(StallEndInfo {
                info,
                outcome: StallOutcome::Recovered,
            });
        }
        let lost: u64 = episode.not_counted.iter().sum();
        let limit = self.limit(&episode);
        if episode.counted.saturating_add(lost) >= limit && lost > 0 {
            let longest = (0..Reason::ALL.len()).max_by_key(|&at| episode.not_counted[at]);
            return Decision::Dropped(Reason::ALL[longest.unwrap_or(0)]);
        }
        if episode.missed {
            Decision::Forget
        } else {
            Decision::Nothing
        }
    }

    /// A quick turn came, and another one runs: the episode is over, and perhaps a new one has begun.
    fn restart_episode(
        &mut self,
        mut episode: Episode,
        observation: &Observation,
        now: u64,
        interval: u64,
    ) -> Decision {
        if interval > 0 {
            self.count(&mut episode, observation, now, interval, false);
        }
        let end = if episode.beat_wakes || episode.stalled {
            now
        } else {
            self.last.now.midpoint(now)
        };
        let from = if episode.beat_wakes {
            now
        } else {
            self.last.now.max(now.saturating_sub(self.timeout))
        };
        let decision = self.end_episode(episode, observation, end);
        if let Some(episode) = self.episode_of_ping(observation, now) {
            self.episode = Some(episode);
            return decision;
        }
        let mut episode = self.episode_from(observation, from, false);
        if self.is_late(observation, now) {
            // The turn that runs may have begun any time before.
            episode.add(Reason::Late, observation.lag.min(from - self.last.now));
        }
        self.episode = Some(episode);
        decision
    }

    pub(super) fn episode_from(
        &self,
        observation: &Observation,
        well_at: u64,
        launch: bool,
    ) -> Episode {
        Episode {
            well_at,
            begun_by: observation.now,
            cpu: observation.cpu,
            delay: observation.delay,
            launch,
            turns: 1,
            turn_from: well_at,
            ambiguous: None,
            slow_end: None,
            nested: None,
            planned: u64::MAX,
            idle: None,
            counted: observation.now.saturating_sub(well_at),
            slept: 0,
            not_counted: [0; Reason::ALL.len()],
            missed: false,
            stalled: false,
            next_sample: u64::MAX,
            beat_wakes: false,
            resting_since: None,
        }
    }
}
