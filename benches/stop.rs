//! How long a capture stops the watched thread, as that thread itself sees it:
//! `cargo bench --bench stop`.
//!
//! The main thread reads the clock without pause under a stack of a given shape; another thread
//! captures it. Whatever gap in its time lies within a capture is what the capture took from it.
//! The two are kept on two cores. Beside it, in the same run: a handler that does nothing, a handler
//! that unwinds, a plain copy of as many bytes, and one that another core reads between two rounds, as
//! the unwinding thread does. The last rows have async functions on the stack, whose callers are read
//! after the stop.

#[cfg(target_os = "linux")]
mod stacks;

#[cfg(target_os = "linux")]
mod bench {
    use std::cell::UnsafeCell;
    use std::hint::black_box;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::Duration;

    use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
    use wedjat::platform::Thread;
    use wedjat::platform::clock::monotonic;
    use wedjat::unwind::Registers;

    use crate::stacks::deep;
    use crate::stacks::marked::Marked;

    const ROUNDS: usize = 400;

    static STOP: AtomicBool = AtomicBool::new(false);
    static ANSWERS: AtomicU64 = AtomicU64::new(0);

    struct InHandler(UnsafeCell<Option<Capturer>>);
    // SAFETY: used by the watched thread's handler alone while a signal is under way, and set while
    // none is.
    unsafe impl Sync for InHandler {}
    static IN_HANDLER: InHandler = InHandler(UnsafeCell::new(None));

    extern "C" fn empty(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        ANSWERS.fetch_add(1, Ordering::Release);
    }

    extern "C" fn unwinds(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: see `InHandler`; the context is this handler's.
        unsafe {
            if let Some(capturer) = &mut *IN_HANDLER.0.get() {
                let registers = Registers::from_context(context);
                black_box(
                    capturer
                        .capture_context(&registers, &ImageTable::enter())
                        .frames
                        .len(),
                );
            }
        }
        ANSWERS.fetch_add(1, Ordering::Release);
    }

