//! Dies in every way there is, and shows what the next start makes of it.
//!
//! `cargo run --release --example die -- KIND` dies as KIND says in a child process and prints its
//! report; without KIND it lists them. `-- --soak 1000 [KIND]...` dies so often in each way and
//! prints a table: runs, valid reports, right first frame.

use std::error::Error;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use wedjat::report::{Event, Report};
use wedjat::symbolicate::format::{Format, Style, Text};
use wedjat::symbolicate::{DebugFiles, Symbolicator};
use wedjat::{Crash, Monitor, store};

/// What its report must say: the signal and its code, and whether there is a fault address.
struct Expected {
    signal: &'static str,
    code: &'static str,
    address: bool,
}

/// A way to die.
struct Kind {
    name: &'static str,
    die: fn(),
    expected: Expected,
}

const fn kind(
    name: &'static str,
    die: fn(),
    signal: &'static str,
    code: &'static str,
    address: bool,
) -> Kind {
    Kind {
        name,
        die,
        expected: Expected {
            signal,
            code,
            address,
        },
    }
}

const KINDS: [Kind; 19] = [
    kind("null", null, "SIGSEGV", "SEGV_MAPERR", true),
    kind("wild", wild, "SIGSEGV", "SEGV_MAPERR", true),
    kind(
        "non-canonical",
        non_canonical,
        "SIGSEGV",
        "SI_KERNEL",
        false,
    ),
    kind("read-only", read_only, "SIGSEGV", "SEGV_ACCERR", true),
    kind("jump-to-data", jump_to_data, "SIGSEGV", "SEGV_ACCERR", true),
    kind("jump-to-null", jump_to_null, "SIGSEGV", "SEGV_MAPERR", true),
    kind(
        "truncated-file",
        truncated_file,
        "SIGBUS",
        "BUS_ADRERR",
        true,
    ),
    kind("divide", divide, "SIGFPE", "FPE_INTDIV", true),
    kind("illegal", illegal, "SIGILL", "ILL_ILLOPN", true),
    kind("breakpoint", breakpoint, "SIGTRAP", "SI_KERNEL", false),
    kind("system-call", system_call, "SIGSYS", "SYS_SECCOMP", true),
    kind("abort", abort, "SIGABRT", "SI_TKILL", false),
    kind("double-free", double_free, "SIGABRT", "SI_TKILL", false),
    kind("panic-aborts", panic_aborts, "SIGABRT", "SI_TKILL", false),
    kind("overflow", overflow, "SIGSEGV", "SEGV_MAPERR", true),
    kind(
        "overflow-thread",
        overflow_thread,
        "SIGSEGV",
        "SEGV_ACCERR",
        true,
    ),
    kind("in-a-handler", in_a_handler, "SIGSEGV", "SEGV_MAPERR", true),
    kind("loaders-lock", loaders_lock, "SIGSEGV", "SEGV_MAPERR", true),
    kind(
        "eight-at-once",
        eight_at_once,
        "SIGSEGV",
        "SEGV_MAPERR",
        true,
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["--now", kind, directory] => {
            let _monitor = Monitor::builder("Die", "1.0")
                .directory(directory)
                .crash(Crash::default())
                .install()?;
            (find(kind)?.die)();
            Err("it did not die".into())
        }
        ["--soak", times, ref kinds @ ..] => soak(times.parse()?, kinds),
        [kind] => show(find(kind)?),
        _ => {
            let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            Err(format!("which way? {}", names.join(", ")).into())
        }
    }
}

fn find(name: &str) -> Result<&'static Kind, String> {
    let found = KINDS.iter().find(|kind| kind.name == name);
    found.ok_or_else(|| format!("there is no way to die called {name}"))
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wedjat-die-{}-{name}", std::process::id()))
}

/// Dies in a child process, quietly.
fn die(kind: &Kind, directory: &Path) -> std::io::Result<ExitStatus> {
    Command::new(std::env::current_exe()?)
        .args(["--now", kind.name])
        .arg(directory)
        .stderr(Stdio::null())
        .status()
}

