//! The monitor as an app uses it: stalls, live reports, the folder of reports, install and drop.
//! Each app is a child process of its own, as there is one monitor a process.

mod descriptors;
mod folder;
#[cfg(target_os = "linux")]
mod freezes;
mod page;
#[cfg(target_os = "linux")]
mod queue;
#[cfg(target_os = "linux")]
mod signals;
#[path = "../support/mod.rs"]
mod support;
#[cfg(target_os = "linux")]
mod threads;

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use support::child::{self, Folder, calls, command, play, role, stack};
use support::library;
use wedjat::report::{EventKind, Report, StallOutcome};
use wedjat::{Crash, InstallError, Monitor, MonitorError, Stall, store};

fn main() {
    #[cfg(target_os = "linux")]
    if freezes::is_played() {
        return;
    }
    if let Some((role, folder)) = role() {
        let is_played = page::is_played(&role)
            || descriptors::is_played(&role, &folder)
            || folder::is_played(&role, &folder);
        #[cfg(target_os = "linux")]
        let is_played =
            is_played || queue::is_played(&role, &folder) || threads::is_played(&role, &folder);
        if !is_played {
            roles(&role, &folder);
        }
        return;
    }
    let mut args = Arguments::from_args();
    // They wait, most of the time.
    args.test_threads = args
        .test_threads
        .or_else(|| Some(2 * std::thread::available_parallelism().ok()?.get()));
    let mut tests: Vec<(&str, fn())> = vec![
        (
            "one_long_freeze_is_one_stall_that_names_the_culprit",
            long_freeze,
        ),
        ("five_short_freezes_in_a_row_are_one_stall", short_freezes),
        ("no_stall_while_idle_or_quick", idle),
        ("a_live_report_has_all_threads", live),
        (
            "a_stall_that_the_process_did_not_survive_is_closed_by_the_next_launch",
            killed,
        ),
        (
            "a_stall_that_lasts_when_the_monitor_is_dropped_ends_as_uninstalled",
            dropped,
        ),
        (
            "there_is_one_monitor_and_dropping_it_makes_room",
            one_monitor,
        ),
        (
            "a_folder_that_cannot_be_written_is_an_error_that_names_it",
            bad_folder,
        ),
        ("old_reports_make_room_for_new_ones", limits),
        (
            "a_signal_that_the_app_blocks_everywhere_stays_blocked",
            blocked_signal,
        ),
        ("a_library_loaded_later_is_named_in_the_stack", loaded_later),
        (
            "a_library_behind_one_that_was_closed_is_named_in_the_stack",
            library_closed,
        ),
        #[cfg(target_os = "linux")]
        ("no_file_of_an_image_is_mapped_a_second_time", mapped_once),
        ("a_panic_hook_that_takes_long_is_no_stall", slow_hook),
        ("without_memory_there_is_no_live_report", no_memory),
        (
            "the_program_of_the_readme_goes_on_with_a_folder_and_without_one",
            page::goes_on,
        ),
    ];
    #[cfg(target_os = "linux")]
    tests.extend([
        (
            "signals_that_the_app_resets_are_put_back",
            signals::reset as fn(),
        ),
        (
            "signals_that_the_app_ignores_are_put_back",
            signals::ignored,
        ),
        (
            "a_signal_that_the_app_takes_is_left_to_it",
            signals::one_taken,
        ),
        (
            "where_no_signal_is_left_the_captures_are_lost",
            signals::all_taken,
        ),
        (
            "signals_that_cannot_be_queued_are_lost_captures",
            signals::not_queued,
        ),
        (
            "each_culprit_of_a_freeze_is_named",
            freezes::each_culprit_is_named,
        ),
    ]);
    #[cfg(target_os = "linux")]
    tests.extend(queue::TESTS);
    #[cfg(target_os = "linux")]
    tests.extend(threads::TESTS);
    tests.extend(descriptors::TESTS);
    tests.extend(folder::TESTS);
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&args, trials.collect()).exit();
}

/// A library with one function, which calls back.
const SLOW: &str =
    "void slow_in_library(void (*f)(void *), void *p) { f(p); __asm__ volatile(\"\"); }\n";
const SLOW_FLAGS: [&str; 3] = ["-g", "-O1", "-fno-optimize-sibling-calls"];
type Slow = extern "C" fn(extern "C" fn(*mut libc::c_void), *mut libc::c_void);

