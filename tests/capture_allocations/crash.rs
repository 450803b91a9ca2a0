//! Captures inside the handlers of fatal signals, in processes that then end.

use crate::counting;
use crate::deadline;
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::ops::Range;
use std::process::Output;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::capture::range_of;
use wedjat::capture::{CaptureLimits, Captured, Capturer, ImageTable};
use wedjat::unwind::{Found, Registers, WalkEnd};

/// What the handlers get to stand on, see [`wedjat::capture::STACK_NEED`].
const STACK: usize = wedjat::capture::STACK_NEED + (16 << 10);

/// What the handler works with; made before, used by the one thread that crashes.
struct Prepared {
    capturer: UnsafeCell<Capturer>,
    check: fn(&Captured<'_>) -> Result<(), &'static str>,
    functions: Vec<Range<u64>>,
}

// SAFETY: only the crashing thread touches it, in its handler.
unsafe impl Sync for Prepared {}

static PREPARED: OnceLock<Prepared> = OnceLock::new();

extern "C" fn handler(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    counting::arm();
    let verdict = (|| {
        let prepared = PREPARED.get().ok_or("not prepared")?;
        // SAFETY: the context of this handler.
        let registers = unsafe { Registers::from_context(context) };
        let images = ImageTable::enter();
        // SAFETY: nothing else uses it.
        let capturer = unsafe { &mut *prepared.capturer.get() };
        (prepared.check)(&capturer.capture_context(&registers, &images))
    })();
    let allocations = counting::disarm();
    let here = &raw const allocations as usize;
    let used = here.saturating_sub(lowest_written());
    say_number(used);
    let verdict = match (verdict, allocations) {
        (Ok(()), 0) if used > wedjat::capture::STACK_NEED => "it needs more stack than it says\n",
        (Ok(()), 0) => "as it was\n",
        (Ok(()), _) => "it allocates\n",
        (Err(what), _) => what,
    };
    // SAFETY: a valid buffer; then the process ends without running anything else.
    unsafe {
        libc::write(2, verdict.as_ptr().cast(), verdict.len());
        libc::_exit(if verdict == "as it was\n" { 42 } else { 43 });
    }
}

/// What the alternate stack is filled with.
const UNTOUCHED: u8 = 0xa5;

static STACK_AT: AtomicUsize = AtomicUsize::new(0);

/// The lowest byte of the alternate stack that was written to.
fn lowest_written() -> usize {
    let start = STACK_AT.load(Ordering::Relaxed);
    // SAFETY: the stack is never freed; each byte of it was written when it was made.
    let is_untouched = |at: &usize| unsafe { (*at as *const u8).read_volatile() } == UNTOUCHED;
    let written = (start..start + STACK).find(|at| !is_untouched(at));
    written.unwrap_or(start + STACK)
}

/// Writes a number of bytes to standard error, without allocating.
fn say_number(mut number: usize) {
    let mut text = *b"          bytes of stack\n";
    for digit in text[..9].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    // SAFETY: a valid buffer.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

fn prepare(check: fn(&Captured<'_>) -> Result<(), &'static str>, functions: &[*const ()]) {
    ImageTable::refresh();
    let prepared = Prepared {
        capturer: UnsafeCell::new(Capturer::new(&CaptureLimits::default()).unwrap()),
        check,
        functions: functions
            .iter()
            .map(|function| range_of(*function))
            .collect(),
    };
    PREPARED.set(prepared).ok().unwrap();
    let stack = vec![UNTOUCHED; STACK].leak();
    STACK_AT.store(stack.as_ptr() as usize, Ordering::Relaxed);
    // SAFETY: plain structs; the stack is never freed; the handler keeps to the rules of handlers.
    unsafe {
        let alternate = libc::stack_t {
            ss_sp: stack.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: STACK,
        };
        assert_eq!(libc::sigaltstack(&alternate, std::ptr::null_mut()), 0);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL] {
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Runs a test of this program by itself in another process, where it crashes.
fn child(name: &str) -> Output {
    deadline::output(&mut deadline::one_test(&format!("crash::{name}")))
}

fn assert_child(name: &str) {
    let output = child(name);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(42), "{printed}");
    let used = printed
        .lines()
        .filter(|line| line.ends_with(" bytes of stack"));
    used.for_each(|used| println!("{name}: {used}"));
}

fn functions() -> &'static [Range<u64>] {
    PREPARED.get().map_or(&[], |prepared| &prepared.functions)
}

/// The functions follow one another from frame `first` on.
fn follow(captured: &Captured<'_>, first: usize) -> Result<(), &'static str> {
    for (index, range) in functions().iter().enumerate() {
        let frame = captured
            .frames
            .get(first + index)
            .ok_or("too few frames\n")?;
        let call = frame.pc - u64::from(frame.found != Found::Context);
        if !range.contains(&call) {
            return Err("another function\n");
        }
    }
    if captured.end != WalkEnd::Root {
        return Err("another end\n");
    }
    Ok(())
}

#[inline(never)]
fn calls(function: fn(u64) -> u64, with: u64) -> u64 {
    black_box(function(black_box(with))) + 1
}

#[inline(never)]
fn writes_to(address: u64) -> u64 {
    // SAFETY: none: this is the crash that the test is about.
    unsafe { (address as *mut u64).write_volatile(1) };
    1
}

#[test]
#[ignore = "crashes: `a_bad_write_is_captured_in_its_handler` runs it in a process of its own"]
fn crash_bad_write() {
    prepare(
        |captured| follow(captured, 0),
        &[writes_to as *const (), calls as *const ()],
    );
    calls(writes_to, 0x10);
}

#[test]
fn a_bad_write_is_captured_in_its_handler() {
    assert_child("crash_bad_write");
}

#[inline(never)]
fn jumps_to(address: u64) -> u64 {
    // SAFETY: none: this is the crash that the test is about.
    let function: extern "C" fn() = unsafe { std::mem::transmute(address as *const ()) };
    black_box(function)();
    2
}

fn after_a_jump(captured: &Captured<'_>) -> Result<(), &'static str> {
    if captured.frames.get(1).map(|frame| frame.found) != Some(Found::LeafReturnAddress) {
        return Err("found by other means\n");
    }
    follow(captured, 1)
}

#[test]
#[ignore = "crashes: `a_jump_to_nowhere_is_captured_in_its_handler` runs it in a process of its own"]
fn crash_jump_unmapped() {
    prepare(after_a_jump, &[jumps_to as *const (), calls as *const ()]);
    calls(jumps_to, 0x1000);
}

#[test]
fn a_jump_to_nowhere_is_captured_in_its_handler() {
    assert_child("crash_jump_unmapped");
}

#[inline(never)]
fn recurses(levels: u64) -> u64 {
    let room = black_box([levels; 32]);
    if levels == u64::MAX {
        return 0;
    }
    black_box(recurses(levels + 1)) + room[4]
}

fn after_an_overflow(captured: &Captured<'_>) -> Result<(), &'static str> {
    let Some(range) = functions().first() else {
        return Err("not prepared\n");
    };
    let omitted = captured.omitted.ok_or("nothing omitted\n")?;
    let innermost = captured
        .frames
        .get(1..omitted.at as usize)
        .ok_or("too few frames\n")?;
    if !innermost
        .iter()
        .all(|frame| range.contains(&(frame.pc - 1)))
    {
        return Err("another function\n");
    }
    if captured.end != WalkEnd::Root || omitted.count < 1000 {
        return Err("not to the root\n");
    }
    Ok(())
}

#[test]
#[ignore = "crashes: `a_stack_overflow_is_captured_to_its_root` runs it in a process of its own"]
fn crash_overflow() {
    prepare(after_an_overflow, &[recurses as *const ()]);
    recurses(0);
}

#[test]
fn a_stack_overflow_is_captured_to_its_root() {
    assert_child("crash_overflow");
}

/// A handler that itself crashes: the walk goes through the trampoline to what was interrupted.
extern "C" fn crashing_handler(_: libc::c_int) {
    black_box(writes_to(0x18));
}

#[inline(never)]
fn raises(signal: u64) -> u64 {
    // SAFETY: sends a signal to the calling thread.
    unsafe { libc::raise(signal as i32) };
    3
}

fn through_a_handler(captured: &Captured<'_>) -> Result<(), &'static str> {
    let interrupted = captured
        .frames
        .iter()
        .skip(1)
        .position(|frame| frame.found == Found::Context)
        .ok_or("no interrupted frame\n")?;
    let raises = functions().last().ok_or("not prepared\n")?;
    let rest = captured.frames.get(interrupted + 1..).unwrap_or(&[]);
    if !rest.iter().any(|frame| raises.contains(&(frame.pc - 1))) {
        return Err("the interrupted code is missing\n");
    }
    if captured.end != WalkEnd::Root {
        return Err("another end\n");
    }
    Ok(())
}

#[test]
#[ignore = "crashes: `a_crash_in_a_handler_shows_what_was_interrupted` runs it in a process of its own"]
fn crash_in_handler() {
    prepare(through_a_handler, &[raises as *const ()]);
    // SAFETY: a plain struct.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = crashing_handler as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
    calls(raises, libc::SIGUSR1 as u64);
}

#[test]
fn a_crash_in_a_handler_shows_what_was_interrupted() {
    assert_child("crash_in_handler");
}
