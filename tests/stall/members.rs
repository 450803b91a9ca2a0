//! Watched threads by any name, with limits of their own, in and out of pools: what a report and the counters show of each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Waker};
use std::thread::{scope, sleep, spawn};
use std::time::Duration;

use crate::support::stall::{DISTURBED, all_are_over, only_monitor, own_tid, undisturbed};
use crate::threads::{LONG, all_have_left, computes, hangs, install, is_in_computes, reports};
use wedjat::report::Report;
use wedjat::stall::StallEvent;
use wedjat::{InstallError, Monitor, MonitorError, RateLimit, Stall, threads, watch_thread};

/// The name of the watched thread of a report.
fn name(report: &Report) -> &str {
    let event = report.event.as_ref().unwrap();
    &event.watched.as_ref().unwrap().name
}

/// A thread of this name hangs once.
fn hangs_as(name: &str, stall: Stall) {
    scope(|scope| {
        scope.spawn(|| {
            let watch = watch_thread(name, stall).unwrap();
            watch.heartbeat().turn(|| ());
            watch.heartbeat().turn(hangs);
        });
    });
}

#[test]
fn a_name_may_be_empty_or_long_or_have_lines() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    let long = "ä".repeat(150);
    let names = ["", long.as_str(), "two\nlines"];
    for (name, count) in names.into_iter().zip(1..) {
        hangs_as(name, Stall::default());
        all_are_over(&monitor, count);
    }
    drop(monitor);
    let reports = reports(folder.path());
    let mut found: Vec<&str> = reports.iter().map(name).collect();
    found.sort_unstable();
    assert_eq!(found, ["", "two\nlines", &"ä".repeat(32)]);
}

#[test]
fn a_thread_enters_once_and_leaves_with_its_guard() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    let watched = || monitor.stats().watched_threads;
    scope(|scope| {
        scope.spawn(|| {
            threads::enter("first", Stall::default());
            threads::enter("second", Stall::default());
            assert_eq!(watched(), 1);
            let guard = watch_thread("third", Stall::default()).err();
            assert!(matches!(guard, Some(MonitorError::ThreadWatched)));
            threads::begin();
            hangs();
            threads::end();
        });
    });
    all_are_over(&monitor, 1);
    scope(|scope| {
        scope.spawn(|| {
            let guard = watch_thread("alone", Stall::default()).unwrap();
            threads::enter("first", Stall::default());
            drop(guard);
            assert_eq!(watched(), 0);
            threads::enter("first", Stall::default());
            assert_eq!(watched(), 1);
        });
    });
    all_have_left(&monitor);
    assert_eq!(monitor.stats().refused_threads, 0);
    drop(monitor);
    // Nobody is there: nothing happens.
    threads::enter("late", Stall::default());
    threads::begin();
    threads::end();
    let late = watch_thread("late", Stall::default()).err();
    assert!(matches!(late, Some(MonitorError::NoMonitor)));
    let reports = reports(folder.path());
    assert_eq!(reports.len(), 1);
    let watched = reports[0].event.as_ref().unwrap().watched.as_ref().unwrap();
    let counts = [
        watched.number,
        watched.pool,
        watched.at_rest,
        watched.stalled,
    ];
    assert_eq!(
        (watched.name.as_str(), counts),
        ("first", [Some(1), Some(1), Some(0), Some(1)])
    );
}

/// One of its own with the pool's name, and two of the pool.
#[test]
fn a_thread_of_its_own_is_no_member_of_a_pool_that_has_its_name() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    let (end, ended) = channel::<()>();
    let until_counted = || {
        while monitor.stats().stalls == 0 {
            sleep(Duration::from_millis(10));
        }
    };
    let pool = |hang: bool| {
        threads::enter("same", Stall::default());
        threads::begin();
        if hang {
            until_counted();
        }
        threads::end();
        until_counted();
    };
    scope(|scope| {
        let alone = scope.spawn(move || {
            let watch = watch_thread("same", Stall::default()).unwrap();
            watch.heartbeat().turn(|| ());
            ended.recv().unwrap_err();
        });
        while monitor.stats().watched_threads == 0 {
            sleep(Duration::from_millis(1));
        }
        scope.spawn(|| pool(false));
        while monitor.stats().watched_threads == 1 {
            sleep(Duration::from_millis(1));
        }
        scope.spawn(|| pool(true)).join().unwrap();
        drop(end);
        alone.join().unwrap();
    });
    all_are_over(&monitor, 1);
    drop(monitor);
    let reports = reports(folder.path());
    let watched = reports[0].event.as_ref().unwrap().watched.as_ref().unwrap();
    let counts = (watched.pool, watched.at_rest, watched.stalled);
    assert_eq!(counts, (Some(2), Some(1), Some(1)));
}

