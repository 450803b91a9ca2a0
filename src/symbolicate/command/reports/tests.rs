//! A report over which the symbolicator has a fault.

use std::io::Write;

use super::*;
use crate::report;
use crate::symbolicate::DebugFiles;
use crate::symbolicate::command::{args, faults};
use crate::symbolicate::frame::Symbolicated;

/// Prints the origin of each report, and cannot print one.
struct Fragile;

impl Parts for Fragile {
    type Part = String;

    fn part(_: &Style, origin: &str, _: &Symbolicated) -> String {
        assert!(!origin.contains("bad"), "no room");
        origin.to_owned()
    }

    fn add(&mut self, part: String, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{part}")
    }
}

#[test]
fn the_others_are_printed_and_that_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = report::Report::default();
    report.end = Some(report::End {
        closed_by: "writer".to_owned(),
        ..report::End::default()
    });
    for name in ["1-good", "2-bad", "3-good", "4-bad", "5-good"] {
        let path = folder.path().join(name).with_extension("wedjat");
        std::fs::write(path, report::to_bytes(&report)).unwrap();
    }
    let output = folder.path().join("out");
    let words = ["symbolicate", "--no-cache", "--output"]
        .map(Into::into)
        .into_iter();
    let words = words.chain([output.clone().into(), folder.path().into()]);
    let args = args::parse(words).unwrap();
    let symbolicator = Symbolicator::new(DebugFiles::new().no_search());
    let job = Job {
        args: &args,
        symbolicator: &symbolicator,
        style: Style::default(),
        redact: None,
        target: &Target::of(&args),
    };
    faults::note_panics();
    let mut errors = Vec::new();
    let mut messages = Messages {
        errors: &mut errors,
    };
    let code = job.run(Fragile, Box::new(io::empty()), &mut messages);
    assert_eq!(code, super::super::DAMAGED);
    let (out, errors) = (
        std::fs::read_to_string(output).unwrap(),
        String::from_utf8(errors).unwrap(),
    );
    let names = |text: &str, of: &str| text.matches(of).count();
    assert_eq!((names(&out, "good"), names(&out, "bad")), (3, 0), "{out}");
    assert_eq!(
        names(&errors, "bad.wedjat: a fault in symbolicate"),
        2,
        "{errors}"
    );
    assert_eq!(
        names(
            &errors,
            "no room (src/symbolicate/command/reports/tests.rs:"
        ),
        2,
        "{errors}"
    );
}
