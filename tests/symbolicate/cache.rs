//! Lookup tables on disk: the same answers with and without, whatever happened to the file.
//!
//! The debug file is a program made by gcc on the spot.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use crate::support::symbolicate::home::{Home, Thing, things};
use object::{Object, ObjectSection};
use wedjat::new;
use wedjat::report::{self, EventKind, Image, Report, Thread};
use wedjat::symbolicate::{Addresses, Cache, DebugFiles, SourceFrame};

fn symbolicator(cache: Option<Cache>) -> Addresses {
    let mut files = DebugFiles::new().no_search().cache(cache).jobs(2);
    files.add(&program()).unwrap();
    Addresses::new(&files, None, None).unwrap()
}

/// A program of some small units, of more than a megabyte, made once.
fn program() -> PathBuf {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let made = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-g3", "-O1", "-Wl,--build-id=sha1", "-o", "program"]).current_dir(folder.path());
        for unit in 0..8 {
            let mut source = format!("volatile int sink{unit};\n");
            for f in 0..60 {
                source += &format!(
                    "static inline __attribute__((always_inline)) int a_small_part_{unit}_{f}(int n) {{\n  \
                     sink{unit} += n * {f};\n  return sink{unit} / (n | 1);\n}}\n\
                     int a_function_with_a_rather_long_name_{unit}_{f}(int n) {{\n  \
                     int m = a_small_part_{unit}_{f}(n);\n  return m + a_small_part_{unit}_{f}(m);\n}}\n"
                );
            }
            let name = format!("unit{unit}.c");
            std::fs::write(folder.path().join(&name), source).unwrap();
            gcc.arg(name);
        }
        std::fs::write(folder.path().join("main.c"), "const char large[1 << 20] = {1};\nint main(void) { return 0; }\n").unwrap();
        assert!(gcc.arg("main.c").status().expect("gcc is needed for this test").success());
        let path = folder.path().join("program");
        assert!(path.metadata().unwrap().len() > 1 << 20, "{:?}", path.metadata());
        (folder, path)
    });
    made.1.clone()
}

/// So many addresses, evenly over the program's code.
fn addresses(count: u64) -> Vec<u64> {
    let data = std::fs::read(program()).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let text = file.section_by_name(".text").unwrap();
    (0..count)
        .map(|i| text.address() + text.size() * i / count)
        .collect()
}

fn answers(symbolicator: &Addresses, addresses: &[u64]) -> Vec<Vec<SourceFrame>> {
    addresses
        .iter()
        .map(|&address| symbolicator.frames(address).to_vec())
        .collect()
}

/// The one table in a cache.
fn table(folder: &Path) -> PathBuf {
    let files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "table"))
        .collect();
    let [table] = &files[..] else {
        panic!("{files:?}")
    };
    table.clone()
}

/// Every address has the same answer straight from DWARF, from a table just made, and from one on disk.
#[test]
fn the_same_answers_with_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let all = addresses(4000);
    // A symbolicator of its own for each few addresses never has cause to make the table of the whole file.
    let straight: Vec<_> = all[..80]
        .chunks(2)
        .flat_map(|few| answers(&symbolicator(None), few))
        .collect();
    let made = answers(&symbolicator(Some(cache.clone())), &all);
    assert!(table(folder.path()).metadata().unwrap().len() > 30_000);
    let from_disk = answers(&symbolicator(Some(cache)), &all);
    assert!(made.iter().filter(|frames| frames.len() > 1).count() > 100);
    for (i, address) in all.iter().enumerate() {
        assert_eq!(made[i], from_disk[i], "{address:#x}");
        if let Some(straight) = straight.get(i) {
            assert_eq!(straight, &made[i], "{address:#x}");
        }
    }
}

/// Many threads that look few addresses up again and again have the first answers, which are then borrowed.
#[test]
fn addresses_looked_up_often_have_the_same_answers() {
    let symbolicator = symbolicator(None);
    let some = addresses(1000);
    let first = answers(&symbolicator, &some);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20).for_each(|_| assert!(answers(&symbolicator, &some) == first)));
        }
    });
    let frames = |&&at: &&u64| symbolicator.frames(at);
    let is_kept = |at: &&u64| std::ptr::eq(&*frames(at), &*frames(at));
    assert!(some.iter().filter(is_kept).count() > 900);
}

