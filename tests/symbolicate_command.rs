//! The `symbolicate` command as its users meet it: exit codes, messages, and what is on which stream.
#![cfg(feature = "symbolicate")]

mod deadline;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use wedjat::report::model::{End, Event, EventKind, Found, Frame, Image, Report, Thread};
use wedjat::report::{self};

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
    report.end = Some(End {
        closed_by: "writer".into(),
        ..End::default()
    });
    report.head.arch = "arm64".into();
    report.head.app.name = "kiosk".into();
    report.event = Some(Event {
        kind: EventKind::Stall,
        ..Event::default()
    });
    let frame = Frame {
        pc: golden_row().0 + slide,
        found: Found::Context,
        image: Some(0),
        ..Frame::default()
    };
    report.threads.push(Thread {
        main: true,
        frames: vec![frame],
        ..Thread::default()
    });
    report.images.push(Image {
        name: "/Applications/Kiosk.app/Contents/MacOS/kiosk".into(),
        id,
        base: 0x1_0000_0000 + slide,
        stated: 0x1_0000_0000,
        size: 0x10000,
        ..Image::default()
    });
    report
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_report_and_its_dsym_give_functions_files_and_lines() {
    let folder = tempfile::tempdir().unwrap();
    let report = written(folder.path(), "a.wedjat", &report::to_bytes(&stall(uuid())));
    let dsym = fixture(DSYM);
    let dsym = dsym.to_str().unwrap();
    let (_, truth) = golden_row();

    let output = symbolicate(&["--dsym", dsym, &report]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let mut rest = shown.as_str();
    for frame in &truth {
        let file = frame["file"]
            .as_str()
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned();
        let place = format!("({file}:{})", frame["line"]);
        let at = rest
            .find(&place)
            .unwrap_or_else(|| panic!("{place} is not in order in\n{shown}"));
        rest = &rest[at..];
    }
    assert!(shown.contains("\nThread 0:\n0   kiosk"), "{shown}");
    assert!(shown.contains("\nBinary Images:\n"), "{shown}");

    let output = symbolicate(&["--debug", dsym, "--format", "json", "--strict", &report]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let frames = json["threads"][0]["frames"][0]["frames"]
        .as_array()
        .unwrap();
    for (ours, theirs) in frames.iter().zip(&truth) {
        assert_eq!(
            (
                &ours["mangled"],
                &ours["file"],
                &ours["line"],
                &ours["inlined"]
            ),
            (
                &theirs["linkage"],
                &theirs["file"],
                &theirs["line"],
                &theirs["inlined"]
            )
        );
    }
    assert_eq!(frames.len(), truth.len());

    // The same from standard input, a line a report.
    let output = with_input(
        &["--debug", dsym, "--format", "ndjson", "-"],
        &std::fs::read(&report).unwrap(),
    );
    assert_eq!(output.status.code(), Some(0));
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["threads"], json["threads"]);

    // Folded: rootmost first.
    let output = symbolicate(&["--debug", dsym, "--format", "folded", &report]);
    let functions: Vec<&str> = truth
        .iter()
        .rev()
        .map(|f| f["function"].as_str().unwrap())
        .collect();
    let line = text(&output.stdout);
    assert!(
        line.starts_with(functions[0]) && line.trim_end().ends_with(" 1"),
        "{line}"
    );
    assert_eq!(
        line.trim_end().trim_end_matches(" 1").split(';').count(),
        functions.len()
    );
}

#[test]
fn what_is_not_there_or_no_report_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let empty = written(folder.path(), "empty", b"");
    let jpeg = written(
        folder.path(),
        "photo.jpg",
        b"\xff\xd8\xff\xe0\x00\x10JFIF\x00",
    );
    assert_fails(&symbolicate(&[]), 2, "Usage");
    assert_fails(&symbolicate(&["--no-such-option"]), 2, "--no-such-option");
    assert_fails(&symbolicate(&["/no/such/report"]), 3, "/no/such/report");
    assert_fails(&symbolicate(&[&empty]), 3, "empty");
    assert_fails(&symbolicate(&[&jpeg]), 3, "JPEG");
    assert_fails(&with_input(&["-"], b""), 3, "standard input");
    assert_fails(
        &symbolicate(&[folder.path().to_str().unwrap()]),
        3,
        "no reports",
    );
    assert_fails(
        &symbolicate(&["--debug", "/no/such/dsym", &empty]),
        2,
        "/no/such/dsym",
    );
    assert_fails(
        &symbolicate(&["--debug", &jpeg, "--address", "1000"]),
        3,
        "JPEG",
    );
    let dsym = fixture(DSYM);
    assert_fails(
        &symbolicate(&["--debug", dsym.to_str().unwrap(), "--address", "xyz"]),
        2,
        "xyz",
    );
}

