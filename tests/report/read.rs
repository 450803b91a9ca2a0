//! What a reader makes of reports that are whole, cut, flipped, old, new or no reports at all.

use crate::support::report::{assert_is_part_of, full_report, v};
use rmpv::Value as V;
use wedjat::new;
use wedjat::report::{
    self, ClosedBy, CutReason, DamageKind, Found, Frame, NearMemory, ReadError, Report,
    ReportWriter, StallOutcome, ThreadState, Value,
};

/// Sections written by an independent encoder, with an `end` that is right.
fn other_encoder(sections: &[(&str, V)]) -> Vec<u8> {
    closed(sections, "writer")
}

fn closed(sections: &[(&str, V)], by: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let put = |bytes: &mut Vec<u8>, kind: &str, map: V| {
        rmpv::encode::write_value(bytes, &V::Array(vec![kind.into(), map])).unwrap();
    };
    for (kind, map) in sections {
        put(&mut bytes, kind, map.clone());
    }
    let crc = crc32fast::hash(&bytes);
    let count = sections.len() as u64 + 1;
    put(
        &mut bytes,
        "end",
        v(&[
            ("crc32", crc.into()),
            ("sections", count.into()),
            ("closed_by", by.into()),
        ]),
    );
    bytes
}

fn head_of_other_encoder() -> (&'static str, V) {
    (
        "head",
        v(&[
            ("format", "wedjat".into()),
            ("version", 1.into()),
            ("pid", 42.into()),
        ]),
    )
}

#[test]
fn writing_and_reading_is_the_identity() {
    let report = full_report();
    let bytes = report::to_bytes(&report);
    let reading = report::read(&bytes).unwrap();
    assert_eq!(reading.damage, []);
    let mut expected = report;
    // The CRC and the count are those of the bytes.
    expected.end = reading.report.end.clone();
    assert_eq!(reading.report, expected);
    assert_eq!(report::to_bytes(&reading.report), bytes);
}

#[test]
fn a_report_that_was_cut_before_its_images_is_not_damaged() {
    let frames = V::Array(vec![V::Array(vec![0x1000.into(), 0.into(), 0.into()])]);
    let thread = v(&[("id", 7.into()), ("frames", frames)]);
    let sections = [head_of_other_encoder(), ("thread", thread)];
    // Whoever says that all is written owes the image.
    let reading = report::read(&other_encoder(&sections)).unwrap();
    let kinds: Vec<DamageKind> = reading.damage.iter().map(|damage| damage.kind).collect();
    assert_eq!(kinds, [DamageKind::Image]);
    let reading = report::read(&closed(&sections, "next_launch")).unwrap();
    assert_eq!(reading.damage, []);
    assert_eq!(reading.report.threads[0].frames[0].pc, 0x1000);
}

#[test]
fn a_report_by_another_encoder_is_read() {
    let frames = V::Array(vec![V::Array(vec![0x1000.into(), 0.into(), V::Nil])]);
    let bytes = other_encoder(&[
        head_of_other_encoder(),
        (
            "event",
            v(&[("type", "crash".into()), ("fatal", true.into())]),
        ),
        (
            "thread",
            v(&[("id", 1.into()), ("frames", frames), ("name", V::Nil)]),
        ),
    ]);
    let reading = report::read(&bytes).unwrap();
    assert_eq!(reading.damage, []);
    assert_eq!(reading.report.head.pid, 42);
    let frame = new!(Frame {
        pc: 0x1000,
        found: Found::Context,
        image: None,
        name: None,
    });
    assert_eq!(reading.report.threads[0].frames, [frame]);
    assert_eq!(reading.report.threads[0].name, None);
}

