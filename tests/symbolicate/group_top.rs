//! `--top`: which reports are the same fault.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wedjat::new;
use wedjat::report::{
    Event, EventKind, Frame, Image, Report, Sample, StallClass, StallEnd, StallOutcome, Thread,
};
use wedjat::symbolicate::format::{Format, Ndjson, Style, Top, TopLayout};
use wedjat::symbolicate::group::{Groups, normalised};
use wedjat::symbolicate::{DebugFiles, Symbolicated, Symbolicator};

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

/// A stall whose stack the recorder named: innermost first, the app's frames and, with `/`, the
/// system's.
fn stall(version: &str, base: u64, stack: &[&str]) -> Symbolicated {
    let mut report = Report::default();
    report.head.app.name = "app".into();
    report.head.app.version = version.into();
    report.event = Some(new!(Event {
        kind: EventKind::Stall,
    }));
    report.stall_end = Some(new!(StallEnd {
        duration: Duration::from_nanos(base),
    }));
    for name in ["/opt/app/app", "/usr/lib/libsystem.so"] {
        report.images.push(new!(Image {
            name: name.into(),
            base,
            size: 1 << 20,
        }));
    }
    report.threads.push(new!(Thread {
        main: true,
        frames: frames(base, stack),
    }));
    Symbolicator::new(DebugFiles::new().no_search()).symbolicate(report)
}

fn frames(base: u64, stack: &[&str]) -> Vec<Frame> {
    let frames = stack.iter().zip(0u64..).map(|(name, index)| {
        new!(Frame {
            pc: base + index,
            image: Some(u32::from(name.starts_with('/'))),
            name: Some(name.trim_start_matches('/').to_owned()),
        })
    });
    frames.collect()
}

#[test]
fn builds_depths_and_system_frames_do_not_tell_faults_apart() {
    let mut groups = Groups::default();
    let same = [
        stall(
            "1.0",
            1000,
            &["/read", "decode", "draw", "app::main", "/start"],
        ),
        stall(
            "1.1",
            9000,
            &["/futex", "/wait", "decode.llvm.77", "draw", "main"],
        ),
        stall(
            "1.2",
            5000,
            &[
                "decode",
                "decode",
                "decode",
                "draw",
                "/CFRunLoopRun",
                "main",
                "/start",
            ],
        ),
        stall(
            "1.2",
            5000,
            &["std::io::read", "decode", "draw", "draw", "main", "/start"],
        ),
    ];
    let keys: Vec<u128> = same.iter().map(|report| groups.add("a", report)).collect();
    assert!(
        keys.iter().all(|key| *key == keys[0]),
        "{:?}",
        same.each_ref().map(normalised)
    );
    let other = stall("1.0", 1, &["decode", "print", "main"]);
    assert_ne!(groups.add("b", &other), keys[0]);
    let top = groups.top(10);
    assert_eq!(top.len(), 2);
    assert_eq!(
        (top[0].count, top[0].total, top[0].worst),
        (4, Duration::from_micros(20), Duration::from_micros(9))
    );
    assert_eq!(top[0].labels["versions"]["1.2"], 2);
    assert_eq!(
        *top[0].example.stack,
        ["decode", "draw"].map(std::sync::Arc::<str>::from)
    );
}

/// The key of a report of this app in which `name`, of this file, was called by `main`.
fn key_of(app: &str, name: &str, file: Option<&str>) -> u128 {
    let mut report = stall("1.0", 1000, &[name, "main"]).report;
    report.head.app.name = app.into();
    let fields = [("frame", wedjat::report::Value::Unsigned(0))];
    let file = file.map(|file| ("sourceFile", wedjat::report::Value::Text(file.into())));
    let fields = fields.into_iter().chain(file);
    let fields = fields.map(|(key, value)| (wedjat::report::Value::Text(key.into()), value));
    let fields = wedjat::report::Value::Map(fields.collect());
    let list = wedjat::report::Value::Array(vec![fields]);
    report.threads[0].extra.push(("frame_fields".into(), list));
    Groups::default().add(
        "",
        &Symbolicator::new(DebugFiles::new().no_search()).symbolicate(report),
    )
}

