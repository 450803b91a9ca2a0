//! `--format parquet`, read back.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use wedjat::new;
use wedjat::report::{AsyncChain, Frame, Image, Report, Thread, to_bytes};

use crate::deadline::symbolicate;

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

/// Writes the table of this format, and reads it back: each group of rows.
fn table(format: &str, args: &[&Path]) -> Vec<RecordBatch> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("table.parquet");
    let options = ["--no-cache", "--format", format, "--output"].map(OsStr::new);
    let paths = std::iter::once(output.as_path()).chain(args.iter().copied());
    let ran = symbolicate(options.into_iter().chain(paths.map(Path::as_os_str)));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.err);
    let open =
        || ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&output).unwrap()).unwrap();
    let groups = 0..open().metadata().num_row_groups();
    let group = |at| {
        let reader = open().with_row_groups(vec![at]).with_batch_size(1 << 20);
        let mut rows = reader.build().unwrap();
        rows.next().unwrap().unwrap()
    };
    groups.map(group).collect()
}

fn text(rows: &RecordBatch, column: &str, row: usize) -> Option<String> {
    let column = rows.column_by_name(column).unwrap().as_string::<i32>();
    column.is_valid(row).then(|| column.value(row).to_owned())
}

fn number(rows: &RecordBatch, column: &str, row: usize) -> Option<u64> {
    let column = rows.column_by_name(column).unwrap();
    let column = column.as_primitive::<UInt64Type>();
    column.is_valid(row).then(|| column.value(row))
}

#[test]
fn a_row_a_report_and_a_row_a_frame_joined_by_the_report() {
    let debug = testdata("macho/arm64/kiosk.dSYM");
    let args = [
        Path::new("--debug"),
        &debug,
        &testdata("foreign/metrickit-offset.json"),
    ];
    let batches = table("parquet", &args);
    let [rows] = &batches[..] else {
        panic!("{} batches", batches.len());
    };
    assert_eq!(rows.num_rows(), 2);
    let types = [text(rows, "type", 0), text(rows, "type", 1)];
    assert_eq!(types.map(Option::unwrap), ["crash", "stall"]);
    assert_eq!(text(rows, "signal", 0).as_deref(), Some("SIGSEGV"));
    assert_eq!(text(rows, "signal", 1), None);
    assert_eq!(text(rows, "device", 1).as_deref(), Some("iPhone15,2"));
    assert_eq!(text(rows, "group", 1).map(|key| key.len()), Some(32));
    assert_eq!(number(rows, "duration", 0), None);
    assert_eq!(number(rows, "duration", 1), Some(20_000_000_000));
    // MetricKit's reports have no ids: their file and their numbers there.
    let report = |at: usize| {
        let id = text(rows, "report_id", at).unwrap();
        let origin = text(rows, "report", at).unwrap();
        assert_eq!(id, format!("{origin} {}", at + 1));
        assert_eq!(text(rows, "launch", at).as_ref(), Some(&id));
        id
    };
    let ids = [report(0), report(1)];
    assert!(rows.column_by_name("frames").is_none());

    let batches = table("parquet-frames", &args);
    let [frames] = &batches[..] else {
        panic!("{} batches", batches.len());
    };
    let lines = frames.column_by_name("line").unwrap();
    let lines = lines.as_primitive::<UInt64Type>();
    let of_report = |id: &str| {
        let frames = (0..frames.num_rows())
            .filter(|&row| text(frames, "report_id", row).as_deref() == Some(id))
            .map(|row| {
                (
                    number(frames, "frame", row),
                    text(frames, "function", row),
                    lines.value(row),
                )
            });
        frames.collect::<Vec<_>>()
    };
    let crash = of_report(&ids[0]);
    let named = |at, function: &str, line| (Some(at), Some(function.to_owned()), line);
    assert_eq!(
        crash[..2],
        [named(0, "kiosk_fault", 7), named(1, "main", 26)]
    );
    assert!(!of_report(&ids[1]).is_empty());
}

/// The bytes of the values of a row.
fn bytes_of_row(rows: &RecordBatch, row: usize) -> usize {
    let columns = rows.columns().iter();
    let sizes = columns.map(|column| {
        column
            .slice(row, 1)
            .to_data()
            .get_slice_memory_size()
            .unwrap()
    });
    sizes.sum()
}

