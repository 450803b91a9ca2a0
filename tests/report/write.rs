//! What a `ReportWriter` writes, as an independent MessagePack decoder (`rmpv`) sees it.

use std::time::Duration;

use rmpv::Value;
use wedjat::new;
use wedjat::report::{
    self, AppContextView, AppView, ClosedBy, EventView, Found, HeadView, Omitted, RawFrame, Report,
    ReportWriter, Sink, SinkError, StallEndView, StallOutcome, ThreadView, ValueView,
};

/// The unit of the format.
const NANO: Duration = Duration::from_nanos(1);

/// Sections as an independent decoder sees them.
fn decode(mut bytes: &[u8]) -> Vec<(String, Vec<(Value, Value)>)> {
    let mut sections = Vec::new();
    while !bytes.is_empty() {
        let value = rmpv::decode::read_value(&mut bytes).expect("well-formed");
        let Value::Array(pair) = value else {
            panic!("not an array: {value}")
        };
        let [kind, map] = <[Value; 2]>::try_from(pair).expect("two elements");
        let Value::Map(map) = map else {
            panic!("not a map: {map}")
        };
        sections.push((kind.as_str().expect("a text").to_owned(), map));
    }
    sections
}

fn field<'a>(map: &'a [(Value, Value)], key: &str) -> Option<&'a Value> {
    map.iter()
        .find(|(k, _)| k.as_str() == Some(key))
        .map(|(_, v)| v)
}

fn thread_in(buffer: &mut [u8], view: &ThreadView<'_>) -> Vec<(Value, Value)> {
    let mut file = Vec::new();
    ReportWriter::new(buffer, &mut file).section(view).unwrap();
    let [(kind, map)] = <[_; 1]>::try_from(decode(&file)).expect("one section");
    assert_eq!(kind, "thread");
    map
}

fn deep(count: u64) -> Vec<RawFrame> {
    (0..count)
        .map(|n| {
            new!(RawFrame {
                pc: 0x7fff_0000_0000 + n,
                found: Found::UnwindInfo,
                image: 3,
            })
        })
        .collect()
}

#[test]
fn end_sums_all_bytes_before_it_and_counts_itself() {
    let mut buffer = [0; 4096];
    let mut file = Vec::new();
    let mut writer = ReportWriter::new(&mut buffer, &mut file);
    writer
        .section(&HeadView {
            app: AppView {
                name: "a",
                ..AppView::default()
            },
            ..Default::default()
        })
        .unwrap();
    writer
        .section(&StallEndView {
            duration: NANO,
            how: StallOutcome::Recovered,
            ..StallEndView::default()
        })
        .unwrap();
    let before = writer.bytes() as usize;
    writer.finish(ClosedBy::Writer).unwrap();
    let sections = decode(&file);
    let (kind, end) = sections.last().unwrap();
    assert_eq!(kind, "end");
    assert_eq!(field(end, "sections"), Some(&Value::from(3)));
    assert_eq!(field(end, "closed_by"), Some(&Value::from("writer")));
    assert_eq!(
        field(end, "crc32"),
        Some(&Value::from(crc32fast::hash(&file[..before])))
    );
}

#[test]
fn a_resumed_report_is_the_one_that_was_never_cut() {
    let head = HeadView {
        app: AppView {
            name: "a",
            ..AppView::default()
        },
        pid: 9,
        ..Default::default()
    };
    let (mut buffer, mut whole, mut parts) = ([0; 4096], Vec::new(), Vec::new());
    let mut writer = ReportWriter::new(&mut buffer, &mut whole);
    writer.section(&head).unwrap();
    writer.finish(ClosedBy::NextLaunch).unwrap();
    let mut writer = ReportWriter::new(&mut buffer, &mut parts);
    writer.section(&head).unwrap();
    let (crc, sections) = (writer.crc(), writer.sections());
    ReportWriter::resume(&mut buffer, &mut parts, crc, sections)
        .finish(ClosedBy::NextLaunch)
        .unwrap();
    assert_eq!(parts, whole);
}

