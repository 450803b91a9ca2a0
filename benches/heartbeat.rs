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
#[path = "heartbeat/threads.rs"]
mod threads;

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
        let compare = |what: &str, value: f64, unit: &str| {
            println!("{:<54} {value:>10.3} {unit}", format!("to compare: {what}"));
        };
        let bare = bare_wake();
        compare("waking a thread by a bare futex", bare, "µs");
        for (what, wake) in wakes::OTHERS {
            compare(what, wake(), "µs");
        }
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

        // A busy minute, turns of 4 ms back to back, in five parts; behind each, a thread that does nothing but wake as often.
        let mut woken = 0;
        let mut shares = Vec::new();
        for _ in 0..5 {
            let (before, cpu, start) = (switches(tid), monitor.stats().watchdog, Instant::now());
            while start.elapsed() < Duration::from_secs(12) {
                heart.turn(|| burn(Duration::from_millis(4)));
            }
            let time = start.elapsed().as_secs_f64();
            woken += switches(tid) - before;
            let share = (monitor.stats().watchdog - cpu).as_secs_f64() / time * 100.0;
            shares.push((share, ticks::futex(|| burn(Duration::from_millis(4)))));
        }
        line("wake-ups a second when busy", woken as f64 / 60.0, "", 21.0);
        shares.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let (share, bare) = shares[2];
        line(
            "share of a core when busy, median of 5",
            share,
            "%",
            bare.max(0.09) * 1.1,
        );
        compare("a futex's time-out 20 times a second", bare, "%");
        for (share, bare) in shares {
            compare("one part, of such a time-out", share / bare, "x");
        }
        for (what, share) in ticks::OTHERS {
            compare(what, share(|| burn(Duration::from_millis(4))), "%");
        }
        let stalls = monitor.stats().stalls;
        println!("stalls on the way, there being none but by the machine's load: {stalls}");
        drop(monitor);

        let pair = crate::threads::pair(folder.path());
        line("begin + end of a pool's thread", pair, "ns", 10.0);
        let one = crate::threads::share(folder.path(), 1);
        line(
            "share of a core, 1 thread, 20 turns a second",
            one,
            "%",
            0.5,
        );
        for count in [8, 64] {
            let share = crate::threads::share(folder.path(), count);
            let what = format!("the same, {count} threads");
            line(&what, share, "%", one * 2.0);
        }
        drop(folder);
        std::process::exit(i32::from(!kept));
    }

    /// What one wake of a thread that slept for a while costs on this machine, median of 5.
    fn bare_wake() -> f64 {
        use std::sync::Arc;
        use wedjat::platform::Semaphore;
        let wake_up = Arc::new(Semaphore::new());
        let other = Arc::clone(&wake_up);
        let sleeper = std::thread::spawn(move || (0..5).for_each(|_| other.wait()));
        let wake = median(|| wake_up.post());
        sleeper.join().expect("it only waits");
        wake
    }

    fn median(mut wake: impl FnMut()) -> f64 {
        let mut wakes: Vec<f64> = (0..5)
            .map(|_| {
                sleep(Duration::from_millis(700));
                let start = Instant::now();
                wake();
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        wakes.sort_by(f64::total_cmp);
        wakes[2]
    }

    /// Other ways to wake a thread, none of which the heartbeat takes.
    mod wakes {
        use super::median;

        type Wake = fn() -> f64;

        pub const OTHERS: [(&str, Wake); 3] = [
            ("waking a thread by an eventfd", eventfd),
            ("waking a thread by a condition variable", condition),
            ("having a timer wake it 5 ms later", timer),
        ];

        fn eventfd() -> f64 {
            // SAFETY: no memory is involved.
            let fd = unsafe { libc::eventfd(0, 0) };
            let sleeper = std::thread::spawn(move || (0..5).for_each(|_| read(fd)));
            let wake = median(|| {
                let one = 1u64;
                // SAFETY: eight bytes, as an eventfd wants them.
                unsafe { libc::write(fd, (&raw const one).cast(), 8) };
            });
            sleeper.join().expect("it only waits");
            wake
        }

        fn condition() -> f64 {
            use std::sync::{Arc, Condvar, Mutex};
            let shared = Arc::new((Mutex::new(0), Condvar::new()));
            let other = Arc::clone(&shared);
            let sleeper = std::thread::spawn(move || {
                for round in 1..=5 {
                    let mut seen = other.0.lock().expect("no panic");
                    while *seen < round {
                        seen = other.1.wait(seen).expect("no panic");
                    }
                }
            });
            let wake = median(|| {
                *shared.0.lock().expect("no panic") += 1;
                shared.1.notify_one();
            });
            sleeper.join().expect("it only waits");
            wake
        }

        fn timer() -> f64 {
            // SAFETY: no memory is involved.
            let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) };
            let sleeper = std::thread::spawn(move || (0..5).for_each(|_| read(fd)));
            let wake = median(|| {
                let none = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                let soon = libc::itimerspec {
                    it_interval: none,
                    it_value: libc::timespec {
                        tv_nsec: 5_000_000,
                        ..none
                    },
                };
                // SAFETY: a structure that lives across the call.
                unsafe { libc::timerfd_settime(fd, 0, &soon, std::ptr::null_mut()) };
            });
            sleeper.join().expect("it only waits");
            wake
        }

        fn read(fd: i32) {
            let mut count = 0u64;
            // SAFETY: room for eight bytes.
            unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
        }
    }

    /// Threads that wake 20 times a second for ten seconds and do nothing: what that alone takes of a core.
    mod ticks {
        use std::time::Duration;

        type Share = fn(fn()) -> f64;

        pub const OTHERS: [(&str, Share); 2] = [
            ("the same with 4 ms of timer slack", |busy| {
                share(busy, 4_000_000, time_out)
            }),
            ("clock_nanosleep 20 times a second", |busy| {
                share(busy, 0, nanosleep)
            }),
        ];
        const TICKS: u64 = 200;

        pub fn futex(busy: fn()) -> f64 {
            share(busy, 0, time_out)
        }

        fn share(busy: fn(), slack: u64, wait: fn(&libc::timespec)) -> f64 {
            let ticker = std::thread::spawn(move || {
                if slack > 0 {
                    // SAFETY: concerns the calling thread alone.
                    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack) };
                }
                let before = nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID);
                let mut due = nanoseconds(libc::CLOCK_MONOTONIC);
                for _ in 0..TICKS {
                    due += 50_000_000;
                    wait(&libc::timespec {
                        tv_sec: (due / 1_000_000_000) as libc::time_t,
                        tv_nsec: (due % 1_000_000_000) as libc::c_long,
                    });
                }
                nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID) - before
            });
            while !ticker.is_finished() {
                busy();
            }
            let used = Duration::from_nanos(ticker.join().expect("it only waits"));
            used.as_secs_f64() / (TICKS as f64 * 0.05) * 100.0
        }

        fn time_out(until: &libc::timespec) {
            let word = 0u32;
            // SAFETY: a word and a time that live across the call.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    &raw const word,
                    libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
                    0,
                    until,
                    0,
                    libc::FUTEX_BITSET_MATCH_ANY,
                )
            };
        }

        fn nanosleep(until: &libc::timespec) {
            let (clock, absolute) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
            // SAFETY: a time that lives across the call.
            unsafe { libc::clock_nanosleep(clock, absolute, until, std::ptr::null_mut()) };
        }

        fn nanoseconds(clock: libc::clockid_t) -> u64 {
            let mut time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: a structure that lives across the call.
            unsafe { libc::clock_gettime(clock, &mut time) };
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        }
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
