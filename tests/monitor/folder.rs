//! The folder of reports among other people's files, and full: nothing is touched that is not the
//! recorder's own, and what earlier launches left is whole at once.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wedjat::store::{self, HowEnded, Limits};
use wedjat::{Crash, Monitor, Stall};

use super::child::{Folder, command, deadline};

/// As many as `install` looks at, and more.
const MANY: usize = 7_000;
const MORE: usize = 20_000;

/// Plays a child, if the role is one of this module's.
pub fn is_played(role: &str, folder: &Path) -> bool {
    match role {
        "stall" => stall(folder),
        "crash" => crash(folder),
        "look" => look(folder),
        "look_later" => look_later(folder),
        "reports" => reports(folder),
        "listed" => listed(folder),
        _ => return false,
    }
    true
}

pub const TESTS: [(&str, fn()); 3] = [
    ("other_peoples_files_in_the_folder_stay", other_files),
    (
        "what_was_left_in_a_full_folder_is_whole_after_install",
        full_folder,
    ),
    ("reports_that_were_just_listed_are_not_removed", just_listed),
];

/// Plays a role in a folder; the signal that it died of.
#[track_caller]
fn play(role: &str, folder: &Path) -> Option<i32> {
    let child = command(role, folder).spawn().unwrap();
    let status = deadline::end(child, deadline::PATIENCE).status;
    assert!(
        status.success() || status.signal().is_some(),
        "{role}: {status}"
    );
    status.signal()
}

fn install(folder: &Path, limits: Limits) -> Monitor {
    Monitor::builder("folder", "1.0")
        .directory(folder)
        .limits(limits)
        .stall(Stall::default())
        .crash(Crash::default())
        .install()
        .unwrap()
}

