//! Debug files that are cut, changed, or get shorter while they are used.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use wedjat::new;
use wedjat::report::{self, Image};
use wedjat::symbolicate::{Addresses, DebugFiles, Symbolicator};

use super::{CODE, DSYM, report_of};
use crate::deadline::finish;

#[test]
fn a_debug_file_that_shrinks_while_it_is_used_ends_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kiosk");
    fs::copy(DSYM, &path).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .args(["--no-cache", "--address", "-", "--debug"])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    // An answer: the file is mapped.
    writeln!(input, "0").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("kiosk"), "{line}");
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(0)
        .unwrap();
    // Until something has to be read that was not read before.
    for address in CODE.step_by(4) {
        if writeln!(input, "{address:x}").is_err() {
            break;
        }
    }
    drop(input);
    let rest = std::thread::spawn(move || output.lines().count());
    child.stdout = Some(empty_pipe());
    let ran = finish(child);
    rest.join().unwrap();
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(
        ran.err.contains("got shorter while it was read"),
        "{}",
        ran.err
    );
}

/// The end of a pipe without a writer.
fn empty_pipe() -> std::process::ChildStdout {
    let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    child.wait().unwrap();
    child.stdout.take().unwrap()
}

/// Looks at a debug file in every way the symbolicator has, in this process.
fn use_up(path: &Path) {
    let mut files = DebugFiles::new().no_search();
    let Ok(added) = files.add(path) else { return };
    assert!(added.damaged.iter().all(|text| !text.is_empty()));
    let ids: Vec<Vec<u8>> = files.ids().map(<[u8]>::to_vec).collect();
    if let Ok(addresses) = Addresses::new(&files, None, None) {
        for address in CODE.step_by(256).chain((0..0x4000).step_by(64)) {
            addresses.frames(address);
        }
    }
    let symbolicator = Symbolicator::new(files);
    for id in ids {
        let image = new!(Image {
            id,
            base: CODE.start,
            base_svma: CODE.start,
            size: 0x8000,
        });
        symbolicator.symbolicate(report::read(&report_of(vec![image])).unwrap().report);
    }
}

#[test]
fn cut_and_changed_debug_files_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kiosk");
    let whole = fs::read(DSYM).unwrap();
    for len in (0..whole.len()).step_by(701) {
        fs::write(&path, &whole[..len]).unwrap();
        use_up(&path);
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for _ in 0..120 {
        let mut changed = whole.clone();
        for _ in 0..8 {
            // Headers more often than what they lead to.
            let at = if next(2) == 0 {
                next(4096)
            } else {
                next(whole.len())
            };
            changed[at] = [0, 0xff, 0x7f, 0x80, next(256) as u8][next(5)];
        }
        fs::write(&path, &changed).unwrap();
        use_up(&path);
    }
}

/// Files come, go, grow, are cut and become links, folders and pipes; those that nobody touches are all read.
#[test]
fn a_folder_that_changes_while_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reports");
    fs::create_dir(&path).unwrap();
    let bytes = |id: u8| {
        let mut report = report::read(&report_of(Vec::new())).unwrap().report;
        report.head.id = [id; 16];
        report::to_bytes(&report)
    };
    for at in 1..=100 {
        fs::write(path.join(format!("{at:03}-stays.wedjat")), bytes(at)).unwrap();
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for at in (0..).take_while(|_| !is_over.load(Relaxed)) {
                let name = path.join(format!("{:03}-goes.wedjat", at * 7 % 200));
                let other = path.join(format!("{:03}-goes.wedjat", at * 11 % 200));
                let report = bytes(200);
                let _ = match at % 8 {
                    0..3 => fs::write(&name, &report),
                    3 => fs::write(&name, &report[..report.len() / 2]),
                    4 => fs::rename(&name, &other),
                    5 => fs::remove_file(&name).or_else(|_| fs::remove_dir(&name)),
                    6 => std::os::unix::fs::symlink("nowhere", &name),
                    _ => fs::create_dir(&name),
                };
            }
        });
        for _ in 0..8 {
            let args = ["--no-cache", "--no-search", "--format", "ndjson"];
            let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
            command.args(args).arg(&path).stdin(Stdio::null());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let ran = finish(command.spawn().unwrap());
            assert!(
                matches!(ran.code, Some(0 | 1)),
                "{:?}: {}",
                ran.code,
                ran.err
            );
            let stays = ran.out.lines().filter(|line| {
                serde_json::from_str::<serde_json::Value>(line).expect("JSON");
                line.contains("-stays.wedjat")
            });
            assert_eq!(stays.count(), 100, "{}", ran.err);
        }
        is_over.store(true, Relaxed);
    });
}

#[test]
fn eight_commands_on_one_cache() {
    let folder = tempfile::tempdir().unwrap();
    let addresses: Vec<String> = CODE.step_by(16).map(|at| format!("{at:x}")).collect();
    let path = folder.path().join("addresses");
    fs::write(&path, addresses.join("\n")).unwrap();
    let begin = |cache: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
        command
            .args(cache)
            .args(["--debug", DSYM, "--address", "-"]);
        command.stdin(File::open(&path).unwrap());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let alone = finish(begin(&["--no-cache"])).out;
    assert!(alone.contains("kiosk"), "{alone}");
    let cache = folder.path().join("cache");
    let cache = ["--cache", cache.to_str().unwrap()];
    for _ in 0..4 {
        let all = [(); 8].map(|()| begin(&cache));
        for ran in all.map(finish) {
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
            assert!(ran.out == alone);
        }
        let files = walkdir::WalkDir::new(cache[1]).into_iter().flatten();
        let names = files.map(|file| file.file_name().to_str().unwrap().to_owned());
        let left: Vec<String> = names.filter(|name| name.ends_with(".new")).collect();
        assert_eq!(left, [""; 0]);
    }
}
