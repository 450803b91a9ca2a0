//! `--format parquet`, read back.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
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

#[test]
fn a_row_a_report_with_its_group_and_its_frames() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .args(["--no-cache", "--format", "parquet", "--debug"])
        .arg(testdata("macho/arm64/kiosk.dSYM"))
        .arg("--output")
        .arg(file.path())
        .arg(testdata("foreign/metrickit-offset.json"))
        .status()
        .unwrap();
    assert!(status.success());
    // The output is renamed over what stood there.
    let written = std::fs::File::open(file.path()).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(written).unwrap();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    let [rows] = &batches[..] else {
        panic!("{} batches", batches.len());
    };
    assert_eq!(rows.num_rows(), 2);
    let text = |name: &str, row| {
        let column = rows.column_by_name(name).unwrap().as_string::<i32>();
        column.is_valid(row).then(|| column.value(row).to_owned())
    };
    assert_eq!(text("type", 0).as_deref(), Some("crash"));
    assert_eq!(text("type", 1).as_deref(), Some("stall"));
    assert_eq!(text("signal", 0).as_deref(), Some("SIGSEGV"));
    assert_eq!(text("signal", 1), None);
    assert_eq!(text("device", 1).as_deref(), Some("iPhone15,2"));
    assert_eq!(text("group", 1).map(|key| key.len()), Some(32));
    let duration = rows
        .column_by_name("duration")
        .unwrap()
        .as_primitive::<UInt64Type>();
    assert!(duration.is_null(0));
    assert_eq!(duration.value(1), 20_000_000_000);
    let frames = rows
        .column_by_name("frames")
        .unwrap()
        .as_list::<i32>()
        .value(0);
    let frames = frames.as_struct();
    let function = frames
        .column_by_name("function")
        .unwrap()
        .as_string::<i32>();
    let line = frames
        .column_by_name("line")
        .unwrap()
        .as_primitive::<UInt32Type>();
    assert_eq!((function.value(0), line.value(0)), ("kiosk_fault", 7));
    assert_eq!((function.value(1), line.value(1)), ("main", 26));
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
    let output = folder.path().join("reports.parquet");
    let args = ["--no-cache", "--format", "parquet", "--output"].map(OsStr::new);
    let paths = [output.as_os_str(), folder.path().as_os_str()];
    let ran = symbolicate(args.into_iter().chain(paths));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.err);
    let written = std::fs::File::open(&output).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(written).unwrap();
    let groups = reader.metadata().row_groups().iter();
    assert_eq!(groups.map(|of| of.num_rows()).collect::<Vec<_>>(), [2, 1]);
    for rows in reader.build().unwrap() {
        let rows = rows.unwrap();
        let frames = rows.column_by_name("frames").unwrap().as_list::<i32>();
        assert!((1..64).contains(&frames.value_length(0)));
    }
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
    let output = folder.path().join("reports.parquet");
    let args = ["--no-cache", "--format", "parquet", "--output"].map(OsStr::new);
    let paths = [output.as_os_str(), path.as_os_str()];
    let ran = symbolicate(args.into_iter().chain(paths));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.err);
    let written = std::fs::File::open(&output).unwrap();
    let mut reader = ParquetRecordBatchReaderBuilder::try_new(written)
        .unwrap()
        .build()
        .unwrap();
    let rows = reader.next().unwrap().unwrap();
    let callers = rows
        .column_by_name("async")
        .unwrap()
        .as_list::<i32>()
        .value(0);
    let callers = callers.as_struct();
    let numbers = |name: &str| {
        let column = callers.column_by_name(name).unwrap();
        column.as_primitive::<UInt64Type>().values().to_vec()
    };
    assert_eq!(numbers("frame"), [1, 1]);
    assert_eq!(numbers("pc"), [0x1100, 0x1200]);
}
