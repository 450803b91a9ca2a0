//! What of a launch is a stall: an app that is idle before its first heartbeat never is, whatever it waits
//! in; one that computes, that waits for a disk, or for a lock that another thread holds, is.
//!
//! Each app is a process of its own, and waits on its main thread.
#![cfg(target_os = "linux")]

mod idle;
mod slow_disk;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use support::child::{self, deadline, play, role};
use wedjat::report::{EventKind, Report, StallClass, StallOutcome};
use wedjat::store::{self, HowEnded};
use wedjat::{Monitor, Stall};

const MS: Duration = Duration::from_millis(1);
/// How long an app is idle: six times what is a stall.
const IDLE: Duration = Duration::from_millis(1_500);
/// How long a launch works.
const WORK: Duration = Duration::from_millis(1_000);

fn main() {
    if let Some((role, folder)) = role() {
        return app(&role, &folder);
    }
    let mut args = Arguments::from_args();
    // They wait, nearly all of them.
    args.test_threads = args.test_threads.or(Some(8));
    let mut trials: Vec<Trial> = idle::ALL
        .iter()
        .map(|kind| {
            Trial::test(format!("idle_in_{kind}"), move || {
                is_no_stall(kind);
                Ok(())
            })
        })
        .collect();
    for (name, role, lock) in [
        ("a_launch_that_computes", "computes", false),
        ("a_launch_that_waits_for_a_mutex", "mutex", true),
        (
            "a_launch_that_waits_for_a_std_mutex_if_asked_for",
            "std_mutex_asked_for",
            false,
        ),
        (
            "a_launch_that_computes_after_a_rest",
            "computes_after_a_rest",
            false,
        ),
    ] {
        trials.push(Trial::test(name, move || {
            is_one_stall(role, lock);
            Ok(())
        }));
    }
    // SAFETY: no arguments.
    let root = unsafe { libc::geteuid() } == 0 && Path::new("/dev/fuse").exists();
    for (name, role) in [
        ("a_launch_that_reads_from_a_slow_disk", "disk_cached"),
        ("a_launch_that_reads_past_the_page_cache", "disk_direct"),
    ] {
        let why = if root {
            ""
        } else {
            " (needs root and /dev/fuse)"
        };
        let trial = Trial::test(format!("{name}{why}"), move || {
            is_one_stall(role, false);
            Ok(())
        });
        trials.push(trial.with_ignored_flag(!root));
    }
    trials.push(Trial::test(
        "a_launch_that_computes_and_then_idles_for_ever",
        || {
            let ((reports, ended), _) = played("computes_and_idles");
            assert_eq!(stalls(&reports).len(), 1);
            assert_eq!(ended, [HowEnded::Abrupt]);
            Ok(())
        },
    ));
    libtest_mimic::run(&args, trials).exit();
}

