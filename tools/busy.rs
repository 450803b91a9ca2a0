//! A soak on a machine that is short of CPU: stalls of 300 to 800 ms beside busy loops, and what became of each.
//!
//! `cargo run --release --example busy -- SECONDS LOOPS NICE [THREADS]`: busy loops at nice 0, stalls in this process at that
//! nice value, on so many watched threads (1). Each turn of 300 ms and more is one that must be reported, or counted under the
//! reason why it was not. The truth is each turn's own clock.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this example needs Linux");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command};
    use std::sync::{Arc, Mutex, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    use wedjat::platform::clock::monotonic;
    use wedjat::store::{self, Limits};
    use wedjat::{Heartbeat, Monitor, RateLimit, Stall};

    /// A turn that took long: its thread, its kind, its round, when it began and ended.
    struct Turn {
        thread: u64,
        kind: &'static str,
        round: usize,
        from: u64,
        to: u64,
    }

    /// Reasons of the losses that were counted in a round, each as often as it was.
    type Losses = Vec<&'static str>;

    /// Turns of this length must be reported, milliseconds.
    const LONG: u64 = 300;
    /// Nanoseconds of a millisecond.
    const MS: u64 = 1_000_000;

    pub fn main() -> Result<(), Box<dyn std::error::Error>> {
        let words: Vec<u64> = std::env::args()
            .skip(1)
            .flat_map(|word| word.parse())
            .collect();
        let (seconds, loops, nice, threads) = match *words.as_slice() {
            [seconds, loops, nice] => (seconds, loops, nice, 1),
            [seconds, loops, nice, threads] => (seconds, loops, nice, threads),
            _ => loop {
                std::hint::black_box(0);
            },
        };
        let program = std::env::current_exe()?;
        let load: Result<Vec<Child>, _> =
            (0..loops).map(|_| Command::new(&program).spawn()).collect();
        let mut load = load?;
        // SAFETY: plain values; it is this process' own nice value, for threads to come too.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice as i32) };
        let folder = std::env::temp_dir().join(format!("wedjat-busy-{}", std::process::id()));
        let monitor = Monitor::builder("busy", "1")
            .directory(&folder)
            .stall(Stall::default())
            .limits(Limits::default().reports(1 << 20).bytes(1 << 40))
            .rate_limit(
                RateLimit::default()
                    .same_stalls(u32::MAX)
                    .per_hour(u32::MAX)
                    .bytes_per_hour(u64::MAX)
                    .captures_per_hour(u32::MAX),
            )
            .install()?;
        let (turns, rounds) = play_on(threads, &monitor, Duration::from_secs(seconds));
        let stats = monitor.stats();
        drop(monitor);
        for child in &mut load {
            child.kill()?;
            child.wait()?;
        }
        judge(&turns, rounds, &folder)?;
        println!("losses of this launch: {:?}", stats.losses);
        std::fs::remove_dir_all(&folder)?;
        Ok(())
    }

    /// Plays on this thread and on others beside it.
    fn play_on(threads: u64, monitor: &Monitor, time: Duration) -> (Vec<Turn>, Vec<Losses>) {
        thread::scope(|scope| {
            let other = || {
                let watch = wedjat::watch_thread("busy", Stall::default()).expect("a watch");
                play(monitor, watch.heartbeat(), time).0
            };
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(other)).collect();
            let (mut turns, rounds) = play(monitor, monitor.heartbeat(), time);
            if threads == 1 {
                return (turns, rounds);
            }
            for other in others {
                turns.extend(other.join().expect("its turns"));
            }
            // A loss has no thread: all are one round.
            turns.iter_mut().for_each(|turn| turn.round = 0);
            let losses = monitor.stats().losses;
            let all = losses
                .iter()
                .flat_map(|(reason, count)| std::iter::repeat_n(*reason, *count as usize));
            (turns, vec![all.collect()])
        })
    }

    fn play(monitor: &Monitor, heart: Heartbeat, time: Duration) -> (Vec<Turn>, Vec<Losses>) {
        let lock = Arc::new(Mutex::new(()));
        let (hold, held) = mpsc::channel::<(Duration, mpsc::Sender<()>)>();
        let locks = Arc::clone(&lock);
        thread::spawn(move || {
            for (time, ready) in held {
                let _held = locks.lock();
                let _ = ready.send(());
                thread::sleep(time);
            }
        });
        let id = wedjat::threads::id();
        let mut seed = 88172645463325252u64 ^ id;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let watchdog = watchdog();
        let mut turns: Vec<Turn> = Vec::new();
        let mut rounds = Vec::new();
        let begin = Instant::now();
        let mut last = monitor.stats().losses;
        for round in 0.. {
            if begin.elapsed() >= time {
                break;
            }
            let mut turn = |kind: &'static str, act: &mut dyn FnMut()| {
                let from = monotonic();
                heart.turn(act);
                let to = monotonic();
                if to - from < LONG * MS {
                    return;
                }
                // Slow turns without a rest between them are one stall.
                match turns.last_mut() {
                    Some(last) if from - last.to < 50 * MS => last.to = to,
                    _ => turns.push(Turn {
                        thread: id,
                        kind,
                        round,
                        from,
                        to,
                    }),
                }
            };
            for _ in 0..random(4) {
                turn("quick", &mut || spin(Duration::from_millis(1)));
            }
            let length = Duration::from_millis(LONG + random(500));
            match round % 3 {
                0 => turn("busy", &mut || spin(length)),
                1 => turn("sleep", &mut || thread::sleep(length)),
                _ => {
                    let (ready, is_ready) = mpsc::channel();
                    let _ = hold.send((length, ready));
                    let _ = is_ready.recv();
                    turn("lock", &mut || drop(lock.lock()));
                }
            }
            thread::sleep(Duration::from_millis(500 + random(800)));
            // A watchdog that still waits for a core has not looked yet.
            while !sleeps(&watchdog) {
                thread::sleep(Duration::from_millis(10));
            }
            let now = monitor.stats().losses;
            let grown = now.iter().flat_map(|(reason, count)| {
                let before = last.get(reason).copied().unwrap_or(0);
                std::iter::repeat_n(*reason, (count - before) as usize)
            });
            rounds.push(grown.collect());
            last = now;
        }
        (turns, rounds)
    }

    /// The folder of the watchdog's thread in `/proc`.
    fn watchdog() -> PathBuf {
        let tasks = std::fs::read_dir("/proc/self/task").expect("/proc");
        let mut tasks = tasks.flatten().map(|task| task.path());
        let is_ours = |task: &PathBuf| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "wedjat\n")
        };
        tasks.find(is_ours).expect("the watchdog")
    }

    fn sleeps(task: &Path) -> bool {
        let stat = std::fs::read_to_string(task.join("stat")).expect("its state");
        stat.contains(") S ")
    }

    /// Works by the wall clock, as code does that waits for nothing.
    fn spin(time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            std::hint::black_box(0);
        }
    }

    fn judge(
        turns: &[Turn],
        mut rounds: Vec<Losses>,
        folder: &Path,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let mut reports = Vec::new();
        let mut empty = 0;
        for stored in store::reports(folder)? {
            let report = stored.read()?.report;
            empty += usize::from(
                report
                    .threads
                    .first()
                    .is_none_or(|thread| thread.frames.is_empty()),
            );
            let thread = report.threads.first().map_or(0, |thread| thread.id);
            reports.push((thread, report.head.clock.as_nanos() as u64));
        }
        let (mut reported, mut counted) = (0, 0);
        let mut lost: BTreeMap<String, u32> = BTreeMap::new();
        for (turn, next) in turns
            .iter()
            .zip(turns.iter().skip(1).map(Some).chain([None]))
        {
            let next = next.filter(|next| next.thread == turn.thread);
            let until = next.map_or(u64::MAX, |next| next.from);
            let is_its = |&(thread, clock): &(u64, u64)| {
                thread == turn.thread && (turn.from..until).contains(&clock)
            };
            if reports.iter().any(is_its) {
                reported += 1;
            } else {
                let loss = rounds.get_mut(turn.round).and_then(Vec::pop);
                counted += usize::from(loss.is_some());
                let reason = loss.unwrap_or("nowhere");
                let took = (turn.to - turn.from) / MS;
                println!("not reported: {} of {took} ms, {reason}", turn.kind);
                *lost.entry(format!("{} {reason}", turn.kind)).or_default() += 1;
            }
        }
        println!(
            "{} turns of {LONG} ms and more: {reported} reported ({:.1} %), {counted} counted as lost, {} nowhere; {} reports, \
             {empty} without frames; {lost:?}",
            turns.len(),
            100.0 * reported as f64 / turns.len().max(1) as f64,
            turns.len() - reported - counted,
            reports.len(),
        );
        Ok(())
    }
}
