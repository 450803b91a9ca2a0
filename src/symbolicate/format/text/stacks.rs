//! Threads and their stacks, and the heaviest of the samples.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style as Paint};

use super::TextPage;
use crate::report::limits;
use crate::report::model::{EventKind, Found, Image, Thread};
use crate::report::time::nanos;
use crate::symbolicate::blame::{Blamed, Owner, all_frames, frames_of, handling, is_own, owner};
use crate::symbolicate::format::facts::{count, describe_thread, duration, has_crashed, number};
use crate::symbolicate::format::plain;
use crate::symbolicate::format::stacks::{chain_ends, heaviest, rows};
use crate::symbolicate::frame::{Awaiting, PhysicalFrame, SourceFrame, Stack, image_file_name};

impl TextPage<'_> {
    pub(super) fn thread(&mut self, index: usize, thread: &Thread, stack: &Stack) {
        let number = number(thread, index);
        let about: Vec<String> = describe_thread(thread).collect();
        let about = Some(about.join(", ")).filter(|about| !about.is_empty());
        let about = about.map_or(String::new(), |about| format!(" ({about})"));
        let name = thread.name.as_deref().unwrap_or("");
        if !name.is_empty() || !about.is_empty() {
            let line = format!("Thread {number} name:  {name}{about}");
            self.line(&plain(line.trim_end()));
        }
        let crashed = ["", " Crashed"][usize::from(has_crashed(self.report, thread))];
        let title = format!("Thread {number}{crashed}:");
        self.line(&self.style.paint(Paint::new().bold(), &title));
        self.frames(stack, self.folded(index, stack));
        self.write_cut(thread.end_word());
        self.line("");
    }

    /// A thread that waits for work, in one line.
    pub(super) fn write_idle(&mut self, index: usize, thread: &Thread, function: &str) {
        let name = thread.name.as_deref().unwrap_or("");
        let index = number(thread, index);
        let line = format!("Thread {index} idle:  {name} (in {function}; --verbose shows it)");
        self.line(&plain(&line));
        self.line("");
    }

    /// Writes a line if the walk ended before the thread's first function.
    fn write_cut(&mut self, end: Option<&str>) {
        if let Some(end) = end.filter(|end| *end != "root") {
            let end = plain(end);
            self.line(&format!("    (callers are missing: {end})"));
        }
    }

    /// Returns the count of the innermost source frames that are folded: those of Rust and of the recorder before the
    /// frame that panicked.
    fn folded(&self, index: usize, stack: &Stack) -> usize {
        let event = self.report.event.as_ref();
        let is_panic = event.is_some_and(|event| event.kind == EventKind::Panic);
        if !is_panic || self.style.verbose || self.about != Some(index) {
            return 0;
        }
        let handling = handling(self.of, stack);
        all_frames(stack)
            .skip(handling)
            .position(|frame| owner(self.of, frame.physical, frame.frame) == Owner::App)
            .map_or(0, |at| handling + at)
    }

    /// Writes the frames of a stack, except for the `folded` innermost ones, which are only counted.
    fn frames(&mut self, stack: &Stack, folded: usize) {
        if folded > 0 {
            let count = count(folded as u64, "frame");
            let what = "of the panic's own handling; --verbose shows them";
            self.line(&format!("    ({count} {what})"));
        }
        let missing = |count| format!("    ({count} frames are missing here)");
        let (rows, behind) = rows(stack);
        let mut rows = rows.iter();
        while let Some(row) = rows.next() {
            if let Some(count) = row.missing {
                self.line(&missing(count));
            }
            if row.number < folded {
                continue;
            }
            self.frame(
                &row.number.to_string(),
                row.blamed.physical,
                row.blamed.frame,
            );
            if let Some(tasks) = row.awaiting {
                self.awaiting(tasks);
            }
            if let again @ 1.. = row.again
                && !self.style.verbose
            {
                let times = count(again as u64, "time");
                let text = format!("    (the same {times} more; --verbose shows them)");
                self.line(&text);
                rows.nth(again - 1);
            }
        }
        if let Some(count) = behind {
            self.line(&missing(count));
        }
    }

    /// Writes the callers that await a function, each at the line of its `await`.
    fn awaiting(&mut self, tasks: &Awaiting) {
        if !tasks.callers.is_empty() {
            self.line("    (awaited by)");
        }
        for Blamed { physical, frame } in tasks.callers.iter().flat_map(frames_of) {
            self.frame("~", physical, frame);
        }
        if let Some(why) = chain_ends(tasks) {
            self.line(&format!("    ({why})"));
        }
    }

    fn frame(&mut self, number: &str, physical: &PhysicalFrame, frame: Option<&SourceFrame>) {
        let image = self.of.image(physical);
        let name = image.map_or("???".into(), |image| plain(image_file_name(&image.name)));
        let named = frame.and_then(|frame| Some((frame, self.style.name(frame)?)));
        let is_tail_caller = frame.is_some_and(|frame| physical.is_tail_caller(frame));
        let what = match (named, image) {
            (Some((frame, function)), _) => {
                let mut what = plain(function).into_owned();
                if let Some(offset) = physical.offset
                    && !frame.inlined
                    && !is_tail_caller
                {
                    let _ = write!(what, " + {offset}");
                }
                self.append_place(frame, &mut what);
                what
            }
            (None, Some(image)) if is_within(physical.pc, image) => {
                let mut what = format!("{:#x} + {}", image.base, physical.pc - image.base);
                if let Some(frame) = frame {
                    self.append_place(frame, &mut what);
                }
                what
            }
            // A frame outside its image, or of an image whose base the report does not have.
            (None, _) => "???".into(),
        };
        let is_inlined = frame.is_some_and(|frame| frame.inlined);
        let suffix = if is_inlined {
            ""
        } else if is_tail_caller {
            " [tail call]"
        } else if physical.found == Found::AsyncCaller {
            " [async]"
        } else if physical.is_guess() {
            " [guess]"
        } else {
            ""
        };
        let own = is_own(self.of, physical, frame);
        let paint = if own {
            Paint::new().fg_color(Some(AnsiColor::Cyan.into()))
        } else {
            Paint::new().dimmed()
        };
        let what = self.style.paint(paint, &what);
        // Of some frames a report has the names alone.
        let pc = match physical.pc {
            0 if named.is_some() => String::new(),
            pc => format!("{pc:#018x}"),
        };
        let _ = writeln!(self.text, "{number:<4}{name:<30}\t{pc:<18} {what}{suffix}");
        if own {
            self.source(frame);
        }
    }

    /// Writes the line of source code, if it is found.
    fn source(&mut self, frame: Option<&SourceFrame>) {
        let Some(sources) = &self.style.sources else {
            return;
        };
        let Some((file, line)) = frame.and_then(|f| Some((f.file.as_deref()?, f.line?))) else {
            return;
        };
        if let Some(excerpt) = sources.excerpt(file, line, 0) {
            for code in &excerpt.lines {
                let code = plain(code.trim_end());
                let _ = writeln!(self.text, "{:34}\t{line:>6} | {code}", "");
            }
        }
    }

    /// Appends ` (file.c:42)`, and ` [inlined]` to an inlined frame.
    pub(super) fn append_place(&self, frame: &SourceFrame, what: &mut String) {
        if let Some(file) = &frame.file {
            let file = self.files.visible_part(file);
            let _ = match frame.line {
                Some(line) => write!(what, " ({}:{line})", plain(file)),
                None => write!(what, " ({})", plain(file)),
            };
        }
        if frame.inlined {
            what.push_str(" [inlined]");
        }
    }

    pub(super) fn samples(&mut self) {
        let Some((index, weight, total)) = heaviest(self.of) else {
            return;
        };
        let first = &self.report.samples[index];
        let state = first.state_word();
        let state = state.map_or(String::new(), |state| format!(", {state}"));
        let at = duration(nanos(first.at));
        let line =
            format!("Most frequent stack ({weight} of {total} samples, first {at} in{state}):");
        self.line(&plain(&line));
        let of = self.of;
        self.frames(&of.samples[index], 0);
        self.write_cut(first.end_word());
        self.line("");
    }
}

/// Returns true if the offset from the image's base identifies the frame.
fn is_within(pc: u64, image: &Image) -> bool {
    pc >= image.base && (image.base != 0 || pc < limits::IMAGE_BYTES)
}