#[test]
fn a_damaged_table_is_never_believed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let all = addresses(1500);
    let truth = answers(&symbolicator(Some(cache.clone())), &all);
    let path = table(folder.path());
    let whole = std::fs::read(&path).unwrap();
    let len = whole.len();
    let damages: Vec<Vec<u8>> = vec![
        Vec::new(),
        whole[..len / 2].to_vec(),
        whole[..len - 1].to_vec(),
        [&whole[..], b"more"].concat(),
        vec![0; len],
    ];
    let flips = (1..16).map(|i| {
        let mut flipped = whole.clone();
        flipped[len / 16 * i] ^= 1 << (i % 8);
        flipped
    });
    for (i, damaged) in damages.into_iter().chain(flips).enumerate() {
        std::fs::write(&path, &damaged).unwrap();
        let symbolicator = symbolicator(Some(cache.clone()));
        assert_eq!(
            answers(
                &symbolicator,
                &all.iter().step_by(25).copied().collect::<Vec<_>>()
            ),
            truth.iter().step_by(25).cloned().collect::<Vec<_>>(),
            "damage {i}"
        );
    }
}

/// A report with a frame at each address of the program.
fn report_of(addresses: &[u64]) -> Vec<u8> {
    let data = std::fs::read(program()).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let mut report = Report::default();
    report.event.get_or_insert_default().kind = EventKind::Live;
    report.images.push(new!(Image {
        id: file.build_id().unwrap().unwrap().to_vec(),
        name: "/nowhere/program".into(),
        size: 1 << 30,
    }));
    let frame = |&pc: &u64| new!(report::Frame { pc, image: Some(0) });
    let thread = |part: &[u64]| {
        new!(Thread {
            frames: part.iter().map(frame).collect(),
        })
    };
    report.threads = addresses.chunks(200).map(thread).collect();
    report.end.get_or_insert_default().closed_by = "writer".into();
    report::to_bytes(&report)
}

/// The program with each kind of damage: in the header of a unit, in that of lines, and in lines.
fn damaged_copies() -> Vec<(&'static str, Vec<u8>)> {
    let whole = std::fs::read(program()).unwrap();
    let file = object::File::parse(&*whole).unwrap();
    // Where the parts of a section begin, each with its length in front.
    let parts = |name: &str| {
        let section = file.section_by_name(name).unwrap();
        let (start, size) = section.file_range().unwrap();
        let (mut at, end) = (start as usize, (start + size) as usize);
        let mut begins = Vec::new();
        while at < end {
            begins.push(at);
            at += 4 + u32::from_le_bytes(whole[at..at + 4].try_into().unwrap()) as usize;
        }
        begins
    };
    let (units, lines) = (parts(".debug_info"), parts(".debug_line"));
    let damaged = |what, at: usize, bytes: &[u8]| {
        let mut copy = whole.clone();
        copy[at..at + bytes.len()].copy_from_slice(bytes);
        (what, copy)
    };
    vec![
        damaged("the first unit", units[0] + 4, &[0xff; 2]),
        damaged("a unit", units[4] + 4, &[0xff; 2]),
        damaged("a header of lines", lines[4] + 4, &[0xff; 2]),
        damaged("lines", lines[5] - 3, &[4, 1, 4]),
    ]
}

/// A table of a damaged file would answer for it when it is whole again, and would not say what it lacks.
#[test]
fn a_damaged_file_leaves_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let [copy, report, cache] =
        ["program", "a.wedjat", "cache"].map(|name| folder.path().join(name));
    std::fs::write(&report, report_of(&addresses(1500))).unwrap();
    let run = |args: &[&std::ffi::OsStr]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
        command
            .args(["--strict", "--format", "json", "--debug"])
            .arg(&copy)
            .arg(&report);
        let output = command.args(args).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), json)
    };
    let with_cache = ["--cache".as_ref(), cache.as_os_str()];
    for (what, damaged) in damaged_copies() {
        let _ = std::fs::remove_dir_all(&cache);
        std::fs::write(&copy, damaged).unwrap();
        let first = run(&with_cache);
        assert_eq!(first.0, Some(1), "{what}");
        let unread = &first.1["missing"][0];
        let count = |key: &str| unread[key].as_u64().unwrap();
        assert!(count("damaged") + count("refused") > 0, "{what}: {unread}");
        assert!(
            run(&with_cache) == first,
            "{what}: another answer the second time"
        );
        std::fs::copy(program(), &copy).unwrap();
        let whole = run(&["--no-cache".as_ref()]);
        assert_eq!(whole.0, Some(0), "{what}");
        assert!(
            run(&with_cache) == whole,
            "{what}: the damaged file answers"
        );
        assert!(table(&cache).is_file());
    }
}

/// Who may write a table could have it say anything.
#[test]
fn a_table_that_others_may_write_is_made_anew() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let all = addresses(1500);
    let truth = answers(&symbolicator(Some(cache.clone())), &all);
    let path = table(folder.path());
    let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    assert_eq!(answers(&symbolicator(Some(cache)), &all), truth);
    assert_eq!(mode(), 0o600, "another file stands there now");
}

