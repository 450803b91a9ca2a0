//! Threads besides the one that installed: watched, named, blamed.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread::{scope, sleep, spawn};
use std::time::{Duration, Instant};

use crate::support::stall::{
    self, DISTURBED, all_are_over, block_all_but_libdispatchs, deadline::starved, delay,
    only_monitor, own_tid, stacks, undisturbed,
};
use wedjat::report::{Frame, Report, StallClass, StallOutcome, Thread, ThreadState};
use wedjat::{Monitor, MonitorError, Stall, threads, watch_thread};

pub const LONG: Duration = Duration::from_millis(700);
pub const SHORT: Duration = Duration::from_millis(100);

pub fn install(stall: Option<Stall>) -> (tempfile::TempDir, Monitor) {
    let folder = tempfile::tempdir().unwrap();
    let builder = Monitor::builder("Threads", "1").directory(folder.path());
    let builder = match stall {
        Some(stall) => builder.stall(stall),
        None => builder,
    };
    (folder, builder.install().unwrap())
}

/// The reports of stalls, oldest first.
pub fn reports(folder: &Path) -> Vec<Report> {
    let stored = wedjat::store::reports(folder).unwrap();
    stored.iter().map(|of| of.read().unwrap().report).collect()
}

/// A scope ends before its threads do.
pub fn all_have_left(monitor: &Monitor) {
    while monitor.stats().watched_threads > 0 {
        sleep(Duration::from_millis(1));
    }
}

#[inline(never)]
pub fn hangs() {
    sleep(LONG);
    std::hint::black_box(());
}

#[test]
fn a_thread_that_hangs_is_reported_by_its_name_with_the_main_thread_beside_it() {
    for stall in [None, Some(Stall::default())] {
        let play = || hung_beside_main(stall);
        undisturbed(DISTURBED, play, |(tid, took, reports)| {
            assert_eq!(reports.len(), 1);
            let event = reports[0].event.as_ref().unwrap();
            let watched = event.watched.as_ref().unwrap();
            assert_eq!((event.thread, watched.name.as_str()), (Some(tid), "render"));
            assert_eq!((watched.number, watched.pool), (None, None));
            assert_eq!(event.class, Some(StallClass::Blocked));
            let first = &reports[0].threads[0];
            assert_eq!((first.id, first.main), (tid, false));
            let is_main = |thread: &Thread| thread.main && !thread.frames.is_empty();
            assert!(reports[0].threads.iter().any(is_main));
            let end = reports[0].stall_end.as_ref().unwrap();
            assert!(end.duration.abs_diff(took) < SHORT, "{end:?}, not {took:?}");
            assert!(!reports[0].samples.is_empty());
        });
    }
}

/// The id of a thread that hung, for how long, and the reports of it; nanoseconds for which the threads had no CPU.
fn hung_beside_main(stall: Option<Stall>) -> ((u64, Duration, Vec<Report>), u64) {
    let _only = only_monitor();
    let (folder, monitor) = install(stall);
    let hung = spawn(|| {
        let watch = watch_thread("render", Stall::default()).unwrap();
        let heart = watch.heartbeat();
        heart.turn(|| ());
        let begin = Instant::now();
        heart.turn(hangs);
        (own_tid() as u64, begin.elapsed(), delay(own_tid()))
    });
    let (tid, took, delayed) = hung.join().unwrap();
    all_are_over(&monitor, 1);
    all_have_left(&monitor);
    let stats = monitor.stats();
    assert_eq!((stats.stalls, stats.stalled, stats.turns), (1, false, 0));
    assert_eq!((stats.stray_beats, stats.watched_threads), (0, 0));
    let starved = starved() + delayed;
    drop(monitor);
    ((tid, took, reports(folder.path())), starved)
}

