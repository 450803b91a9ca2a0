//! The watchdog: the thread that waits for a wake-up, observes the heartbeat and drives the detector.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use super::heartbeat::{Beat, HeartbeatState};
use super::own_time::{OWN_TIME, Seen};
use super::ping::{Pinger, Pings};
use super::stall::{
    Decision, Detector, Held, Next, Observation, Reason, Stall, StallEndInfo, StallInfo,
};
use super::watched_thread::WatchedThread;
use crate::platform::{Thread, ThreadGauge, clock};

/// The receiver of stalls. All calls come on the watchdog's own thread, one at a time, in this
/// order: `first_miss`, any number of `sample`, then `forget`, `dropped` or `stalled`; after
/// `stalled` any number of `sample`, then `ended`. A stall that is certain at once comes without
/// `first_miss`.
pub trait Watcher {
    /// A first beat was missed: take a stack. `at`: nanoseconds since the start.
    fn first_miss(&mut self, at: u64);

    /// Take a further stack. `at`: nanoseconds since the start.
    fn sample(&mut self, at: u64);

    /// It was no stall: forget the stacks.
    fn forget(&mut self);

    /// It is a stall: take a stack and begin the report.
    fn stalled(&mut self, info: &StallInfo);

    /// The stall is over: close the report.
    fn ended(&mut self, end: &StallEndInfo);

    /// The stall does not count, for this reason: forget the stacks, count the reason.
    fn dropped(&mut self, reason: Reason);

    /// An observation was taken at `now` (monotonic, nanoseconds), whatever came of it; before that is acted on.
    fn observed(&mut self, now: u64) {
        let _ = now;
    }
}

/// The running watchdog. Dropping it stops and joins its thread; a stall that lasts is ended as
/// `uninstalled` first.
#[derive(Debug)]
pub struct Watchdog {
    heartbeat: &'static HeartbeatState,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    tid: i32,
    pings: Arc<Pings>,
}

impl Watchdog {
    /// Starts to watch the calling thread. The launch begins now.
    ///
    /// `heartbeat` must have been installed ([`HeartbeatState::install`]); `watcher` moves to the new thread,
    /// which is named `wedjat` and has all signals blocked.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn spawn(
        stall: Stall,
        heartbeat: &'static HeartbeatState,
        watcher: impl Watcher + Send + 'static,
    ) -> io::Result<Watchdog> {
        let watched = WatchedThread::new(Thread::current());
        OWN_TIME.watch(Some(Thread::current()));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let tid = Arc::new(OnceLock::new());
        let told = Arc::clone(&tid);
        let pings = Arc::new(Pings::default());
        let pinger = Pinger::new(pings.clone(), heartbeat, stall.timeout);
        let (boot, now) = (clock::boottime(), clock::monotonic());
        let first = Observation {
            now,
            due: now,
            boot,
            cpu: watched.cpu(),
            delay: Some(watched.gauge().delay()),
            ..Observation::default()
        };
        let thread = super::spawn("wedjat", 1 << 20, move || {
            let own = ThreadGauge::current();
            told.get_or_init(|| own.tid());
            let mut observer = Observer {
                heartbeat,
                watched,
                own,
                own_time: OWN_TIME.seen(),
                pinger,
                stop: stopped,
            };
            observer.run(Detector::new(&stall, first), watcher);
        })?;
        let tid = *tid.wait();
        Ok(Watchdog {
            heartbeat,
            stop,
            thread: Some(thread),
            tid,
            pings,
        })
    }

    /// Pings the watched thread from now on, see [`Pings`]; false if it does already.
    pub fn ping(&self, post: impl FnMut(fn()) + Send + 'static) -> bool {
        let begun = self.pings.begin(Box::new(post));
        self.heartbeat.wake();
        begun
    }

    /// The id of its thread, as the system knows it.
    pub fn thread_id(&self) -> i32 {
        self.tid
    }

    /// CPU time that it has used, nanoseconds.
    pub fn cpu(&self) -> u64 {
        clock::thread_cpu(self.tid)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        OWN_TIME.watch(None);
        self.stop.store(true, Ordering::SeqCst);
        self.heartbeat.wake();
        if let Some(thread) = self.thread.take() {
            super::join(thread);
        }
    }
}

/// The state of the watchdog's thread.
struct Observer {
    heartbeat: &'static HeartbeatState,
    watched: WatchedThread,
    own: ThreadGauge,
    own_time: Seen,
    pinger: Pinger,
    stop: Arc<AtomicBool>,
}

