//! Rest of a pinged thread: a pure decision from its counters and the place in which it sleeps.

use crate::platform::threads::ThreadProgress;

/// A place in which a thread sleeps: its stack pointer and program counter; `None` where the kernel does not report them.
pub(crate) type Place = Option<(u64, u64)>;

/// An app waits for events in few places: one, and one in each nested loop.
const MAX_PLACES: usize = 4;
/// Answering a ping takes at most so much CPU time, nanoseconds.
const MAX_PING_CPU: u64 = 1_000_000;

/// The evidence for a thread's rest.
///
/// A thread rests where it waits for events. That is where it slept when it was pinged, woke up once, and sleeps again. Such a
/// place is remembered: load beside it, which takes the CPU from it while it answers, changes nothing. A thread that has answered
/// and sleeps in another place may be in a freeze that began right after its answer; if it is not, it answers the next ping.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// The counters of the thread at the last ping and the place in which it slept, until the next look at it.
    pinged: Option<(ThreadProgress, Place)>,
    /// The counters of the thread since it rests.
    since: Option<ThreadProgress>,
    /// The places in which it waits for events, the newest first.
    places: [Place; MAX_PLACES],
}

impl Rest {
    /// Returns true if the thread, which owes no answer, has not run since it came to rest, or only to answer the last ping.
    /// `place` is read after `now`.
    pub fn is_at_rest(&mut self, now: ThreadProgress, place: impl FnOnce() -> Place) -> bool {
        let pinged = self.pinged.take();
        if let Some(since) = self.since {
            return now == since && !now.running;
        }
        let Some((then, slept)) = pinged.filter(|_| !now.running) else {
            return false;
        };
        let place = place();
        let woken = now.slices.saturating_sub(then.slices);
        let answered_alone = woken <= 1 && now.cpu.saturating_sub(then.cpu) <= MAX_PING_CPU;
        let has_returned = answered_alone && !then.running && place == slept;
        let is_known = place.is_some() && self.places.contains(&place);
        if has_returned && !is_known {
            self.places.rotate_right(1);
            self.places[0] = place;
        }
        let rests = has_returned || is_known;
        self.since = rests.then_some(now);
        rests
    }

    /// The thread is pinged now, while it may sleep in `place`. Returns its counters since it rested, if it did until now.
    pub fn ping(
        &mut self,
        now: Option<ThreadProgress>,
        place: impl FnOnce() -> Place,
    ) -> Option<ThreadProgress> {
        self.pinged = now.map(|now| (now, if now.running { None } else { place() }));
        self.since.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOP: Place = Some((0x7000, 0x10));
    const NESTED: Place = Some((0x6000, 0x10));
    const FREEZE: Place = Some((0x6800, 0x20));

    /// A thread, and what is known of its rest.
    struct Thread {
        now: ThreadProgress,
        place: Place,
        rest: Rest,
    }

    impl Thread {
        fn asleep(place: Place) -> Thread {
            let now = ThreadProgress {
                running: false,
                cpu: 5_000_000,
                slices: 7,
            };
            let rest = Rest::default();
            Thread { now, place, rest }
        }

        fn ping(&mut self) {
            self.rest.ping(Some(self.now), || self.place);
        }

        /// Runs `slices` times, then sleeps in this place.
        fn run(&mut self, slices: u64, place: Place) {
            self.now.slices += slices;
            self.now.cpu += slices * 20_000;
            self.place = place;
        }

        fn rests(&mut self) -> bool {
            self.rest.is_at_rest(self.now, || self.place)
        }

        /// A thread whose event loop is known.
        fn at_rest() -> Thread {
            let mut thread = Thread::asleep(LOOP);
            assert!(!thread.rests(), "before it has answered");
            thread.ping();
            thread.run(1, LOOP);
            assert!(thread.rests());
            thread
        }
    }

    #[test]
    fn it_rests_until_it_runs() {
        let mut thread = Thread::at_rest();
        assert!(thread.rests() && thread.rests());
        thread.run(1, LOOP);
        assert!(!thread.rests());
        thread.ping();
        thread.run(1, LOOP);
        assert!(thread.rests());
        thread.now.running = true;
        assert!(!thread.rests());
    }

    #[test]
    fn a_cpu_that_is_taken_from_it_is_no_work_of_its() {
        let mut thread = Thread::at_rest();
        for slices in [2, 5, 30] {
            thread.run(1, LOOP);
            assert!(!thread.rests());
            thread.ping();
            thread.run(slices, LOOP);
            assert!(thread.rests(), "{slices} slices");
        }
    }

    #[test]
    fn a_freeze_right_after_an_answer_is_no_rest() {
        for earlier in [0, 1, 2, 3] {
            let mut thread = Thread::at_rest();
            for _ in 0..earlier {
                thread.run(1, LOOP);
                assert!(!thread.rests());
                thread.ping();
                thread.run(2, FREEZE);
                assert!(!thread.rests());
                thread.run(1, LOOP);
                thread.ping();
                thread.run(3, LOOP);
                assert!(thread.rests());
            }
            thread.run(1, LOOP);
            assert!(!thread.rests());
            thread.ping();
            thread.run(1, FREEZE);
            assert!(!thread.rests(), "after {earlier} that were short");
        }
    }

    #[test]
    fn nested_loops_rest_each_in_its_place() {
        let mut thread = Thread::at_rest();
        thread.run(1, NESTED);
        assert!(!thread.rests());
        thread.ping();
        thread.run(1, NESTED);
        assert!(thread.rests());
        for place in [LOOP, NESTED, LOOP] {
            thread.run(4, place);
            assert!(!thread.rests());
            thread.ping();
            thread.run(4, place);
            assert!(thread.rests());
        }
    }

    #[test]
    fn without_places_an_answer_alone_is_rest() {
        let mut thread = Thread::asleep(None);
        thread.ping();
        thread.run(1, None);
        assert!(thread.rests());
        thread.run(1, None);
        assert!(!thread.rests());
        thread.ping();
        thread.run(2, None);
        assert!(!thread.rests(), "other work");
    }
}
