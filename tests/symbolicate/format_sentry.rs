//! `--format sentry`: envelopes, each of one event, which read back as the report that they were made of.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wedjat::report::{self, Report};
use wedjat::symbolicate::import;

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

/// The envelopes of the reports at these paths.
fn envelopes(paths: &[PathBuf]) -> Vec<u8> {
    let out = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .args(["--no-search", "--no-cache", "--format", "sentry", "--debug"])
        .arg(testdata("macho/arm64/kiosk.dSYM"))
        .args(paths)
        .output()
        .unwrap();
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    out.stdout
}

/// The event of each envelope, read as the protocol says: a header, the header of an item, so many bytes.
fn events(mut bytes: &[u8]) -> Vec<Value> {
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let mut line = || {
            let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
            let line: Value = serde_json::from_slice(&bytes[..end]).unwrap();
            bytes = &bytes[end + 1..];
            line
        };
        let (header, item) = (line(), line());
        assert_eq!(item["type"], "event");
        let (body, rest) = bytes.split_at(item["length"].as_u64().unwrap() as usize);
        let event: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(header["event_id"], event["event_id"]);
        bytes = rest.strip_prefix(b"\n").unwrap();
        events.push(event);
    }
    events
}

fn recorded(name: &str) -> Report {
    let bytes = std::fs::read(testdata("reports/v1.0").join(name)).unwrap();
    report::read(&bytes).unwrap().report
}

#[test]
fn an_event_reads_back_as_the_report_that_it_was_made_of() {
    for name in [
        "recorded-cpu.wedjat",
        "recorded-crash.wedjat",
        "recorded-exception.wedjat",
        "recorded-live.wedjat",
        "recorded-memory.wedjat",
        "recorded-panic.wedjat",
        "recorded-stall.wedjat",
    ] {
        let of = recorded(name);
        let events = events(&envelopes(&[testdata("reports/v1.0").join(name)]));
        assert_eq!(events.len(), 1, "{name}");
        let readings = import::read(events[0].to_string().as_bytes()).unwrap();
        assert!(
            readings[0].damage.is_empty(),
            "{name}: {:?}",
            readings[0].damage
        );
        let read = &readings[0].report;
        // Why, where, and what the app has set, its breadcrumbs too; of a panic the location, of a fault the address.
        assert_eq!(read.head, of.head, "{name}");
        assert_eq!(read.event, of.event, "{name}");
        assert_eq!(read.stall_end, of.stall_end, "{name}");
        assert_eq!(read.context, of.context, "{name}");
        assert_eq!(read.vitals, of.vitals, "{name}");
        let images = |report: &Report| {
            let images = report.images.iter();
            images
                .map(|of| (of.name.clone(), of.base, of.size))
                .collect::<Vec<_>>()
        };
        assert_eq!(images(read), images(&of), "{name}");
        let threads = |report: &Report| {
            let threads = report.threads.iter().map(|thread| {
                let pcs: Vec<u64> = thread.frames.iter().map(|frame| frame.pc).collect();
                let name = thread.name.clone();
                (thread.id, name, thread.main, thread.crashed, pcs)
            });
            threads.collect::<Vec<_>>()
        };
        assert_eq!(threads(read), threads(&of), "{name}");
    }
}

#[test]
fn an_event_has_names_the_group_and_what_the_app_has_set() {
    let events = events(&envelopes(&[
        testdata("pictures/stall.wedjat"),
        testdata("foreign/crash.ips"),
    ]));
    let [stall, crash] = &events[..] else {
        panic!("{}", events.len())
    };
    let exception = &stall["exception"]["values"][0];
    assert_eq!(
        (&exception["type"], &exception["mechanism"]["handled"]),
        (&"App Hang".into(), &true.into())
    );
    let frames = exception["stacktrace"]["frames"].as_array().unwrap();
    let own = frames
        .iter()
        .rev()
        .find(|frame| frame["in_app"] == true)
        .unwrap();
    assert!(
        own["function"].is_string() && own["lineno"].is_u64(),
        "{own}"
    );
    assert_eq!(
        stall["tags"]["class"],
        stall["contexts"]["stall_end"]["class"]
    );
    assert!(
        !stall["contexts"]["app_state"]["keys"]
            .as_object()
            .unwrap()
            .is_empty()
    );
    let crumb = &stall["breadcrumbs"]["values"][0];
    assert!(
        crumb["message"].is_string() && crumb["timestamp"].is_string(),
        "{crumb}"
    );
    assert_eq!(
        (&crash["release"], &crash["level"]),
        (&"kiosk@2.1+77".into(), &"fatal".into())
    );
    let image = &crash["debug_meta"]["images"][0];
    assert_eq!(
        (&image["type"], &image["debug_id"]),
        (
            &"macho".into(),
            &"4C4C44E2-5555-3144-A15D-8DB1B87DBB83".into()
        )
    );
    let json = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .args(["--no-search", "--no-cache", "--format", "json", "--debug"])
        .arg(testdata("macho/arm64/kiosk.dSYM"))
        .arg(testdata("foreign/crash.ips"))
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(crash["fingerprint"][0], json["group"]);
}

/// `suites/readers/run python` has what it needs.
#[test]
#[ignore = "needs Python with sentry-relay: suites/readers/run python"]
fn the_normaliser_of_sentry_finds_no_error() {
    let python = std::env::var("WEDJAT_PYTHON").expect("WEDJAT_PYTHON names a Python");
    let names = [
        "full",
        "recorded-cpu",
        "recorded-crash",
        "recorded-exception",
        "recorded-live",
        "recorded-memory",
        "recorded-panic",
        "recorded-stall",
        "stall",
    ];
    let mut paths: Vec<PathBuf> = names
        .iter()
        .map(|name| testdata(&format!("reports/v1.0/{name}.wedjat")))
        .collect();
    paths.extend(
        [
            "foreign/crash.ips",
            "foreign/hang.ips",
            "pictures/stall.wedjat",
        ]
        .map(testdata),
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    // One at a time: some of them have the same id, and a report that comes again is left out.
    let envelopes = paths
        .iter()
        .flat_map(|path| envelopes(std::slice::from_ref(path)));
    std::fs::write(file.path(), envelopes.collect::<Vec<u8>>()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/readers/normalise.py");
    let out = Command::new(python)
        .arg(script)
        .arg(file.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert_eq!(said.trim(), format!("{} events, no error", paths.len()));
}