#[test]
fn two_threads_that_stall_at_once_are_both_reported_and_a_pool_is_counted() {
    let _only = only_monitor();
    let (folder, monitor) = install(Some(Stall::default()));
    monitor.launched();
    let start = Arc::new(Barrier::new(4));
    let pool: Vec<_> = (0..4)
        .map(|index| {
            let start = Arc::clone(&start);
            spawn(move || {
                threads::enter("pool", Stall::default());
                if index < 3 {
                    threads::begin();
                    threads::end();
                }
                start.wait();
                if index < 2 {
                    threads::begin();
                    hangs();
                    threads::end();
                }
                start.wait();
            })
        })
        .collect();
    pool.into_iter().for_each(|thread| thread.join().unwrap());
    all_are_over(&monitor, 2);
    assert_eq!(monitor.stats().stalls, 2);
    drop(monitor);
    let reports = reports(folder.path());
    let mut counts: Vec<_> = reports
        .iter()
        .map(|report| {
            let watched = report.event.as_ref().unwrap().watched.as_ref().unwrap();
            assert_eq!(watched.name, "pool");
            assert!(report.samples.len() + report.threads.len() > 2);
            assert!(report.stall_end.as_ref().unwrap().duration > LONG - SHORT);
            (
                watched.pool.unwrap(),
                watched.at_rest.unwrap(),
                watched.stalled.unwrap(),
            )
        })
        .collect();
    counts.sort_unstable();
    assert_eq!(counts.len(), 2);
    assert_eq!(counts[1], (4, 2, 2), "{counts:?}");
    let ids = reports.iter().map(|report| report.threads[0].id);
    let ids: std::collections::BTreeSet<_> = ids.collect();
    assert_eq!(ids.len(), 2);
}

#[test]
fn a_member_that_never_beats_is_no_stall_and_nothing_wakes_for_it() {
    let _only = only_monitor();
    let (_folder, monitor) = install(None);
    let (end, ended) = channel::<()>();
    let ended = std::sync::Mutex::new(ended);
    scope(|scope| {
        for _ in 0..200 {
            scope.spawn(|| {
                threads::enter("blocking", Stall::default());
                let _ = ended
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
                    .recv();
            });
        }
        while monitor.stats().watched_threads < 200 {
            sleep(Duration::from_millis(10));
        }
        sleep(LONG);
        let before = monitor.stats().watchdog;
        sleep(LONG * 2);
        let stats = monitor.stats();
        assert_eq!((stats.stalls, stats.watchdog), (0, before));
        drop(end);
    });
    all_have_left(&monitor);
}

#[test]
fn a_worker_that_always_has_work_is_no_stall_and_a_long_poll_is() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    spawn(|| {
        threads::enter("executor", Stall::default());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let start = std::time::Instant::now();
        while start.elapsed() < LONG * 2 {
            let task = std::pin::pin!(threads::polls(async { sleep(Duration::from_millis(2)) }));
            assert!(task.poll(&mut context).is_ready());
        }
        let task = std::pin::pin!(threads::polls(async { hangs() }));
        assert!(task.poll(&mut context).is_ready());
    })
    .join()
    .unwrap();
    all_are_over(&monitor, 1);
    assert_eq!(monitor.stats().stalls, 1);
    drop(monitor);
    let end = reports(folder.path())[0].stall_end.clone().unwrap();
    assert!(end.duration < LONG + SHORT, "{end:?}");
}

#[test]
fn a_thread_that_ends_in_a_stall_ends_it() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    spawn(|| {
        let watch = watch_thread("short", Stall::default()).unwrap();
        watch.heartbeat().turn(|| ());
        watch.heartbeat().begin();
        hangs();
    })
    .join()
    .unwrap();
    // Without the guard's destructor, the end of the thread ends the watch.
    spawn(|| {
        let watch = watch_thread("forgotten", Stall::default()).unwrap();
        watch.heartbeat().begin();
        hangs();
        std::mem::forget(watch);
    })
    .join()
    .unwrap();
    all_are_over(&monitor, 2);
    all_have_left(&monitor);
    let stats = monitor.stats();
    assert_eq!(
        (stats.stalls, stats.stalled, stats.watched_threads),
        (2, false, 0)
    );
    drop(monitor);
    let reports = reports(folder.path());
    assert_eq!(reports.len(), 2);
    let how = reports.into_iter().map(|of| of.stall_end.unwrap().how);
    // The guard of the first ended its watch, before the thread ended.
    assert_eq!(
        how.collect::<Vec<_>>(),
        [StallOutcome::Recovered, StallOutcome::ThreadEnded]
    );
}

