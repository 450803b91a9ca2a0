//! Frames, launch, CPU and memory: what stands in the vitals, and what is too much of each.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wedjat::load::{CpuLoad, MemoryLoad, SlowFrames};
use wedjat::report::{EventKind, StallClass};

use crate::support::stall::{burn, is_child, tell_all_starved};
use crate::{MS, builder, folder, reports};

#[test]
fn frames_and_launch_stand_in_the_vitals() {
    let test = "vitals::frames_and_launch_stand_in_the_vitals";
    if is_child() {
        let monitor = builder(&folder(test)).install().unwrap();
        println!("ready");
        monitor.launched();
        for _ in 0..20 {
            monitor.frame();
        }
        monitor.record("now").unwrap();
        assert_eq!(monitor.stats().shown_frames, 20);
        return;
    }
    let reports = reports(test);
    let vitals = reports[0].vitals.as_ref().unwrap();
    assert_eq!(vitals.frame_rate, Some(20.0));
    assert!(vitals.launch_time.unwrap() <= vitals.uptime.unwrap());
    let kind = vitals.launch_kind.as_deref().unwrap();
    assert!(kind == "cold" || kind == "warm");
    let memory = vitals.memory.as_ref().unwrap();
    assert!(memory.footprint.unwrap() > 0 && memory.device_total > memory.device_free);
    assert!(vitals.cpu.as_ref().unwrap().process.is_some());
}

#[inline(never)]
fn burns_much(time: Duration) {
    burn(time);
    std::hint::black_box(());
}

/// Returns true if the child of the test has left a report of this kind.
fn is_there(test: &str, kind: &str) -> bool {
    let files = std::fs::read_dir(folder(test)).unwrap();
    let mut names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.any(|name| name.contains(kind) && name.ends_with(".wedjat"))
}

#[test]
fn of_many_threads_the_newest_may_be_the_hottest() {
    let test = "vitals::of_many_threads_the_newest_may_be_the_hottest";
    if is_child() {
        let (end, parked) = (AtomicBool::new(false), Barrier::new(301));
        std::thread::scope(|scope| {
            for _ in 0..300 {
                scope.spawn(|| parked.wait());
            }
            let spinner = std::thread::Builder::new().name("spinner".into());
            let spin = || {
                while !end.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            };
            spinner.spawn_scoped(scope, spin).unwrap();
            let monitor = builder(&folder(test))
                .cpu(CpuLoad::default().share(0.1).over(200 * MS))
                .install()
                .unwrap();
            println!("ready");
            let begin = Instant::now();
            while !is_there(test, "-cpu-") && begin.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(50 * MS);
            }
            drop(monitor);
            end.store(true, Ordering::Relaxed);
            parked.wait();
        });
        return;
    }
    let report = reports(test).remove(0);
    assert_eq!(report.threads[0].name.as_deref(), Some("spinner"));
}

#[test]
fn too_much_cpu_memory_and_too_few_frames_are_reported_each_as_its_own_kind() {
    let test = "vitals::too_much_cpu_memory_and_too_few_frames_are_reported_each_as_its_own_kind";
    if is_child() {
        let monitor = builder(&folder(test))
            .cpu(CpuLoad::default().share(0.05).over(1_000 * MS))
            .memory(MemoryLoad::default().bytes(64 << 20))
            .slow_frames(
                SlowFrames::default()
                    .below(30.0)
                    .lasting(500 * MS)
                    .cpu(0.02),
            )
            .install()
            .unwrap();
        println!("ready");
        let much = vec![1u8; 80 << 20];
        let begin = Instant::now();
        let is_there = |kind: &str| is_there(test, kind);
        let wanted = ["-cpu-", "-memory-", "-stall-"];
        while !wanted.into_iter().all(is_there) && begin.elapsed() < Duration::from_secs(60) {
            monitor.frame();
            burns_much(150 * MS);
        }
        std::hint::black_box(&much);
        tell_all_starved();
        assert!(wanted.into_iter().all(is_there));
        drop(monitor);
        return;
    }
    let mut reports = reports(test);
    let mut take = |kind| {
        let place = reports
            .iter()
            .position(|report| report.event.as_ref().unwrap().kind == kind);
        reports.remove(place.unwrap_or_else(|| panic!("no {kind:?}")))
    };
    let cpu = take(EventKind::Cpu);
    let reason = cpu.event.as_ref().unwrap().reason.as_deref().unwrap();
    assert!(reason.contains("% of a core over"), "{reason}");
    assert!(
        cpu.threads[0].main && cpu.threads[0].frames.len() > 3,
        "the hottest first"
    );
    let seen: u64 = cpu.samples.iter().map(|sample| sample.count).sum();
    assert!(seen >= 10, "{seen}");
    let memory = take(EventKind::Memory);
    let footprint = memory.vitals.unwrap().memory.unwrap().footprint.unwrap();
    assert!(footprint > 64 << 20, "{footprint}");
    let frames = take(EventKind::Stall);
    let event = frames.event.as_ref().unwrap();
    assert_eq!(event.class, Some(StallClass::SlowFrames));
    assert!(event.reason.as_deref().unwrap().contains("frames a second"));
    assert!(frames.stall_end.unwrap().duration >= Duration::from_millis(500));
}
