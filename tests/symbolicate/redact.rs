//! `symbolicate --scrub`: what is taken out of every format, and that all that helps is left.

use std::ffi::OsStr;
use std::path::Path;

use crate::deadline::symbolicate;
use clap::ValueEnum;
use serde_json::Value as Json;
use wedjat::new;
use wedjat::report::{
    self, App, AppContext, Event, EventKind, Found, Frame, Image, Report, Sample, Thread, Value,
};
use wedjat::symbolicate::command::FormatName;

const DSYM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/testdata/macho/arm64/kiosk.dSYM"
);
const BASE: u64 = 0x1_0000_0000;
const SLIDE: u64 = 0x5555_4c3c_0000;

/// The UUID of the fixture, from LLVM's word.
fn uuid() -> Vec<u8> {
    let file = Path::new(DSYM).join("../../golden/arm64.uuid");
    let line = std::fs::read_to_string(file).unwrap();
    let hex: String = line.chars().filter(char::is_ascii_hexdigit).collect();
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..32).step_by(2).map(byte).collect()
}

/// The address of a row that LLVM gives three frames for.
fn address() -> u64 {
    let golden = Path::new(DSYM).join("../../golden/arm64.ndjson");
    let golden = std::fs::read_to_string(golden).unwrap();
    let rows = golden
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap());
    let row = rows
        .into_iter()
        .find(|row| row["frames"].as_array().unwrap().len() >= 3);
    let row = row.unwrap();
    let address = row["address"].as_str().unwrap().trim_start_matches("0x");
    u64::from_str_radix(address, 16).unwrap()
}

fn report() -> Report {
    let mut report = Report::default();
    report.head.app = new!(App {
        name: "Kiosk".to_owned(),
        version: "2.0".to_owned(),
    });
    report.event = Some(new!(Event {
        kind: EventKind::Stall,
        message: Some("no /home/alice/notes.txt for alice at 0x7ffd12345678".to_owned()),
    }));
    let frames = vec![new!(Frame {
        pc: address() + SLIDE,
        found: Found::Context,
        image: Some(0),
        name: None,
    })];
    report.threads.push(new!(Thread {
        main: true,
        name: Some("alice-main".to_owned()),
        frames: frames.clone(),
        registers: vec![
            ("pc".to_owned(), address() + SLIDE),
            ("sp".to_owned(), 0x7ffd_1234_5670),
        ],
    }));
    report.samples = vec![
        new!(Sample { frames, count: 3 }),
        new!(Sample { keep: 1, count: 2 }),
    ];
    report.images.push(new!(Image {
        name: "/Users/alice/Applications/Kiosk.app/Contents/MacOS/kiosk".to_owned(),
        id: uuid(),
        base: BASE + SLIDE,
        base_svma: BASE,
        size: 0x8000,
    }));
    let text = |text: &str| Value::Text(text.to_owned());
    report.context = Some(new!(AppContext {
        keys: vec![
            ("screen".to_owned(), text("Checkout")),
            ("user_email".to_owned(), text("a@example.org")),
            ("plan".to_owned(), text("gold-4711")),
            ("memory".to_owned(), Value::Bytes(b"hunter2".to_vec())),
        ],
    }));
    report.end = Some(new!(report::End {
        closed_by: "writer".to_owned(),
    }));
    report
}

const SECRETS: [&str; 9] = [
    "alice",
    "a@example.org",
    "7ffd12345678",
    "7ffd12345670",
    "hunter2",
    "68756e74657232", // the same, in hexadecimal
    "55554c3c",       // the slide
    "55564c3c",       // with the base
    "93824",          // the slide in decimal begins so
];

#[test]
fn no_format_shows_who_the_user_is() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home/alice");
    std::fs::create_dir_all(&home).unwrap();
    let path = home.join("1.wedjat");
    std::fs::write(&path, report::to_bytes(&report())).unwrap();
    let run = |args: &[&str]| {
        let debug = ["--no-cache", "--debug", DSYM];
        let args = debug.iter().chain(args).map(OsStr::new);
        let ran = symbolicate(args.chain([path.as_os_str()]));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.out
    };
    for format in FormatName::value_variants() {
        let name = format.to_possible_value().unwrap().get_name().to_owned();
        if name.starts_with("parquet") && !cfg!(feature = "parquet") {
            continue;
        }
        let plain = run(&["--format", &name]);
        let redacted = run(&["--scrub", "--format", &name]);
        for secret in SECRETS {
            assert!(!redacted.contains(secret), "{name}: {secret}\n{redacted}");
        }
        // Every function that was named is still named.
        for function in functions(&plain) {
            assert!(redacted.contains(&function), "{name}: {function}");
        }
    }
    // Without it, they are there: the test looks for the right things.
    let plain = run(&["--format", "json"]);
    for secret in ["alice", "a@example.org", "7ffd12345678", "55564c3c"] {
        assert!(
            plain.contains(secret) || run(&["--format", "text"]).contains(secret),
            "{secret}"
        );
    }
    for args in [&["--scrub", "--top"][..], &["--scrub", "--list-missing"]] {
        let out = run(args);
        for secret in SECRETS {
            assert!(!out.contains(secret), "{args:?}: {secret}\n{out}");
        }
    }
}

