//! The Mach-O fixtures against what LLVM says is true in them (`testdata/macho/golden`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wedjat::symbolicate::{Addresses, DebugFiles, SourceFrame};

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/macho")
        .join(path)
}

fn golden(arch: &str) -> Vec<(u64, Vec<Value>)> {
    let text = std::fs::read_to_string(fixture(&format!("golden/{arch}.ndjson"))).unwrap();
    text.lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            let address = value["address"].as_str().unwrap().trim_start_matches("0x");
            (
                u64::from_str_radix(address, 16).unwrap(),
                value["frames"].as_array().unwrap().clone(),
            )
        })
        .collect()
}

fn addresses(paths: &[&str], arch: &str) -> Addresses {
    let mut files = DebugFiles::new().no_search();
    for path in paths {
        files.add(&fixture(path)).unwrap();
    }
    Addresses::new(&files, Some(arch), None).unwrap()
}

/// Every frame as one comparable line: linkage name, file, line, inlined.
fn ours(frames: &[SourceFrame]) -> Vec<String> {
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().unwrap_or("").to_owned();
    frames
        .iter()
        .map(|f| {
            format!(
                "{} {}:{} {}",
                text(&f.mangled),
                text(&f.file),
                f.line.unwrap_or(0),
                f.inlined
            )
        })
        .collect()
}

fn theirs(frames: &[Value]) -> Vec<String> {
    frames
        .iter()
        .map(|f| {
            let text = |key: &str| f[key].as_str().unwrap_or("").to_owned();
            format!(
                "{} {}:{} {}",
                text("linkage"),
                text("file"),
                f["line"].as_u64().unwrap_or(0),
                f["inlined"]
            )
        })
        .collect()
}

#[track_caller]
fn assert_golden(paths: &[&str], arch: &str) {
    let addresses = addresses(paths, arch);
    let golden = golden(arch);
    assert!(golden.len() > 200);
    let mut wrong = Vec::new();
    for (address, frames) in &golden {
        let (ours, theirs) = (ours(&addresses.frames(*address)), theirs(frames));
        if ours != theirs {
            wrong.push(format!(
                "{address:#x}\n  ours   {ours:#?}\n  theirs {theirs:#?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        golden.len(),
        wrong[..wrong.len().min(4)].join("\n")
    );
}

#[test]
fn every_row_of_the_line_table_in_arm64() {
    assert_golden(&["arm64/kiosk.dSYM"], "arm64");
}

#[test]
fn every_row_of_the_line_table_in_x86_64() {
    assert_golden(&["x86_64/kiosk.dSYM"], "x86_64");
}

#[test]
fn a_universal_dsym_beside_a_universal_stripped_app() {
    for arch in ["arm64", "x86_64"] {
        assert_golden(&["universal/kiosk", "universal/kiosk.dSYM"], arch);
    }
}

#[test]
fn a_folder_of_everything() {
    assert_golden(&["arm64"], "arm64");
}

/// Code that no line of the source stands for is among what the goldens hold.
#[test]
fn line_zero_is_no_line() {
    for arch in ["arm64", "x86_64"] {
        let addresses = addresses(&[&format!("{arch}/kiosk.dSYM")], arch);
        let without_line = golden(arch)
            .into_iter()
            .filter(|(_, frames)| frames[0]["line"] == 0);
        let without_line: Vec<u64> = without_line.map(|(address, _)| address).collect();
        assert!(!without_line.is_empty());
        for address in without_line {
            assert_eq!(
                addresses.frames(address)[0].line,
                None,
                "{arch} {address:#x}"
            );
        }
    }
}

/// A symbol table names the outermost function right, or not at all.
#[test]
fn symbols_alone_are_right_or_silent() {
    for arch in ["arm64", "x86_64"] {
        for (file, at_least) in [("kiosk", 0.9), ("kiosk.stripped", 0.0)] {
            let addresses = addresses(&[&format!("{arch}/{file}")], arch);
            let mut named = 0;
            let golden = golden(arch);
            for (address, frames) in &golden {
                let truth = frames.last().unwrap()["linkage"].as_str().unwrap();
                if let Some(frame) = addresses.frames(*address).last() {
                    assert_eq!(
                        frame.mangled.as_deref(),
                        Some(truth),
                        "{arch}/{file} {address:#x}"
                    );
                    named += 1;
                }
            }
            assert!(
                named as f64 >= at_least * golden.len() as f64,
                "{arch}/{file}: only {named} named"
            );
        }
    }
}

/// Past the last function come stubs, constants and data: nothing there has a name.
#[test]
fn nothing_outside_of_code_has_a_name() {
    for arch in ["arm64", "x86_64"] {
        for file in ["kiosk.dSYM", "kiosk", "kiosk.stripped"] {
            let addresses = addresses(&[&format!("{arch}/{file}")], arch);
            let golden = golden(arch);
            let last = golden.iter().map(|(address, _)| *address).max().unwrap();
            let mut named = BTreeMap::new();
            for address in (last + 0x400..last + 0x20000)
                .step_by(4)
                .chain(0x1_0000_0000..0x1_0000_0400)
            {
                for frame in addresses.frames(address).iter() {
                    named.insert(address, frame.function.clone());
                }
            }
            assert!(named.is_empty(), "{arch}/{file}: {named:?}");
        }
    }
}