/// Is killed in the middle of a stall, once its report is begun.
fn stall(folder: &Path) {
    let monitor = install(folder, Limits::default());
    std::thread::spawn({
        let folder = folder.to_owned();
        move || loop {
            let mut begun = names(&folder).into_iter();
            // An empty one is no report yet: the watchdog may have lost its core before it wrote.
            let has_bytes =
                |name: &String| folder.join(name).metadata().is_ok_and(|it| it.len() > 0);
            let is_stall = |name: &String| name.ends_with(".partial") && name.contains("-stall-");
            if begun.any(|name| is_stall(&name) && has_bytes(&name)) {
                // SAFETY: this process.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    monitor.heartbeat().turn(|| {
        std::thread::sleep(Duration::from_secs(60));
    });
    unreachable!("nothing was begun");
}

fn crash(folder: &Path) {
    let _monitor = install(folder, Limits::default());
    // SAFETY: it is to die.
    unsafe { libc::raise(libc::SIGSEGV) };
}

/// What an app finds right after `install`.
fn look(folder: &Path) {
    let monitor = install(folder, Limits::default().reports(MORE * 2));
    let previous = monitor.previous_launch().expect("a previous launch");
    assert_eq!(previous.how, HowEnded::Stalled);
    stall_is_whole(folder);
}

/// What it finds once the helper thread has been through the folder.
fn look_later(folder: &Path) {
    drop(install(folder, Limits::default().reports(MORE * 2)));
    stall_is_whole(folder);
}

fn stall_is_whole(folder: &Path) {
    let names = names(folder);
    let stalls: Vec<&String> = names
        .iter()
        .filter(|name| name.contains("-stall-"))
        .collect();
    let [stall] = stalls[..] else {
        panic!("{stalls:?}")
    };
    assert!(stall.ends_with(".wedjat"), "{stall}");
    let bytes = std::fs::read(folder.join(stall)).unwrap();
    let reading = wedjat::report::read(&bytes).unwrap();
    assert!(reading.damage.is_empty(), "{:?}", reading.damage);
    assert_eq!(reading.report.end.unwrap().closed_by, "next_launch");
}

/// Many reports under narrow limits, and every call that looks at the folder.
fn reports(folder: &Path) {
    let monitor = install(folder, Limits::default().reports(1));
    for number in 0..5 {
        monitor.record(&number.to_string()).unwrap();
    }
    store::launches(folder).unwrap();
    drop(store::reports(folder).unwrap());
    // Ours, and one that was copied under another name.
    until(|| own(folder, ".wedjat") <= 2);
}

/// What is given stays while it is held, and makes room behind that.
fn listed(folder: &Path) {
    let monitor = install(folder, Limits::default().reports(2));
    let listed = store::reports(folder).unwrap();
    for number in 0..3 {
        monitor.record(&number.to_string()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    for report in &listed {
        assert!(report.path().exists(), "{}", report.path().display());
        report.read().unwrap();
    }
    // Room is made once they are let go, with nothing else to bring it about.
    drop(listed);
    until(|| own(folder, ".wedjat") == 2);
}

#[track_caller]
fn until(mut what: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < end, "it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// How many files with this ending hold a report.
fn own(folder: &Path, ending: &str) -> usize {
    let names = names(folder)
        .into_iter()
        .filter(|name| name.ends_with(ending));
    let bytes = names.filter_map(|name| std::fs::read(folder.join(name)).ok());
    bytes
        .filter(|bytes| wedjat::report::read(bytes).is_ok())
        .count()
}

fn other_files() {
    let folder = Folder::new("other-files");
    // A report that is cut, to be used under another name.
    play("stall", &folder.0);
    let cut = names(&folder.0)
        .into_iter()
        .find(|name| name.ends_with(".partial"))
        .unwrap();
    let cut = std::fs::read(folder.0.join(cut)).unwrap();
    let stem = "2001-02-03T04-05-06.789Z-stall-0a1b2c3d";
    let file = |name: String, bytes: &[u8]| (folder.0.join(name), bytes.to_vec());
    let mut theirs: BTreeMap<PathBuf, Vec<u8>> = [
        file("letter.txt".into(), b"Dear Ann"),
        file(".profile".into(), b"umask 22"),
        file("empty".into(), b""),
    ]
    .into();
    for ending in ["partial", "spare", "wedjat", "damaged", "launch"] {
        // Our endings; our names, but not what is in it; and what is in ours under another name.
        theirs.extend([
            file(format!("film.{ending}"), b"film"),
            file(format!("none.{ending}"), b""),
            file(format!("{stem}.{ending}"), b"a diary"),
            file(format!("mine-{stem}.{ending}"), &cut),
        ]);
    }
    theirs.extend([
        file(
            "1700000000123456789-0a1b2c3d.launch".into(),
            b"wedjat, a diary",
        ),
        file(
            "2000-02-03T04-05-06.789Z-live-0a1b2c3d.spare".into(),
            b"another diary",
        ),
        file(".probe-mine".into(), b"wedjat"),
        file(".reserve-mine".into(), b"wedjat"),
    ]);
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(1 << 24);
    for (path, bytes) in &theirs {
        std::fs::write(path, bytes).unwrap();
        std::fs::File::open(path)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
    }
    for role in ["reports", "stall", "crash", "reports"] {
        play(role, &folder.0);
        for (path, bytes) in &theirs {
            let found = std::fs::read(path);
            assert!(
                found.is_ok_and(|found| found == *bytes),
                "{role}: {}",
                path.display()
            );
            assert_eq!(
                path.metadata().unwrap().modified().unwrap(),
                long_ago,
                "{role}"
            );
        }
    }
}

fn full_folder() {
    for (many, role) in [(MANY, "look"), (MORE, "look_later")] {
        let folder = Folder::new("full-folder");
        let other = |number: usize| folder.0.join(format!("1999-01-01-{number}.wedjat"));
        for number in 0..many {
            std::fs::write(other(number), "").unwrap();
        }
        assert_eq!(play("stall", &folder.0), Some(libc::SIGKILL));
        assert_eq!(play(role, &folder.0), None);
        assert!((0..many).all(|number| other(number).exists()));
    }
}

fn just_listed() {
    let folder = Folder::new("just-listed");
    for _ in 0..6 {
        play("crash", &folder.0);
    }
    assert_eq!(play("listed", &folder.0), None);
}