#[test]
fn one_unreadable_report_does_not_keep_the_others_from_being_read() {
    let folder = tempfile::tempdir().unwrap();
    written(
        folder.path(),
        "1.wedjat",
        b"\xff\xd8\xff\xe0\x00\x10JFIF\x00",
    );
    written(folder.path(), "2.wedjat", &report::to_bytes(&stall(uuid())));
    let dsym = fixture(DSYM);
    let output = symbolicate(&[
        "--debug",
        dsym.to_str().unwrap(),
        "--format",
        "ndjson",
        folder.path().to_str().unwrap(),
    ]);
    assert_fails(&output, 1, "JPEG");
    assert_eq!(text(&output.stdout).lines().count(), 1);
}

/// Cut anywhere, a report gives what stands before the cut, says what is missing, and never 0.
#[test]
fn a_report_cut_at_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let whole = report::to_bytes(&stall(uuid()));
    let dsym = fixture(DSYM);
    let mut with_names = 0;
    for cut in 0..whole.len() {
        let path = written(folder.path(), "cut.wedjat", &whole[..cut]);
        let output = symbolicate(&[
            "--debug",
            dsym.to_str().unwrap(),
            "--format",
            "ndjson",
            &path,
        ]);
        let code = output.status.code();
        assert!(
            code == Some(1) || code == Some(3),
            "{cut}: {code:?} {}",
            text(&output.stderr)
        );
        assert!(!output.stderr.is_empty());
        assert_eq!(code == Some(3), output.stdout.is_empty(), "{cut}");
        if let Some(line) = text(&output.stdout).lines().next() {
            let json: Value = serde_json::from_str(line).unwrap();
            assert!(!json["damage"].as_array().unwrap().is_empty());
            with_names +=
                usize::from(json["threads"][0]["frames"][0]["frames"][0]["function"].is_string());
        }
    }
    assert!(with_names > 0);
}

#[test]
fn a_dsym_of_another_uuid_is_named_with_the_uuid_to_look_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = uuid();
    other[15] ^= 0xff;
    let report = written(
        folder.path(),
        "a.wedjat",
        &report::to_bytes(&stall(other.clone())),
    );
    let dsym = fixture(DSYM);
    let dsym = dsym.to_str().unwrap();
    let wanted = wedjat::symbolicate::id_text(&other);
    let output = symbolicate(&["--debug", dsym, &report]);
    assert_fails(&output, 0, &wanted);
    assert!(
        text(&output.stderr).contains(&wedjat::symbolicate::id_text(&uuid())),
        "the one that was found"
    );
    assert!(!text(&output.stdout).contains(".c:"));
    assert_fails(
        &symbolicate(&["--debug", dsym, "--strict", &report]),
        1,
        &wanted,
    );
    let listed = symbolicate(&["--debug", dsym, "--list-missing", &report]);
    assert_eq!(listed.status.code(), Some(0));
    assert_eq!(
        text(&listed.stdout)
            .lines()
            .filter(|line| line.contains(&wanted))
            .count(),
        1
    );
    // A folder without debug files.
    let nothing = tempfile::tempdir().unwrap();
    let output = symbolicate(&[
        "--debug",
        nothing.path().to_str().unwrap(),
        "--strict",
        &report,
    ]);
    assert_fails(&output, 1, "no debug files");
    assert!(text(&output.stderr).contains(&wanted));
}

