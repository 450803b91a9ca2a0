//! The command line's own inputs: arguments, streams of addresses, and reports of any other recorder.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use wedjat::symbolicate::command;
use wedjat::symbolicate::{Addresses, DebugFiles, import};

static KIOSK: LazyLock<Addresses> = LazyLock::new(|| {
    let mut files = DebugFiles::new().no_search();
    let dsym = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../testdata/macho/arm64/kiosk.dSYM"
    );
    files.add(dsym.as_ref()).expect("the fixture is there");
    Addresses::new(&files, None, Some(0x1_0000_0000)).expect("it holds one image")
});

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else {
        return;
    };
    match kind {
        b'a' => arguments(rest),
        b't' => addresses(rest, false),
        b'n' => addresses(rest, true),
        // Whatever it is: another recorder's report is known by what it holds.
        _ => another(bytes),
    }
});

/// One argument a line.
fn arguments(bytes: &[u8]) {
    let lines = bytes.split(|&byte| byte == b'\n').take(16);
    let args = lines.map(|line| OsString::from_vec(line.to_vec()));
    if let Err(error) = command::parse(std::iter::once("symbolicate".into()).chain(args)) {
        assert!(!error.render().to_string().is_empty());
    }
}

fn addresses(bytes: &[u8], ndjson: bool) {
    let mut out = Vec::new();
    command::answer(&KIOSK, ndjson, &mut &*bytes, &mut out).expect("a Vec takes all");
    let text = String::from_utf8(out).expect("text");
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n'),
        "{text:?}"
    );
    if ndjson {
        for line in text.lines() {
            let answer: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert!(answer["frames"].is_array());
        }
    }
}

fn another(bytes: &[u8]) {
    let layout = import::detect(bytes);
    match import::read(bytes) {
        Ok(readings) => assert!(layout.is_some() && !readings.is_empty()),
        Err(error) => assert!(!error.to_string().chars().any(char::is_control)),
    }
}
