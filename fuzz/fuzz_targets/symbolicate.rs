//! Any bytes read as a report, of ours or of another recorder, named by a fixed dSYM and printed in one
//! of the formats; then the same, scrubbed.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use wedjat::report::{self, Reading, Redact};
use wedjat::symbolicate::format::{
    Firefox, Folded, Format, Html, Json, Ndjson, Style, Text, Top, TopLayout,
};
use wedjat::symbolicate::{DebugFiles, Symbolicated, Symbolicator, import, redact};

static RECORDER: LazyLock<Symbolicator> = LazyLock::new(|| {
    let mut files = DebugFiles::new().no_search();
    let dsym = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../testdata/macho/arm64/kiosk.dSYM"
    );
    files.add(dsym.as_ref()).expect("the fixture is there");
    Symbolicator::new(files)
});

fuzz_target!(|bytes: &[u8]| {
    let readings = match import::detect(bytes) {
        Some(_) => import::read(bytes).unwrap_or_default(),
        None => report::read(bytes).into_iter().collect(),
    };
    // One format each time, or a report would be printed twenty times over.
    let format = bytes.len() % 7;
    for reading in readings.into_iter().take(4) {
        check(reading, format);
    }
});

fn check(reading: Reading, format: usize) {
    let mut named = RECORDER.symbolicate_reading(reading);
    assert_eq!(named.threads.len(), named.report.threads.len());
    assert_eq!(named.samples.len(), named.report.samples.len());
    print_as(format, &named);
    let mut origin = "/home/somebody/1.wedjat".to_owned();
    redact(&mut named, &mut origin, &Redact::default());
    assert!(!origin.contains("somebody"));
    print_as(format, &named);
}

fn print_as(format: usize, named: &Symbolicated) {
    let style = Style::default();
    let out = match format {
        0 => print(Text::default(), &style, named),
        1 => {
            let json = print(Json::default(), &style, named);
            serde_json::from_slice::<serde_json::Value>(&json).expect("JSON");
            json
        }
        2 => {
            let line = print(Ndjson::default(), &style, named);
            assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
            line
        }
        3 => print(Folded::default(), &style, named),
        4 => print(Firefox::default(), &style, named),
        5 => print(Html::default(), &style, named),
        _ => print(Top::new(3, TopLayout::Text, style.clone()), &style, named),
    };
    tame(&out);
}

fn print<F: Format>(mut format: F, style: &Style, named: &Symbolicated) -> Vec<u8> {
    let mut out = Vec::new();
    format.report(style, "fuzz", named, &mut out).expect("memory takes all");
    format.finish(&mut out).expect("memory takes all");
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
