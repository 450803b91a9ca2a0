//! Folded stacks, Firefox profiles and pages of the reports in `testdata/foreign`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use wedjat::new;

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

/// The document of the crate that profilers use to write this format: one thread, one sample.
fn firefox_reference() -> Value {
    use fxprof_processed_profile as fx;
    let time = |ms| fx::Timestamp::from_millis_since_reference(ms);
    let mut profile = fx::Profile::new(
        "app",
        std::time::SystemTime::UNIX_EPOCH.into(),
        fx::SamplingInterval::from_millis(1),
    );
    let process = profile.add_process("app", 1, time(0.0));
    let lib = profile.add_lib(fx::LibraryInfo {
        name: "app".into(),
        debug_name: "app".into(),
        path: "/app".into(),
        debug_path: "/app".into(),
        debug_id: Default::default(),
        code_id: None,
        arch: None,
        symbol_table: None,
    });
    profile.add_lib_mapping(process, lib, 0x1000, 0x2000, 0);
    let thread = profile.add_thread(process, 1, time(0.0), true);
    let frame = fx::FrameInfo {
        frame: fx::Frame::InstructionPointer(0x1010),
        category_pair: fx::CategoryHandle::OTHER.into(),
        flags: fx::FrameFlags::empty(),
    };
    let stack = profile.intern_stack_frames(thread, [frame].into_iter());
    profile.add_sample(thread, time(1.0), stack, fx::CpuDelta::ZERO, 1);
    serde_json::to_value(&profile).unwrap()
}

/// Every key of `reference` is in `found`, with a value of a kind that it may have; arrays by their
/// first element. Some values may be null.
fn same_shape(path: &str, reference: &Value, found: &Value) {
    match (reference, found) {
        (Value::Object(reference), Value::Object(found)) => {
            for (key, value) in reference {
                let path = format!("{path}.{key}");
                let found = found
                    .get(key)
                    .unwrap_or_else(|| panic!("{path} is missing"));
                same_shape(&path, value, found);
            }
        }
        (Value::Array(reference), Value::Array(found)) => {
            if let (Some(reference), Some(found)) = (reference.first(), found.first()) {
                same_shape(path, reference, found);
            }
        }
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Number(_), Value::Number(_))
        | (Value::String(_), Value::String(_))
        | (Value::Bool(_), Value::Bool(_)) => {}
        _ => panic!("{path} is {found} where {reference} would be right"),
    }
}

