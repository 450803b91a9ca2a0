//! `--address` in place of atos: single addresses, and a stream of a hundred thousand.

use std::collections::HashMap;

use serde_json::Value;

use super::{DSYM, fixture, golden_row, symbolicate, text, with_input};

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

/// A section that lies behind the end of its file.
#[test]
fn what_is_not_read_in_whole_is_said_in_text_and_in_a_field() {
    use object::{Object as _, ObjectSection as _};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kiosk");
    let mut bytes = std::fs::read(fixture(DSYM).join("Contents/Resources/DWARF/kiosk")).unwrap();
    let (address, _) = golden_row();
    let address = format!("{address:#x}");
    let range = {
        let file = object::File::parse(&*bytes).unwrap();
        let lines = file.section_by_name("__debug_ranges").unwrap();
        lines.file_range().unwrap()
    };
    let command = |format: &str| {
        let path = path.to_str().unwrap();
        symbolicate(&[
            "--debug",
            path,
            "-v",
            "--format",
            format,
            "--address",
            &address,
        ])
    };
    std::fs::write(&path, &bytes).unwrap();
    let whole = command("ndjson");
    assert!(
        !text(&whole.stdout).contains("refused"),
        "{}",
        text(&whole.stdout)
    );
    let said = text(&whole.stderr);
    let expected = "kiosk: 1 address(es), 0 of them unknown; named by debug information";
    assert!(said.contains(expected), "{said}");
    // The section's header says that it lies behind the end of the file.
    let header = bytes
        .windows(range.1.to_le_bytes().len() + 4)
        .position(|at| {
            at[..8] == range.1.to_le_bytes() && at[8..12] == (range.0 as u32).to_le_bytes()
        })
        .unwrap();
    bytes[header + 8..header + 12].copy_from_slice(&0x7fff_0000_u32.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let damaged = command("ndjson");
    let answer: Value = serde_json::from_str(text(&damaged.stdout).trim()).unwrap();
    assert_eq!(answer["refused"], 1, "{answer}");
    let said = command("text");
    let said = text(&said.stderr);
    assert!(said.contains("kiosk  (1 of its units"), "{said}");
}
