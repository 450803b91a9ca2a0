//! Reports of other recorders that nest without end, and names in them that no compiler writes.

use std::fs;
use std::path::Path;

use crate::deadline::{most_memory, symbolicate};
use wedjat::symbolicate::import;

#[test]
fn arrays_of_payloads_within_one_another_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("payload.json");
    let payload = "{\"callStackTree\":{}}";
    fs::write(&path, "[".repeat(1000) + payload + &"]".repeat(1000)).unwrap();
    let ran = symbolicate([&path]);
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(ran.err.contains("no layout that is read"), "{}", ran.err);
    fs::write(&path, format!("[[], {payload}, [{payload}], {payload}]")).unwrap();
    let ran = symbolicate([&path]);
    assert_eq!(ran.out.matches("Event: ").count(), 2);
}

/// A crash in a function of this name.
fn write_crash(path: &Path, name: &str) {
    let text = format!(
        "Process: kiosk [7]\n\nThread 0 Crashed:\n0 kiosk 0x104c3c558 {name} + 4\n\n\
         Binary Images:\n0x104c38000 - 0x104c3ffff kiosk arm64 <4c4c44e255553144a15d8db1b87dbb83> /kiosk\n"
    );
    fs::write(path, text).unwrap();
}

#[test]
fn names_that_no_compiler_writes_are_printed_and_grouped_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.crash");
    let thunks = |count| format!("_T{}F1a1bFT_T_", "To".repeat(count));
    let vectors = |count| format!("_TMa{}Bb", "Bv1".repeat(count));
    let module = format!("4000{}", "x".repeat(4000));
    let types = format!("_TMaTV{module}{}_", "1aVS_".repeat(200_000));
    let extension = "(extension in a)é".to_owned();
    for name in [
        thunks(2000),
        thunks(60_000),
        vectors(60_000),
        types,
        extension,
    ] {
        write_crash(&path, &name);
        for args in [&[][..], &["--top", "1"]] {
            let ran = symbolicate(args.iter().map(Path::new).chain([&*path]));
            assert_eq!(ran.code, Some(0), "{}", ran.err);
            let shown = name.get(..60).unwrap_or("é");
            assert!(ran.out.contains(shown), "{shown}: {}", ran.out);
        }
    }
    assert!(most_memory() < 700 << 20, "{} bytes", most_memory());
}

#[test]
fn threads_and_images_have_a_bound_and_the_rest_is_counted() {
    let threads = "Thread 1:\n0 a 0x1 b + 1\n\n".repeat(99_999);
    let images = "0x1000 - 0x1fff a arm64 <> /a\n".repeat(100_000);
    for (bytes, unlisted) in [
        // The image that its frames name, and no list has.
        (
            format!("Process: a\nThread 0:\n\n{threads}").into_bytes(),
            1,
        ),
        (
            format!("Process: a\nBinary Images:\n{images}").into_bytes(),
            0,
        ),
        (
            format!(
                "{{\"crash\":{{\"threads\":[{}0]}},\"report\":0}}",
                "0,".repeat(99_999)
            )
            .into_bytes(),
            0,
        ),
    ] {
        let reading = import::read(&bytes).unwrap().remove(0);
        let report = &reading.report;
        let parts = report.threads.len() + report.images.len();
        let rest = format!("{} threads, images", 100_000 + unlisted - parts);
        let mut damage = reading.damage.iter();
        assert!(
            parts < 100_000 && damage.any(|of| of.message.contains(&rest)),
            "{parts}: {:?}",
            reading.damage
        );
    }
}

/// A call graph of `sample`: a chain of functions, and as many branches at its end.
fn call_graph(depth: usize, branches: usize) -> String {
    let mut text = format!(
        "Analysis of sampling kiosk (pid 77) every 1 millisecond\nCall graph:\n    {branches} Thread_1\n"
    );
    let last = [(depth, 1)].repeat(branches);
    let chain = (1..depth).map(|level| (level, branches));
    for (level, count) in chain.chain(last) {
        let indent = "  ".repeat(level);
        text += &format!(
            "    +{indent}{count} f  (in kiosk) + 1  [{:#x}]\n",
            0x1000 + level
        );
    }
    text
}

#[test]
fn samples_are_whole_or_counted_as_left_out() {
    for (branches, left_out) in [(1500, 0), (5000, 5000 - (1 << 17) / 60)] {
        let reading = import::read(call_graph(60, branches).as_bytes()).unwrap();
        let samples = &reading[0].report.samples;
        assert!(samples.iter().all(|sample| sample.frames.len() == 60));
        let seen: u64 = samples.iter().map(|sample| sample.count).sum();
        assert_eq!(seen, branches as u64 - left_out);
        let counted = format!("{left_out} threads, images and samples");
        let damage = &reading[0].damage;
        let is_counted = damage.iter().any(|of| of.message.contains(&counted));
        assert_eq!(is_counted, left_out > 0, "{damage:?}");
    }
}
