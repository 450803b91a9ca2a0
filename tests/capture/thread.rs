//! Captures of live threads, against chains of calls that the test itself made.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::capture::range_of;
use wedjat::capture::{CaptureLimits, Captured, Capturer, ImageTable, ImagesGuard};
use wedjat::platform::Thread;
use wedjat::platform::stop::StopError;
use wedjat::unwind::{Found, WalkEnd};

#[derive(Default)]
pub struct Flags {
    pub stop: AtomicBool,
    pub inside: AtomicBool,
}

#[inline(never)]
pub fn outer(flags: &Flags) -> u64 {
    black_box(middle(black_box(flags))) + 1
}

#[inline(never)]
pub fn middle(flags: &Flags) -> u64 {
    let room = black_box([1u64; 200]);
    black_box(inner(black_box(flags))) + room[3]
}

#[inline(never)]
pub fn inner(flags: &Flags) -> u64 {
    flags.inside.store(true, Ordering::Release);
    let mut n = 0;
    while !flags.stop.load(Ordering::Relaxed) {
        n = black_box(n + 1);
    }
    n
}

/// Lets the busy thread end whatever happens to the test.
pub struct StopOnDrop<'a>(pub &'a Flags);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

#[inline(never)]
fn blocked(wait: &mpsc::Receiver<()>) -> bool {
    black_box(wait.recv().is_err())
}

pub fn capturer() -> Capturer {
    ImageTable::refresh();
    // Patient: the machine that runs the tests may be busy.
    let mut limits = CaptureLimits::default();
    limits.answer = 10_000_000_000;
    Capturer::new(&limits).unwrap()
}

/// The functions called one another, innermost first, and the innermost is on the stack; what it
/// calls itself (the standard library, unoptimised) may stand before it.
pub fn assert_chain(captured: &Captured<'_>, images: &ImagesGuard, functions: &[*const ()]) {
    let ranges: Vec<_> = functions
        .iter()
        .map(|function| range_of(*function))
        .collect();
    let first = captured
        .frames
        .iter()
        .position(|frame| ranges[0].contains(&frame.pc))
        .unwrap_or_else(|| panic!("not in {:#x?}", captured.frames));
    for (frame, range) in captured.frames[first..].iter().zip(&ranges) {
        let call = frame.pc - u64::from(frame.found != Found::Context);
        assert!(
            range.contains(&call),
            "{:#x} in {:#x?}",
            frame.pc,
            captured.frames
        );
        let image = images.image_of(frame);
        assert!(image.is_some_and(|image| image.main), "{frame:#x?}");
    }
    for frame in &captured.frames[1..] {
        assert_eq!(frame.found, Found::UnwindInfo, "{captured:#x?}");
    }
    assert_eq!(captured.frames[0].found, Found::Context);
    assert_eq!(captured.end, WalkEnd::Root, "{captured:#x?}");
}

#[test]
fn a_busy_thread_is_in_exactly_the_functions_it_called() {
    let flags = Flags::default();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let flags = &flags;
        let _stop = StopOnDrop(flags);
        scope.spawn(move || {
            sender.send(Thread::current()).unwrap();
            outer(flags);
        });
        let thread = receiver.recv().unwrap();
        while !flags.inside.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let mut capturer = capturer();
        for _ in 0..200 {
            let images = ImageTable::enter();
            let captured = capturer.capture(thread, &images).unwrap();
            assert_eq!(captured.frames[0].pc, captured.registers.pc());
            assert!(
                captured.stopped > 0 && captured.bytes > 1600,
                "{captured:?}"
            );
            assert!(!captured.cut);
            assert_chain(
                &captured,
                &images,
                &[inner as *const (), middle as *const (), outer as *const ()],
            );
        }
    });
}

#[test]
fn a_blocked_thread_is_in_its_system_call() {
    let (sender, receiver) = mpsc::channel();
    let (wake, woken) = mpsc::channel();
    let blocked_thread = std::thread::spawn(move || {
        sender.send(Thread::current()).unwrap();
        blocked(&woken)
    });
    let thread = receiver.recv().unwrap();
    while thread.progress().unwrap().running {
        std::thread::yield_now();
    }
    let mut capturer = capturer();
    let images = ImageTable::enter();
    let captured = capturer.capture(thread, &images).unwrap();
    assert_chain(&captured, &images, &[blocked as *const ()]);
    assert_ne!(Some(captured.frames[0].image), images.main());
    drop(wake);
    assert!(blocked_thread.join().unwrap());
}

