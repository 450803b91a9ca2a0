//! Folders that anybody may have written in: `install` returns in time, touches nothing outside and nothing of
//! another user's, and each whole report is found. `WEDJAT_FOLDERS` sets how many random folders are made (300).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wedjat::report::{self, Report};
use wedjat::store::{self, Answer};
use wedjat::{Crash, InstallError, Monitor};

/// Random numbers: splitmix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Less than `count`.
    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn id(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

/// One monitor a process.
static ONE: Mutex<()> = Mutex::new(());
/// What takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Another user.
const STRANGER: u32 = 65_534;

fn is_root() -> bool {
    // SAFETY: takes nothing, changes nothing.
    unsafe { libc::geteuid() == 0 }
}

fn path_of(path: &Path) -> std::ffi::CString {
    std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn fifo(path: &Path) {
    // SAFETY: a C string.
    assert_eq!(unsafe { libc::mkfifo(path_of(path).as_ptr(), 0o600) }, 0);
}

fn device(path: &Path) {
    // SAFETY: a C string. That of /dev/null.
    unsafe {
        libc::mknod(
            path_of(path).as_ptr(),
            libc::S_IFCHR | 0o600,
            libc::makedev(1, 3),
        )
    };
}

fn sparse(path: &Path) {
    let file = fs::File::create(path).unwrap();
    file.set_len(8 << 30).unwrap();
}

/// A whole report.
fn whole(id: u128) -> Vec<u8> {
    let mut report = Report::default();
    report.head.id = id.to_be_bytes();
    report.head.launch = (id ^ 1).to_be_bytes();
    report::to_bytes(&report)
}

/// A launch's record, behind which a report may stand.
fn record() -> Vec<u8> {
    let mut record = u64::from_be_bytes(*b"wedjatL1").to_ne_bytes().to_vec();
    record.resize(320, 0);
    record
}

/// Ends the test program where what is done takes too long.
fn in_time<T>(what: &str, done: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let begun = Instant::now();
            while !is_done.load(Ordering::Acquire) {
                if begun.elapsed() > PATIENCE {
                    eprintln!("{what}: it hangs");
                    std::process::abort();
                }
                std::thread::park_timeout(Duration::from_millis(200));
            }
        });
        let result = done();
        is_done.store(true, Ordering::Release);
        waits.thread().unpark();
        result
    })
}

fn install(folder: &Path, shared: bool, crash: bool) -> Result<Monitor, InstallError> {
    let mut builder = Monitor::builder("hostile", "1")
        .directory(folder)
        .shared_directory(shared);
    if crash {
        builder = builder.crash(Crash::default());
    }
    in_time("install", || builder.install())
}

/// What is told from other files, with its time of change.
fn facts(path: &Path) -> Option<(u32, u64, i64, i64, u64, Vec<u8>)> {
    let data = fs::symlink_metadata(path).ok()?;
    let bytes = if data.is_file() && data.len() < 1 << 20 {
        fs::read(path).ok()?
    } else {
        Vec::new()
    };
    let time = (data.mtime(), data.mtime_nsec());
    Some((data.mode(), data.ino(), time.0, time.1, data.len(), bytes))
}

const STEMS: [&str; 3] = [
    "2024-02-29T23-59-59.987Z-crash-0a1b2c3d",
    "2024-03-01T00-00-00.000Z-stall-11223344",
    "2024-03-01T00-00-00.001Z-panic-55667788",
];
const ENDINGS: [&str; 6] = ["partial", "spare", "wedjat", "damaged", "refused", "fatal"];

fn any_name(random: &mut Random) -> String {
    match random.below(12) {
        0..=2 => format!(
            "{}-0a1b2c3d.launch",
            1_700_000_000_000_000_000 + random.below(5)
        ),
        3 => format!(".probe-{}", std::process::id()),
        4 => format!(".reserve-{}", std::process::id()),
        _ => {
            let stem = STEMS[random.below(STEMS.len())];
            format!("{stem}.{}", ENDINGS[random.below(ENDINGS.len())])
        }
    }
}

