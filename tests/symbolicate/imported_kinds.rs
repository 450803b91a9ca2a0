//! Kinds of reports that other recorders write, and ways in which they reach people (`testdata/imported`).

use std::path::{Path, PathBuf};

use wedjat::report::EventKind;
use wedjat::symbolicate::group::Member;
use wedjat::symbolicate::{DebugFiles, Symbolicated, Symbolicator, import};

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

/// The one report in a file of `testdata/imported`.
fn imported(name: &str) -> Symbolicated {
    let bytes = std::fs::read(testdata("imported").join(name)).unwrap();
    let mut files = DebugFiles::new().no_search();
    files.add(&testdata("macho/arm64/kiosk.dSYM")).unwrap();
    let mut readings = import::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(readings.len(), 1, "{name}");
    Symbolicator::new(files).symbolicate_reading(readings.remove(0))
}

fn functions(report: &Symbolicated, thread: usize) -> Vec<&str> {
    let frames = report.threads[thread].frames.iter();
    frames
        .flat_map(|physical| physical.frames.iter())
        .filter_map(|frame| frame.function.as_deref())
        .collect()
}

fn pcs(report: &Symbolicated, thread: usize) -> Vec<u64> {
    let frames = report.threads[thread].frames.iter();
    frames.map(|frame| frame.pc).collect()
}

const STORY: [u64; 3] = [0x104c3c554, 0x104c3c55c, 0x1a0018344];

#[test]
fn reports_of_load_have_their_heaviest_stack_and_their_trees() {
    for (name, kind, word, limit) in [
        ("cpu_resource.ips", EventKind::Cpu, "cpu", "65% cpu average"),
        (
            "cpu_usage_fatal.ips",
            EventKind::Cpu,
            "cpu",
            "99% cpu average",
        ),
        (
            "diskwrites_resource.ips",
            EventKind::Other,
            "disk writes",
            "1073.75 MB",
        ),
    ] {
        let found = imported(name);
        assert_eq!(found.damage, [""; 0], "{name}");
        let event = found.report.event.as_ref().unwrap();
        assert_eq!((event.kind, event.word()), (kind, word), "{name}");
        let message = event.message.as_deref().unwrap_or_default();
        assert!(message.contains(limit), "{name}: {message}");
        let head = &found.report.head;
        assert_eq!((head.app.name.as_str(), head.pid), ("kiosk", 77), "{name}");
        assert_eq!(pcs(&found, 0), STORY, "{name}");
        assert_eq!(functions(&found, 0)[..2], ["kiosk_fault", "main"], "{name}");
        // The tree: of 12 samples 8 in `kiosk_fault`, 2 in `main` elsewhere, 2 in the kernel.
        let samples = found.report.samples.iter();
        let mut counts: Vec<(u64, u64)> = samples.map(|s| (s.count, s.frames[0].pc)).collect();
        counts.sort_unstable();
        assert_eq!(
            counts,
            [(2, 0x104c3c558), (2, 0x1d0000010), (8, 0x104c3c554)],
            "{name}"
        );
        // launchd's stacks are not this process's.
        assert_eq!(found.report.threads.len(), 2, "{name}");
    }
}

#[test]
fn what_a_simulated_crash_is_attributed_to_is_the_thread_in_question() {
    let found = imported("simulated.ips");
    assert_eq!(found.damage, [""; 0]);
    let at = found
        .report
        .threads
        .iter()
        .position(|thread| thread.crashed);
    assert_eq!(at, Some(2));
    assert_eq!(pcs(&found, 2), STORY);
}

#[test]
fn recursion_is_whole_and_inlined_lines_are_one_frame() {
    for name in ["recursion.crash", "recursion-named.crash"] {
        let found = imported(name);
        assert_eq!(found.damage, [""; 0], "{name}");
        let pcs = pcs(&found, 1);
        assert_eq!(pcs.len(), 37, "{name}");
        assert_eq!(
            pcs.iter().filter(|pc| **pc == 0x104c3c558).count(),
            34,
            "{name}"
        );
    }
}

