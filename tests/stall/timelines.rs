//! The detector over plain timelines: which freezes are stalls, on a fake clock.

use crate::support::simulated::{MS, Simulation, Step, nanos};
use wedjat::Stall;
use wedjat::trigger::heartbeat::Beat;
use wedjat::trigger::stall::{Decision, Detector, Observation, StallClass, Waits};

/// Runs the steps at every phase against the watchdog's looks, after short and long rests, and
/// gives the number of stalls of each run.
fn stalls(steps: &[Step]) -> Vec<usize> {
    let mut counts = Vec::new();
    for phase in 0..100 {
        for rest in [100 * MS, 5_000 * MS] {
            let idle = rest + phase * MS / 2 + 300_000;
            let mut simulation = Simulation::launched(&Stall::default(), idle, 100_000, phase);
            simulation.run(steps);
            simulation.run(&[Step::Idle(3_000 * MS)]);
            simulation.check_pairs();
            counts.push(simulation.outcome.stalls.len());
        }
    }
    counts
}

fn always(count: usize, steps: &[Step]) {
    let counts = stalls(steps);
    assert!(counts.iter().all(|&n| n == count), "{steps:?}: {counts:?}");
}

#[test]
fn one_long_freeze_is_one_stall() {
    for length in [250, 251, 300, 400, 1_000, 10_000] {
        always(1, &[Step::Turn(length * MS)]);
    }
}

#[test]
fn a_short_one_is_none() {
    for length in [1, 49, 50, 51, 100, 150, 190] {
        always(0, &[Step::Turn(length * MS)]);
    }
}

#[test]
fn five_short_ones_on_end_are_one_stall() {
    for gap in [0, 50_000, MS, 3 * MS] {
        for count in [5, 6, 20] {
            for turn in [Step::Turn(51 * MS), Step::Blocked(51 * MS)] {
                always(1, &[turn, Step::Idle(gap)].repeat(count));
            }
        }
    }
}

#[test]
fn three_short_ones_are_none_and_so_are_those_with_rests_between() {
    always(0, &[Step::Turn(50 * MS), Step::Idle(50_000)].repeat(3));
    always(0, &[Step::Turn(60 * MS), Step::Idle(20 * MS)].repeat(50));
}

#[test]
fn a_saturated_loop_of_quick_turns_is_none() {
    for length in [1, 8, 16, 33, 40] {
        always(
            0,
            &[Step::Turn(length * MS), Step::Idle(20_000)].repeat(200),
        );
    }
}

#[test]
fn a_short_turn_in_step_with_the_watchdog_is_none() {
    // 20 a second, so that every look may fall into one.
    for length in [1, 5, 15, 25] {
        always(
            0,
            &[Step::Turn(length * MS), Step::Idle((50 - length) * MS)].repeat(100),
        );
    }
}

#[test]
fn two_freezes_with_a_rest_between_are_two() {
    always(
        2,
        &[
            Step::Turn(400 * MS),
            Step::Idle(20 * MS),
            Step::Turn(400 * MS),
        ],
    );
}

#[test]
fn the_duration_is_right_to_within_one_period() {
    for length in [260, 300, 777, 5_000, 60_000] {
        for phase in 0..50 {
            let idle = 100 * MS + phase * MS + 123_456;
            let mut simulation = Simulation::launched(&Stall::default(), idle, MS, phase);
            simulation.run(&[Step::Turn(length * MS), Step::Idle(1_000 * MS)]);
            let end = &simulation.outcome.ends[0].info;
            assert!(
                (length * MS - 51 * MS..=length * MS + 10_000).contains(&nanos(end.lasted)),
                "{length}: {end:?}"
            );
            assert!(end.at_least || nanos(end.lasted).abs_diff(length * MS) < MS);
            assert_eq!(end.class, StallClass::Busy);
        }
    }
}

#[test]
fn nothing_is_a_stall_while_idle_and_the_watchdog_sleeps_for_good() {
    let mut simulation = Simulation::launched(&Stall::default(), 1_000 * MS, 100_000, 1);
    let looks = simulation.outcome.looks;
    simulation.run(&[Step::Idle(3_600_000 * MS)]);
    assert_eq!(simulation.outcome.looks, looks, "it woke by itself");
    assert!(simulation.outcome.stalls.is_empty());
}

