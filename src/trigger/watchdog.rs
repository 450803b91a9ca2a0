//! The watchdog: the one thread that waits for a wake-up, observes all watched threads and drives their detectors.

mod scheduling_lag;
mod thread_watch;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use super::heartbeat::{Beat, HEARTBEAT, HeartbeatState, Registry, THREADS};
use super::ping::{Pinger, Pings};
use super::stall::{Decision, Reason, Stall, StallEndInfo, StallInfo};
use crate::platform::{Thread, ThreadGauge, clock};
use scheduling_lag::SchedulingLag;
use thread_watch::ThreadWatch;

/// The running watchdog. Dropping it stops and joins its thread; a stall that lasts is ended as
/// `uninstalled` first.
pub struct Watchdog {
    heartbeat: &'static HeartbeatState,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    tid: i32,
    pings: Arc<Pings>,
}

impl Watchdog {
    /// Starts to watch the calling thread, whose launch begins now, and the threads of the [`Registry`]. Without a `stall`,
    /// those alone.
    ///
    /// `heartbeat` must have been installed ([`HeartbeatState::install`]); `watcher` moves to the new thread,
    /// which is named `wedjat` and has all signals blocked.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn spawn(
        stall: impl Into<Option<Stall>>,
        heartbeat: &'static HeartbeatState,
        watcher: impl Watcher + Send + 'static,
    ) -> io::Result<Watchdog> {
        let stall = stall.into();
        let stop = Arc::new(AtomicBool::new(false));
        let tid = Arc::new(OnceLock::new());
        let known = Arc::clone(&tid);
        let pings = Arc::new(Pings::default());
        let timeout = stall.unwrap_or_default().timeout;
        let mut observer = Observer {
            heartbeat,
            watches: Vec::new(),
            admitted: [0; THREADS],
            pinger: Pinger::new(pings.clone(), heartbeat, timeout),
            stop: Arc::clone(&stop),
        };
        let main = stall.map(|stall| ThreadWatch::main(heartbeat, Thread::current(), &stall));
        observer.watches.extend(main);
        let work = move || {
            let own = ThreadGauge::current();
            known.get_or_init(|| own.tid());
            let own = SchedulingLag::new(|| own.run_delay(), clock::monotonic());
            observer.run(own, watcher);
        };
        let thread = super::spawn("wedjat", 1 << 20, Box::new(work))?;
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
    /// The watched threads: first the one that installed, if it is watched.
    watches: Vec<ThreadWatch>,
    /// The install of each of the registry's states that was admitted last; 0 for none.
    admitted: [u32; THREADS],
    pinger: Pinger,
    stop: Arc<AtomicBool>,
}

impl Observer {
    fn run(&mut self, mut own: SchedulingLag<impl Fn() -> u64>, mut watcher: impl Watcher) {
        // A callback may drop the monitor on this very thread: `stop` is checked before the wait, which would take the next
        // watchdog's wake-up.
        while !self.stop.load(Ordering::SeqCst) {
            let due = self.wait(&mut own);
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            if let Some(main) = self.watches.first_mut().filter(|w| w.is_main()) {
                self.pinger.ping(main.watched());
                if main.is_calm() && self.pinger.has_not_run(main.watched()) {
                    main.postpone();
                }
                main.pinged = self.pinger.pinged();
            }
            if self.admit() {
                watcher.more_threads();
            }
            let from = clock::monotonic();
            self.observe(from, own.since(from, due));
            self.carry_out(&mut watcher);
            watcher.observed(from);
            self.watches.retain(|watch| !watch.has_left());
        }
        let (lag, asleep) = (own.since(clock::monotonic(), None), clock::time_asleep());
        for watch in &mut self.watches {
            watch.give_up(lag, asleep);
        }
        self.carry_out(&mut watcher);
        watcher.observed(clock::monotonic());
    }

