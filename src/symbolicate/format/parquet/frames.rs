//! The table of frames: a row for each source frame of the thread in question, and of the callers that await it.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::BooleanArray;

use super::{Columns, MAX_BYTES, ReportIds, Row, Table, numbers, texts};
use crate::symbolicate::blame::{Blamed, all_frames, frames_of, owner};
use crate::symbolicate::format::facts::known_id;
use crate::symbolicate::format::{Parts, Style};
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
    texts: [Option<String>; TEXTS.len()],
    numbers: [Option<u64>; NUMBERS.len()],
    inlined: bool,
}

/// Columns of text, in order.
const TEXTS: [&str; 5] = ["report_id", "function", "file", "image", "owner"];
/// The index in the stack, or among the callers that await one function; the index of that function.
const NUMBERS: [&str; 4] = ["frame", "awaits", "line", "pc"];

impl Parts for ParquetFrames {
    type Part = FramesOfReport;

    fn part(style: &Style, origin: &str, of: &Symbolicated) -> FramesOfReport {
        let thread = thread_in_question(&of.report).and_then(|at| of.threads.get(at));
        let own = thread.into_iter().flat_map(all_frames).map(|f| (None, f));
        let own = (0..).zip(own);
        let awaiting = thread.into_iter().flat_map(awaiting);
        let mut room = MAX_BYTES;
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
        for mut frame in part.frames {
            frame.texts[0] = Some(report.clone());
            self.table.add(frame, out)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.table.finish(out)
    }
}

/// Returns every source frame of the callers that await functions of a stack, each with its index and the index of
/// the source frame that it awaits.
fn awaiting(stack: &Stack) -> impl Iterator<Item = (u64, (Option<u64>, Blamed<'_>))> {
    stack.tasks.iter().flat_map(|tasks| {
        let upto = stack.frames.get(..=tasks.frame).unwrap_or(&stack.frames);
        let rows = upto.iter().flat_map(frames_of).count() as u64;
        let callers = tasks.callers.iter().flat_map(frames_of);
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
        let function = frame.and_then(|frame| style.name(frame));
        let file = frame.and_then(|frame| frame.file.as_deref());
        FrameRow {
            texts: [
                None, // `add` sets it
                function.map(str::to_owned),
                file.map(str::to_owned),
                of.image(physical).map(|image| image.name.clone()),
                Some(owner(of, physical, frame).as_str().to_owned()),
            ],
            numbers: [
                Some(at),
                awaits,
                frame.and_then(|frame| frame.line).map(u64::from),
                Some(physical.pc),
            ],
            inlined: frame.is_some_and(|frame| frame.inlined),
        }
    }
}

impl Row for FrameRow {
    fn bytes(&self) -> usize {
        size_of::<FrameRow>() + self.texts.iter().flatten().map(String::len).sum::<usize>()
    }

    fn columns(rows: &[FrameRow]) -> io::Result<Columns> {
        let mut columns = texts(rows, &TEXTS, |row| &row.texts);
        columns.extend(numbers(rows, &NUMBERS, |row| &row.numbers));
        let inlined: BooleanArray = rows.iter().map(|row| Some(row.inlined)).collect();
        columns.push(("inlined", Arc::new(inlined)));
        Ok(columns)
    }
}
