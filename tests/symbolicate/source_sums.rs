//! Source code that is shown, held against the sums in the debug information.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSymbol as _};
use wedjat::report::{Event, EventKind, Frame, Image, Report, Thread, to_bytes};
use wedjat::symbolicate::DebugFiles;

use crate::deadline::{Ran, symbolicate};

fn sums(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/sums")
        .join(name)
}

/// A crash in `till_pay` of a library.
fn crash(library: &Path) -> Vec<u8> {
    let mut files = DebugFiles::new();
    files.add(library).unwrap();
    let bytes = std::fs::read(library).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let mut symbols = file.dynamic_symbols();
    let pay = symbols
        .find(|symbol| symbol.name() == Ok("till_pay"))
        .unwrap();
    let mut report = Report::default();
    let mut event = Event::default();
    event.kind = EventKind::Crash;
    report.event = Some(event);
    let mut image = Image::default();
    image.name = "/opt/till/till.so".into();
    image.id = files.ids().next().unwrap().to_vec();
    (image.base, image.size) = (0x10_0000, 0x10_0000);
    report.images.push(image);
    let mut frame = Frame::default();
    // In the body, after the prologue.
    (frame.pc, frame.image) = (0x10_0000 + pay.address() + 0x14, Some(0));
    let mut thread = Thread::default();
    (thread.crashed, thread.frames) = (true, vec![frame]);
    report.threads.push(thread);
    to_bytes(&report)
}

const WARNING: &str = "source code that is not what was compiled";

/// Prints a crash of this library with the source code in a folder.
fn shown(library: &str, folder: &Path, format: &str) -> Ran {
    let report = folder.join("crash.wedjat");
    std::fs::write(&report, crash(&sums(library))).unwrap();
    let options = ["--no-cache", "--no-search", "--format", format, "--debug"].map(OsStr::new);
    let library = sums(library);
    let paths = [
        library.as_os_str(),
        "--source".as_ref(),
        folder.as_os_str(),
        report.as_os_str(),
    ];
    let ran = symbolicate(options.into_iter().chain(paths));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.err);
    ran
}

#[test]
fn a_file_that_is_not_of_the_commit_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (till, coins) = (folder.path().join("till.c"), folder.path().join("coins.h"));
    std::fs::copy(sums("till.c"), &till).unwrap();
    // No frame is in it.
    std::fs::write(&coins, "changed").unwrap();
    for format in ["text", "html"] {
        let same = shown("till.so", folder.path(), format);
        assert!(
            same.out.contains("coins_count(coins) / coins"),
            "{}",
            same.out
        );
        assert!(!same.err.contains(WARNING), "{}", same.err);
    }
    let text = std::fs::read_to_string(&till).unwrap();
    std::fs::write(
        &till,
        text.replace("int till_pay", "// Later.\nint till_pay"),
    )
    .unwrap();
    let named = format!(
        "  {}  (of till.so)\n",
        till.canonicalize().unwrap().display()
    );
    for format in ["text", "html"] {
        let changed = shown("till.so", folder.path(), format);
        assert!(changed.err.contains(WARNING), "{}", changed.err);
        assert!(changed.err.contains(&named), "{}", changed.err);
        assert!(!changed.err.contains("coins.h"), "{}", changed.err);
    }
    // Without sums: a file that ends before the line.
    std::fs::write(&till, "// Earlier.\n").unwrap();
    for format in ["text", "html"] {
        let short = shown("till4.so", folder.path(), format);
        assert!(short.err.contains(&named), "{}", short.err);
    }
    std::fs::write(&till, "// Earlier.\n".repeat(99)).unwrap();
    // No format that shows no source code; no debug information without sums.
    for (library, format) in [("till.so", "json"), ("till4.so", "text")] {
        let ran = shown(library, folder.path(), format);
        assert!(!ran.err.contains(WARNING), "{library}: {}", ran.err);
    }
}