#[test]
fn a_stack_that_does_not_fit_keeps_both_ends_and_says_what_is_missing() {
    let frames = deep(1000);
    let view = ThreadView {
        id: 5,
        frames: &frames,
        ..Default::default()
    };
    let map = thread_in(&mut [0; 2048], &view);
    let kept = field(&map, "frames").and_then(Value::as_array).unwrap();
    let omitted = field(&map, "omitted").and_then(Value::as_array).unwrap();
    let (at, count) = (omitted[0].as_u64().unwrap(), omitted[1].as_u64().unwrap());
    assert_eq!(kept.len() as u64 + count, 1000);
    assert!(
        kept.len() > 100,
        "2 KiB hold more than {} frames",
        kept.len()
    );
    let pc = |frame: &Value| frame.as_array().unwrap()[0].as_u64().unwrap() - 0x7fff_0000_0000;
    let kept: Vec<u64> = kept.iter().map(pc).collect();
    let expected: Vec<u64> = (0..at).chain(at + count..1000).collect();
    assert_eq!(kept, expected);
    assert!(at > kept.len() as u64 / 2 && at < kept.len() as u64);
    assert_eq!(field(&map, "dropped").and_then(Value::as_u64), Some(count));
}

#[test]
fn a_gap_of_the_capture_s_own_is_grown_to_one_gap() {
    let frames = deep(200);
    let omitted = Some(new!(Omitted {
        at: 150,
        count: 10_000,
    }));
    let view = ThreadView {
        frames: &frames,
        omitted,
        ..Default::default()
    };
    let map = thread_in(&mut [0; 1024], &view);
    let kept = field(&map, "frames")
        .and_then(Value::as_array)
        .unwrap()
        .len() as u64;
    let gap = field(&map, "omitted").and_then(Value::as_array).unwrap();
    assert_eq!(gap[1].as_u64(), Some(10_000 + 200 - kept));
    let map = thread_in(&mut [0; 8192], &view);
    assert_eq!(
        field(&map, "omitted"),
        Some(&Value::from(vec![Value::from(150), Value::from(10_000)]))
    );
}

#[test]
fn a_gap_is_reported_however_little_room_there_is() {
    let frames = deep(10);
    for length in 0..600 {
        let (name, gap) = ("n".repeat(length), new!(Omitted { at: 5, count: 7 }));
        let view = ThreadView {
            name: Some(&name),
            frames: &frames,
            omitted: Some(gap),
            ..Default::default()
        };
        let map = thread_in(&mut [0; 512], &view);
        let kept = field(&map, "frames")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        let gap = field(&map, "omitted")
            .and_then(Value::as_array)
            .expect("a gap");
        assert_eq!(gap[1].as_u64(), Some(7 + 10 - kept as u64), "{length}");
    }
}

#[test]
fn every_size_of_buffer_gives_whole_sections() {
    let frames = deep(20);
    let registers = [("rip", u64::MAX), ("rsp", 1), ("rbp", 0)];
    for size in 0..1200 {
        let mut buffer = vec![0; size];
        let mut file = Vec::new();
        let mut writer = ReportWriter::new(&mut buffer, &mut file);
        writer
            .section(&HeadView {
                app: AppView {
                    name: "app",
                    version: "1",
                },
                arch: "arm64",
                ..Default::default()
            })
            .unwrap();
        let message = "mé".repeat(100);
        writer
            .section(&EventView {
                message: Some(&message),
                ..Default::default()
            })
            .unwrap();
        writer
            .section(&ThreadView {
                frames: &frames,
                registers: &registers,
                ..Default::default()
            })
            .unwrap();
        writer
            .section(&AppContextView {
                keys: &[("key", ValueView::Text("value")); 40],
                breadcrumbs: &["one", "two", "three"].map(|text| (NANO, text)),
                gauges: &[],
                marks: &[("mark", NANO, None)],
            })
            .unwrap();
        let counted = writer.sections();
        writer.finish(ClosedBy::Writer).unwrap();
        let sections = decode(&file);
        assert!(sections.len() as u64 >= counted, "{size}");
        for (kind, map) in &sections {
            let check = field(map, "check");
            assert!(size < 200 || check.is_some(), "{size}: {kind} has no check");
        }
        if size >= 1100 {
            assert!(
                sections
                    .iter()
                    .all(|(_, map)| field(map, "dropped").is_none()),
                "{size}"
            );
        }
    }
}