#[test]
fn an_apps_name_and_the_file_of_a_nameless_function_tell_groups_apart() {
    // Of two apps, whose only own function is `main`.
    assert_ne!(key_of("till", "main", None), key_of("kiosk", "main", None));
    // As other recorders write it.
    assert_eq!(
        key_of("com.example.My-Till", "open", None),
        key_of("My Till", "open", None)
    );
    // Inlined async functions, as line tables alone name them.
    let (get, set) = ("/src/cmd/get.rs", "/src/cmd/set.rs");
    let key = |file| key_of("redis", "{async_block#0}", Some(file));
    assert_ne!(key(get), key(set));
    assert_eq!(
        key(get),
        key_of("redis", "{async_block#1}", Some("/elsewhere/cmd/get.rs"))
    );
    // A name that says something needs no file.
    let key = |file| key_of("redis", "redis::open", Some(file));
    assert_eq!(key(get), key(set));
}

#[test]
fn the_samples_outweigh_the_moment_of_detection() {
    let mut report = stall("1.0", 1000, &["innocent", "draw", "main"]).report;
    let sample = |count, stack: &[&str]| {
        new!(Sample {
            count,
            frames: frames(1000, stack),
        })
    };
    report.samples = vec![
        sample(1, &["innocent", "draw", "main"]),
        sample(5, &["guilty", "draw", "main"]),
        sample(3, &["/memcpy", "guilty", "draw", "main"]),
    ];
    let report = Symbolicator::new(DebugFiles::new().no_search()).symbolicate(report);
    assert_eq!(
        *normalised(&report),
        ["guilty", "draw"].map(std::sync::Arc::<str>::from)
    );
}

/// Samples of one function differ in what it calls. Counted one by one, `draw` would have most. The stack that is shown is a
/// whole one, that with the library's frame.
#[test]
fn the_most_frequent_stack_is_one_of_the_path_that_most_samples_have() {
    let mut report = stall("1.0", 1000, &["draw", "main"]).report;
    let parse = |inner: &[&str], at| [frames(at, inner), frames(1000, &["parse", "main"])].concat();
    let copied = || parse(&["/memcpy"], 5001);
    let draw = || frames(2000, &["draw", "main"]);
    let stacks = [
        parse(&[], 0),
        draw(),
        copied(),
        draw(),
        parse(&["/malloc"], 6001),
        copied(),
        draw(),
    ];
    let samples = stacks.map(|frames| new!(Sample { count: 1, frames }));
    report.samples = samples.into();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stall.wedjat");
    std::fs::write(&path, wedjat::report::to_bytes(&report)).unwrap();
    let text = crate::deadline::symbolicate(["--no-cache", path.to_str().unwrap()]).out;
    let (_, stack) = text
        .split_once("Most frequent stack (4 of 7 samples, ")
        .expect(&text);
    assert!(stack.lines().nth(1).unwrap().contains("memcpy"), "{text}");
    assert!(text.contains("Frame to Blame:      parse\n"), "{text}");
}