#[test]
fn unknown_kinds_and_keys_survive() {
    let odd = V::Map(vec![
        (V::from(1), V::Ext(5, vec![1, 2])),
        (V::Nil, V::F64(0.5)),
    ]);
    let bytes = other_encoder(&[
        (
            "head",
            v(&[
                ("format", "wedjat".into()),
                ("version", 1.into()),
                ("mood", odd.clone()),
            ]),
        ),
        (
            "event",
            v(&[("type", "hiccup".into()), ("class", "thawed".into())]),
        ),
        (
            "thread",
            v(&[("end", "tired".into()), ("state", "bored".into())]),
        ),
        ("capture", v(&[("cut", "rained off".into())])),
        ("future", odd),
        ("future", V::from(5)),
        ("stall_end", v(&[("how", "melted".into())])),
    ]);
    let first = report::read(&bytes).unwrap();
    assert_eq!(first.damage, []);
    assert_eq!(first.report.class_word(), Some("thawed"));
    let thread = &first.report.threads[0];
    assert_eq!(thread.state, Some(ThreadState::Other));
    assert_eq!(
        (thread.state_word(), thread.end_word()),
        (Some("bored"), Some("tired"))
    );
    let capture = first.report.capture.as_ref().unwrap();
    let cut = ("cut".to_owned(), Value::Text("rained off".to_owned()));
    assert_eq!(
        (capture.cut, &capture.extra),
        (Some(CutReason::Other), &vec![cut])
    );
    let end = first.report.stall_end.as_ref().unwrap();
    assert_eq!(
        (end.how, end.how_word(), end.class),
        (StallOutcome::Other, "melted", None)
    );
    let kinds: Vec<&str> = first
        .report
        .unknown
        .iter()
        .map(|(kind, _)| kind.as_str())
        .collect();
    assert_eq!(kinds, ["future", "future"]);
    let expected = Value::Map(vec![
        (Value::Unsigned(1), Value::Extension(5, vec![1, 2])),
        (Value::Nil, Value::Float(0.5)),
    ]);
    assert_eq!(first.report.head.extra, [("mood".to_owned(), expected)]);
    let mut again = report::read(&report::to_bytes(&first.report)).unwrap();
    assert_eq!(again.damage, []);
    // The CRC is that of other bytes: this writer's encoding has checks.
    again.report.end = first.report.end.clone();
    assert_eq!(again.report, first.report);
}

#[test]
fn a_tool_that_rewrites_a_report_need_not_know_of_checks() {
    let mut bytes = report::to_bytes(&full_report());
    let mut rest = bytes.as_slice();
    let mut sections = Vec::new();
    while !rest.is_empty() {
        let V::Array(mut pair) = rmpv::decode::read_value(&mut rest).unwrap() else {
            panic!()
        };
        let (map, kind) = (pair.pop().unwrap(), pair.pop().unwrap());
        sections.push((kind.as_str().unwrap().to_owned(), map));
    }
    let (_, V::Map(head)) = &mut sections[0] else {
        panic!()
    };
    head.push(("added".into(), "by a tool".into()));
    let (_, V::Map(mut end)) = sections.pop().unwrap() else {
        panic!()
    };
    bytes.clear();
    for (kind, map) in &sections {
        let section = V::Array(vec![kind.as_str().into(), map.clone()]);
        rmpv::encode::write_value(&mut bytes, &section).unwrap();
    }
    let crc = crc32fast::hash(&bytes);
    end.iter_mut()
        .find(|(key, _)| key.as_str() == Some("crc32"))
        .unwrap()
        .1 = crc.into();
    rmpv::encode::write_value(&mut bytes, &V::Array(vec!["end".into(), V::Map(end)])).unwrap();
    let reading = report::read(&bytes).unwrap();
    assert_eq!(reading.damage, []);
    let added = ("added".to_owned(), Value::Text("by a tool".to_owned()));
    assert!(reading.report.head.extra.contains(&added));
}

#[test]
fn a_report_cut_anywhere_holds_all_before_the_cut() {
    let bytes = report::to_bytes(&full_report());
    let whole = report::read(&bytes).unwrap().report;
    let mut read = 0;
    for len in 0..bytes.len() {
        match report::read(&bytes[..len]) {
            Ok(reading) => {
                read += 1;
                assert_eq!(reading.damage.len(), 1, "{len}: {:?}", reading.damage);
                let kind = reading.damage[0].kind;
                assert!(
                    matches!(kind, DamageKind::Cut | DamageKind::NoEnd),
                    "{len}: {kind:?}"
                );
                assert_is_part_of(&reading.report, &whole);
                let survey = report::survey(&bytes[..len]);
                assert!(survey.has_head && !survey.is_closed);
                assert_eq!(survey.crc, crc32fast::hash(&bytes[..survey.len as usize]));
            }
            Err(ReadError::Empty) => assert_eq!(len, 0),
            Err(ReadError::CutInHead { bytes }) => assert_eq!((bytes, read), (len as u64, 0)),
            Err(error) => panic!("{len}: {error}"),
        }
    }
    assert!(read > bytes.len() / 2);
}

