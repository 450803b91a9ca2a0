//! Work of a known size for `scripts/counts`, which counts its instructions: `counts WORK [FRAMES]`.
//!
//! `warm` and `cold` walk a copy of a stack; `beat` is a `begin` and an `end`; `stop` stops the main thread and copies
//! its stack. Each does what is counted in one call of `wedjat_counted`; of `stop` the signal handler is counted.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod stacks;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod work {
    use std::hint::black_box;
    use std::sync::atomic::{AtomicBool, Ordering};

    use wedjat::capture::ImageTable;
    use wedjat::platform::stop::{StopBudget, Stopper};
    use wedjat::platform::{Thread, context, memory};
    use wedjat::unwind::{Images, Registers, StackCopy, Unwinder, WalkEnd};
    use wedjat::{Monitor, Stall};

    use crate::stacks::deep;

    /// Its instructions are counted, and those of all that it calls.
    #[unsafe(no_mangle)]
    #[inline(never)]
    fn wedjat_counted(work: &mut dyn FnMut()) {
        work();
    }

    fn walk(unwinder: &mut Unwinder, images: &Images, registers: &Registers, stack: &[u8]) {
        let copy = StackCopy::new(registers.sp(), stack);
        let mut walk = unwinder.walk(registers, images, copy);
        for frame in walk.by_ref() {
            black_box(frame.pc);
        }
        assert_eq!(walk.end(), Some(WalkEnd::Root));
    }

    /// Counts one walk over so many frames; of a cold one the set of images is new.
    fn walks(frames: usize, is_cold: bool) {
        ImageTable::refresh();
        let images = ImageTable::enter();
        let (mut registers, mut stack) = (Registers::x86_64(0, 0, 0), vec![0; 4 << 20]);
        deep::<48>(frames, &mut || {
            for (number, value) in context::current_registers().into_iter().enumerate() {
                registers.set(number, value);
            }
            let length = memory::read(registers.sp(), &mut stack);
            stack.truncate(length);
        });
        let mut unwinder = Unwinder::new();
        walk(&mut unwinder, images.set(), &registers, &stack);
        walk(&mut unwinder, images.set(), &registers, &stack);
        let others = Images::from_shared(images.images().to_vec());
        let images = if is_cold { &others } else { images.set() };
        wedjat_counted(&mut || walk(&mut unwinder, images, &registers, &stack));
    }

    fn beats() {
        let folder = tempfile::tempdir().expect("a folder");
        let builder = Monitor::builder("Counts", "1").directory(folder.path());
        let monitor = builder.stall(Stall::default()).install();
        let monitor = monitor.expect("the monitor");
        let heart = monitor.heartbeat();
        heart.turn(|| ());
        wedjat_counted(&mut || {
            heart.begin();
            heart.end();
        });
    }

    /// The counter shows another program's stack as the main one, so it is said here where this one lies.
    fn stops(frames: usize) {
        let above = 0u64;
        let end = &raw const above as u64;
        let (least, done) = (frames * 48, &AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut stopper = Stopper::new(1 << 20, None).expect("a stopper");
                let budget = StopBudget {
                    stopped: 1 << 36,
                    answer: 1 << 36,
                };
                // The counter blocks all signals but while its program is in a system call.
                let mut stop = || {
                    let copied = stopper.stop(Thread::main(), end - (1 << 20)..end, &budget);
                    copied.map(|copied| copied.stack.len())
                };
                let mut bytes = stop();
                for _ in 0..10_000 {
                    if bytes.is_err() {
                        bytes = stop();
                    }
                }
                done.store(true, Ordering::Release);
                let bytes = bytes.expect("a stopped thread");
                assert!(bytes > least, "{bytes} bytes of {frames} frames");
            });
            deep::<48>(frames, &mut || {
                while !done.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            });
        });
    }

    pub fn run(words: &[String]) -> Option<()> {
        let frames = || words.get(1).and_then(|frames| frames.parse().ok());
        match words.first()?.as_str() {
            "warm" => walks(frames()?, false),
            "cold" => walks(frames()?, true),
            "beat" => beats(),
            "stop" => stops(frames()?),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if work::run(&words).is_none() {
        eprintln!("counts: run scripts/counts, which needs valgrind");
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}
