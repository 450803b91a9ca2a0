//! One freeze of each kind, each in a process of its own, and what the report says of it: which
//! function is to blame, of which class it is, for locks who holds them, and how long its line of ndjson is.
//!
//! `cargo run --release --example freezes`; the exit status says whether each culprit was named, and the lines have 30 KB or
//! less on average.

#[cfg(not(all(target_os = "linux", feature = "symbolicate")))]
fn main() {
    eprintln!("this example needs Linux and the feature `symbolicate`");
}

#[cfg(all(target_os = "linux", feature = "symbolicate"))]
/// Plays what its arguments say; without any, one freeze of each kind.
pub fn main() {
    linux::main();
}

#[cfg(all(target_os = "linux", feature = "symbolicate"))]
mod linux {
    use std::io::Read;
    use std::path::Path;
    use std::process::{Command, exit};
    use std::sync::{Arc, Barrier, Mutex};
    use std::thread;
    use std::time::{Duration, Instant};

    use wedjat::report::Report;
    use wedjat::symbolicate::format::{Format, Ndjson, Style};
    use wedjat::symbolicate::{DebugFiles, Symbolicator};
    use wedjat::{Heartbeat, Monitor, Stall};

    /// Name, what does it, the functions that the report must name, the class, and a part of the
    /// reason.
    type Kind = (
        &'static str,
        fn(Heartbeat),
        &'static [&'static str],
        &'static str,
        &'static str,
    );

    const KINDS: [Kind; 8] = [
        (
            "busy loop",
            |heart| heart.turn(sorts_badly),
            &["sorts_badly"],
            "busy",
            "",
        ),
        (
            "sleeping I/O",
            |heart| heart.turn(reads_a_pipe),
            &["reads_a_pipe"],
            "blocked",
            "",
        ),
        (
            "lock held by another thread",
            |heart| heart.turn(waits_for_the_database),
            &["waits_for_the_database", "holds_the_database"],
            "blocked",
            "held by thread",
        ),
        (
            "Rust mutex",
            |heart| heart.turn(waits_for_the_cache),
            &["waits_for_the_cache", "holds_the_cache"],
            "blocked",
            "holder unknown",
        ),
        (
            "deadlock",
            |heart| heart.turn(locks_a_then_b),
            &["locks_a_then_b", "locks_b_then_a"],
            "blocked",
            "deadlock",
        ),
        (
            "row of short freezes",
            |heart| (0..6).for_each(|_| heart.turn(draws_slowly)),
            &["draws_slowly"],
            "busy",
            "",
        ),
        (
            "slow launch",
            |heart| heart.turn(loads_everything),
            &["loads_everything"],
            "launch",
            "",
        ),
        (
            "freeze after a quick beginning",
            |heart| heart.turn(imports),
            &["parses"],
            "busy",
            "",
        ),
    ];

    pub fn main() {
        let mut arguments = std::env::args().skip(1);
        if let (Some(name), Some(folder)) = (arguments.next(), arguments.next()) {
            return child(&name, Path::new(&folder));
        }
        let (mut missed, mut lines) = (0, Vec::new());
        // One for all: what it has read of a debug file it keeps.
        let mut files = DebugFiles::new();
        let own = std::env::current_exe().expect("this program");
        files.add(&own).expect("its debug information");
        let symbolicator = Symbolicator::new(files);
        for (name, _, culprits, class, reason) in KINDS {
            let folder =
                std::env::temp_dir().join(format!("wedjat-freezes-{}", std::process::id()));
            let mut child = Command::new(std::env::current_exe().expect("this program"))
                .args([name.as_ref(), folder.as_os_str()])
                .spawn()
                .expect("a child");
            let begin = Instant::now();
            while child.try_wait().expect("our child").is_none() {
                if begin.elapsed() > Duration::from_secs(5) {
                    // The deadlock: the user loses patience. The next launch closes the report.
                    child.kill().expect("our child");
                }
                thread::sleep(Duration::from_millis(20));
            }
            let next = Monitor::builder("Freezes", "1")
                .directory(&folder)
                .install();
            drop(next.expect("the next launch"));
            let stored = wedjat::store::reports(&folder).expect("the folder of reports");
            println!("== {name}");
            // On a busy machine the thread may get no CPU between two short freezes: they are two stalls then.
            let shown = stored.iter().map(|stored| {
                let report = stored.read().expect("a report").report;
                show(&symbolicator, report, culprits, class, reason, &mut lines)
            });
            if !shown.reduce(|all, one| all && one).unwrap_or(false) {
                println!(
                    "MISSED in {} reports: {culprits:?}, {class}, {reason}",
                    stored.len()
                );
                missed += 1;
            }
            std::fs::remove_dir_all(&folder).expect("our folder");
        }
        println!("{} of {} named", KINDS.len() - missed, KINDS.len());
        let average = lines.iter().sum::<usize>() / lines.len().max(1);
        let most = lines.iter().max().unwrap_or(&0);
        println!("a line of ndjson: {average} bytes on average, {most} at most");
        if missed > 0 || average > MOST {
            exit(1);
        }
    }

    /// Bytes that a line of ndjson may have on average.
    const MOST: usize = 30_000;

    fn child(name: &str, folder: &Path) {
        let monitor = Monitor::builder("Freezes", "1")
            .directory(folder)
            .stall(Stall::default())
            .install()
            .expect("the monitor");
        let heart = monitor.heartbeat();
        if name != "slow launch" {
            heart.turn(|| ());
        }
        let (_, play, ..) = KINDS
            .into_iter()
            .find(|kind| kind.0 == name)
            .expect("a kind");
        play(heart);
        thread::sleep(Duration::from_millis(100));
        drop(monitor);
    }

    /// Prints what the report says; true if it says all that it must.
    fn show(
        symbolicator: &Symbolicator,
        report: Report,
        culprits: &[&str],
        class: &str,
        reason: &str,
        lines: &mut Vec<usize>,
    ) -> bool {
        let event = report.event.clone().unwrap_or_default();
        let (kind, why) = (
            report.class_word().unwrap_or_default().to_owned(),
            event.reason.unwrap_or_default(),
        );
        let lasted = report.stall_end.as_ref().map_or_else(
            || "no end".to_owned(),
            |end| format!("{} ms", end.duration.as_millis()),
        );
        let samples: u64 = report.samples.iter().map(|sample| sample.count).sum();
        let syscall = report.threads[0].syscall.clone().unwrap_or_default();
        println!("   {kind} {syscall}; {why}; {lasted}; {samples} samples");
        let named = symbolicator.symbolicate(report);
        let mut line = Vec::new();
        let written =
            Ndjson::default().report(&Style::default(), "freeze.wedjat", &named, &mut line);
        written.expect("a line in memory");
        lines.push(line.len());
        let samples = named.samples.iter().map(|sample| &sample.frames);
        let stacks = named
            .threads
            .iter()
            .map(|thread| &thread.frames)
            .chain(samples);
        let mut found = vec![None; culprits.len()];
        for frame in stacks.flatten().flat_map(|physical| physical.frames.iter()) {
            let function = frame.function.as_deref().unwrap_or_default();
            let at = culprits
                .iter()
                .position(|culprit| function.contains(culprit));
            if let (Some(at), Some(line)) = (at, frame.line) {
                found[at].get_or_insert((function.to_owned(), line));
            }
        }
        for place in found.iter().flatten() {
            println!("   {} (line {})", place.0, place.1);
        }
        let classes = [class, "starved"];
        found.iter().all(Option::is_some)
            && (kind == class || class == "busy" && classes.contains(&kind.as_str()))
            && why.contains(reason)
    }

    /// Uses CPU time, so that a freeze is as long on a busy machine: no time counts in which a thread had no CPU.
    /// What calls it has a word of its own behind it: functions with one body would be folded into one.
    #[inline(never)]
    fn burn(time: Duration) {
        let end = used() + time;
        while used() < end {
            std::hint::spin_loop();
        }
    }

    /// CPU time of this thread.
    fn used() -> Duration {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the call fills in `now`, which lives across it.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    #[inline(never)]
    fn sorts_badly() {
        burn(Duration::from_millis(500));
        std::hint::black_box("sorts_badly");
    }

    #[inline(never)]
    fn draws_slowly() {
        burn(Duration::from_millis(60));
        std::hint::black_box("draws_slowly");
    }

    #[inline(never)]
    fn loads_everything() {
        burn(Duration::from_millis(500));
        std::hint::black_box("loads_everything");
    }

    #[inline(never)]
    fn imports() {
        burn(Duration::from_millis(30));
        parses();
        std::hint::black_box("imports");
    }

    #[inline(never)]
    fn parses() {
        burn(Duration::from_millis(500));
        std::hint::black_box("parses");
    }

    #[inline(never)]
    fn reads_a_pipe() {
        let (mut from, to) = std::io::pipe().expect("a pipe");
        let writer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(500));
            drop(to);
        });
        from.read_to_end(&mut Vec::new()).expect("nothing to read");
        writer.join().expect("the writer");
    }

    /// A lock of libc's, as C and C++ code has.
    struct Lock(std::cell::UnsafeCell<libc::pthread_mutex_t>);

    // SAFETY: a mutex is made to be used by many threads.
    unsafe impl Sync for Lock {}

    impl Lock {
        const fn new() -> Lock {
            Lock(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
        }

        fn lock(&self) {
            // SAFETY: initialised, and never moved: it is a static.
            unsafe { libc::pthread_mutex_lock(self.0.get()) };
        }

        fn unlock(&self) {
            // SAFETY: as above; this thread holds it.
            unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        }
    }

    static DATABASE: Lock = Lock::new();
    static A: Lock = Lock::new();
    static B: Lock = Lock::new();

    #[inline(never)]
    fn waits_for_the_database() {
        let held = Arc::new(Barrier::new(2));
        let theirs = held.clone();
        let holder = thread::spawn(move || holds_the_database(&theirs));
        held.wait();
        DATABASE.lock();
        DATABASE.unlock();
        holder.join().expect("the holder");
    }

    #[inline(never)]
    fn holds_the_database(held: &Barrier) {
        DATABASE.lock();
        held.wait();
        thread::sleep(Duration::from_millis(600));
        DATABASE.unlock();
    }

    #[inline(never)]
    fn waits_for_the_cache() {
        let cache = Arc::new(Mutex::new(0));
        let held = Arc::new(Barrier::new(2));
        let (theirs, their_cache) = (held.clone(), cache.clone());
        let holder = thread::spawn(move || holds_the_cache(&theirs, &their_cache));
        held.wait();
        *cache.lock().expect("the cache") += 1;
        holder.join().expect("the holder");
    }

    #[inline(never)]
    fn holds_the_cache(held: &Barrier, cache: &Mutex<u32>) {
        let mut cache = cache.lock().expect("the cache");
        held.wait();
        thread::sleep(Duration::from_millis(600));
        *cache += 1;
    }

    #[inline(never)]
    fn locks_a_then_b() {
        let held = Arc::new(Barrier::new(2));
        let theirs = held.clone();
        let other = thread::spawn(move || locks_b_then_a(&theirs));
        A.lock();
        held.wait();
        B.lock();
        B.unlock();
        A.unlock();
        other.join().expect("the other");
    }

    #[inline(never)]
    fn locks_b_then_a(held: &Barrier) {
        B.lock();
        held.wait();
        A.lock();
        A.unlock();
        B.unlock();
    }
}
