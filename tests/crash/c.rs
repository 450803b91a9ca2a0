//! Deaths in C and C++: sources compiled here, loaded by the child, and died in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use wedjat::report::{EventKind, Found, Report};

use crate::child::{Ended, Folder, functions, in_order, keep, play_with};
use crate::{Tests, install, tests};

/// Where a child finds the two libraries.
const LIBRARIES: &str = "WEDJAT_TEST_LIBRARIES";

pub fn trials() -> Tests {
    tests(&[
        ("a_failed_assert_gives_its_message", failed_assert),
        (
            "an_abort_in_a_library_that_was_just_loaded_names_its_functions",
            aborts_in_new_library,
        ),
        (
            "a_crash_in_a_librarys_constructor_names_it_and_who_loads_it",
            constructor,
        ),
        ("a_double_free_gives_what_malloc_said", double_free),
        ("a_crash_inside_malloc_with_its_lock_held", mallocs_lock),
        ("a_smashed_stack_is_reported", smashed_stack),
        (EXECUTE_ONLY, execute_only),
        ("a_corrupt_heap_does_not_matter", corrupt_heap),
        ("a_jump_into_data_names_the_caller", not_executable),
        ("a_write_to_code_is_reported", write_to_code),
        (
            "a_garbage_stack_pointer_leaves_the_first_frame",
            garbage_stack,
        ),
        (
            "a_crash_with_the_loaders_lock_held_is_reported",
            loader_lock,
        ),
        (
            "a_crash_in_a_handler_shows_who_was_interrupted",
            in_a_handler,
        ),
        (
            "a_thread_without_an_alternate_stack_is_reported",
            other_thread,
        ),
        ("an_uncaught_exception_gives_type_and_what", thrown),
        (
            "an_exception_of_an_anonymous_namespace_has_its_name",
            thrown_hidden,
        ),
        ("what_is_found_behind_another_base_class", thrown_both),
        (
            "an_exception_that_is_a_number_has_a_type_only",
            thrown_number,
        ),
        ("an_exception_from_noexcept_gives_type_and_what", no_throw),
        (
            "a_handler_over_ours_that_passes_on_still_ends_the_process",
            passed_on,
        ),
        ("a_ring_of_handlers_ends", ring),
    ])
}

/// Ignored where the CPU has no protection keys: nothing is execute-only there.
pub const EXECUTE_ONLY: &str = "a_read_of_code_that_may_only_be_run_is_reported";

/// Whether the CPU and the kernel have protection keys (pkeys(7)).
pub fn has_protection_keys() -> bool {
    // SAFETY: a plain system call, and its opposite.
    unsafe {
        let key = libc::syscall(libc::SYS_pkey_alloc, 0, 0);
        key >= 0 && libc::syscall(libc::SYS_pkey_free, key) == 0
    }
}

fn execute_only() {
    let report = died(
        "c_execute_only",
        libc::SIGSEGV,
        &["c_execute_only", "dying"],
    );
    let signal = report.event.as_ref().unwrap().signal.as_ref().unwrap();
    assert_eq!(signal.code_name.as_deref(), Some("SEGV_PKUERR"));
    // It reads the byte behind its first instruction.
    assert_eq!(signal.address, Some(report.threads[0].frames[0].pc + 6));
}

fn libraries() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Folder::new("deaths");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash");
        for (compiler, source, object) in [
            ("cc", "deaths.c", "libdeaths.so"),
            ("c++", "deaths.cc", "libdeathscc.so"),
        ] {
            let flags = "-g -O1 -fno-optimize-sibling-calls -fstack-protector-all -shared -fPIC";
            let made = Command::new(compiler)
                .args(flags.split(' '))
                .arg("-o")
                .arg(folder.0.join(object))
                .arg(sources.join(source))
                .status()
                .unwrap();
            assert!(made.success(), "{compiler} {source}");
        }
        keep(folder)
    })
}

fn play(role: &str) -> Ended {
    play_with(role, |command| command.env(LIBRARIES, libraries()))
}