/// So could who owns it, whatever its mode is. It stays as it is.
#[test]
fn a_table_of_another_owner_is_not_read() {
    use std::os::unix::fs::{MetadataExt, chown};
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let all = addresses(1500);
    let truth = answers(&symbolicator(Some(cache.clone())), &all);
    let path = table(folder.path());
    let own = path.metadata().unwrap().uid();
    if let Err(error) = chown(&path, Some(own + 1), None) {
        eprintln!("NOT TESTED: only root can give a file away ({error})");
        return;
    }
    let facts = || {
        let meta = path.metadata().unwrap();
        (meta.uid(), meta.ino(), meta.atime_nsec(), meta.mtime_nsec())
    };
    let given = facts();
    assert_eq!(answers(&symbolicator(Some(cache)), &all), truth);
    assert_eq!(facts(), given);
}

/// Each kind of thing under each name that the cache gives: nothing waits, no answer changes, and they stay.
#[test]
fn what_others_put_into_the_folder_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let all = addresses(1500);
    let truth = answers(&symbolicator(Some(cache.clone())), &all);
    let name = table(folder.path());
    let whole = std::fs::read(&name).unwrap();
    let precious = outside.path().join("precious");
    for name in [name, folder.path().join("CACHEDIR.TAG")] {
        let before = std::fs::read(&name).unwrap();
        for kind in 0..4 {
            std::fs::remove_file(&name).unwrap();
            std::fs::write(&precious, &whole).unwrap();
            match kind {
                0 => assert!(
                    Command::new("mkfifo")
                        .arg(&name)
                        .status()
                        .unwrap()
                        .success()
                ),
                1 => symlink(&precious, &name).unwrap(),
                2 => std::fs::hard_link(&precious, &name).unwrap(),
                _ => drop(std::os::unix::net::UnixListener::bind(&name).unwrap()),
            }
            let kinds = || std::fs::symlink_metadata(&name).unwrap().file_type();
            let given = kinds();
            let cache = Cache::new(folder.path());
            assert_eq!(answers(&symbolicator(Some(cache)), &all), truth, "{kind}");
            assert_eq!(kinds(), given, "{kind}");
            assert_eq!(std::fs::read(&precious).unwrap(), whole, "{kind}");
            std::fs::remove_file(&name).unwrap();
            std::fs::write(&name, &before).unwrap();
            let _ = std::fs::remove_dir_all(folder.path().join("wedjat-cache"));
        }
    }
}

#[test]
fn a_folder_that_others_may_write_in_is_done_without() {
    use std::os::unix::fs::{PermissionsExt, chown, lchown};
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("it's shared");
    let used = |folder: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
            .arg("--cache")
            .arg(folder)
            .arg("--debug")
            .arg(program())
            .args(
                addresses(100)
                    .iter()
                    .flat_map(|at| ["--address".into(), format!("{at:#x}")]),
            )
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(used(&folder), "");
    let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "a letter").unwrap();
    let words = used(&folder);
    assert!(
        words.contains("ot a directory; going on without"),
        "{words}"
    );
    std::fs::remove_file(&folder).unwrap();
    for wide in [0o770, 0o1777] {
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(wide)).unwrap();
        let words = used(&folder);
        assert!(words.contains("may be written by others"), "{words}");
        assert!(words.contains("going on without"), "{words}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        // The command that is named mends it.
        let mend = words
            .split(&['(', ')'])
            .nth(1)
            .unwrap()
            .split(" fixes")
            .next()
            .unwrap();
        assert!(
            Command::new("sh")
                .args(["-c", mend])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(used(&folder), "");
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir(&folder).unwrap();
    let link = outer.path().join("link");
    symlink(&folder, &link).unwrap();
    if chown(&folder, Some(65_534), None).is_err() {
        eprintln!("NOT TESTED: only root can give a folder away");
        return;
    }
    assert!(used(&folder).contains("belongs to another user"));
    chown(&folder, Some(0), None).unwrap();
    lchown(&link, Some(65_534), None).unwrap();
    assert!(used(&link).contains("another user's link"));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn many_at_once_and_never_a_half_written_table() {
    let folder = tempfile::tempdir().unwrap();
    let all = addresses(1500);
    let truth = answers(&symbolicator(None), &all);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let symbolicator = symbolicator(Some(Cache::new(folder.path())));
                assert_eq!(answers(&symbolicator, &all), truth);
            });
        }
    });
    let from_disk = symbolicator(Some(Cache::new(folder.path())));
    assert_eq!(answers(&from_disk, &all), truth);
    table(folder.path()); // one file, and no temporary one beside it
}

