//! The table of frames: a row for each source frame of the thread in question, and of the callers that await it.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array, UInt64Array};

use super::{BYTES, ReportIds, Row, Table};
use crate::symbolicate::blame::{Blamed, each, each_of};
use crate::symbolicate::format::facts::known_id;
use crate::symbolicate::format::findings::owner_word;
use crate::symbolicate::format::{Format, Style};
use crate::symbolicate::frame::{Stack, Symbolicated};
use crate::symbolicate::group::thread_in_question;

/// The file being written; `docs/data.md` has its columns.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ParquetFrames {
    table: Table<FrameRow>,
    ids: ReportIds,
}

/// The frames of a report.
#[derive(Debug)]
pub struct FramesOfReport {
    origin: String,
    id: Option<String>,
    frames: Vec<FrameRow>,
}

#[derive(Debug, Default)]
struct FrameRow {
    report: String,
    /// Index in the stack, or among the callers that await one function.
    at: u64,
    /// Of a caller that awaits: the index of the function in the stack.
    awaits: Option<u64>,
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    inlined: bool,
    image: Option<String>,
    pc: u64,
    owner: &'static str,
}

impl Format for ParquetFrames {
    type Part = FramesOfReport;

    fn part(style: &Style, origin: &str, of: &Symbolicated) -> FramesOfReport {
        let thread = thread_in_question(&of.report).and_then(|at| of.threads.get(at));
        let own = thread.into_iter().flat_map(each).map(|frame| (None, frame));
        let own = (0..).zip(own);
        let awaiting = thread.into_iter().flat_map(awaiting);
        let mut room = BYTES;
        let frames = own
            .chain(awaiting)
            .map(|(at, (awaits, blamed))| FrameRow::of(style, of, blamed, at, awaits));
        // No honest stack has more.
        let frames = frames.take_while(|frame| {
            room = room.saturating_sub(frame.bytes());
            room > 0
        });
        FramesOfReport {
            origin: origin.to_owned(),
            id: known_id(&of.report),
            frames: frames.collect(),
        }
    }

    fn add(&mut self, part: FramesOfReport, out: &mut dyn Write) -> io::Result<()> {
        let report = self.ids.next(&part.origin, part.id.as_deref());
        for frame in part.frames {
            let report = report.clone();
            self.table.add(FrameRow { report, ..frame }, out)?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.table.finish(out)
    }
}

/// Returns every source frame of the callers that await functions of a stack, each with its index and the index of
/// the source frame that it awaits.
fn awaiting(stack: &Stack) -> impl Iterator<Item = (u64, (Option<u64>, Blamed<'_>))> {
    stack.tasks.iter().flat_map(|tasks| {
        let upto = stack.frames.get(..=tasks.frame).unwrap_or(&stack.frames);
        let rows = upto.iter().flat_map(each_of).count() as u64;
        let callers = tasks.callers.iter().flat_map(each_of);
        (0..).zip(callers.map(move |caller| (Some(rows.saturating_sub(1)), caller)))
    })
}

impl FrameRow {
    fn of(
        style: &Style,
        of: &Symbolicated,
        blamed: Blamed<'_>,
        at: u64,
        awaits: Option<u64>,
    ) -> FrameRow {
        let Blamed { physical, frame } = blamed;
        FrameRow {
            report: String::new(), // `add` sets it
            at,
            awaits,
            function: frame.and_then(|frame| style.name(frame)).map(str::to_owned),
            file: frame.and_then(|frame| Some(frame.file.as_deref()?.to_owned())),
            line: frame.and_then(|frame| frame.line),
            inlined: frame.is_some_and(|frame| frame.inlined),
            image: of.image(physical).map(|image| image.name.clone()),
            pc: physical.pc,
            owner: owner_word(of, physical, frame),
        }
    }
}

impl Row for FrameRow {
    fn bytes(&self) -> usize {
        let texts = [&self.function, &self.file, &self.image];
        let texts = texts.into_iter().flatten().map(String::len);
        size_of::<FrameRow>() + self.report.len() + texts.sum::<usize>()
    }

    fn batch(rows: &[FrameRow]) -> io::Result<RecordBatch> {
        let text = |of: fn(&FrameRow) -> Option<&str>| -> ArrayRef {
            Arc::new(rows.iter().map(of).collect::<StringArray>())
        };
        let number = |of: fn(&FrameRow) -> Option<u64>| -> ArrayRef {
            Arc::new(rows.iter().map(of).collect::<UInt64Array>())
        };
        let lines: UInt32Array = rows.iter().map(|row| row.line).collect();
        let inlined: BooleanArray = rows.iter().map(|row| Some(row.inlined)).collect();
        let columns: [(&str, ArrayRef); 10] = [
            ("report_id", text(|row| Some(&row.report))),
            ("frame", number(|row| Some(row.at))),
            ("awaits", number(|row| row.awaits)),
            ("function", text(|row| row.function.as_deref())),
            ("file", text(|row| row.file.as_deref())),
            ("line", Arc::new(lines)),
            ("inlined", Arc::new(inlined)),
            ("image", text(|row| row.image.as_deref())),
            ("pc", number(|row| Some(row.pc))),
            ("owner", text(|row| Some(row.owner))),
        ];
        let columns = columns.map(|(name, column)| (name, column, true));
        RecordBatch::try_from_iter_with_nullable(columns).map_err(io::Error::other)
    }
}