impl Observer {
    fn run(&mut self, mut detector: Detector, mut watcher: impl Watcher) {
        let mut own = OwnDelay::new(&self.own, clock::monotonic());
        let mut next = detector.first();
        let mut last = self.heartbeat.beat();
        // A callback that drops the monitor runs on this very thread: the next watchdog's wake-up is not to be taken.
        while !self.stop.load(Ordering::SeqCst) {
            next.due = self.pinger.due(next.due, clock::monotonic());
            let settled = || own.settled(&self.own);
            self.heartbeat
                .listen(last, next.due, next.wake_on_beat, settled);
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            self.pinger.ping(&mut self.watched);
            let observation = self.observe(&next, last, &mut own);
            last = observation.beat;
            watcher.observed(observation.now);
            let (decision, then) = detector.observe(&observation);
            act(&mut watcher, decision);
            next = then;
            // Time spent in the watcher is no sleep of the process: it may wait at length for a thread that sleeps
            // uninterruptibly.
            let took = clock::monotonic()
                .saturating_sub(observation.now)
                .min(WATCHER_TAKES);
            next.due = next
                .due
                .map(|due| due.max(observation.now.saturating_add(took)));
        }
        act(
            &mut watcher,
            detector.stop(&self.observe(&next, last, &mut own)),
        );
    }

    fn observe(&mut self, next: &Next, last: Beat, own: &mut OwnDelay) -> Observation {
        let beat = self.heartbeat.beat();
        let (boot, now) = (clock::boottime(), clock::monotonic());
        let mut observation = Observation {
            now,
            boot,
            due: next.due.unwrap_or(now),
            beat,
            launched: self.heartbeat.launched(),
            worked: self.pinger.worked(),
            ..Observation::default()
        };
        let own_time = OWN_TIME.seen();
        if own_time.at_work_since(std::mem::replace(&mut self.own_time, own_time)) {
            observation.held = Held::Recorder;
        }
        if beat.idle() {
            if beat != last {
                observation.cpu = self.watched.cpu();
                observation.own_delay = own.at(&self.own, now, next.due);
            }
            return observation;
        }
        if beat == last {
            self.watched.follow();
        }
        observation.cpu = self.watched.cpu();
        observation.own_delay = own.at(&self.own, now, next.due);
        if beat.since(last) > 2 {
            // It runs. What follows costs more, and is of use only when it stands nearly still.
            return observation;
        }
        let watched = self.watched.gauge();
        observation.delay = Some(watched.delay());
        let state = watched.state();
        if self.watched.has_ended(state) {
            observation.held = Held::Ended;
        } else if matches!(state, Some(b'T' | b't')) {
            observation.held = Held::Stopped;
        } else if observation.held == Held::No && beat.nested() && watched.waits_for_events() {
            observation.held = Held::Modal;
        } else if beat == Beat::NONE {
            observation.waits = watched.waits(state);
        }
        if observation.held == Held::Stopped || now > observation.due.saturating_add(LATE) {
            observation.traced = watched.traced();
        }
        observation
    }
}

/// A watcher takes at most so long, nanoseconds; if it was longer, something else held this thread.
const WATCHER_TAKES: u64 = 300_000_000;
/// An observation that comes so much after it was due came late, nanoseconds.
const LATE: u64 = 10_000_000;
/// The watchdog's own delay is read at least so often, nanoseconds.
const OWN_PERIOD: u64 = 1_000_000_000;

/// Time for which the watchdog itself was ready but had no CPU. It matters only for an observation that comes late or
/// was woken, and reading it is half the cost of an observation: so it is read then, and once a second to compare with.
struct OwnDelay {
    read: u64,
    last: u64,
    /// The part of it that came before a sleep without a time-out, which is no turn's.
    settled: u64,
}

impl OwnDelay {
    fn new(own: &ThreadGauge, now: u64) -> OwnDelay {
        OwnDelay {
            read: now,
            last: own.delay(),
            settled: 0,
        }
    }

    fn at(&mut self, own: &ThreadGauge, now: u64, due: Option<u64>) -> Option<u64> {
        // Until then at most a millisecond an observation stays unread. One that was woken may be late by any time.
        let late = due.is_none_or(|due| now > due.saturating_add(1_000_000));
        if late || now.saturating_sub(self.read) >= OWN_PERIOD {
            (self.read, self.last) = (now, own.delay());
        }
        Some(self.last.saturating_sub(self.settled))
    }

    /// The watchdog is about to sleep until it is woken.
    fn settled(&mut self, own: &ThreadGauge) {
        let delay = own.delay();
        self.settled += delay.saturating_sub(self.last);
        self.last = delay;
    }
}

fn act(watcher: &mut impl Watcher, decision: Decision) {
    match decision {
        Decision::Nothing => {}
        Decision::FirstMiss { at } => watcher.first_miss(at),
        Decision::Sample { at } => watcher.sample(at),
        Decision::Forget => watcher.forget(),
        Decision::Stalled(info) => watcher.stalled(&info),
        Decision::Ended(end) => watcher.ended(&end),
        Decision::Dropped(reason) => watcher.dropped(reason),
    }
}