/// A closure that a function of another language calls counts as the function that holds it. The line is the closure's.
#[test]
fn the_title_has_the_place_that_is_blamed() {
    use wedjat::report::Value as Field;
    let text = |text: &str| Field::Text(text.into());
    for (closure, function, title) in [
        (
            "$s4till8checkoutyySiFyycfU_",
            "$s4till8checkoutyySiF",
            "stall in checkout(_:) (till.src:33)",
        ),
        (
            "till::pay(int)::{lambda(int)#1}::operator()(int) const",
            "till::pay(int)",
            "stall in till::pay (till.src:33)",
        ),
    ] {
        let mut report = stall("1.0", 1000, &[closure, "/qsort", function, "main"]).report;
        let fields = [(0, 33), (2, 31)].map(|(frame, line)| {
            Field::Map(vec![
                (text("frame"), Field::Unsigned(frame)),
                (text("sourceFile"), text("/Users/ann/till.src")),
                (text("sourceLine"), Field::Unsigned(line)),
            ])
        });
        let fields = ("frame_fields".into(), Field::Array(fields.into()));
        report.threads[0].extra.push(fields);
        let report = Symbolicator::new(DebugFiles::new().no_search()).symbolicate(report);
        let (mut json, mut out) = (Ndjson::default(), Vec::new());
        json.report(&Style::default(), "a", &report, &mut out)
            .unwrap();
        json.finish(&mut out).unwrap();
        let json: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["title"], title, "{}", json["blame"]);
    }
}

#[test]
fn groups_are_bounded_and_keep_the_frequent() {
    let mut groups = Groups::default();
    let often = stall("1.0", 1, &["often", "main"]);
    for index in 0..70_000 {
        if index % 100 == 0 {
            groups.add("often", &often);
        }
        groups.add("rare", &stall("1.0", 1, &[&format!("rare{index}"), "main"]));
    }
    assert!(groups.count() <= 1 << 16);
    assert_eq!(groups.top(1)[0].count, 700);
    let kept: u64 = groups.top(usize::MAX).iter().map(|group| group.count).sum();
    assert_eq!(kept + groups.dropped(), groups.reports());
}

#[test]
fn the_command_groups_layouts_together() {
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_symbolicate"))
            .arg("--debug")
            .arg(testdata("macho/arm64/kiosk.dSYM"))
            .args(args)
            .output()
            .unwrap()
    };
    let folder = testdata("foreign");
    let folder = folder.to_str().unwrap();
    // A bare `--top` does not swallow the report behind it.
    let out = run(&["--format", "ndjson", "--top", folder]);
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let groups: Vec<Value> = String::from_utf8(out.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Seven crashes in seven files of six layouts are one group.
    let crash = groups
        .iter()
        .find(|group| group["type"] == "crash")
        .unwrap();
    assert_eq!(crash["count"], 7);
    assert_eq!(crash["stack"], serde_json::json!(["kiosk_fault"]));
    assert_eq!(crash["devices"]["iPhone15,2"], 7);
    assert_eq!(
        groups
            .iter()
            .map(|g| g["count"].as_u64().unwrap())
            .sum::<u64>(),
        16
    );
    let out = run(&["--top", "1", folder]);
    assert_eq!(
        String::from_utf8(out.stdout)
            .unwrap()
            .matches("; group ")
            .count(),
        1
    );
    let out = run(&["--top", "1", "--format", "folded", folder]);
    assert_eq!(out.status.code(), Some(2));
}

/// A report of this type; `samples` nanoseconds lie between its first and its last sample.
fn event(kind: EventKind, fatal: bool, end: Option<u64>, samples: u64, name: &str) -> Report {
    let mut report = stall("1.0", 1000, &[name, "main"]).report;
    let event = report.event.as_mut().unwrap();
    (event.kind, event.fatal) = (kind, fatal);
    let duration = |nanoseconds| {
        new!(StallEnd {
            duration: Duration::from_nanos(nanoseconds),
            // Where the wait of the thread was known by its ping alone.
            at_least: true,
            how: StallOutcome::Recovered,
        })
    };
    report.stall_end = end.map(duration);
    report.samples = [0, samples]
        .map(|at| {
            new!(Sample {
                at: Duration::from_nanos(at),
                count: 1,
                frames: frames(1000, &[name, "main"]),
            })
        })
        .into();
    report
}