/// Loads a library into this process and gives the address of a function in it.
fn function(library: &str, name: &str) -> *mut libc::c_void {
    let path = PathBuf::from(std::env::var_os(LIBRARIES).unwrap()).join(library);
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let name = std::ffi::CString::new(name).unwrap();
    // SAFETY: C strings; the library's constructor does nothing, or ends the process.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null());
        let found = libc::dlsym(handle, name.as_ptr());
        assert!(!found.is_null(), "{name:?}");
        found
    }
}

pub fn role(role: &str, folder: &Path) -> bool {
    if role == "late_assert" {
        let monitor = install(folder);
        // The images are listed, and no more until the end.
        monitor.record("before the library").unwrap();
        let die = function("libdeaths.so", "c_assert");
        // SAFETY: as below.
        dying(unsafe { std::mem::transmute::<*mut libc::c_void, extern "C-unwind" fn()>(die) });
    }
    let library = match role {
        _ if role.starts_with("cc_") => "libdeathscc.so",
        _ if role.starts_with("c_") => "libdeaths.so",
        _ => return false,
    };
    let over = role.starts_with("c_passed_on") || role == "c_ring";
    let name = if over { "c_thread" } else { role };
    // Before the monitor, as a program has what it is linked with.
    let die = function(library, name);
    // SAFETY: the source gives the functions of these names this type.
    let die = unsafe { std::mem::transmute::<*mut libc::c_void, extern "C-unwind" fn()>(die) };
    let monitor = install(folder);
    assert!(monitor.replaced_signals().is_empty());
    if over {
        let put = function(library, "c_handler_over_it");
        // SAFETY: as above.
        let put = unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn(i32)>(put) };
        put(libc::SIGSEGV);
        assert_eq!(monitor.replaced_signals(), [libc::SIGSEGV]);
    }
    if role == "c_ring" {
        // Ours again, over a handler that passes on to ours.
        drop(monitor);
        let _again = install(folder);
        dying(die);
    }
    dying(die);
    true
}

#[inline(never)]
fn dying(die: extern "C-unwind" fn()) {
    die();
    std::hint::black_box(die);
}

/// The report of a death by this signal, with these functions at the top, `dying` next.
fn died(role: &str, signal: i32, wanted: &[&str]) -> Report {
    let ended = play(role);
    let printed = &ended.stderr;
    assert_eq!(ended.signal(), Some(signal), "{:?} {printed}", ended.status);
    let report = ended.report();
    let event = report.event.as_ref().unwrap();
    assert!(event.fatal);
    assert_eq!(event.signal.as_ref().unwrap().number, signal as u64);
    let functions = functions(&report, 0);
    assert!(in_order(&functions, wanted), "{functions:#?}");
    report
}

fn message(report: &Report) -> &str {
    let message = &report.event.as_ref().unwrap().message;
    message.as_deref().unwrap_or("(no message)")
}

fn aborts_in_new_library() {
    let ended = play("late_assert");
    assert_eq!(ended.signal(), Some(libc::SIGABRT), "{}", ended.stderr);
    names_callers(&ended, &["c_assert", "dying"]);
}

fn constructor() {
    let ended = play_with("late_assert", |command| {
        let command = command.env(LIBRARIES, libraries());
        command.env("WEDJAT_TEST_CONSTRUCTOR", "1")
    });
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    names_callers(&ended, &["crashes_as_it_loads"]);
    // The loader's own lie between.
    names_callers(&ended, &["function"]);
}

fn names_callers(ended: &Ended, wanted: &[&str]) {
    let readings = ended.readings();
    let death = readings
        .iter()
        .map(|reading| &reading.report)
        .find(|report| {
            let event = report.event.as_ref();
            event.is_some_and(|event| event.fatal)
        });
    let functions = functions(death.unwrap(), 0);
    assert!(in_order(&functions, wanted), "{functions:#?}");
}

fn failed_assert() {
    let report = died("c_assert", libc::SIGABRT, &["c_assert", "dying"]);
    assert_eq!(report.event.as_ref().unwrap().kind, EventKind::Crash);
    let message = message(&report);
    assert!(
        message.contains("deaths.c:") && message.contains("the basket is full"),
        "{message}"
    );
}

fn double_free() {
    let report = died("c_double_free", libc::SIGABRT, &["c_double_free", "dying"]);
    let message = message(&report);
    assert!(message.starts_with("free(): double free"), "{message}");
    assert!(!message.ends_with('\n'));
}