/// The standard library and unoptimised functions count their frames from the frame pointer, which the kernel does not
/// give of a blocked thread.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_blocked_thread_is_read_to_its_root_without_a_signal() {
    let (sender, receiver) = mpsc::channel();
    let (wake, woken) = mpsc::channel();
    let blocked_thread = std::thread::spawn(move || {
        sender.send(Thread::current()).unwrap();
        blocked(&woken)
    });
    let thread = receiver.recv().unwrap();
    let mut capturer = capturer();
    let images = ImageTable::enter();
    let captured = loop {
        let before = thread.progress();
        if before.is_some_and(|before| !before.running) {
            break capturer.capture_blocked(thread, before, &images);
        }
        std::thread::yield_now();
    };
    let captured = captured.expect("its stack");
    assert_eq!((captured.stopped, captured.bytes), (0, 0));
    assert_chain(&captured, &images, &[blocked as *const ()]);
    drop(wake);
    assert!(blocked_thread.join().unwrap());
}

#[test]
fn a_thread_that_blocks_the_signal_is_known_by_its_mask_and_its_late_answer_is_nothing() {
    let (sender, receiver) = mpsc::channel();
    let (unmask, unmasked) = mpsc::channel::<()>();
    let (answered, done) = mpsc::channel::<()>();
    let masked = std::thread::spawn(move || {
        // SAFETY: plain sets of this thread alone, which live across the calls.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            sender.send(Thread::current()).unwrap();
            unmasked.recv().unwrap();
            // The signal of before is delivered here.
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        answered.send(()).unwrap();
        unmasked.recv().ok();
    });
    let thread = receiver.recv().unwrap();
    let mut capturer = capturer();
    let images = ImageTable::enter();
    let start = Instant::now();
    let result = capturer.capture(thread, &images).map(|_| ());
    assert!(matches!(result, Err(StopError::Blocked)), "{result:?}");
    assert!(start.elapsed() < Duration::from_secs(10));
    unmask.send(()).unwrap();
    done.recv().unwrap();
    // It answers again, and what it says is of now.
    let captured = capturer.capture(thread, &images).unwrap();
    assert_eq!(captured.end, WalkEnd::Root);
    drop(unmask);
    masked.join().unwrap();
}