fn show(kind: &Kind) -> Result<(), Box<dyn Error>> {
    let directory = folder(kind.name);
    let status = die(kind, &directory)?;
    println!("It died: {status}\n");
    // The next start: what did the last one leave?
    let desk = Symbolicator::new(DebugFiles::new());
    let (style, mut text) = (Style::default(), Text::new());
    let mut out = std::io::stdout().lock();
    for report in store::reports(&directory)? {
        let path = report.path().display().to_string();
        let symbolicated = desk.symbolicate(report.read()?.report);
        text.report(&style, &path, &symbolicated, &mut out)?;
    }
    text.finish(&mut out)?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

/// How often it went well.
#[derive(Default)]
struct Tally {
    valid: AtomicUsize,
    right: AtomicUsize,
}

fn soak(times: usize, kinds: &[&str]) -> Result<(), Box<dyn Error>> {
    let desk = Mutex::new(Symbolicator::new(DebugFiles::new()));
    println!("| kind | runs | valid | right frame |\n| --- | ---: | ---: | ---: |");
    let mut all = true;
    for kind in &KINDS {
        if !kinds.is_empty() && !kinds.contains(&kind.name) {
            continue;
        }
        let (tally, next) = (Tally::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while next.fetch_add(1, Ordering::Relaxed) < times {
                        let run = next.load(Ordering::Relaxed);
                        if let Err(error) = once(kind, run, &desk, &tally) {
                            eprintln!("{}, run {run}: {error}", kind.name);
                        }
                    }
                });
            }
        });
        let (valid, right) = (tally.valid.into_inner(), tally.right.into_inner());
        all &= valid == times && right == times;
        println!("| {} | {times} | {valid} | {right} |", kind.name);
    }
    if all {
        Ok(())
    } else {
        Err("not every report was right".into())
    }
}

fn once(
    kind: &Kind,
    run: usize,
    desk: &Mutex<Symbolicator>,
    tally: &Tally,
) -> Result<(), Box<dyn Error>> {
    static FOLDERS: AtomicUsize = AtomicUsize::new(0);
    let unique = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let directory = folder(&format!("{}-{run}-{unique}", kind.name));
    let status = die(kind, &directory)?;
    let found = store::reports(&directory)?;
    let [report] = &found[..] else {
        return Err(format!("{} reports, {status}", found.len()).into());
    };
    let reading = report.read()?;
    std::fs::remove_dir_all(&directory)?;
    let report = reading.report;
    let whole = reading.damage.is_empty()
        && report
            .end
            .as_ref()
            .is_some_and(|end| end.closed_by == "writer");
    let event = report.event.clone().unwrap_or_default();
    // Rust's own handler ends an overflow by SIGABRT: what it died of first is what counts.
    if !whole || status.signal().is_none() || !is_expected(&event, &kind.expected) {
        return Err(format!("{status}, {:?}, {event:?}", reading.damage).into());
    }
    tally.valid.fetch_add(1, Ordering::Relaxed);
    let first = first_frame(desk, report);
    let wanted = kind.name.replace('-', "_");
    if first.as_deref() != Some(&*wanted) {
        return Err(format!("the first frame is {first:?}").into());
    }
    tally.right.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn is_expected(event: &Event, expected: &Expected) -> bool {
    event.fatal
        && event.signal.as_ref().is_some_and(|signal| {
            signal.name == expected.signal
                && signal.code_name.as_deref() == Some(expected.code)
                && signal.address.is_some() == expected.address
        })
}

/// The innermost function of this file in the crashed thread, without its path.
fn first_frame(desk: &Mutex<Symbolicator>, report: Report) -> Option<String> {
    let desk = desk.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let named = desk.symbolicate(report);
    let thread = named.threads.first()?;
    let frames = thread
        .frames
        .iter()
        .flat_map(|physical| physical.frames.iter());
    let mut own = frames.filter(|frame| {
        let file = frame.file.as_deref().unwrap_or_default();
        file.ends_with("die.rs")
    });
    let function = own.next()?.function.clone()?;
    let name = function.rsplit("::").next()?;
    Some(
        name.trim_end_matches("_here")
            .trim_end_matches('_')
            .to_owned(),
    )
}

// The ways. None of the `unsafe` below is sound: each breaks its rules on purpose, in a process that
// is meant to die of it.

macro_rules! write {
    ($address:expr) => {{
        let address: *mut u8 = std::hint::black_box($address);
        // SAFETY: none, see above.
        unsafe { address.write_volatile(1) };
        std::hint::black_box(address);
    }};
}

#[inline(never)]
fn null() {
    write!(0x10 as *mut u8);
}

#[inline(never)]
fn wild() {
    write!(0x7000_dead_b000 as *mut u8);
}

#[inline(never)]
fn non_canonical() {
    write!(0x1234_5678_9abc_def0 as *mut u8);
}

#[inline(never)]
fn read_only() {
    write!(c"constant".as_ptr().cast_mut().cast());
}

#[inline(never)]
fn jump_to_data() {
    static DATA: [u64; 4] = [0xcccc_cccc_cccc_cccc; 4];
    // SAFETY: none, see above.
    let data: extern "C" fn() = unsafe { std::mem::transmute(std::hint::black_box(&DATA)) };
    data();
    std::hint::black_box(data);
}

#[inline(never)]
fn jump_to_null() {
    // SAFETY: none, see above.
    let nowhere: extern "C" fn() = unsafe { std::mem::transmute(std::hint::black_box(8usize)) };
    nowhere();
    std::hint::black_box(nowhere);
}

#[inline(never)]
fn truncated_file() {
    // SAFETY: none, see above: a page over a file that has no bytes.
    let page = unsafe {
        let file = libc::memfd_create(c"empty".as_ptr(), 0);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            access,
            libc::MAP_SHARED,
            file,
            0,
        )
    };
    write!(page.cast());
}

