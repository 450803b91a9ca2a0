//! The detector over generated timelines, held against a plain reference that knows the truth; and
//! a simulated day of an app, with precision and recall printed (`--nocapture`).

use crate::support::simulated::{MS, Random, Simulation, Step, nanos};
use wedjat::Stall;
use wedjat::trigger::stall::{Decision, Detector, Held, Observation, Reason, StallClass};

const TIMEOUT: u64 = 50 * MS;
const THRESHOLD: u64 = 250 * MS;
/// Quick turns that come right behind a freeze may be taken as its end: as much as the simulated day
/// has there.
const TAIL: u64 = 4 * MS;
/// One period below the threshold, and the tenth of one that the clocks may be off.
const LEAST: u64 = THRESHOLD - TIMEOUT - TIMEOUT / 10;

/// One row of slow turns: when it began and ended.
#[derive(Debug, Clone, Copy)]
struct Truth {
    /// When the thread was last at rest before it.
    lead: u64,
    start: u64,
    end: u64,
}

/// The plain reference: turns of at least the time-out, with next to no rest between, make a row.
fn rows(start: u64, steps: &[Step]) -> Vec<Truth> {
    let mut rows: Vec<Truth> = Vec::new();
    let (mut now, mut open, mut lead) = (start, false, start);
    for &step in steps {
        match step {
            Step::Turn(time) | Step::Blocked(time) if time >= TIMEOUT => {
                match rows.last_mut() {
                    Some(row) if open => row.end = now + time,
                    _ => rows.push(Truth {
                        lead,
                        start: now,
                        end: now + time,
                    }),
                }
                open = true;
                now += time;
            }
            Step::Turn(time) | Step::Blocked(time) => {
                open = false;
                now += time;
            }
            Step::Idle(time) | Step::Computes(time) | Step::Waits(_, time) => {
                open &= time < TIMEOUT / 10;
                now += time;
                if time >= TIMEOUT / 10 {
                    lead = now;
                }
            }
            _ => {
                unreachable!("no step of these timelines")
            }
        }
    }
    rows
}

/// Plays the steps and holds what was found against the truth: every row at least one period above
/// the threshold is found once, nothing one period below it (quick turns that come right before,
/// without a rest, may be taken as its beginning), and the durations are right to within
/// one period. Returns hits, rows that had to be found, and stalls found that were none.
fn check(simulation: &mut Simulation, begin: u64, steps: &[Step]) -> (usize, usize, usize) {
    let truth = rows(begin, steps);
    simulation.run(steps);
    simulation.run(&[Step::Idle(5_000 * MS)]);
    simulation.check_pairs();
    let ends = &simulation.outcome.ends;
    let overlaps = |row: &Truth| {
        let within = ends.iter().filter(|end| {
            let start = nanos(end.info.start);
            let (from, to) = (start, start + nanos(end.info.lasted));
            from < row.end && to > row.start
        });
        within.collect::<Vec<_>>()
    };
    let (mut hits, mut due) = (0, 0);
    for row in &truth {
        let length = row.end - row.start;
        let found = overlaps(row);
        if length >= THRESHOLD {
            due += 1;
            hits += usize::from(found.len() == 1);
            if let [end] = found[..] {
                let lasted = nanos(end.info.lasted);
                let off = lasted.abs_diff(length);
                // It may be known to be longer, and never is shorter.
                assert!(
                    end.info.turns > 1 || lasted <= length + MS,
                    "{row:?} {end:?}"
                );
                assert!(
                    end.info.at_least || off <= MS || end.info.turns > 1,
                    "{end:?}"
                );
                // Of a row, the first turn's start is known less exactly.
                let periods = if end.info.turns == 1 { 1 } else { 2 };
                assert!(off <= periods * (TIMEOUT + MS), "{row:?} {end:?}");
                assert_eq!(end.info.class, StallClass::Busy);
            }
        }
    }
    let wrong = ends.iter().filter(|end| {
        let start = nanos(end.info.start);
        let (from, to) = (start, start + nanos(end.info.lasted));
        let real = truth
            .iter()
            .any(|row| row.end - row.lead + TAIL > LEAST && from < row.end && to > row.start);
        if !real {
            let near = truth
                .iter()
                .filter(|row| row.end + 500 * MS > from && row.start < to + 500 * MS);
            println!("not a stall: {end:?}, near {:?}", near.collect::<Vec<_>>());
        }
        !real
    });
    (hits, due, wrong.count())
}

