//! A turn that computes and then blocks: the samples follow it, and the end of the stall has the class of its whole time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::stall::{burn, only_monitor};
use wedjat::report::{Frame, Report};
use wedjat::{Monitor, RateLimit, Stall};

const COMPUTES: Duration = Duration::from_millis(300);
const WAITS: Duration = Duration::from_millis(900);

#[inline(never)]
fn computes_first(time: Duration) {
    burn(time);
    std::hint::black_box(());
}

#[inline(never)]
fn waits_then(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        sleep(left);
    }
    std::hint::black_box(());
}

/// The function that an address lies in, by where they begin; both are short.
fn owner(pc: u64, functions: [usize; 2]) -> Option<usize> {
    let within = |index: &usize| {
        pc.checked_sub(functions[*index] as u64)
            .filter(|at| *at < 2048)
    };
    (0..2)
        .filter(|index| within(index).is_some())
        .min_by_key(within)
}

/// Samples within the function that computes, and within the one that waits.
fn within(report: &Report) -> (u64, u64) {
    let (mut computes, mut waits) = (0, 0);
    let mut stack: Vec<Frame> = Vec::new();
    for sample in &report.samples {
        let kept = stack.split_off(stack.len() - sample.keep as usize);
        stack = sample.frames.iter().cloned().chain(kept).collect();
        let functions = [computes_first as fn(Duration), waits_then];
        let any = |index: usize| {
            let of = |frame: &Frame| owner(frame.pc, functions.map(|function| function as usize));
            stack.iter().any(|frame| of(frame) == Some(index))
        };
        computes += u64::from(any(0)) * sample.count;
        waits += u64::from(any(1)) * sample.count;
    }
    (computes, waits)
}

#[test]
fn a_thread_that_computes_and_then_waits_is_seen_to_wait() {
    static OVER: AtomicBool = AtomicBool::new(false);
    let _only = only_monitor();
    let folder = tempfile::tempdir().unwrap();
    let monitor = Monitor::builder("Changes", "1")
        .directory(folder.path())
        .stall(Stall::default())
        .rate_limit(RateLimit::default().same_stalls(100).per_hour(100))
        .install()
        .unwrap();
    let heart = monitor.heartbeat();
    heart.turn(|| ());
    let load: Vec<_> = (0..6)
        .map(|_| {
            std::thread::spawn(|| {
                while !OVER.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            })
        })
        .collect();
    for round in 0..12 {
        sleep(Duration::from_millis(400 + round));
        heart.turn(|| {
            computes_first(COMPUTES + Duration::from_millis(4 * round));
            waits_then(WAITS);
        });
    }
    sleep(Duration::from_millis(300));
    OVER.store(true, Ordering::Relaxed);
    load.into_iter().for_each(|thread| thread.join().unwrap());
    let stats = monitor.stats();
    drop(monitor);
    let reports = wedjat::store::reports(folder.path()).unwrap();
    let reports: Vec<Report> =
        (reports.iter().map(|stored| stored.read().unwrap().report)).collect();
    // Two turns may be one stall where the watchdog had no CPU between them.
    assert!(reports.len() > 6, "{}: {stats:?}", reports.len());
    for report in &reports {
        if report.stall_end.as_ref().unwrap().duration > Duration::from_secs(2) {
            continue;
        }
        let (computes, waits) = within(report);
        if waits + computes < 8 {
            // The watchdog had next to no CPU.
            continue;
        }
        // Of 1.2 s, 0.3 s are the first's.
        assert!(waits > 2 * computes, "{computes} and {waits}");
        // It waits for most of the time, whatever its first 250 ms were.
        assert_eq!(report.class_word(), Some("blocked"));
    }
}