#[test]
fn what_ends_launches_comes_before_hiccups() {
    let mut groups = Groups::default();
    let symbolicator = Symbolicator::new(DebugFiles::new().no_search());
    let mut reports = Vec::new();
    reports.push(event(
        EventKind::Stall,
        false,
        Some(390_000_000),
        300_000_000,
        "hiccup",
    ));
    reports.extend((0..4).map(|_| event(EventKind::Crash, true, None, 0, "crash")));
    reports.extend((0..5).map(|_| event(EventKind::Stall, false, None, 3_000_000_000, "freeze")));
    for (mut report, launch) in reports.into_iter().zip(1_u8..) {
        // Two freezes in a launch are hardly possible; two reports of other kinds are.
        report.head.launch = [launch.min(9); 16];
        groups.add("a", &symbolicator.symbolicate(report));
    }
    let top = groups.top(10);
    let seen: Vec<_> = top
        .iter()
        .map(|g| (&*g.example.stack[0], g.ended, g.launches()))
        .collect();
    // A launch ends once.
    assert_eq!(seen, [("freeze", 4, 4), ("crash", 4, 4), ("hiccup", 0, 1)]);
    assert_eq!(
        (top[0].total, top[0].at_least),
        (Duration::from_secs(15), true)
    );
    assert_eq!(top[0].labels["endings"]["never seen to end"], 5);
    assert_eq!(
        (top[2].at_least, top[2].labels["endings"]["recovered"]),
        (true, 1)
    );
}