#[test]
fn firefox_profiles_are_shaped_as_other_writers_shape_them() {
    let document: Value = serde_json::from_str(&text(
        &["--format", "firefox"],
        "foreign/metrickit-offset.json",
    ))
    .unwrap();
    let reference = firefox_reference();
    assert_eq!(
        document["meta"]["preprocessedProfileVersion"],
        reference["meta"]["preprocessedProfileVersion"]
    );
    same_shape("", &reference, &document);
    let threads = document["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2);
    let hang = &threads[1];
    assert_eq!(hang["samples"]["weight"], serde_json::json!([20]));
    // All columns of a table are as long as it says.
    for table in [
        "samples",
        "stackTable",
        "frameTable",
        "funcTable",
        "resourceTable",
    ] {
        let length = hang[table]["length"].as_u64().unwrap() as usize;
        for (name, column) in hang[table].as_object().unwrap() {
            let Value::Array(column) = column else {
                continue;
            };
            assert_eq!(column.len(), length, "{table}.{name}");
        }
    }
    // From the sample's stack up to the root, by the tables.
    let at = |table: &str, column: &str, index: &Value| {
        hang[table][column][index.as_u64().unwrap() as usize].clone()
    };
    let mut stack = hang["samples"]["stack"][0].clone();
    let mut names = Vec::new();
    while !stack.is_null() {
        let frame = at("stackTable", "frame", &stack);
        let func = at("frameTable", "func", &frame);
        let name = at("funcTable", "name", &func);
        let name = hang["stringArray"][name.as_u64().unwrap() as usize]
            .as_str()
            .unwrap();
        let file = at("funcTable", "fileName", &func);
        let file = file
            .as_u64()
            .map(|file| hang["stringArray"][file as usize].clone());
        names.push((name.to_owned(), file, at("frameTable", "line", &frame)));
        stack = at("stackTable", "prefix", &stack);
    }
    let kiosk = Some(Value::from("/fixture/kiosk.c"));
    assert_eq!(
        names[0],
        ("kiosk_fault".to_owned(), kiosk.clone(), Value::from(7))
    );
    assert_eq!(names[1], ("main".to_owned(), kiosk, Value::from(26)));
    assert_eq!(names[2].0, "dyld+0x18344");
}

#[test]
fn a_page_shows_the_stack_with_its_source_and_needs_nothing_else() {
    let source = testdata("macho/src");
    let args = ["--format", "html", "--source", source.to_str().unwrap()];
    let page = text(&args, "foreign/crash.ips");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    for part in [
        "kiosk_fault",
        "kiosk.c:7",
        "SIGSEGV",
        "0x104c3c554",
        "prefers-color-scheme: dark",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let code = "<mark><i>    7</i>    exit((int)(code &amp; 0x7f));</mark>";
    assert!(page.contains(code), "{page}");
    for outside in [
        "src=", "href=", "@import", "url(", "<script", "http://", "https://",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    // Without the folder there is no source, and no trace of it.
    assert!(!text(&["--format", "html"], "foreign/crash.ips").contains("<mark>"));
    // The samples of a hang on a line of time.
    let hang = text(&["--format", "html"], "foreign/metrickit-offset.json");
    assert!(
        hang.contains("class=\"timeline\"")
            && hang.contains("<title>0 µs: kiosk_fault (20 ×)</title>"),
        "{hang}"
    );
}

/// The page's policy allows the script that searches the flame graph, by its hash, and no other.
#[test]
fn the_one_script_of_a_page_is_that_of_its_policy() {
    use std::io::Write;
    use std::process::Stdio;
    let page = text(&["--format", "html"], "foreign/metrickit-offset.json");
    let mut scripts = page.split("<script>").skip(1);
    let script = scripts.next().unwrap().split("</script>").next().unwrap();
    assert_eq!(scripts.next(), None);
    let mut command = Command::new("openssl");
    command.args(["dgst", "-sha256", "-binary"]);
    let mut hash = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    hash.stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    let hash = hash.wait_with_output().unwrap().stdout;
    let mut base64 = String::new();
    for group in hash.chunks(3) {
        let word = group
            .iter()
            .fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - group.len()));
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for at in 0..=group.len() {
            base64.push(DIGITS[(word >> (18 - 6 * at)) as usize & 63].into());
        }
    }
    let allowed = format!("script-src 'sha256-{base64}='\"");
    assert!(page.contains(&allowed), "{allowed}: {}", &page[..600]);
}

#[test]
fn a_page_of_many_begins_with_their_groups() {
    let page = text(&["--format", "html"], "foreign");
    assert!(page.contains("<h1>16 reports in 4 groups</h1>"));
    assert_eq!(page.matches("<details class=\"report\">").count(), 16);
    let page = text(&["--format", "html", "--top", "2"], "foreign");
    assert_eq!(page.matches("<section class=\"group\" id=").count(), 2);
    // One example of each, behind a link; what is not there is said at the top.
    for part in [
        "<details class=\"report\">",
        "<a href=\"#report-",
        "<div id=\"report-",
    ] {
        assert_eq!(page.matches(part).count(), 2, "{part}");
    }
    let said =
        "This page has 2 groups of 4, those that hurt users most, and 2 reports of 16 in whole";
    assert!(page.find(said).unwrap() < page.find("<section").unwrap());
    assert_eq!(
        page.matches("<script").count(),
        page.matches("class=\"flame\"").count()
    );
}

/// A crash of a version and a day in a function of this name, without source.
fn crash_of(function: &str, version: &str, day: u64, number: u128) -> Vec<u8> {
    use wedjat::report::{Event, EventKind, Frame, Report, Thread};
    let mut report = Report::default();
    report.head.id = number.to_be_bytes();
    report.head.launch = number.to_be_bytes();
    report.head.app.version = version.into();
    (report.head.os.name, report.head.os.version) = ("iOS".into(), "17.4".into());
    report.head.device = Some("iPhone15,2".into());
    report.head.time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(day * 86_400);
    report.event = Some(new!(Event {
        kind: EventKind::Crash,
        fatal: true,
    }));
    report.threads.push(new!(Thread {
        crashed: true,
        frames: vec![new!(Frame {
            pc: 0x1010,
            name: Some(function.into()),
        })],
    }));
    wedjat::report::to_bytes(&report)
}

/// More groups than are shown, and the one that hurts most comes last of all files.
#[test]
fn a_group_that_comes_last_has_its_pictures_and_its_example() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: String, bytes: Vec<u8>| std::fs::write(folder.path().join(name), bytes);
    for number in 1..=130 {
        let function = format!("rare_{}", "x".repeat(number as usize));
        let bytes = crash_of(&function, "1.0", 20_000, number);
        write(format!("a{number:03}.wedjat"), bytes).unwrap();
    }
    for (number, (version, day)) in
        (200..).zip([("1.9", 20_010), ("1.10", 20_012), ("1.10", 20_012)])
    {
        let bytes = crash_of("frequent", version, day, number);
        write(format!("z{number:03}.wedjat"), bytes).unwrap();
    }
    let out = run(&["--format", "html"], folder.path().to_str().unwrap());
    let page = String::from_utf8(out.stdout).unwrap();
    let said = "This page has 10 groups of 131, those that hurt users most, and 100 reports of 133 in whole, one of each group first.";
    assert!(page.contains(said), "{}", &page[..4000]);
    let section = page.split("<section").nth(1).unwrap();
    for part in [
        "1. crash in frequent",
        "aria-label=\"Reports over days, 2024-10-14 to 2024-10-16\"",
        "<title>2024-10-14: 1 report</title>",
        "<title>2024-10-16: 2 reports</title>",
        "<dd>1.10 × 2, 1.9 × 1</dd>",
        "<dd>iPhone15,2 × 3</dd>",
        "<dd>iOS 17.4 × 3</dd>",
        "In whole: <a href",
    ] {
        assert!(section.contains(part), "{part}: {section}");
    }
    assert_eq!(page.matches("<details class=\"report\">").count(), 100);
    // A report of the first group is the first of the reports: which one, depends on where its key is among those of rare groups.
    let reports = page.split("<details class=\"report\">").nth(1).unwrap();
    assert!(reports.contains("/z20"), "{reports}");
}