/// Loads the library made of [`SLOW`]; gives its handle and its function.
fn loaded(library: &Path) -> (*mut libc::c_void, Slow) {
    let path = std::ffi::CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: the library was just made; its one function has the type given here.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null());
        let slow = libc::dlsym(handle, c"slow_in_library".as_ptr());
        (handle, std::mem::transmute::<*mut libc::c_void, Slow>(slow))
    }
}

/// A monitor for stalls, and the paths of its reports.
fn install(folder: &Path) -> (Monitor, mpsc::Receiver<std::path::PathBuf>) {
    let (sender, receiver) = mpsc::channel();
    let monitor = Monitor::builder("monitor test", "1.0")
        .directory(folder)
        .stall(Stall::default())
        .on_report(move |path| drop(sender.send(path.to_owned())))
        .install()
        .unwrap();
    // The launch is watched too: end it.
    monitor.heartbeat().turn(|| {});
    std::thread::sleep(Duration::from_millis(20));
    child::no_shared_file();
    (monitor, receiver)
}

fn roles(role: &str, folder: &Path) {
    match role {
        "long_freeze" => {
            let (monitor, receiver) = install(folder);
            monitor
                .heartbeat()
                .turn(|| outer(Duration::from_millis(1_000)));
            receiver.recv_timeout(Duration::from_secs(5)).unwrap();
            for _ in 0..20 {
                monitor
                    .heartbeat()
                    .turn(|| std::thread::sleep(Duration::from_millis(2)));
            }
            assert!(receiver.try_recv().is_err());
        }
        "short_freezes" => {
            let (monitor, receiver) = install(folder);
            let heart = monitor.heartbeat();
            for _ in 0..6 {
                heart.begin();
                outer(Duration::from_millis(60));
                heart.end();
            }
            receiver.recv_timeout(Duration::from_secs(5)).unwrap();
        }
        "idle" => {
            let (monitor, receiver) = install(folder);
            for _ in 0..10 {
                monitor
                    .heartbeat()
                    .turn(|| outer(Duration::from_millis(20)));
                std::thread::sleep(Duration::from_millis(30));
            }
            std::thread::sleep(Duration::from_millis(1500));
            assert!(receiver.try_recv().is_err());
        }
        "live" => {
            let (monitor, _told) = install(folder);
            let ready = std::sync::Barrier::new(3);
            std::thread::scope(|scope| {
                let waits = || {
                    std::thread::Builder::new()
                        .name("a-worker".into())
                        .spawn_scoped(scope, || worker(&ready))
                        .unwrap()
                };
                let workers = [waits(), waits()];
                ready.wait();
                std::thread::sleep(Duration::from_millis(50));
                let path = records(&monitor);
                assert!(
                    path.extension().is_some_and(|ending| ending == "wedjat"),
                    "{path:?}"
                );
                workers.iter().for_each(|worker| worker.thread().unpark());
            });
        }
        "killed" => {
            let (monitor, _told) = install(folder);
            monitor.heartbeat().turn(|| outer(Duration::from_secs(60)));
        }
        "dropped" => {
            let (monitor, receiver) = install(folder);
            monitor.heartbeat().begin();
            outer(Duration::from_millis(500));
            drop(monitor);
            receiver.try_recv().unwrap();
        }
        "one_monitor" => {
            let (monitor, receiver) = install(folder);
            let heart = monitor.heartbeat();
            let second = Monitor::builder("second", "1").directory(folder).install();
            assert!(matches!(second, Err(InstallError::AlreadyInstalled)));
            drop(monitor);
            heart.turn(|| outer(Duration::from_millis(400)));
            assert!(
                receiver.try_recv().is_err(),
                "a heartbeat left over is a no-op"
            );
            let again = Monitor::builder("again", "1")
                .directory(folder)
                .crash(Crash::default())
                .install();
            again.unwrap().record("again").unwrap();
        }
        "library_closed" => {
            let of_libraries = Folder::new("closed");
            let made = |name| library::made(&of_libraries.0, name, SLOW, &SLOW_FLAGS);
            let (first, second) = (made("first"), made("second"));
            let (handle, _) = loaded(&first);
            let (_, slow) = loaded(&second);
            let (monitor, receiver) = install(folder);
            // SAFETY: nothing of it is used any more. Those behind it move up in the loader's list.
            assert_eq!(unsafe { libc::dlclose(handle) }, 0);
            extern "C" fn waits(_: *mut libc::c_void) {
                std::thread::sleep(Duration::from_millis(600));
            }
            monitor
                .heartbeat()
                .turn(|| slow(waits, std::ptr::null_mut()));
            let path = receiver.recv_timeout(Duration::from_secs(5)).unwrap();
            let bytes = std::fs::read(path).unwrap();
            let stack = stack(&wedjat::report::read(&bytes).unwrap().report, 0);
            assert!(calls(&stack, &["waits", "slow_in_library"]), "{stack:#?}");
        }
        #[cfg(target_os = "linux")]
        "mapped_once" => {
            let of_library = Folder::new("mapped");
            let object = library::made(&of_library.0, "opened", SLOW, &SLOW_FLAGS);
            let (_, slow) = loaded(&object);
            let before = beginnings();
            let (monitor, receiver) = install(folder);
            assert_eq!(beginnings(), before);
            let is_once = |name: &str| {
                let mapped = before.iter().filter(|file| file.contains(name));
                assert_eq!(mapped.count(), 1, "{name}: {before:#?}");
            };
            ["opened", "libc.so", "ld-linux"]
                .into_iter()
                .for_each(is_once);
            extern "C" fn freeze(_: *mut libc::c_void) {
                outer(Duration::from_millis(400));
            }
            monitor
                .heartbeat()
                .turn(|| slow(freeze, std::ptr::null_mut()));
            let path = receiver.recv_timeout(Duration::from_secs(5)).unwrap();
            assert_eq!(beginnings(), before);
            let stack = stack(
                &wedjat::report::read(&std::fs::read(path).unwrap())
                    .unwrap()
                    .report,
                0,
            );
            assert!(calls(&stack, &["freeze", "slow_in_library"]), "{stack:#?}");
        }
        "loaded_later" => {
            let folder_of_library = Folder::new("library");
            let object = library::made(&folder_of_library.0, "later", SLOW, &SLOW_FLAGS);
            let (monitor, receiver) = install(folder);
            extern "C" fn freeze(_: *mut libc::c_void) {
                outer(Duration::from_millis(400));
            }
            let (_, slow) = loaded(&object);
            monitor
                .heartbeat()
                .turn(|| slow(freeze, std::ptr::null_mut()));
            let path = receiver.recv_timeout(Duration::from_secs(5)).unwrap();
            // Read while the library's file is still there.
            let report = wedjat::report::read(&std::fs::read(path).unwrap())
                .unwrap()
                .report;
            let stack = stack(&report, 0);
            assert!(
                calls(&stack, &["outer", "freeze", "slow_in_library"]),
                "{stack:#?}"
            );
        }
        "bad_folder" => {
            assert!(Monitor::builder("a", "1").install().is_err());
            let made = folder.join("made/for/us");
            drop(
                Monitor::builder("a", "1")
                    .directory(&made)
                    .install()
                    .unwrap(),
            );
            assert!(made.is_dir());
        }
        "limits" => {
            let limits = store::Limits::default().reports(3);
            let monitor = Monitor::builder("a", "1")
                .directory(folder)
                .limits(limits)
                .install()
                .unwrap();
            let paths: Vec<_> = (0..5)
                .map(|n| monitor.record(&n.to_string()).unwrap())
                .collect();
            // A thread of the monitor's sees to it.
            let expected = [false, false, true, true, true];
            let end = Instant::now() + Duration::from_secs(20);
            while paths.iter().map(|path| path.exists()).ne(expected) {
                assert!(Instant::now() < end, "{paths:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(100));
            assert!(paths.iter().map(|path| path.exists()).eq(expected));
        }
        "blocked_signal" => {
            // SAFETY: the sets live across the calls, and are filled in before they are read.
            unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&mut set);
                let signals = [libc::SIGRTMIN(), libc::SIGUSR1, libc::SIGTRAP];
                for signal in signals {
                    libc::sigaddset(&mut set, signal);
                }
                libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
                let (monitor, _receiver) = install(folder);
                monitor.record("threads are captured all the same").unwrap();
                for signal in signals {
                    libc::kill(libc::getpid(), signal);
                    std::thread::sleep(Duration::from_millis(50));
                    let time = libc::timespec {
                        tv_sec: 5,
                        tv_nsec: 0,
                    };
                    let came = libc::sigtimedwait(&set, std::ptr::null_mut(), &time);
                    assert_eq!(came, signal);
                }
            }
        }
        "slow_hook" => {
            std::panic::set_hook(Box::new(|_| outer(Duration::from_millis(800))));
            let monitor = Monitor::builder("a", "1")
                .directory(folder)
                .stall(Stall::default())
                .crash(Crash::default())
                .install()
                .unwrap();
            let panics = || std::panic::catch_unwind(|| panic!("the basket is empty"));
            assert!(monitor.heartbeat().turn(panics).is_err());
            std::thread::sleep(Duration::from_millis(300));
        }
        "no_memory" => {
            let monitor = Monitor::builder("a", "1").directory(folder).install();
            let monitor = monitor.unwrap();
            let limit = |soft| {
                let limit = libc::rlimit {
                    rlim_cur: soft,
                    rlim_max: libc::RLIM_INFINITY,
                };
                // SAFETY: the limit outlives the call.
                let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
                assert_eq!(set, 0);
            };
            // A thread that is only beginning takes memory for itself, and ends the process without.
            std::thread::sleep(Duration::from_millis(300));
            limit(0);
            let recorded = monitor.record("without memory");
            let stacks = monitor.stacks(wedjat::Threads::All);
            limit(libc::RLIM_INFINITY);
            assert!(matches!(recorded, Err(MonitorError::Resources { .. })));
            assert!(matches!(stacks, Err(MonitorError::Resources { .. })));
            monitor.record("again").unwrap();
            limit(0);
            let recorded = (0..50).filter(|_| monitor.record("little").is_ok()).count();
            limit(libc::RLIM_INFINITY);
            println!("{recorded}");
        }
        #[cfg(target_os = "linux")]
        role if role.starts_with("signal") => signals::role(role, folder),
        other => panic!("no role {other}"),
    }
}

