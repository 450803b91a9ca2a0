//! What the app is told of stalls and reports: by callbacks, which may do what they like, and by counters.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use wedjat::report::{CutReason, EventKind, ThreadState};
use wedjat::stall::StallEvent;
use wedjat::{Crash, Monitor, MonitorBuilder, RateLimit, Stall};

use crate::support::stall::{is_child, tell_all_starved};
use crate::{MS, builder, folder, reports, stalls};

/// The monitor, for a callback that drops it.
static KEPT: Mutex<Option<Monitor>> = Mutex::new(None);

/// Installs a monitor, which it keeps, and stalls until a callback tells of it.
fn stalls_until_told<T>(builder: MonitorBuilder, was_told: &Receiver<T>) {
    let monitor = builder.install().unwrap();
    let heart = monitor.heartbeat();
    *KEPT.lock().unwrap() = Some(monitor);
    let deadline = Instant::now() + Duration::from_secs(20);
    while was_told.try_recv().is_err() {
        assert!(Instant::now() < deadline);
        heart.turn(|| sleep(60 * MS));
    }
}

#[test]
fn a_stall_is_reported_as_it_comes_and_goes_and_is_counted() {
    let test = "callbacks::a_stall_is_reported_as_it_comes_and_goes_and_is_counted";
    if is_child() {
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = events.clone();
        let monitor = builder(&folder(test))
            .stall(Stall::default())
            .rate_limit(RateLimit::default().per_hour(0))
            .on_stall(move |event| {
                told.lock().unwrap().push(match event {
                    StallEvent::Began(info) => format!("began {}", info.lasted >= 150 * MS),
                    StallEvent::Ended(end) => format!("ended {}", end.outcome.as_str()),
                    _ => "something else".to_owned(),
                });
            })
            .install()
            .unwrap();
        println!("ready");
        stalls(&monitor, |stats| !stats.stalled_time.is_zero());
        tell_all_starved();
        let stats = monitor.stats();
        assert_eq!((stats.turns, stats.stalls, stats.stalled), (2, 1, false));
        assert!(stats.longest >= 500 * MS && stats.captures >= 1 && stats.reports == 0);
        assert_eq!(stats.losses, [("quota", 1)].into());
        // It stands in every later report, not only in those of stalls.
        let path = monitor.record("now").unwrap();
        assert_eq!(monitor.stats().bytes, path.metadata().unwrap().len());
        drop(monitor);
        assert_eq!(*events.lock().unwrap(), ["began true", "ended recovered"]);
        return;
    }
    let reports = reports(test);
    assert_eq!(reports.len(), 1, "the quota is 0");
    let loss = reports[0].loss.as_ref().unwrap();
    assert_eq!(loss.counts, [("quota".to_owned(), 1)]);
}

/// A stall for which this hour has no more stacks has none, and its thread is none that did not answer.
#[test]
fn a_stall_beyond_the_quota_of_stacks_says_so() {
    let test = "callbacks::a_stall_beyond_the_quota_of_stacks_says_so";
    if is_child() {
        let monitor = builder(&folder(test))
            .stall(Stall::default())
            .rate_limit(RateLimit::default().captures_per_hour(0))
            .install()
            .unwrap();
        println!("ready");
        stalls(&monitor, |stats| stats.reports > 0);
        tell_all_starved();
        assert_eq!(monitor.stats().losses, [("quota", 1)].into());
        return;
    }
    let report = &reports(test)[0];
    let thread = &report.threads[0];
    assert!(thread.frames.is_empty() && thread.end.is_none());
    assert_eq!(thread.state, Some(ThreadState::Blocked));
    let cut = report.capture.as_ref().unwrap().cut;
    assert_eq!(cut, Some(CutReason::Quota));
}

/// A callback that takes its time and then drops the monitor, while the report of a panic waits for it.
#[test]
fn a_callback_may_drop_the_monitor_while_another_report_waits() {
    let test = "callbacks::a_callback_may_drop_the_monitor_while_another_report_waits";
    if is_child() {
        println!("ready");
        let (told, was_told) = std::sync::mpsc::channel();
        let mut first = true;
        let monitor = builder(&folder(test))
            .stall(Stall::default().timeout(10 * MS).strikes(3))
            .crash(Crash::default())
            .on_report(move |path| {
                told.send(path.exists()).unwrap();
                if std::mem::take(&mut first) {
                    sleep(800 * MS);
                    drop(KEPT.lock().unwrap().take());
                    told.send(true).unwrap();
                }
            });
        stalls_until_told(monitor, &was_told);
        // The callback is at the stall's report.
        let _ = std::panic::catch_unwind(|| panic!("caught"));
        // It has dropped the monitor, and so is not called for the panic.
        assert!(was_told.recv_timeout(Duration::from_secs(20)).unwrap());
        assert!(was_told.recv_timeout(500 * MS).is_err());
        return;
    }
    let kinds = reports(test).into_iter();
    let kinds: Vec<_> = kinds.map(|report| report.event.unwrap().kind).collect();
    assert!(kinds.contains(&EventKind::Panic), "{kinds:?}");
}

/// The app's callbacks may do what they like: a panic there ends neither the watch nor the process, and
/// the monitor may be dropped by one that runs on a thread of its own.
#[test]
fn callbacks_may_panic_and_may_drop_the_monitor() {
    let test = "callbacks::callbacks_may_panic_and_may_drop_the_monitor";
    let told = Arc::new(Mutex::new(0));
    if is_child() {
        println!("ready");
        // These panics are meant: a log with them hides those that are not.
        std::panic::set_hook(Box::new(|_| {}));
        let freeze = |monitor: &Monitor| {
            let before = monitor.stats().reports;
            let deadline = Instant::now() + Duration::from_secs(20);
            while monitor.stats().reports == before && Instant::now() < deadline {
                monitor.heartbeat().turn(|| sleep(60 * MS));
            }
        };
        let count = told.clone();
        let monitor = builder(&folder(test))
            .stall(Stall::default().timeout(10 * MS).strikes(3))
            .crash(Crash::default())
            .rate_limit(RateLimit::default().same_stalls(100))
            .on_stall(|_| panic!("in on_stall"))
            .on_report(move |_| {
                *count.lock().unwrap() += 1;
                panic!("in on_report")
            });
        let monitor = monitor.install().unwrap();
        freeze(&monitor);
        freeze(&monitor);
        drop(monitor);
        assert!(*told.lock().unwrap() >= 2);

        let (dropped, done) = std::sync::mpsc::channel();
        let monitor = builder(&folder(test))
            .stall(Stall::default().timeout(10 * MS).strikes(3))
            .on_report(move |_| {
                drop(KEPT.lock().unwrap().take());
                let _ = dropped.send(());
            });
        stalls_until_told(monitor, &done);

        // What `on_stall` needs may be gone once it has dropped the monitor.
        let (told, was_told) = std::sync::mpsc::channel();
        let monitor = builder(&folder(test))
            .stall(Stall::default().timeout(10 * MS).strikes(3))
            .on_stall(move |_| {
                drop(KEPT.lock().unwrap().take());
                told.send(()).unwrap();
            });
        stalls_until_told(monitor, &was_told);
        assert!(was_told.recv_timeout(500 * MS).is_err());
        drop(builder(&folder(test)).install().unwrap());
        return;
    }
    assert!(reports(test).len() >= 3);
}
