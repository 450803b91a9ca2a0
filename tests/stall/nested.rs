//! The detector over timelines with loops within loops, forgotten `end`s, late first events and stops of the whole process:
//! each freeze is one stall of its own length, nothing else is one, and the watchdog does not wake for nothing.

use std::time::Duration;

use crate::support::simulated::{MS, Random, Simulation, Step, nanos};
use wedjat::Stall;
use wedjat::trigger::stall::{Reason, StallClass, StallOutcome};

/// A nested turn of so long, in a loop that waits before and after it.
fn nested(time: u64) -> [Step; 4] {
    [
        Step::Begin,
        Step::Computes(time),
        Step::End,
        Step::Idle(200 * MS),
    ]
}

/// A dialog within a turn, with these events.
fn dialog(events: &[Step]) -> Vec<Step> {
    let opens = [Step::Begin, Step::Computes(3 * MS)];
    let shown = nested(2 * MS);
    let closes = [Step::Computes(MS), Step::End, Step::Idle(300 * MS)];
    [&opens[..], &shown, events, &closes].concat()
}

fn launched(seed: u64) -> Simulation {
    Simulation::launched(&Stall::default(), 700 * MS, 300_000, seed)
}

/// The stalls' lengths, milliseconds.
fn lengths(simulation: &Simulation) -> Vec<u64> {
    simulation.check_pairs();
    let ends = simulation.outcome.ends.iter();
    ends.map(|end| nanos(end.info.lasted) / MS).collect()
}

#[test]
fn each_freeze_in_a_dialog_is_a_stall_of_its_own_length_and_no_rest_is() {
    for seed in 0..50 {
        let mut events = Vec::new();
        for freeze in [400, 600, 300] {
            events.extend(nested(freeze * MS));
            events.push(Step::Idle(10_000 * MS));
            events.extend(nested(2 * MS));
        }
        let mut simulation = launched(seed);
        simulation.run(&dialog(&events));
        let found = lengths(&simulation);
        assert_eq!(found.len(), 3, "{found:?}");
        for (found, real) in found.iter().zip([400u64, 600, 300]) {
            assert!(
                found.abs_diff(real) <= 50 && *found >= 250,
                "{found}, not {real}"
            );
        }
        let ends = &simulation.outcome.ends;
        assert!(ends.iter().all(|end| end.info.class == StallClass::Busy));
        assert_eq!(simulation.outcome.dropped, [Reason::Modal]);
    }
}

#[test]
fn a_dialog_that_rests_after_a_stall_does_not_keep_the_watchdog_awake() {
    let mut simulation = launched(3);
    simulation.run(&[Step::Begin, Step::Computes(MS)]);
    simulation.run(&nested(2 * MS));
    simulation.run(&nested(500 * MS));
    let looks = simulation.outcome.looks;
    simulation.run(&[Step::Idle(3_600_000 * MS)]);
    let awake = simulation.outcome.looks - looks;
    assert!(awake <= 15, "{awake} looks in an hour");
    assert_eq!(
        simulation.outcome.ends.len(),
        1,
        "it is over when the dialog rests"
    );
}

#[test]
fn a_turn_that_goes_on_after_its_dialog_is_watched() {
    for seed in 0..50 {
        let mut simulation = launched(seed);
        simulation.run(&[Step::Begin]);
        simulation.run(&nested(2 * MS));
        simulation.run(&nested(2 * MS)[..3]);
        simulation.run(&[Step::Computes(600 * MS), Step::End, Step::Idle(2_000 * MS)]);
        let found = lengths(&simulation);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].abs_diff(600) <= 50, "{found:?}");
    }
}

#[test]
fn an_app_that_forgets_an_end_is_watched_like_any_other() {
    for seed in 0..50 {
        let mut simulation = launched(seed);
        simulation.run(&[Step::Begin, Step::Computes(2 * MS), Step::Idle(20 * MS)]);
        let mut real = Vec::new();
        for round in 0..20 {
            let turn = if round % 3 == 1 { 350 + 10 * round } else { 4 };
            if turn > 50 {
                real.push(turn);
            }
            simulation.run(&nested(turn * MS));
            simulation.run(&[Step::Idle(5_000 * MS)]);
        }
        let found = lengths(&simulation);
        assert_eq!(found.len(), real.len(), "{found:?}, not {real:?}");
        for (found, real) in found.iter().zip(&real) {
            assert!(found.abs_diff(*real) <= 50, "{found}, not {real}");
        }
    }
}