/// One device's clock was reset, another's runs decades ahead.
#[test]
fn wrong_clocks_do_not_stretch_the_days_of_all_groups() {
    let folder = tempfile::tempdir().unwrap();
    let days = [20_010, 20_012, 20_012, 20_013, 0, 40_000];
    for (number, day) in (1..).zip(days) {
        let function = if number % 2 == 0 { "even" } else { "odd" };
        let bytes = crash_of(function, "1.0", day, number);
        std::fs::write(folder.path().join(format!("{number}.wedjat")), bytes).unwrap();
    }
    // A report at the epoch has no time at all: a clock that was reset begins a little later.
    let bytes = crash_of("odd", "1.0", 3, 7);
    std::fs::write(folder.path().join("7.wedjat"), bytes).unwrap();
    let path = folder.path().to_str().unwrap();
    let page = String::from_utf8(run(&["--format", "html"], path).stdout).unwrap();
    assert!(page.contains("<th>2024-10-14 to 2024-10-17</th>"), "{page}");
    assert!(
        page.contains("2 reports at other times than most"),
        "{page}"
    );
    assert!(
        page.contains("<title>2024-10-16: 1 report</title>"),
        "{page}"
    );
    let top = String::from_utf8(run(&["--top"], path).stdout).unwrap();
    for seen in [
        "2024-10-14 to 2024-10-16; 1 report at another time (1970-01-04)",
        "2024-10-16 to 2024-10-17; 1 report at another time (2079-07-08)",
    ] {
        assert!(top.contains(seen), "{seen}: {top}");
    }
}

