//! Flame graphs, folded stacks and speedscope profiles of the reports in `testdata/foreign`.
#![cfg(feature = "symbolicate")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

fn run(args: &[&str], report: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .arg("--debug")
        .arg(testdata("macho/arm64/kiosk.dSYM"))
        .args(args)
        .arg(testdata(report))
        .output()
        .unwrap()
}

fn text(args: &[&str], report: &str) -> String {
    let out = run(args, report);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn samples_are_folded_with_their_counts() {
    let folded = text(&["--format", "folded"], "foreign/metrickit-offset.json");
    // The crash once, the hang's 20 samples: one stack.
    assert_eq!(folded, "dyld+0x18344;main;kiosk_fault 21\n");
}

#[test]
fn a_flame_graph_is_one_file_that_needs_nothing_else() {
    let svg = text(&["--format", "flamegraph"], "foreign/metrickit-offset.json");
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("kiosk_fault (21 samples, 100"), "{svg}");
    for outside in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!svg.contains(outside), "{outside}");
    }
}

#[test]
fn a_flame_graph_of_nothing_is_an_error() {
    let empty = std::env::temp_dir().join(format!("wedjat-empty-{}.json", std::process::id()));
    std::fs::write(&empty, r#"{"crash":{"threads":[]},"report":{}}"#).unwrap();
    let out = run(&["--format", "flamegraph"], empty.to_str().unwrap());
    std::fs::remove_file(&empty).unwrap();
    assert_eq!(out.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&out.stderr).contains("at least one stack"));
}

#[test]
fn speedscope_profiles_keep_to_the_schema() {
    let document: Value =
        serde_json::from_str(&text(&["--format", "speedscope"], "foreign")).unwrap();
    assert_eq!(
        document["$schema"],
        "https://www.speedscope.app/file-format-schema.json"
    );
    let frames = document["shared"]["frames"].as_array().unwrap();
    for frame in frames {
        assert!(frame["name"].is_string());
        assert!(frame.get("file").is_none_or(Value::is_string));
        assert!(frame.get("line").is_none_or(Value::is_u64));
    }
    let profiles = document["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 13);
    for profile in profiles {
        assert_eq!(profile["type"], "sampled");
        assert!(profile["name"].is_string() && profile["unit"] == "none");
        let samples = profile["samples"].as_array().unwrap();
        let weights = profile["weights"].as_array().unwrap();
        assert_eq!(samples.len(), weights.len());
        let total: u64 = weights.iter().map(|w| w.as_u64().unwrap()).sum();
        assert_eq!(
            (profile["startValue"].as_u64(), profile["endValue"].as_u64()),
            (Some(0), Some(total))
        );
        for index in samples.iter().flat_map(|s| s.as_array().unwrap()) {
            assert!((index.as_u64().unwrap() as usize) < frames.len());
        }
    }
}