#[test]
fn threads_come_and_go_by_the_thousand_and_leave_nothing() {
    let _only = only_monitor();
    let (_folder, monitor) = install(None);
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    spawn(|| threads::enter("many", Stall::default()))
        .join()
        .unwrap();
    let before = files();
    for _ in 0..40 {
        scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    threads::enter("many", Stall::default());
                    threads::begin();
                    threads::end();
                });
            }
        });
    }
    sleep(SHORT);
    let stats = monitor.stats();
    assert_eq!(
        (stats.stalls, stats.watched_threads, stats.refused_threads),
        (0, 0, 0)
    );
    assert_eq!(files(), before);
}

#[test]
fn the_257th_thread_is_refused_and_counted() {
    let _only = only_monitor();
    let (_folder, monitor) = install(None);
    let all = Barrier::new(257);
    scope(|scope| {
        for _ in 0..256 {
            scope.spawn(|| {
                threads::enter("all", Stall::default());
                all.wait();
                all.wait();
            });
        }
        all.wait();
        let refused = scope.spawn(|| watch_thread("one more", Stall::default()).err());
        let refused = refused.join().unwrap();
        assert!(matches!(refused, Some(MonitorError::TooManyThreads)));
        scope
            .spawn(|| threads::enter("one more", Stall::default()))
            .join()
            .unwrap();
        let stats = monitor.stats();
        assert_eq!((stats.watched_threads, stats.refused_threads), (256, 2));
        all.wait();
    });
    all_have_left(&monitor);
    let again = spawn(|| watch_thread("again", Stall::default()).is_ok());
    assert!(again.join().unwrap());
}

#[test]
fn misuse_is_an_error_and_the_guard_ends_the_watch() {
    let _only = only_monitor();
    let none = watch_thread("none", Stall::default()).err();
    assert!(matches!(none, Some(MonitorError::NoMonitor)));
    let (_folder, monitor) = install(None);
    let own = watch_thread("main", Stall::default()).err();
    assert!(
        matches!(own, Some(MonitorError::ThreadWatched)),
        "the thread that installed"
    );
    spawn(|| {
        let watch = watch_thread("first", Stall::default()).unwrap();
        let twice = watch_thread("second", Stall::default()).err();
        assert!(matches!(twice, Some(MonitorError::ThreadWatched)));
        let heart = watch.heartbeat();
        drop(watch);
        heart.begin();
        sleep(LONG);
        let watch = watch_thread("third", Stall::default()).unwrap();
        watch.heartbeat().turn(|| heart.turn(|| ()));
    })
    .join()
    .unwrap();
    let stats = monitor.stats();
    assert_eq!((stats.stalls, stats.stray_beats), (0, 0));
}

#[test]
fn a_monitor_that_is_dropped_ends_the_watch_and_the_next_has_threads_of_its_own() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    let (say, said) = channel::<()>();
    let (answer, answers) = channel::<()>();
    let thread = spawn(move || {
        let watch = watch_thread("both", Stall::default()).unwrap();
        watch.heartbeat().turn(|| ());
        watch.heartbeat().begin();
        answer.send(()).unwrap();
        said.recv().unwrap();
        // Its watch is over.
        watch.heartbeat().turn(|| sleep(LONG));
        drop(watch);
        let again = watch_thread("both", Stall::default()).unwrap();
        again.heartbeat().turn(hangs);
    });
    answers.recv().unwrap();
    sleep(LONG);
    drop(monitor);
    let first = reports(folder.path());
    assert_eq!(first.len(), 1);
    assert_eq!(
        first[0].stall_end.as_ref().unwrap().how,
        StallOutcome::Uninstalled
    );
    let (folder, monitor) = install(None);
    say.send(()).unwrap();
    thread.join().unwrap();
    all_are_over(&monitor, 1);
    assert_eq!(monitor.stats().stalls, 1);
    drop(monitor);
    assert_eq!(reports(folder.path()).len(), 1);
}