/// The names that LLVM gives for the address, as far as this output holds them.
fn functions(out: &str) -> Vec<String> {
    let golden = Path::new(DSYM).join("../../golden/arm64.ndjson");
    let golden = std::fs::read_to_string(golden).unwrap();
    let wanted = format!("{:#x}", address());
    let rows = golden
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap());
    let row = rows
        .into_iter()
        .find(|row| row["address"].as_str().unwrap() == wanted)
        .unwrap();
    let names = row["frames"].as_array().unwrap().iter();
    let names = names.filter_map(|frame| Some(frame["function"].as_str()?.to_owned()));
    names.filter(|name| out.contains(name)).collect()
}

/// A stackshot of a hang does not say how large its images are.
#[test]
fn frames_of_images_of_unknown_size_keep_their_place() {
    let hang = Path::new(DSYM).join("../../../foreign/hang.ips");
    let hang = std::fs::read_to_string(hang).unwrap();
    let (header, body) = hang.split_once('\n').unwrap();
    let mut body: Json = serde_json::from_str(body).unwrap();
    body["binaryImages"] = serde_json::json!([
        [
            "11111111-2222-3333-4444-555555555555",
            0x1_04c3_c000_u64,
            "P"
        ],
        [
            "61111111-2222-3333-4444-555555555555",
            0x1_a000_0000_u64,
            "P"
        ],
    ]);
    let frames = serde_json::json!([[0, 1364], [1, 0x1234], [0, 1372], [1, 0x954]]);
    body["processByPid"] = serde_json::json!({"77": {"threadById": {"1": {"userFrames": frames}}}});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.ips");
    std::fs::write(&path, format!("{header}\n{body}")).unwrap();
    let run = |args: &[&str]| {
        let args = ["--no-cache"].iter().chain(args).map(OsStr::new);
        symbolicate(args.chain([path.as_os_str()])).out
    };
    let json = |args: &[&str]| {
        let args = ["--format", "json"].iter().chain(args);
        serde_json::from_str::<Json>(&run(&args.copied().collect::<Vec<_>>())).unwrap()
    };
    let (plain, left) = (json(&[]), json(&["--scrub"]));
    assert_ne!(plain["images"][0]["base"], left["images"][0]["base"]);
    assert_eq!(plain["group"], left["group"]);
    let hex = |of: &Json| {
        let digits = of.as_str().unwrap().trim_start_matches("0x");
        u64::from_str_radix(digits, 16).unwrap()
    };
    let frames = left["frames"].as_array().unwrap();
    assert_eq!(frames.len(), 4);
    for frame in frames {
        let image = &left["images"][frame["image"].as_u64().unwrap() as usize];
        let moved = hex(&image["base"]) + hex(&frame["address"]);
        assert_eq!(hex(&frame["pc"]), moved, "{frame}");
    }
    let folded = run(&["--format", "folded"]);
    assert_eq!(folded, run(&["--format", "folded", "--scrub"]));
}

#[test]
fn what_is_left_is_this() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.wedjat");
    std::fs::write(&path, report::to_bytes(&report())).unwrap();
    let json = |args: &[&str]| {
        let debug = ["--no-cache", "--debug", DSYM, "--format", "json"];
        let args = debug.iter().chain(args).map(OsStr::new);
        let ran = symbolicate(args.chain([path.as_os_str()]));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        serde_json::from_str::<Json>(&ran.out).unwrap()
    };
    let (plain, left) = (json(&[]), json(&["--scrub", "--scrub-key", "PLAN"]));
    assert_eq!(left["app"], plain["app"]);
    assert_eq!(left["group"], plain["group"]);
    assert_eq!(
        left["event"]["message"],
        "no /home/(user)/notes.txt for (user) at 0x678"
    );
    let (thread, before) = (&left["threads"][0], &plain["threads"][0]);
    assert_eq!(thread["name"], "(user)-main");
    // One frame, which the thread and both samples have.
    let (frame, named) = (&left["frames"][0], &plain["frames"][0]);
    assert_eq!(left["frames"].as_array().unwrap().len(), 1);
    for key in ["frames", "address", "owner"] {
        assert_eq!(frame[key], named[key]);
    }
    assert!(!named["frames"].as_array().unwrap().is_empty());
    assert_eq!(before["frames"], thread["frames"]);
    assert_eq!(thread["frames"], serde_json::json!([0]));
    assert_eq!(thread["registers"].as_object().unwrap().len(), 1);
    assert_eq!(thread["registers"]["pc"], frame["pc"]);
    // The shared frame of the second sample has moved, too.
    assert_eq!(left["samples"][1]["frames"], thread["frames"]);
    assert_eq!(
        left["images"][0]["name"],
        "/Users/(user)/Applications/Kiosk.app/Contents/MacOS/kiosk"
    );
    assert_eq!(left["images"][0]["id"], plain["images"][0]["id"]);
    let keys = serde_json::json!({
        "screen": "Checkout", "user_email": "(removed)", "plan": "(removed)", "memory": {"bytes": ""},
    });
    assert_eq!(left["context"]["keys"], keys);
}