#[inline(never)]
fn outer(time: Duration) {
    busy(time);
    std::hint::black_box(time);
}

#[inline(never)]
fn busy(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        spin();
    }
}

#[inline(always)]
fn spin() {
    for step in 0..10_000 {
        std::hint::black_box(step);
    }
}

#[inline(never)]
fn worker(ready: &std::sync::Barrier) {
    ready.wait();
    std::thread::park();
    std::hint::black_box(ready);
}

#[inline(never)]
fn records(monitor: &Monitor) -> std::path::PathBuf {
    let path = monitor.record("support button").unwrap();
    std::hint::black_box(path)
}

fn one_stall(report: &Report) {
    let event = report.event.as_ref().unwrap();
    assert_eq!((event.kind, event.fatal), (EventKind::Stall, false));
    let thresholds = event.thresholds.as_ref().unwrap();
    assert_eq!(
        (thresholds.timeout, thresholds.strikes),
        (Duration::from_millis(50), 5)
    );
    assert!(report.threads[0].main);
    assert!(report.capture.as_ref().unwrap().stopped.unwrap() > Duration::ZERO);
    assert!(
        report
            .vitals
            .as_ref()
            .unwrap()
            .memory
            .as_ref()
            .unwrap()
            .resident
            .unwrap()
            > 100_000
    );
}

