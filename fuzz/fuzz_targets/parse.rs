//! Any bytes, read as a report and surveyed; what was read is written again, and scrubbed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wedjat::report::{self, Redact, Report};

fuzz_target!(|bytes: &[u8]| {
    let survey = report::survey(bytes);
    assert!(survey.len <= bytes.len() as u64);
    let read = report::read(bytes);
    if let Err(error) = &read {
        assert!(!error.to_string().chars().any(char::is_control));
    }

    let Ok(reading) = read else { return };
    for damage in &reading.damage {
        assert!(damage.offset <= bytes.len() as u64);
        assert!(!damage.to_string().chars().any(char::is_control));
    }
    let Some(again) = rewritten(&reading.report) else {
        return;
    };
    // Bytes, because a NaN is not equal to itself.
    assert_eq!(
        report::to_bytes(&again),
        report::to_bytes(&report::read(&report::to_bytes(&again)).unwrap().report)
    );
    let mut redacted = reading.report;
    report::redact(&mut redacted, &Redact::default());
    rewritten(&redacted);
});

/// The report written and read again; `None` where it had no head that a reader accepts.
fn rewritten(report: &Report) -> Option<Report> {
    if report.head.version != 1 {
        return None;
    }
    let bytes = report::to_bytes(report);
    Some(
        report::read(&bytes)
            .expect("what was written can be read")
            .report,
    )
}