/// A group says why, where in the app and in which versions, and what a newer version has changed.
#[test]
fn a_group_has_its_causes_the_keys_of_the_app_and_its_trend() {
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0_u128;
    let mut write = |count: u32, version: &str, name: &str| {
        for at in 0..count {
            number += 1;
            let mut report = stall(version, 1000, &[name, "main"]).report;
            report.head.id = number.to_be_bytes();
            report.head.time = std::time::UNIX_EPOCH + Duration::from_secs(1_790_000_000);
            let event = report.event.as_mut().unwrap();
            event.class = Some(StallClass::Blocked);
            event.reason = Some(format!("waits for a lock held by thread {at}"));
            let screen = if at % 4 == 0 { "Start" } else { "Checkout" };
            report.context = Some(new!(wedjat::report::AppContext {
                keys: vec![("screen".into(), wedjat::report::Value::Text(screen.into()))],
            }));
            let path = folder.path().join(format!("{number}.wedjat"));
            std::fs::write(path, wedjat::report::to_bytes(&report)).unwrap();
        }
    };
    for (version, counts) in [("1.9", [30, 4, 0, 10]), ("1.10", [0, 40, 12, 10])] {
        for (count, name) in counts.into_iter().zip(["gone", "more", "new", "same"]) {
            write(count, version, name);
        }
    }
    let folder = folder.path().to_str().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
        command.args(["--no-search", "--no-cache"]).args(args);
        command.output().unwrap()
    };
    let out = run(&["--top", "--format", "json", folder]);
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    let top = json["top"].as_array().unwrap();
    let group = |name: &str| top.iter().find(|of| of["stack"][0] == name).unwrap();
    let trend = |name: &str| group(name)["trend"].clone();
    for (name, word, first, last) in [
        ("gone", Some("gone"), "1.9", "1.9"),
        ("more", Some("more"), "1.9", "1.10"),
        ("new", Some("new"), "1.10", "1.10"),
        ("same", None, "1.9", "1.10"),
    ] {
        let trend = trend(name);
        assert_eq!(trend["word"].as_str(), word, "{name}: {trend}");
        assert_eq!(
            (&trend["first"], &trend["last"]),
            (&first.into(), &last.into())
        );
        assert_eq!(trend["version"], "1.10");
    }
    let more = group("more");
    assert_eq!(more["classes"]["blocked"], 44);
    // Numbers do not tell reasons apart.
    assert_eq!(more["reasons"]["waits for a lock held by thread"], 44);
    assert_eq!(more["keys"]["screen"]["Checkout"], 33);
    let text = String::from_utf8(run(&["--top", folder]).stdout).unwrap();
    let page = run(&["--top", "--format", "html", folder]);
    let page = String::from_utf8(page.stdout).unwrap();
    for part in [
        "1.9 to 1.10; more in 1.10 (+610 %): 64.5 % of 62, before 9.1 % of 44 (launches with any report)",
        "1.9 to 1.10; in 1.10: 16.1 % of 62, before 22.7 % of 44 (launches with any report)",
        "1.10; new in 1.10: 19.4 % of 62, before 0.0 % of 44 (launches with any report)",
        "1.9; gone since 1.10: 0.0 % of 62, before 68.2 % of 44 (launches with any report)",
        "waits for a lock held by thread × 44",
        "blocked × 44",
        "Checkout × 33, Start × 11",
    ] {
        assert!(text.contains(part), "{part}: {text}");
        assert!(page.contains(part), "{part}: {page}");
    }
    // Nothing is said of what no report says.
    assert!(!text.contains("unknown"), "{text}");
    // One group of them, by the front of its key: by version and day, each report, and a whole stack.
    let key = more["group"].as_str().unwrap();
    let text = String::from_utf8(run(&["--group", &key[..8], folder]).stdout).unwrap();
    let page = run(&["--group", key, "--format", "html", folder]).stdout;
    let page = String::from_utf8(page).unwrap();
    let lines = [
        "1.10                   40  64.5 % of 62",
        "1.9                     4  9.1 % of 44",
        "2026-09-21            44  1.10 × 40, 1.9 × 4",
        "2026-09-21 14:13:20.000 +0000  1 µs ",
    ];
    for line in lines {
        assert!(text.contains(line), "{line}: {text}");
        assert!(page.contains(line), "{line}: {page}");
    }
    assert_eq!(text.matches(".wedjat").count(), 45, "44, and the example");
    assert!(text.contains("more in 1.10"), "{text}");
    assert!(text.contains("Thread 0:\n0   app "), "{text}");
    assert_eq!(page.matches("<section class=\"group\"").count(), 1);
    let out = run(&["--group", key, "--format", "json", folder]).stdout;
    let json: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&json["group"], &json["count"]), (&key.into(), &44.into()));
    assert_eq!(json["history"]["2026-09-21"]["1.10"], 40);
    assert_eq!(
        json["shares"],
        serde_json::json!([["1.10", 40, 62], ["1.9", 4, 44]])
    );
    assert_eq!(json["reports"].as_array().unwrap().len(), 44);
    assert_eq!(
        json["example_report"]["threads"][0]["frames"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let none = run(&["--group", "00000000", folder]).stdout;
    assert_eq!(none, b"None of 106 reports is in group 00000000.\n");
    assert_eq!(run(&["--group", "checkout", folder]).status.code(), Some(2));
}

/// The group of the function `leak`, as `--top --format json` has it, among reports of these versions, launches (0: without an
/// id) and functions.
fn leak_among(reports: &[(&str, u128, &str)]) -> Value {
    let style = Style::default();
    let (mut top, mut out) = (Top::new(10, TopLayout::Json, style.clone()), Vec::new());
    for (version, launch, name) in reports {
        let mut report = stall(version, 1000, &[name, "main"]);
        report.report.head.launch = launch.to_be_bytes();
        top.report(&style, "a", &report, &mut out).unwrap();
    }
    top.finish(&mut out).unwrap();
    let json: Value = serde_json::from_slice(&out).unwrap();
    let mut groups = json["top"].as_array().unwrap().iter();
    groups.find(|of| of["stack"][0] == "leak").unwrap().clone()
}

/// Launches are compared, however many reports each has sent. Two versions of `all` launches, of which so many have a leak. A
/// standard error for 10 and 20 of 40 is √(0.375 × 0.625 × 2/40) = 0.108: two of them and the correction 1/40 are 0.2415, and
/// 0.25 is more. For 10 and 19 they are 0.24, and 0.225 is less.
#[test]
fn a_group_has_its_share_of_the_launches_of_each_version() {
    for (all, before, after, word) in [
        (40, 10, 19, None),
        (40, 10, 20, Some("more")),
        (40, 20, 10, Some("less")),
        (20, 5, 15, Some("more")),
        // Too few launches.
        (19, 5, 15, None),
    ] {
        let mut reports = Vec::new();
        for (version, number, leaks) in [("1.9", 1_000, before), ("1.10", 2_000, after)] {
            for launch in 0..all {
                reports.push((version, number + launch, "busy"));
                // In each version about as many reports.
                let times = if launch < leaks { 200 / leaks } else { 0 };
                (0..times).for_each(|_| reports.push((version, number + launch, "leak")));
            }
        }
        let leak = leak_among(&reports);
        let shares = serde_json::json!([["1.10", after, all], ["1.9", before, all]]);
        assert_eq!(leak["shares"], shares);
        let trend = &leak["trend"];
        assert_eq!(trend["word"].as_str(), word, "{trend}");
        assert_eq!(trend["launches"], serde_json::json!([after, all]));
        assert_eq!(trend["before"], serde_json::json!([before, all]));
    }
}

#[test]
fn a_report_without_a_launch_counts_as_a_launch() {
    let reports = [
        ("2", 0, "leak"),
        ("2", 0, "leak"),
        ("2", 7, "leak"),
        ("2", 7, "leak"),
    ];
    let leak = leak_among(&[&reports[..], &[("1", 0, "busy"), ("", 9, "leak")]].concat());
    let shares = serde_json::json!([["2", 3, 3], ["1", 0, 1]]);
    assert_eq!((&leak["shares"], &leak["launches"]), (&shares, &4.into()));
}

/// A group that no report has since some version is gone since then, not since the newest one.
#[test]
fn a_group_is_gone_since_the_first_version_without_it() {
    let versions = ["1.0", "1.1", "1.2", "1.3"]
        .into_iter()
        .zip((0..).step_by(100));
    let reports = versions.flat_map(|(version, number)| {
        let name = if number < 200 { "leak" } else { "busy" };
        (1..=30).map(move |launch| (version, number + launch, name))
    });
    let leak = leak_among(&reports.collect::<Vec<_>>());
    let trend = serde_json::json!({
        "first": "1.0", "last": "1.1", "version": "1.2", "launches": [0, 60], "before": [60, 60], "word": "gone",
    });
    assert_eq!(leak["trend"], trend);
}

/// A launch ends of one cause, in whatever order its reports are read: of a crash, panic or exception before a kill in a stall,
/// and of the longest stall before another.
#[test]
fn a_launch_that_several_reports_end_counts_in_one_group() {
    let symbolicator = Symbolicator::new(DebugFiles::new().no_search());
    let stalled = |name, lasted| event(EventKind::Stall, false, None, lasted, name);
    let launches = [
        vec![
            event(EventKind::Crash, true, None, 0, "crash"),
            stalled("freeze", 9_000_000_000),
        ],
        vec![
            stalled("freeze", 9_000_000_000),
            event(EventKind::Panic, true, None, 0, "panic"),
            stalled("lock", 10_000_000_000),
        ],
        vec![
            stalled("lock", 2_000_000_000),
            event(EventKind::Exception, true, None, 0, "exception"),
        ],
        vec![
            stalled("lock", 2_000_000_000),
            stalled("freeze", 3_000_000_000),
        ],
        vec![stalled("lock", 2_000_000_000)],
        // Neither ended the launch.
        vec![
            event(EventKind::Panic, false, None, 0, "caught"),
            event(EventKind::Stall, false, Some(9), 9, "hiccup"),
        ],
    ];
    let numbered = launches.into_iter().zip(1_u8..);
    let mut reports: Vec<Symbolicated> = numbered
        .flat_map(|(reports, launch)| {
            let of_launch = move |mut report: Report| {
                report.head.launch = [launch; 16];
                report
            };
            reports.into_iter().map(of_launch)
        })
        .map(|report| symbolicator.symbolicate(report))
        .collect();
    let expected = [
        ("caught", 0),
        ("crash", 1),
        ("exception", 1),
        ("freeze", 1),
        ("hiccup", 0),
        ("lock", 1),
        ("panic", 1),
    ];
    for _ in 0..reports.len() {
        let mut groups = Groups::default();
        reports.iter().for_each(|report| {
            groups.add("a", report);
        });
        let mut seen: Vec<(String, u64)> = groups
            .top(10)
            .iter()
            .map(|group| (group.example.stack[0].to_string(), group.ended))
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, expected.map(|(name, ended)| (name.to_owned(), ended)));
        reports.rotate_left(1);
    }
}

