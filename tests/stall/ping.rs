//! Pings through the app's own queue, in place of heartbeats.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::stall_support::{DISTURBED, burn, delay, only_monitor, own_tid, undisturbed};
use wedjat::report::Report;
use wedjat::{Monitor, Stall, Stats};

#[test]
fn a_freeze_is_found_and_an_idle_loop_is_none() {
    undisturbed(DISTURBED, play, |reports| {
        assert_eq!(reports.len(), 1);
        let report = &reports[0];
        let class = report.event.as_ref().unwrap().class.as_deref().unwrap();
        // On a machine under load, it may not get the CPU that it wants.
        assert!(class == "busy" || class == "starved", "{class}");
        let lasted = report.stall_end.as_ref().unwrap().duration;
        let (least, most) = (Duration::from_millis(400), Duration::from_secs(1));
        assert!((least..most).contains(&lasted), "{lasted:?}");
    });
}

/// The reports, and how long the watched thread starved.
fn play() -> (Vec<Report>, u64) {
    let _only = only_monitor();
    let before = delay(own_tid());
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    let monitor = Monitor::builder("Pinged", "1")
        .directory(directory)
        .stall(Stall::default())
        .install()
        .unwrap();
    let (queue, events) = mpsc::channel();
    monitor
        .watch_by_ping(move |beat| {
            let _ = queue.send(beat);
        })
        .unwrap();
    assert!(monitor.watch_by_ping(|_| ()).is_err());
    let turn = |time| {
        let until = Instant::now() + Duration::from_millis(time);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if let Ok(beat) = events.recv_timeout(left) {
                beat();
            }
        }
    };
    turn(700);
    // Not in a turn of anything that the app would tell us of.
    burn(Duration::from_millis(500));
    turn(400);
    drop(monitor);
    let reports = wedjat::store::reports(directory).unwrap();
    let reports = reports.iter().map(|stored| stored.read().unwrap().report);
    (reports.collect(), delay(own_tid()) - before)
}

/// A loop at rest gets no pings, and the watchdog looks at it at most four times a second.
#[test]
fn a_loop_at_rest_is_left_alone() {
    undisturbed(DISTURBED, play_at_rest, |(at_rest, stats)| {
        // Each wait for the time that is left may count as work once.
        assert!(at_rest <= 6, "{at_rest} pings in 3 s");
        // It works and does not come to its queue: that is a stall, as long as it is.
        assert_eq!(stats.stalls, 1);
        assert!(stats.longest > Duration::from_millis(350), "{stats:?}");
    });
}

/// The pings to a loop at rest and the monitor's counts after its stall, and how long the watched thread starved.
fn play_at_rest() -> ((u32, Stats), u64) {
    let before = delay(own_tid());
    let _only = only_monitor();
    let folder = tempfile::tempdir().unwrap();
    let builder = Monitor::builder("Pinged", "1").directory(folder.path());
    let monitor = builder.stall(Stall::default()).install().unwrap();
    let (queue, events) = mpsc::channel();
    monitor
        .watch_by_ping(move |beat| {
            let _ = queue.send(beat);
        })
        .unwrap();
    let mut beats = 0;
    let mut turn = |time| {
        let until = Instant::now() + Duration::from_millis(time);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if let Ok(beat) = events.recv_timeout(left) {
                beat();
                beats += 1;
            }
        }
        std::mem::take(&mut beats)
    };
    turn(1_500);
    let at_rest = turn(3_000);
    burn(Duration::from_millis(500));
    turn(300);
    ((at_rest, monitor.stats()), delay(own_tid()) - before)
}
