//! A main queue that the threads of a pool work off in turn, as libdispatch's after `dispatch_main`. This program has a stand-in
//! for that library, which the monitor finds by its symbols; `suites/swift/queue` has the library itself.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use crate::support::stall::{block_all_but_libdispatchs, only_monitor, own_tid, stacks};
use wedjat::report::{Frame, Report};
use wedjat::{Monitor, Stall, threads};

/// As libdispatch's: 128 bytes, one word of which has the id of the thread that works the queue off.
#[repr(C, align(8))]
pub struct Queue([AtomicU32; 32]);

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "libdispatch's name")]
pub static _dispatch_main_q: Queue = Queue([const { AtomicU32::new(0) }; 32]);

/// False for a libdispatch of which nothing is known.
static SHOWS_ITS_OWNER: AtomicBool = AtomicBool::new(true);

/// The owner of the queue while no block runs: a run loop's thread has the queue for good.
static OWNER_AT_REST: AtomicU32 = AtomicU32::new(0);

type Block = Box<dyn FnOnce() + Send>;

/// The blocks, and the worker whose turn it is.
static BLOCKS: Mutex<(VecDeque<Block>, usize)> = Mutex::new((VecDeque::new(), 0));
/// Wakes each worker: one that is woken for nothing works, and is not at rest.
static WOKEN: [Condvar; 2] = [Condvar::new(), Condvar::new()];

fn blocks() -> MutexGuard<'static, (VecDeque<Block>, usize)> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[unsafe(no_mangle)]
pub extern "C" fn dispatch_async_f(
    queue: *const c_void,
    context: *mut c_void,
    work: extern "C" fn(*mut c_void),
) {
    assert_eq!(queue, (&raw const _dispatch_main_q).cast());
    let context = context as usize;
    queue_up(Box::new(move || work(context as *mut c_void)));
}

fn queue_up(block: Block) {
    static POOL: Once = Once::new();
    POOL.call_once(|| {
        [0, 1]
            .into_iter()
            .for_each(|index| drop(spawn(move || work(index))))
    });
    let mut queue = blocks();
    queue.0.push_back(block);
    WOKEN[queue.1].notify_one();
}

/// Works off the queue when it is this worker's turn, until it is empty. The first ping starts the worker, on the watchdog's
/// thread.
fn work(index: usize) {
    block_all_but_libdispatchs();
    let lock = &_dispatch_main_q.0[14];
    loop {
        let mut queue = blocks();
        while queue.0.is_empty() || queue.1 != index {
            queue = (WOKEN[index].wait(queue)).unwrap_or_else(PoisonError::into_inner);
        }
        let shows = SHOWS_ITS_OWNER.load(Ordering::Relaxed);
        if shows {
            lock.store(own_tid() as u32 | 1 << 31, Ordering::Relaxed);
        }
        while let Some(block) = queue.0.pop_front() {
            drop(queue);
            block();
            queue = blocks();
        }
        lock.store(OWNER_AT_REST.load(Ordering::Relaxed), Ordering::Relaxed);
        // Without the word, the thread of the last ping is all that is known.
        if shows {
            queue.1 = 1 - index;
        }
    }
}

fn install() -> (tempfile::TempDir, Monitor) {
    let folder = tempfile::tempdir().unwrap();
    let builder = Monitor::builder("Queued", "1").directory(folder.path());
    let monitor = builder.stall(Stall::default()).install().unwrap();
    monitor.watch_main_queue().unwrap();
    assert!(monitor.watch_main_queue().is_err(), "a second watch");
    while monitor.stats().turns == 0 {
        sleep(Duration::from_millis(10));
    }
    (folder, monitor)
}