#[test]
fn what_looks_like_a_section_within_an_id_is_none() {
    // Ids that hold bytes as those of a section, in a `head` that is cut behind them.
    for fake in [
        *b"\x00\x00\x00\x92\xa6thread\x81\x00\x00\x00\x00",
        *b"\x92\xa4head\x81\x61\x2b\x92\xa7\x83\x00\x00\x00\x00",
        *b"\x92\xa5event\x81\xa1x\x00\x00\x00\x00\x00\x00",
    ] {
        let mut report = Report::default();
        report.head.id = fake;
        let bytes = report::to_bytes(&report);
        for len in find(&bytes, &fake) + fake.len()..bytes.len() {
            let survey = report::survey(&bytes[..len]);
            assert!(!survey.has_head, "{len} {survey:?}");
            let cut = report::read(&bytes[..len]);
            assert!(cut.is_err(), "{len} {cut:?}");
        }
    }
}

#[test]
fn what_looks_like_a_section_in_one_that_was_cut_is_not_carried_on_from() {
    let mut report = Report::default();
    // As a section does, and behind it as another begins; neither has a check.
    let fake = b"\x92\xa5event\x81\xa1x\x00\x92\xa5event\x81\xa1x\x00".to_vec();
    report.memory.push(new!(NearMemory {
        bytes: fake.clone(),
    }));
    let bytes = report::to_bytes(&report);
    for len in find(&bytes, b"\x92\xa6memory")..find(&bytes, &fake) + fake.len() {
        let survey = report::survey(&bytes[..len]);
        assert!(survey.has_head && survey.sections == 1, "{len} {survey:?}");
        let mut rest = bytes[..survey.len as usize].to_vec();
        let mut buffer = [0; 256];
        ReportWriter::resume(&mut buffer, &mut rest, survey.crc, survey.sections)
            .finish(ClosedBy::NextLaunch)
            .unwrap();
        assert_eq!(report::read(&rest).unwrap().damage, [], "{len}");
    }
}

#[test]
fn a_flipped_byte_is_reported_and_nothing_wrong_is_read() {
    let mut report = full_report();
    // Keys of `end` that version 1.0 does not have are covered by nothing.
    report.end.as_mut().unwrap().extra.clear();
    let bytes = report::to_bytes(&report);
    let whole = report::read(&bytes).unwrap().report;
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80] {
            let mut bytes = bytes.clone();
            bytes[at] ^= flip;
            let Ok(reading) = report::read(&bytes) else {
                assert!(at < 200, "byte {at}: only damage to the head may cost all");
                continue;
            };
            // The last four bytes are the check of `end` itself: all else is right there.
            assert!(
                !reading.damage.is_empty() || at >= bytes.len() - 4,
                "byte {at} ^ {flip:#x}"
            );
            assert_is_part_of(&reading.report, &whole);
            let lost = |part: usize, whole: usize| whole.saturating_sub(part);
            assert!(
                lost(reading.report.threads.len(), whole.threads.len()) <= 1,
                "byte {at}"
            );
            assert!(
                lost(reading.report.images.len(), whole.images.len()) <= 1,
                "byte {at}"
            );
        }
    }
}

#[test]
fn damages_tell_where_they_are() {
    let bytes = report::to_bytes(&full_report());
    let thread = find(&bytes, b"\x92\xa6thread");
    let mut flipped = bytes.clone();
    flipped[thread + 20] ^= 0xff;
    let reading = report::read(&flipped).unwrap();
    assert_eq!(reading.damage[0].offset, thread as u64);
    assert_eq!(reading.damage[0].kind, DamageKind::Section);
    let shown = reading.damage[0].to_string();
    assert!(
        shown.starts_with(&format!("at byte {thread}: section `thread` ")),
        "{shown}"
    );
}

#[test]
fn frames_find_their_images_after_one_was_lost() {
    let bytes = report::to_bytes(&full_report());
    let whole = report::read(&bytes).unwrap().report;
    let image = find(&bytes, b"\x92\xa5image");
    let mut flipped = bytes.clone();
    flipped[image + 15] ^= 0x10;
    let part = report::read(&flipped).unwrap().report;
    assert_eq!(part.images, whole.images[1..]);
    for (part_frame, frame) in part.threads[0].frames.iter().zip(&whole.threads[0].frames) {
        let name = |report: &Report, frame: &Frame| {
            frame
                .image
                .map(|index| report.images[index as usize].name.clone())
        };
        let expected = name(&whole, frame).filter(|name| *name != whole.images[0].name);
        assert_eq!(name(&part, part_frame), expected);
    }
}

