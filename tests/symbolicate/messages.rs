//! What `symbolicate` prints for people beside its results: few lines, in plain words.

use std::process::{Command, Output};

fn symbolicate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .args(args)
        .output()
        .unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn thousands_of_messages_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let whole = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/testdata/reports/v1.0/stall.wedjat"
    );
    let mut bytes = std::fs::read(whole).unwrap();
    // Cut within its last section.
    bytes.truncate(bytes.len() - 3);
    for number in 0..200 {
        std::fs::write(folder.path().join(format!("{number:03}.wedjat")), &bytes).unwrap();
    }
    let folder = folder.path().to_str().unwrap();
    let output = symbolicate(&["-f", "ndjson", folder]);
    assert_eq!(output.status.code(), Some(1));
    let printed = errors(&output);
    let about = |printed: &str| {
        printed
            .lines()
            .filter(|line| line.contains(".wedjat: "))
            .count()
    };
    // Besides, debug files are missing: ten of them are named, too.
    assert!(
        about(&printed) == 10 && printed.lines().count() <= 24,
        "{printed}"
    );
    let all = errors(&symbolicate(&["-v", "-f", "ndjson", folder]));
    let all = about(&all);
    assert!(all >= 200, "{all}");
    let more = format!(
        "{} more such messages about 200 reports; --verbose prints all",
        all - 10
    );
    assert!(printed.contains(&more), "{more}: {printed}");
}

#[test]
fn the_system_is_quoted_without_numbers() {
    let nowhere = "/nowhere/at/all";
    let report = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/foreign/crash.ips");
    for args in [
        &[nowhere][..],
        &["--debug", nowhere, report],
        &["--source", nowhere, report],
        &["--output", "/nowhere/at/all", report],
        &["--cache", "/proc/nowhere", report],
        &["--inspect", nowhere],
    ] {
        let printed = errors(&symbolicate(args));
        assert!(
            printed.contains("No such file or directory"),
            "{args:?}: {printed}"
        );
        assert!(!printed.contains("os error"), "{args:?}: {printed}");
    }
}

#[test]
fn the_help_has_all_exit_codes_and_short_options() {
    let help = symbolicate(&["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    for part in [
        "130",
        "--generate",
        "-d, --debug",
        "-f, --format",
        "-o, --output",
        "-j, --jobs",
        "-s, --source",
        "-v, --verbose",
    ] {
        assert!(help.contains(part), "{part} is missing in {help}");
    }
}

#[test]
fn a_debug_file_that_is_missing_is_named_once() {
    let reports = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/foreign");
    let printed = errors(&symbolicate(&["-f", "ndjson", reports]));
    // The reports have three paths of it, and some no architecture.
    let named = printed
        .lines()
        .filter(|line| line.contains("4C4C44E2-5555-3144-A15D-8DB1B87DBB83"));
    assert_eq!(named.count(), 1, "{printed}");
}