#[test]
fn the_launch_is_a_kind_of_its_own() {
    let mut simulation = Simulation::new(&Stall::default(), 0, 0, 0);
    simulation.run(&[
        Step::Computes(200 * MS),
        Step::Turn(200 * MS),
        Step::Idle(2_000 * MS),
    ]);
    simulation.run(&[Step::Turn(300 * MS), Step::Idle(2_000 * MS)]);
    simulation.check_pairs();
    let stalls = &simulation.outcome.stalls;
    assert_eq!(stalls.len(), 2);
    assert_eq!(
        (stalls[0].class, stalls[1].class),
        (StallClass::Launch, StallClass::Busy)
    );
    assert!(nanos(simulation.outcome.ends[0].info.lasted).abs_diff(400 * MS) < MS);
}

#[test]
fn an_app_that_never_beats_gets_one_stall_where_all_waiting_counts() {
    let mut simulation = Simulation::new(&Stall::default().launch_waits(true), 0, 0, 0);
    simulation.run(&[Step::Idle(86_400_000 * MS)]);
    assert_eq!(simulation.outcome.stalls.len(), 1);
    assert!(simulation.outcome.stalls[0].never_beat);
    assert!(
        simulation.outcome.looks < 500,
        "{}",
        simulation.outcome.looks
    );
    // It is found even so when it begins to beat.
    simulation.run(&[
        Step::Turn(MS),
        Step::Idle(MS),
        Step::Turn(300 * MS),
        Step::Idle(2_000 * MS),
    ]);
    assert_eq!(
        (
            simulation.outcome.stalls.len(),
            simulation.outcome.ends.len()
        ),
        (2, 2)
    );
}

#[test]
fn samples_come_every_period_and_ever_more_slowly_in_a_long_stall() {
    let samples = |seconds: u64| {
        let mut simulation = Simulation::launched(&Stall::default(), 1_000 * MS, 0, 0);
        simulation.run(&[Step::Turn(seconds * 1_000 * MS), Step::Idle(1_000 * MS)]);
        simulation.outcome.samples
    };
    assert!((17..=20).contains(&samples(1)), "{}", samples(1));
    assert!((200..320).contains(&samples(600)), "{}", samples(600));
}

/// What a launch comes to: at every phase against the watchdog's looks, after it has idled for none, some
/// and much time.
fn launches(steps: &[Step]) -> Vec<Simulation> {
    let mut all = Vec::new();
    for idle in [0, 30, 700, 30_000] {
        for phase in 0..50 {
            let mut simulation = Simulation::new(&Stall::default(), 0, 100_000, phase);
            simulation.run(&[Step::Idle(idle * MS + phase * MS)]);
            simulation.run(steps);
            all.push(simulation);
        }
    }
    all
}

#[test]
fn a_launch_that_works_is_a_stall_for_as_long_as_it_does() {
    let first = [Step::Turn(MS), Step::Idle(1_000 * MS)];
    let rest = [Step::Idle(2_000 * MS)];
    for work in [
        Step::Computes(1_000 * MS),
        Step::Waits(Waits::Disk, 1_000 * MS),
        Step::Waits(Waits::Lock, 1_000 * MS),
    ] {
        for then in [&first[..], &rest] {
            for simulation in launches(&[&[work], then].concat()) {
                simulation.check_pairs();
                let stalls = &simulation.outcome.stalls;
                assert_eq!(stalls.len(), 1, "{work:?} {then:?}: {stalls:?}");
                assert!(stalls[0].never_beat && stalls[0].class == StallClass::Launch);
                let lasted = nanos(simulation.outcome.ends[0].info.lasted);
                assert!(
                    (650 * MS..1_110 * MS).contains(&lasted),
                    "{work:?}: {lasted}"
                );
            }
        }
    }
    // Some of each, in turns.
    let mixed = [
        Step::Waits(Waits::Disk, 70 * MS),
        Step::Computes(90 * MS),
        Step::Waits(Waits::Lock, 60 * MS),
    ]
    .repeat(5);
    for simulation in launches(&mixed) {
        assert_eq!(simulation.outcome.stalls.len(), 1);
    }
}