#[test]
fn beats_by_another_thread_are_counted_and_blame_nobody() {
    let _only = only_monitor();
    let (_folder, monitor) = install(None);
    let (say, said) = channel();
    let (end, ended) = channel::<()>();
    let owner = spawn(move || {
        let watch = watch_thread("owner", Stall::default()).unwrap();
        watch.heartbeat().turn(|| ());
        say.send(watch.heartbeat()).unwrap();
        let _ = ended.recv();
    });
    let heart = said.recv().unwrap();
    heart.turn(|| sleep(LONG));
    let stats = monitor.stats();
    assert_eq!((stats.stray_beats, stats.stalls), (2, 0));
    drop(end);
    owner.join().unwrap();
}

#[test]
fn each_thread_has_thresholds_of_its_own() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    let patient = Stall::default().timeout(Duration::from_secs(20));
    scope(|scope| {
        scope.spawn(|| hangs_as("patient", patient));
        scope.spawn(|| hangs_as("strict", Stall::default().strikes(2)));
    });
    all_are_over(&monitor, 1);
    assert_eq!(monitor.stats().stalls, 1);
    drop(monitor);
    let reports = reports(folder.path());
    assert_eq!(reports.iter().map(name).collect::<Vec<_>>(), ["strict"]);
    let thresholds = reports[0].event.as_ref().unwrap().thresholds.as_ref();
    assert_eq!(thresholds.unwrap().strikes, 2);
}

#[test]
fn a_pool_has_one_limit_of_reports_and_another_name_one_of_its_own() {
    let _only = only_monitor();
    let folder = tempfile::tempdir().unwrap();
    let limit = RateLimit::default().per_hour(1);
    let builder = Monitor::builder("Limited", "1").directory(folder.path());
    let monitor = builder.rate_limit(limit).install().unwrap();
    let member = || {
        threads::enter("pool", Stall::default());
        threads::begin();
        hangs();
        threads::end();
    };
    for count in 1..=2 {
        spawn(member).join().unwrap();
        all_are_over(&monitor, count);
    }
    hangs_as("other", Stall::default());
    all_are_over(&monitor, 3);
    let losses = monitor.stats().losses;
    assert_eq!(losses.get("quota"), Some(&1), "{losses:?}");
    drop(monitor);
    let reports = reports(folder.path());
    let mut names: Vec<&str> = reports.iter().map(name).collect();
    names.sort_unstable();
    assert_eq!(names, ["other", "pool"]);
}

fn panics() {
    std::panic::resume_unwind(Box::new(()));
}

#[test]
fn a_poll_that_panics_has_ended_its_turn() {
    let _only = only_monitor();
    let (_folder, monitor) = install(None);
    spawn(|| {
        threads::enter("executor", Stall::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut task = pin!(threads::polls(async { panics() }));
        let polled = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut context)));
        assert!(polled.is_err());
        sleep(LONG);
    })
    .join()
    .unwrap();
    assert_eq!(monitor.stats().stalls, 0);
}

#[test]
fn a_pause_of_a_watched_thread_is_its_own() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    scope(|scope| {
        scope.spawn(|| {
            let watch = watch_thread("pauses", Stall::default()).unwrap();
            watch.heartbeat().turn(|| {
                let _pause = threads::may_block();
                sleep(LONG * 2);
            });
        });
        scope.spawn(|| hangs_as("hangs", Stall::default()));
    });
    all_are_over(&monitor, 1);
    drop(monitor);
    let reports = reports(folder.path());
    assert_eq!(reports.iter().map(name).collect::<Vec<_>>(), ["hangs"]);
}

#[test]
fn a_second_install_is_refused_and_changes_nothing_for_watched_threads() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    scope(|scope| {
        scope.spawn(|| {
            let watch = watch_thread("stays", Stall::default()).unwrap();
            watch.heartbeat().turn(|| ());
            let second = Monitor::builder("Second", "1").directory(folder.path());
            let second = second.stall(Stall::default()).install();
            assert!(matches!(second, Err(InstallError::AlreadyInstalled)));
            watch.heartbeat().turn(hangs);
        });
    });
    all_are_over(&monitor, 1);
    drop(monitor);
    assert_eq!(name(&reports(folder.path())[0]), "stays");
}

/// Of a thread that computes: its class, and that the app's callback has its id.
#[test]
fn a_thread_that_computes_is_busy_and_the_callback_has_its_id() {
    let play = || (busy_class(), 0);
    undisturbed(DISTURBED, play, |class| {
        // Beside other load it may have waited for a CPU more than it computed.
        assert!(matches!(&class[..], "busy" | "starved"), "{class}");
    });
}

