//! What strangers write into names and messages never commands a terminal or a browser.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::deadline::{Ran, symbolicate};
use crate::support::report::full_report;
use crate::support::symbolicate::{Workshop, line_program};
use clap::ValueEnum;
use wedjat::new;
use wedjat::report::{self, Report};
use wedjat::symbolicate::command::FormatName;

/// A title for the window, colours, cursor movement by C0 and by C1, a turn of the writing direction,
/// markup, line ends.
const EVIL: &str = "x\u{1b}]0;evil\u{7}\u{1b}[31m\u{9b}2J\u{202e}\u{2066}\u{feff}\u{7f}\u{61c}\u{2028}<script>alert(1)</script><img src=x onerror=alert(2)>&\"'\r\n]]>\u{fffe}y";

/// The full report with that in place of every text.
fn evil_report() -> Vec<u8> {
    let mut bytes: &[u8] = &report::to_bytes(&full_report());
    let mut evil = Vec::new();
    while !bytes.is_empty() {
        let section = rmpv::decode::read_value(&mut bytes).unwrap();
        let rmpv::Value::Array(mut section) = section else {
            panic!()
        };
        let mut fields = section.pop().unwrap();
        if section[0].as_str() == Some("end") {
            continue;
        }
        poison(&mut fields);
        section.push(fields);
        rmpv::encode::write_value(&mut evil, &rmpv::Value::Array(section)).unwrap();
    }
    evil
}

fn poison(value: &mut rmpv::Value) {
    match value {
        rmpv::Value::String(_) => *value = EVIL.into(),
        rmpv::Value::Array(items) => items.iter_mut().for_each(poison),
        rmpv::Value::Map(pairs) => {
            // Words of the format stay: without them this would be no stall, or no report.
            pairs.retain(|(key, _)| key.as_str() != Some("check"));
            for (key, value) in pairs {
                if !matches!(key.as_str(), Some("format" | "type")) {
                    poison(value);
                }
            }
        }
        _ => {}
    }
}

fn is_command(c: char) -> bool {
    let is_mark = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    is_mark || (c.is_control() && !matches!(c, '\n' | '\t'))
}

#[track_caller]
fn assert_tame(what: &str, ran: &Ran) {
    for text in [&ran.out, &ran.err] {
        let found = text.find(is_command);
        let around = found.map(|at| text[..at].chars().rev().take(40).collect::<String>());
        assert!(found.is_none(), "{what}: behind {around:?} (reversed)");
    }
}

fn run(args: &[&OsStr]) -> Ran {
    symbolicate(args)
}

/// Returns the names of all formats but Parquet, which no terminal and no browser shows.
fn formats_for_eyes() -> impl Iterator<Item = String> {
    let names = FormatName::value_variants().iter();
    let names = names.map(|format| format.to_possible_value().unwrap().get_name().to_owned());
    names.filter(|name| !name.starts_with("parquet"))
}

#[test]
fn no_format_passes_on_what_a_terminal_or_a_browser_obeys() {
    let folder = tempfile::tempdir().unwrap();
    // The file's own name, too.
    let path = folder.path().join(OsStr::from_bytes(
        b"a\x1b[31m\xc2\x9b\xe2\x80\xae<b>.wedjat",
    ));
    let bytes = evil_report();
    let reading = report::read(&bytes).unwrap();
    assert!(reading.report.threads.len() > 1 && !reading.report.samples.is_empty());
    assert_eq!(reading.report.head.app.name, EVIL);
    std::fs::write(&path, &bytes).unwrap();
    for name in formats_for_eyes() {
        for demangle in ["--color=never", "--no-demangle"] {
            let ran = run(&[
                "--format".as_ref(),
                name.as_ref(),
                demangle.as_ref(),
                path.as_ref(),
            ]);
            assert_eq!(ran.code, Some(1), "{name}: {}", ran.err); // it has no `end`
            assert_tame(&name, &ran);
            assert!(ran.out.len() > 50, "{name}: {}", ran.out);
            if ran.out.contains("<svg") || ran.out.contains("<html") {
                assert!(!ran.out.contains("<script>alert"), "{name}");
                assert!(!ran.out.contains("<img src=x"), "{name}");
                assert!(!ran.out.contains("\u{fffe}"), "{name}");
            }
            if name.ends_with("json") {
                // The same text, all the same.
                let value: serde_json::Value = serde_json::from_str(ran.out.trim_end()).unwrap();
                assert_eq!(value["app"]["name"], EVIL);
            }
        }
    }
    for args in [
        &["--top"][..],
        &["--top=3", "--format=json"],
        &["--top=3", "--format=ndjson"],
        &["--list-missing"],
        &["--scrub"],
        &["--scrub", "--format=json"],
        &["--inspect"],
    ] {
        let mut args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
        args.push(path.as_ref());
        let ran = run(&args);
        assert_tame(&format!("{args:?}"), &ran);
        assert!(!ran.out.is_empty(), "{args:?}: {}", ran.err);
    }
    // A page that begins with the name of the file.
    let ran = run(&["--strict".as_ref(), folder.path().as_ref()]);
    assert_tame("a folder", &ran);
}

