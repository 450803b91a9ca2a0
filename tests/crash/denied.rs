//! Processes that may not do what they could at install: open a file, write in the folder, read memory or
//! send a signal in the usual way, keep their descriptors.

use std::io::Seek;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

use wedjat::report::{EventKind, Report};
use wedjat::{Crash, Monitor, Stall, Threads, store};

use crate::child::{Ended, Folder, calls, command, deadline, play, stack};
use crate::disk::limit;
use crate::{Tests, Way, asleep, install, outer, seccomp, tests};

pub fn trials() -> Tests {
    let mut all = tests(&[
        ("a_user_who_may_not_write_there_is_reported", other_user),
        ("a_report_that_could_not_be_named_is_named_later", unnamed),
        ("no_empty_file_stays_however_an_app_ends", no_empty_file),
        (
            "a_record_serves_again_after_a_fault_that_is_dealt_with",
            again,
        ),
        (
            "a_child_that_crashes_at_once_leaves_its_parents_files",
            both_crash,
        ),
        (
            "files_of_an_app_that_has_closed_ours_are_left_alone",
            all_closed,
        ),
        (
            "files_of_an_app_that_has_closed_ours_stay_open_when_the_monitor_is_dropped",
            closed_then_dropped,
        ),
    ]);
    for (name, role) in [
        ("where_no_descriptor_may_be_had", "denied-descriptors"),
        ("where_no_file_may_be_opened", "denied-open"),
        ("where_memory_may_not_be_read_by_call", "denied-memory"),
        ("where_no_signal_with_a_value_may_be_sent", "denied-signal"),
        ("where_all_of_that_is_denied", "denied-all"),
        ("by_what_dockers_profile_leaves", "profile-docker"),
        ("by_what_flatpaks_profile_leaves", "profile-flatpak"),
        ("by_what_snaps_profile_leaves", "profile-snap"),
    ] {
        let name = format!("a_crash_is_reported_{name}");
        all.push((name, Box::new(move || denied(role))));
    }
    all
}

/// Bytes of a launch's record.
const RECORD: u64 = 320;
/// Calls that open files.
pub const OPEN: [i64; 4] = [libc::SYS_openat, libc::SYS_openat2, OLD_OPEN, OLD_CREATE];
#[cfg(target_arch = "x86_64")]
const OLD_OPEN: i64 = libc::SYS_open;
#[cfg(target_arch = "x86_64")]
const OLD_CREATE: i64 = libc::SYS_creat;
#[cfg(not(target_arch = "x86_64"))]
const OLD_OPEN: i64 = libc::SYS_openat;
#[cfg(not(target_arch = "x86_64"))]
const OLD_CREATE: i64 = libc::SYS_openat;
/// Calls that read another process' memory, or one's own.
const MEMORY: [i64; 3] = [
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
];
/// Calls that send a signal with a value.
const SIGNAL: [i64; 2] = [libc::SYS_rt_tgsigqueueinfo, libc::SYS_rt_sigqueueinfo];
const RENAME: [i64; 3] = [libc::SYS_renameat, libc::SYS_renameat2, OLD_RENAME];
#[cfg(target_arch = "x86_64")]
const OLD_RENAME: i64 = libc::SYS_rename;
#[cfg(not(target_arch = "x86_64"))]
const OLD_RENAME: i64 = libc::SYS_renameat;

/// What these deny of the calls that a recorder might make. Docker: `profiles/seccomp/default.json` of moby,
/// for kernels before 4.8 (later ones allow the first three); Flatpak: `common/flatpak-run.c`; snap:
/// `interfaces/seccomp/template.go` of snapd.
fn profile(whose: &str) -> &'static [i64] {
    const DOCKER: [i64; 5] = [
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_ptrace,
        libc::SYS_perf_event_open,
        libc::SYS_kcmp,
    ];
    const FLATPAK: [i64; 3] = [
        libc::SYS_ptrace,
        libc::SYS_perf_event_open,
        libc::SYS_personality,
    ];
    const SNAP: [i64; 8] = [
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_ptrace,
        libc::SYS_perf_event_open,
        libc::SYS_kcmp,
        libc::SYS_openat2,
        libc::SYS_faccessat2,
        libc::SYS_epoll_pwait2,
    ];
    match whose {
        "docker" => &DOCKER,
        "flatpak" => &FLATPAK,
        _ => &SNAP,
    }
}

