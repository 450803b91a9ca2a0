//! Beats that the app need not write: of its main run loop, which is observed, and of a queue of its own that carries
//! pings round.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::heartbeat::{Heartbeat, HeartbeatState};
use super::rest::{Place, Rest};
use super::watched_thread::WatchedThread;
use crate::platform::clock::monotonic;
use crate::platform::own_thread::with_mask_of_app;
#[cfg(target_vendor = "apple")]
use crate::platform::run_loop::{self, Observers};
use crate::platform::threads::ThreadProgress;
use crate::platform::{MainQueue, Thread};
use crate::report::time::nanos;

/// The install that these beats belong to: an answer that comes late, from an earlier one, counts for nothing.
static INSTALL: AtomicU32 = AtomicU32::new(0);

/// Has the watched thread run the function that it is given.
type Post = Box<dyn FnMut(fn()) + Send>;

/// The way into the watched thread's queue, from when the app gives it. A ping is a turn that begins when it is posted, or once a
/// thread that was at rest has the CPU, and ends when the watched thread has run it.
#[derive(Default)]
pub(crate) struct Pings(Mutex<(bool, Option<Post>)>);

impl Pings {
    /// Hands the watchdog the way; false if it has one.
    pub fn begin(&self, post: Post) -> bool {
        let mut pings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = !std::mem::replace(&mut pings.0, true);
        if begins {
            pings.1 = Some(post);
        }
        begins
    }
}

/// While the thread is at rest, it is looked at so often, nanoseconds.
const REST_PERIOD: u64 = 250_000_000;

/// The watchdog's side: it pings a thread that works, and leaves one alone that has not run since it answered.
pub(crate) struct Pinger {
    pings: Arc<Pings>,
    post: Option<Post>,
    heartbeat: &'static HeartbeatState,
    period: u64,
    /// Time of the next look at the thread.
    due: u64,
    rest: Rest,
    /// The counters of the thread when it was pinged in its sleep, until it has run.
    slept: Option<ThreadProgress>,
    /// Time at which the last turn began; 0 if there was none.
    last: u64,
}

impl Pinger {
    pub fn new(pings: Arc<Pings>, heartbeat: &'static HeartbeatState, timeout: Duration) -> Pinger {
        Pinger {
            pings,
            post: None,
            heartbeat,
            period: nanos(timeout).max(1_000_000),
            due: 0,
            rest: Rest::default(),
            slept: None,
            last: 0,
        }
    }

    /// The watchdog wakes no later than this.
    pub fn due(&mut self, due: Option<u64>, now: u64) -> Option<u64> {
        if self.post.is_none() {
            let mut pings = self.pings.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.post = pings.1.take();
        }
        if self.post.is_none() || self.heartbeat.beat().depth() != 0 {
            return due;
        }
        let own = self.due.max(now);
        Some(due.map_or(own, |due| due.min(own)))
    }

    /// Pings, if it is time for it and the thread has run since it answered the last one.
    pub fn ping(&mut self, watched: &mut WatchedThread) {
        let now = monotonic();
        let is_under_way = self.heartbeat.beat().depth() != 0;
        if self.post.is_none() || is_under_way || now < self.due {
            return;
        }
        if watched.follow() {
            // What another thread had done.
            self.rest = Rest::default();
        }
        let progress = watched.thread().progress();
        let shown_by = |now| self.rest.is_at_rest(now, || place(watched));
        let rests = watched.rests();
        if rests.unwrap_or_else(|| progress.is_some_and(shown_by)) {
            self.due = now.saturating_add(REST_PERIOD);
            return;
        }
        self.due = now.saturating_add(self.period);
        let rested = self.rest.ping(progress, || place(watched));
        let sleeps =
            |now: &ThreadProgress| !now.running || rested.is_some_and(|then| has_stood(then, *now));
        self.slept = progress.filter(sleeps);
        if self.heartbeat.ping()
            && let Some(post) = &mut self.post
        {
            self.last = now;
            // The panic hook has reported one that panics; there are no more pings then.
            let posted = with_mask_of_app(|| catch_unwind(AssertUnwindSafe(|| post(answer))));
            if posted.is_err() {
                self.heartbeat.answer();
                self.post = None;
            }
        }
    }

    /// Returns true while the thread, which slept when it was pinged, is ready to answer and has had no CPU: it does not stand
    /// still. If it still sleeps after the ping, it is blocked, or whatever wakes it has had no CPU.
    pub fn has_not_run(&mut self, watched: &WatchedThread) -> bool {
        let is_under_way = self.heartbeat.beat().depth() != 0;
        let Some(slept) = self.slept.take_if(|_| is_under_way) else {
            return false;
        };
        let progress = watched.thread().progress();
        let has_not_run = progress.is_some_and(|now| now.running && has_stood(slept, now));
        if has_not_run {
            self.slept = Some(slept);
            self.last = monotonic();
        }
        has_not_run
    }

    /// Returns the time of the last ping, `None` while the thread is not pinged.
    pub fn pinged(&self) -> Option<u64> {
        self.post.is_some().then_some(self.last)
    }
}

/// The place in which the thread sleeps.
fn place(watched: &WatchedThread) -> Place {
    watched.gauge().blocked().map(|at| (at.sp, at.pc))
}

/// Returns true if the thread had no CPU from then to now; false where the kernel does not count that.
fn has_stood(then: ThreadProgress, now: ThreadProgress) -> bool {
    now.slices > 0 && (then.cpu, then.slices) == (now.cpu, now.slices)
}

/// Ends the turn that a ping or the run loop has begun.
pub(crate) fn answer() {
    Heartbeat::of(INSTALL.load(Ordering::SeqCst)).answer();
}

/// The heartbeat that pings beat, on the thread that works the main queue off for another one.
pub(crate) fn of_main_queue() -> Option<Heartbeat> {
    let own = Thread::current();
    let serves = || MainQueue::served(Thread::main()).by == Some(own);
    let heart = || Heartbeat::of(INSTALL.load(Ordering::SeqCst));
    (MainQueue::is_pinged() && serves()).then(heart)
}

/// Answers of this install count from now on.
pub(crate) fn prepare(heart: Heartbeat) {
    INSTALL.store(heart.number(), Ordering::SeqCst);
}

/// Beats at each turn of the main run loop, until it is dropped.
#[cfg(target_vendor = "apple")]
#[derive(Debug)]
pub struct RunLoop {
    _observers: Observers,
}

#[cfg(target_vendor = "apple")]
impl RunLoop {
    /// `None` where the process has no run loop.
    pub fn observe(heart: Heartbeat) -> Option<RunLoop> {
        prepare(heart);
        let busy = || Heartbeat::of(INSTALL.load(Ordering::SeqCst)).begin();
        let observers = run_loop::observe(busy, answer)?;
        Some(RunLoop {
            _observers: observers,
        })
    }
}
