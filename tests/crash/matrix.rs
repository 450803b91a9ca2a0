//! Each way to die, on each kind of alternate stack, under each mask, after each kind of previous handler: the process ends
//! as without the recorder, within [`PATIENCE`], and leaves a report wherever the kernel can start a handler.
//!
//! `WEDJAT_MATRIX=all` plays all of them, else a fixed choice.

use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::child::{Ended, play_with};
use crate::{Tests, Way, install, outer};

/// A death that takes so much longer than without the recorder is a hang: on a busy machine reports take their time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Set where the child does not install the recorder.
const WITHOUT: &str = "WEDJAT_MATRIX_WITHOUT";

const WAYS: [&str; 9] = [
    "null",
    "abort",
    "divide",
    "illegal",
    "trap",
    "bus",
    "raise_segv",
    "overflow",
    "panic_that_aborts",
];
/// `full`: the kernel's frame fills it, as with AMX.
const STACKS: [&str; 5] = ["wide", "small", "full", "unmapped", "none"];
const MASKS: [&str; 3] = ["open", "all", "all_but_faults"];
const BEFORE: [&str; 5] = ["nobody", "chains", "blocks", "jumps", "exits"];

const FAULTS: [i32; 7] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGTRAP,
    libc::SIGSYS,
];

pub fn trials() -> Tests {
    let mut cells = Vec::new();
    for way in WAYS {
        for stack in STACKS {
            for mask in MASKS {
                for before in BEFORE {
                    cells.push(format!("matrix-{way}-{stack}-{mask}-{before}"));
                }
            }
        }
    }
    let is_whole = std::env::var("WEDJAT_MATRIX").is_ok_and(|value| value == "all");
    // Coprime to the count of each kind: all pairs of neighbours come up.
    let step = if is_whole { 1 } else { 17 };
    let cells = cells.into_iter().step_by(step);
    cells
        .map(|cell| -> (String, Box<dyn Fn() + Send>) {
            let name = cell.clone();
            (name, Box::new(move || ends_alike(&cell)))
        })
        .collect()
}

fn ends_alike(cell: &str) {
    let timed = |without: bool| -> (Ended, Duration) {
        let start = Instant::now();
        let ended = play_with(cell, |command| {
            if without {
                command.env(WITHOUT, "1")
            } else {
                command
            }
        });
        (ended, start.elapsed())
    };
    let ((plain, plain_took), (ended, took)) = (timed(true), timed(false));
    let [_, way, stack, mask, before] = words(cell);
    let is_sent = ["abort", "raise_segv", "panic_that_aborts"].contains(&way);
    let starts = match (stack, mask) {
        // The kernel ends the process by SIGSEGV, whatever the signal was.
        ("unmapped", _) => false,
        ("none", _) if way == "overflow" => false,
        // abort(3) opens its signal.
        (_, "all") => ["abort", "panic_that_aborts"].contains(&way),
        _ => true,
    };
    if stack == "unmapped" && before == "nobody" && (mask != "all" || is_sent) {
        let signals = [plain.status.signal(), Some(libc::SIGSEGV)];
        assert!(
            signals.contains(&ended.status.signal()),
            "{:?}",
            ended.status
        );
    } else {
        assert_eq!(ended.status, plain.status, "{}", ended.stderr);
    }
    assert!(
        took < plain_took + PATIENCE,
        "{took:?}, and {plain_took:?} without the recorder"
    );
    if starts && before != "jumps" {
        let report = ended.report();
        assert!(report.event.unwrap().fatal);
        assert!(!report.threads[0].frames.is_empty());
    } else if before == "jumps" && stack != "unmapped" {
        assert!(ended.readings().is_empty(), "it lived on");
    }
}

fn words(cell: &str) -> [&str; 5] {
    let mut words = cell.split('-');
    std::array::from_fn(|_| words.next().unwrap())
}

pub fn role(role: &str, folder: &Path) -> bool {
    if !role.starts_with("matrix-") {
        return false;
    }
    let [_, way, stack, mask, before] = words(role);
    put_before(before);
    let _monitor = std::env::var_os(WITHOUT).is_none().then(|| install(folder));
    let (way, stack, mask) = (Way::from(way), stack.to_owned(), mask.to_owned());
    let dying = std::thread::spawn(move || {
        use_stack(&stack);
        use_mask(&mask);
        die(way);
        std::process::exit(9);
    });
    dying.join().unwrap();
    true
}

#[inline(never)]
fn die(way: Way) {
    // Where a handler jumps to.
    let here = 0usize;
    LANDING.store(&raw const here as usize, Ordering::Relaxed);
    outer(way);
    std::hint::black_box(here);
}

/// A place on the stack of the thread that dies, above all that it calls.
static LANDING: AtomicUsize = AtomicUsize::new(0);