#[test]
fn an_app_that_is_idle_before_its_first_beat_is_no_stall_for_however_long() {
    for idle in [
        Step::Idle(86_400_000 * MS),
        Step::Waits(Waits::Event, 86_400_000 * MS),
    ] {
        let mut simulation = Simulation::new(&Stall::default(), 0, 0, 0);
        simulation.run(&[idle]);
        let outcome = &simulation.outcome;
        assert_eq!((outcome.stalls.len(), outcome.first_misses), (0, 0));
        // The watchdog sleeps in the end.
        assert!(outcome.looks < 300, "{}", outcome.looks);
        simulation.run(&[Step::Turn(300 * MS), Step::Idle(2_000 * MS)]);
        assert_eq!(simulation.outcome.stalls.len(), 1);
        assert!(!simulation.outcome.stalls[0].never_beat);
        let lasted = nanos(simulation.outcome.ends[0].info.lasted);
        assert!(lasted.abs_diff(300 * MS) < 50 * MS, "{lasted}");
    }
    // One that animates, saves, and takes a lock now and then.
    for busy in [1, 4] {
        for what in [
            Step::Computes(busy * MS),
            Step::Waits(Waits::Disk, busy * MS),
            Step::Waits(Waits::Lock, busy * MS),
        ] {
            for pause in [10, 17, 25, 33, 50, 51, 250, 997] {
                let frames = [what, Step::Idle(pause * MS - busy * MS)].repeat(3_000);
                let mut simulation = Simulation::new(&Stall::default(), 0, 300_000, busy + pause);
                simulation.run(&frames);
                let stalls = simulation.outcome.stalls.len();
                assert_eq!(stalls, 0, "{what:?} each {pause} ms");
            }
        }
    }
}

#[test]
fn a_first_turn_is_timed_from_its_own_begin_after_a_rest() {
    for (turn, count) in [(150, 0), (300, 1)] {
        for simulation in launches(&[
            Step::Idle(MS),
            Step::Turn(turn * MS),
            Step::Idle(2_000 * MS),
        ]) {
            simulation.check_pairs();
            assert_eq!(simulation.outcome.stalls.len(), count, "{turn}");
        }
    }
}

/// The watchdog waits for a CPU at each wake-up, as on a machine with too much load.
#[test]
fn no_duration_is_longer_than_its_turn_however_late_the_watchdog_is() {
    for starved in [20, 100, 400] {
        for phase in 0..200 {
            for turn in [Step::Turn, Step::Blocked] {
                let idle = [100, 4_000][phase as usize % 2] * MS + phase * MS;
                let mut simulation = Simulation::launched(&Stall::default(), idle, MS, phase);
                simulation.starved = starved * MS;
                let length = 300 + 3 * phase;
                simulation.run(&[turn(length * MS), Step::Idle(3_000 * MS)]);
                for end in &simulation.outcome.ends {
                    let lasted = nanos(end.info.lasted);
                    assert!(lasted <= (length + 10) * MS, "{length} ms: {end:?}");
                }
            }
        }
    }
}

/// Its wait for a CPU is counted by the kernel when it is over: a thread that is ready to run is not blocked.
#[test]
fn a_thread_that_is_ready_to_run_is_starved_and_one_that_sleeps_is_blocked() {
    for (sleeps, class) in [(false, StallClass::Starved), (true, StallClass::Blocked)] {
        let first = Observation {
            launched: true,
            ..Observation::default()
        };
        let mut detector = Detector::new(&Stall::default(), first);
        let mut stalls = Vec::new();
        for look in 1..20 {
            let observation = Observation {
                now: look * 50 * MS,
                boot: look * 50 * MS,
                due: look * 50 * MS,
                beat: Beat::NONE.begun(),
                cpu: look * MS,
                delay: Some(0),
                sleeps: Some(sleeps),
                ..first
            };
            if let Decision::Stalled(info) = detector.observe(&observation).0 {
                stalls.push(info.class);
            }
        }
        assert_eq!(stalls, [class]);
    }
}

/// A watchdog that was kept for long, as by a thread that did not answer, while the process was stopped or not.
#[test]
fn a_late_watchdog_counts_a_sleep_that_no_stop_broke() {
    for (ran, count) in [(20_000, 0), (0, 1)] {
        let first = Observation {
            launched: true,
            ..Observation::default()
        };
        let mut detector = Detector::new(&Stall::default(), first);
        let mut stalls = 0;
        for (now, cpu) in [(50, 0), (100, 0), (600, ran), (610, ran)] {
            let observation = Observation {
                now: now * MS,
                boot: now * MS,
                due: now.min(150) * MS,
                beat: Beat::NONE.begun(),
                cpu,
                delay: Some(0),
                sleeps: Some(true),
                ..first
            };
            let (decision, _) = detector.observe(&observation);
            stalls += usize::from(matches!(decision, Decision::Stalled(_)));
        }
        assert_eq!(stalls, count);
    }
}
