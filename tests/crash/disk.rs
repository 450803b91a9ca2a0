//! Folders and disks that do not take a report as they should.

use std::path::Path;

use wedjat::report::{ClosedBy, EventKind, Report};
use wedjat::{Monitor, store};

use crate::child::deadline::{status, until};
use crate::child::{command, play};
use crate::{Tests, Way, install, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        (FULL, full_disk),
        ("a_file_size_limit_cuts_the_report_and_no_more", size_limit),
        (
            "a_report_without_room_says_so_or_is_not_closed_as_whole",
            little_room,
        ),
        (
            "a_stall_without_room_says_so_or_is_not_closed_as_whole",
            little_room_for_a_stall,
        ),
        (
            "a_report_that_the_folder_does_not_take_is_counted",
            unwritten,
        ),
        ("a_folder_that_was_removed_is_made_again", removed),
        ("without_descriptors_there_is_a_report", no_descriptors),
        (
            "a_folder_that_takes_no_file_is_an_error_at_install",
            refused,
        ),
        ("a_path_that_is_a_file_is_an_error_at_install", no_folder),
        ("the_quota_takes_the_oldest_and_keeps_the_newest", quota),
        (
            "two_processes_in_one_folder_leave_each_others_reports_alone",
            two_processes,
        ),
    ])
}

/// Needs a disk of its own, and so the right to mount one.
pub const FULL: &str = "a_full_disk_takes_the_report_all_the_same";

/// Whether a process may have mounts of its own: not in every container.
pub fn may_mount() -> bool {
    // SAFETY: the child calls only what is safe after `fork`, and ends by `_exit`.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let (none, root) = (std::ptr::null(), c"/".as_ptr());
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let may = own_mounts() && libc::mount(none, root, none, private, none.cast()) == 0;
            libc::_exit(if may { 0 } else { 1 });
        }
        let mut status = -1;
        libc::waitpid(child, &mut status, 0) == child && status == 0
    }
}

pub fn own_mounts() -> bool {
    crate::child::program();
    // SAFETY: the calls change this process' own view of the files.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) == 0
    }
}

pub fn limit(resource: libc::__rlimit_resource_t, to: u64) {
    let limit = libc::rlimit {
        rlim_cur: to,
        rlim_max: to,
    };
    // SAFETY: the structure lives across the call.
    assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
}

