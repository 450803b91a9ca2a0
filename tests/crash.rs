//! Every way to die leaves one whole report that names the culprit, and the process dies as it
//! would have died without us. Each death is that of a child process of its own.

#[path = "crash/c.rs"]
mod c;
#[path = "crash/calls.rs"]
mod calls_made;
mod child;
#[path = "crash/denied.rs"]
mod denied;
#[path = "crash/disk.rs"]
mod disk;
#[path = "crash/endings.rs"]
mod endings;
#[path = "crash/first.rs"]
mod first;
#[path = "crash/held.rs"]
mod held;
#[path = "crash/leader.rs"]
mod leader;
mod library;
#[path = "crash/memory.rs"]
mod memory;
#[path = "crash/near.rs"]
mod near;
#[path = "crash/neighbours.rs"]
mod neighbours;
#[path = "crash/panics.rs"]
mod panics;
mod seccomp;
#[path = "crash/taken.rs"]
mod taken;
#[path = "crash/within.rs"]
mod within;
#[path = "crash/writer_thread.rs"]
mod writer_thread;

use std::path::Path;

use child::{calls, functions, in_order, play, role, stack};
use libtest_mimic::{Arguments, Trial};
use wedjat::report::{EventKind, Found, WalkEnd};
use wedjat::{Crash, Monitor};

fn main() {
    if let Some((role, folder)) = role() {
        roles(&role, &folder);
        return;
    }
    let args = Arguments::from_args();
    let mut trials: Vec<Trial> = DEATHS
        .iter()
        .map(|death| trial(death.role, move || death.check()))
        .collect();
    let others: [(&str, fn()); 10] = [
        (
            "a_handler_that_was_there_before_still_decides",
            earlier_handler,
        ),
        (
            "a_handler_for_one_time_that_returns_does_not_keep_the_process_alive",
            handler_for_one_time,
        ),
        (
            "a_stack_overflow_is_reported_and_rust_still_says_so",
            stack_overflow,
        ),
        (
            "a_panic_that_cannot_unwind_is_one_report",
            panic_that_aborts,
        ),
        ("a_caught_panic_is_reported_as_not_fatal", caught_panic),
        ("a_child_of_fork_writes_no_report", fork),
        ("a_jump_to_null_names_the_caller", jump_to_null),
        ("all_threads_are_in_the_report", all_threads),
        (
            "two_threads_that_crash_at_once_leave_one_report",
            two_at_once,
        ),
        (
            "a_crash_with_malloc_in_use_allocates_nothing",
            malloc_in_use,
        ),
    ];
    trials.extend(others.map(|(name, test)| trial(name, test)));
    let more = c::trials()
        .into_iter()
        .chain(denied::trials())
        .chain(disk::trials())
        .chain(calls_made::trials())
        .chain(endings::trials())
        .chain(first::trials())
        .chain(held::trials())
        .chain(leader::trials())
        .chain(memory::trials())
        .chain(near::trials())
        .chain(neighbours::trials())
        .chain(panics::trials())
        .chain(writer_thread::trials())
        .chain(taken::trials())
        .chain(within::trials());
    trials.extend(more.map(|(name, test)| trial(&name, test)));
    let conclusion = libtest_mimic::run(&args, trials);
    child::tidy();
    conclusion.exit();
}