fn any_bytes(random: &mut Random, outside: &Path) -> Vec<u8> {
    let mut bytes = match random.below(7) {
        0 => Vec::new(),
        1 | 2 => whole(random.id()),
        3 => {
            let mut list = b"wedjat: files that were begun here\n".to_vec();
            for _ in 0..random.below(20) {
                let name = any_name(random);
                list.extend(match random.below(3) {
                    0 => format!("{}/{name}\n", outside.display()).into_bytes(),
                    1 => format!("../outside/{name}\n").into_bytes(),
                    _ => format!("{name}\n").into_bytes(),
                });
            }
            return list;
        }
        4 => {
            let mut any = record();
            any[8..].fill_with(|| random.next() as u8);
            any
        }
        _ => (0..random.below(400))
            .map(|_| random.next() as u8)
            .collect(),
    };
    if random.below(3) == 0 {
        bytes.truncate(random.below(bytes.len() + 1));
    }
    bytes
}

#[test]
fn random_folders_are_survived() {
    let _one = ONE.lock().unwrap();
    let count = std::env::var("WEDJAT_FOLDERS").map_or(300, |count| count.parse().unwrap());
    let slowest = AtomicU64::new(0);
    for seed in 0..count {
        random_folder(seed, &slowest);
    }
    println!(
        "{count} folders; the slowest install took {} us",
        slowest.load(Ordering::Relaxed)
    );
}

fn random_folder(seed: u64, slowest: &AtomicU64) {
    let random = &mut Random(seed);
    let temporary = tempfile::tempdir().unwrap();
    let (outside, folder) = (
        temporary.path().join("outside"),
        temporary.path().join("reports"),
    );
    fs::create_dir(&outside).unwrap();
    fs::create_dir(&folder).unwrap();
    let is_shared = random.below(2) == 0;
    let mode = if is_shared { 0o777 } else { 0o700 };
    fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    // Beside the folder, names of ours among them: what may lie there must stay.
    let mut untouched: Vec<PathBuf> = Vec::new();
    for number in 0..6 {
        let path = outside.join(if number < 3 {
            any_name(random)
        } else {
            format!("file-{number}")
        });
        fs::write(&path, any_bytes(random, &outside)).unwrap();
        untouched.push(path);
    }
    let mut expected: Vec<u128> = Vec::new();
    for _ in 0..random.below(24) {
        let path = folder.join(any_name(random));
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        let target = untouched[random.below(6)].clone();
        match random.below(16) {
            0 => fifo(&path),
            1 => drop(std::os::unix::net::UnixListener::bind(&path).unwrap()),
            2 => symlink(&target, &path).unwrap(),
            3 => symlink(&path, &path).unwrap(),
            4 => symlink("none", &path).unwrap(),
            5 if target.exists() => fs::hard_link(&target, &path).unwrap(),
            6 => fs::create_dir(&path).unwrap(),
            7 => sparse(&path),
            8 if is_root() => device(&path),
            9 | 10 if is_root() => {
                fs::write(&path, any_bytes(random, &outside)).unwrap();
                std::os::unix::fs::chown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
            }
            11 | 12 => {
                let id = random.id();
                let ending = path.extension().and_then(|ending| ending.to_str());
                if ending == Some("launch") {
                    fs::write(&path, [record(), whole(id)].concat()).unwrap();
                } else {
                    fs::write(&path, whole(id)).unwrap();
                }
                if ["launch", "wedjat"].contains(&ending.unwrap_or_default()) {
                    expected.push(id);
                }
                continue;
            }
            _ => {
                fs::write(&path, any_bytes(random, &outside)).unwrap();
                continue;
            }
        }
        untouched.push(path);
    }
    if random.below(8) == 0 && is_root() {
        // Old enough that what is empty has no writer.
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(1 << 20);
        for path in fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if path.is_file() {
                let _ = fs::File::open(&path).and_then(|file| file.set_modified(long_ago));
            }
        }
    }
    let before: BTreeMap<_, _> = untouched
        .iter()
        .map(|path| (path.clone(), facts(path)))
        .collect();
    let begun = Instant::now();
    let monitor = install(&folder, is_shared, random.below(10) == 0).unwrap();
    slowest.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    let found = in_time("reports", || {
        store::launches(&folder).unwrap();
        let sent = store::send(&folder, |_| Answer::Later).unwrap();
        assert!(sent.refused.is_empty());
        store::reports(&folder).unwrap()
    });
    let ids: Vec<u128> = found
        .iter()
        .filter_map(|stored| Some(u128::from_be_bytes(stored.read().ok()?.report.head.id)))
        .collect();
    for id in expected {
        assert!(ids.contains(&id), "seed {seed}: {id:032x} is lost");
    }
    in_time("drop", || drop(monitor));
    for (path, before) in before {
        assert!(
            facts(&path) == before,
            "seed {seed}: {} was touched",
            path.display()
        );
    }
}