#[test]
fn a_thread_that_is_gone_and_the_calling_one_are_refused() {
    let mut capturer = capturer();
    let images = ImageTable::enter();
    let gone = std::thread::spawn(Thread::current).join().unwrap();
    let start = Instant::now();
    while !matches!(capturer.capture(gone, &images), Err(StopError::Gone)) {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    let own = capturer.capture(Thread::current(), &images).map(|_| ());
    assert!(matches!(own, Err(StopError::CallingThread)));
}

#[test]
fn a_thread_that_ends_meanwhile_is_gone_not_unresponsive() {
    let mut capturer = capturer();
    let images = ImageTable::enter();
    for _ in 0..300 {
        let (send, thread) = std::sync::mpsc::channel();
        let ending = std::thread::spawn(move || send.send(Thread::current()).unwrap());
        let captured = capturer.capture(thread.recv().unwrap(), &images);
        assert!(
            matches!(captured, Ok(_) | Err(StopError::Gone)),
            "{captured:?}"
        );
        ending.join().unwrap();
    }
}

/// CPU time of the calling thread, nanoseconds.
fn cpu_time() -> i64 {
    // SAFETY: the kernel fills in the plain struct, which lives across the call.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}

/// A thread that is about to end blocks all signals first.
#[test]
fn a_thread_that_blocks_signals_for_its_last_moment_is_gone() {
    let mut capturer = capturer();
    let images = ImageTable::enter();
    let mut gone = 0;
    for _ in 0..100 {
        let (send, thread) = mpsc::channel();
        let ending = std::thread::spawn(move || {
            // SAFETY: a plain set of this thread alone, which lives across the calls.
            unsafe {
                let mut all: libc::sigset_t = std::mem::zeroed();
                libc::sigfillset(&mut all);
                libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
            }
            let start = cpu_time();
            send.send(Thread::current()).unwrap();
            while cpu_time() < start + 200_000 {}
        });
        let captured = capturer.capture(thread.recv().unwrap(), &images);
        gone += u32::from(matches!(captured, Err(StopError::Gone)));
        ending.join().unwrap();
    }
    // A busy machine may keep one from the CPU for longer than a capture waits.
    assert!(gone >= 95, "{gone} of 100");
}

#[inline(never)]
fn captures_itself(capturer: &mut Capturer, images: &ImagesGuard) {
    let captured = capturer.capture_here(images);
    let range = range_of(captures_itself as *const ());
    assert!(range.contains(&captured.frames[0].pc), "{captured:#x?}");
    assert_eq!(captured.registers.pc(), captured.frames[0].pc);
    let caller = range_of(the_calling_thread_is_captured_from_the_caller_on as *const ());
    assert!(
        caller.contains(&(captured.frames[1].pc - 1)),
        "{captured:#x?}"
    );
    assert_eq!(captured.end, WalkEnd::Root);
}

#[test]
fn the_calling_thread_is_captured_from_the_caller_on() {
    let mut capturer = capturer();
    let images = ImageTable::enter();
    captures_itself(&mut capturer, &images);
    black_box(());
}

#[inline(never)]
fn deep(levels: u64, capturer: &mut Capturer, images: &ImagesGuard) -> u64 {
    if levels == 0 {
        let captured = capturer.capture_here(images);
        assert_eq!(captured.end, WalkEnd::Root);
        assert_eq!(captured.frames.len(), 60);
        let omitted = captured.omitted.unwrap();
        assert_eq!(omitted.at, 12);
        assert!(omitted.count > 900, "{omitted:?}");
        let range = range_of(deep as *const ());
        assert!(
            captured.frames[..12]
                .iter()
                .all(|frame| range.contains(&(frame.pc - 1)))
        );
        assert!(!range.contains(&captured.frames[59].pc));
        return 0;
    }
    black_box(deep(levels - 1, black_box(capturer), images)) + 1
}

#[test]
fn a_deep_recursion_keeps_its_innermost_and_outermost_frames() {
    ImageTable::refresh();
    let mut limits = CaptureLimits::default();
    limits.innermost = 12;
    limits.outermost = 48;
    let mut capturer = Capturer::new(&limits).unwrap();
    let images = ImageTable::enter();
    assert_eq!(deep(1000, &mut capturer, &images), 1000);
}

/// Spins in a handler on an alternate stack that has just room for one more signal's frame.
#[test]
fn a_handler_that_has_used_its_alternate_stack_up_is_not_run_over() {
    static INSIDE: AtomicBool = AtomicBool::new(false);
    static STOP: AtomicBool = AtomicBool::new(false);
    extern "C" fn spins(_: libc::c_int) {
        INSIDE.store(true, Ordering::Release);
        while !STOP.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
    static DEEPEST: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn measures(_: libc::c_int) {
        let here = 0u8;
        DEEPEST.store(&raw const here as usize, Ordering::Relaxed);
    }
    /// Raises a signal whose handler runs on a stack of `words`; the address behind that stack.
    fn handled_on(words: usize, handler: extern "C" fn(libc::c_int)) -> usize {
        let mut memory = vec![0u64; words];
        let stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: memory.len() * 8,
        };
        // SAFETY: a stack that outlives its use; the handler touches atomics alone. What was there
        // before is put back for Rust's runtime.
        unsafe {
            let mut before = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(&stack, &mut before), 0);
            handle(libc::SIGUSR2, handler, libc::SA_ONSTACK);
            libc::raise(libc::SIGUSR2);
            libc::sigaltstack(&before, std::ptr::null_mut());
        }
        memory.as_ptr_range().end as usize
    }
    let (sender, receiver) = mpsc::channel();
    let handled = std::thread::spawn(move || {
        // The kernel's frame as it is here: AT_MINSIGSTKSZ counts registers that no thread of ours has used.
        let frame = handled_on(8 << 10, measures) - DEEPEST.load(Ordering::Relaxed);
        sender.send(Thread::current()).unwrap();
        // Two frames, and too little for a handler of ours beside them.
        handled_on((2 * frame + (3 << 10)) / 8, spins);
    });
    let thread = receiver.recv().unwrap();
    while !INSIDE.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let mut capturer = capturer();
    for _ in 0..100 {
        let images = ImageTable::enter();
        let captured = capturer.capture(thread, &images).unwrap();
        assert!(!captured.cut && captured.bytes > 0, "{captured:#x?}");
        // As well as the signal's trampoline and what raised it.
        assert!(captured.frames.len() > 3, "{captured:#x?}");
        let spins = range_of(spins as *const ());
        assert!(captured.frames.iter().any(|of| spins.contains(&of.pc)));
    }
    STOP.store(true, Ordering::Relaxed);
    handled.join().unwrap();
}

/// An alternate stack that is as large as an app's own may be, for the calling thread while this lives.
struct OwnAlternate {
    before: libc::stack_t,
    _memory: Vec<u64>,
}

impl OwnAlternate {
    fn new() -> OwnAlternate {
        let mut memory = vec![0u64; (128 << 10) / 8];
        let stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: memory.len() * 8,
        };
        // SAFETY: all zero is a valid value; a stack that stays until this is dropped.
        unsafe {
            let mut before = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(&stack, &mut before), 0);
            let _memory = memory;
            OwnAlternate { before, _memory }
        }
    }
}

