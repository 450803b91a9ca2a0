//! A thread that leaves its loop: at its end, with its guard, or in a pause of a pool's member.

use std::thread::{sleep, spawn};
use std::time::Duration;

use crate::support::stall::{all_are_over, only_monitor};
use crate::threads::{LONG, SHORT, all_have_left, hangs, install, reports};
use wedjat::report::StallOutcome;
use wedjat::{Stall, threads, watch_thread};

/// How each stall ended, and how long it was.
fn ends(play: impl Fn(u64) + Send + Copy + 'static, rounds: u64) -> Vec<(StallOutcome, Duration)> {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    for round in 0..rounds {
        spawn(move || play(round)).join().unwrap();
    }
    all_are_over(&monitor, rounds);
    all_have_left(&monitor);
    drop(monitor);
    let ends = reports(folder.path()).into_iter().map(|report| {
        let end = report.stall_end.unwrap();
        (end.how, end.duration)
    });
    ends.collect()
}

#[test]
fn a_turn_that_ends_before_its_thread_has_recovered() {
    let ends = ends(
        |round| {
            let name = format!("short {round}");
            threads::enter(&name, Stall::default());
            threads::begin();
            hangs();
            threads::end();
            sleep(Duration::from_millis(round));
        },
        6,
    );
    assert_eq!(ends.len(), 6);
    for (how, duration) in ends {
        assert_eq!(how, StallOutcome::Recovered);
        assert!(duration < LONG + SHORT, "{duration:?}");
    }
}

#[test]
fn a_watch_that_its_thread_ends_within_a_turn_has_recovered() {
    let ends = ends(
        |round| {
            let watch = watch_thread(&format!("unwatched {round}"), Stall::default()).unwrap();
            watch.heartbeat().begin();
            hangs();
            drop(watch);
            sleep(Duration::from_millis(10 * round));
        },
        2,
    );
    let how: Vec<StallOutcome> = ends.into_iter().map(|(how, _)| how).collect();
    assert_eq!(how, [StallOutcome::Recovered; 2]);
}

/// The state of one that ends is the next one's within a moment.
#[test]
fn a_turn_that_is_over_has_recovered_though_another_thread_has_its_state() {
    let ends = ends(
        |_| {
            spawn(|| {
                threads::enter("first", Stall::default());
                threads::begin();
                hangs();
                threads::end();
            })
            .join()
            .unwrap();
            threads::enter("next", Stall::default());
            threads::begin();
            threads::end();
        },
        1,
    );
    assert_eq!(ends[0].0, StallOutcome::Recovered);
}

/// As tokio's workers do in `block_in_place`: they hand their work on and return to another pool.
#[test]
fn a_member_that_leaves_its_loop_in_a_pause_has_no_stall() {
    let _only = only_monitor();
    let (_folder, monitor) = install(None);
    spawn(|| {
        threads::enter("worker", Stall::default());
        threads::begin();
        drop(threads::may_block());
        sleep(LONG);
        // It is watched again from its next turn on.
        threads::begin();
        hangs();
        threads::end();
    })
    .join()
    .unwrap();
    all_are_over(&monitor, 1);
    assert_eq!(monitor.stats().stalls, 1);
}

/// The recipe of docs/loops.md.
#[test]
fn a_worker_of_tokio_stalls_in_a_poll_that_hangs_and_not_after_it_has_left_its_loop() {
    let _only = only_monitor();
    let (_folder, monitor) = install(None);
    let workers = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .on_thread_start(|| threads::enter("tokio", Stall::default()))
        .build()
        .unwrap();
    let task = |hangs: fn()| {
        let polls = threads::polls(async move {
            tokio::task::block_in_place(|| sleep(SHORT));
            tokio::time::sleep(LONG).await;
            hangs();
        });
        workers
            .block_on(async { tokio::spawn(polls).await })
            .unwrap();
    };
    task(|| ());
    assert_eq!(monitor.stats().stalls, 0);
    task(hangs);
    all_are_over(&monitor, 1);
    assert_eq!(monitor.stats().stalls, 1);
}
