//! Effects of beats on the heartbeat state, on one thread.

use super::*;

fn state() -> &'static HeartbeatState {
    Box::leak(Box::new(HeartbeatState::new()))
}

#[test]
fn a_turn_is_busy_inside_and_idle_after() {
    let state = state();
    let heart = state.install();
    assert!(
        !state.beat().idle(),
        "before the first turn the app is launching"
    );
    heart.turn(|| assert_eq!(state.beat().depth(), 1));
    assert!(state.beat().idle());
    assert_eq!(state.beat().count(), 2);
}

#[test]
fn a_turn_that_panics_ends() {
    let state = state();
    let heart = state.install();
    let caught = std::panic::catch_unwind(|| heart.turn(|| std::panic::resume_unwind(Box::new(1))));
    assert!(caught.is_err() && state.beat().idle());
}

#[test]
fn a_nested_turn_that_ended_differs_from_one_that_runs() {
    let state = state();
    let heart = state.install();
    heart.turn(|| {
        heart.turn(|| assert!(!state.beat().nested()));
        assert!(state.beat().nested() && !state.beat().idle());
    });
    assert!(state.beat().idle() && !state.beat().nested());
}

#[test]
fn heartbeats_left_over_do_nothing() {
    let state = state();
    let old = state.install();
    old.begin();
    state.uninstall();
    old.end();
    assert_eq!(
        state.beat().depth(),
        1,
        "nothing was written after the uninstall"
    );
    let new = state.install();
    old.begin();
    assert_eq!(state.beat(), Beat::NONE);
    new.begin();
    assert_eq!(state.beat().depth(), 1);
}

#[test]
fn ends_without_a_begin_and_endless_nesting_stay_in_their_bits() {
    let mut beat = Beat::NONE;
    for _ in 0..3 {
        beat = beat.ended();
    }
    assert!(beat.idle() && beat.count() == 3);
    for _ in 0..70_000 {
        beat = beat.begun();
    }
    assert_eq!((beat.depth(), beat.count()), (0xffff, 70_003));
    let last = Beat(!Beat::DEPTH | Beat::ENDED);
    assert_eq!(last.begun().since(last), 1, "the count wraps");
}

/// A guard ends its turn however the scope is left, and by a panic.
#[test]
fn a_guard_ends_the_turn_that_it_began() {
    let state = state();
    let heart = state.install();
    let leave_early = || -> Option<()> {
        let _busy = heart.busy();
        assert_eq!(state.beat().depth(), 1);
        None?;
        Some(())
    };
    assert_eq!(leave_early(), None);
    let _ = std::panic::catch_unwind(|| {
        let _busy = heart.busy();
        std::panic::resume_unwind(Box::new(1));
    });
    assert_eq!((state.beat().depth(), state.beat().count()), (0, 4));
    assert!(state.beat().idle());
}

#[test]
fn beats_of_other_threads_are_counted_and_change_nothing() {
    let state = state();
    let heart = state.install();
    heart.begin();
    std::thread::spawn(move || heart.turn(|| ()))
        .join()
        .unwrap();
    assert_eq!((state.beat().depth(), state.beat().count()), (1, 1));
    assert_eq!(state.strays(), 2);
    heart.end();
    assert!(state.beat().idle());
    state.uninstall();
    std::thread::spawn(move || heart.begin()).join().unwrap();
    assert_eq!(state.strays(), 2, "one that is left over does nothing");
}

#[test]
fn a_pause_is_rest_in_whatever_turns_and_they_go_on_after_it() {
    let state = state();
    let heart = state.install();
    heart.begin();
    heart.begin();
    heart.pause();
    assert!(state.beat().idle() && !state.beat().nested());
    heart.turn(|| {
        heart.pause();
        assert!(state.beat().idle(), "a pause within a turn within a pause");
        heart.resume();
        assert_eq!(state.beat().depth(), 1);
    });
    heart.resume();
    assert_eq!(state.beat().depth(), 2);
    assert!(!state.beat().nested(), "its outer turn works");
    heart.resume();
    assert_eq!(state.beat().depth(), 2, "without a pause nothing resumes");
    heart.end();
    heart.end();
    assert!(state.beat().idle());
    heart.pause();
    heart.resume();
    assert!(state.beat().idle(), "no turn had begun");
}

#[test]
fn a_ping_that_is_answered_within_a_pause_is_over_after_it() {
    let state = state();
    let heart = state.install();
    assert!(state.ping() && !state.ping(), "one is under way at a time");
    heart.pause();
    assert!(!state.ping());
    heart.answer();
    heart.resume();
    assert!(state.beat().idle());
}