/// Threads that ask at the same time are each told all.
#[test]
fn each_of_many_threads_finds_what_was_left() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    for round in 0..4 {
        for number in 0..50 {
            let name = format!("2024-02-29T23-59-59.987Z-crash-{round:04x}{number:04x}.partial");
            fs::write(folder.join(name), whole(number)).unwrap();
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| store::reports(folder).unwrap().len()))
                .collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), (round + 1) * 50);
            }
        });
    }
}

/// A child of `fork` has what was open when it began, and with it the lock of a report that was just being sent.
#[test]
fn a_child_that_began_while_a_report_was_sent_does_not_keep_it() {
    let temporary = tempfile::tempdir().unwrap();
    let name = "2024-02-29T23-59-59.987Z-crash-0a1b2c3d.wedjat";
    fs::write(temporary.path().join(name), whole(1)).unwrap();
    let mut child = 0;
    let mut send = || {
        let sent = store::send(temporary.path(), |_| {
            if child == 0 {
                // SAFETY: the child only waits, and is killed.
                unsafe {
                    child = libc::fork();
                    if child == 0 {
                        loop {
                            libc::sleep(1);
                        }
                    }
                }
            }
            Answer::Later
        });
        let sent = sent.unwrap();
        (sent.deferred, sent.busy)
    };
    let both = [send(), send()];
    // SAFETY: a child of ours, of which nothing is wanted.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert_eq!(both, [(1, 0); 2]);
}