#[test]
fn addresses_in_place_of_atos() {
    let dsym = fixture(DSYM);
    let dsym = dsym.to_str().unwrap();
    let (address, truth) = golden_row();
    let expected: Vec<String> = truth
        .iter()
        .map(|f| {
            format!(
                "(in kiosk) ({}:{})",
                f["file"].as_str().unwrap().rsplit('/').next().unwrap(),
                f["line"]
            )
        })
        .collect();
    let slide = 0x4c3c000;
    for args in [
        vec!["--address".to_owned(), format!("{address:#x}")],
        vec![
            "--load-address".into(),
            format!("{:#x}", 0x1_0000_0000u64 + slide),
            "--address".into(),
            format!("{:x}", address + slide),
        ],
    ] {
        let mut all = vec!["--debug", dsym, "--arch", "arm64"];
        all.extend(args.iter().map(String::as_str));
        let output = symbolicate(&all);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let shown = text(&output.stdout);
        assert_eq!(shown.lines().count(), expected.len());
        assert!(
            shown
                .lines()
                .zip(&expected)
                .all(|(line, end)| line.ends_with(end)),
            "{shown}"
        );
    }
    // A stream: an answer for every line, in order; nothing known is no failure.
    let input = format!("{address:#x}\n0x1\n\nnonsense\n");
    let output = with_input(
        &["--debug", dsym, "--format", "ndjson", "--address", "-"],
        input.as_bytes(),
    );
    assert_eq!(output.status.code(), Some(0));
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["frames"].as_array().unwrap().len(), truth.len());
    assert_eq!(
        lines[1],
        serde_json::json!({"address": "0x1", "frames": []})
    );
    assert_eq!(lines[2]["frames"], serde_json::json!([]));
}

/// A stream of 100,000 addresses, as text in atos' layout and as ndjson, against LLVM's word on each.
#[test]
fn a_hundred_thousand_addresses() {
    let golden = std::fs::read_to_string(fixture("golden/arm64.ndjson")).unwrap();
    let rows: Vec<Value> = golden
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let dsym = fixture(DSYM);
    let dsym = dsym.to_str().unwrap();
    let queries = || rows.iter().cycle().take(100_000);
    let input: String = queries()
        .map(|row| format!("{}\n", row["address"].as_str().unwrap()))
        .collect();
    let output = with_input(
        &["--debug", dsym, "--format", "ndjson", "--address", "-"],
        input.as_bytes(),
    );
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    assert_eq!(shown.lines().count(), 100_000);
    let mut known: HashMap<&str, &Value> = HashMap::new();
    for (line, row) in shown.lines().zip(queries()) {
        // Each answer that is another text than before is held against the truth.
        if known.insert(line, row).is_some() {
            continue;
        }
        let ours: Value = serde_json::from_str(line).unwrap();
        assert_eq!(ours["address"], row["address"]);
        let frames = ours["frames"].as_array().unwrap();
        let truth = row["frames"].as_array().unwrap();
        assert_eq!(frames.len(), truth.len(), "{line}");
        for (ours, theirs) in frames.iter().zip(truth) {
            assert_eq!(ours["file"], theirs["file"]);
            assert_eq!(
                ours["line"].as_u64().unwrap_or(0),
                theirs["line"].as_u64().unwrap()
            );
            assert_eq!(ours["inlined"], theirs["inlined"]);
        }
    }
    assert!(known.len() <= rows.len());

    let output = with_input(&["--debug", dsym, "--address", "-"], input.as_bytes());
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    let answers: Vec<&str> = shown.trim_end().split("\n\n").collect();
    assert_eq!(answers.len(), 100_000);
    for (answer, row) in answers.iter().zip(queries()).take(rows.len()) {
        let truth = row["frames"].as_array().unwrap();
        assert_eq!(answer.lines().count(), truth.len());
        for (line, frame) in answer.lines().zip(truth) {
            let file = frame["file"].as_str().unwrap().rsplit('/').next().unwrap();
            let end = format!(" (in kiosk) ({file}:{})", frame["line"]);
            assert!(line.ends_with(&end), "{line} {end}");
        }
    }
}