#[test]
fn a_report_of_long_texts_has_a_row_of_20_kb() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = Report::default();
    report.head.id = [7; 16];
    let long = "é".repeat(1 << 13);
    let mut event = wedjat::report::Event::default();
    (event.message, event.reason) = (Some(long.clone()), Some(long.clone()));
    report.event = Some(event);
    let mut context = wedjat::report::AppContext::default();
    context.breadcrumbs = (0..100)
        .map(|at| (std::time::Duration::from_secs(at), format!("{at} {long}")))
        .collect();
    report.context = Some(context);
    let frame = |at: u64| {
        let mut frame = Frame::default();
        (frame.pc, frame.name) = (0x1000 + at, Some(format!("function{at}::{long}")));
        frame
    };
    let mut thread = Thread::default();
    (thread.main, thread.frames) = (true, (0..100).map(frame).collect());
    report.threads.push(thread);
    let path = folder.path().join("a.wedjat");
    std::fs::write(&path, to_bytes(&report)).unwrap();
    let rows = &table("parquet", &[&path])[0];
    let bytes = bytes_of_row(rows, 0);
    assert!(bytes <= 20_480, "{bytes}");
    let id = text(rows, "report_id", 0).unwrap();
    assert_eq!(id.replace('-', ""), "07".repeat(16));
    let message = text(rows, "message", 0).unwrap();
    assert!(
        message.len() > 1_900 && message.ends_with("é…"),
        "{message}"
    );
    // The whole is in the table of frames.
    let frames = &table("parquet-frames", &[&path])[0];
    assert_eq!(frames.num_rows(), 100);
}

/// A column of text holds 2 GiB.
#[test]
fn long_texts_make_groups_of_few_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = Report::default();
    report.images.push(new!(Image {
        name: "x".repeat(1 << 20),
        size: 0x1_0000,
    }));
    let frame = |pc| {
        new!(Frame {
            pc,
            image: Some(0),
            name: Some("f".into()),
        })
    };
    report.threads.push(new!(Thread {
        frames: (0..3000).map(frame).collect(),
    }));
    for name in ["1.wedjat", "2.wedjat", "3.wedjat"] {
        std::fs::write(folder.path().join(name), to_bytes(&report)).unwrap();
    }
    // Of each report no more than one group's.
    let batches = table("parquet-frames", &[folder.path()]);
    let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
    assert!(rows.iter().all(|rows| (1..=64).contains(rows)), "{rows:?}");
    let ids = |rows: &RecordBatch| {
        (0..rows.num_rows())
            .filter_map(|at| text(rows, "report_id", at))
            .collect()
    };
    let ids: Vec<Vec<String>> = batches.iter().map(ids).collect();
    let mut ids = ids.concat();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn async_callers_have_the_row_that_they_await() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = Report::default();
    report.images.push(new!(Image {
        name: "till".into(),
        base: 0x1000,
        size: 0x1_0000,
    }));
    let frame = |(pc, name): (u64, &str)| {
        new!(Frame {
            pc,
            image: Some(0),
            name: Some(name.into()),
        })
    };
    let frames = [
        (0x1010, "fetch"),
        (0x1020, "load"),
        (0x1030, "swift_job_run"),
    ];
    report.threads.push(new!(Thread {
        frames: frames.map(frame).into(),
        tasks: vec![new!(AsyncChain {
            frame: 1,
            callers: vec![0x1100, 0x1200],
        })],
    }));
    let path = folder.path().join("a.wedjat");
    std::fs::write(&path, to_bytes(&report)).unwrap();
    let rows = &table("parquet-frames", &[&path])[0];
    let numbers = |column: &str| {
        (0..rows.num_rows())
            .map(|row| number(rows, column, row))
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers("awaits"), [None, None, None, Some(1), Some(1)]);
    assert_eq!(numbers("frame"), [0, 1, 2, 0, 1].map(Some));
    assert_eq!(
        numbers("pc"),
        [0x1010, 0x1020, 0x1030, 0x1100, 0x1200].map(Some)
    );
}