fn long_freeze() {
    let ended = play("long_freeze");
    assert!(ended.status.success(), "{}", ended.stderr);
    let report = ended.report();
    one_stall(&report);
    let end = report.stall_end.as_ref().unwrap();
    assert_eq!(end.how, StallOutcome::Recovered);
    // To within one period of the truth; a loaded machine may stretch the freeze itself.
    assert!(
        (Duration::from_millis(950)..Duration::from_millis(2_100)).contains(&end.duration),
        "{:?}",
        end.duration
    );
    let stack = stack(&report, 0);
    assert!(calls(&stack, &["busy", "outer"]), "{stack:#?}");
    let busy = stack
        .iter()
        .find(|(function, ..)| function.ends_with("busy"))
        .unwrap();
    let text = include_str!("main.rs")
        .lines()
        .nth(busy.2 as usize - 1)
        .unwrap();
    assert_eq!(busy.1, "main.rs");
    assert!(
        text.contains("spin()") || text.contains("Instant::now()"),
        "line {}: {text}",
        busy.2
    );
}

fn short_freezes() {
    let ended = play("short_freezes");
    assert!(ended.status.success(), "{}", ended.stderr);
    one_stall(&ended.report());
}

fn idle() {
    let ended = play("idle");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.readings().is_empty());
}