/// As `CrashSymbolicator.py` and `atos -i` write them: a line of a function that was inlined says so.
#[test]
fn lines_that_were_inlined_are_of_the_frame_they_were_inlined_into() {
    let text = std::fs::read_to_string(testdata("imported/recursion-named.crash")).unwrap();
    let lines = |at: u64| {
        let lines = [
            format!("0 kiosk {at:#x} price + 4 (till.c:14) [inlined]"),
            format!("1 kiosk {at:#x} till_total + 60 (till.c:21)"),
            "2 kiosk 0x104c3c55c main + 32 (kiosk.c:26)".to_owned(),
        ];
        lines.join("\n")
    };
    let stack = |name: &str, lines: &str| {
        let start = text.find("Thread 1 Crashed:").unwrap();
        let end = text.find("Binary Images:").unwrap();
        let (head, images) = (&text[..start], &text[end..]);
        let text = format!("{head}{name}:\n{lines}\n\n{images}");
        let mut readings = import::read(text.as_bytes()).unwrap();
        readings.remove(0)
    };
    let mut files = DebugFiles::new().no_search();
    files.add(&testdata("macho/arm64/kiosk.dSYM")).unwrap();
    let named = Symbolicator::new(files);
    let unnamed = Symbolicator::new(DebugFiles::new().no_search());
    let below = |lines: &str| format!("0 kiosk 0x104c3c554 kiosk_fault + 4\n{lines}");
    // The last is the address behind a call.
    for (name, lines, skipped) in [
        ("Thread 1 Crashed", lines(0x104c3c6a4), 0),
        ("Last Exception Backtrace", lines(0x104c3c6a8), 0),
        ("Thread 1 Crashed", below(&lines(0x104c3c6a8)), 1),
    ] {
        for symbolicator in [&named, &unnamed] {
            let found = symbolicator.symbolicate_reading(stack(name, &lines));
            assert_eq!(pcs(&found, 1).len(), 2 + skipped, "{name}");
            let functions = &functions(&found, 1)[skipped..];
            assert_eq!(functions, ["price", "till_total", "main"], "{name}");
            let inner = &found.threads[1].frames[skipped].frames;
            assert!(inner[0].inlined && !inner[1].inlined, "{name}");
        }
        let found = unnamed.symbolicate_reading(stack(name, &lines));
        let lines = sources(&found, 1);
        assert_eq!(
            lines[skipped..],
            [("till.c", 14), ("till.c", 21), ("kiosk.c", 26)],
            "{name}"
        );
    }
}

/// Files and lines of a thread's functions.
fn sources(report: &Symbolicated, thread: usize) -> Vec<(&str, u32)> {
    let frames = report.threads[thread].frames.iter();
    let frames = frames.flat_map(|physical| physical.frames.iter());
    frames
        .filter(|frame| frame.function.is_some())
        .map(|frame| (frame.file.as_deref().unwrap_or(""), frame.line.unwrap_or(0)))
        .collect()
}

#[test]
fn files_and_lines_of_sampled_stacks_are_read() {
    for (name, old, new, file) in [
        (
            "sample.txt",
            "+   60 main  (in kiosk) + 32  [0x104c3c55c]",
            "+   60 main  (in kiosk) + 32,40  [0x104c3c55c,0x104c3c564]  kiosk.c:26",
            "kiosk.c",
        ),
        (
            "spindump.txt",
            "main + 32 (kiosk + 1372)",
            "main + 32 (my kiosk.c:26 in kiosk + 1372)",
            "my kiosk.c",
        ),
        (
            "cpu_resource.ips",
            "??? (kiosk + 1372)",
            "main + 32 (kiosk.c:26 in kiosk + 1372)",
            "kiosk.c",
        ),
    ] {
        let text = std::fs::read_to_string(testdata("imported").join(name)).unwrap();
        assert!(text.contains(old), "{name}");
        let mut readings = import::read(text.replace(old, new).as_bytes()).unwrap();
        let symbolicator = Symbolicator::new(DebugFiles::new().no_search());
        let found = symbolicator.symbolicate_reading(readings.remove(0));
        assert_eq!(found.damage, [""; 0], "{name}");
        assert_eq!(pcs(&found, 0), STORY, "{name}");
        assert_eq!(sources(&found, 0)[0], (file, 26), "{name}");
    }
}

