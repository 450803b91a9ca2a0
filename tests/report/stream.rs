//! Reports out of streams: several, cut, with garbage between them, in small pieces, without an end.

use std::io::{self, Read};

use crate::support::report::full_report;
use wedjat::new;
use wedjat::report::{self, DamageKind, ReadError, Reading, Report, ReportReader, limits};

fn small(pid: u64) -> Vec<u8> {
    let mut report = Report::default();
    report.head.pid = pid;
    report.end = Some(new!(report::End {
        closed_by: "writer".to_owned(),
    }));
    report::to_bytes(&report)
}

fn without_end(pid: u64) -> Vec<u8> {
    let bytes = small(pid);
    let end = bytes
        .windows(5)
        .rposition(|window| window == b"\x92\xa3end")
        .unwrap();
    bytes[..end].to_vec()
}

fn read_all(stream: &[u8]) -> Vec<Result<Reading, ReadError>> {
    ReportReader::new(stream).collect()
}

fn pids(readings: &[Result<Reading, ReadError>]) -> Vec<u64> {
    readings
        .iter()
        .flatten()
        .map(|reading| reading.report.head.pid)
        .collect()
}

/// Gives one byte at a time.
struct Drip<'a>(&'a [u8]);

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(buffer.len()).min(1);
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn a_stream_of_one_report_reads_as_its_bytes_do() {
    let bytes = report::to_bytes(&full_report());
    for stream in [&bytes[..], &bytes[..bytes.len() / 2]] {
        let expected = report::read(stream).unwrap();
        let readings: Vec<Reading> = ReportReader::new(Drip(stream))
            .map(Result::unwrap)
            .collect();
        assert_eq!(readings, [expected]);
    }
}

#[test]
fn reports_behind_each_other_are_read_one_by_one() {
    let full = report::to_bytes(&full_report());
    let stream = [small(1), full.clone(), without_end(3), small(4), small(5)].concat();
    let readings = read_all(&stream);
    assert_eq!(pids(&readings), [1, 4711, 3, 4, 5]);
    let kinds: Vec<Vec<DamageKind>> = readings
        .iter()
        .map(|reading| {
            reading
                .as_ref()
                .unwrap()
                .damage
                .iter()
                .map(|damage| damage.kind)
                .collect()
        })
        .collect();
    assert_eq!(
        kinds,
        [vec![], vec![], vec![DamageKind::NoEnd], vec![], vec![]]
    );
    let cut_at = small(1).len() + full.len() + without_end(3).len();
    assert_eq!(
        readings[2].as_ref().unwrap().damage[0].offset,
        cut_at as u64
    );
    assert_eq!(
        pids(&ReportReader::new(Drip(&stream)).collect::<Vec<_>>()),
        [1, 4711, 3, 4, 5]
    );
}

#[test]
fn garbage_between_reports_costs_no_report() {
    let stream = [
        &b"\n\xc1\xc1garbage"[..],
        &small(1),
        b"more\n",
        &small(2),
        &small(3),
    ]
    .concat();
    let readings = read_all(&stream);
    assert_eq!(pids(&readings), [1, 2, 3]);
    let damage = &readings[1].as_ref().unwrap().damage;
    assert_eq!(damage[0].offset, 10 + small(1).len() as u64);
    // What stands before a report says nothing of it.
    let damage = readings.iter().flat_map(|r| &r.as_ref().unwrap().damage);
    let kinds: Vec<DamageKind> = damage.map(|damage| damage.kind).collect();
    assert_eq!(kinds, [DamageKind::Garbage; 2]);
}

/// As the concatenation of a folder has them in which an app was killed while it wrote.
#[test]
fn a_report_cut_anywhere_costs_no_report_behind_it() {
    let full = report::to_bytes(&full_report());
    let behind = [full.clone(), small(7), full.clone()].concat();
    for cut in 1..full.len() {
        let stream = [&full[..cut], &behind].concat();
        let readings = read_all(&stream);
        if cut % 41 == 0 {
            let dripped: Vec<_> = ReportReader::new(Drip(&stream)).flatten().collect();
            let read: Vec<_> = read_all(&stream).into_iter().flatten().collect();
            assert_eq!(dripped, read, "cut at {cut}");
        }
        // Less than the beginning of a section is garbage in front of the next report.
        let is_whole = |reading: &&Reading| {
            let mut damage = reading.damage.iter();
            damage.all(|damage| damage.kind == DamageKind::Garbage)
        };
        let whole = readings.iter().flatten().filter(is_whole);
        let whole: Vec<u64> = whole.map(|reading| reading.report.head.pid).collect();
        assert_eq!(whole, [4711, 7, 4711], "cut at {cut}");
    }
}

