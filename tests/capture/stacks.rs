//! Captures of threads whose alternate stack is gone, and of threads on a small stack that is not their own. Each test plays in
//! a process of its own, which would die.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::masked::passes;
use crate::support::small_stack::{SIZE, map, on_stack, protect, use_alternate_stack};
use crate::thread::{Flags, StopOnDrop, assert_chain, capturer, inner, middle, outer};
use wedjat::capture::ImageTable;
use wedjat::platform::Thread;

/// A thread computes after `before` has run on it; it is captured so often.
fn captured_after(times: u32, before: fn(&dyn Fn())) {
    let flags = Flags::default();
    let turns = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let (flags, turns) = (&flags, &turns);
        let _stop = StopOnDrop(flags);
        scope.spawn(move || {
            // Waits until it has been captured once more.
            let once_more = || {
                let then = turns.load(Ordering::Acquire);
                sender.send(Thread::current()).unwrap();
                while turns.load(Ordering::Acquire) == then {
                    std::hint::spin_loop();
                }
            };
            before(&once_more);
            outer(flags);
        });
        let mut capturer = capturer();
        let images = ImageTable::enter();
        let mut thread = receiver.recv().unwrap();
        while !flags.inside.load(Ordering::Acquire) {
            let _ = capturer.capture(thread, &images);
            turns.fetch_add(1, Ordering::Release);
            thread = receiver
                .recv_timeout(Duration::from_millis(20))
                .unwrap_or(thread);
        }
        for _ in 0..times {
            let captured = capturer.capture(thread, &images).unwrap();
            let chain = [inner as *const (), middle as *const (), outer as *const ()];
            assert_chain(&captured, &images, &chain);
        }
    });
}

#[test]
fn a_thread_whose_alternate_stack_is_unmapped_has_its_stack() {
    passes(
        "stacks::a_thread_whose_alternate_stack_is_unmapped_has_its_stack",
        || {
            captured_after(10, |once_more| {
                once_more();
                let stack = use_alternate_stack();
                // SAFETY: no handler runs on it.
                assert_eq!(0, unsafe { libc::munmap(stack.cast(), SIZE) });
            });
        },
    );
}

#[test]
fn a_thread_that_may_not_touch_its_alternate_stack_has_its_stack() {
    passes(
        "stacks::a_thread_that_may_not_touch_its_alternate_stack_has_its_stack",
        || {
            captured_after(10, |once_more| {
                once_more();
                let stack = use_alternate_stack();
                protect(stack, SIZE);
            });
        },
    );
}

/// What the first answers have shown of the alternate stack is true no more.
#[test]
fn a_thread_that_answered_and_then_loses_another_alternate_stack_has_its_stack() {
    passes(
        "stacks::a_thread_that_answered_and_then_loses_another_alternate_stack_has_its_stack",
        || {
            captured_after(10, |once_more| {
                use_alternate_stack();
                once_more();
                let stack = use_alternate_stack();
                once_more();
                // SAFETY: no handler runs on it.
                assert_eq!(0, unsafe { libc::munmap(stack.cast(), SIZE) });
            });
        },
    );
}

/// Bytes of a small stack: less than the kernel's frame needs.
const SMALL: usize = 1 << 10;
const FILLED: u8 = 0xa5;

static IS_THERE: AtomicBool = AtomicBool::new(false);
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// A thread with an alternate stack runs `body` on a small stack, and is captured; returns false if what lies below that was
/// written to.
fn captures_beside_small_stack(body: extern "C" fn()) -> bool {
    let memory = map(SIZE);
    // SAFETY: the mapping.
    let below = unsafe {
        std::ptr::write_bytes(memory, FILLED, SIZE);
        std::slice::from_raw_parts(memory, SIZE - SMALL)
    };
    let top = memory as usize + SIZE;
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            use_alternate_stack();
            sender.send(Thread::current()).unwrap();
            on_stack(top as *mut u8, body);
        });
        let thread = receiver.recv().unwrap();
        while !IS_THERE.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        let mut capturer = capturer();
        let images = ImageTable::enter();
        // A busy machine may have no CPU for the thread in time.
        let answers = (0..1000).filter(|_| capturer.capture(thread, &images).is_ok());
        let answers = answers.take(12).count();
        IS_OVER.store(true, Ordering::Release);
        assert_eq!(answers, 12);
    });
    below.iter().all(|byte| *byte == FILLED)
}

extern "C" fn sleeps() {
    IS_THERE.store(true, Ordering::Release);
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    while !IS_OVER.load(Ordering::Acquire) {
        // SAFETY: reads the time, and fills in none. (libc's function may take more than there is.)
        unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, 0) };
    }
}

extern "C" fn computes() {
    IS_THERE.store(true, Ordering::Release);
    while !IS_OVER.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

#[test]
fn what_lies_below_the_small_stack_of_a_blocked_fiber_is_left_alone() {
    passes(
        "stacks::what_lies_below_the_small_stack_of_a_blocked_fiber_is_left_alone",
        || assert!(captures_beside_small_stack(sleeps)),
    );
}

/// As Go does it, whose goroutines begin with 2 KiB.
#[test]
fn what_lies_below_a_small_stack_is_left_alone_where_signals_come_on_alternate_stacks() {
    extern "C" fn preempt(_: i32) {}
    passes(
        "stacks::what_lies_below_a_small_stack_is_left_alone_where_signals_come_on_alternate_stacks",
        || {
            // SAFETY: the structure is zeroed, which is valid, and outlives the call; the handler does nothing.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = preempt as *const () as usize;
                action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
                let before = std::ptr::null_mut();
                assert_eq!(libc::sigaction(libc::SIGURG, &action, before), 0);
            }
            assert!(captures_beside_small_stack(computes));
        },
    );
}