/// A test, run `WEDJAT_RUNS` times (once without that variable).
fn trial(name: &str, test: impl Fn() + Send + 'static) -> Trial {
    let impossible = name == c::EXECUTE_ONLY && !c::has_protection_keys()
        || name == disk::FULL && !disk::may_mount();
    let lacks = taken::lacks(name).or_else(|| memory::lacks(name).map(Into::into));
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

/// One way to die and what its report must say.
struct Death {
    role: &'static str,
    signal: i32,
    name: &'static str,
    code: &'static str,
    address: Address,
}

enum Address {
    None,
    Is(u64),
    /// That of the instruction at fault.
    Pc,
    Any,
}

const DEATHS: [Death; 14] = [
    Death {
        role: "abort",
        signal: libc::SIGABRT,
        name: "SIGABRT",
        code: "SI_TKILL",
        address: Address::None,
    },
    Death {
        role: "bus",
        signal: libc::SIGBUS,
        name: "SIGBUS",
        code: "BUS_ADRERR",
        address: Address::Any,
    },
    Death {
        role: "divide",
        signal: libc::SIGFPE,
        name: "SIGFPE",
        code: "FPE_INTDIV",
        address: Address::Pc,
    },
    Death {
        role: "illegal",
        signal: libc::SIGILL,
        name: "SIGILL",
        code: "ILL_ILLOPN",
        address: Address::Pc,
    },
    Death {
        role: "null",
        signal: libc::SIGSEGV,
        name: "SIGSEGV",
        code: "SEGV_MAPERR",
        address: Address::Is(0x10),
    },
    Death {
        role: "wild",
        signal: libc::SIGSEGV,
        name: "SIGSEGV",
        code: "SI_KERNEL",
        address: Address::None,
    },
    Death {
        role: "unmapped",
        signal: libc::SIGSEGV,
        name: "SIGSEGV",
        code: "SEGV_MAPERR",
        address: Address::Is(UNMAPPED),
    },
    Death {
        role: "readonly",
        signal: libc::SIGSEGV,
        name: "SIGSEGV",
        code: "SEGV_ACCERR",
        address: Address::Any,
    },
    Death {
        role: "trap",
        signal: libc::SIGTRAP,
        name: "SIGTRAP",
        code: "SI_KERNEL",
        address: Address::None,
    },
    Death {
        role: "syscall",
        signal: libc::SIGSYS,
        name: "SIGSYS",
        code: "SYS_SECCOMP",
        address: Address::Any,
    },
    Death {
        role: "raise_segv",
        signal: libc::SIGSEGV,
        name: "SIGSEGV",
        code: "SI_TKILL",
        address: Address::None,
    },
    Death {
        role: "kill_fpe",
        signal: libc::SIGFPE,
        name: "SIGFPE",
        code: "SI_USER",
        address: Address::None,
    },
    Death {
        role: "raise_trap",
        signal: libc::SIGTRAP,
        name: "SIGTRAP",
        code: "SI_TKILL",
        address: Address::None,
    },
    Death {
        role: "term",
        signal: libc::SIGTERM,
        name: "SIGTERM",
        code: "SI_USER",
        address: Address::None,
    },
];

/// In the middle of user space, where nothing is ever mapped.
const UNMAPPED: u64 = 0x2bad_0000_1238;

impl Death {
    fn check(&self) {
        let ended = play(self.role);
        assert_eq!(
            ended.signal(),
            Some(self.signal),
            "{:?} {}",
            ended.status,
            ended.stderr
        );
        let report = ended.report();
        let event = report.event.as_ref().unwrap();
        assert_eq!((event.kind, event.fatal), (EventKind::Crash, true));
        let signal = event.signal.as_ref().unwrap();
        assert_eq!(signal.number, self.signal as u64);
        assert_eq!(signal.name, self.name);
        assert_eq!(signal.code_name.as_deref(), Some(self.code));
        let thread = &report.threads[0];
        assert!(thread.crashed && thread.main);
        assert_eq!(thread.end, Some(WalkEnd::Root), "{:#x?}", thread.frames);
        assert_eq!(thread.frames[0].found, Found::Context);
        let pc = thread
            .registers
            .iter()
            .find(|(name, _)| name == "rip" || name == "pc")
            .unwrap()
            .1;
        match self.address {
            Address::None => assert_eq!(signal.address, None),
            Address::Is(address) => assert_eq!(signal.address, Some(address)),
            Address::Pc => assert_eq!(signal.address, Some(pc)),
            Address::Any => assert!(signal.address.is_some()),
        }
        let functions = functions(&report, 0);
        assert!(
            in_order(&functions, &["culprit", "middle", "outer", "roles", "main"]),
            "{functions:#?}"
        );
        if !["null", "abort", "trap"].contains(&self.role) {
            return;
        }
        // The names of the functions that led there, and lines of this very file.
        let stack = stack(&report, 0);
        assert!(calls(&stack, &["outer", "roles", "main"]), "{stack:#?}");
        let culprit = stack
            .iter()
            .position(|(function, ..)| function.ends_with("culprit"));
        let culprit = culprit.unwrap_or_else(|| panic!("{stack:#?}"));
        assert!(
            calls(&stack[culprit..], &["culprit", "middle", "outer"]),
            "{stack:#?}"
        );
        for (function, file, line) in &stack[culprit..culprit + 3] {
            assert_eq!(file, "crash.rs", "{function}");
            let text = include_str!("crash.rs")
                .lines()
                .nth(*line as usize - 1)
                .unwrap();
            assert!(
                text.contains("// at: ") || function.ends_with("culprit"),
                "{function} line {line}: {text}"
            );
        }
    }
}

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

fn roles(role: &str, folder: &Path) {
    match role {
        "earlier_handler" => {
            extern "C" fn leave(_: i32) {
                // SAFETY: _exit is async-signal-safe.
                unsafe { libc::_exit(42) };
            }
            // SAFETY: the handler only leaves.
            unsafe { libc::signal(libc::SIGSEGV, leave as *const () as libc::sighandler_t) };
            let _monitor = install(folder);
            outer(Way::Null);
        }
        "handler_for_one_time" => {
            extern "C" fn returns(_: i32) {}
            // SAFETY: the handler does nothing; the structure lives across the call.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = returns as *const () as usize;
                action.sa_flags = libc::SA_RESETHAND;
                libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
            }
            let _monitor = install(folder);
            outer(Way::Null);
        }
        "caught_panic" => {
            let monitor = install(folder);
            let caught = std::panic::catch_unwind(|| panic!("the basket is {}", "empty"));
            assert!(caught.is_err());
            drop(monitor);
        }
        "fork" => {
            let _monitor = install(folder);
            // SAFETY: the child only dies.
            match unsafe { libc::fork() } {
                0 => outer(Way::Null),
                child => {
                    let mut status = 0;
                    // SAFETY: waits for the child just made.
                    unsafe { libc::waitpid(child, &mut status, 0) };
                    std::process::exit(128 + libc::WTERMSIG(status));
                }
            }
        }
        "all_threads" => {
            let _monitor = install(folder);
            let ready = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| asleep(&ready));
                }
                ready.wait();
                outer(Way::Null);
            });
        }
        "two_at_once" => {
            let _monitor = install(folder);
            let ready = std::sync::Barrier::new(8);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        ready.wait();
                        outer(Way::Null);
                    });
                }
            });
        }
        "malloc_in_use" => {
            let _monitor = install(folder);
            counting::begin(folder);
            outer(Way::Null);
        }
        _ if c::role(role, folder)
            || denied::role(role, folder)
            || disk::role(role, folder)
            || calls_made::role(role, folder)
            || endings::role(role, folder)
            || memory::role(role, folder)
            || first::role(role, folder)
            || held::role(role, folder)
            || leader::role(role, folder)
            || near::role(role, folder)
            || neighbours::role(role, folder)
            || panics::role(role, folder)
            || writer_thread::role(role, folder)
            || taken::role(role, folder)
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
        match way {
            Way::Abort => libc::abort(),
            Way::Bus => drop(truncated_mapping().read_volatile()),
            Way::Divide => drop(divide()),
            Way::Illegal => drop(illegal()),
            Way::Null => std::hint::black_box(0x10 as *mut u8).write_volatile(1),
            Way::Wild => std::hint::black_box(0x1234_5678_9abc_def0 as *mut u8).write_volatile(1),
            Way::Unmapped => std::hint::black_box(UNMAPPED as *mut u8).write_volatile(1),
            Way::Readonly => {
                std::hint::black_box(c"constant".as_ptr().cast_mut()).write_volatile(1)
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

fn earlier_handler() {
    let ended = play("earlier_handler");
    assert_eq!(ended.status.code(), Some(42), "{}", ended.stderr);
    assert_eq!(
        ended.report().event.unwrap().signal.unwrap().name,
        "SIGSEGV"
    );
}

fn handler_for_one_time() {
    let ended = play("handler_for_one_time");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{:?}", ended.status);
    assert!(ended.report().event.unwrap().fatal);
}

fn stack_overflow() {
    let ended = play("overflow");
    assert_eq!(ended.signal(), Some(libc::SIGABRT));
    assert!(
        ended.stderr.contains("has overflowed its stack"),
        "{}",
        ended.stderr
    );
    let report = ended.report();
    assert_eq!(
        report.event.as_ref().unwrap().signal.as_ref().unwrap().name,
        "SIGSEGV"
    );
    let thread = &report.threads[0];
    assert!(thread.omitted.is_some() && thread.frames.len() > 100);
    let stack = stack(&report, 0);
    assert!(
        calls(&stack, &["deeper", "deeper", "deeper"]),
        "innermost frames"
    );
    assert!(
        calls(&stack, &["culprit", "middle", "outer"]),
        "outermost frames: {stack:#?}"
    );
}

fn panic_that_aborts() {
    let ended = play("panic_that_aborts");
    assert_eq!(ended.signal(), Some(libc::SIGABRT));
    assert!(
        ended.stderr.contains("the cart has 3 wheels"),
        "the hook before ours still speaks"
    );
    let report = ended.report();
    let event = report.event.as_ref().unwrap();
    assert_eq!((event.kind, event.fatal), (EventKind::Panic, true));
    assert_eq!(event.message.as_deref(), Some("the cart has 3 wheels"));
    assert!(
        event.name.is_some() && event.name == report.threads[0].name,
        "{event:?}"
    );
    assert!(
        event
            .location
            .as_deref()
            .unwrap()
            .contains("tests/crash.rs:"),
        "{event:?}"
    );
    assert_eq!(event.signal.as_ref().unwrap().name, "SIGABRT");
    let stack = stack(&report, 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    assert!(
        stack
            .iter()
            .any(|(function, ..)| function.ends_with("no_unwinding")),
        "{stack:#?}"
    );
}

fn caught_panic() {
    let ended = play("caught_panic");
    assert!(ended.status.success(), "{}", ended.stderr);
    let report = ended.report();
    let event = report.event.as_ref().unwrap();
    assert_eq!((event.kind, event.fatal), (EventKind::Panic, false));
    assert_eq!(event.message.as_deref(), Some("the basket is empty"));
    assert!(
        event.name.is_some() && event.name == report.threads[0].name,
        "{event:?}"
    );
    assert_eq!(event.signal, None);
    let stack = stack(&report, 0);
    assert!(
        stack
            .iter()
            .any(|(function, ..)| function.contains("roles")),
        "{stack:#?}"
    );
}

fn fork() {
    let ended = play("fork");
    assert_eq!(
        ended.status.code(),
        Some(128 + libc::SIGSEGV),
        "{}",
        ended.stderr
    );
    assert!(ended.readings().is_empty());
}

fn jump_to_null() {
    let ended = play("jump_to_null");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV));
    let report = ended.report();
    let frames = &report.threads[0].frames;
    assert_eq!((frames[0].pc, frames[0].image), (8, None));
    assert_eq!(frames[1].found, Found::LinkRegister);
    let stack = stack(&report, 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}

fn all_threads() {
    let ended = play("all_threads");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV));
    let report = ended.report();
    assert!(report.threads[0].crashed);
    let asleep = (1..report.threads.len())
        .filter(|&index| {
            let stack = stack(&report, index);
            stack
                .iter()
                .any(|(function, file, _)| function.ends_with("asleep") && file == "crash.rs")
        })
        .count();
    assert_eq!(asleep, 3, "{:#x?}", report.threads);
    let helper = report
        .threads
        .iter()
        .find(|thread| thread.name.as_deref() == Some("wedjat-helper"));
    assert!(helper.is_some());
}

