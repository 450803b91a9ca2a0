//! With the feature `thread-stacks`, a stack overflow on any thread is reported: on one of Rust's,
//! on one of C's that never called us, and on one that was there before the monitor.

mod support;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Trial};
use support::child::{self, Ended, Folder, functions, play_with, role};
use support::library;
use wedjat::{Crash, Monitor};

const LIBRARY: &str = "WEDJAT_TEST_LIBRARY";

fn main() {
    if let Some((role, folder)) = role() {
        roles(&role, &folder);
        return;
    }
    let tests: [(&str, fn()); 5] = [
        ("an_overflow_on_a_thread_of_rust", of_rust),
        (
            "an_overflow_in_a_destructor_behind_the_thread_of_rust",
            of_destructor,
        ),
        ("an_overflow_on_a_thread_of_c", || of_c("of_c")),
        ("an_overflow_on_a_thread_that_was_there_before", || {
            of_c("of_c_before")
        }),
        ("threads_that_end_give_their_stacks_back", come_and_go),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials.into());
    child::tidy();
    conclusion.exit();
}

fn library() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Folder::new("threads");
        let flags = ["-g", "-O1", "-fno-optimize-sibling-calls"];
        let path = library::made(
            &folder.0,
            "threads",
            include_str!("crash/threads.c"),
            &flags,
        );
        child::keep(folder);
        path
    })
}

/// A function of the library, which is loaded for it.
fn function<T>(name: &str) -> T {
    let path = std::env::var(LIBRARY).unwrap();
    let (path, name) = (std::ffi::CString::new(path), std::ffi::CString::new(name));
    // SAFETY: C strings; the callers name the types that the source gives the functions.
    unsafe {
        let handle = libc::dlopen(path.unwrap().as_ptr(), libc::RTLD_NOW);
        let found = libc::dlsym(handle, name.unwrap().as_ptr());
        assert!(!found.is_null());
        std::mem::transmute_copy(&found)
    }
}

fn install(folder: &Path) -> Monitor {
    Monitor::builder("threads", "1")
        .directory(folder)
        .crash(Crash::default())
        .install()
        .unwrap()
}

#[allow(unconditional_recursion, reason = "the way to die")]
#[inline(never)]
fn deeper(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 64]);
    deeper(depth + 1) + room[(depth % 64) as usize]
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .count()
}

fn roles(role: &str, folder: &Path) {
    match role {
        "of_rust" => {
            let _monitor = install(folder);
            let _ = std::thread::spawn(|| deeper(0)).join();
        }
        "of_destructor" => {
            struct Deep;
            impl Drop for Deep {
                fn drop(&mut self) {
                    deeper(0);
                }
            }
            thread_local!(static DEEP: Deep = const { Deep });
            let _monitor = install(folder);
            let _ = std::thread::spawn(|| DEEP.with(|_| ())).join();
        }
        "of_c" => {
            let _monitor = install(folder);
            function::<extern "C" fn()>("c_begin")();
            function::<extern "C" fn()>("c_open")();
        }
        "of_c_before" => {
            function::<extern "C" fn()>("c_begin")();
            let _monitor = install(folder);
            function::<extern "C" fn()>("c_open")();
        }
        "come_and_go" => {
            let _monitor = install(folder);
            let come_and_go = function::<extern "C" fn(i32)>("c_come_and_go");
            come_and_go(10);
            let before = mappings();
            come_and_go(1000);
            (0..100).for_each(|_| std::thread::spawn(|| ()).join().unwrap());
            let after = mappings();
            assert!(after <= before + 8, "{before} mappings became {after}");
            function::<extern "C" fn()>("c_cancel")();
        }
        _ => panic!("no role {role}"),
    }
}

fn play(role: &str) -> Ended {
    play_with(role, |command| command.env(LIBRARY, library()))
}

fn of_rust() {
    let ended = play("of_rust");
    assert_eq!(ended.signal(), Some(libc::SIGABRT), "{}", ended.stderr);
    assert!(ended.stderr.contains("has overflowed its stack"));
    let report = ended.report();
    let functions = functions(&report, 0);
    assert!(functions[0].contains("deeper"), "{functions:?}");
}

fn of_destructor() {
    let ended = play("of_destructor");
    assert!(ended.signal().is_some(), "{}", ended.stderr);
    let functions = functions(&ended.report(), 0);
    assert!(functions[0].contains("deeper"), "{functions:?}");
}

fn of_c(role: &str) {
    let ended = play(role);
    let printed = &ended.stderr;
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{printed}");
    let report = ended.report();
    let thread = &report.threads[0];
    assert!(thread.crashed && !thread.main);
    let functions = functions(&report, 0);
    assert_eq!(functions[0], "too_deep");
    assert!(
        functions.iter().any(|name| name == "waits"),
        "{functions:?}"
    );
    assert!(thread.omitted.is_some(), "too many frames for all of them");
}

fn come_and_go() {
    let ended = play("come_and_go");
    assert!(ended.status.success(), "{}", ended.stderr);
}