#[test]
fn an_app_that_has_launched_may_wait_for_its_first_event() {
    for first in [300, 20] {
        let mut simulation = Simulation::new(&Stall::default().launch_waits(true), 0, 0, 0);
        simulation.run(&[
            Step::Computes(40 * MS),
            Step::Launched,
            Step::Idle(2_000 * MS),
        ]);
        let looks = simulation.outcome.looks;
        simulation.run(&[Step::Idle(3_600_000 * MS)]);
        assert_eq!(simulation.outcome.looks, looks, "it woke by itself");
        simulation.run(&[Step::Turn(first * MS), Step::Idle(2_000 * MS)]);
        let stalls = &simulation.outcome.stalls;
        assert_eq!(stalls.len(), usize::from(first > 250));
        assert!(stalls.iter().all(|stall| stall.class == StallClass::Busy));
    }
}

#[test]
fn a_launch_that_is_over_within_the_first_turn_makes_no_launch_stall_of_what_comes_after() {
    let mut simulation = Simulation::new(&Stall::default(), 0, 0, 0);
    simulation.run(&[Step::Begin, Step::Computes(100 * MS), Step::Launched]);
    simulation.run(&nested(2 * MS));
    simulation.run(&nested(500 * MS));
    simulation.run(&[Step::End, Step::Idle(2_000 * MS)]);
    let stalls = &simulation.outcome.stalls;
    assert_eq!(stalls.len(), 1, "{stalls:?}");
    assert_eq!(stalls[0].class, StallClass::Busy);
}

#[test]
fn a_launch_within_its_limit_is_not_counted_to_the_turn_that_ends_it() {
    let stall = Stall::default().launch_threshold(Duration::from_secs(20));
    for (rest, count) in [(100, 0), (400, 1)] {
        for launch in [10, 700, 1_530] {
            let mut simulation = Simulation::new(&stall, 0, 300_000, launch);
            simulation.run(&[Step::Begin, Step::Computes(launch * MS), Step::Launched]);
            simulation.run(&[Step::Computes(rest * MS), Step::End]);
            simulation.run(&[Step::Idle(2_000 * MS)]);
            let found = lengths(&simulation);
            assert_eq!(found.len(), count, "{launch}: {found:?}");
            assert!(
                found.iter().all(|found| found.abs_diff(rest) <= 51),
                "{found:?}"
            );
        }
    }
}

#[test]
fn a_process_that_was_stopped_within_a_turn_was_not_stalled() {
    for seed in 0..50 {
        for work in [
            Step::Computes(60 * MS),
            Step::Waits(Default::default(), 60 * MS),
        ] {
            let mut simulation = launched(seed);
            let stop = Step::Stop((300 + 20 * seed) * MS);
            simulation.run(&[Step::Begin, work, stop, work, Step::End]);
            simulation.run(&[Step::Idle(2_000 * MS)]);
            assert_eq!(simulation.outcome.stalls, [], "{work:?}");
            // A freeze on either side of it is one of its own length.
            simulation.run(&[Step::Begin, Step::Computes(400 * MS), stop]);
            simulation.run(&[Step::Computes(200 * MS), Step::End, Step::Idle(2_000 * MS)]);
            let found = lengths(&simulation);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].abs_diff(600) <= 100, "{found:?}");
        }
    }
}

/// A stop of the process, beside load; the thread waits for less than `after` before it works again, milliseconds.
fn stop_beside_load(random: &mut Random, after: u64) -> Step {
    let mut wait = |most| random.between(0, most) * MS;
    let (thread, watchdog) = ([wait(140), wait(after)], [wait(140), wait(140)]);
    Step::StopBesideLoad {
        time: random.between(400, 2_000) * MS,
        thread,
        watchdog,
    }
}

#[test]
fn a_process_that_was_stopped_within_a_turn_beside_load_was_not_stalled() {
    let mut random = Random(10);
    for seed in 0..2_000 {
        let mut simulation = launched(seed);
        let (work, blocked) = (random.between(1, 60) * MS, random.next().is_multiple_of(2));
        let work = if blocked {
            Step::Waits(Default::default(), work)
        } else {
            Step::Computes(work)
        };
        let stop = stop_beside_load(&mut random, 140);
        simulation.run(&[Step::Begin, work, stop, Step::End, Step::Idle(2_000 * MS)]);
        assert_eq!(simulation.outcome.stalls, [], "{seed}: {work:?} {stop:?}");
        // Turns that follow each other with a rest between are no row of slow ones, where a stop hides the rest.
        for _ in 0..8 {
            let stop = stop_beside_load(&mut random, 40);
            simulation.run(&[Step::Begin, work, stop, Step::End, Step::Idle(20 * MS)]);
            simulation.run(&[Step::Begin, work, Step::End, Step::Idle(20 * MS)]);
        }
        assert_eq!(simulation.outcome.stalls, [], "{seed}: {work:?}");
        simulation.run(&[Step::Idle(2_000 * MS)]);
        // A freeze on either side of it is one.
        let stop = stop_beside_load(&mut random, 140);
        simulation.run(&[Step::Begin, Step::Computes(400 * MS), stop]);
        simulation.run(&[Step::Computes(200 * MS), Step::End, Step::Idle(2_000 * MS)]);
        let found = lengths(&simulation);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((540..=600 + 140 + 60).contains(&found[0]), "{found:?}");
    }
}

