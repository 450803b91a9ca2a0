//! The `symbolicate` command as its users meet it: exit codes, messages, and what is on which stream.

mod addresses;
mod calls;
mod reports;
mod streams;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use wedjat::new;
use wedjat::report::{End, Event, EventKind, Found, Frame, Image, Report, Thread};

const DSYM: &str = "arm64/kiosk.dSYM";

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/macho")
        .join(path)
}

fn symbolicate(args: &[&str]) -> Output {
    with_input(args, b"")
}

fn with_input(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input); // the command may not want to read it
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn assert_fails(output: &Output, code: i32, message: &str) {
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains(message),
        "{:?} is not in {:?}",
        message,
        text(&output.stderr)
    );
}

/// The UUID of the arm64 fixture, from LLVM's word.
fn uuid() -> Vec<u8> {
    let line = std::fs::read_to_string(fixture("golden/arm64.uuid")).unwrap();
    let hex: String = line.chars().filter(char::is_ascii_hexdigit).collect();
    assert_eq!(hex.len(), 32, "{line}");
    (0..16)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// The first golden row whose chain is three deep or more.
fn golden_row() -> (u64, Vec<Value>) {
    let golden = std::fs::read_to_string(fixture("golden/arm64.ndjson")).unwrap();
    let rows = golden
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let row = rows
        .filter(|row| {
            row["frames"]
                .as_array()
                .unwrap()
                .iter()
                .all(|f| f["line"] != 0)
        })
        .find(|row| row["frames"].as_array().unwrap().len() >= 3);
    let row = row.unwrap();
    let address = u64::from_str_radix(
        row["address"].as_str().unwrap().trim_start_matches("0x"),
        16,
    )
    .unwrap();
    (address, row["frames"].as_array().unwrap().clone())
}

/// A stall with one frame in the fixture, loaded at a slide.
fn stall(id: Vec<u8>) -> Report {
    let slide = 0x4c3c000;
    let mut report = Report::default();
    report.end = Some(new!(End {
        closed_by: "writer".into(),
    }));
    report.head.arch = "arm64".into();
    report.head.app.name = "kiosk".into();
    report.event = Some(new!(Event {
        kind: EventKind::Stall,
    }));
    let frame = new!(Frame {
        pc: golden_row().0 + slide,
        found: Found::Context,
        image: Some(0),
    });
    report.threads.push(new!(Thread {
        main: true,
        frames: vec![frame],
    }));
    report.images.push(new!(Image {
        name: "/Applications/Kiosk.app/Contents/MacOS/kiosk".into(),
        id,
        base: 0x1_0000_0000 + slide,
        base_svma: 0x1_0000_0000,
        size: 0x10000,
    }));
    report
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}