fn mallocs_lock() {
    let report = died(
        "c_mallocs_lock",
        libc::SIGSEGV,
        &["c_mallocs_lock", "dying"],
    );
    let thread = &report.threads[0];
    let image = &report.images[thread.frames[0].image.unwrap() as usize];
    assert!(image.name.contains("libc.so"), "{}", image.name);
}

fn smashed_stack() {
    // The frame is gone, return address and all: what is left is who noticed.
    let ended = play("c_smashed_stack");
    assert_eq!(ended.signal(), Some(libc::SIGABRT));
    let report = ended.report();
    assert_eq!(
        message(&report),
        "*** stack smashing detected ***: terminated"
    );
    let functions = functions(&report, 0);
    assert!(
        functions.iter().any(|name| name == "c_smashed_stack"),
        "{functions:#?}"
    );
}

fn corrupt_heap() {
    died(
        "c_corrupt_heap",
        libc::SIGSEGV,
        &["c_corrupt_heap", "dying"],
    );
}

fn not_executable() {
    let report = died(
        "c_not_executable",
        libc::SIGSEGV,
        &["c_not_executable", "dying"],
    );
    let signal = report.event.as_ref().unwrap().signal.as_ref().unwrap();
    assert_eq!(signal.code_name.as_deref(), Some("SEGV_ACCERR"));
    let frames = &report.threads[0].frames;
    assert_eq!(signal.address, Some(frames[0].pc));
    assert_eq!(frames[1].found, Found::LeafReturnAddress);
}

fn write_to_code() {
    let report = died(
        "c_write_to_code",
        libc::SIGSEGV,
        &["c_write_to_code", "dying"],
    );
    let signal = report.event.as_ref().unwrap().signal.as_ref().unwrap();
    assert_eq!(signal.code_name.as_deref(), Some("SEGV_ACCERR"));
}

fn garbage_stack() {
    let report = died("c_garbage_stack", libc::SIGSEGV, &["c_garbage_stack"]);
    let thread = &report.threads[0];
    let sp = thread.registers.iter().find(|(name, _)| name == "rsp");
    assert_eq!(sp.unwrap().1, 0x123450);
}

fn loader_lock() {
    let wanted = ["inside_loader", "dl_iterate_phdr", "c_loader_lock", "dying"];
    died("c_loader_lock", libc::SIGSEGV, &wanted);
}

fn in_a_handler() {
    let report = died("c_in_a_handler", libc::SIGSEGV, &["handler"]);
    assert!(in_order(
        &functions(&report, 0),
        &["c_in_a_handler", "dying"]
    ));
}

fn other_thread() {
    let report = died("c_thread", libc::SIGSEGV, &["thread"]);
    assert!(!report.threads[0].main);
    let main = report
        .threads
        .iter()
        .position(|thread| thread.main)
        .unwrap();
    assert!(in_order(&functions(&report, main), &["c_thread", "dying"]));
}

fn exception(role: &str, name: &str, what: Option<&str>, wanted: &[&str]) {
    let report = died(role, libc::SIGABRT, wanted);
    let event = report.event.as_ref().unwrap();
    assert_eq!(event.kind, EventKind::Exception);
    assert_eq!(event.name.as_deref(), Some(name));
    assert_eq!(event.message.as_deref(), what);
}

fn thrown() {
    let what = Some("the card was refused");
    exception("cc_throw", "Refused", what, &["throws"]);
}

fn thrown_hidden() {
    let what = Some("nobody may see it");
    let kind = "(anonymous namespace)::Hidden";
    exception("cc_throw_hidden", kind, what, &["throws_hidden"]);
}

fn thrown_both() {
    let what = Some("both sides refused");
    exception("cc_throw_both", "Both", what, &["throws_both"]);
}

fn thrown_number() {
    exception("cc_throw_number", "int", None, &["throws_number"]);
}

fn no_throw() {
    let what = Some("the card was refused");
    let wanted = ["throws", "cc_no_throw", "dying"];
    exception("cc_no_throw", "Refused", what, &wanted);
}

fn passed_on() {
    died("c_passed_on", libc::SIGSEGV, &["thread"]);
}

fn ring() {
    died("c_ring", libc::SIGSEGV, &["thread"]);
}
