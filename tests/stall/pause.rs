//! What a thread does that may block, and who its beats are from: on a real thread.

use std::thread::sleep;
use std::time::Duration;

use crate::support::stall::{all_are_over, only_monitor};
use wedjat::{Monitor, Stall, threads};

fn install() -> (tempfile::TempDir, Monitor) {
    let folder = tempfile::tempdir().unwrap();
    let monitor = Monitor::builder("Pauses", "1")
        .directory(folder.path())
        .stall(Stall::default())
        .install()
        .unwrap();
    (folder, monitor)
}

const LONG: Duration = Duration::from_millis(700);
const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_dialog_is_no_stall_and_a_freeze_in_its_own_turns_is() {
    let _only = only_monitor();
    let (folder, monitor) = install();
    let heart = monitor.heartbeat();
    heart.turn(|| ());
    heart.turn(|| {
        let _pause = threads::may_block();
        sleep(LONG);
    });
    assert_eq!(monitor.stats().stalls, 0, "a message box within a turn");
    heart.turn(|| {
        let _pause = threads::may_block();
        sleep(LONG);
        heart.turn(|| sleep(LONG));
        sleep(LONG);
    });
    heart.turn(|| {
        drop(threads::may_block());
        sleep(LONG);
    });
    all_are_over(&monitor, 2);
    // On a thread that is not watched it does nothing.
    std::thread::spawn(|| drop(threads::may_block()))
        .join()
        .unwrap();
    assert_eq!(monitor.stats().stalls, 2);
    drop(monitor);
    let reports = wedjat::store::reports(folder.path()).unwrap();
    for stored in &reports {
        let end = stored.read().unwrap().report.stall_end.unwrap();
        assert!((LONG - SHORT..LONG * 2).contains(&end.duration), "{end:?}");
    }
    assert_eq!(reports.len(), 2);
}

#[test]
fn beats_of_another_thread_are_no_stall_of_the_watched_one() {
    let _only = only_monitor();
    let (_folder, monitor) = install();
    let heart = monitor.heartbeat();
    heart.turn(|| ());
    std::thread::spawn(move || heart.turn(|| sleep(LONG)))
        .join()
        .unwrap();
    let stats = monitor.stats();
    assert_eq!((stats.turns, stats.stray_beats, stats.stalls), (1, 2, 0));
}

#[test]
fn an_app_that_has_launched_and_rests_leaves_the_watchdog_asleep() {
    let _only = only_monitor();
    let (_folder, monitor) = install();
    monitor.launched();
    sleep(LONG * 2);
    let before = monitor.stats().watchdog;
    sleep(LONG * 2);
    let stats = monitor.stats();
    assert_eq!((stats.watchdog, stats.stalls), (before, 0));
    monitor.heartbeat().turn(|| sleep(LONG));
    all_are_over(&monitor, 1);
    assert_eq!(monitor.stats().stalls, 1);
}