fn two_at_once() {
    for _ in 0..5 {
        let ended = play("two_at_once");
        assert_eq!(ended.signal(), Some(libc::SIGSEGV));
        let report = ended.report();
        let stack = stack(&report, 0);
        assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    }
}

fn malloc_in_use() {
    let ended = play("malloc_in_use");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV));
    assert_eq!(
        counting::end(&ended.folder.0),
        Some(0),
        "calls to malloc in the crash path"
    );
    ended.report();
}

/// An interposed `malloc` that counts: libc's own calls come here too.
mod counting {
    use std::path::Path;
    use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

    /// The count lies in a file, so that it outlives the process.
    static COUNT: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
    static THREAD: AtomicI32 = AtomicI32::new(0);

    pub fn begin(folder: &Path) {
        use std::os::fd::AsRawFd;
        let path = folder.join("count");
        let file = std::fs::File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        file.set_len(8).unwrap();
        // SAFETY: a shared mapping of the file's eight bytes, never unmapped; page-aligned.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let map = libc::mmap(
                std::ptr::null_mut(),
                8,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(map, libc::MAP_FAILED);
            THREAD.store(libc::gettid(), Ordering::Relaxed);
            // From here on every call counts; one now, so that a broken counter shows.
            COUNT.store(map.cast(), Ordering::SeqCst);
        }
        drop(std::hint::black_box(Box::new(1)));
        let count = COUNT.load(Ordering::SeqCst);
        // SAFETY: as above.
        let seen = unsafe { (*count).swap(0, Ordering::SeqCst) };
        assert!(
            seen >= 1,
            "the interposed malloc is not the one that is called"
        );
    }

    pub fn end(folder: &Path) -> Option<u64> {
        let bytes = std::fs::read(folder.join("count")).ok()?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }

    fn count() {
        let count = COUNT.load(Ordering::Relaxed);
        // SAFETY: null, or the mapping of `begin`; gettid takes no arguments.
        unsafe {
            if !count.is_null() && libc::gettid() == THREAD.load(Ordering::Relaxed) {
                (*count).fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    unsafe extern "C" {
        fn __libc_malloc(size: usize) -> *mut libc::c_void;
        fn __libc_calloc(count: usize, size: usize) -> *mut libc::c_void;
        fn __libc_realloc(old: *mut libc::c_void, size: usize) -> *mut libc::c_void;
        fn __libc_free(old: *mut libc::c_void);
        fn __libc_memalign(alignment: usize, size: usize) -> *mut libc::c_void;
    }

    // SAFETY (of all these): each passes on to glibc's own of the same contract; the names are
    // glibc's documented way of replacing malloc ("Replacing malloc" in its manual).
    #[unsafe(no_mangle)]
    unsafe extern "C" fn malloc(size: usize) -> *mut libc::c_void {
        count();
        // SAFETY: as above.
        unsafe { __libc_malloc(size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn calloc(number: usize, size: usize) -> *mut libc::c_void {
        count();
        // SAFETY: as above.
        unsafe { __libc_calloc(number, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn realloc(old: *mut libc::c_void, size: usize) -> *mut libc::c_void {
        count();
        // SAFETY: as above.
        unsafe { __libc_realloc(old, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn free(old: *mut libc::c_void) {
        count();
        // SAFETY: as above.
        unsafe { __libc_free(old) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut libc::c_void {
        count();
        // SAFETY: as above.
        unsafe { __libc_memalign(alignment, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut libc::c_void {
        count();
        // SAFETY: as above.
        unsafe { __libc_memalign(alignment, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn posix_memalign(
        into: *mut *mut libc::c_void,
        alignment: usize,
        size: usize,
    ) -> i32 {
        count();
        // SAFETY: as above; `into` is the caller's.
        unsafe {
            *into = __libc_memalign(alignment, size);
            if (*into).is_null() { libc::ENOMEM } else { 0 }
        }
    }
}