#[test]
fn the_folder_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    answers(
        &symbolicator(Some(Cache::new(folder.path()))),
        &addresses(1500),
    );
    let old = folder.path().join("00-1-v0.table");
    std::fs::rename(table(folder.path()), &old).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(1 << 20);
    std::fs::File::options()
        .append(true)
        .open(&old)
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    answers(
        &symbolicator(Some(Cache::new(folder.path()).limit(1))),
        &addresses(1500),
    );
    assert!(!old.exists());
    table(folder.path());
}

#[test]
fn a_cache_that_cannot_be_written_is_done_without() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"in the way").unwrap();
    let all = addresses(1500);
    assert_eq!(
        answers(&symbolicator(Some(Cache::new(&file))), &all),
        answers(&symbolicator(None), &all)
    );
}

/// Makes the table, uses it, and makes it again.
fn use_cache(cache: Cache) {
    for _ in 0..2 {
        answers(&symbolicator(Some(cache.clone())), &addresses(1500));
    }
}

#[test]
fn a_cache_among_other_things_keeps_to_a_folder_of_its_own() {
    let home = Home::new();
    let root = home.shop.path("");
    use_cache(Cache::new(&root).limit(1));
    let new = home.check("a cache in the home");
    let within = home.shop.path("wedjat-cache");
    assert!(new.iter().all(|path| path.starts_with(&within)), "{new:?}");
    let own = table(&within);
    // An older one makes room, and nothing else does.
    let old = own.with_file_name("00-1-v0.table");
    std::fs::rename(own, &old).unwrap();
    use_cache(Cache::new(&root).limit(1));
    home.check("the second time");
    assert!(!old.exists());
    table(&within);
}

#[test]
fn other_things_in_the_cache_s_own_folder_stay() {
    let folder = tempfile::tempdir().unwrap();
    use_cache(Cache::new(folder.path()));
    let old = folder.path().join("00-1-v0.table");
    std::fs::rename(table(folder.path()), &old).unwrap();
    let home = Home::new();
    for path in home.before.keys() {
        let to = folder.path().join(path.file_name().unwrap());
        if path.is_symlink() {
            symlink(std::fs::read_link(path).unwrap(), to).unwrap();
        } else {
            std::fs::rename(path, to).unwrap();
        }
    }
    let before: BTreeMap<PathBuf, Thing> = things(folder.path());
    use_cache(Cache::new(folder.path()).limit(1));
    let mut after = things(folder.path());
    assert!(
        after.remove(&old).is_none(),
        "the older table is still there"
    );
    for (path, thing) in before.iter().filter(|(path, _)| **path != old) {
        assert!(after.get(path) == Some(thing), "{}", path.display());
    }
}

/// Runs the command under ptrace(2), with this option and so many addresses; how many threads it has begun.
#[expect(
    clippy::zombie_processes,
    reason = "waitpid(2) waits for it, and for its threads"
)]
fn threads_begun(cache: &str, count: u64) -> u64 {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
    command
        .args([cache, "--debug"])
        .arg(program())
        .arg("--address");
    command.args(
        addresses(count)
            .iter()
            .map(|address| format!("{address:#x}")),
    );
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null());
    // SAFETY: ptrace(2) and reading errno are async-signal-safe.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let child = command.spawn().expect("this test needs ptrace(2)");
    let pid = child.id() as libc::pid_t;
    let mut threads = 0;
    loop {
        let mut status = 0;
        // Of this thread's own children alone: other tests have theirs.
        // SAFETY: `status` is a place for the answer.
        let stopped = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
        assert!(stopped > 0, "{}", std::io::Error::last_os_error());
        if !libc::WIFSTOPPED(status) {
            if stopped == pid {
                assert!(
                    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
                    "{status:#x}"
                );
                return threads;
            }
            continue;
        }
        threads += u64::from(status >> 8 == libc::SIGTRAP | libc::PTRACE_EVENT_CLONE << 8);
        let signal = match libc::WSTOPSIG(status) {
            libc::SIGTRAP | libc::SIGSTOP => 0,
            signal => signal,
        };
        let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
        // SAFETY: requests without pointers, to a thread that is stopped and traced by this one.
        unsafe {
            libc::ptrace(libc::PTRACE_SETOPTIONS, stopped, 0, options);
            libc::ptrace(libc::PTRACE_CONT, stopped, 0, signal);
        }
    }
}