#[inline(never)]
fn divide() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none, see above.
    unsafe {
        std::arch::asm!("xor ecx, ecx", "mov eax, 1", "cdq", "idiv ecx", out("eax") _, out("ecx") _, out("edx") _)
    };
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: none, see above. This machine divides by zero without complaint.
    unsafe {
        libc::raise(libc::SIGFPE)
    };
}

#[inline(never)]
fn illegal() {
    // SAFETY: none, see above.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("ud2");
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("udf #0");
    }
}

#[inline(never)]
fn breakpoint() {
    // SAFETY: none, see above.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("int3", "nop");
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("brk #1");
    }
}

/// A filter of seccomp(2) forbids `getppid`.
#[inline(never)]
fn system_call() {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let returns = libc::BPF_RET | libc::BPF_K;
    let filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_getppid as u32,
        ),
        step(returns, 0, 0, libc::SECCOMP_RET_TRAP),
        step(returns, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: none, see above.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program);
        std::hint::black_box(libc::getppid());
    }
}

#[inline(never)]
fn abort() {
    // SAFETY: none, see above.
    unsafe { libc::abort() }
}

#[inline(never)]
fn double_free() {
    // SAFETY: none, see above.
    unsafe {
        let memory = std::hint::black_box(libc::malloc(40));
        libc::free(std::hint::black_box(memory));
        libc::free(std::hint::black_box(memory));
    }
    std::hint::black_box(());
}

#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "never called from C")]
extern "C" fn panic_aborts_here() {
    panic!("the cart has {} wheels", std::hint::black_box(3));
}

#[inline(never)]
fn panic_aborts() {
    panic_aborts_here();
    std::hint::black_box(());
}

#[inline(never)]
#[allow(unconditional_recursion, reason = "the way to die")]
fn overflow() {
    let room = std::hint::black_box([1u8; 512]);
    overflow();
    std::hint::black_box(room);
}

#[inline(never)]
fn overflow_thread() {
    #[inline(never)]
    #[allow(unconditional_recursion, reason = "the way to die")]
    fn overflow_thread() {
        // Not the same code as `overflow`'s, or the two may become one function.
        let room = std::hint::black_box([2u8; 640]);
        overflow_thread();
        std::hint::black_box(room);
    }
    let _ = std::thread::spawn(overflow_thread).join();
}

#[inline(never)]
extern "C" fn in_a_handler_(_: i32) {
    write!(0x10 as *mut u8);
}

#[inline(never)]
fn in_a_handler() {
    // SAFETY: none, see above.
    unsafe {
        libc::signal(libc::SIGUSR1, in_a_handler_ as *const () as usize);
        libc::raise(libc::SIGUSR1);
    }
    std::hint::black_box(());
}

#[inline(never)]
unsafe extern "C" fn loaders_lock_(
    _: *mut libc::dl_phdr_info,
    _: usize,
    _: *mut libc::c_void,
) -> i32 {
    write!(0x10 as *mut u8);
    0
}

/// `dl_iterate_phdr` holds the lock while it calls.
#[inline(never)]
fn loaders_lock() {
    // SAFETY: none, see above.
    unsafe { libc::dl_iterate_phdr(Some(loaders_lock_), std::ptr::null_mut()) };
    std::hint::black_box(());
}

#[inline(never)]
fn eight_at_once() {
    let ready = std::sync::Barrier::new(8);
    #[inline(never)]
    fn eight_at_once(ready: &std::sync::Barrier) {
        ready.wait();
        write!(0x10 as *mut u8);
    }
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| eight_at_once(&ready));
        }
    });
}
