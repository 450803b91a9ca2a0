//! What is shown of a report: whole, cut anywhere, damaged, or written by another recorder.

use std::process::Output;

use serde_json::Value;
use wedjat::new;
use wedjat::report::{self, EventKind, Frame, Sample, ThreadState, WalkEnd};

use super::{
    DSYM, assert_fails, fixture, golden_row, stall, symbolicate, text, uuid, with_input, written,
};

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
    assert_eq!(json["threads"][0]["frames"][0], 0);
    let frames = json["frames"][0]["frames"].as_array().unwrap();
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
            with_names += usize::from(json["frames"][0]["frames"][0]["function"].is_string());
        }
    }
    assert!(with_names > 0);
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

/// A walk that ended before the thread's first function says so, under each stack that is shown.
#[test]
fn a_cut_walk_is_shown_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let shown = |thread: WalkEnd, sample: WalkEnd| {
        let mut report = stall(uuid());
        report.threads[0].end = Some(thread);
        report.samples.push(new!(Sample {
            count: 1,
            frames: report.threads[0].frames.clone(),
            end: Some(sample),
        }));
        let path = written(folder.path(), "cut.wedjat", &report::to_bytes(&report));
        ["text", "html", "json"].map(|format| {
            let output = symbolicate(&["--format", format, &path]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            text(&output.stdout)
        })
    };
    let count = |shown: &str, what| shown.matches(what).count();
    let [page, html, json] = shown(WalkEnd::Root, WalkEnd::Root);
    assert_eq!(count(&page, "callers are missing"), 0, "{page}");
    assert_eq!(count(&html, "Callers are missing"), 0, "{html}");
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
    let folder = tempfile::tempdir().unwrap();
    let mut odd = stall(uuid());
    let frames = odd.threads[0].frames.clone();
    for at in 0..3 {
        odd.samples.push(new!(Sample {
            at: std::time::Duration::from_nanos(at),
            count: u64::MAX - at,
            frames: vec![new!(Frame {
                pc: frames[0].pc + 4 * at,
                ..frames[0].clone()
            })],
        }));
    }
    let word = |key: &str, word: &str| (key.to_owned(), report::Value::Text(word.to_owned()));
    let event = odd.event.as_mut().unwrap();
    event.kind = EventKind::Other;
    event.extra.push(word("type", "earthquake"));
    odd.threads[0].end = Some(WalkEnd::Other);
    odd.threads[0].extra.push(word("end", "tsunami"));
    odd.threads[0].state = Some(ThreadState::Other);
    odd.threads[0].extra.push(word("state", "asleep"));
    let bytes = report::to_bytes(&odd);
    let path = written(folder.path(), "odd.wedjat", &bytes);
    for format in ["text", "json", "html"] {
        let output = symbolicate(&["--format", format, &path]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let shown = text(&output.stdout);
        assert!(shown.contains("earthquake"), "{format}: {shown}");
        assert!(shown.contains("tsunami"), "{format}: {shown}");
        assert!(shown.contains("asleep"), "{format}: {shown}");
    }
    for format in ["folded", "firefox"] {
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
    assert_eq!(one["threads"][0]["state"], "asleep");

    // Offsets in words are those in the file.
    let gap = [&bytes[..], b"garbage", &bytes].concat();
    let gap = written(folder.path(), "gap.wedjat", &gap);
    let next = format!("to the next section at byte {} ", bytes.len() + 7);
    assert_fails(&symbolicate(&[&gap]), 1, &next);
}

/// With one report and with several.
#[test]
fn reports_that_are_all_left_out_are_an_empty_list() {
    let crash = fixture("../foreign/crash.ips");
    let crash = crash.to_str().unwrap();
    for reports in [&[crash][..], &[crash, crash]] {
        let args = [&["--format", "json", "--type", "stall"], reports].concat();
        let output = symbolicate(&args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json, serde_json::json!([]));
    }
}

/// A report that has lost its event to damage may be one that is asked for.
#[test]
fn a_report_is_not_left_out_for_what_damage_has_taken() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = report::to_bytes(&stall(uuid()));
    let event = bytes.windows(6).position(|six| six == b"\xa5event");
    let cut = written(folder.path(), "a.wedjat", &bytes[..event.unwrap() - 1]);
    let whole = written(folder.path(), "b.wedjat", &bytes);
    let output = symbolicate(&["--type", "crash", &cut, &whole]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).matches("Report Version:").count(), 1);

    // So may one without a time and a version; one that is whole has none, and is not.
    let options = ["--since=2024-01-01", "--version-is=2", "--type=stall"];
    let cut = written(folder.path(), "c.wedjat", &bytes[..bytes.len() - 1]);
    let output = symbolicate(&[&options[..], &[&cut, &whole]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).matches("Report Version:").count(), 1);
}

#[test]
fn async_callers_are_counted_where_a_report_has_some() {
    let folder = tempfile::tempdir().unwrap();
    let mut of_task = stall(uuid());
    of_task.threads[0].tasks.push(new!(report::AsyncChain {
        callers: vec![0x1100, 0x1200],
    }));
    for (of, expected) in [(of_task, true), (stall(uuid()), false)] {
        let file = written(folder.path(), "a.wedjat", &report::to_bytes(&of));
        let output = symbolicate(&["--inspect", &file]);
        let said = text(&output.stdout);
        assert_eq!(said.contains("async callers: 2\n"), expected, "{said}");
    }
}

#[test]
fn each_report_of_a_stream_is_inspected() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = report::to_bytes(&stall(uuid()));
    let both = written(folder.path(), "a.wedjat", &[&bytes[..], &bytes].concat());
    let output = symbolicate(&["--inspect", &both]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(!text(&output.stdout).contains("damage"));
}
