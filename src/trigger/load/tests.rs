//! Loads over time, and when they are reported.

use super::*;

const MS: u64 = 1_000_000;

/// Plays spans of (milliseconds, process CPU, watched CPU, frames a second, MiB) and gives what
/// was found, with the millisecond.
fn play(loads: Loads, spans: &[(u64, f64, f64, f64, u64)]) -> Vec<(u64, Excess)> {
    let mut gauge = LoadObservation {
        limit: 1000 << 20,
        ..LoadObservation::default()
    };
    let mut detector = LoadDetector::new(loads, gauge);
    let period = detector.period();
    let (mut found, mut frames) = (Vec::new(), 0.0);
    for &(length, process, watched, rate, size) in spans {
        for _ in 0..length * MS / period {
            gauge.now += period;
            gauge.process += (period as f64 * process) as u64;
            gauge.watched += (period as f64 * watched) as u64;
            frames += rate * period as f64 / 1e9;
            gauge.frames = frames as u64;
            gauge.footprint = size << 20;
            let all = detector.observe(&gauge).into_iter().flatten();
            found.extend(all.map(|excess| (gauge.now / MS, excess)));
        }
    }
    found
}

#[test]
fn much_cpu_for_long_is_reported_once_a_time() {
    let loads = Loads {
        cpu: Some(CpuLoad::default()),
        ..Loads::default()
    };
    let none = play(
        loads,
        &[(40_000, 0.9, 0.0, 0.0, 1), (300_000, 0.5, 0.0, 0.0, 1)],
    );
    assert_eq!(none, []);
    let found = play(
        loads,
        &[(120_000, 0.1, 0.0, 0.0, 1), (130_000, 0.9, 0.0, 0.0, 1)],
    );
    assert_eq!(found.len(), 2, "{found:?}");
    let Excess::Cpu { share, time } = found[1].1 else {
        panic!("{found:?}")
    };
    assert!((share - 0.9).abs() < 0.01 && time >= 60_000 * MS);
}

#[test]
fn much_memory_is_reported_when_it_comes_and_when_it_grows() {
    let loads = Loads {
        memory: Some(MemoryLoad::default()),
        ..Loads::default()
    };
    let spans = [700, 810, 790, 815, 900, 700, 805, 2000].map(|size| (3_000, 0.0, 0.0, 0.0, size));
    let sizes: Vec<u64> = play(loads, &spans)
        .into_iter()
        .map(|(_, excess)| match excess {
            Excess::Memory { footprint, .. } => footprint >> 20,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [810, 805, 2000]);
    let loads = Loads {
        memory: Some(MemoryLoad::default().bytes(100 << 20)),
        ..Loads::default()
    };
    assert_eq!(play(loads, &[(3_000, 0.0, 0.0, 0.0, 101)]).len(), 1);
}

#[test]
fn few_frames_count_only_while_the_thread_is_busy_and_for_long() {
    let loads = Loads {
        frames: Some(SlowFrames::default()),
        ..Loads::default()
    };
    let smooth = (10_000, 1.0, 0.9, 60.0, 1);
    let idle = (60_000, 0.0, 0.01, 1.0, 1);
    let slow = |time| (time, 1.0, 0.9, 10.0, 1);
    assert_eq!(
        play(
            loads,
            &[smooth, idle, smooth, slow(4_000), smooth, slow(3_000)]
        ),
        []
    );
    assert_eq!(
        play(loads, &[(60_000, 1.0, 0.9, 0.0, 1)]),
        [],
        "it has no frames at all"
    );
    let found = play(loads, &[smooth, slow(60_000), smooth, slow(8_000)]);
    assert_eq!(found.len(), 2, "{found:?}");
    let Excess::Frames { rate, lasted, cpu } = found[0].1 else {
        panic!("{found:?}")
    };
    assert!(
        (rate - 10.0).abs() < 1.0 && (cpu - 0.9).abs() < 0.01,
        "{found:?}"
    );
    assert!((5_000 * MS..=7_000 * MS).contains(&lasted), "{found:?}");
    // Looked at often for the sake of CPU, two frames are further apart than two observations.
    let cpu = CpuLoad::default().share(9.0);
    let often = Loads {
        cpu: Some(cpu.over(Duration::from_millis(200))),
        ..loads
    };
    assert_eq!(play(often, &[slow(60_000)]).len(), 1);
}
