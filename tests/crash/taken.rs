//! Files that are cut, replaced or removed while the app runs, and disks that take no more: the app
//! lives on, and its crash is reported.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wedjat::load::{CpuLoad, MemoryLoad, SlowFrames};
use wedjat::report::{EventKind, Reading, WalkEnd};
use wedjat::store::HowEnded;
use wedjat::{Crash, Monitor, Stall, Threads, store};

use crate::child::deadline::status;
use crate::child::{Ended, Folder, command, functions, in_order, no_shared_file, play, play_with};
use crate::disk::{may_mount, own_mounts};
use crate::{Tests, Way, library, outer, tests};

pub fn trials() -> Tests {
    let mut all = tests(&[
        (
            "nothing_that_a_file_can_take_away_is_written_to",
            no_shared_files,
        ),
        (
            "an_app_whose_record_is_cut_says_how_it_ended",
            cut_and_killed,
        ),
        ("a_library_whose_file_is_cut_ends_no_capture", library_cut),
        (
            "a_launch_that_goes_on_after_a_fault_has_not_crashed",
            goes_on,
        ),
    ]);
    for how in [
        "cut",
        "replaced",
        "removed",
        "folder_moved",
        "folder_removed",
    ] {
        let name = format!("an_app_whose_files_are_{how}_runs_on_and_is_reported");
        all.push((name, Box::new(move || taken(how))));
    }
    for disk in DISKS {
        let test = Box::new(move || full(disk.kind));
        all.push((disk.name.to_owned(), test));
    }
    all
}

/// A disk of its own, and the programs that it takes to make one.
struct Disk {
    name: &'static str,
    kind: &'static str,
    needs: &'static [&'static str],
}

const DISKS: [Disk; 4] = [
    Disk {
        name: "a_full_tmpfs_ends_no_app",
        kind: "tmpfs",
        needs: &["mount"],
    },
    Disk {
        name: "a_full_ext4_ends_no_app",
        kind: "ext4",
        needs: &["mount", "mkfs.ext4"],
    },
    Disk {
        name: "a_full_btrfs_ends_no_app",
        kind: "btrfs",
        needs: &["mount", "mkfs.btrfs"],
    },
    Disk {
        name: "a_quota_of_btrfs_ends_no_app",
        kind: "quota",
        needs: &["mount", "mkfs.btrfs", "btrfs"],
    },
];

