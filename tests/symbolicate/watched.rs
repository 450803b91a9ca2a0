//! A stall of a watched thread: every format shows which one it was, and that it is not the main thread.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;
use wedjat::new;
use wedjat::report::{
    Event, EventKind, Frame, Image, Report, Sample, StallEnd, StallOutcome, Thread, Watched,
    to_bytes,
};

use crate::deadline::symbolicate;

/// The third of 16 threads of a pool, two of which are in a stall; then the main thread, which waits.
fn stall() -> Report {
    let mut report = Report::default();
    report.head.id = [9; 16];
    report.head.app.name = "till".into();
    report.event = Some(new!(Event {
        kind: EventKind::Stall,
        thread: Some(77),
        watched: Some(new!(Watched {
            name: "tokio".into(),
            number: Some(3),
            pool: Some(16),
            at_rest: Some(13),
            stalled: Some(2),
        })),
    }));
    report.stall_end = Some(new!(StallEnd {
        duration: Duration::from_millis(700),
        how: StallOutcome::Recovered,
    }));
    report.images.push(new!(Image {
        name: "/opt/till/till".into(),
        base: 0x1000,
        size: 0x1000,
    }));
    let frames = |names: &[&str], at: u64| -> Vec<Frame> {
        let frames = names.iter().zip(at..).map(|(name, pc)| {
            new!(Frame {
                pc,
                image: Some(0),
                name: Some((*name).to_owned()),
            })
        });
        frames.collect()
    };
    report.threads = vec![
        new!(Thread {
            id: 77,
            frames: frames(&["till::serve", "till::work"], 0x1001),
        }),
        new!(Thread {
            id: 70,
            main: true,
            frames: frames(&["till::waits", "till::main"], 0x1101),
        }),
    ];
    report.samples.push(new!(Sample {
        count: 5,
        frames: frames(&["till::serve", "till::work"], 0x1001),
    }));
    report
}

fn shown(args: &[&str], report: &Path) -> String {
    let args = ["--no-cache", "--no-search"].iter().chain(args);
    let args = args.map(OsStr::new).chain([report.as_os_str()]);
    let ran = symbolicate(args);
    // Of an image without a debug file it says so.
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.err);
    ran.out
}

#[test]
fn every_format_shows_the_thread_its_pool_and_that_it_is_not_the_main_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wedjat");
    std::fs::write(&path, to_bytes(&stall())).unwrap();
    let words = "tokio 3 of 16, not the main thread; 2 in a stall, 13 at rest";

    let text = shown(&[], &path);
    let line = text
        .lines()
        .find(|line| line.starts_with("Watched Thread:"));
    assert!(line.is_some_and(|line| line.ends_with(words)), "{text}");
    let page = shown(&["--format", "html"], &path);
    assert!(page.contains(words));

    for format in ["json", "ndjson"] {
        let json: Json = serde_json::from_str(&shown(&["--format", format], &path)).unwrap();
        assert_eq!(json["title"], "stall in till::serve", "{format}");
        assert_eq!(json["blame"], "till::serve");
        let index = json["thread"].as_u64().unwrap() as usize;
        assert_eq!(json["threads"][index]["id"], 77, "{format}");
        assert_ne!(json["threads"][index]["main"], true);
        let watched = &json["event"]["watched"];
        assert_eq!(watched["name"], "tokio");
        assert_eq!(watched["number"], 3);
        let counts = ["pool", "at_rest", "stalled"].map(|key| watched[key].as_u64());
        assert_eq!(counts, [Some(16), Some(13), Some(2)]);
    }

    let top = shown(&["--top", "10", "--format", "json"], &path);
    assert!(
        top.contains("stall in till::serve") && !top.contains("till::waits"),
        "{top}"
    );
    for format in ["folded", "firefox"] {
        let stacks = shown(&["--format", format], &path);
        assert!(stacks.contains("till::serve"), "{format}");
    }
    assert!(shown(&["--format", "firefox"], &path).contains(r#""name":"tokio 3""#));
}

/// A newline or an escape in a name is no line and no colour of ours.
#[test]
fn a_name_of_any_characters_stays_within_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wedjat");
    let mut report = stall();
    let watched = report
        .event
        .as_mut()
        .and_then(|event| event.watched.as_mut());
    watched.unwrap().name = "a\nTriggered by Thread: 5\u{1b}[31m<b>".into();
    std::fs::write(&path, to_bytes(&report)).unwrap();
    let text = shown(&[], &path);
    assert!(
        !text.lines().any(|line| line.starts_with("Triggered by")),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'));
    let page = shown(&["--format", "html"], &path);
    assert!(!page.contains("<b>") && page.contains("&lt;b>") || page.contains("&lt;b&gt;"));
}

#[cfg(feature = "parquet")]
#[test]
fn the_table_has_columns_for_it() {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt64Type;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (mut of_main, mut unknown) = (stall(), stall());
    of_main.event = Some(new!(Event {
        kind: EventKind::Stall
    }));
    unknown.threads.truncate(1);
    let reports = [stall(), of_main, unknown];
    for (name, mut report) in ["1.wedjat", "2.wedjat", "3.wedjat"]
        .into_iter()
        .zip(reports)
    {
        report.head.id = [name.as_bytes()[0]; 16];
        std::fs::write(path(name), to_bytes(&report)).unwrap();
    }
    let table = path("table.parquet");
    let args = ["--format", "parquet", "--output", table.to_str().unwrap()];
    shown(&args, folder.path());
    let file = std::fs::File::open(&table).unwrap();
    let mut rows = ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap();
    let rows = rows.next().unwrap().unwrap();
    assert_eq!(rows.num_rows(), 3);
    let names = rows
        .column_by_name("watched_thread")
        .unwrap()
        .as_string::<i32>();
    assert_eq!((names.value(0), names.is_valid(1)), ("tokio", false));
    let number = |column: &str| {
        let column = rows.column_by_name(column).unwrap();
        column.as_primitive::<UInt64Type>().value(0)
    };
    let counts = [
        "watched_number",
        "pool_threads",
        "pool_at_rest",
        "pool_stalled",
    ];
    assert_eq!(counts.map(number), [3, 16, 13, 2]);
    let is_main = rows.column_by_name("main_thread").unwrap().as_boolean();
    assert_eq!((is_main.value(0), is_main.value(1)), (false, true));
    assert!(!is_main.is_valid(2));
}