extern "C" fn landed() -> ! {
    std::process::exit(42)
}

fn put_before(before: &str) {
    extern "C" fn chains(signal: i32) {
        // SAFETY: plain calls.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    extern "C" fn blocks(signal: i32) {
        std::thread::sleep(Duration::from_millis(300));
        chains(signal);
    }
    extern "C" fn exits(_signal: i32) {
        // SAFETY: a plain call.
        unsafe { libc::_exit(43) };
    }
    extern "C" fn jumps(_signal: i32) {
        let sp = LANDING.load(Ordering::Relaxed) & !15;
        // SAFETY: as longjmp(3) does to a frame that is there, in which nothing is used any more.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("mov rsp, {}", "call {}", in(reg) sp, sym landed, options(noreturn))
        }
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("mov sp, {}", "bl {}", in(reg) sp, sym landed, options(noreturn))
        }
    }
    let handler: extern "C" fn(i32) = match before {
        "nobody" => {
            // Rust's own would swallow a fault that was sent.
            for fault in FAULTS {
                // SAFETY: a plain call.
                unsafe { libc::signal(fault, libc::SIG_DFL) };
            }
            return;
        }
        "chains" => chains,
        "blocks" => blocks,
        "exits" => exits,
        "jumps" => jumps,
        other => panic!("no handler {other}"),
    };
    for fault in FAULTS {
        // SAFETY: the structure is zeroed, which is valid for it, and outlives the call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_ONSTACK;
            libc::sigaction(fault, &action, std::ptr::null_mut());
        }
    }
}

/// Size of the kernel's frame on this CPU.
fn frame_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn measure(_signal: i32, _info: *mut libc::siginfo_t, context: *mut c_void) {
        // The context lies so far above the frame's beginning.
        let above = if cfg!(target_arch = "x86_64") { 8 } else { 128 };
        // SAFETY: what the kernel gave.
        let stack = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_stack };
        let top = stack.ss_sp as usize + stack.ss_size;
        SIZE.store(top - (context as usize - above), Ordering::Relaxed);
    }
    use_memory(map(64 << 10), 64 << 10);
    // SAFETY: as in `put_before`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = measure as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        libc::raise(libc::SIGUSR1);
    }
    SIZE.load(Ordering::Relaxed)
}

const FAR: usize = 1 << 36;

/// Maps memory behind a page that nobody may touch, far from where the kernel places what others map: no thread's next
/// mapping takes the place of one that was unmapped.
fn map(size: usize) -> *mut u8 {
    // SAFETY: a new mapping, whose first page is within it.
    unsafe {
        let (rights, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let guard = libc::mmap(FAR as *mut _, size + 4096, rights, flags, -1, 0);
        libc::mprotect(guard, 4096, libc::PROT_NONE);
        guard.cast::<u8>().add(4096)
    }
}

fn use_memory(start: *mut u8, size: usize) {
    let stack = libc::stack_t {
        ss_sp: start.cast(),
        ss_flags: 0,
        ss_size: size,
    };
    // SAFETY: the structure outlives the call.
    let result = unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
    assert_eq!(result, 0);
}

fn use_stack(kind: &str) {
    match kind {
        "wide" => use_memory(map(64 << 10), 64 << 10),
        "small" => {
            // 4 KB, and what AVX-512 and AMX add to the frame.
            let size = (frame_size() + 2600).max(4096);
            let mapped = size.next_multiple_of(4096);
            use_memory(map(mapped).wrapping_add(mapped - size), size);
        }
        "full" => {
            let size = frame_size().next_multiple_of(64);
            let end = map(size.next_multiple_of(4096)).wrapping_add(size);
            // The kernel wants so much at least, which lies in the guard page.
            let size = size.max(2048);
            use_memory(end.wrapping_sub(size), size);
        }
        "unmapped" => {
            let start = map(64 << 10);
            use_memory(start, 64 << 10);
            // SAFETY: nothing lies there.
            unsafe { libc::munmap(start.cast(), 64 << 10) };
        }
        "none" => {
            let none = libc::stack_t {
                ss_sp: std::ptr::null_mut(),
                ss_flags: libc::SS_DISABLE,
                ss_size: 0,
            };
            // SAFETY: the structure outlives the call.
            unsafe { libc::sigaltstack(&none, std::ptr::null_mut()) };
        }
        other => panic!("no stack {other}"),
    }
}

fn use_mask(kind: &str) {
    // SAFETY: the set is initialised before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut set);
        match kind {
            "open" => return,
            "all" => {}
            "all_but_faults" => FAULTS.iter().for_each(|&fault| {
                libc::sigdelset(&mut set, fault);
            }),
            other => panic!("no mask {other}"),
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
    }
}