#[test]
fn thousands_of_timelines_agree_with_the_plain_reference() {
    let mut random = Random(2026);
    for seed in 0..4_000 {
        let mut steps = vec![Step::Idle(
            random.between(0, 3_000) * MS + random.between(0, MS),
        )];
        for _ in 0..random.between(1, 30) {
            // A rest before whatever is slow, so that its start is not the end of something quick.
            steps.push(Step::Idle(random.between(60, 200) * MS));
            match random.between(0, 5) {
                0 => steps.push(Step::Turn(random.between(1, 200) * MS)),
                1 => steps.push(Step::Turn(random.between(250, 2_000) * MS)),
                2 => {
                    for _ in 0..random.between(1, 12) {
                        steps.push(Step::Turn(random.between(55, 120) * MS));
                        steps.push(Step::Idle(random.between(0, 2) * MS));
                    }
                }
                3 => {
                    for _ in 0..random.between(1, 40) {
                        steps.push(Step::Turn(random.between(1, 35) * MS));
                        steps.push(Step::Idle(random.between(0, 20) * MS));
                    }
                }
                _ => steps.push(Step::Idle(random.between(0, 3_000) * MS)),
            }
        }
        let mut simulation = Simulation::launched(&Stall::default(), 100 * MS, 300_000, seed);
        let begin = simulation.now();
        let (hits, due, wrong) = check(&mut simulation, begin, &steps);
        assert_eq!(
            (hits, wrong),
            (due, 0),
            "seed {seed}: {steps:?}\n{:?}",
            simulation.outcome
        );
    }
}

#[test]
fn a_day_of_an_app() {
    for seed in 24..30 {
        day(seed);
    }
}

fn day(seed: u64) {
    let mut random = Random(seed);
    let mut steps = Vec::new();
    let mut time = 0;
    while time < 86_400_000 * MS {
        // Rest; a burst of events, like scrolling or typing; now and then a freeze, behind which
        // the events that piled up are handled one after another.
        let rest = random.between(60, 20_000) * MS;
        steps.push(Step::Idle(rest));
        time += rest;
        for _ in 0..random.between(1, 100) {
            let (turn, idle) = (random.between(50_000, 12 * MS), random.between(MS, 17 * MS));
            steps.extend([Step::Turn(turn), Step::Idle(idle)]);
            time += turn + idle;
        }
        if random.between(0, 3) == 0 {
            // 1 ms to 5 s, as many short ones as long ones by order of magnitude.
            let exponent = random.between(0, 3_700) as f64 / 1_000.0;
            let freeze = (10f64.powf(exponent) * MS as f64) as u64;
            steps.extend([Step::Idle(random.between(6, 60) * MS), Step::Turn(freeze)]);
            steps.extend([
                Step::Idle(10_000),
                Step::Turn(3 * MS),
                Step::Idle(10_000),
                Step::Turn(MS),
            ]);
            time += freeze;
        }
    }
    let mut simulation = Simulation::launched(&Stall::default(), 100 * MS, 300_000, 7);
    let begin = simulation.now();
    let (hits, due, wrong) = check(&mut simulation, begin, &steps);
    let found = simulation.outcome.stalls.len();
    println!(
        "freezes of 250 ms and more: {due}, found {hits}: recall {:.2} %",
        100.0 * hits as f64 / due as f64
    );
    let right = found - wrong;
    println!(
        "stalls reported: {found}, of real freezes above 200 ms {right}: precision {:.2} %",
        100.0 * right as f64 / found as f64
    );
    let looks = simulation.outcome.looks;
    println!(
        "looks {looks}: {:.2} a second over the day",
        looks as f64 / 86_400.0
    );
    assert!(due > 500);
    assert_eq!((hits, wrong), (due, 0));
}

/// A detector past the launch, at one instant.
fn at_rest() -> (Detector, Observation) {
    let observation = Observation {
        now: 1_000 * MS,
        boot: 1_000 * MS,
        due: 1_000 * MS,
        ..Observation::default()
    };
    let mut detector = Detector::new(&Stall::default(), observation);
    let observation = Observation {
        now: observation.now + MS,
        due: observation.now + MS,
        boot: observation.boot + MS,
        beat: observation.beat.begun().ended(),
        ..observation
    };
    detector.observe(&observation);
    (detector, observation)
}

/// A turn of 100 ms, at whose 50th the world stands still in some way; `late` makes that look.
fn interrupted(late: impl FnOnce(&mut Observation)) -> Vec<Decision> {
    let (mut detector, mut observation) = at_rest();
    let mut decisions = Vec::new();
    observation.beat = observation.beat.begun();
    for _ in 0..2 {
        observation.now += 50 * MS;
        observation.boot += 50 * MS;
        observation.due = observation.now;
        observation.delay = Some(0);
        decisions.push(detector.observe(&observation).0);
    }
    late(&mut observation);
    decisions.push(detector.observe(&observation).0);
    observation.beat = observation.beat.ended();
    for _ in 0..2 {
        observation.now += 10 * MS;
        observation.boot += 10 * MS;
        observation.due = observation.now;
        decisions.push(detector.observe(&observation).0);
    }
    decisions
}

fn dropped(decisions: &[Decision]) -> Option<Reason> {
    assert!(
        !decisions
            .iter()
            .any(|decision| matches!(decision, Decision::Stalled(_)))
    );
    decisions.iter().find_map(|decision| match decision {
        Decision::Dropped(reason) => Some(*reason),
        _ => None,
    })
}