#[test]
fn no_error_message_does_either() {
    let evil =
        OsStr::from_bytes(b"/nowhere/\x1b[31m\xc2\x9b2J\xe2\x80\xae\x07\nerror: all is well\xff");
    let folder = tempfile::tempdir().unwrap();
    let junk = folder.path().join(OsStr::from_bytes(b"j\x1b[1mk.wedjat"));
    std::fs::write(&junk, b"\x1b[2J junk").unwrap();
    let junk = junk.as_os_str();
    let all: &[&[&OsStr]] = &[
        &[evil],
        &[junk],
        &["--inspect".as_ref(), evil],
        &["--inspect".as_ref(), junk],
        &["--debug".as_ref(), evil, junk],
        &["--debug".as_ref(), junk, junk],
        &["--debug".as_ref(), evil, "--address".as_ref(), "1".as_ref()],
        &["--debug".as_ref(), junk, "--address".as_ref(), evil],
        &["--format".as_ref(), evil, junk],
        &["--jobs".as_ref(), evil, junk],
        &[
            "--load-address".as_ref(),
            evil,
            "--debug".as_ref(),
            junk,
            "--address".as_ref(),
            "1".as_ref(),
        ],
        &["--output".as_ref(), evil, junk],
        &["--cache".as_ref(), evil, junk],
        &["--color".as_ref(), evil, junk],
        &["--top".as_ref(), evil],
    ];
    for args in all {
        let ran = run(args);
        assert_ne!(ran.code, Some(0), "{args:?}");
        assert_tame(&format!("{args:?}"), &ran);
        assert!(!ran.err.is_empty(), "{args:?}");
    }
    // An option whose name is the trouble.
    let mut option = OsString::from("--fo\u{1b}[31mo");
    option.push("\u{202e}");
    let ran = run(&[&option, junk]);
    assert_eq!(ran.code, Some(2));
    assert_tame("option", &ran);
}

#[test]
fn names_in_debug_files_are_shown_plainly() {
    let units = ".text\n.globl main\n.type main,@function\nmain: nop\n.rept 64\nnop\n.endr\nret\n.Lend:\n.size main,.-main
         .section .debug_abbrev,\"\",@progbits
         .uleb128 1, 0x11
         .byte 1
         .uleb128 0x11, 1, 0x12, 7, 0x10, 0x17, 0x25, 8, 0x3, 8, 0, 0
         .uleb128 2, 0x2e
         .byte 0
         .uleb128 0x3, 0x8, 0x11, 1, 0x12, 7, 0, 0
         .uleb128 0
         .section .debug_info,\"\",@progbits
         .Lunit: .long .Lunit_end - .Lversion
         .Lversion: .value 4
         .long 0
         .byte 8
         .uleb128 1
         .quad main
         .quad .Lend - main
         .long 0
         .string \"made by \\033[31m\\302\\2332J\"
         .string \"unit\\033[31m\"
         .uleb128 2
         .string \"evil\\033]0;x\\007\\342\\200\\256\\302\\2332J<script>alert(1)</script>\"
         .quad main
         .quad .Lend - main
         .uleb128 0
         .Lunit_end:";
    let files = r#".string "f\033[31m\342\200\256\302\233.c"
         .byte 0, 0, 0"#;
    let rows = "
         .byte 0, 9, 2
         .quad main
         .byte 0x13
         .byte 2, 64, 0, 1, 1";
    let lines = line_program(files, rows);
    let source = format!("{units}{lines}.section .note.GNU-stack,\"\",@progbits\n");
    let workshop = Workshop::new(&[("a.s", &source)]);
    let name = "a\u{1b}[31m.so";
    workshop.run(&format!(
        "gcc -shared -nostdlib -Wl,--build-id=sha1 a.s -o {name}"
    ));
    let path = workshop.path(name);
    let address = workshop.address(name, "main");
    let hex = format!("{address:#x}");
    for format in ["text", "ndjson"] {
        let ran = run(&[
            "--no-cache".as_ref(),
            "--debug".as_ref(),
            path.as_ref(),
            "--format".as_ref(),
            format.as_ref(),
            "--address".as_ref(),
            hex.as_ref(),
        ]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert_tame(format, &ran);
        assert!(
            ran.out.contains("evil") && ran.out.contains(".c"),
            "{}",
            ran.out
        );
    }
    let ran = run(&["--inspect".as_ref(), path.as_ref()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_tame("--inspect", &ran);
    assert!(ran.out.contains("made by"), "{}", ran.out);
    // In a report.
    let mut report = Report::default();
    report.event = Some(report::Event::default());
    report.images.push(new!(report::Image {
        name: path.display().to_string(),
        base: 0x7000_0000_0000,
        size: 0x10_0000,
        id: workshop.id(name),
    }));
    let pc = 0x7000_0000_0000 + address;
    report.threads.push(new!(report::Thread {
        main: true,
        frames: vec![new!(report::Frame { pc, image: Some(0) })],
    }));
    let file = workshop.path("r.wedjat");
    std::fs::write(&file, report::to_bytes(&report)).unwrap();
    for name in formats_for_eyes() {
        let ran = run(&[
            "--no-cache".as_ref(),
            "--format".as_ref(),
            name.as_ref(),
            "--debug".as_ref(),
            path.as_ref(),
            file.as_ref(),
        ]);
        assert_tame(&name, &ran);
        assert!(ran.out.contains("evil"), "{name}: {}\n{}", ran.out, ran.err);
        if ran.out.contains("<svg") || ran.out.contains("<html") {
            assert!(!ran.out.contains("<script>alert"), "{name}");
        }
    }
}
