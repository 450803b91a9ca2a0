//! Parquet files for data warehouses: a table of reports, and one of the frames of their stacks, each written in groups of
//! rows as they come.

mod frames;
mod reports;

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

pub use frames::ParquetFrames;
pub use reports::ParquetReports;

/// Rows that go out together.
const MAX_ROWS: usize = 4096;
/// Their bytes, about. A column holds 2 GiB of text.
const MAX_BYTES: usize = 64 << 20;

/// A row of a table.
trait Row: Sized {
    /// Bytes of memory that it takes, roughly.
    fn bytes(&self) -> usize;
    /// Puts rows into columns.
    fn columns(rows: &[Self]) -> io::Result<Columns>;
}

type Columns = Vec<(&'static str, ArrayRef)>;

/// Columns of text with these names, from each row's values in the same order.
fn texts<R>(rows: &[R], names: &[&'static str], of: fn(&R) -> &[Option<String>]) -> Columns {
    let column = |(at, name): (usize, &&'static str)| -> (_, ArrayRef) {
        let values: StringArray = rows.iter().map(|row| of(row)[at].as_deref()).collect();
        (*name, Arc::new(values))
    };
    names.iter().enumerate().map(column).collect()
}

fn numbers<R>(rows: &[R], names: &[&'static str], of: fn(&R) -> &[Option<u64>]) -> Columns {
    let column = |(at, name): (usize, &&'static str)| -> (_, ArrayRef) {
        let values: UInt64Array = rows.iter().map(|row| of(row)[at]).collect();
        (*name, Arc::new(values))
    };
    names.iter().enumerate().map(column).collect()
}

/// A file being written.
#[derive(Debug, Default)]
struct Table<R> {
    rows: Vec<R>,
    bytes: usize,
    /// With the bytes that the output has not taken yet.
    writer: Option<ArrowWriter<Vec<u8>>>,
}

impl<R: Row> Table<R> {
    fn add(&mut self, row: R, out: &mut dyn Write) -> io::Result<()> {
        self.bytes += row.bytes();
        self.rows.push(row);
        if self.rows.len() < MAX_ROWS && self.bytes < MAX_BYTES {
            return Ok(());
        }
        self.write(out)
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.rows.is_empty() || self.writer.is_none() {
            self.write(out)?;
        }
        if let Some(writer) = self.writer.take() {
            out.write_all(&writer.into_inner().map_err(failed)?)?;
        }
        out.flush()
    }

    /// Writes the rows so far as a group.
    fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.bytes = 0;
        let columns = R::columns(&std::mem::take(&mut self.rows))?.into_iter();
        let columns = columns.map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).map_err(io::Error::other)?;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_created_by(concat!("wedjat ", env!("CARGO_PKG_VERSION")).to_owned())
                    .build();
                let writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties));
                none.insert(writer.map_err(failed)?)
            }
        };
        writer.write(&batch).map_err(failed)?;
        writer.flush().map_err(failed)?;
        out.write_all(&std::mem::take(writer.inner_mut()))
    }
}

/// Numbers the reports of a file, which come one after another.
#[derive(Debug, Default)]
struct ReportIds {
    origin: String,
    number: u64,
}

impl ReportIds {
    /// Returns the value by which the tables are joined: the report's id; of a report without one, its file and its number
    /// among the reports there.
    fn next(&mut self, origin: &str, id: Option<&str>) -> String {
        if self.origin != origin {
            (self.origin, self.number) = (origin.to_owned(), 0);
        }
        self.number += 1;
        match id {
            Some(id) => id.to_owned(),
            None => format!("{origin} {}", self.number),
        }
    }
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}