fn deny_all(denied: &[&[i64]]) {
    seccomp::deny(&denied.concat(), seccomp::ALL_THREADS);
}

/// Whether files can be opened now.
fn may_open() -> bool {
    std::fs::File::open("/proc/self/stat").is_ok()
}

/// Crashes, while another thread waits.
fn crash() -> ! {
    let ready = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| asleep(&ready));
        ready.wait();
        outer(Way::Null);
    });
    unreachable!("it has crashed")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn endings(folder: &Path) -> Vec<String> {
    let ending = |path: PathBuf| {
        path.extension()
            .map(|ending| ending.to_str().unwrap().into())
    };
    let mut endings: Vec<String> = files(folder).into_iter().filter_map(ending).collect();
    endings.sort();
    endings
}

pub fn role(role: &str, folder: &Path) -> bool {
    let words: Vec<&str> = role.split('-').collect();
    match words[..] {
        ["denied", what] => {
            let monitor = install(folder);
            let ready = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| asleep(&ready));
                ready.wait();
                match what {
                    "descriptors" => limit(libc::RLIMIT_NOFILE, 0),
                    "open" => deny_all(&[&OPEN]),
                    "memory" => deny_all(&[&MEMORY]),
                    "signal" => deny_all(&[&SIGNAL]),
                    _ => deny_all(&[&OPEN, &MEMORY, &SIGNAL, &RENAME]),
                }
                assert_eq!(may_open(), ["memory", "signal"].contains(&what));
                // Each other thread, the recorder's own too, gets a signal for its stack.
                let stacks = monitor.stacks(Threads::All).unwrap();
                let mut others = stacks.split("\n\n").skip(1);
                assert!(
                    others.clone().count() == 2 && others.all(|stack| stack.lines().count() > 5),
                    "{stacks}"
                );
                outer(Way::Null);
            });
        }
        ["profile", whose] => {
            // From the start, as it is in there.
            deny_all(&[profile(whose)]);
            let _monitor = install(folder);
            crash();
        }
        ["other_user"] => {
            let _monitor = install(folder);
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::Permissions::from_mode(0o500);
            std::fs::set_permissions(folder, mode).unwrap();
            // SAFETY: gives up root's rights, if there are any; for all threads.
            unsafe { libc::setuid(65534) };
            let denied = std::fs::write(folder.join("mine"), "").unwrap_err();
            assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
            crash();
        }
        ["unnamed"] => {
            let _monitor = install(folder);
            deny_all(&[&OPEN, &RENAME]);
            crash();
        }
        ["waits"] => {
            let _monitor = install(folder);
            std::fs::write(folder.join("ready"), "").unwrap();
            std::thread::sleep(deadline::PATIENCE);
        }
        ["installs"] => drop(install(folder)),
        ["exits"] => {
            let _monitor = install(folder);
            std::process::exit(0);
        }
        ["exits_beside_a_drop"] => {
            let monitor = install(folder);
            std::thread::spawn(|| drop(monitor));
            std::process::exit(0);
        }
        ["again", renames] => {
            extern "C" fn deals_with_it(_: i32) {}
            // SAFETY: the handler does nothing.
            unsafe { libc::signal(libc::SIGTRAP, deals_with_it as *const () as usize) };
            let _monitor = install(folder);
            let before = files(folder);
            let denied: &[&[i64]] = match renames {
                "renamed" => &[&OPEN],
                _ => &[&OPEN, &RENAME],
            };
            // `read_dir` opens files.
            let listed = std::fs::read_dir(folder).unwrap();
            deny_all(denied);
            // SAFETY: its handler is the one above.
            unsafe { libc::raise(libc::SIGTRAP) };
            // The report is taken back two seconds later, as the process lives on.
            std::thread::sleep(std::time::Duration::from_secs(4));
            let mut now: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
            now.sort();
            assert_eq!(now, before);
            for record in now.iter().filter(|path| path.extension().is_some()) {
                assert_eq!(std::fs::metadata(record).unwrap().len(), RECORD);
            }
            crash();
        }
        ["both_crash"] => {
            let _monitor = install(folder);
            limit(libc::RLIMIT_NOFILE, 0);
            let start = std::time::Instant::now() + std::time::Duration::from_millis(50);
            // SAFETY: both only wait for a moment, and crash.
            let child = unsafe { libc::fork() };
            while std::time::Instant::now() < start {}
            if child == 0 {
                outer(Way::Unmapped);
            }
            crash();
        }
        ["lives_on"] => {
            let _monitor = install(folder);
            // SAFETY: the child waits for a while, and leaves; who reads what it says does not wait for it.
            unsafe {
                if libc::fork() == 0 {
                    for fd in 0..3 {
                        libc::close(fd);
                    }
                    libc::sleep(30);
                    libc::_exit(0);
                }
            }
            crash();
        }
        ["all_closed"] => {
            let _monitor = install(folder);
            let theirs = close_all(folder);
            assert_eq!(theirs[0].as_raw_fd(), 3);
            // A child of `fork` gives up what is its parent's.
            // SAFETY: the child looks at its descriptors, and leaves.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    let open = |file: &std::fs::File| {
                        let fd = libc::dup(file.as_raw_fd());
                        fd >= 0
                            && std::fs::File::from_raw_fd(fd)
                                .metadata()
                                .is_ok_and(|its| its.len() == 300)
                    };
                    libc::_exit(if theirs.iter().all(open) { 0 } else { 1 });
                }
                let mut status = 1;
                libc::waitpid(child, &mut status, 0);
                assert_eq!(status, 0);
            }
            crash();
        }
        ["closed_then_dropped"] => {
            let monitor = Monitor::builder("crash test", "1.0")
                .directory(folder)
                .stall(Stall::default())
                .crash(Crash::default())
                .install()
                .unwrap();
            let heartbeat = monitor.heartbeat();
            heartbeat.turn(|| {});
            let theirs = close_all(folder);
            // The watchdog reads the thread's counters meanwhile.
            heartbeat.turn(|| std::thread::sleep(std::time::Duration::from_millis(400)));
            drop(monitor);
            for (number, mut file) in theirs.iter().enumerate() {
                let path = folder.join("theirs").join(number.to_string());
                let expected = identity(&std::fs::File::open(path).unwrap());
                assert_eq!(identity(file), expected, "file {number}");
                assert_eq!(file.stream_position().unwrap(), 0, "file {number}");
            }
        }
        _ => return false,
    }
    true
}

