//! Reports of released versions, which stay in `testdata/reports/` for ever, are read and lose nothing.
//!
//! `WEDJAT_NEW_SAMPLES=1 cargo test --test report samples::` adds those of the present version that are
//! missing; it never changes one that is there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::support::report::{Shape, full_report, stall_report};
use rmpv::Value as V;
use wedjat::report::{self, DamageKind, EventKind};

const PRESENT: &str = "v1.0";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/reports")
}

fn present_samples() -> Vec<(&'static str, Vec<u8>)> {
    let small = Shape {
        images: 40,
        threads: 3,
        samples: 5,
        kept: 30,
    };
    let (stall, _) = stall_report(small);
    let cut = stall[..stall.len() / 2].to_vec();
    vec![
        ("full.wedjat", report::to_bytes(&full_report())),
        ("stall.wedjat", stall),
        ("cut.partial", cut),
    ]
}

/// Sections as an independent decoder sees them, without what is made anew when a report is written
/// again, keys and sections in one order.
fn content(mut bytes: &[u8]) -> Vec<(String, Vec<(String, V)>)> {
    let mut sections = Vec::new();
    while let Ok(section) = rmpv::decode::read_value(&mut bytes) {
        let [kind, map] = section.as_array().unwrap().as_slice() else {
            panic!("{section}")
        };
        let is_made_anew = |key: &V| {
            matches!(key.as_str(), Some("check" | "crc32")) || key.as_str() == Some("sections")
        };
        let map = map.as_map().unwrap().iter();
        let mut map: Vec<(String, V)> = map
            .filter(|(key, _)| !is_made_anew(key))
            .map(|(key, value)| (key.to_string(), sorted(value)))
            .collect();
        map.sort_by(|a, b| a.0.cmp(&b.0));
        sections.push((kind.as_str().unwrap().to_owned(), map));
    }
    // The order of sections of one kind counts, that of kinds does not.
    sections.sort_by(|a, b| a.0.cmp(&b.0));
    sections
}

fn sorted(value: &V) -> V {
    match value {
        V::Map(pairs) => {
            let mut pairs: Vec<(V, V)> = pairs
                .iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect();
            pairs.sort_by_key(|(key, _)| key.to_string());
            V::Map(pairs)
        }
        value => value.clone(),
    }
}

#[test]
fn every_released_version_is_read_and_nothing_of_it_is_lost() {
    let mut read = 0;
    for version in std::fs::read_dir(folder()).unwrap() {
        let version = version.unwrap().path();
        if !version.is_dir() {
            continue;
        }
        for sample in std::fs::read_dir(version).unwrap() {
            let path = sample.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let reading = report::read(&bytes).unwrap();
            let kinds: Vec<DamageKind> = reading.damage.iter().map(|damage| damage.kind).collect();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("wedjat") => assert_eq!(kinds, [], "{}", path.display()),
                Some("partial") => assert_eq!(kinds, [DamageKind::Cut], "{}", path.display()),
                _ => panic!("{}: what is this?", path.display()),
            }
            let again = report::to_bytes(&reading.report);
            assert_eq!(content(&again), content(&bytes), "{}", path.display());
            read += 1;
        }
    }
    assert!(read >= 3, "samples are missing");
}

/// The sections of a whole report: kind and bytes.
fn sections(bytes: &[u8]) -> Vec<(String, &[u8])> {
    let mut sections = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let before = rest;
        let section = rmpv::decode::read_value(&mut rest).unwrap();
        let kind = section.as_array().unwrap()[0].as_str().unwrap().to_owned();
        sections.push((kind, &before[..before.len() - rest.len()]));
    }
    sections
}

#[test]
fn what_was_read_is_written_again_byte_for_byte() {
    let mut events = Vec::new();
    for sample in std::fs::read_dir(folder().join(PRESENT)).unwrap() {
        let path = sample.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "wedjat")
        {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let reading = report::read(&bytes).unwrap();
        let again = report::to_bytes(&reading.report);
        let (mut before, mut after) = (sections(&bytes), sections(&again));
        if path.file_stem().unwrap() == "full" {
            assert!(before == after, "{}", path.display());
        }
        // The recorder writes kinds in another order; `end` has the CRC-32 of the bytes before it.
        before.retain(|(kind, _)| kind != "end");
        after.retain(|(kind, _)| kind != "end");
        before.sort_by(|a, b| a.0.cmp(&b.0));
        after.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(before.len(), after.len(), "{}", path.display());
        for ((kind, before), (_, after)) in before.iter().zip(&after) {
            assert_eq!(before, after, "{}: {kind}", path.display());
        }
        events.push(reading.report.event.unwrap().kind);
    }
    for kind in [
        EventKind::Stall,
        EventKind::Crash,
        EventKind::Panic,
        EventKind::Exception,
        EventKind::Live,
        EventKind::Cpu,
        EventKind::Memory,
    ] {
        assert!(events.contains(&kind), "there is no sample of {kind:?}");
    }
}

