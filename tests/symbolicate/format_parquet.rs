//! `--format parquet`, read back.

use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

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