    fn handle(
        signal: i32,
        handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void),
    ) {
        // SAFETY: a plain struct; both handlers keep to the rules of handlers.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }

    fn signal_and_wait(signal: i32) {
        let before = ANSWERS.load(Ordering::Acquire);
        // SAFETY: a signal to the main thread of this process, which has a handler for it.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::getpid(), signal) };
        while ANSWERS.load(Ordering::Acquire) == before {
            std::hint::spin_loop();
        }
    }

    /// Gaps that the watched thread saw: from, to.
    fn watch(gaps: &mut Vec<(u64, u64)>) {
        gaps.clear();
        let mut last = monotonic();
        while !STOP.load(Ordering::Relaxed) {
            let now = monotonic();
            if now - last > 400 && gaps.len() < gaps.capacity() {
                gaps.push((last, now));
            }
            last = now;
        }
    }

    /// What the rounds took from the watched thread, nanoseconds: the tenth part of them that was
    /// least. In the rest something else may have had the core meanwhile, on a busy machine in most.
    fn measure<const PAD: usize>(
        frames: usize,
        marked: &Marked,
        prepare: impl Fn() + Send,
        mut round: impl FnMut() + Send,
    ) -> u64 {
        let mut gaps = Vec::with_capacity(1 << 20);
        STOP.store(false, Ordering::Relaxed);
        let rounds = std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                let mut rounds = Vec::with_capacity(ROUNDS);
                pin(1);
                std::thread::sleep(Duration::from_millis(5));
                for _ in 0..ROUNDS {
                    prepare();
                    let start = monotonic();
                    round();
                    rounds.push((start, monotonic() + 2_000));
                    std::thread::sleep(Duration::from_micros(100));
                }
                STOP.store(true, Ordering::Relaxed);
                rounds
            });
            deep::<PAD>(frames, &mut || marked.below(&mut || watch(&mut gaps)));
            other.join().expect("no panic")
        });
        // The first gap that a handler could make: later ones belong to whatever else runs here.
        tenth(rounds.iter().filter_map(|(start, end)| {
            let within = gaps.iter().filter(|(from, to)| to > start && from < end);
            within.map(|(from, to)| to - from).find(|gap| *gap > 1_200)
        }))
    }

    /// Rounds of the whole comparison; what is printed are their medians.
    const REPEATS: usize = 7;

    fn shape<const PAD: usize>(frames: usize, dropped: bool) {
        shape_with::<PAD>(frames, &Marked::new(0, 0), dropped);
    }

    /// The same with async functions below those frames.
    fn shape_with<const PAD: usize>(frames: usize, marked: &Marked, dropped: bool) {
        let mut limits = CaptureLimits::default();
        limits.stack = 1 << 20;
        limits.answer = 1_000_000_000;
        let mut capturer = Capturer::new(&limits).expect("a capturer");
        // SAFETY: no signal is under way.
        unsafe { *IN_HANDLER.0.get() = Capturer::new(&limits).ok() };
        let main = Thread::main();
        let mut bytes = 0;
        let prepare = || {
            if dropped {
                drop_tables();
            }
        };
        let mut columns = [const { Vec::new() }; 6];
        for _ in 0..REPEATS {
            let nothing = measure::<PAD>(frames, marked, || (), || signal_and_wait(libc::SIGUSR1));
            let captured = measure::<PAD>(frames, marked, prepare, || {
                let images = ImageTable::enter();
                if let Ok(captured) = capturer.capture(main, &images) {
                    bytes = captured.bytes;
                }
            });
            let unwinding =
                measure::<PAD>(frames, marked, prepare, || signal_and_wait(libc::SIGUSR2));
            let copy = copy(bytes as usize);
            let shared = copy_of_shared(bytes as usize);
            let over = captured.saturating_sub(nothing);
            let row = [nothing, captured, over, unwinding, copy, shared];
            for (column, value) in columns.iter_mut().zip(row) {
                column.push(value);
            }
        }
        let [nothing, captured, over, unwinding, copy, shared] = columns.map(|mut column| {
            column.sort_unstable();
            column[REPEATS / 2] as f64 / 1000.0
        });
        println!(
            "| {frames} | {} | {:.0} | {} | {nothing:.2} | {captured:.2} | {unwinding:.2} | {copy:.2} \
             | {shared:.2} | {:.2} | {:.2} | {:.2} |",
            marked.callers(),
            bytes as f64 / 1024.0,
            if dropped { "dropped" } else { "warm" },
            captured / nothing,
            over / copy,
            over / shared,
        );
    }
    /// A plain copy of so many bytes, nanoseconds: the tenth part of the rounds that was least. All that
    /// it touches lies in this core's caches.
    fn copy(bytes: usize) -> u64 {
        let (from, mut to) = (vec![1u8; bytes], vec![0u8; bytes]);
        tenth((0..ROUNDS).map(|_| {
            let start = monotonic();
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
            monotonic() - start
        }))
    }

    /// The same where another core has read the last copy, as whoever unwinds it does: what a copy
    /// for another core costs at the least.
    fn copy_of_shared(bytes: usize) -> u64 {
        let (from, mut to) = (vec![1u8; bytes], vec![0u8; bytes]);
        let (at, turn) = (to.as_mut_ptr() as usize, &AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                pin(1);
                for round in 0..ROUNDS as u64 {
                    while turn.load(Ordering::Acquire) != 2 * round + 1 {
                        std::hint::spin_loop();
                    }
                    for byte in (0..bytes).step_by(64) {
                        // SAFETY: within the copy, which the other thread leaves alone until its turn.
                        black_box(unsafe { ((at + byte) as *const u8).read_volatile() });
                    }
                    turn.store(2 * round + 2, Ordering::Release);
                }
            });
            tenth((0..ROUNDS as u64).map(|round| {
                let start = monotonic();
                // SAFETY: as many bytes as both vectors have; the reader waits for its turn.
                unsafe {
                    std::ptr::copy_nonoverlapping(black_box(&from).as_ptr(), at as *mut u8, bytes)
                };
                let taken = monotonic() - start;
                turn.store(2 * round + 1, Ordering::Release);
                while turn.load(Ordering::Acquire) != 2 * round + 2 {
                    std::hint::spin_loop();
                }
                taken
            }))
        })
    }

    fn tenth(times: impl Iterator<Item = u64>) -> u64 {
        let mut times: Vec<u64> = times.collect();
        times.sort_unstable();
        times.get(times.len() / 10).copied().unwrap_or(0)
    }

    /// A word there and back between the two cores, nanoseconds: which shows the caches that they share.
    fn there_and_back() -> u64 {
        let word = &AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                pin(1);
                for round in 0..10_000 {
                    while word.load(Ordering::Acquire) != 2 * round + 1 {
                        std::hint::spin_loop();
                    }
                    word.store(2 * round + 2, Ordering::Release);
                }
            });
            tenth((0..10_000).map(|round| {
                let start = monotonic();
                word.store(2 * round + 1, Ordering::Release);
                while word.load(Ordering::Acquire) != 2 * round + 2 {
                    std::hint::spin_loop();
                }
                monotonic() - start
            }))
        })
    }

    /// Has the kernel forget the pages of the images' files, as far as it will.
    fn drop_tables() {
        for image in ImageTable::enter().images() {
            if let Ok(file) = std::fs::File::open(&image.name) {
                use std::os::fd::AsRawFd;
                // SAFETY: an open descriptor; a hint.
                unsafe {
                    libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
                }
            }
        }
    }

    /// Keeps the calling thread on one core, so that watched and watching thread never want the
    /// same one. Does nothing on a machine without that core.
    fn pin(core: usize) {
        // SAFETY: an all-zero set is a valid value of that plain struct; it lives across the call.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
        }
    }

    pub fn run() {
        pin(0);
        handle(libc::SIGUSR1, empty);
        handle(libc::SIGUSR2, unwinds);
        ImageTable::refresh();
        println!(
            "A word between the two cores and back: {} ns.\n",
            there_and_back()
        );
        println!(
            "| frames | async callers | stack KiB | tables | empty handler µs | capture µs | unwinding in the \
             handler µs | memcpy µs | memcpy, shared µs | capture / empty | over / memcpy | over / \
             shared |"
        );
        println!("| --: | --: | --: | --- | --: | --: | --: | --: | --: | --: | --: | --: |");
        shape::<64>(10, false);
        shape::<64>(64, false);
        shape::<200>(64, false);
        shape::<200>(64, true);
        shape::<900>(64, false);
        shape::<140>(300, false);
        shape::<6400>(10, false);
        shape::<52000>(10, false);
        shape::<8100>(64, false);
        shape::<1650>(300, false);
        for (frames, callers) in [(1, 1), (1, 8), (1, 64), (8, 8), (1, 512), (16, 64)] {
            shape_with::<64>(64, &Marked::new(frames, callers), false);
        }
    }
}

#[cfg(target_os = "linux")]
fn main() {
    bench::run();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench measures the Linux stop");
}