fn burn(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Kills this process after so long, whatever its main thread waits in, and leaves what disturbed that thread, nanoseconds:
/// the time that it had no CPU, and that of a save.
fn killed_after(time: Duration, folder: &Path) {
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        std::thread::sleep(time);
        let delay = deadline::delay(std::process::id() as i32);
        child::leave_disturbed(&folder, delay + idle::slowest_save());
        // SAFETY: no memory is touched.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    });
}

/// The app of this role, on the main thread.
fn app(role: &str, folder: &Path) {
    let stall = Stall::default().launch_waits(role.ends_with("asked_for"));
    let disk = folder.join("disk");
    if role.starts_with("disk") {
        std::fs::create_dir_all(&disk).unwrap();
        slow_disk::mount(&disk, WORK);
    }
    let monitor = Monitor::builder("Launch", "1")
        .directory(folder.join("reports"))
        .stall(stall)
        .install()
        .unwrap();
    let heart = monitor.heartbeat();
    match role {
        "computes" => burn(WORK),
        "computes_after_a_rest" => {
            std::thread::sleep(2 * IDLE);
            burn(WORK);
        }
        "computes_and_idles" => {
            killed_after(WORK + IDLE, folder);
            burn(WORK);
            idle::wait("poll", folder, &monitor);
        }
        "mutex" => mutex(),
        "std_mutex_asked_for" => {
            let mutex = std::sync::Mutex::new(());
            std::thread::scope(|scope| {
                let (held, holds) = std::sync::mpsc::channel();
                let mutex = &mutex;
                scope.spawn(move || {
                    let _held = mutex.lock().unwrap();
                    held.send(()).unwrap();
                    std::thread::sleep(WORK);
                });
                holds.recv().unwrap();
                drop(mutex.lock());
            });
        }
        "disk_cached" | "disk_direct" => {
            let file = match role {
                "disk_cached" => slow_disk::CACHED,
                _ => slow_disk::DIRECT,
            };
            let mut file = std::fs::File::open(disk.join(file)).unwrap();
            let read = std::io::Read::read(&mut file, &mut [0; 64]);
            assert_eq!(read.unwrap(), 64);
        }
        kind => {
            killed_after(IDLE, folder);
            idle::wait(kind, folder, &monitor);
        }
    }
    heart.turn(|| ());
    std::thread::sleep(100 * MS);
    drop(monitor);
}

/// Waits for a mutex of the C library's that another thread holds.
fn mutex() {
    struct Shared(std::cell::UnsafeCell<libc::pthread_mutex_t>);
    // SAFETY: that is what a mutex is for.
    unsafe impl Sync for Shared {}
    static MUTEX: Shared = Shared(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    let (held, holds) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // SAFETY: a static mutex, unlocked by the thread that locked it.
        unsafe {
            libc::pthread_mutex_lock(MUTEX.0.get());
            held.send(()).unwrap();
            std::thread::sleep(WORK);
            libc::pthread_mutex_unlock(MUTEX.0.get());
        }
    });
    holds.recv().unwrap();
    // SAFETY: as above.
    unsafe {
        libc::pthread_mutex_lock(MUTEX.0.get());
        libc::pthread_mutex_unlock(MUTEX.0.get());
    }
}

/// The reports that the app of this role left and how its launches ended; behind them what disturbed it.
fn played(role: &str) -> ((Vec<Report>, Vec<HowEnded>), u64) {
    let played = play(role);
    if role.starts_with("disk") {
        slow_disk::unmount(&played.folder.0.join("disk"));
    }
    let folder = played.folder.0.join("reports");
    let ended = store::launches(&folder).unwrap();
    let ended = ended.iter().map(|launch| launch.how).collect();
    let stored = store::reports(&folder).unwrap();
    let reports = stored.iter().map(|stored| stored.read().unwrap().report);
    let reports = reports.collect();
    ((reports, ended), played.disturbed())
}

fn stalls(reports: &[Report]) -> Vec<&Report> {
    let is_stall = |report: &&Report| report.event.as_ref().unwrap().kind == EventKind::Stall;
    reports.iter().filter(is_stall).collect()
}

fn is_no_stall(kind: &str) {
    let play = || played(kind);
    deadline::undisturbed(deadline::DISTURBED, play, |(reports, ended)| {
        let stalls = stalls(&reports);
        assert_eq!(stalls.len(), 0, "{:#?}", stalls[0].threads[0]);
        assert_eq!(ended, [HowEnded::Abrupt]);
        assert_eq!(!reports.is_empty(), kind == "readme_loop");
    });
}

fn is_one_stall(role: &str, lock: bool) {
    let ((reports, ended), _) = played(role);
    let stalls = stalls(&reports);
    assert_eq!(stalls.len(), 1, "{stalls:#?}");
    let event = stalls[0].event.as_ref().unwrap();
    assert_eq!(event.class, Some(StallClass::Launch));
    let reason = event.reason.as_deref().unwrap();
    let held = reason.starts_with("waits for a lock held by ");
    assert_eq!(
        (held, reason == "no heartbeat ever came"),
        (lock, !lock),
        "{reason}"
    );
    let end = stalls[0].stall_end.as_ref().unwrap();
    assert_eq!(end.how, StallOutcome::Recovered);
    let lasted = end.duration;
    assert!((600 * MS..2_500 * MS).contains(&lasted), "{lasted:?}");
    assert_eq!(ended, [HowEnded::Exit]);
}