/// Names and paths are strangers' bytes: none of them may move the cursor.
#[test]
fn terminal_escapes_never_reach_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = stall(vec![7; 16]);
    let evil = "\x1b[2J\x1b]0;owned\x07\u{9b}31m\u{202e}";
    report.head.app.name = evil.into();
    report.images[0].name = evil.into();
    report.threads[0].name = Some(evil.into());
    report.threads[0].frames[0].name = Some(evil.into());
    let path = written(
        folder.path(),
        "evil\x1b[2J.wedjat",
        &report::to_bytes(&report),
    );
    for args in [
        &["--color", "never", &*path][..],
        &["--list-missing", &path],
        &["--inspect", &path],
    ] {
        let output = symbolicate(args);
        for stream in [text(&output.stdout), text(&output.stderr)] {
            assert!(
                !stream
                    .chars()
                    .any(|c| c != '\n' && c != '\t' && c.is_control()),
                "{args:?}: {stream:?}"
            );
            assert!(!stream.contains('\u{202e}'));
        }
    }
}

#[test]
fn help_man_page_and_completions() {
    let help = symbolicate(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for option in [
        "--debug",
        "--dsym",
        "--address",
        "--load-address",
        "--list-missing",
        "Exit status",
    ] {
        assert!(text(&help.stdout).contains(option), "{option}");
    }
    assert!(text(&symbolicate(&["--generate", "man"]).stdout).contains(".TH symbolicate"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(text(&symbolicate(&["--generate", shell]).stdout).contains("no-demangle"));
    }
}

#[test]
fn a_report_that_lies_too_deep_is_not_left_out_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d/".repeat(70));
    std::fs::create_dir_all(&deep).unwrap();
    let bytes = report::to_bytes(&stall(uuid()));
    written(&deep, "a.wedjat", &bytes);
    let output = symbolicate(&[folder.path().to_str().unwrap()]);
    assert_fails(&output, 3, "more than 64 folders deep");
    written(folder.path(), "b.wedjat", &bytes);
    let output = symbolicate(&[folder.path().to_str().unwrap()]);
    assert_fails(&output, 1, "more than 64 folders deep");
    assert!(text(&output.stdout).contains("kiosk"));
}

/// What a call names and cannot be done is reported, and what needs a path that is not there fails.
#[test]
fn nothing_that_the_call_names_is_left_out_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let report = written(folder.path(), "a.wedjat", &report::to_bytes(&stall(uuid())));
    let output = symbolicate(&["--source", "/no/such/folder", &report]);
    assert_fails(&output, 2, "--source /no/such/folder: No such file");
    let output = symbolicate(&["--debug", "/no/such/file", "--address", "0x10"]);
    assert_fails(&output, 2, "--debug /no/such/file: No such file");
    let output = symbolicate(&["--list-missing", "--format", "json", &report]);
    assert_fails(&output, 2, "--list-missing prints text");
    let file = written(folder.path(), "file", b"x");
    let output = symbolicate(&["--cache", &format!("{file}/below"), &report]);
    assert_fails(&output, 0, "going on without");
    assert!(text(&output.stdout).contains("kiosk"));
    if !cfg!(feature = "parquet") {
        let output = symbolicate(&["--format", "parquet", &report]);
        assert_fails(&output, 2, "--features parquet");
    }

    let dsym = fixture(DSYM);
    let dsym = dsym.to_str().unwrap();
    let (address, _) = golden_row();
    let address = format!("{address:#x}");
    let output = with_input(
        &["--debug", dsym, "--address", "-", &address],
        b"nonsense\n0x1\n\n",
    );
    assert_fails(&output, 0, "1 line(s) held no address; the first: nonsense");
    let shown = text(&output.stdout);
    let answers: Vec<&str> = shown.split("\n\n").collect();
    assert_eq!(answers[..2], ["nonsense", "0x1 (in kiosk)"]);
    assert!(answers[2].contains("(in kiosk) ("), "{shown}");
    let output = symbolicate(&["--debug", dsym, "--address", "-", "nonsense"]);
    assert_fails(&output, 2, "nonsense: not a hexadecimal address");
}

