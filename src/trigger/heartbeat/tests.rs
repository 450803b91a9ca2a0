//! What beats and pulses do, on one thread.

use super::*;

fn pulse() -> &'static Pulse {
    Box::leak(Box::new(Pulse::new()))
}

#[test]
fn a_turn_is_busy_inside_and_idle_after() {
    let pulse = pulse();
    let heart = pulse.install();
    assert!(
        !pulse.beat().idle(),
        "before the first turn the app is launching"
    );
    heart.turn(|| assert_eq!(pulse.beat().depth(), 1));
    assert!(pulse.beat().idle());
    assert_eq!(pulse.beat().count(), 2);
}

#[test]
fn a_turn_that_panics_ends() {
    let pulse = pulse();
    let heart = pulse.install();
    let caught = std::panic::catch_unwind(|| heart.turn(|| std::panic::resume_unwind(Box::new(1))));
    assert!(caught.is_err() && pulse.beat().idle());
}

#[test]
fn a_nested_turn_that_ended_is_told_from_one_that_runs() {
    let pulse = pulse();
    let heart = pulse.install();
    heart.turn(|| {
        heart.turn(|| assert!(!pulse.beat().nested()));
        assert!(pulse.beat().nested() && !pulse.beat().idle());
    });
    assert!(pulse.beat().idle() && !pulse.beat().nested());
}

#[test]
fn heartbeats_left_over_do_nothing() {
    let pulse = pulse();
    let old = pulse.install();
    old.begin();
    pulse.uninstall();
    old.end();
    assert_eq!(
        pulse.beat().depth(),
        1,
        "nothing was written after the uninstall"
    );
    let new = pulse.install();
    old.begin();
    assert_eq!(pulse.beat(), Beat::NONE);
    new.begin();
    assert_eq!(pulse.beat().depth(), 1);
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