    /// Waits until the next watch is due, or a beat or a call wakes it. Returns when that was due.
    fn wait(&mut self, own: &mut SchedulingLag<impl Fn() -> u64>) -> Option<u64> {
        if let Some(main) = self.watches.first_mut().filter(|w| w.is_main()) {
            let due = self.pinger.due(main.next().due, clock::monotonic());
            main.next.due = due;
        }
        let due = self.watches.iter().filter_map(|w| w.next().due).min();
        let threads = self.watches.iter().filter(|w| w.next().wake_on_beat);
        let threads = threads.map(|watch| (watch.state(), watch.last));
        self.heartbeat.listen(threads, due, || own.sleeps());
        due
    }

    /// Takes in the threads that have joined and beaten since; returns true if there are such.
    fn admit(&mut self) -> bool {
        let installed: &HeartbeatState = &HEARTBEAT;
        if !std::ptr::eq(self.heartbeat, installed) {
            return false;
        }
        let before = self.watches.len();
        for ((index, state), admitted) in Registry.states().zip(&mut self.admitted) {
            let is_new = |install: &u32| install != admitted && state.beat() != Beat::NONE;
            let Some(install) = state.installed().filter(is_new) else {
                continue;
            };
            let member = Registry.member(index);
            if let Some(member) = member.filter(|member| member.install == install) {
                *admitted = install;
                self.watches
                    .push(ThreadWatch::member(index + 1, state, member));
            }
        }
        self.watches.len() > before
    }

    /// Observes each thread that is due. None is acted on before all are seen: a pool is counted as it is at one moment.
    fn observe(&mut self, now: u64, lag: u64) {
        let asleep = clock::time_asleep();
        for watch in self.watches.iter_mut().filter(|w| w.is_due(now)) {
            watch.observe(lag, asleep);
        }
    }

    fn carry_out(&mut self, watcher: &mut impl Watcher) {
        for index in 0..self.watches.len() {
            let decided = self.watches.get_mut(index).and_then(|w| w.decision());
            let Some((mut subject, decision)) = decided else {
                continue;
            };
            if let (Decision::Stalled(_), Some(name)) = (&decision, &subject.name) {
                let same = self.watches.iter().filter(|w| w.is_in_pool(name));
                let stalled = same.filter(|w| w.is_stalled()).count() as u64;
                let (all, at_rest) = Registry.pool(name);
                subject.pool = [all, at_rest, stalled];
            }
            watcher.set_target(&subject);
            carry_out(watcher, decision, subject.thread.id());
        }
    }
}

fn carry_out(watcher: &mut impl Watcher, decision: Decision, thread: u64) {
    match decision {
        Decision::Nothing => {}
        Decision::FirstMiss { at } => watcher.first_miss(at),
        Decision::Sample { at } => watcher.sample(at),
        Decision::Forget => watcher.forget(),
        Decision::Stalled(mut info) => {
            info.thread = thread;
            watcher.stalled(&info);
        }
        Decision::Ended(mut end) => {
            end.info.thread = thread;
            watcher.ended(&end);
        }
        Decision::Dropped(reason) => watcher.dropped(reason),
    }
}

/// The watched thread that a finding is about.
#[derive(Debug, Clone)]
pub struct WatchTarget {
    /// Its index among the watched threads; 0 is the one that installed.
    pub index: usize,
    /// The thread.
    pub thread: Thread,
    /// The app's name for it or its pool; `None` for the thread that installed.
    pub name: Option<Arc<str>>,
    /// Its number in its pool; 0 for a thread of its own.
    pub number: u32,
    /// True if a launch that ends during a stall of this thread is recorded as `stalled`.
    pub essential: bool,
    /// Counts of the threads of its pool, when it stalled: all, those at rest, those in a stall.
    pub pool: [u64; 3],
}

/// The receiver of stalls. All calls come on the watchdog's own thread, one at a time, and for each watched thread in this
/// order: `first_miss`, any number of `sample`, then `forget`, `dropped` or `stalled`; after
/// `stalled` any number of `sample`, then `ended`. A stall that is certain at once comes without
/// `first_miss`.
pub trait Watcher {
    /// The calls that follow are about this thread.
    fn set_target(&mut self, _subject: &WatchTarget) {}

    /// More threads than the one that installed are watched from now on.
    fn more_threads(&mut self) {}

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

    /// Threads were observed at `now` (monotonic, nanoseconds), and the calls about them have been made.
    fn observed(&mut self, _now: u64) {}
}
