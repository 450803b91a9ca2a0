//! Many reports: in order, from streams, and stopped by Ctrl-C.

use crate::deadline;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use serde_json::Value;
use wedjat::new;
use wedjat::report::{
    End, Event, EventKind, Frame, Image, Report, StallEnd, StallOutcome, Thread, to_bytes,
};

fn report(number: u64) -> Vec<u8> {
    let mut report = Report::default();
    report.head.pid = number;
    report.head.app.name = "app".into();
    report.event = Some(new!(Event {
        kind: EventKind::Stall,
    }));
    report.images.push(new!(Image {
        name: "/opt/app/app".into(),
        base: 0x1000,
        size: 0x1000,
    }));
    report.threads.push(new!(Thread {
        main: true,
        frames: vec![new!(Frame {
            pc: 0x1000 + number % 7,
            image: Some(0),
            name: Some(format!("stall_{}", number % 7)),
        })],
    }));
    report.stall_end = Some(new!(StallEnd {
        duration: std::time::Duration::from_millis(number),
        how: StallOutcome::Recovered,
    }));
    report.end = Some(End::default());
    to_bytes(&report)
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
    command.args(["--no-cache", "--jobs", "3"]).args(args);
    deadline::as_at_a_terminal(&mut command);
    command
}

/// The process ids in ndjson, in order.
fn numbers(out: &Output) -> Vec<u64> {
    let lines = out.stdout.split(|c| *c == b'\n').filter(|l| !l.is_empty());
    lines
        .map(|line| {
            serde_json::from_slice::<Value>(line).unwrap()["pid"]
                .as_u64()
                .unwrap()
        })
        .collect()
}

#[test]
fn a_folder_is_printed_in_order_of_name() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..700 {
        let name = format!("{number:04}.wedjat");
        std::fs::write(folder.path().join(name), report(number)).unwrap();
    }
    let path = folder.path().to_str().unwrap();
    let out = command(&["--format", "ndjson", path]).output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    assert_eq!(numbers(&out), (0..700).collect::<Vec<_>>());

    let out = command(&["--format", "json", "--top", "3", path])
        .output()
        .unwrap();
    let top: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(
        (top["reports"].as_u64(), top["groups"].as_u64()),
        (Some(700), Some(7))
    );
    let worst = &top["top"][0];
    // 6, 13, …, 699
    assert_eq!(worst["stack"][0], "stall_6");
    assert_eq!(
        (worst["count"].as_u64(), worst["worst"].as_u64()),
        (Some(100), Some(699_000_000))
    );
    assert_eq!(worst["total"], 100 * (6 + 699) / 2 * 1_000_000u64);
    assert!(worst["example"].as_str().unwrap().ends_with("/0699.wedjat"));

    // Every report names its group.
    let all = command(&["--format", "ndjson", path]).output().unwrap();
    let line = all.stdout.split(|c| *c == b'\n').nth(6).unwrap();
    let sixth: Value = serde_json::from_slice(line).unwrap();
    assert_eq!(sixth["group"], worst["group"]);
}

#[test]
fn reports_put_behind_each_other_are_all_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.wedjat");
    let mut bytes: Vec<u8> = (0..300).flat_map(report).collect();
    std::fs::write(&file, &bytes).unwrap();
    let out = command(&["--format", "ndjson", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert_eq!(numbers(&out), (0..300).collect::<Vec<_>>());
    // One of them is cut, as when the app was killed: the others are whole.
    bytes.truncate(bytes.len() - 40);
    bytes.extend((300..310).flat_map(report));
    let out = with_input(&["--format", "ndjson", "-"], &bytes);
    assert_eq!(out.status.code(), Some(1));
    // The report behind the cut may lose its head to it: its first bytes look like what is missing.
    let found = numbers(&out);
    assert_eq!(found.len(), 310);
    assert!(
        (0..310).all(|n| n == 300 || found[n as usize] == n),
        "{found:?}"
    );
}

#[test]
fn a_file_of_many_megabytes_is_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.wedjat");
    let one: Vec<u8> = (0..7).flat_map(report).collect();
    let count = 7 * ((5 << 20) / one.len() + 1);
    std::fs::write(&file, one.repeat(count / 7)).unwrap();
    let out = command(&["--format", "json", "--top", "9", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0));
    let top: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(top["reports"].as_u64(), Some(count as u64));
    assert_eq!(top["groups"], 7);
}

/// Runs it over a stream that does not end, until it has taken three reports in.
fn endless(args: &[&str]) -> (Child, ChildStdin) {
    let mut child = command(args)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for number in 0..3 {
        input.write_all(&report(number)).unwrap();
        input.flush().unwrap();
    }
    (child, input)
}

fn interrupt(child: &Child) {
    // SAFETY: a process of ours that was not waited for yet; nothing else is touched.
    let sent = unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    assert_eq!(sent, 0);
}

#[test]
fn lines_come_as_reports_come_and_ctrl_c_leaves_them() {
    let (mut child, input) = endless(&["--format", "ndjson"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    for number in 0..3 {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["pid"], number);
    }
    interrupt(&child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    let out = child.wait_with_output().unwrap();
    drop(input);
    assert_eq!(out.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&out.stderr).contains("3 reports done"));
}

fn with_input(args: &[&str], bytes: &[u8]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    std::fs::write(&file, bytes).unwrap();
    let input = std::fs::File::open(Path::new(&file)).unwrap();
    command(args).stdin(input).output().unwrap()
}