#[test]
fn a_watchdog_that_waits_for_a_cpu_takes_no_turns_with_rests_between_for_a_stall() {
    let mut random = Random(8);
    for seed in 0..1_000 {
        let mut simulation = launched(seed);
        simulation.starved = random.between(20, 300) * MS;
        for _ in 0..100 {
            let time = random.between(1, 150) * MS;
            let turn = match random.next() % 2 {
                0 => Step::Turn(time),
                _ => Step::Blocked(time),
            };
            simulation.run(&[turn, Step::Idle(random.between(80, 200) * MS)]);
        }
        assert_eq!(simulation.outcome.stalls, [], "{seed}");
        // One that lasts is found however late it is.
        simulation.run(&[Step::Turn(1_500 * MS), Step::Idle(2_000 * MS)]);
        let found = lengths(&simulation);
        assert_eq!(found.len(), 1, "{seed}: {found:?}");
    }
}

/// What a generated timeline is made of, and the freezes in it, milliseconds.
struct Timeline {
    steps: Vec<Step>,
    freezes: Vec<u64>,
    events: u64,
}

impl Timeline {
    fn event(&mut self, random: &mut Random, depth: u64) {
        self.events += 1;
        let rest = random.between(60, 3_000) * MS;
        match random.between(0, 7) {
            0 => {
                let freeze = random.between(310, 1_500);
                self.freezes.push(freeze);
                self.steps
                    .extend([Step::Begin, Step::Computes(freeze * MS), Step::End]);
            }
            1 if depth < 3 => {
                let opens = Step::Computes(random.between(1, 9) * MS);
                self.steps.extend([Step::Begin, opens]);
                // A dialog shows itself.
                self.steps.extend(nested(MS));
                for _ in 0..random.between(1, 6) {
                    self.event(random, depth + 1);
                }
                self.steps.push(Step::End);
            }
            2 if depth < 3 => {
                // An `end` is forgotten.
                self.steps.extend([Step::Begin, Step::Computes(2 * MS)]);
                self.steps.extend(nested(MS));
            }
            3 => {
                let stop = Step::Stop(random.between(200, 2_000) * MS);
                let work = Step::Computes(random.between(1, 60) * MS);
                self.steps
                    .extend([Step::Begin, work, stop, work, Step::End]);
            }
            _ => {
                let work = Step::Computes(random.between(1, 40) * MS);
                self.steps.extend([Step::Begin, work, Step::End]);
            }
        }
        self.steps.push(Step::Idle(rest));
    }
}

#[test]
fn thousands_of_timelines_with_loops_in_loops_have_the_stalls_that_they_have() {
    let mut random = Random(49);
    for seed in 0..3_000 {
        let mut timeline = Timeline {
            steps: Vec::new(),
            freezes: Vec::new(),
            events: 0,
        };
        for _ in 0..random.between(1, 15) {
            timeline.event(&mut random, 0);
        }
        let mut simulation = match seed % 2 {
            0 => launched(seed),
            _ => {
                let mut simulation = Simulation::new(&Stall::default(), 0, 300_000, seed);
                let late = Step::Idle(random.between(0, 30_000) * MS);
                simulation.run(&[Step::Launched, late]);
                simulation
            }
        };
        let looks = simulation.outcome.looks;
        simulation.run(&timeline.steps);
        simulation.run(&[Step::Idle(3_600_000 * MS)]);
        let ends = &simulation.outcome.ends;
        let found: Vec<u64> = ends.iter().map(|end| nanos(end.info.lasted) / MS).collect();
        let context = || format!("seed {seed}: {found:?}, not {:?}", timeline.freezes);
        assert_eq!(found.len(), timeline.freezes.len(), "{}", context());
        assert!(
            ends.iter()
                .all(|end| end.outcome == StallOutcome::Recovered)
        );
        for (found, real) in found.iter().zip(&timeline.freezes) {
            assert!(
                found.abs_diff(*real) <= 60 && *found >= 250,
                "{}",
                context()
            );
        }
        // Half a second after each event at most, and while one lasts.
        let working: u64 = timeline.freezes.iter().sum();
        let budget = working / 25 + timeline.events * 40 + 40;
        let used = simulation.outcome.looks - looks;
        assert!(used <= budget, "{used} looks of {budget}: {}", context());
    }
}
