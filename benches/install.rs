//! What `install` costs the thread that calls it, in an empty folder and among 100,000 files.
//!
//! `cargo bench --bench install`. CPU time of the calling thread; threads of the monitor's look through
//! the folder behind it.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use wedjat::{Crash, Monitor, Stall};

const MANY: usize = 100_000;

fn cpu() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` lives across the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn install(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("install");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100));
    for (name, files) in [("empty folder", 0), ("100,000 files", MANY)] {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..files {
            // Half of them look like reports that are whole.
            let name = match number % 2 {
                0 => format!("{number}.txt"),
                _ => format!("2001-02-03T04-05-06.789Z-stall-{number:08x}.wedjat"),
            };
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| {
                let mut sum = Duration::ZERO;
                for _ in 0..count {
                    let before = cpu();
                    let monitor = Monitor::builder("bench", "1")
                        .directory(folder.path())
                        .limits(wedjat::store::Limits::default().reports(2 * MANY))
                        .stall(Stall::default())
                        .crash(Crash::default())
                        .install()
                        .unwrap();
                    sum += cpu() - before;
                    drop(monitor);
                }
                sum
            });
        });
    }
    group.finish();
}

criterion_group!(benches, install);
criterion_main!(benches);