#[test]
fn two_crashed_threads_of_one_number_stay_two() {
    let found = imported("two-crashed.crash");
    let crashed: Vec<usize> = (0..found.threads.len())
        .filter(|at| found.report.threads[*at].crashed)
        .collect();
    assert_eq!(crashed, [1, 2]);
    assert_eq!(pcs(&found, 1), STORY);
    assert_eq!(pcs(&found, 2), [0x104c3c558, 0x1a0018344]);
    assert_eq!(found.report.threads[1].registers.len(), 2);
    assert!(found.report.threads[2].registers.is_empty());
}

#[test]
fn lists_of_images_may_be_several_and_have_packages() {
    let found = imported("dpkg.crash");
    assert_eq!(found.damage, [""; 0]);
    let names: Vec<&str> = found
        .images()
        .iter()
        .map(|image| image.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "/private/var/containers/Bundle/Application/1/kiosk.app/kiosk",
            "/usr/lib/dyld"
        ]
    );
    assert_eq!(pcs(&found, 1), STORY);
    assert_eq!(functions(&found, 1), ["kiosk_fault", "main", "start"]);
}

#[test]
fn a_pasted_report_keeps_its_frames() {
    let found = imported("pasted.crash");
    assert_eq!(found.damage, [""; 0]);
    assert_eq!(found.report.head.app.name, "kiosk");
    assert_eq!(pcs(&found, 1), STORY);
    assert_eq!(found.report.threads[1].registers.len(), 2);
}

#[test]
fn a_frame_that_cannot_be_read_is_named_by_its_line_and_its_byte() {
    let text = std::fs::read_to_string(testdata("imported/torn.crash")).unwrap();
    let indented: String = text.lines().map(|line| format!("    {line}\n")).collect();
    // As it was written; behind the mark of UTF-8; pasted with an indent.
    for text in [text.clone(), format!("\u{feff}{text}"), indented] {
        let at = text.find("(cut)").unwrap();
        let start = text[..at].rfind('\n').unwrap() + 1;
        let line = 1 + text[..start].matches('\n').count();
        let readings = import::read(text.as_bytes()).unwrap();
        let [damage] = &readings[0].damage[..] else {
            panic!("{:?}", readings[0].damage);
        };
        assert!(
            damage.message.contains(&format!("line {line} ")),
            "{damage}"
        );
        assert_eq!(damage.offset, start as u64, "{damage}");
    }
    assert_eq!(pcs(&imported("torn.crash"), 1).len(), 2);
}

#[test]
fn an_event_without_its_app_is_named_by_its_program() {
    let found = imported("event-no-app.json");
    let app = &found.report.head.app;
    assert_eq!(
        (app.name.as_str(), app.version.as_str()),
        ("kiosk", "2.1 (77)")
    );
}

#[test]
fn lines_and_inlined_functions_of_the_report_itself_are_kept() {
    let found = imported("inlined.ips");
    assert_eq!(found.damage, [""; 0]);
    let frames: Vec<_> = found.threads[1]
        .frames
        .iter()
        .flat_map(|physical| physical.frames.iter())
        .map(|frame| {
            let (function, file) = (frame.function.as_deref(), frame.file.as_deref());
            (function.unwrap(), file, frame.line, frame.inlined)
        })
        .collect();
    assert_eq!(
        frames,
        [
            (
                "Swift._assertionFailure() -> Never",
                Some("/<compiler-generated>"),
                None,
                true
            ),
            ("assertion of price", Some("price.swift"), Some(12), true),
            ("total(of:)", Some("till.swift"), Some(40), false),
            ("main", Some("main.swift"), Some(3), false),
            ("start", None, None, false),
        ]
    );
    assert_eq!(pcs(&found, 1), STORY);
    // What the compiler made is Swift's, not the app's.
    assert_eq!(*Member::new("", &found).stack[0], *"price");
}