/// Sections without checks: whether what lies in a cut one is a `head` shows by what comes behind it.
#[test]
fn pieces_do_not_matter_where_a_head_without_a_check_is_in_doubt() {
    let cut = [
        &b"\x92\xa5event\x81\xa4type"[..],
        b"\x92\xa4head\x81\xa3pid\x01",
    ]
    .concat();
    for behind in [&b"\xc1\xc1\xc1"[..], b"", b"\x92\xa3end\x80", b"\x92"] {
        let stream = [&without_end(3), &cut, behind].concat();
        let shown = |found: Result<Reading, ReadError>| format!("{found:?}");
        let whole: Vec<String> = ReportReader::new(&stream[..]).map(shown).collect();
        let dripped: Vec<String> = ReportReader::new(Drip(&stream)).map(shown).collect();
        assert_eq!(dripped, whole, "{behind:x?}");
    }
}

#[test]
fn a_report_with_a_flipped_bit_or_without_a_byte_costs_no_report_behind_it() {
    let full = report::to_bytes(&full_report());
    let behind = [small(7), small(8)].concat();
    let mut broken: Vec<Vec<u8>> = Vec::new();
    for at in 0..full.len() {
        let mut bytes = full.clone();
        bytes[at] ^= 1 << (at % 8);
        broken.push(bytes);
        broken.push([&full[..at], &full[at + 1..]].concat());
    }
    for (number, broken) in broken.iter().enumerate() {
        let readings = read_all(&[broken, &behind[..]].concat());
        let known = pids(&readings);
        assert!(known.ends_with(&[7, 8]), "{number}: {known:?}");
    }
}

#[test]
fn pieces_do_not_matter() {
    // What looks like a section and is long: a reader that begins anew with each piece tires of it.
    let mut lie = b"\x92\xa5event\xdf\x00\x01\x00\x00".to_vec();
    lie.extend(vec![0x01; 3000]);
    let stream = [b"\xc1", &lie[..], &small(1), &small(2)].concat();
    let shown = |readings: Vec<Result<Reading, ReadError>>| format!("{readings:?}");
    assert_eq!(
        shown(ReportReader::new(Drip(&stream)).collect()),
        shown(read_all(&stream))
    );
    assert_eq!(pids(&read_all(&stream)), [1, 2]);
}

#[test]
fn a_length_that_lies_costs_its_section_only() {
    let mut first = without_end(1);
    // A text that claims 4 GB.
    first.extend(b"\x92\xa5event\x81\xa4type\xdb\xff\xff\xff\xff");
    let stream = [first, small(2), small(3)].concat();
    assert_eq!(pids(&read_all(&stream)), [1, 2, 3]);
}

#[test]
fn a_report_is_given_out_before_the_stream_ends() {
    struct ThenPanic(Option<Vec<u8>>);
    impl Read for ThenPanic {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.take().expect("the report was there already");
            buffer[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }
    let mut reader = ReportReader::new(ThenPanic(Some(small(9))));
    assert_eq!(reader.next().unwrap().unwrap().report.head.pid, 9);
}

#[test]
fn an_error_of_the_stream_comes_after_what_was_read() {
    struct Fail;
    impl Read for Fail {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let cut = without_end(7);
    let mut reader = ReportReader::new(cut.as_slice().chain(Fail));
    assert_eq!(reader.next().unwrap().unwrap().report.head.pid, 7);
    let error = reader.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("the disk is gone"), "{error}");
    assert!(reader.next().is_none());
}

#[test]
fn an_empty_stream_is_an_error() {
    let readings = read_all(b"");
    assert!(
        matches!(readings[..], [Err(ReadError::Empty)]),
        "{readings:?}"
    );
}

#[test]
fn endless_garbage_comes_to_an_end() {
    let mut reader = ReportReader::new(io::repeat(0));
    assert!(matches!(
        reader.next(),
        Some(Err(ReadError::NotAReport { .. }))
    ));
    assert!(reader.next().is_none());
    // A text without end, in a section: the reader does not wait for it for ever.
    let head = without_end(1);
    let lie = b"\x92\xa5event\x81\xa4type\xdb\xff\xff\xff\xff";
    let endless = head
        .chain(&lie[..])
        .chain(io::repeat(b'x').take(3 * limits::REPORT_BYTES as u64));
    let mut reader = ReportReader::new(endless);
    let first = reader.next().unwrap().unwrap();
    assert_eq!(first.report.head.pid, 1);
    assert!(reader.all(|reading| reading.is_err()));
}
