//! What a call names and cannot be had is reported, with an exit code: options, paths, reports, debug files.

#[cfg(not(feature = "debuginfod"))]
use std::process::Command;

use wedjat::report;

use super::{
    DSYM, assert_fails, fixture, golden_row, stall, symbolicate, text, uuid, with_input, written,
};

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