/// The table by one command: `cargo test --test report samples:: cut_anywhere -- --nocapture`.
#[test]
fn a_sample_cut_anywhere_keeps_each_section_before_the_cut() {
    println!(
        "| sample | bytes | sections | written again | cuts | sections kept of those before the cut |"
    );
    println!("| --- | ---: | ---: | --- | ---: | ---: |");
    for sample in std::fs::read_dir(folder().join(PRESENT)).unwrap() {
        let path = sample.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if path
            .extension()
            .is_none_or(|extension| extension != "wedjat")
        {
            continue;
        }
        let all = sections(&bytes);
        let again = report::to_bytes(&report::read(&bytes).unwrap().report);
        let same = |(kind, section): &&(String, &[u8])| {
            kind == "end" || sections(&again).iter().any(|(_, other)| other == section)
        };
        let same = all.iter().filter(same).count();
        assert_eq!(same, all.len(), "{}", path.display());
        // Where each section ends, by an independent decoder.
        let mut ends = Vec::new();
        for (_, section) in &all {
            ends.push(ends.last().unwrap_or(&0) + section.len());
        }
        let (mut wanted, mut kept) = (0, 0);
        // Each byte of the small ones.
        let cuts: Vec<usize> = (ends[0]..bytes.len())
            .step_by(1 + bytes.len() / 2000)
            .collect();
        for &cut in &cuts {
            let before = ends.iter().filter(|&&end| end <= cut).count();
            let reading = report::read(&bytes[..cut]).unwrap();
            assert_eq!(reading.damage.len(), 1, "{}: {cut}", path.display());
            let rest = report::to_bytes(&reading.report);
            // A section that is kept is written again as it was.
            let rest: HashSet<&[u8]> = sections(&rest)
                .into_iter()
                .map(|(_, section)| section)
                .collect();
            let is_kept = |(_, section): &&(String, &[u8])| rest.contains(section);
            wanted += before;
            kept += all[..before].iter().filter(is_kept).count();
        }
        let (name, cuts) = (path.file_stem().unwrap().display(), cuts.len());
        println!(
            "| {name} | {} | {} | {same} of {} byte for byte | {cuts} | {kept} of {wanted} |",
            bytes.len(),
            all.len(),
            all.len(),
        );
        assert_eq!(kept, wanted, "{}", path.display());
    }
}

#[test]
fn what_was_read_goes_through_json_and_through_rmp_serde_unchanged() {
    let mut read = 0;
    for sample in std::fs::read_dir(folder().join(PRESENT)).unwrap() {
        let path = sample.unwrap().path();
        let report = report::read(&std::fs::read(&path).unwrap()).unwrap().report;
        let json = serde_json::to_string(&report).unwrap();
        let back: report::Report = serde_json::from_str(&json).unwrap();
        assert_eq!(back, report, "{}", path.display());
        let bytes = rmp_serde::to_vec_named(&report.threads).unwrap();
        let back: Vec<report::Thread> = rmp_serde::from_slice(&bytes).unwrap();
        assert_eq!(back, report.threads, "{}", path.display());
        read += 1;
    }
    assert!(read >= 10, "samples are missing");
}

/// JSON has no form for a float that is no number.
#[test]
fn a_gauge_that_is_no_number_costs_json_nothing_else() {
    let mut report = report::Report::default();
    let context = report.context.get_or_insert_default();
    context.gauges = [("rate", f64::NAN), ("load", 0.5), ("far", f64::INFINITY)]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
    let json = serde_json::to_string(&report).unwrap();
    let back: report::Report = serde_json::from_str(&json).unwrap();
    assert_eq!(back.context.unwrap().gauges, [("load".to_owned(), 0.5)]);
}

#[test]
fn rmp_serde_alone_reads_the_sections() {
    let bytes = std::fs::read(folder().join(PRESENT).join("recorded-crash.wedjat")).unwrap();
    let report = report::read(&bytes).unwrap().report;
    let (mut threads, mut images) = (Vec::new(), Vec::new());
    for (kind, section) in sections(&bytes) {
        match kind.as_str() {
            "thread" => {
                let (_, thread): (String, report::Thread) = rmp_serde::from_slice(section).unwrap();
                threads.push(thread);
            }
            "image" => {
                let (_, image): (String, report::Image) = rmp_serde::from_slice(section).unwrap();
                images.push(image);
            }
            _ => {}
        }
    }
    assert_eq!(threads, report.threads);
    assert_eq!(images, report.images);
}

#[test]
fn version_1_0_reads_as_when_it_was_released() {
    let read = |name| {
        report::read(&std::fs::read(folder().join("v1.0").join(name)).unwrap())
            .unwrap()
            .report
    };
    let full = read("full.wedjat");
    assert_eq!(full.head.app.name, "MyApp");
    assert_eq!(full.head.pid, 4711);
    let event = full.event.unwrap();
    assert_eq!((event.kind, event.fatal), (EventKind::Crash, true));
    assert_eq!(event.signal.unwrap().address, Some(0xdead_beef));
    assert_eq!(full.threads[2].frames[1].pc, 0x2_0000_0234);
    assert_eq!(full.images[1].id, [1; 20]);
    assert_eq!(full.unknown[0].0, "future");
    let stall = read("stall.wedjat");
    assert_eq!(stall.event.unwrap().thresholds.unwrap().strikes, 5);
    assert_eq!(
        stall
            .samples
            .iter()
            .map(|sample| sample.frames.len())
            .collect::<Vec<_>>(),
        [40, 10, 10, 10, 10]
    );
    assert_eq!(
        stall.stall_end.unwrap().duration,
        std::time::Duration::from_nanos(400_123_456)
    );
    let cut = read("cut.partial");
    assert_eq!(cut.threads.len(), 1);
    assert!(cut.images.len() > 10 && cut.stall_end.is_none());
}

#[test]
fn the_present_version_has_its_samples() {
    let folder = folder().join(PRESENT);
    for (name, bytes) in present_samples() {
        let path = folder.join(name);
        if !path.exists() && std::env::var_os("WEDJAT_NEW_SAMPLES").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, bytes).unwrap();
        }
        assert!(
            path.exists(),
            "{} is missing: WEDJAT_NEW_SAMPLES=1 writes it",
            path.display()
        );
    }
}