impl Drop for OwnAlternate {
    fn drop(&mut self) {
        // SAFETY: what the thread had before.
        unsafe { libc::sigaltstack(&self.before, std::ptr::null_mut()) };
    }
}

fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int), flags: libc::c_int) {
    // SAFETY: all zero is a valid value; the handlers of these tests touch their own stacks and atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

static HANDLER: Flags = Flags {
    stop: AtomicBool::new(false),
    inside: AtomicBool::new(false),
};

#[inline(never)]
extern "C" fn handler_spins(_: libc::c_int) {
    black_box(inner(black_box(&HANDLER)));
}

#[inline(never)]
fn interrupted_caller() -> u64 {
    black_box(interrupted_innermost()) + 1
}

#[inline(never)]
fn interrupted_innermost() -> u64 {
    let room = black_box([1u64; 300]);
    // SAFETY: its handler is ours.
    unsafe { libc::raise(libc::SIGUSR1) };
    black_box(room)[3]
}

#[inline(never)]
extern "C" fn on_the_main_thread(_: libc::c_int) {
    let _stack = OwnAlternate::new();
    black_box(interrupted_caller());
}

/// The known functions of a stack, innermost first, and where it ended.
fn known_functions(captured: &Captured<'_>, functions: &[*const ()]) -> (Vec<usize>, WalkEnd) {
    let found = captured.frames.iter().filter_map(|frame| {
        let call = frame.pc - u64::from(frame.found != Found::Context);
        functions
            .iter()
            .position(|function| range_of(*function).contains(&call))
    });
    (found.collect(), captured.end)
}

/// What a handler on its own stack interrupted is not lost: on a thread, and on the main thread.
#[test]
fn a_handler_on_an_alternate_stack_leads_to_what_it_interrupted() {
    handle(libc::SIGUSR1, handler_spins, libc::SA_ONSTACK);
    handle(libc::SIGPROF, on_the_main_thread, 0);
    let chain = [
        inner as *const (),
        handler_spins as *const (),
        interrupted_innermost as *const (),
        interrupted_caller as *const (),
        on_the_main_thread as *const (),
    ];
    let mut capturer = capturer();
    for main in [false, true] {
        HANDLER.stop.store(false, Ordering::Relaxed);
        HANDLER.inside.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let _stop = StopOnDrop(&HANDLER);
            let (sender, receiver) = mpsc::channel();
            scope.spawn(move || {
                sender.send(Thread::current()).unwrap();
                if main {
                    // SAFETY: its handler is ours.
                    unsafe {
                        libc::syscall(
                            libc::SYS_tgkill,
                            libc::getpid(),
                            libc::getpid(),
                            libc::SIGPROF,
                        )
                    };
                } else {
                    on_the_main_thread(0);
                }
            });
            let thread = receiver.recv().unwrap();
            let thread = if main { Thread::main() } else { thread };
            while !HANDLER.inside.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            for _ in 0..100 {
                let images = ImageTable::enter();
                let captured = capturer.capture(thread, &images).unwrap();
                let all = ([0, 1, 2, 3, 4].to_vec(), WalkEnd::Root);
                assert_eq!(known_functions(&captured, &chain), all, "{captured:#x?}");
                assert!(!captured.cut && captured.bytes > 2400, "{captured:?}");
            }
        });
    }
}