#[test]
fn names_beside_numbers_are_names() {
    let found = imported("side-by-side.crash");
    assert_eq!(found.damage, [""; 0]);
    assert_eq!(pcs(&found, 1), STORY);
    assert_eq!(functions(&found, 1), ["-[Till sum:]", "main", "start"]);
}

#[test]
fn what_spindump_and_sample_saw_has_its_stacks() {
    for (name, weights) in [("spindump.txt", [15, 5]), ("sample.txt", [60, 20])] {
        let found = imported(name);
        assert_eq!(found.damage, [""; 0], "{name}");
        let event = found.report.event.as_ref().unwrap();
        assert_eq!(
            (event.kind, event.fatal),
            (EventKind::Live, false),
            "{name}"
        );
        let head = &found.report.head;
        assert_eq!((head.app.name.as_str(), head.pid), ("kiosk", 77), "{name}");
        assert_eq!(pcs(&found, 0), STORY, "{name}");
        assert_eq!(functions(&found, 0)[..2], ["kiosk_fault", "main"], "{name}");
        let mut counts: Vec<u64> = found.report.samples.iter().map(|s| s.count).collect();
        counts.sort_by(|a, b| b.cmp(a));
        assert_eq!(counts, weights, "{name}");
    }
    assert_eq!(
        imported("sample.txt").report.threads[1].name.as_deref(),
        Some("worker")
    );
}

#[test]
fn what_is_not_read_is_refused_by_name() {
    let jetsam = std::fs::read_to_string(testdata("imported/jetsam.ips")).unwrap();
    let panic = |kind: &str| {
        format!(
            "{{\"bug_type\":\"{kind}\"}}\n{{\"panicString\":\"panic(cpu 2 caller 0x1): till\",\"processByPid\":{{}}}}\n"
        )
    };
    for (text, word) in [
        (jetsam, "has no stacks"),
        (panic("210"), "a kernel panic"),
        (panic("151"), "a kernel panic"),
    ] {
        let error = import::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

/// As React Native's apps send them, in the order that a service takes them in: outermost first.
#[test]
fn javascript_has_its_functions_files_and_lines() {
    let event = |line: u32, function: &str| {
        let event = serde_json::json!({
            "event_id": "11111111222233334444555555555555", "platform": "javascript", "level": "fatal",
            "release": "com.example.till@2.1+77",
            "exception": {"values": [{"type": "TypeError", "value": "undefined is not a function", "stacktrace": {"frames": [
                {"function": "callFunction", "filename": "app:///node_modules/react-native/Bridge.js", "lineno": 9, "colno": 1},
                {"function": function, "filename": "app:///src/Checkout.js", "lineno": line, "colno": 23},
                {"function": "map", "filename": "app:///node_modules/lodash/map.js", "lineno": 3, "colno": 7},
            ]}}]},
        });
        let mut readings = import::read(event.to_string().as_bytes()).unwrap();
        Symbolicator::new(DebugFiles::new().no_search()).symbolicate_reading(readings.remove(0))
    };
    let found = event(12, "onPay");
    assert_eq!(functions(&found, 0), ["map", "onPay", "callFunction"]);
    let frame = &found.threads[0].frames[1].frames[0];
    assert_eq!(
        (frame.file.as_deref(), frame.line),
        (Some("app:///src/Checkout.js"), Some(12))
    );
    let member = |found: &Symbolicated| Member::new("", found);
    assert_eq!(
        *member(&found).stack,
        ["onPay"].map(std::sync::Arc::<str>::from)
    );
    assert_eq!(member(&found).key, member(&event(14, "onPay")).key);
    assert_ne!(member(&found).key, member(&event(12, "onScan")).key);
}