#[test]
fn what_is_no_report_has_an_error_of_its_own() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "it is empty (0 bytes)"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01", "a JPEG image"),
        (b"{\"head\": 1}", "JSON"),
        (b"Process: MyApp [123]\n", "plain text"),
        (b"\x7fELF\x02\x01\x01", "an ELF file"),
        (b"\xcf\xfa\xed\xfe\x07\x00\x00\x01", "a Mach-O file"),
        (b"\x1f\x8b\x08\x00", "gzip data"),
        (&[0; 4096], "nothing but zeros"),
        (b"\x92\xa4he", "within its first section `head`"),
        (b"\x81\xa1a\x01", "not a report"),
        (
            b"\x92\xa4head\x81\xa6format\xa5other",
            "its `format` is not \"wedjat\"",
        ),
        (b"\xc1\xc1\xc1\xc1", "not a report"),
    ];
    for (bytes, expected) in cases {
        let error = report::read(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{bytes:x?}: {error}");
    }
}

#[test]
fn a_later_version_is_refused_by_its_number() {
    let bytes = other_encoder(&[(
        "head",
        v(&[("format", "wedjat".into()), ("version", 2.into())]),
    )]);
    let error = report::read(&bytes).unwrap_err();
    assert!(
        matches!(error, ReadError::Version { version: 2 }),
        "{error}"
    );
}

#[test]
fn a_head_without_a_version_is_refused() {
    let bytes = other_encoder(&[("head", v(&[("format", "wedjat".into())]))]);
    let error = report::read(&bytes).unwrap_err();
    assert!(
        matches!(error, ReadError::Version { version: 0 }),
        "{error}"
    );
}

#[test]
fn a_report_made_of_defaults_can_be_read() {
    let report = Report::default();
    assert_eq!(
        report::read(&report::to_bytes(&report)).unwrap().report,
        report
    );
}

#[test]
fn values_of_a_wrong_type_are_reported_and_the_rest_is_kept() {
    let bytes = other_encoder(&[
        head_of_other_encoder(),
        (
            "thread",
            V::Map(vec![
                ("id".into(), "seven".into()),
                ("name".into(), "worker".into()),
                ("name".into(), "twin".into()),
                (V::from(7), V::from(8)),
                (
                    "frames".into(),
                    V::Array(vec![
                        V::Array(vec![1.into(), 1.into(), V::Nil]),
                        V::from(3),
                        V::Array(vec![2.into(), 1.into(), V::Nil]),
                    ]),
                ),
                (
                    "registers".into(),
                    v(&[("rip", 5.into()), ("rsp", (-1).into())]),
                ),
            ]),
        ),
    ]);
    let reading = report::read(&bytes).unwrap();
    let thread = &reading.report.threads[0];
    assert_eq!(thread.name.as_deref(), Some("worker"));
    assert_eq!(
        thread
            .frames
            .iter()
            .map(|frame| frame.pc)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(
        thread.omitted,
        Some(new!(report::Omitted { at: 1, count: 1 }))
    );
    assert_eq!(thread.registers, [("rip".to_owned(), 5)]);
    let messages: Vec<String> = reading.damage.iter().map(ToString::to_string).collect();
    assert_eq!(messages.len(), 5, "{messages:#?}");
    for (message, part) in messages.iter().zip([
        "`id` should be an integer that is not negative and is a string",
        "`name` stands twice",
        "has a key that is no string",
        "element 1 is not [pc, found, image]",
        "`registers` should be an integer",
    ]) {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn control_characters_do_not_reach_messages() {
    let kind = "e\u{1b}[2Jvil";
    let mut bytes = other_encoder(&[head_of_other_encoder(), (kind, v(&[]))]);
    let at = find(&bytes, kind.as_bytes()) + kind.len();
    bytes[at] = 0xc1;
    for damage in report::read(&bytes).unwrap().damage {
        assert!(!damage.message.chars().any(char::is_control), "{damage:?}");
    }
}

#[test]
fn deep_nesting_is_skipped() {
    let mut deep = V::Nil;
    for _ in 0..100 {
        deep = V::Array(vec![deep]);
    }
    let bytes = other_encoder(&[
        head_of_other_encoder(),
        ("event", v(&[("type", deep)])),
        ("loss", v(&[])),
    ]);
    let reading = report::read(&bytes).unwrap();
    assert_eq!(reading.report.event, None);
    assert!(reading.report.loss.is_some());
    assert_eq!(reading.damage[0].kind, DamageKind::Limit);
    // Not even so deep that a recursive reader would run out of stack.
    let mut bytes = report::to_bytes(&Report::default());
    bytes.extend(b"\x92\xa5event\x81\xa4type");
    bytes.extend(vec![0x91; 1_000_000]);
    assert!(report::read(&bytes).is_err() || !report::read(&bytes).unwrap().damage.is_empty());
}

fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes
        .windows(part.len())
        .position(|window| window == part)
        .expect("is in there")
}