/// The class of a stall of a thread that computes.
fn busy_class() -> String {
    let _only = only_monitor();
    let folder = tempfile::tempdir().unwrap();
    static BEGAN: AtomicU64 = AtomicU64::new(0);
    static ENDED: AtomicU64 = AtomicU64::new(0);
    let note = |event: &StallEvent<'_>| match event {
        StallEvent::Began(info) => BEGAN.store(info.thread, Ordering::Relaxed),
        StallEvent::Ended(end) => ENDED.store(end.info.thread, Ordering::Relaxed),
        _ => {}
    };
    let builder = Monitor::builder("Busy", "1").directory(folder.path());
    let monitor = builder.on_stall(note).install().unwrap();
    let is_over = AtomicBool::new(false);
    let tid = scope(|scope| {
        let busy = scope.spawn(|| {
            let watch = watch_thread("busy", Stall::default()).unwrap();
            watch.heartbeat().turn(|| computes(&is_over));
            own_tid() as u64
        });
        while monitor.stats().captures < 10 {
            sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Relaxed);
        busy.join().unwrap()
    });
    all_are_over(&monitor, 1);
    let longest = monitor.stats().longest;
    drop(monitor);
    let ids = [&BEGAN, &ENDED].map(|id| id.load(Ordering::Relaxed));
    assert_eq!(ids, [tid, tid]);
    let report = &reports(folder.path())[0];
    let end = report.stall_end.as_ref().unwrap();
    assert_eq!(end.duration, longest);
    report.class_word().unwrap().to_owned()
}

/// Libc's plain mutex.
#[cfg(target_env = "gnu")]
struct Lock(std::cell::UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: that is what a mutex is for.
#[cfg(target_env = "gnu")]
unsafe impl Sync for Lock {}

#[cfg(target_env = "gnu")]
impl Lock {
    fn lock(&self) {
        // SAFETY: it is initialised, and is not moved.
        let done = unsafe { libc::pthread_mutex_lock(self.0.get()) };
        assert_eq!(done, 0);
    }

    fn unlock(&self) {
        // SAFETY: as above.
        let done = unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        assert_eq!(done, 0);
    }
}

#[cfg(target_env = "gnu")]
#[test]
fn a_watched_thread_that_waits_for_a_lock_has_its_holder_beside_it() {
    static LOCK: Lock = Lock(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    let is_over = AtomicBool::new(false);
    let holder = scope(|scope| {
        let (say, said) = channel();
        let is_over = &is_over;
        scope.spawn(move || {
            LOCK.lock();
            say.send(own_tid() as u64).unwrap();
            computes(is_over);
            LOCK.unlock();
        });
        let holder = said.recv().unwrap();
        scope.spawn(|| {
            let watch = watch_thread("waits", Stall::default()).unwrap();
            watch.heartbeat().turn(|| ());
            watch.heartbeat().turn(|| {
                LOCK.lock();
                LOCK.unlock();
            });
        });
        while monitor.stats().stalls == 0 {
            sleep(Duration::from_millis(10));
        }
        // It is counted before its report begins.
        sleep(Duration::from_secs(1));
        is_over.store(true, Ordering::Relaxed);
        holder
    });
    all_are_over(&monitor, 1);
    drop(monitor);
    let report = &reports(folder.path())[0];
    let reason = report.reason().unwrap();
    let expected = format!("waits for a lock held by thread {holder} ");
    assert!(reason.starts_with(&expected), "{reason}");
    let beside = report.threads.iter().find(|thread| thread.id == holder);
    assert!(beside.unwrap().frames.iter().any(is_in_computes));
}

/// A child that installs its own monitor watches threads of its own; the parent's watch is as it was.
#[test]
fn a_child_of_fork_may_watch_threads_of_its_own() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    let of_child = tempfile::tempdir().unwrap();
    let parents = spawn({
        let of_child = of_child.path().to_owned();
        move || {
            let watch = watch_thread("of the parent", Stall::default()).unwrap();
            watch.heartbeat().turn(|| ());
            // SAFETY: the child calls what wedjat promises to work there, and `_exit`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let watched = catch_unwind(|| watches_in_child(&of_child));
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(i32::from(!matches!(watched, Ok(true)))) };
            }
            let mut status = -1;
            // SAFETY: our own child.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            watch.heartbeat().turn(hangs);
            status
        }
    });
    assert_eq!(parents.join().unwrap(), 0);
    all_are_over(&monitor, 1);
    drop(monitor);
    let names = |folder: &Path| -> Vec<String> {
        let reports = reports(folder);
        reports
            .iter()
            .map(|report| name(report).to_owned())
            .collect()
    };
    assert_eq!(names(folder.path()), ["of the parent"]);
    assert_eq!(names(of_child.path()), ["of the child"]);
}

fn watches_in_child(folder: &Path) -> bool {
    let builder = Monitor::builder("Child", "1").directory(folder);
    let monitor = builder.install().unwrap();
    let is_watched = spawn(|| {
        let watch = watch_thread("of the child", Stall::default());
        watch.is_ok_and(|watch| {
            watch.heartbeat().turn(|| ());
            watch.heartbeat().turn(hangs);
            true
        })
    });
    let is_watched = is_watched.join().unwrap();
    if is_watched {
        all_are_over(&monitor, 1);
    }
    is_watched && monitor.stats().stalls == 1
}