#[test]
fn a_machine_that_slept_had_no_stall() {
    // The monotonic clock stands still meanwhile; the watchdog is late by nothing.
    let decisions = interrupted(|observation| {
        observation.now += 50 * MS;
        observation.boot += 3_600_000 * MS;
        observation.due = observation.now;
    });
    assert_eq!(dropped(&decisions), Some(Reason::Sleep));
}

#[test]
fn neither_had_a_process_that_was_stopped_or_held() {
    let stopped = |observation: &mut Observation| {
        observation.due = observation.now + 50 * MS;
        observation.now += 816_000 * MS;
        observation.boot += 816_000 * MS;
    };
    assert_eq!(dropped(&interrupted(stopped)), Some(Reason::Background));
    let held = |observation: &mut Observation| {
        stopped(observation);
        observation.traced = true;
    };
    assert_eq!(dropped(&interrupted(held)), Some(Reason::Debugger));
    let one_thread = |observation: &mut Observation| {
        observation.now += 300 * MS;
        observation.boot += 300 * MS;
        observation.due = observation.now;
        (observation.held, observation.traced) = (Held::Stopped, true);
    };
    assert_eq!(dropped(&interrupted(one_thread)), Some(Reason::Debugger));
}

#[test]
fn a_process_that_is_short_of_cpu_neither_sleeps_nor_is_stopped() {
    let late = |observation: &mut Observation| {
        observation.due = observation.now + 50 * MS;
        observation.now += 400 * MS;
        // The second clock is read a moment after the first.
        observation.boot += 400 * MS + 30;
    };
    let over = interrupted(|observation| {
        late(observation);
        observation.lag = 350 * MS;
        observation.beat = observation.beat.ended();
    });
    assert_eq!(dropped(&over), Some(Reason::Late));
    // The watchdog waits for the watched thread, which is ready to run: that is a stall.
    let starved = interrupted(|observation| {
        late(observation);
        observation.delay = Some(390 * MS);
    });
    let is_stall = |decision: &Decision| matches!(decision, Decision::Stalled(_));
    assert!(starved.iter().any(is_stall), "{starved:?}");
}

#[test]
fn a_turn_that_is_over_before_the_watchdog_has_the_cpu_is_counted() {
    let woken_late = |act: fn(&mut Observation)| {
        let (mut detector, mut observation) = at_rest();
        // It rests for so long that the next beat must wake the watchdog.
        let mut decisions = Vec::new();
        for step in 0..40 {
            observation.now += if step == 20 { 400 * MS } else { 50 * MS };
            (observation.boot, observation.due) = (observation.now, observation.now);
            observation.lag = 0;
            if step == 20 {
                observation.lag = 350 * MS;
                act(&mut observation);
            }
            if step == 21 && !observation.beat.idle() {
                observation.beat = observation.beat.ended();
            }
            decisions.push(detector.observe(&observation).0);
        }
        decisions
    };
    let one = woken_late(|observation| observation.beat = observation.beat.begun().ended());
    assert_eq!(dropped(&one), Some(Reason::Late));
    let several = woken_late(|observation| {
        for _ in 0..3 {
            observation.beat = observation.beat.begun().ended();
        }
        observation.beat = observation.beat.begun();
    });
    assert_eq!(dropped(&several), Some(Reason::Late));
    let none = woken_late(|_| ());
    assert_eq!(dropped(&none), None);
    // The turn that woke it still runs: it began when the watchdog became ready to run.
    let lasts = woken_late(|observation| {
        observation.beat = observation.beat.begun();
        observation.woke = Some(observation.now - 350 * MS);
    });
    let is_stall = |decision: &Decision| matches!(decision, Decision::Stalled(_));
    assert!(lasts.iter().any(is_stall), "{lasts:?}");
}

#[test]
fn a_watchdog_that_loses_the_cpu_between_its_clocks_has_not_slept() {
    let (mut detector, mut observation) = at_rest();
    observation.beat = observation.beat.begun();
    let mut decisions = Vec::new();
    for lag in [0, 300 * MS, 0, 0] {
        observation.now += 50 * MS;
        observation.boot = observation.now - lag;
        observation.due = observation.now;
        decisions.push(detector.observe(&observation).0);
    }
    observation.beat = observation.beat.ended();
    decisions.push(detector.observe(&observation).0);
    assert_eq!(dropped(&decisions), None);
}

#[test]
fn a_clock_that_jumps_back_makes_none() {
    let decisions = interrupted(|observation| {
        observation.now -= 900 * MS;
        observation.boot -= 900 * MS;
        observation.due = observation.now;
    });
    assert_eq!(dropped(&decisions), None);
}

#[test]
fn a_thread_that_used_the_cpu_all_the_time_froze_however_late_the_watchdog_was() {
    let decisions = interrupted(|observation| {
        observation.due = observation.now + 50 * MS;
        observation.now += 400 * MS;
        observation.boot += 400 * MS;
        observation.cpu += 400 * MS;
        observation.lag = 350 * MS;
    });
    assert!(
        decisions
            .iter()
            .any(|decision| matches!(decision, Decision::Stalled(_)))
    );
}