/// Why this test cannot run here, where it needs a disk that cannot be made.
pub fn lacks(test: &str) -> Option<String> {
    let disk = DISKS.iter().find(|disk| disk.name == test)?;
    let has = |program: &str| {
        let places = ["/sbin", "/usr/sbin", "/bin", "/usr/bin"];
        places
            .iter()
            .any(|place| Path::new(place).join(program).exists())
    };
    // Where tools are required, it runs and fails.
    let required = std::env::var_os("WEDJAT_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    let missing = disk.needs.iter().find(|program| !has(program));
    if let Some(missing) = missing.filter(|_| !required) {
        return Some(format!("there is no {missing}"));
    }
    // SAFETY: reads only.
    let root = unsafe { libc::geteuid() } == 0;
    let loops = disk.kind == "tmpfs" || Path::new("/dev/loop-control").exists();
    match (root, loops) {
        (false, _) => Some("only root may mount a disk".into()),
        (_, false) => Some("there are no loop devices".into()),
        _ if !may_mount() => Some("this process may have no mounts of its own".into()),
        _ => None,
    }
}

/// With every trigger on.
fn install_all(folder: &Path) -> Monitor {
    Monitor::builder("taken", "1.0")
        .directory(folder)
        .crash(Crash::default().near_memory(true))
        .stall(Stall::default())
        .cpu(CpuLoad::default())
        .memory(MemoryLoad::default())
        .slow_frames(SlowFrames::default())
        .resolve_names(true)
        .all_images(true)
        .on_report(|_| ())
        .install()
        .unwrap()
}

/// Works for so long, goes into the background and comes back.
fn work(monitor: &Monitor, long: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < long {
        let heart = monitor.heartbeat();
        heart.turn(|| std::thread::sleep(Duration::from_millis(5)));
        monitor.set_foreground(begin.elapsed().as_millis() % 20 < 10);
        monitor.frame();
    }
}

/// On a busy machine the app is slow, or stalls, before it crashes: such reports are true, too.
fn is_of_crash(reading: &Reading) -> bool {
    let event = reading.report.event.as_ref();
    event.is_some_and(|event| event.kind == EventKind::Crash)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Whether there are reports between the cut and the crash: from the first one on, it is known.
static POLLS: AtomicBool = AtomicBool::new(false);
static MONITOR: std::sync::OnceLock<Monitor> = std::sync::OnceLock::new();

/// Called by a library whose file it cuts: what is mapped from it is not there any more.
extern "C" fn cuts_its_caller() {
    let monitor = MONITOR.get().unwrap();
    let deep = |text: String| text.lines().count() > 5;
    let whole = monitor.stacks(Threads::Current).unwrap();
    assert!(whole.contains("libcalls.so") && deep(whole));
    let library = monitor.directory().join("libcalls.so");
    let file = std::fs::File::options().write(true).open(library).unwrap();
    file.set_len(0).unwrap();
    if !POLLS.load(Ordering::Relaxed) {
        outer(Way::Null);
    }
    monitor.stacks(Threads::All).unwrap();
    monitor.record("a look").unwrap();
    let heart = monitor.heartbeat();
    heart.turn(|| std::thread::sleep(Duration::from_millis(400)));
    monitor.record("another look").unwrap();
    assert!(monitor.stats().stalls > 0);
    outer(Way::Null);
}

/// The record of the launch is brought up to date every 2 s.
const LONG: Duration = Duration::from_millis(2500);

pub fn role(role: &str, folder: &Path) -> bool {
    let words: Vec<&str> = role.split('-').collect();
    match words[..] {
        ["all_triggers"] => {
            let monitor = install_all(folder);
            monitor.watch_by_ping(|beat| beat()).unwrap();
            no_shared_file();
            monitor
                .heartbeat()
                .turn(|| std::thread::sleep(Duration::from_millis(400)));
            monitor.record("a look").unwrap();
            monitor.stacks(Threads::All).unwrap();
            work(&monitor, Duration::from_millis(300));
            no_shared_file();
            assert!(monitor.stats().stalls > 0);
        }
        ["taken", how] => {
            let monitor = install_all(folder);
            work(&monitor, Duration::from_millis(100));
            let kept = folder.with_extension("moved");
            for file in files(folder) {
                match how {
                    "cut" => std::fs::File::options()
                        .write(true)
                        .open(file)
                        .unwrap()
                        .set_len(0)
                        .unwrap(),
                    "replaced" => {
                        let fresh = folder.join("fresh");
                        std::fs::write(&fresh, "theirs").unwrap();
                        std::fs::rename(&fresh, &file).unwrap();
                    }
                    "removed" => std::fs::remove_file(file).unwrap(),
                    _ => {}
                }
            }
            match how {
                "folder_moved" => {
                    std::fs::rename(folder, &kept).unwrap();
                    std::fs::create_dir(folder).unwrap();
                }
                "folder_removed" => {
                    std::fs::remove_dir_all(folder).unwrap();
                    std::fs::create_dir(folder).unwrap();
                }
                _ => {}
            }
            work(&monitor, LONG);
            outer(Way::Null);
        }
        ["library_cut", looks] => {
            POLLS.store(looks == "looks", Ordering::Relaxed);
            let monitor = install_all(folder);
            monitor.heartbeat().turn(|| ());
            MONITOR.set(monitor).unwrap();
            let path =
                std::ffi::CString::new(folder.join("libcalls.so").to_str().unwrap()).unwrap();
            // SAFETY: the library has one function, of this type.
            unsafe {
                let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
                assert!(!library.is_null());
                let calls = libc::dlsym(library, c"calls".as_ptr());
                let calls: extern "C" fn(extern "C" fn()) = std::mem::transmute(calls);
                calls(cuts_its_caller);
            }
        }
        ["cut_and_killed"] => {
            let monitor = install_all(folder);
            for file in files(folder) {
                std::fs::write(file, "").unwrap();
            }
            work(&monitor, LONG);
            monitor.set_foreground(false);
            std::thread::sleep(Duration::from_millis(200));
            // SAFETY: ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        ["goes_on"] => {
            extern "C" fn deals_with_it(_: i32) {}
            // SAFETY: the handler does nothing, and the process ends by the last call.
            unsafe {
                libc::signal(libc::SIGTRAP, deals_with_it as *const () as usize);
                let _monitor = install_all(folder);
                libc::raise(libc::SIGTRAP);
                crate::undecided::is_taken_back(folder);
                libc::kill(libc::getpid(), libc::SIGKILL);
            }
        }
        ["full", kind] => {
            let disk = folder.join("disk");
            std::fs::create_dir(&disk).unwrap();
            mount(kind, &disk, &folder.join("image"));
            let place = match kind {
                "quota" => disk.join("part"),
                _ => disk.clone(),
            };
            let ended = status(&mut command("fills", &place));
            // Of its own fault, and of no SIGBUS.
            assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{ended:?}");
            let found = store::reports(&place).unwrap();
            if kind == "quota" && found.is_empty() {
                // It frees nothing before the next commit of the file system: the reserve is no help.
                return true;
            }
            let readings = found.iter().map(|report| report.read().unwrap());
            let crashes: Vec<Reading> = readings.filter(is_of_crash).collect();
            assert_eq!(crashes.len(), 1, "{:?}", files(&place));
            let reading = &crashes[0];
            assert!(reading.damage.is_empty(), "{:?}", reading.damage);
            assert!(reading.report.threads[0].crashed);
        }
        ["fills"] => {
            let monitor = install_all(folder);
            work(&monitor, Duration::from_millis(100));
            fill(&folder.join("everything"));
            work(&monitor, 2 * LONG);
            outer(Way::Null);
        }
        _ => return false,
    }
    true
}

/// Fills the disk to its last byte, and has all of it written.
fn fill(path: &Path) {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    for (round, size) in [1 << 20, 4096, 512, 1].into_iter().enumerate() {
        let path = path.with_extension(round.to_string());
        let Ok(mut file) = std::fs::File::create(path) else {
            return;
        };
        let bytes = vec![1; size];
        while file.write_all(&bytes).is_ok() {}
        // SAFETY: an open descriptor.
        unsafe { libc::syncfs(file.as_raw_fd()) };
    }
}

/// Mounts a disk of 128 MiB (tmpfs: 2 MiB) in a view of its own of the files.
fn mount(kind: &str, at: &Path, image: &Path) {
    assert!(own_mounts(), "{}", std::io::Error::last_os_error());
    let run = |program: &str, args: &[&str]| {
        let done = Command::new(program).args(args).output().unwrap();
        let printed = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{program} {args:?}: {printed}");
    };
    run("mount", &["--make-rprivate", "/"]);
    let (at, path) = (at.to_str().unwrap(), image.to_str().unwrap());
    if kind == "tmpfs" {
        return run(
            "mount",
            &["-t", "tmpfs", "-o", "size=2m,mode=700", "none", at],
        );
    }
    let file = std::fs::File::create(image).unwrap();
    file.set_len(128 << 20).unwrap();
    match kind {
        "ext4" => run("mkfs.ext4", &["-q", "-m", "0", path]),
        _ => run("mkfs.btrfs", &["-q", path]),
    }
    run("mount", &["-o", "loop", path, at]);
    if kind == "quota" {
        let part = format!("{at}/part");
        run("btrfs", &["subvolume", "create", &part]);
        run("btrfs", &["quota", "enable", at]);
        run("btrfs", &["qgroup", "limit", "8M", &part]);
    }
}

fn no_shared_files() {
    let ended = play("all_triggers");
    assert!(ended.status.success(), "{}", ended.stderr);
}

fn taken(how: &str) {
    let ended = play(&format!("taken-{how}"));
    let moved = ended.folder.0.with_extension("moved");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let folder = match how {
        "folder_moved" => {
            assert!(ended.readings().is_empty());
            Folder(moved)
        }
        _ => Folder(ended.folder.0.clone()),
    };
    let found = Ended { folder, ..ended };
    let mut crashes = found.readings();
    crashes.retain(is_of_crash);
    assert_eq!(crashes.len(), 1, "{}", found.stderr);
    let Reading { report, damage, .. } = crashes.remove(0);
    assert!(damage.is_empty(), "{damage:?}");
    assert!(report.threads[0].crashed && report.threads.len() > 1);
    let cut = report.capture.unwrap().cut;
    assert_eq!(cut, None);
    if ["cut", "folder_moved"].contains(&how) {
        let launches = store::launches(&found.folder.0).unwrap();
        assert_eq!(launches.len(), 1);
        assert_eq!(launches[0].how, HowEnded::Crash);
        assert_eq!(launches[0].app_version, "1.0");
    }
}

fn library_cut() {
    let folder = Folder::new("library_cut");
    // Longer than a page: what is behind the end of the file's last page is a SIGBUS.
    let text = "char much[65536] = {1}; void calls(void (*f)(void)) { char part[99]; \
                part[0] = 1; f(); __asm__ volatile(\"\" :: \"r\"(part)); }";
    let library = library::made(&folder.0, "calls", text, &["-O1"]);
    let kept = std::fs::read(&library).unwrap();
    let ended = status(&mut command("library_cut-crashes", &folder.0));
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{ended:?}");
    let mut found = store::reports(&folder.0).unwrap();
    let report = found.pop().unwrap().read().unwrap().report;
    // The writer has met no fault of its own.
    assert_eq!(report.capture.as_ref().unwrap().cut, None);
    // Of what called it nothing is known any more.
    let thread = &report.threads[0];
    assert_eq!(thread.end, Some(WalkEnd::NoUnwindInfo));
    let functions = functions(&report, 0);
    let wanted = ["culprit", "middle", "outer", "cuts_its_caller"];
    assert!(in_order(&functions, &wanted), "{functions:#?}");

    std::fs::write(&library, kept).unwrap();
    let ended = status(&mut command("library_cut-looks", &folder.0));
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{ended:?}");
    let found = store::reports(&folder.0).unwrap();
    let reports = found.iter().map(|report| report.read().unwrap());
    let kinds: Vec<EventKind> = reports
        .inspect(|reading| assert!(reading.damage.is_empty()))
        .map(|reading| reading.report.event.unwrap().kind)
        .collect();
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| **kind == EventKind::Live)
            .count(),
        2
    );
    let crashes = kinds.iter().filter(|kind| **kind == EventKind::Crash);
    assert!(kinds.contains(&EventKind::Stall) && crashes.count() == 2);
}

fn cut_and_killed() {
    let ended = play("cut_and_killed");
    assert_eq!(ended.signal(), Some(libc::SIGKILL), "{}", ended.stderr);
    let launches = store::launches(&ended.folder.0).unwrap();
    assert_eq!(launches.len(), 1);
    assert_eq!(launches[0].how, HowEnded::Abrupt);
    assert!(!launches[0].foreground);
    assert_eq!(launches[0].app_version, "1.0");
}

fn goes_on() {
    let ended = play("goes_on");
    assert_eq!(ended.signal(), Some(libc::SIGKILL), "{}", ended.stderr);
    assert!(ended.readings().is_empty());
    let launches = store::launches(&ended.folder.0).unwrap();
    assert_eq!(launches[0].how, HowEnded::Abrupt);
}

fn full(kind: &str) {
    let ended = play_with(&format!("full-{kind}"), |command| command);
    assert!(ended.status.success(), "{}", ended.stderr);
}