/// Does what a program does that becomes a daemon, and opens files of its own.
fn close_all(folder: &Path) -> Vec<std::fs::File> {
    let place = folder.join("theirs");
    std::fs::create_dir(&place).unwrap();
    // A thread that has a file open for a moment would close one of those that take its number.
    while awake() > 1 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // SAFETY: nothing here uses those descriptors again.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    let mut open = std::fs::File::options();
    open.read(true).write(true);
    let theirs = (0..60).map(|number| {
        let path = place.join(number.to_string());
        std::fs::write(&path, vec![7; 300]).unwrap();
        open.open(path).unwrap()
    });
    theirs.collect()
}

/// The number of threads that are not asleep.
fn awake() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")));
    stats
        .filter(|stat| !stat.as_ref().unwrap().contains(") S "))
        .count()
}

/// Device and inode.
fn identity(file: &std::fs::File) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let facts = file.metadata().expect("it is open");
    (facts.dev(), facts.ino())
}

/// One whole report of this very crash.
fn is_whole(report: &Report) {
    assert!(shows_the_sleeper(report), "{:#?}", report.threads);
    is_of_crash(report);
}

fn shows_the_sleeper(report: &Report) -> bool {
    (1..report.threads.len()).any(|thread| {
        let mut calls = stack(report, thread).into_iter();
        calls.any(|(function, ..)| function.ends_with("asleep"))
    })
}

fn is_of_crash(report: &Report) {
    assert_eq!(report.event.as_ref().unwrap().kind, EventKind::Crash);
    let crashed = &report.threads[0];
    assert!(crashed.crashed && crashed.name.is_some());
    let stack = stack(report, 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    assert!(report.vitals.as_ref().unwrap().memory.is_some());
    assert!(report.vitals.as_ref().unwrap().uptime.is_some());
    assert_eq!(report.capture.as_ref().unwrap().cut, None);
    // The helper is there too.
    assert!(report.threads.len() >= 3, "{:#?}", report.threads);
}

fn dies(role: &str) -> Ended {
    let ended = play(role);
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    ended
}

fn denied(role: &str) {
    is_whole(&dies(role).report());
}

fn other_user() {
    let ended = dies("other_user");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&ended.folder.0, mode).unwrap();
    is_whole(&ended.report());
}