#[test]
fn names_of_strangers_are_no_markup() {
    let mut report = wedjat::report::Report::default();
    report.head.app.name = "<script>alert(1)</script>".into();
    report.threads.push(new!(wedjat::report::Thread {
        name: Some("\"><img src=x onerror=alert(2)>".into()),
        frames: vec![new!(wedjat::report::Frame {
            pc: 1,
            name: Some("operator<<</svg><script>".into()),
        })],
        extra: vec![(
            "number".into(),
            wedjat::report::Value::Text("<img\u{1b}[2J".into())
        )],
    }));
    let file = tempfile::NamedTempFile::with_suffix(".wedjat").unwrap();
    std::fs::write(file.path(), wedjat::report::to_bytes(&report)).unwrap();
    let out = run(&["--format", "html"], file.path().to_str().unwrap());
    let page = String::from_utf8(out.stdout).unwrap();
    assert!(page.contains("operator&lt;&lt;"), "{page}");
    for markup in ["<script>alert", "<img", "<</svg>"] {
        assert!(!page.contains(markup), "{markup}");
    }
    let out = run(&[], file.path().to_str().unwrap());
    assert!(!out.stdout.contains(&0x1b));
}

#[test]
fn text_shows_the_line_of_source_beneath_its_frame() {
    let source = testdata("macho/src");
    let page = text(&["--source", source.to_str().unwrap()], "foreign/crash.ips");
    let lines: Vec<&str> = page.lines().collect();
    let at = lines
        .iter()
        .rposition(|line| line.contains("kiosk_fault"))
        .unwrap();
    assert!(
        lines[at + 1].ends_with("7 |   exit((int)(code & 0x7f));"),
        "{}",
        lines[at + 1]
    );
}

#[test]
fn tabs_of_the_source_are_spaces() {
    let folder = tempfile::tempdir().unwrap();
    let code = std::fs::read_to_string(testdata("macho/src").join("kiosk.c")).unwrap();
    std::fs::write(folder.path().join("kiosk.c"), code.replace("  ", "\t")).unwrap();
    let source = ["--source", folder.path().to_str().unwrap()];
    for (format, line) in [
        ("text", "7 |     exit((int)(code & 0x7f));"),
        ("html", "7</i>      exit((int)(code &amp; 0x7f));"),
    ] {
        let page = text(
            &[&source[..], &["--format", format]].concat(),
            "foreign/crash.ips",
        );
        assert!(page.contains(line), "{format}: {page}");
        assert!(!page.contains("\\u{9}"), "{format}: {page}");
    }
}

#[test]
fn a_source_file_that_ends_before_the_line_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let short = folder.path().join("kiosk.c");
    std::fs::write(&short, "// Earlier.\n").unwrap();
    let source = folder.path().to_str().unwrap();
    let run = |format| {
        let args = ["--format", format, "--source", source];
        String::from_utf8(run(&args, "foreign/crash.ips").stderr).unwrap()
    };
    let named = format!("  {}\n", short.canonicalize().unwrap().display());
    for format in ["text", "html"] {
        let err = run(format);
        assert!(err.contains(&named), "{format}: {err}");
    }
    assert!(!run("json").contains(&named), "no source code is shown");
    std::fs::write(&short, "// Earlier.\n".repeat(999)).unwrap();
    assert!(!run("text").contains(&named));
}
