//! Files whose parts would each be looked for among all others: the time goes by their length.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wedjat::new;
use wedjat::report::{self, EventKind, Frame, Image, Report, Sample, Thread};

use super::{assembled, report_of};
use crate::deadline::finish;

/// Memory, KiB.
const MEMORY: u32 = 4_000_000;
/// Seconds of CPU, which other programs take nothing from. Each file takes a second or two, and fifteen or more where its
/// time goes by the square of its length.
const CPU: u32 = 8;

#[test]
fn the_time_goes_by_the_length_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let heaviest = "Event: cpu usage\nHeaviest stack for the target process:\n".to_owned()
        + &"  1  a [0x1000]\n".repeat(150_000);
    let processes = "Event: cpu usage\nSteps: 1 (1ms sampling interval)\nData Source: x\n"
        .to_owned()
        + &"A: b\n".repeat(60_000)
        + &"Powerstats for: a\n".repeat(60_000);
    let images = (1..40_000).map(|at| {
        new!(Image {
            name: format!("/x/{at}"),
            base: 0x1000 * at,
            size: 0x1000,
        })
    });
    // As many checkouts of this crate, and as many frames besides.
    let ours = (0..30_000).map(|at| ips_frame("wedjat::a", &format!("/f{at}/src/a.rs")));
    let others = vec![ips_frame("f", "/g/src/a.rs"); 30_000];
    let folders = ips(&[others, ours.collect()]);
    let deep = ips(&[vec![ips_frame("f", &("a/".repeat(100_000) + "a.c"))]]);
    let samples = stall(50_000, "/x/a");
    let unnamed = stall(10_000, &"a".repeat(400_000));
    let threads = panic(150_000);
    let shared = event(20_000);
    let graph = call_graph(50_000);
    let kept = kept(50_000);
    let files: [(&str, &[&str], &[u8]); 13] = [
        ("heaviest.spin", &[], heaviest.as_bytes()),
        ("processes.spin", &[], processes.as_bytes()),
        ("ways.wedjat", &["--top", "1"], &samples),
        ("boxes.wedjat", &["--format", "html"], &samples),
        ("unnamed.wedjat", &["--format", "html"], &unnamed),
        ("names.wedjat", &["--format", "json"], &one_address(20_000)),
        ("images.wedjat", &[], &report_of(images.collect())),
        ("folders.ips", &[], &folders),
        ("deep.ips", &["--source", root], &deep),
        ("threads.wedjat", &[], &threads),
        ("shared.json", &[], &shared),
        ("graph.txt", &[], graph.as_bytes()),
        ("kept.wedjat", &[], &kept),
    ];
    for (name, args, bytes) in files {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        ends_in_time(name, args, &path);
    }
    // Functions without a size, all at one address.
    let function = |at| format!("f{at}: .type f{at},@function\n");
    let functions: String = (0..150_000).map(function).collect();
    let workshop = assembled(&format!(".text\n{functions}nop\n"));
    let address = format!("{:#x}", workshop.address("a.so", "f0"));
    let address = ["--address", &address, "--debug"];
    ends_in_time("functions", &address, &workshop.path("a.so"));
}

#[track_caller]
fn ends_in_time(name: &str, args: &[&str], path: &Path) {
    let child = Command::new("bash")
        .args([
            "-c",
            &format!("ulimit -t {CPU} -v {MEMORY}; exec \"$@\""),
            "bash",
        ])
        .arg(env!("CARGO_BIN_EXE_symbolicate"))
        .arg("--no-cache")
        .args(args)
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let ran = finish(child.unwrap());
    assert!(matches!(ran.code, Some(0 | 1)), "{name}: {:?}", ran.code);
}

/// A crash in Apple's JSON, with threads of these frames.
fn ips(threads: &[Vec<Value>]) -> Vec<u8> {
    let threads = threads.iter().map(|frames| json!({ "frames": frames }));
    let body = json!({
        "threads": threads.collect::<Value>(),
        "usedImages": [{
            "base": 0x1000,
            "size": 0x100_0000,
            "path": "/x/a",
            "uuid": "11111111-2222-3333-4444-555555555555",
        }],
    });
    format!("{{\"bug_type\":\"309\"}}\n{body}\n").into_bytes()
}

/// An exception with as many frames as there are crashed threads without a stack.
fn event(count: usize) -> Vec<u8> {
    let frames = vec![json!({ "instruction_addr": "0x1000" }); count];
    let threads = vec![json!({ "crashed": true }); count];
    let event = json!({
        "exception": { "values": [{ "type": "A", "stacktrace": { "frames": frames } }] },
        "threads": { "values": threads },
    });
    event.to_string().into_bytes()
}

/// A call graph of `sample` with as many branches behind a function of a long name.
fn call_graph(count: usize) -> String {
    let name = "a".repeat(1 << 20);
    let branch = "    +   1 b  (in kiosk) + 32  [0x104c3c55c]\n".repeat(count);
    format!(
        "Analysis of sampling kiosk (pid 77) every 1 millisecond\nCall graph:\n    {count} Thread_1\n    + {count} {name}  (in dyld) + 1  [0x1a0018344]\n{branch}"
    )
}

/// A stall of as many samples that share a frame of a long name.
fn kept(count: usize) -> Vec<u8> {
    let named = new!(Frame {
        name: Some("a".repeat(1 << 20)),
        ..frame(0x1000)
    });
    let mut report = Report::default();
    report.event.get_or_insert_default().kind = EventKind::Stall;
    report.samples = vec![new!(Sample {
        count: 1,
        frames: vec![named],
    })];
    let sample = new!(Sample {
        count: 1,
        keep: 1,
        frames: vec![frame(0x1001)],
    });
    report.samples.extend(vec![sample; count]);
    report::to_bytes(&report)
}

fn ips_frame(symbol: &str, file: &str) -> Value {
    json!({ "imageOffset": 256, "imageIndex": 0, "symbol": symbol, "sourceFile": file, "sourceLine": 3 })
}

/// A stall of as many samples, each in a function of its own of the image of this name.
fn stall(count: u64, name: &str) -> Vec<u8> {
    let mut report = Report::default();
    report.event.get_or_insert_default().kind = EventKind::Stall;
    report.images.push(new!(Image {
        name: name.into(),
        base: 0x1000,
        size: 0x100_0000,
    }));
    let sample = |at: u64| {
        new!(Sample {
            count: 1,
            frames: vec![frame(0x1001 + at)],
        })
    };
    report.samples = (0..count).map(sample).collect();
    report.threads.push(new!(Thread {
        main: true,
        frames: vec![frame(0x1000)],
    }));
    report::to_bytes(&report)
}

/// A panic with as many threads, none of which is said to be the one.
fn panic(threads: usize) -> Vec<u8> {
    let mut report = Report::default();
    report.event.get_or_insert_default().kind = EventKind::Panic;
    report.threads = vec![Thread::default(); threads];
    report::to_bytes(&report)
}

/// A crash whose frames have one address and as many names.
fn one_address(count: u64) -> Vec<u8> {
    let mut report = Report::default();
    report.event.get_or_insert_default().kind = EventKind::Crash;
    let named = |at| {
        new!(Frame {
            name: Some(format!("n{at}")),
            image: None,
            ..frame(1)
        })
    };
    report.threads.push(new!(Thread {
        main: true,
        frames: (0..count).map(named).collect(),
    }));
    report::to_bytes(&report)
}

fn frame(pc: u64) -> Frame {
    new!(Frame { pc, image: Some(0) })
}