#[test]
fn a_damaged_report_is_inspected_and_its_damage_listed() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = report::to_bytes(&stall(uuid()));
    let whole = written(folder.path(), "a.wedjat", &bytes);
    let cut = written(folder.path(), "b.wedjat", &bytes[..bytes.len() - 1]);
    let of_whole = symbolicate(&["--inspect", &whole]);
    assert_eq!(of_whole.status.code(), Some(0));
    let of_cut = symbolicate(&["--inspect", &cut]);
    assert_eq!(of_cut.status.code(), Some(1), "{}", text(&of_cut.stderr));
    assert!(text(&of_cut.stdout).contains("damage: at byte"));
    let piped = with_input(&["--inspect", "-"], &bytes);
    assert_eq!(piped.status.code(), Some(0), "{}", text(&piped.stderr));
    let body = |output: &Output| text(&output.stdout).split_once('\n').unwrap().1.to_owned();
    assert_eq!(body(&piped), body(&of_whole));
}

/// A full disk is no success, and a pipe that the shell made is a stream as standard input is.
#[cfg(target_os = "linux")]
#[test]
fn full_disks_and_the_pipes_of_shells() {
    let folder = tempfile::tempdir().unwrap();
    let report = written(folder.path(), "a.wedjat", &report::to_bytes(&stall(uuid())));
    for args in [
        vec![report.as_str()],
        vec!["--inspect", &report],
        vec!["--list-missing", &report],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
            .args(&args)
            .stdout(full.unwrap())
            .stderr(Stdio::piped())
            .output();
        assert_fails(&output.unwrap(), 3, "No space left on device");
    }
    // A reader that has seen enough (`head -1`) is no failure.
    for format in [
        "text",
        "json",
        "ndjson",
        "folded",
        "flamegraph",
        "speedscope",
        "firefox",
        "html",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
            .args(["--format", format, &report])
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{format}: {printed}");
        assert!(!printed.contains("can't write"), "{format}: {printed}");
    }
    let plain = symbolicate(&[&report]);
    for way in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let output = with_input(&[way], &std::fs::read(&report).unwrap());
        assert_eq!(text(&output.stdout), text(&plain.stdout), "{way}");
    }
    let output = Command::new("bash")
        .args([
            "-c",
            "\"$0\" <(cat \"$1\")",
            env!("CARGO_BIN_EXE_symbolicate"),
            &report,
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), text(&plain.stdout));
}