/// A file system of 1 MiB at `folder`, for this process and its children alone.
fn small_disk(folder: &Path) {
    let path = std::ffi::CString::new(folder.to_str().unwrap()).unwrap();
    assert!(
        own_mounts(),
        "no mount namespace: {}",
        std::io::Error::last_os_error()
    );
    // SAFETY: C strings; the calls change this process' own view of the files.
    unsafe {
        let (none, root) = (std::ptr::null(), c"/".as_ptr());
        libc::mount(
            none,
            root,
            none,
            libc::MS_REC | libc::MS_PRIVATE,
            none.cast(),
        );
        let tmpfs = c"tmpfs".as_ptr();
        let size = c"size=1m,mode=700".as_ptr().cast();
        let mounted = libc::mount(tmpfs, path.as_ptr(), tmpfs, 0, size);
        assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
    }
}

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "full_disk" => {
            small_disk(folder);
            let status = status(&mut command("fills_the_disk", folder));
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(status.signal(), Some(libc::SIGSEGV), "{status:?}");
            let found = store::reports(folder).unwrap();
            assert_eq!(found.len(), 1);
            let reading = found[0].read().unwrap();
            assert!(reading.damage.is_empty(), "{:?}", reading.damage);
            let report = reading.report;
            assert_eq!(report.end.unwrap().closed_by, "writer");
            assert_eq!(report.event.unwrap().kind, EventKind::Crash);
            assert!(report.threads.len() >= 2 && report.capture.unwrap().cut.is_none());
        }
        "fills_the_disk" => {
            use std::io::Write;
            let _monitor = install(folder);
            let mut file = std::fs::File::create(folder.join("everything")).unwrap();
            while file.write_all(&[1; 512]).is_ok() {}
            outer(Way::Null);
        }
        "size_limit" => {
            let _monitor = install(folder);
            limit(libc::RLIMIT_FSIZE, 4000);
            outer(Way::Null);
        }
        "unwritten" => {
            let monitor = install(folder);
            limit(libc::RLIMIT_FSIZE, 100);
            // SAFETY: no handler.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
            monitor.record("too long").unwrap_err();
            let stats = monitor.stats();
            assert_eq!(stats.losses, [("unwritten", 1)].into(), "{stats:?}");
        }
        role if role.starts_with("room_for_") => {
            let _monitor = install(folder);
            limit(
                libc::RLIMIT_FSIZE,
                role["room_for_".len()..].parse().unwrap(),
            );
            outer(Way::Null);
        }
        role if role.starts_with("stall_in_") => {
            let builder = Monitor::builder("a", "1").directory(folder);
            let monitor = builder.stall(wedjat::Stall::default()).install().unwrap();
            let room = role["stall_in_".len()..].parse().unwrap();
            limit(libc::RLIMIT_FSIZE, room);
            // Two stacks, so two samples, of which the last is larger than what stands behind it.
            monitor.heartbeat().turn(|| {
                std::thread::sleep(std::time::Duration::from_millis(400));
                far_down(60);
            });
        }
        "removed" => {
            let _monitor = Monitor::builder("a", "1")
                .directory(folder.join("some/where"))
                .crash(wedjat::Crash::default())
                .install()
                .unwrap();
            std::fs::remove_dir_all(folder.join("some")).unwrap();
            std::env::set_current_dir("/").unwrap();
            outer(Way::Null);
        }
        "no_descriptors" | "one_descriptor" => {
            let ready = std::sync::Barrier::new(2);
            let _monitor = install(folder);
            limit(libc::RLIMIT_NOFILE, 40);
            std::thread::scope(|scope| {
                std::thread::Builder::new()
                    .name("a-witness".into())
                    .spawn_scoped(scope, || crate::asleep(&ready))
                    .unwrap();
                ready.wait();
                // SAFETY: opens what is never closed.
                while unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY) } >= 0 {}
                if role == "one_descriptor" {
                    // SAFETY: the highest of those opened above.
                    unsafe { libc::close(39) };
                }
                outer(Way::Null);
            });
        }
        "quota_of_reports" | "quota_of_bytes" => {
            let limits = match role {
                "quota_of_reports" => store::Limits::default().reports(3),
                _ => store::Limits::default().bytes(1),
            };
            let monitor = Monitor::builder("quota", "1")
                .directory(folder)
                .limits(limits)
                .install()
                .unwrap();
            // The clock was ahead when it was written, and was set back since.
            let ahead = monitor.record("ahead").unwrap();
            std::fs::rename(
                ahead,
                folder.join("2099-01-01T00-00-00.000Z-live-0a1b2c3d.wedjat"),
            )
            .unwrap();
            for round in 1..=8 {
                monitor.record(&format!("round {round}")).unwrap();
                // A report's age is the time in its name, in milliseconds.
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        "freezes" => {
            let monitor = Monitor::builder("freezes", "1")
                .directory(folder)
                .crash(wedjat::Crash::default())
                .stall(wedjat::Stall::default())
                .install()
                .unwrap();
            monitor.heartbeat().begin();
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        "crashes_beside_it" => {
            let monitor = install(folder);
            monitor.record("beside it").unwrap();
            outer(Way::Null);
        }
        _ => return false,
    }
    true
}

fn no_folder() {
    let folder = crate::child::Folder::new("no_folder");
    let file = folder.0.join("a-file");
    std::fs::write(&file, "kept").unwrap();
    let error = Monitor::builder("a", "1").directory(&file).install();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("a-file"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
}

fn quota() {
    // A process of its own: there is one monitor a process.
    let ended = play("quota_of_reports");
    assert!(ended.status.success(), "{}", ended.stderr);
    let reasons = |readings: Vec<wedjat::report::Reading>| -> Vec<String> {
        let event = |reading: wedjat::report::Reading| reading.report.event.unwrap();
        let reason = |reading| event(reading).reason.unwrap_or_default();
        readings.into_iter().map(reason).collect()
    };
    assert_eq!(reasons(ended.readings()), ["round 6", "round 7", "round 8"]);
    let ended = play("quota_of_bytes");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(reasons(ended.readings()), ["round 8"], "the newest stays");
}

fn two_processes() {
    let folder = crate::child::Folder::new("two_processes");
    let partials = || {
        let files = std::fs::read_dir(&folder.0).unwrap();
        let names = files.map(|file| file.unwrap().file_name());
        let partial = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".partial");
        names.filter(partial).count()
    };
    let mut frozen = command("freezes", &folder.0).spawn().unwrap();
    until(&mut frozen, "report of its stall", || partials() > 0);
    for round in 1..=3 {
        let status = status(&mut command("crashes_beside_it", &folder.0));
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(status.signal(), Some(libc::SIGSEGV));
        // One on demand and one of the crash; the frozen one's is not touched.
        assert_eq!(store::reports(&folder.0).unwrap().len(), 2 * round);
        assert_eq!(partials(), 1);
    }
    frozen.kill().unwrap();
    frozen.wait().unwrap();
    let found = store::reports(&folder.0).unwrap();
    assert_eq!((found.len(), partials()), (7, 0));
    let (mut stalled, mut fatal) = (0, 0);
    for stored in found {
        let reading = stored.read().unwrap();
        assert!(reading.damage.is_empty());
        let report = reading.report;
        let event = report.event.unwrap();
        fatal += usize::from(event.fatal);
        if event.kind == EventKind::Stall && report.stall_end.is_none() {
            stalled += 1;
            let closed_by = report.end.unwrap().closed_by;
            assert!(!event.fatal && closed_by == ClosedBy::NextLaunch.as_str());
        }
        stored.remove().unwrap();
    }
    assert_eq!((stalled, fatal), (1, 3));
}

fn full_disk() {
    let ended = play("full_disk");
    assert!(ended.status.success(), "{}", ended.stderr);
}

fn size_limit() {
    let ended = play("size_limit");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{:?}", ended.status);
    let mut readings = ended.readings();
    assert_eq!(readings.len(), 1);
    let reading = readings.remove(0);
    assert!(reading.damage.is_empty(), "{:?}", reading.damage);
    assert!(reading.report.threads[0].crashed);
    assert_eq!(
        reading.report.event.unwrap().signal.unwrap().name,
        "SIGSEGV"
    );
}

fn little_room() {
    let mut closed = 0;
    // An optimized program's thread is so small that the word alone fits two bytes' worth of rooms.
    for room in (150..600).step_by(25).chain(600..900) {
        let ended = play(&format!("room_for_{room}"));
        assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{:?}", ended.status);
        for reading in ended.readings() {
            let report = reading.report;
            let by_writer = report.end.is_some_and(|end| end.closed_by == "writer");
            let cut = report.capture.and_then(|capture| capture.cut);
            let has_all = report.threads.iter().any(|thread| thread.crashed);
            assert!(!by_writer || has_all || cut.is_some(), "{room} bytes");
            closed += usize::from(by_writer && !has_all);
        }
    }
    assert!(closed > 0, "some had room for the word");
}

#[inline(never)]
fn far_down(calls: u32) {
    match calls {
        0 => std::thread::park_timeout(std::time::Duration::from_millis(300)),
        _ => far_down(calls - 1),
    }
    std::hint::black_box(calls);
}

fn little_room_for_a_stall() {
    let play = |room: u64| {
        let ended = play(&format!("stall_in_{room}"));
        assert!(ended.status.success(), "{}", ended.stderr);
        let mut reports = store::reports(&ended.folder.0).unwrap();
        assert_eq!(reports.len(), 1);
        let stored = reports.remove(0);
        let length = stored.path().metadata().unwrap().len();
        (length, stored.read().unwrap().report)
    };
    let (whole, report) = play(1 << 20);
    // Of another stall the report may be shorter, and have room for all.
    let has_all = |report: &Report| {
        let frames = report.threads.iter().flat_map(|thread| &thread.frames);
        let mut images = frames.chain(report.samples.iter().flat_map(|sample| &sample.frames));
        let are_listed = images.all(|frame| {
            let image = frame.image.map(|image| image as usize);
            image.is_none_or(|image| image < report.images.len())
        });
        let parts = [
            !report.threads.is_empty(),
            !report.samples.is_empty(),
            report.vitals.is_some(),
            report.capture.is_some(),
            report.stall_end.is_some(),
            are_listed,
        ];
        parts.iter().all(|is_there| *is_there)
    };
    assert!(has_all(&report), "{report:#?}");
    assert_eq!(report.end.unwrap().closed_by, "writer");
    for less in [120, 200, 300, 700] {
        let (_, report) = play(whole - less);
        let has_all = has_all(&report);
        let by_writer = report.end.is_some_and(|end| end.closed_by == "writer");
        let is_cut = report.capture.is_some_and(|capture| capture.cut.is_some());
        assert!(!by_writer || is_cut || has_all, "{less} bytes less");
    }
}

fn unwritten() {
    let ended = play("unwritten");
    assert!(ended.status.success(), "{}", ended.stderr);
}

fn removed() {
    let ended = play("removed");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{:?}", ended.status);
    let found = store::reports(ended.folder.0.join("some/where")).unwrap();
    assert_eq!(found.len(), 1);
    let report = found[0].read().unwrap().report;
    assert!(report.event.unwrap().fatal);
    assert_eq!(report.end.unwrap().closed_by, ClosedBy::Writer.as_str());
}

fn no_descriptors() {
    // Or with one, which the report's own file takes.
    for role in ["no_descriptors", "one_descriptor"] {
        let ended = play(role);
        assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{:?}", ended.status);
        let report = ended.report();
        let witness = |thread: &wedjat::report::Thread| thread.name.as_deref() == Some("a-witness");
        assert!(
            report.threads.iter().any(witness),
            "{role}: {:#?}",
            report.threads
        );
    }
}

fn refused() {
    let error = Monitor::builder("a", "1").directory("/proc/1").install();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("/proc/1"), "{error}");
}
