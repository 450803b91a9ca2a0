//! Debug files that are cut, changed, or get shorter while they are used.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

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
    let mut files = DebugFiles::new().system(false);
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
            stated: CODE.start,
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
