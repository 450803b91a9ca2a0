//! What is on which stream: help, no terminal escapes, full disks, and the pipes of shells.

#[cfg(target_os = "linux")]
use std::process::{Command, Stdio};

use wedjat::report;

#[cfg(target_os = "linux")]
use super::{assert_fails, uuid, with_input};
use super::{stall, symbolicate, text, written};

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
    for format in ["text", "json", "ndjson", "folded", "firefox", "html"] {
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
