//! What the heartbeat and the watchdog cost the app, in one run: `cargo bench --bench heartbeat`.
//!
//! Each figure stands beside its budget; the program fails when one is passed.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::hint::black_box;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use wedjat::{Heartbeat, Monitor, Stall};

    pub fn main() {
        let mut kept = true;
        let mut line = |what: &str, value: f64, unit: &str, budget: f64| {
            let word = if value <= budget { "" } else { "  OVER BUDGET" };
            kept &= value <= budget;
            println!("{what:<54} {value:>10.3} {unit:<3} (budget {budget} {unit}){word}");
        };

        let folder = tempfile::tempdir().expect("a folder");
        // What libc and std need for a first thread is no cost of ours.
        std::thread::spawn(|| ()).join().expect("a thread");
        let resident = resident_kib();
        let mut installs = Vec::new();
        let mut install = || {
            let builder = Monitor::builder("Bench", "1").directory(folder.path());
            let start = Instant::now();
            let monitor = builder.stall(Stall::default()).install();
            installs.push(start.elapsed().as_secs_f64() * 1e3);
            monitor.expect("the monitor")
        };
        let monitor = install();
        sleep(Duration::from_millis(100));
        let grown = (resident_kib() - resident) as f64 / 1024.0;
        drop(monitor);
        for _ in 0..3 {
            drop(install());
        }
        let monitor = install();
        let first = installs[0];
        installs.sort_by(f64::total_cmp);
        line("install, the first of the process", first, "ms", 5.0);
        line("install, median of 5", installs[2], "ms", 5.0);
        line(
            "resident memory of a monitor that watches",
            grown,
            "MiB",
            2.0,
        );
        let heart = monitor.heartbeat();
        heart.turn(|| ());
        let tid = thread_named("wedjat");

        let pair = best(|| turns(heart, 1_000_000)) / 1_000_000.0 * 1e9;
        line("begin + end, watchdog awake", pair, "ns", 10.0);

        // The wake: the first begin after it went to sleep.
        let mut wakes = Vec::new();
        for _ in 0..5 {
            sleep(Duration::from_millis(700));
            let start = Instant::now();
            heart.begin();
            wakes.push(start.elapsed().as_secs_f64() * 1e6);
            heart.end();
        }
        wakes.sort_by(f64::total_cmp);
        let bare = bare_wake();
        println!(
            "{:<54} {bare:>10.3} µs",
            "to compare: waking a thread by a bare futex"
        );
        let budget = bare.max(8.0) * 1.25;
        line(
            "the first begin after a rest, median of 5",
            wakes[2],
            "µs",
            budget,
        );

        // Ten seconds of rest.
        sleep(Duration::from_secs(1));
        let before = switches(tid);
        sleep(Duration::from_secs(10));
        let woken = switches(tid) - before;
        line("wake-ups in 10 s of idleness", woken as f64, "", 0.0);

        // A busy minute: turns of 4 ms, back to back.
        let (before, cpu, start) = (switches(tid), monitor.stats().watchdog, Instant::now());
        while start.elapsed() < Duration::from_secs(60) {
            heart.turn(|| burn(Duration::from_millis(4)));
        }
        let time = start.elapsed().as_secs_f64();
        let woken = switches(tid) - before;
        line("wake-ups a second when busy", woken as f64 / time, "", 21.0);
        let share = (monitor.stats().watchdog - cpu).as_secs_f64() / time * 100.0;
        line("share of a core when busy", share, "%", 0.1);
        let stalls = monitor.stats().stalls;
        println!("stalls on the way, there being none but by the machine's load: {stalls}");
        drop(monitor);
        drop(folder);
        std::process::exit(i32::from(!kept));
    }

    /// What one wake of a thread that slept for a while costs on this machine, median of 5.
    fn bare_wake() -> f64 {
        use std::sync::Arc;
        use wedjat::platform::Semaphore;
        let bell = Arc::new(Semaphore::new());
        let other = Arc::clone(&bell);
        let sleeper = std::thread::spawn(move || (0..5).for_each(|_| other.wait()));
        let mut wakes: Vec<f64> = (0..5)
            .map(|_| {
                sleep(Duration::from_millis(700));
                let start = Instant::now();
                bell.post();
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        sleeper.join().expect("it only waits");
        wakes.sort_by(f64::total_cmp);
        wakes[2]
    }

    fn best(mut run: impl FnMut() -> Duration) -> f64 {
        (0..15)
            .map(|_| run().as_secs_f64())
            .fold(f64::MAX, f64::min)
    }

    fn turns(heart: Heartbeat, count: u32) -> Duration {
        let start = Instant::now();
        for turn in 0..count {
            heart.begin();
            black_box(turn);
            heart.end();
        }
        start.elapsed()
    }

    fn burn(time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    /// How often the thread went to sleep of its own.
    fn switches(tid: i32) -> u64 {
        field(
            &format!("/proc/self/task/{tid}/status"),
            "voluntary_ctxt_switches:",
        )
    }

    fn thread_named(name: &str) -> i32 {
        let tasks = std::fs::read_dir("/proc/self/task").expect("/proc");
        let mut tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        let named = |tid: &i32| {
            let path = format!("/proc/self/task/{tid}/comm");
            std::fs::read_to_string(path).is_ok_and(|comm| comm.trim() == name)
        };
        tids.find(named).expect(name)
    }

    fn resident_kib() -> u64 {
        field("/proc/self/status", "VmRSS:")
    }

    fn field(path: &str, key: &str) -> u64 {
        let text = std::fs::read_to_string(path).expect(path);
        let line = text.lines().find(|line| line.starts_with(key)).expect(key);
        line.split_whitespace()
            .nth(1)
            .and_then(|word| word.parse().ok())
            .expect(key)
    }
}