/// A walk that ended before the thread's first function says so, under each stack that is shown.
#[test]
fn a_cut_walk_is_shown_as_one() {
    use wedjat::report::{Sample, WalkEnd};
    let folder = tempfile::tempdir().unwrap();
    let shown = |thread: WalkEnd, sample: WalkEnd| {
        let mut report = stall(uuid());
        report.threads[0].end = Some(thread);
        report.samples.push(Sample {
            count: 1,
            frames: report.threads[0].frames.clone(),
            end: Some(sample),
            ..Sample::default()
        });
        let path = written(folder.path(), "cut.wedjat", &report::to_bytes(&report));
        ["text", "html", "json"].map(|format| {
            let output = symbolicate(&["--format", format, &path]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            text(&output.stdout)
        })
    };
    let count = |shown: &str, what| shown.matches(what).count();
    let [page, html, json] = shown(WalkEnd::Root, WalkEnd::Root);
    assert_eq!(count(&page, "the stack goes on"), 0, "{page}");
    assert_eq!(count(&html, "The stack goes on"), 0, "{html}");
    // Of the thread and of its sample: json says what the report says.
    assert_eq!(count(&json, "\"root\""), 2, "{json}");
    let [page, html, json] = shown(WalkEnd::Truncated, WalkEnd::NoUnwindInfo);
    for shown in [page, html, json] {
        assert_eq!(count(&shown, "truncated"), 1, "{shown}");
        assert_eq!(count(&shown, "no unwind info"), 1, "{shown}");
    }
}

/// What only another writer, or damage, can put into a report that is whole all the same.
#[test]
fn reports_that_our_recorder_would_not_write() {
    use wedjat::report::{Sample, WalkEnd};
    let folder = tempfile::tempdir().unwrap();
    let mut odd = stall(uuid());
    let frames = odd.threads[0].frames.clone();
    for at in 0..3 {
        odd.samples.push(Sample {
            at: std::time::Duration::from_nanos(at),
            count: u64::MAX - at,
            frames: vec![Frame {
                pc: frames[0].pc + 4 * at,
                ..frames[0].clone()
            }],
            ..Sample::default()
        });
    }
    let word = |key: &str, word: &str| (key.to_owned(), report::Value::Text(word.to_owned()));
    let event = odd.event.as_mut().unwrap();
    event.kind = EventKind::Other;
    event.extra.push(word("type", "earthquake"));
    odd.threads[0].end = Some(WalkEnd::Other);
    odd.threads[0].extra.push(word("end", "tsunami"));
    let bytes = report::to_bytes(&odd);
    let path = written(folder.path(), "odd.wedjat", &bytes);
    for format in ["text", "json", "html"] {
        let output = symbolicate(&["--format", format, &path]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let shown = text(&output.stdout);
        assert!(shown.contains("earthquake"), "{format}: {shown}");
        assert!(shown.contains("tsunami"), "{format}: {shown}");
    }
    for format in ["folded", "flamegraph", "speedscope", "firefox"] {
        let output = symbolicate(&["--format", format, &path]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }

    // Several reports in one file are one document, too.
    let both = written(folder.path(), "both.wedjat", &[&bytes[..], &bytes].concat());
    let output = symbolicate(&["--format", "json", &both]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all.as_array().map(Vec::len), Some(2));
    let output = symbolicate(&["--format", "json", &path]);
    let one: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all[0]["event"], one["event"]);

    // Offsets in words are those in the file.
    let gap = [&bytes[..], b"garbage", &bytes].concat();
    let gap = written(folder.path(), "gap.wedjat", &gap);
    let next = format!("to the next section at byte {} ", bytes.len() + 7);
    assert_fails(&symbolicate(&[&gap]), 1, &next);
}

/// Who set the variable expects downloads.
#[cfg(not(feature = "debuginfod"))]
#[test]
fn a_build_without_debuginfod_says_so_where_servers_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let report = report::to_bytes(&stall(uuid()));
    let report = written(folder.path(), "a.wedjat", &report);
    for (urls, is_reported) in [
        (Some("https://localhost:1"), true),
        (Some(""), false),
        (None, false),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
        command.arg("--no-cache").arg(&report);
        command.env_remove("DEBUGINFOD_URLS");
        command.envs(urls.map(|urls| ("DEBUGINFOD_URLS", urls)));
        let output = command.output().unwrap();
        let printed = text(&output.stderr);
        assert_eq!(
            printed.contains("no feature debuginfod"),
            is_reported,
            "{printed}"
        );
    }
}
