//! One watched thread, as the watchdog's thread sees it: its observations and its detector.

use std::sync::atomic::Ordering;

use super::WatchTarget;
use crate::platform::{Thread, clock};
use crate::report::time::nanos;
use crate::trigger::heartbeat::{Beat, HeartbeatState, Registry, WatchedMember};
use crate::trigger::stall::{Decision, Detector, Held, Next, Observation, Stall};
use crate::trigger::watched_thread::WatchedThread;

/// An observation that comes so much after it was due came late, nanoseconds.
const MIN_LATE: u64 = 10_000_000;

/// A watched thread.
pub(super) struct ThreadWatch {
    /// 0 for the thread that installed.
    index: usize,
    state: &'static HeartbeatState,
    /// `None` for the thread that installed.
    member: Option<WatchedMember>,
    essential: bool,
    timeout: u64,
    watched: WatchedThread,
    detector: Detector,
    /// When it is observed next.
    pub next: Next,
    /// The beat at the last observation.
    pub last: Beat,
    /// The last ping, if it is pinged; the next observation takes it.
    pub pinged: Option<u64>,
    decision: Decision,
    /// True once nothing is left to watch.
    has_left: bool,
}

impl ThreadWatch {
    /// The thread that installed, at its launch.
    pub fn main(state: &'static HeartbeatState, thread: Thread, stall: &Stall) -> Self {
        Self::new((0, state, None), WatchedThread::new(thread), stall)
    }

    /// Another thread, which was at rest until its first beat, just now.
    pub fn member(index: usize, state: &'static HeartbeatState, member: WatchedMember) -> Self {
        let (watched, stall) = (WatchedThread::fixed(member.thread), member.stall);
        Self::new((index, state, Some(member)), watched, &stall)
    }

    fn new(
        (index, state, member): (usize, &'static HeartbeatState, Option<WatchedMember>),
        watched: WatchedThread,
        stall: &Stall,
    ) -> Self {
        let (boot, now) = (clock::boottime(), clock::monotonic());
        let first = Observation {
            now,
            due: now,
            boot,
            cpu: watched.cpu(),
            delay: Some(watched.gauge().run_delay()),
            launched: member.is_some(),
            ..Observation::default()
        };
        let mut detector = Detector::new(stall, first);
        Self {
            index,
            state,
            essential: member.is_none() || stall.essential,
            timeout: nanos(stall.timeout),
            watched,
            next: detector.first_wait(),
            detector,
            last: member.as_ref().map_or(state.beat(), |_| Beat::NONE),
            member,
            pinged: None,
            decision: Decision::Nothing,
            has_left: false,
        }
    }

    pub fn is_main(&self) -> bool {
        self.member.is_none()
    }

    /// Returns true for a member of the pool of this name.
    pub fn is_in_pool(&self, name: &str) -> bool {
        (self.member.as_ref()).is_some_and(|member| member.is_in_pool(name))
    }

    pub fn state(&self) -> &'static HeartbeatState {
        self.state
    }

    pub fn next(&self) -> &Next {
        &self.next
    }

    pub fn watched(&mut self) -> &mut WatchedThread {
        &mut self.watched
    }

    pub fn is_stalled(&self) -> bool {
        self.detector.is_stalled()
    }

    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// The thread, as a watcher needs to know it.
    fn subject(&self) -> WatchTarget {
        let member = self.member.as_ref();
        WatchTarget {
            index: self.index,
            thread: self.watched.thread(),
            name: member.map(|member| member.name.clone()),
            number: member.map_or(0, |member| member.number),
            essential: self.essential,
            pool: [0; 3],
        }
    }

    /// Returns true while nothing that has begun may become a stall.
    pub fn is_calm(&self) -> bool {
        self.detector.is_calm()
    }

    /// It is observed a time-out later: the turn of its ping has not begun.
    pub fn postpone(&mut self) {
        self.next = Next {
            due: Some(clock::monotonic().saturating_add(self.timeout)),
            wake_on_beat: false,
        };
    }

    /// Returns true if it is to be observed at this wake-up.
    pub fn is_due(&self, now: u64) -> bool {
        let woken = self.next.wake_on_beat && self.state.beat() != self.last;
        let due = self.next.due;
        woken || self.is_gone() || due.is_some_and(|due| is_due(due, self.timeout, now))
    }

    /// Returns true if the app has ended the watch.
    fn is_gone(&self) -> bool {
        let install = self.state.installed();
        (self.member.as_ref()).is_some_and(|member| install != Some(member.install))
    }

    /// Returns once what to do after the last observation, with the thread.
    pub fn decision(&mut self) -> Option<(WatchTarget, Decision)> {
        let decision = std::mem::replace(&mut self.decision, Decision::Nothing);
        (decision != Decision::Nothing).then(|| (self.subject(), decision))
    }