/// A process of its own, whose folder of reports is printed first; it is killed while `hang` lasts.
fn killed_in(test: &str, hang: impl FnOnce(&Monitor)) -> Option<tempfile::TempDir> {
    if stall::is_child() {
        let (folder, monitor) = install(None);
        hang(&monitor);
        println!("ready");
        println!("{}", folder.path().display());
        stall::wait_for_parent();
        return None;
    }
    let mut played = stall::start(test);
    let folder = played.line();
    played.signal(libc::SIGKILL);
    played.end();
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    std::fs::remove_dir_all(folder).unwrap();
    Some(copy)
}

/// Hangs on a thread that is watched so, and waits until that is certain.
fn hang_for_ever(monitor: &Monitor, stall: Stall) {
    spawn(move || {
        let watch = watch_thread("stuck", stall).unwrap();
        watch.heartbeat().begin();
        sleep(Duration::from_secs(60));
    });
    while monitor.stats().stalls == 0 {
        sleep(Duration::from_millis(10));
    }
}

/// True if the launch that left this folder ended in a stall, as the next one finds it.
fn ended_stalled(folder: &tempfile::TempDir) -> bool {
    let _only = only_monitor();
    let builder = Monitor::builder("Threads", "1").directory(folder.path());
    let monitor = builder.install().unwrap();
    monitor.previous_launch().unwrap().how == wedjat::store::HowEnded::Stalled
}

#[test]
fn a_launch_that_ends_while_some_thread_hangs_has_not_ended_stalled() {
    let test = "threads::a_launch_that_ends_while_some_thread_hangs_has_not_ended_stalled";
    let hang = |monitor: &Monitor| hang_for_ever(monitor, Stall::default());
    if let Some(folder) = killed_in(test, hang) {
        assert!(!ended_stalled(&folder));
    }
}

#[test]
fn a_launch_that_ends_while_an_essential_thread_hangs_has_ended_stalled() {
    let test = "threads::a_launch_that_ends_while_an_essential_thread_hangs_has_ended_stalled";
    let hang = |monitor: &Monitor| hang_for_ever(monitor, Stall::default().essential(true));
    if let Some(folder) = killed_in(test, hang) {
        assert!(ended_stalled(&folder));
    }
}

