//! Every way to die leaves one whole report that names the culprit, and the process dies as it
//! would have died without us. Each death is that of a child process of its own.

mod all_threads;
mod asked;
mod c;
mod calls_made;
mod denied;
mod disk;
mod earlier;
mod endings;
mod first;
mod first_process;
mod foreign;
mod held;
mod leader;
mod malloc;
mod matrix;
mod memory;
mod near;
mod neighbours;
mod panics;
mod parts;
mod refused;
mod signals;
mod slow_handlers;
mod stacks;
#[path = "../support/mod.rs"]
mod support;
mod taken;
mod undecided;
mod within;

use std::path::Path;

use libtest_mimic::{Arguments, Trial};
use support::child::{self, role};
use support::{library, seccomp};
use wedjat::{Crash, Monitor};

fn main() {
    if let Some((role, folder)) = role() {
        roles(&role, &folder);
        return;
    }
    let mut args = Arguments::from_args();
    // They wait, most of the time.
    args.test_threads = args
        .test_threads
        .or_else(|| Some(2 * std::thread::available_parallelism().ok()?.get()));
    let trials = signals::trials()
        .into_iter()
        .chain(earlier::trials())
        .chain(stacks::trials())
        .chain(all_threads::trials())
        .chain(asked::trials())
        .chain(malloc::trials())
        .chain(c::trials())
        .chain(denied::trials())
        .chain(disk::trials())
        .chain(calls_made::trials())
        .chain(endings::trials())
        .chain(first::trials())
        .chain(first_process::trials())
        .chain(foreign::trials())
        .chain(held::trials())
        .chain(leader::trials())
        .chain(matrix::trials())
        .chain(memory::trials())
        .chain(near::trials())
        .chain(neighbours::trials())
        .chain(panics::trials())
        .chain(parts::trials())
        .chain(refused::trials())
        .chain(slow_handlers::trials())
        .chain(taken::trials())
        .chain(undecided::trials())
        .chain(within::trials())
        .map(|(name, test)| trial(&name, test))
        .collect();
    let conclusion = libtest_mimic::run(&args, trials);
    child::tidy();
    conclusion.exit();
}

/// A test, run `WEDJAT_RUNS` times (once without that variable).
fn trial(name: &str, test: impl Fn() + Send + 'static) -> Trial {
    let impossible = name == c::EXECUTE_ONLY && !c::has_protection_keys()
        || name == disk::FULL && !disk::may_mount();
    let lacks = taken::lacks(name)
        .or_else(|| memory::lacks(name).map(Into::into))
        .or_else(|| first_process::lacks(name).map(Into::into));
    if let Some(lacks) = &lacks {
        eprintln!("{name}: ignored, {lacks}");
    }
    let impossible = impossible || lacks.is_some();
    let test = Trial::test(name, move || {
        let runs = std::env::var("WEDJAT_RUNS").unwrap_or("1".into());
        let runs: u32 = runs.parse().map_err(|_| "WEDJAT_RUNS is no number")?;
        (0..runs).for_each(|_| test());
        Ok(())
    });
    test.with_ignored_flag(impossible)
}

/// In the middle of user space, where nothing is ever mapped.
const UNMAPPED: u64 = 0x2bad_0000_1238;

fn install(folder: &Path) -> Monitor {
    let crash = Crash::default().sigterm(true);
    let monitor = Monitor::builder("crash test", "1.0")
        .directory(folder)
        .crash(crash)
        .install()
        .unwrap();
    child::no_shared_file();
    monitor
}

#[inline(never)]
fn roles(role: &str, folder: &Path) {
    match role {
        _ if all_threads::role(role, folder)
            || asked::role(role, folder)
            || c::role(role, folder)
            || denied::role(role, folder)
            || disk::role(role, folder)
            || calls_made::role(role, folder)
            || earlier::role(role, folder)
            || endings::role(role, folder)
            || malloc::role(role, folder)
            || matrix::role(role, folder)
            || memory::role(role, folder)
            || first::role(role, folder)
            || first_process::role(role, folder)
            || foreign::role(role, folder)
            || held::role(role, folder)
            || leader::role(role, folder)
            || near::role(role, folder)
            || neighbours::role(role, folder)
            || panics::role(role, folder)
            || parts::role(role, folder)
            || refused::role(role, folder)
            || slow_handlers::role(role, folder)
            || taken::role(role, folder)
            || undecided::role(role, folder)
            || within::role(role, folder) => {}
        _ => {
            let _monitor = install(folder);
            outer(Way::from(role));
        }
    }
}

/// Tests by name.
type Tests = Vec<(String, Box<dyn Fn() + Send>)>;

fn tests(list: &[(&str, fn())]) -> Tests {
    let boxed = |&(name, test): &(&str, fn())| -> (String, Box<dyn Fn() + Send>) {
        (name.to_owned(), Box::new(test))
    };
    list.iter().map(boxed).collect()
}

