//! Any report that can be thought of, written and read again; then cut, then with one byte flipped.
#![no_main]

#[path = "../../tests/support/any_report.rs"]
mod any_report;

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use wedjat::report::*;

#[derive(Debug)]
struct Input {
    report: Report,
    at: usize,
    flip: u8,
}

fuzz_target!(|input: Input| {
    let bytes = to_bytes(&input.report);
    let reading = read(&bytes).expect("what was written can be read");
    assert!(
        reading
            .damage
            .iter()
            .all(|damage| damage.kind == DamageKind::NoEnd),
        "{:?}",
        reading.damage
    );
    let mut expected = input.report;
    if let (Some(end), Some(read)) = (&mut expected.end, &reading.report.end) {
        (end.crc32, end.sections) = (read.crc32, read.sections);
    }
    assert_eq!(reading.report, expected);

    let at = input.at % bytes.len();
    let cut = read(&bytes[..at]);
    assert!(cut.is_err() || !cut.as_ref().unwrap().damage.is_empty());
    if let Ok(cut) = cut
        && !holds_fakes(&bytes, &expected)
    {
        assert!(expected.threads.starts_with(&cut.report.threads));
        assert!(expected.images.starts_with(&cut.report.images));
        assert!(expected.samples.starts_with(&cut.report.samples));
    }

    let mut flipped = bytes.clone();
    flipped[at] ^= input.flip.max(1);
    if let Ok(flipped) = read(&flipped) {
        let is_own_check = expected.end.is_some() && at + 4 >= bytes.len();
        assert!(
            is_own_check || !flipped.damage.is_empty(),
            "byte {at} of {}",
            bytes.len()
        );
        for image in &flipped.report.images {
            assert!(expected.images.contains(image));
        }
    }
});

/// Whether raw bytes in the report look like sections. Where the file is cut before its first check,
/// nothing sets them apart.
fn holds_fakes(bytes: &[u8], report: &Report) -> bool {
    let looks = |at: usize| {
        let &[0x92, len @ 0xa1..=0xbf, ref rest @ ..] = &bytes[at..] else {
            return false;
        };
        let kind = rest.get(..usize::from(len & 0x1f)).unwrap_or_default();
        !kind.is_empty()
            && kind
                .iter()
                .all(|byte| byte.is_ascii_lowercase() || *byte == b'_')
    };
    let known = survey(bytes).sections - report.unknown.len() as u64;
    (0..bytes.len()).filter(|&at| looks(at)).count() as u64 != known
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Input> {
        Ok(Input {
            at: u.arbitrary()?,
            flip: u.arbitrary()?,
            report: any_report::report(u)?,
        })
    }
}