#[test]
fn a_watched_thread_that_crashes_is_the_one_of_the_report() {
    if stall::is_child() {
        let folder = tempfile::tempdir().unwrap().keep();
        let builder = Monitor::builder("Threads", "1").directory(&folder);
        let monitor = builder.crash(wedjat::Crash::default()).install().unwrap();
        println!("ready");
        println!("{}", folder.display());
        let crash = || {
            let watch = watch_thread("render", Stall::default()).unwrap();
            println!("{}", own_tid());
            watch.heartbeat().turn(|| std::process::abort());
        };
        spawn(crash).join().unwrap();
        drop(monitor);
        return;
    }
    let test = "threads::a_watched_thread_that_crashes_is_the_one_of_the_report";
    let mut played = stall::start(test);
    let (folder, tid) = (played.line(), played.line());
    played.end();
    let stored = wedjat::store::reports(Path::new(&folder)).unwrap();
    let report = stored[0].read().unwrap().report;
    let crashed: Vec<_> = report
        .threads
        .iter()
        .filter(|thread| thread.crashed)
        .collect();
    assert_eq!(crashed.len(), 1);
    assert_eq!(crashed[0].id.to_string(), tid);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn in_a_child_of_fork_nothing_is_watched_and_nothing_hangs() {
    let _only = only_monitor();
    let (_folder, monitor) = install(None);
    let status = spawn(|| {
        let watch = watch_thread("forks", Stall::default()).unwrap();
        watch.heartbeat().begin();
        // SAFETY: the child calls only what is asserted to work there, and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            watch.heartbeat().turn(|| ());
            threads::begin();
            threads::end();
            drop(watch);
            let refused = watch_thread("again", Stall::default()).err();
            let is_right = matches!(refused, Some(MonitorError::Forked));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        watch.heartbeat().end();
        status
    });
    assert_eq!(status.join().unwrap(), 0);
    assert_eq!(monitor.stats().stray_beats, 0);
}

#[inline(never)]
pub fn computes(until: &std::sync::atomic::AtomicBool) {
    while !until.load(std::sync::atomic::Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    std::hint::black_box(());
}

pub fn is_in_computes(frame: &Frame) -> bool {
    let begin = computes as *const () as u64;
    frame.pc.checked_sub(begin).is_some_and(|at| at < 512)
}

/// The captures' own signal does not reach it.
#[test]
fn a_busy_thread_with_libdispatchs_mask_keeps_its_samples_and_answers_a_live_report() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let tid = scope(|scope| {
        let (say, said) = channel();
        let is_over = &is_over;
        scope.spawn(move || {
            block_all_but_libdispatchs();
            let watch = watch_thread("worker", Stall::default()).unwrap();
            watch.heartbeat().begin();
            say.send(own_tid() as u64).unwrap();
            computes(is_over);
            watch.heartbeat().end();
        });
        let tid = said.recv().unwrap();
        let path = monitor.record("look").unwrap();
        let read = wedjat::report::read(&std::fs::read(path).unwrap());
        let report = read.unwrap().report;
        let mut threads = report.threads.iter();
        let thread = threads.find(|thread| thread.id == tid).unwrap();
        assert!(thread.frames.iter().any(is_in_computes), "{thread:?}");
        assert_eq!(report.capture.unwrap().unanswered.unwrap_or(0), 0);
        while monitor.stats().captures < 40 {
            sleep(Duration::from_millis(10));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        tid
    });
    all_have_left(&monitor);
    drop(monitor);
    let reports = reports(folder.path());
    let stall = reports.iter().find(|report| report.stall_end.is_some());
    let stall = stall.unwrap();
    assert_eq!(stall.threads[0].id, tid);
    let samples = stall.samples.iter().zip(stacks(stall));
    let within = samples.filter(|(_, stack)| stack.iter().any(is_in_computes));
    let count: u64 = within.map(|(sample, _)| sample.count).sum();
    assert!(count >= 35, "{count} samples");
}

/// As the threads of some runtimes do: they block nearly all signals.
#[test]
fn a_thread_that_computes_and_blocks_all_signals_is_said_to() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    scope(|scope| {
        let (say, said) = channel();
        let is_over = &is_over;
        scope.spawn(move || {
            // SAFETY: plain memory, of which zeros are a value; concerns the calling thread alone.
            unsafe {
                let mut all: libc::sigset_t = std::mem::zeroed();
                libc::sigfillset(&raw mut all);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
            }
            let watch = watch_thread("blocks", Stall::default()).unwrap();
            watch.heartbeat().begin();
            say.send(own_tid() as u64).unwrap();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            watch.heartbeat().end();
        });
        let tid = said.recv().unwrap();
        let path = monitor.record("look").unwrap();
        let report = wedjat::report::read(&std::fs::read(path).unwrap())
            .unwrap()
            .report;
        let thread = report
            .threads
            .iter()
            .find(|thread| thread.id == tid)
            .unwrap();
        assert_eq!(thread.state, Some(ThreadState::SignalBlocked));
        while monitor.stats().stalls == 0 {
            sleep(Duration::from_millis(10));
        }
        // It is counted before it is captured.
        sleep(LONG);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    all_have_left(&monitor);
    drop(monitor);
    let is_stall = |report: &&Report| report.stall_end.is_some();
    let reports = reports(folder.path());
    let stall = reports.iter().find(is_stall).unwrap();
    assert_eq!(stall.threads[0].state, Some(ThreadState::SignalBlocked));
}
