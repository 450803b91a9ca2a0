//! Any bytes read as a report, of ours or of another recorder, named by a fixed dSYM and printed in every
//! format; then the same, scrubbed.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use wedjat::report::{self, Reading, Scrub};
use wedjat::symbolicate::format::{
    Firefox, FlameGraph, Folded, Format, Html, Json, Ndjson, Speedscope, Style, Text, Top,
    TopLayout,
};
use wedjat::symbolicate::{DebugFiles, Symbolicated, Symbolicator, foreign, scrub};

static DESK: LazyLock<Symbolicator> = LazyLock::new(|| {
    let mut files = DebugFiles::new().system(false);
    let dsym = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../testdata/macho/arm64/kiosk.dSYM"
    );
    files.add(dsym.as_ref()).expect("the fixture is there");
    Symbolicator::new(files)
});

fuzz_target!(|bytes: &[u8]| {
    let readings = match foreign::detect(bytes) {
        Some(_) => foreign::read(bytes).unwrap_or_default(),
        None => report::read(bytes).into_iter().collect(),
    };
    for reading in readings.into_iter().take(4) {
        check(reading);
    }
});

fn check(reading: Reading) {
    let mut named = DESK.symbolicate_reading(reading);
    assert_eq!(named.threads.len(), named.report.threads.len());
    assert_eq!(named.samples.len(), named.report.samples.len());
    print_all(&named);
    let mut origin = "/home/somebody/1.wedjat".to_owned();
    scrub(&mut named, &mut origin, &Scrub::default());
    assert!(!origin.contains("somebody"));
    print_all(&named);
}

fn print_all(named: &Symbolicated) {
    let style = Style::default();
    tame(&print(Text::new(), &style, named));
    let json = print(Json::new(false), &style, named);
    serde_json::from_slice::<serde_json::Value>(&json).expect("JSON");
    tame(&json);
    let line = print(Ndjson::new(), &style, named);
    assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
    tame(&line);
    tame(&print(Folded::new(), &style, named));
    tame(&print(FlameGraph::new(), &style, named));
    tame(&print(Speedscope::new(), &style, named));
    tame(&print(Firefox::new(), &style, named));
    tame(&print(Html::new(), &style, named));
    tame(&print(
        Top::new(3, TopLayout::Text, style.clone()),
        &style,
        named,
    ));
}

fn print<F: Format>(mut format: F, style: &Style, named: &Symbolicated) -> Vec<u8> {
    let mut out = Vec::new();
    // Where there is no stack, there is no picture, and an error says so.
    if format.report(style, "fuzz", named, &mut out).is_ok() {
        let _ = format.finish(&mut out);
    }
    out
}

/// Nothing that a terminal obeys.
fn tame(out: &[u8]) {
    let text = std::str::from_utf8(out).expect("all formats are text");
    let is_command = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(is_command), "{text:?}");
}
