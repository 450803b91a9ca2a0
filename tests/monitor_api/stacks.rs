//! Stacks as text, with names at once.

use std::time::{Duration, Instant};

use wedjat::{Monitor, Threads};

use crate::support::stall::is_child;
use crate::{builder, folder, reports};

#[inline(never)]
fn wants_stacks(monitor: &Monitor, threads: Threads) -> String {
    let text = monitor.stacks(threads).unwrap();
    std::hint::black_box(text)
}

#[inline(never)]
fn waits_at_a_gate(limiter: &std::sync::Barrier) {
    limiter.wait();
    std::hint::black_box(());
}

/// Machine code that no image has, which leaves nothing to find its caller by: `push 0; xor ebp, ebp;
/// notify: mov byte [rdi], 1; wait: cmp byte [rsi], 0; je wait`, then back as it came.
#[cfg(target_arch = "x86_64")]
const LONELY: &[u8] = &[
    0x55, 0x6a, 0x00, 0x31, 0xed, 0xc6, 0x07, 0x01, 0x80, 0x3e, 0x00, 0x74, 0xfb, 0x58, 0x5d, 0xc3,
];

#[cfg(target_arch = "x86_64")]
fn marks_that_a_stack_goes_on(monitor: &Monitor) {
    use std::sync::atomic::{AtomicU8, Ordering};
    static INSIDE: AtomicU8 = AtomicU8::new(0);
    static STOP: AtomicU8 = AtomicU8::new(0);
    // SAFETY: a page of our own with a function of the type given, which touches the two bytes alone.
    let lonely: extern "C" fn(*mut u8, *const u8) = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        std::ptr::copy_nonoverlapping(LONELY.as_ptr(), page.cast(), LONELY.len());
        std::mem::transmute(page)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| lonely(INSIDE.as_ptr(), STOP.as_ptr()));
        while INSIDE.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let all = monitor.stacks(Threads::All).unwrap();
        STOP.store(1, Ordering::Release);
        let cut = "\n(callers are missing: no unwind info)\n";
        assert_eq!(all.matches(cut).count(), 1, "{all}");
        assert_eq!(all.matches("\n??? 0x").count(), 1, "{all}");
    });
}

#[test]
fn stacks_are_text_with_names_at_once() {
    let test = "stacks::stacks_are_text_with_names_at_once";
    if is_child() {
        let monitor = builder(&folder(test))
            .resolve_names(true)
            .install()
            .unwrap();
        println!("ready");
        let current = wants_stacks(&monitor, Threads::Current);
        let first = current.lines().next().unwrap();
        assert!(first.contains("::wants_stacks + "), "{current}");
        for line in current.lines() {
            let mut words = line.split(' ');
            let (image, address) = (words.next().unwrap(), words.next().unwrap());
            assert!(!image.is_empty() && address.starts_with("0x"), "{line}");
            assert!(line.contains(" + "), "{line}");
        }
        let main = wants_stacks(&monitor, Threads::Main);
        assert_eq!(main.lines().next(), current.lines().next());
        let limiter = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("gate-keeper".into());
            thread
                .spawn_scoped(scope, || waits_at_a_gate(&limiter))
                .unwrap();
            let begin = Instant::now();
            loop {
                let all = wants_stacks(&monitor, Threads::All);
                if all.contains("waits_at_a_gate") && all.contains("gate-keeper") {
                    assert!(all.starts_with("thread "), "{all}");
                    assert!(all.contains("\n\nthread "), "{all}");
                    break;
                }
                assert!(begin.elapsed() < Duration::from_secs(10), "{all}");
            }
            limiter.wait();
        });
        #[cfg(target_arch = "x86_64")]
        marks_that_a_stack_goes_on(&monitor);
        monitor.record("named").unwrap();
        return;
    }
    let reports = reports(test);
    let frames = &reports[0].threads[0].frames;
    let named = frames.iter().filter(|frame| frame.name.is_some()).count();
    assert!(named * 2 > frames.len(), "{named} of {}", frames.len());
}
