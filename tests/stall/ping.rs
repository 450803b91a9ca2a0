//! Pings through the app's own queue, in place of heartbeats.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::stall_support::{DISTURBED, burn, delay, own_tid, undisturbed};
use wedjat::report::Report;
use wedjat::{Monitor, Stall};

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