#[inline(never)]
fn asleep(ready: &std::sync::Barrier) {
    ready.wait();
    std::thread::sleep(std::time::Duration::from_secs(60));
    std::hint::black_box(ready);
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Abort,
    Bus,
    Divide,
    Illegal,
    Null,
    Wild,
    Unmapped,
    Readonly,
    Trap,
    Syscall,
    RaiseSegv,
    KillFpe,
    RaiseTrap,
    Term,
    Overflow,
    PanicThatAborts,
    JumpToNull,
}

impl From<&str> for Way {
    fn from(role: &str) -> Way {
        match role {
            "abort" => Way::Abort,
            "bus" => Way::Bus,
            "divide" => Way::Divide,
            "illegal" => Way::Illegal,
            "null" => Way::Null,
            "wild" => Way::Wild,
            "unmapped" => Way::Unmapped,
            "readonly" => Way::Readonly,
            "trap" => Way::Trap,
            "syscall" => Way::Syscall,
            "raise_segv" => Way::RaiseSegv,
            "kill_fpe" => Way::KillFpe,
            "raise_trap" => Way::RaiseTrap,
            "term" => Way::Term,
            "overflow" => Way::Overflow,
            "panic_that_aborts" => Way::PanicThatAborts,
            "jump_to_null" => Way::JumpToNull,
            other => panic!("no role {other}"),
        }
    }
}

#[inline(never)]
fn outer(way: Way) {
    middle(way); // at: outer
    std::hint::black_box(way);
}

#[inline(never)]
fn middle(way: Way) {
    culprit(way); // at: middle
    std::hint::black_box(way);
}

#[inline(never)]
fn culprit(way: Way) {
    // SAFETY: none: each of these is meant to go wrong.
    unsafe {
        // A value each, so that no optimizer makes one instruction, without a line, of several.
        match way {
            Way::Abort => libc::abort(),
            Way::Bus => drop(truncated_mapping().read_volatile()),
            Way::Divide => drop(divide()),
            Way::Illegal => drop(illegal()),
            Way::Null => std::hint::black_box(0x10 as *mut u8).write_volatile(1),
            Way::Wild => std::hint::black_box(0x1234_5678_9abc_def0 as *mut u8).write_volatile(2),
            Way::Unmapped => std::hint::black_box(UNMAPPED as *mut u8).write_volatile(3),
            Way::Readonly => {
                std::hint::black_box(c"constant".as_ptr().cast_mut()).write_volatile(4)
            }
            Way::Trap => drop(trap()),
            Way::Syscall => drop(forbidden_syscall()),
            Way::RaiseSegv => drop(libc::raise(libc::SIGSEGV)),
            Way::KillFpe => drop(libc::kill(libc::getpid(), libc::SIGFPE)),
            Way::RaiseTrap => drop(libc::raise(libc::SIGTRAP)),
            Way::Term => drop(libc::kill(libc::getpid(), libc::SIGTERM)),
            Way::Overflow => drop(deeper(0)),
            Way::PanicThatAborts => drop(cannot_unwind()),
            Way::JumpToNull => {
                let nowhere: extern "C" fn() = std::mem::transmute(std::hint::black_box(0x8usize));
                nowhere()
            }
        };
    }
    std::hint::black_box(way);
}

fn truncated_mapping() -> *const u8 {
    // SAFETY: a mapping of one page over an empty file: reading it is the bus error wanted.
    unsafe {
        let file = libc::memfd_create(c"empty".as_ptr(), 0);
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file,
            0,
        )
        .cast()
    }
}

#[inline(always)]
fn divide() -> u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: divides by zero, as wanted.
    unsafe {
        std::arch::asm!("xor ecx, ecx", "mov eax, 1", "cdq", "idiv ecx", out("eax") _, out("ecx") _, out("edx") _)
    };
    0
}

#[inline(always)]
fn illegal() -> u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: never returns.
    unsafe {
        std::arch::asm!("ud2")
    };
    0
}

#[inline(always)]
fn trap() -> u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a breakpoint.
    unsafe {
        std::arch::asm!("int3", "nop")
    };
    0
}

/// Kills by SIGSYS on `getppid`.
fn forbidden_syscall() -> u8 {
    seccomp::trap(&[libc::SYS_getppid]);
    // SAFETY: takes nothing.
    unsafe { libc::getppid() };
    0
}

#[allow(unconditional_recursion)]
#[inline(never)]
fn deeper(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 64]);
    deeper(depth + 1) + room[(depth % 64) as usize]
}

extern "C" fn no_unwinding() {
    panic!("the cart has {} wheels", 3);
}

fn cannot_unwind() -> u8 {
    no_unwinding();
    0
}