#[test]
fn the_newest_breadcrumbs_are_kept() {
    let texts: Vec<String> = (0..100).map(|n| format!("crumb {n}")).collect();
    let (mut buffer, mut file) = ([0; 512], Vec::new());
    let crumbs: Vec<_> = texts.iter().map(|text| (7 * NANO, text.as_str())).collect();
    ReportWriter::new(&mut buffer, &mut file)
        .section(&AppContextView {
            breadcrumbs: &crumbs,
            ..AppContextView::default()
        })
        .unwrap();
    let sections = decode(&file);
    let crumbs = field(&sections[0].1, "breadcrumbs")
        .and_then(Value::as_array)
        .unwrap();
    assert!(crumbs.len() > 10);
    assert_eq!(
        crumbs.last().unwrap().as_array().unwrap()[1].as_str(),
        Some("crumb 99")
    );
    let dropped = field(&sections[0].1, "dropped")
        .and_then(Value::as_u64)
        .unwrap();
    assert_eq!(crumbs.len() as u64 + dropped, 100);
}

#[test]
fn a_failed_sink_fails_for_good() {
    struct Full(u32);
    impl Sink for Full {
        fn write(&mut self, _: &[u8]) -> Result<(), SinkError> {
            self.0 += 1;
            Err(SinkError { errno: 28 })
        }
    }
    let mut buffer = [0; 512];
    let mut writer = ReportWriter::new(&mut buffer, Full(0));
    assert_eq!(
        writer.section(&HeadView::default()),
        Err(SinkError { errno: 28 })
    );
    assert_eq!(
        writer.section(&EventView::default()),
        Err(SinkError { errno: 28 })
    );
    assert_eq!(writer.sink().0, 1);
}

/// A report whose section `x` is this map.
fn with_section(pairs: Vec<(report::Value, report::Value)>) -> Report {
    let mut report = Report::default();
    report.unknown = vec![("x".to_owned(), report::Value::Map(pairs))];
    report
}

/// Its map as an independent encoder writes it, without `check`.
fn is_written_as(report: &Report, expected: Value) -> bool {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &expected).unwrap();
    // The header counts `check` too.
    let header = match expected.as_map().unwrap().len() {
        0..=15 => 1,
        16..=0xffff => 3,
        _ => 5,
    };
    let written = report::to_bytes(report);
    written
        .windows(bytes.len() - header)
        .any(|part| part == &bytes[header..])
}

#[test]
fn numbers_texts_and_bytes_take_their_smallest_form() {
    use report::Value as W;
    let mut values = Vec::new();
    for shift in 0..64 {
        for n in [1u64 << shift, (1u64 << shift) - 1] {
            values.push((W::Unsigned(n), Value::from(n)));
            let negative = (n as i64).wrapping_neg();
            if negative < 0 {
                values.push((W::Signed(negative), Value::from(negative)));
            }
        }
    }
    for length in [0, 1, 31, 32, 255, 256, 300, 70_000] {
        let text = "x".repeat(length);
        values.push((W::Text(text.clone()), Value::from(text.as_str())));
        values.push((
            W::Bytes(text.clone().into_bytes()),
            Value::from(text.as_bytes()),
        ));
    }
    for length in [0, 1, 2, 3, 4, 8, 16, 17, 300] {
        values.push((
            W::Extension(-5, vec![7; length]),
            Value::Ext(-5, vec![7; length]),
        ));
    }
    for (ours, theirs) in values {
        let report = with_section(vec![(W::Text("key".to_owned()), ours)]);
        assert!(
            is_written_as(&report, Value::Map(vec![("key".into(), theirs)])),
            "{report:?}"
        );
    }
}

#[test]
fn containers_widen_their_headers_as_they_grow() {
    use report::Value as W;
    for count in [0u64, 1, 14, 15, 16, 17, 65_534, 65_535, 65_536, 65_537] {
        let list = W::Array((0..count).map(W::Unsigned).collect());
        let mut pairs = vec![(W::Text("list".to_owned()), list)];
        pairs.extend((0..count).map(|n| (W::Unsigned(n), W::Nil)));
        let report = with_section(pairs);
        let list = Value::Array((0..count).map(Value::from).collect());
        let pairs = (0..count).map(|n| (Value::from(n), Value::Nil));
        let map = Value::Map([("list".into(), list)].into_iter().chain(pairs).collect());
        assert!(is_written_as(&report, map), "{count}");
        // The headers of all are right, those of the section too.
        let mut rest = &report::to_bytes(&report)[..];
        let mut sections = 0;
        while !rest.is_empty() {
            let section = rmpv::decode::read_value(&mut rest).unwrap();
            let map = section[1].as_map().unwrap();
            assert_eq!(map.last().unwrap().0.as_str(), Some("check"));
            sections += 1;
        }
        assert_eq!(sections, 2);
    }
}