fn unnamed() {
    let ended = dies("unnamed");
    // It stands behind the record.
    let record = || {
        assert_eq!(endings(&ended.folder.0)[0], "launch");
        let found = files(&ended.folder.0).into_iter();
        let mut records = found.filter(|path| path.extension().is_some_and(|it| it == "launch"));
        std::fs::metadata(records.next().unwrap()).unwrap().len()
    };
    assert_eq!(endings(&ended.folder.0), ["launch"]);
    assert!(record() > RECORD);
    assert_eq!(store::launches(&ended.folder.0).unwrap().len(), 1);
    is_whole(&ended.report());
    assert_eq!(endings(&ended.folder.0), ["launch", "wedjat"]);
    assert_eq!(record(), RECORD);
}

fn no_empty_file() {
    let folder = Folder::new("no_empty_file");
    let mut child = command("waits", &folder.0).spawn().unwrap();
    let ready = folder.0.join("ready");
    deadline::until(&mut child, "it is installed", || ready.exists());
    // Not for who reads the folder, while the process lives and behind that.
    assert!(store::reports(&folder.0).unwrap().is_empty());
    assert_eq!(endings(&folder.0), ["launch"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(store::reports(&folder.0).unwrap().is_empty());
    std::fs::remove_file(&ready).unwrap();
    let sizes = |folder: &Path| -> Vec<u64> {
        let sizes = files(folder).into_iter().map(std::fs::metadata);
        sizes.map(|data| data.unwrap().len()).collect()
    };
    assert!(!sizes(&folder.0).contains(&0), "{:?}", files(&folder.0));
    for role in ["installs", "exits", "exits_beside_a_drop"] {
        for _ in 0..30 {
            let ended = deadline::status(&mut command(role, &folder.0));
            assert!(ended.success(), "{role}: {ended:?}");
        }
        // The record of the last launch.
        assert_eq!(endings(&folder.0), ["launch"], "{role}");
        assert!(!sizes(&folder.0).contains(&0), "{role}");
    }
}

fn again() {
    for role in ["again-renamed", "again-unnamed"] {
        let report = dies(role).report();
        is_whole(&report);
        assert_eq!(report.event.unwrap().signal.unwrap().name, "SIGSEGV");
    }
}

fn both_crash() {
    let mut unanswered = 0;
    for _ in 0..5 {
        let ended = dies("both_crash");
        // The child closes what it says before it closes its parent's file.
        let end = std::time::Instant::now() + deadline::PATIENCE;
        let is_held = |file| std::fs::File::open(file).unwrap().try_lock().is_err();
        while files(&ended.folder.0).into_iter().any(is_held) {
            assert!(std::time::Instant::now() < end, "something holds a file");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let report = ended.report();
        is_of_crash(&report);
        unanswered += u32::from(!shows_the_sleeper(&report));
        assert_eq!(report.event.unwrap().signal.unwrap().address, Some(0x10));
    }
    // With both at work, a busy machine may have no CPU for the sleeper.
    assert!(unanswered <= 1, "{unanswered}");
    // A child that lives on does not hold the file.
    let ended = dies("lives_on");
    is_whole(&ended.report());
    assert_eq!(endings(&ended.folder.0), ["launch", "wedjat"]);
    for file in files(&ended.folder.0) {
        let file = std::fs::File::open(file).unwrap();
        file.try_lock().expect("nothing holds it");
    }
}

fn all_closed() {
    let ended = dies("all_closed");
    let launches = store::launches(&ended.folder.0).unwrap();
    assert!(
        launches
            .iter()
            .all(|launch| launch.how == store::HowEnded::Crash)
            && launches.len() == 1,
        "{launches:?}"
    );
    for file in files(&ended.folder.0.join("theirs")) {
        assert_eq!(std::fs::read(file).unwrap(), vec![7; 300]);
    }
    is_whole(&ended.report());
}

fn closed_then_dropped() {
    let ended = play("closed_then_dropped");
    ended.succeeded();
    for file in files(&ended.folder.0.join("theirs")) {
        assert_eq!(std::fs::read(file).unwrap(), vec![7; 300]);
    }
}
