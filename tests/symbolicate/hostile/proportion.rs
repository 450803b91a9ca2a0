//! Names that grow when they are read: memory and text stay within a hundred times the report, as
//! docs/report-format.md promises.

use wedjat::new;
use wedjat::report::{self, Event, EventKind, Frame, Report, Thread};

use super::{Limit, bounded_by};

/// Above what the command takes for a report of one frame, KiB.
const LEAST: usize = 10_000;

/// A report with these names on its crashed thread.
fn report_of(names: &[String]) -> Vec<u8> {
    let mut report = Report::default();
    report.event = Some(new!(Event {
        kind: EventKind::Crash,
    }));
    let frame = |name: &String| {
        new!(Frame {
            pc: 0x1000,
            name: Some(name.clone()),
        })
    };
    report.threads.push(new!(Thread {
        main: true,
        crashed: true,
        frames: names.iter().map(frame).collect(),
    }));
    report.end = Some(new!(report::End {
        closed_by: "writer".to_owned(),
    }));
    report::to_bytes(&report)
}

/// A tuple of two of the tuple before it, and so on.
fn doubling_rust() -> String {
    let digit = |at: usize| char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[at]);
    let mut name = "_RINvC1a1fTjjE".to_owned();
    let mut last = name.len() - 4;
    while last < 38 {
        let back = digit(last - 3);
        last = name.len();
        name += &format!("TB{back}_B{back}_E");
    }
    name + "E"
}

/// Names of a language each: some double, some are deep, some are long.
fn names() -> Vec<(&'static str, String)> {
    let swift: String = ('C'..='Y').map(|at| format!("ACyA{at}A{at}G")).collect();
    let cpp = [
        "S0_", "S1_", "S2_", "S3_", "S4_", "S5_", "S6_", "S7_", "S8_", "S9_",
    ];
    let cpp: String = cpp.map(|last| format!("S_I{last}{last}E")).concat();
    vec![
        ("one letter", "$s1a1bySivp".to_owned()),
        ("a null node", "$s1s1aLLfMf".to_owned()),
        ("Swift, doubling", format!("$s1a1bV{swift}")),
        ("Swift, deep", format!("$sSi{}D", "Sg".repeat(8_000))),
        (
            "Swift, repeated",
            format!("$sSi{}tD", "A2048A".repeat(4_000)),
        ),
        ("a Swift type, deep", format!("_Tt{}", "C".repeat(5_000))),
        ("C++, doubling", format!("_Z1fSt4pairIiiE{cpp}")),
        (
            "C++, tried again",
            format!("_ZN{}E4fooEv", "SbIw".repeat(24)),
        ),
        (
            "C++, tried again and again",
            format!("_ZN{}E4fooEv", "SbIw".repeat(2_000)),
        ),
        ("Rust, doubling", doubling_rust()),
        (
            "Rust, long",
            format!("_RNvC1a{}{}", 400_000, "f".repeat(400_000)),
        ),
        ("no language", "é".repeat(250_000)),
    ]
}

/// Each name as often as makes a report of 64 KB, once at least.
#[test]
fn memory_and_text_stay_in_proportion_to_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.wedjat");
    for (what, name) in names() {
        let count = (65_536 / name.len()).max(1);
        let bytes = report_of(&vec![name; count]);
        std::fs::write(&path, &bytes).unwrap();
        let data = LEAST + bytes.len() * 100 / 1024;
        for format in ["text", "json"] {
            let args = ["--format", format, path.to_str().unwrap()];
            let ran = bounded_by(Limit::Data(data as u32), 20, args);
            assert_eq!(ran.code, Some(0), "{what}, {format}: {}", ran.err);
            let most = 100_000 + bytes.len() * 100;
            assert!(ran.out.len() <= most, "{what}, {format}: {}", ran.out.len());
        }
    }
}