    /// Observes the thread. The watchdog had no CPU for `lag` just before, and the machine has been `asleep` for so long since it
    /// started, nanoseconds.
    pub fn observe(&mut self, lag: u64, asleep: u64) {
        let mut observation = self.take_observation(lag, asleep);
        if self.is_gone() {
            // Another thread may have its state by now.
            let install = self.member.as_ref().map_or(0, |member| member.install);
            observation.held = Held::Ended;
            observation.beat = self.state.final_beat(install).unwrap_or(self.last);
            observation.woke = None;
        }
        if let (Held::Ended, Some(member)) = (observation.held, &self.member) {
            // It may have ended without its destructors.
            Registry.leave(self.state, member.install);
            self.has_left = true;
        }
        self.last = observation.beat;
        (self.decision, self.next) = self.detector.observe(&observation);
    }

    /// The monitor goes. See [`ThreadWatch::observe`].
    pub fn give_up(&mut self, lag: u64, asleep: u64) {
        let observation = self.take_observation(lag, asleep);
        self.decision = self.detector.stop(&observation);
    }

    fn take_observation(&mut self, lag: u64, asleep: u64) -> Observation {
        let (last, due) = (self.last, self.next.due);
        // In this order: a beat that no observation has seen comes after the time of the last one.
        let now = clock::monotonic();
        let beat = self.state.beat();
        let woke = self.state.woke.load(Ordering::Acquire);
        let mut observation = Observation {
            now,
            boot: now.saturating_add(asleep),
            due: due.unwrap_or(now).min(now),
            beat,
            lag,
            woke: Some(woke),
            launched: !self.is_main() || self.state.launched(),
            pinged: self.pinged,
            ..Observation::default()
        };
        if beat.idle() {
            // Counted from the first observation of a turn that is not over.
            if beat != last && self.detector.is_in_turn() {
                observation.cpu = self.watched.cpu();
            }
            if self.is_stalled() {
                // The kernel counts a wait for a CPU when it is over.
                observation.delay = Some(self.watched.gauge().run_delay());
            }
            return observation;
        }
        if beat == last {
            self.watched.follow();
        }
        observation.cpu = self.watched.cpu();
        // It runs. What follows costs more, and is of use only when it stands nearly still.
        let runs = if self.is_main() {
            beat.since(last) > 2
        } else {
            beat != last
        };
        if runs {
            return observation;
        }
        let watched = self.watched.gauge();
        observation.delay = Some(watched.run_delay());
        let state = watched.state();
        observation.sleeps = state.map(|state| state != b'R');
        if self.watched.has_ended(state) {
            observation.held = Held::Ended;
            // The last beat came before the end.
            observation.beat = self.state.beat();
        } else if matches!(state, Some(b'T' | b't')) {
            observation.held = Held::Stopped;
        } else if beat.nested() && watched.waits_for_events() {
            observation.held = Held::Modal;
        } else if beat == Beat::NONE {
            observation.waits = watched.waits(state);
        }
        if observation.held == Held::Stopped || now > observation.due.saturating_add(MIN_LATE) {
            observation.traced = watched.traced();
        }
        observation
    }
}

/// Returns true if a thread that is due at `due`, and is observed each `timeout`, is observed at `now` already. A thread
/// that another one's wake-up finds within half a time-out of its own time takes over that time: so all threads of one
/// time-out come to share their wake-ups.
fn is_due(due: u64, timeout: u64, now: u64) -> bool {
    due <= now.saturating_add(timeout / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Count of wake-ups within a second of threads with these time-outs, which begin at different times; and the longest
    /// time between two observations of a thread, in its time-outs.
    fn second_of(timeouts: &[u64]) -> (usize, f64) {
        let begin = |index: usize| (index as u64 * 7_919_113) % (50 * MS);
        let mut due: Vec<u64> = (0..timeouts.len()).map(begin).collect();
        let mut seen = due.clone();
        let (mut woken, mut longest) = (0, 0.0_f64);
        loop {
            let now = *due.iter().min().unwrap();
            // The first tenth of a second is for finding each other.
            if now > 1_100 * MS {
                return (woken, longest);
            }
            woken += usize::from(now > 100 * MS);
            for (index, timeout) in timeouts.iter().enumerate() {
                if is_due(due[index], *timeout, now) {
                    let since = now.saturating_sub(seen[index]) as f64 / *timeout as f64;
                    longest = longest.max(since);
                    seen[index] = now;
                    due[index] = now + timeout;
                }
            }
        }
    }

    #[test]
    fn many_threads_wake_the_watchdog_as_often_as_one() {
        let one = second_of(&[50 * MS]);
        assert_eq!(one, (20, 1.0));
        for count in [2, 8, 64, 256] {
            assert_eq!(
                second_of(&vec![50 * MS; count]),
                (20, 1.0),
                "{count} threads"
            );
        }
    }

    #[test]
    fn each_thread_is_observed_by_its_own_time_out() {
        let (woken, longest) = second_of(&[50 * MS, 1_000 * MS, 200 * MS, 50 * MS]);
        assert!(woken <= 21 && longest <= 1.0, "{woken} {longest}");
    }
}