fn live() {
    let ended = play("live");
    assert!(ended.status.success(), "{}", ended.stderr);
    let report = ended.report();
    let event = report.event.as_ref().unwrap();
    assert_eq!(
        (event.kind, event.reason.as_deref()),
        (EventKind::Live, Some("support button"))
    );
    let first = stack(&report, 0);
    assert!(
        first
            .iter()
            .any(|(function, ..)| function.ends_with("records")),
        "{first:#?}"
    );
    let workers: Vec<usize> = (0..report.threads.len())
        .filter(|&index| report.threads[index].name.as_deref() == Some("a-worker"))
        .collect();
    assert_eq!(workers.len(), 2, "{:#?}", report.threads);
    for index in workers {
        let stack = stack(&report, index);
        assert!(
            stack
                .iter()
                .any(|(function, ..)| function.ends_with("worker")),
            "{stack:#?}"
        );
    }
}

fn killed() {
    let folder = Folder::new("killed");
    let mut child = command("killed", &folder.0).spawn().unwrap();
    let partial = || {
        let files = std::fs::read_dir(&folder.0).unwrap();
        files
            .filter_map(|file| Some(file.ok()?.path()))
            .any(|path| path.to_string_lossy().contains("-stall-"))
    };
    child::deadline::until(&mut child, "report of its stall", partial);
    std::thread::sleep(Duration::from_millis(100));
    assert!(
        store::reports(&folder.0).unwrap().is_empty(),
        "its writer is alive and has it locked"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let found = store::reports(&folder.0).unwrap();
    assert_eq!(found.len(), 1);
    let reading = found[0].read().unwrap();
    assert!(reading.damage.is_empty(), "{:?}", reading.damage);
    one_stall(&reading.report);
    assert_eq!(
        reading.report.stall_end, None,
        "it was the last thing that the app did"
    );
    assert_eq!(reading.report.end.unwrap().closed_by, "next_launch");
}

fn dropped() {
    let ended = play("dropped");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(
        ended.report().stall_end.unwrap().how,
        StallOutcome::Uninstalled
    );
}

fn one_monitor() {
    let ended = play("one_monitor");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(
        ended.report().event.unwrap().reason.as_deref(),
        Some("again")
    );
}

fn bad_folder() {
    let folder = Folder::new("bad");
    let file = folder.0.join("file");
    std::fs::write(&file, b"").unwrap();
    let link = folder.0.join("link");
    std::os::unix::fs::symlink("nothing", &link).unwrap();
    for path in [&file, &link] {
        let builder = Monitor::builder("a", "1").directory(path);
        let error = builder.install().unwrap_err().to_string();
        let named = error.contains(path.to_str().unwrap());
        assert!(named && error.contains("Not a directory"), "{error}");
    }
    for builder in [
        Monitor::builder("a", "1"),
        Monitor::builder("a", "1").directory(""),
    ] {
        let error = builder.install().unwrap_err();
        assert!(matches!(error, InstallError::NoDirectory));
    }
    assert!(
        play("bad_folder").status.success(),
        "neither leaves anything installed"
    );
}

fn limits() {
    let ended = play("limits");
    assert!(ended.status.success(), "{}", ended.stderr);
}

fn blocked_signal() {
    let ended = play("blocked_signal");
    ended.succeeded();
    let report = ended.report();
    let own = |thread: &&wedjat::report::Thread| {
        let name = thread.name.as_deref();
        name.is_some_and(|name| name.starts_with("wedjat"))
    };
    let mut own = report.threads.iter().filter(own).peekable();
    assert!(own.peek().is_some() && own.all(|thread| !thread.frames.is_empty()));
}

fn loaded_later() {
    let ended = play("loaded_later");
    assert!(ended.status.success(), "{}", ended.stderr);
}

fn library_closed() {
    let ended = play("library_closed");
    assert!(ended.status.success(), "{}", ended.stderr);
}

#[cfg(target_os = "linux")]
fn mapped_once() {
    let ended = play("mapped_once");
    assert!(ended.status.success(), "{}", ended.stderr);
}

/// The files of which the first byte is mapped, one for each such mapping, in order: programs that look at this process
/// take the lowest one for the image.
#[cfg(target_os = "linux")]
fn beginnings() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let begins = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(2);
        let offset = words.next()?;
        let path = words.nth(2).filter(|path| path.starts_with('/'))?;
        (u64::from_str_radix(offset, 16) == Ok(0)).then(|| path.to_owned())
    };
    let mut files: Vec<String> = maps.lines().filter_map(begins).collect();
    files.sort();
    files
}

fn slow_hook() {
    let ended = play("slow_hook");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(ended.report().event.unwrap().kind, EventKind::Panic);
}

fn no_memory() {
    let ended = play("no_memory");
    ended.succeeded();
}