/// Spins and reports of disk writes last for hours, in which the app was not frozen.
#[test]
fn the_time_that_load_lasted_is_no_time_of_stalls() {
    let mut groups = Groups::default();
    let symbolicator = Symbolicator::new(DebugFiles::new().no_search());
    let load = event(EventKind::Cpu, false, Some(60_000_000_000), 0, "load");
    groups.add("a", &symbolicator.symbolicate(load));
    let top = groups.top(1);
    assert_eq!(top[0].total, Duration::ZERO);
}

#[test]
fn the_command_selects_by_type_time_and_version() {
    let folder = testdata("foreign");
    let reports = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
        command
            .args(["--no-cache", "--top", "--format", "json"])
            .args(args)
            .arg(&folder);
        let out = command.output().unwrap();
        assert_eq!(
            out.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let top: Value = serde_json::from_slice(&out.stdout).unwrap();
        top["reports"].as_u64().unwrap()
    };
    assert_eq!(reports(&[]), 16);
    let (crashes, stalls) = (reports(&["--type", "crash"]), reports(&["--type", "stall"]));
    assert_eq!(reports(&["--type", "crash,stall"]), crashes + stalls);
    assert!(crashes >= 7 && stalls > 0);
    assert_eq!(reports(&["--version-is", "0.1"]), 0);
    let before = reports(&["--until", "2024-04-30"]);
    let behind = reports(&["--since", "2024-05-01"]);
    assert!(behind >= 7 && before + behind <= 16, "{before} {behind}");
    assert_eq!(
        reports(&[
            "--since",
            "2024-05-01",
            "--until",
            "2024-05-01",
            "--version-is",
            "2.1"
        ]),
        reports(&[
            "--since",
            "2024-05-01",
            "--until",
            "2024-05-01",
            "--version-is",
            "2.1 (77)"
        ])
    );
}

/// A report about a thread by its id is that thread's, whichever comes first and whichever is the main one.
#[test]
fn a_report_about_a_thread_is_grouped_by_its_stack() {
    let mut report = stall("1.0", 1000, &["/poll", "waits_for_events", "main"]).report;
    report.stall_end = None;
    report.threads.push(new!(Thread {
        id: 77,
        frames: frames(1000, &["/read", "hangs", "worker"]),
    }));
    report.event = Some(new!(Event {
        kind: EventKind::Live,
        thread: Some(77),
    }));
    let symbolicator = Symbolicator::new(DebugFiles::new().no_search());
    let about = symbolicator.symbolicate(report.clone());
    assert_eq!(
        wedjat::symbolicate::group::thread_in_question(&report),
        Some(1)
    );
    assert!(
        wedjat::symbolicate::group::normalised(&about)
            .iter()
            .any(|name| **name == *"hangs")
    );
    // An id that no thread has leaves it to the main one.
    report.event.as_mut().unwrap().thread = Some(78);
    assert_eq!(
        wedjat::symbolicate::group::thread_in_question(&report),
        Some(0)
    );
}