#[test]
fn pipes_and_sparse_files_hold_nothing_up() {
    let _one = ONE.lock().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("sparse");
    fs::create_dir(&folder).unwrap();
    let name = format!("{}.partial", STEMS[0]);
    fifo(&folder.join(format!("{}.partial", STEMS[1])));
    sparse(&folder.join(&name));
    sparse(&folder.join("1700000000000000000-0a1b2c3d.launch"));
    let begun = Instant::now();
    let monitor = install(&folder, false, false).unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let end = Instant::now() + PATIENCE;
    while monitor.stats().oversized != 2 {
        assert!(Instant::now() < end, "{:?}", monitor.stats());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(fs::metadata(folder.join(&name)).unwrap().len(), 8 << 30);
}

#[test]
fn a_folder_is_made_for_its_user_alone_and_a_shared_one_is_refused() {
    let _one = ONE.lock().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let made = temporary.path().join("state").join("it's here");
    drop(install(&made, false, false).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&made), mode(made.parent().unwrap())), (0o700, 0o700));
    for wide in [0o770, 0o702] {
        fs::set_permissions(&made, fs::Permissions::from_mode(wide)).unwrap();
        let error = install(&made, false, false).unwrap_err();
        assert_eq!(
            fs::read_dir(&made)
                .unwrap()
                .filter(|entry| {
                    entry
                        .as_ref()
                        .unwrap()
                        .file_name()
                        .as_bytes()
                        .starts_with(b".probe")
                })
                .count(),
            0
        );
        let InstallError::SharedDirectory { fix_command, .. } = &error else {
            panic!("{error}")
        };
        assert!(error.to_string().contains(fix_command), "{error}");
        drop(install(&made, true, false).unwrap());
        // The command that is named mends it.
        let status = std::process::Command::new("sh")
            .args(["-c", fix_command])
            .status();
        assert!(status.unwrap().success());
        drop(install(&made, false, false).unwrap());
    }
    // A folder above it in which all may rename what is not theirs.
    let above = temporary.path().join("above");
    let below = above.join("own/reports");
    fs::create_dir_all(&below).unwrap();
    for (mode, is_refused) in [(0o777, true), (0o1777, false), (0o755, false)] {
        fs::set_permissions(&above, fs::Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(&below, fs::Permissions::from_mode(0o700)).unwrap();
        let refused = install(&below, false, false).err();
        assert_eq!(refused.is_some(), is_refused, "{mode:o}");
        let Some(InstallError::SharedDirectory { fix_command, .. }) = &refused else {
            continue;
        };
        let status = std::process::Command::new("sh")
            .args(["-c", fix_command])
            .status();
        assert!(status.unwrap().success());
        drop(install(&below, false, false).unwrap());
    }
    if !is_root() {
        return;
    }
    std::os::unix::fs::chown(&made, Some(STRANGER), None).unwrap();
    let error = install(&made, false, false).unwrap_err();
    assert!(error.to_string().contains("chown 0 '"), "{error}");
    std::os::unix::fs::chown(&made, Some(0), None).unwrap();
    // A link of another's may lead anywhere.
    let link = temporary.path().join("link");
    symlink(&made, &link).unwrap();
    drop(install(&link, false, false).unwrap());
    std::os::unix::fs::lchown(&link, Some(STRANGER), None).unwrap();
    let error = install(&link, false, false).unwrap_err();
    assert!(error.to_string().contains("sudo rm '"), "{error}");
    // Nor is one followed that takes the place of a folder that was removed since.
    let [gone, elsewhere] = ["gone", "elsewhere"].map(|name| temporary.path().join(name));
    let monitor = install(&gone, false, false).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    fs::remove_dir_all(&gone).unwrap();
    symlink(&elsewhere, &gone).unwrap();
    std::os::unix::fs::lchown(&gone, Some(STRANGER), None).unwrap();
    let recorded = monitor.record("elsewhere");
    assert!(recorded.is_err(), "{recorded:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    // Without it the folder is made again.
    fs::remove_file(&gone).unwrap();
    monitor.record("again").unwrap();
}

/// In a folder that may not be written in, a report that was cut is given as it is, unless it is being written.
#[cfg(target_os = "linux")]
#[test]
fn a_report_that_cannot_be_closed_is_given_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |id: u32| {
        let name = format!("2026-01-31T23-59-58.{id:03}Z-live-{id:08x}.partial");
        folder.path().join(name)
    };
    // Cut; cut, and not to be written; being written; without a first section; empty.
    let contents = [
        whole(1),
        whole(2),
        whole(3),
        whole(4)[..9].to_vec(),
        Vec::new(),
    ];
    for (id, bytes) in (1..).zip(&contents) {
        fs::write(path(id), bytes).unwrap();
    }
    fs::set_permissions(path(2), PermissionsExt::from_mode(0o400)).unwrap();
    let writer = fs::File::open(path(3)).unwrap();
    writer.lock().unwrap();
    if is_root() {
        for path in (1..=5).map(path).chain([folder.path().to_owned()]) {
            std::os::unix::fs::chown(path, Some(STRANGER), None).unwrap();
        }
    }
    let mode = |mode| fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
    mode(0o555);
    let look = || {
        // SAFETY: gives up root's rights, of this thread alone.
        unsafe { libc::syscall(libc::SYS_setresuid, STRANGER, STRANGER, STRANGER) };
        let found = store::reports(folder.path()).unwrap();
        let found = found.into_iter().map(|stored| {
            let reading = stored.read().unwrap();
            (
                stored.path().to_owned(),
                reading.report.head.id,
                reading.damage,
            )
        });
        found.collect::<Vec<_>>()
    };
    let found = std::thread::scope(|scope| scope.spawn(look).join().unwrap());
    mode(0o755);
    let paths: Vec<&PathBuf> = found.iter().map(|(path, ..)| path).collect();
    assert_eq!(paths, [&path(1), &path(2)]);
    let ids: Vec<u128> = found
        .iter()
        .map(|(_, id, _)| u128::from_be_bytes(*id))
        .collect();
    assert_eq!(ids, [1, 2]);
    let kinds: Vec<_> = found[1].2.iter().map(|damage| damage.kind).collect();
    assert_eq!(kinds, [report::DamageKind::NoEnd]);
    drop(writer);
}