/// Waits until no ping comes for a second.
fn comes_to_rest(monitor: &Monitor) {
    let start = Instant::now();
    let (mut turns, mut since) = (monitor.stats().turns, start);
    while since.elapsed() < Duration::from_secs(1) {
        sleep(Duration::from_millis(10));
        let now = monitor.stats().turns;
        if now != turns {
            (turns, since) = (now, Instant::now());
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{turns} turns");
    }
}

#[inline(never)]
fn hangs(until: &AtomicBool) {
    while !until.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    std::hint::black_box(());
}

/// A block hangs until it is a stall; its thread, and the reports.
fn stalls_once((folder, monitor): (tempfile::TempDir, Monitor)) -> (u64, Vec<Report>) {
    static OVER: AtomicBool = AtomicBool::new(false);
    OVER.store(false, Ordering::Relaxed);
    let (say, said) = channel();
    queue_up(Box::new(move || {
        hangs(&OVER);
        say.send(own_tid() as u64).unwrap();
    }));
    while monitor.stats().stalls == 0 {
        sleep(Duration::from_millis(10));
    }
    // It is counted before its report begins.
    sleep(Duration::from_millis(500));
    OVER.store(true, Ordering::Relaxed);
    let tid = said.recv().unwrap();
    while monitor.stats().stalled {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(monitor.stats().stalls, 1);
    drop(monitor);
    let stored = wedjat::store::reports(folder.path()).unwrap();
    let reports = stored.iter().map(|of| of.read().unwrap().report);
    (tid, reports.collect())
}

fn is_blamed(tid: u64, reports: &[Report]) {
    assert_eq!(reports.len(), 1);
    let first = &reports[0].threads[0];
    assert_eq!((first.id, first.main), (tid, true));
    let within = |pc: u64| {
        pc.checked_sub(hangs as *const () as u64)
            .is_some_and(|at| at < 512)
    };
    assert!(first.frames.iter().any(|frame| within(frame.pc)));
    let stacks = stacks(&reports[0]);
    let hanging = |stack: &&Vec<Frame>| stack.iter().any(|frame| within(frame.pc));
    let others = stacks.iter().filter(|stack| !hanging(stack));
    let others: Vec<_> = others.map(|stack| &stack[..stack.len().min(3)]).collect();
    // One may be of the moment before or after.
    assert!(
        others.len() <= 1 && stacks.len() > 1,
        "{others:#?} of {}",
        stacks.len()
    );
}

/// Each drain has another thread than the one before, and both live on.
#[test]
fn the_thread_that_works_the_queue_off_is_blamed() {
    let _only = only_monitor();
    for _ in 0..2 {
        let installed = install();
        comes_to_rest(&installed.1);
        let (tid, reports) = stalls_once(installed);
        assert_ne!(tid, own_tid() as u64);
        is_blamed(tid, &reports);
    }
}

#[test]
fn a_queue_at_rest_is_left_alone_and_is_no_stall() {
    let _only = only_monitor();
    let (_folder, monitor) = install();
    comes_to_rest(&monitor);
    assert_eq!(monitor.stats().stalls, 0);
    // The thread that installed works at something else meanwhile.
    let before = monitor.stats().turns;
    crate::support::stall::burn(Duration::from_millis(700));
    let stats = monitor.stats();
    assert_eq!((stats.turns, stats.stalls), (before, 0));
}

#[test]
fn a_block_that_may_take_long_is_no_stall() {
    let _only = only_monitor();
    let (_folder, monitor) = install();
    let (say, said) = channel();
    queue_up(Box::new(move || {
        let pause = threads::may_block();
        sleep(Duration::from_millis(1_500));
        drop(pause);
        say.send(()).unwrap();
    }));
    said.recv().unwrap();
    assert_eq!(monitor.stats().stalls, 0);
    let before = monitor.stats().turns;
    while monitor.stats().turns == before {
        queue_up(Box::new(|| sleep(Duration::from_millis(100))));
        sleep(Duration::from_millis(200));
    }
}

/// Waits until so many more pings were answered.
fn is_pinged(monitor: &Monitor, times: u64) {
    let (start, before) = (Instant::now(), monitor.stats().turns);
    while monitor.stats().turns < before + times {
        sleep(Duration::from_millis(10));
        assert!(start.elapsed() < Duration::from_secs(60), "no more pings");
    }
}

/// Nothing shows that such a queue is at rest.
#[test]
fn without_the_owners_word_pings_go_on_and_the_thread_of_the_last_one_is_blamed() {
    let _only = only_monitor();
    SHOWS_ITS_OWNER.store(false, Ordering::Relaxed);
    let installed = install();
    is_pinged(&installed.1, 10);
    let (tid, reports) = stalls_once(installed);
    SHOWS_ITS_OWNER.store(true, Ordering::Relaxed);
    is_blamed(tid, &reports);
}

/// Its own progress shows then if it works.
#[test]
fn a_queue_that_the_main_thread_owns_for_good_comes_to_rest() {
    let _only = only_monitor();
    OWNER_AT_REST.store(std::process::id(), Ordering::Relaxed);
    let (_folder, monitor) = install();
    comes_to_rest(&monitor);
    OWNER_AT_REST.store(0, Ordering::Relaxed);
    _dispatch_main_q.0[14].store(0, Ordering::Relaxed);
    assert_eq!(monitor.stats().stalls, 0);
}

#[test]
fn a_later_monitor_that_does_not_watch_the_queue_blames_its_own_thread() {
    let _only = only_monitor();
    let (folder, monitor) = install();
    drop((monitor, folder));
    let folder = tempfile::tempdir().unwrap();
    let builder = Monitor::builder("Unqueued", "1").directory(folder.path());
    let monitor = builder.stall(Stall::default()).install().unwrap();
    let heart = monitor.heartbeat();
    heart.turn(|| ());
    static OVER: AtomicBool = AtomicBool::new(false);
    let (say, said) = channel();
    queue_up(Box::new(move || {
        say.send(()).unwrap();
        hangs(&OVER);
    }));
    said.recv().unwrap();
    heart.turn(|| {
        while monitor.stats().stalls == 0 {
            sleep(Duration::from_millis(10));
        }
        // It is counted before its report begins.
        sleep(Duration::from_millis(500));
    });
    OVER.store(true, Ordering::Relaxed);
    drop(monitor);
    let stored = wedjat::store::reports(folder.path()).unwrap();
    let report = stored[0].read().unwrap().report;
    let first = &report.threads[0];
    assert_eq!((first.id, first.main), (own_tid() as u64, true));
}