/// The table of the whole file is made on a thread of its own, once enough addresses were looked up.
#[test]
fn a_single_address_without_a_cache_begins_no_thread_and_many_with_one_begin_one() {
    assert_eq!(threads_begun("--no-cache", 1), 0);
    let folder = tempfile::tempdir().unwrap();
    let cache = format!("--cache={}", folder.path().display());
    assert_eq!(threads_begun(&cache, 2000), 1);
}

/// Another party's file, with the id and the size of ours, and functions of other names.
#[test]
fn a_table_names_only_the_file_that_it_was_made_of() {
    let folder = tempfile::tempdir().unwrap();
    let build = |word: &str| {
        let mut source =
            "const char large[1 << 20] = {1};\nint main(void) { return 0; }\n".to_owned();
        for f in 0..900 {
            source += &format!("int {word}_{f:05}(int n) {{ return n * {f} + large[n]; }}\n");
        }
        let path = folder.path().join(word);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("a.c"), source).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args([
            "-g",
            "-Wl,--build-id=0x0102030405060708",
            "-o",
            "program",
            "a.c",
        ]);
        let flags =
            [&path, folder.path()].map(|path| format!("-ffile-prefix-map={}=.", path.display()));
        assert!(
            gcc.args(flags)
                .current_dir(&path)
                .status()
                .unwrap()
                .success()
        );
        path.join("program")
    };
    let (ours, theirs) = (build("victim"), build("attack"));
    let (size, other) = (
        ours.metadata().unwrap().len(),
        theirs.metadata().unwrap().len(),
    );
    assert_eq!(size, other);
    let cache = Cache::new(&folder.path().join("cache"));
    let names = |path: &Path| {
        let mut files = DebugFiles::new().no_search().cache(Some(cache.clone()));
        files.add(path).unwrap();
        let addresses = Addresses::new(&files, None, None).unwrap();
        let data = std::fs::read(path).unwrap();
        let file = object::File::parse(&*data).unwrap();
        let text = file.section_by_name(".text").unwrap();
        let all = (0..400).map(|at| text.address() + text.size() * at / 400);
        let all = all.flat_map(|at| addresses.frames(at).to_vec());
        all.filter_map(|frame| frame.function).collect::<Vec<_>>()
    };
    let is_of = |word: &str, names: &[Arc<str>]| {
        let other = if word == "victim" { "attack" } else { "victim" };
        assert!(
            names.iter().filter(|name| name.starts_with(word)).count() > 300,
            "{word}"
        );
        assert!(!names.iter().any(|name| name.starts_with(other)), "{word}");
    };
    is_of("victim", &names(&ours));
    let made = table(&folder.path().join("cache"));
    is_of("attack", &names(&theirs));
    is_of("victim", &names(&ours));
    // A copy has the same bytes: its table is the one that is there.
    let before = std::fs::read(&made).unwrap();
    let copy = folder.path().join("copy");
    std::fs::copy(&ours, &copy).unwrap();
    is_of("victim", &names(&copy));
    is_of("victim", &names(&copy));
    let after = std::fs::read(&made).unwrap();
    assert_eq!(before.len(), after.len());
}

/// Two files of which one is open at a time: the addresses of both are counted, so that each has its table in the end.
#[test]
fn a_file_that_is_closed_again_and_again_has_a_table_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("other");
    let mut bytes = std::fs::read(program()).unwrap();
    let id = {
        let file = object::File::parse(&*bytes).unwrap();
        file.build_id().unwrap().unwrap().to_vec()
    };
    let other: Vec<u8> = id.iter().map(|byte| !byte).collect();
    let at = bytes
        .windows(id.len())
        .position(|window| window == id)
        .unwrap();
    bytes[at..at + id.len()].copy_from_slice(&other);
    std::fs::write(&copy, bytes).unwrap();
    let cache = folder.path().join("cache");
    let mut files = DebugFiles::new()
        .no_search()
        .limit(1)
        .cache(Some(Cache::new(&cache)));
    files.add(&program()).unwrap();
    files.add(&copy).unwrap();
    let symbolicator = wedjat::symbolicate::Symbolicator::new(files);
    let all = addresses(3000);
    for few in all.chunks(30) {
        for id in [&id, &other] {
            let mut report = report::read(&report_of(few)).unwrap().report;
            report.images[0].id = id.clone();
            let named = symbolicator.symbolicate(report);
            assert!(!named.threads.is_empty());
        }
    }
    drop(symbolicator);
    let tables = std::fs::read_dir(&cache).unwrap().flatten();
    let tables = tables.filter(|entry| entry.path().extension().is_some_and(|end| end == "table"));
    assert_eq!(tables.count(), 2);
}
