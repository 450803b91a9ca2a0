//! The output of a run, put together from the results of its batches, in their order.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::args::{Args, FormatName};
use super::output::Output;
use super::progress::Progress;
use super::tally::{Message, MessageLimit, Tally};
use super::{DONE, INTERRUPTED, Messages, USAGE, exit_code, interrupt};
use crate::symbolicate::DebugFiles;
use crate::symbolicate::format::facts::{copies_lines, count};
use crate::symbolicate::format::{Parts, missing_text};
use crate::symbolicate::group::{Identity, SeenIds};

/// Time between two looks of a waiting thread for an interrupt.
pub(super) const INTERRUPT_POLL: Duration = Duration::from_millis(100);

/// The result of a batch.
pub(super) struct Batch<P> {
    /// Parts of the output and messages, in the order of the reports.
    pub(super) outcomes: Vec<Outcome<P>>,
    pub(super) tally: Tally,
}

pub(super) enum Outcome<P> {
    /// Of the report with this identity.
    Part(Option<Identity>, P),
    Message(Message),
}

impl<P> Batch<P> {
    /// Adds a message, and counts the input as it says.
    pub(super) fn message(&mut self, message: Message) {
        match message {
            Message::Unopened(_) => self.tally.unopened += 1,
            Message::Unreadable(_) => self.tally.damaged += 1,
            Message::Warning(_) | Message::Refused(_) => {}
        }
        self.outcomes.push(Outcome::Message(message));
    }
}

/// Prints results, and counts them.
pub(super) struct Printer<'p, 'm, F> {
    args: &'p Args,
    format: F,
    out: Output,
    messages: &'p mut Messages<'m>,
    progress: Progress,
    message_limit: MessageLimit,
    seen: SeenIds,
    /// True if a report is printed the first time that it comes, and not again.
    each_once: bool,
    tally: Tally,
    /// The reason why nothing may be written.
    refused: Option<String>,
}

impl<'p, 'm, F: Parts> Printer<'p, 'm, F> {
    pub(super) fn new(
        args: &'p Args,
        format: F,
        out: Output,
        messages: &'p mut Messages<'m>,
    ) -> Printer<'p, 'm, F> {
        // Groups do it for themselves.
        let is_grouped = args.is_grouped() || args.format == FormatName::Html;
        Printer {
            args,
            format,
            out,
            messages,
            progress: Progress::new(&args.reports, args.prints_at_end()),
            message_limit: MessageLimit::new(args.verbose),
            seen: SeenIds::default(),
            each_once: counts_once(args) && !is_grouped,
            tally: Tally::default(),
            refused: None,
        }
    }

    /// Prints each result as it comes, until the last one, an interrupt, or one for which nothing may be written.
    pub(super) fn print(&mut self, results: &Receiver<Batch<F::Part>>) -> io::Result<()> {
        while let Some(batch) = receive_next(results, &mut self.out, &mut self.progress)? {
            self.progress.add(batch.outcomes.len() as u64);
            self.tally.add(batch.tally);
            for outcome in batch.outcomes {
                self.outcome(outcome)?;
                if self.refused.is_some() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn outcome(&mut self, outcome: Outcome<F::Part>) -> io::Result<()> {
        match outcome {
            Outcome::Part(identity, _) if self.each_once && !self.seen.is_new(identity) => {}
            Outcome::Part(_, part) => self.format.add(part, &mut self.out)?,
            Outcome::Message(Message::Refused(text)) => self.refused = Some(text),
            Outcome::Message(_) if self.message_limit.is_over() => {}
            Outcome::Message(Message::Warning(text)) => {
                self.progress.without_bar(|| self.messages.warning(&text));
            }
            Outcome::Message(Message::Unopened(text) | Message::Unreadable(text)) => {
                self.progress.without_bar(|| self.messages.error(&text));
            }
        }
        Ok(())
    }

    /// Ends the output and prints the summary. `written` is what [`Printer::print`] has returned; `refused` says why
    /// nothing may be written after all; `short_sources` are files of source code that end before a frame's line. Returns
    /// the exit code.
    pub(super) fn finish(
        mut self,
        written: io::Result<()>,
        refused: Option<String>,
        short_sources: Vec<PathBuf>,
        files: &DebugFiles,
    ) -> u8 {
        self.progress.finish();
        self.tally.short_sources = short_sources;
        self.tally.copies = copies_lines(self.seen.copies, self.seen.reused_ids).collect();
        if let Some(more) = self.message_limit.hidden() {
            let all = count(self.tally.seen, "report");
            let text = format!("{more} more such messages about {all}; --verbose prints all");
            self.messages.warning(&text);
        }
        if let Some(refused) = self.refused.take().or(refused) {
            self.messages.error(&refused);
            return USAGE;
        }
        let file = self.out.path().map(|path| path.display().to_string());
        // A file is written whole, or not at all.
        let is_kept = file.is_none() || self.tally.seen > 0 && !interrupt::is_set();
        let result = written
            .and_then(|()| end_output(self.args, self.format, self.out, &self.tally, is_kept));
        // Ctrl-C takes the file away at once.
        let is_lost = file.is_some() && interrupt::is_set();
        if !is_lost {
            let code = exit_code(result, self.messages);
            if code != DONE {
                return code;
            }
        }
        let misses = self.args.list_missing && !self.tally.missing.is_empty();
        if self.args.verbose || misses {
            self.messages.searched(files);
        }
        if self.args.verbose {
            self.messages.without_table(files);
        }
        let code = self.tally.conclude(self.args, files, self.messages);
        if interrupt::is_set() {
            let done = count(self.tally.seen, "report");
            let lost = file.filter(|_| is_lost);
            let file = lost.map_or(String::new(), |file| format!("; {file} is not written"));
            self.messages
                .warning(&format!("interrupted: {done} done{file}"));
            return INTERRUPTED;
        }
        code
    }
}

/// Writes what comes after the last report. A file that is not kept goes.
fn end_output<F: Parts>(
    args: &Args,
    mut format: F,
    mut out: Output,
    tally: &Tally,
    is_kept: bool,
) -> io::Result<()> {
    if args.list_missing {
        for missing in tally.missing.values() {
            writeln!(out, "{}", missing_text(missing))?;
        }
    } else if tally.seen > 0 {
        format.end(&mut out)?;
    }
    if is_kept {
        out.finish()?;
    }
    Ok(())
}

/// Returns true if copies of a report count once. As text a report is printed as often as it is named.
pub(super) fn counts_once(args: &Args) -> bool {
    args.is_grouped() || args.format != FormatName::Text
}

/// Waits for the next value; `None` after the last, and when someone pressed Ctrl-C. Before it waits, what was
/// written goes out.
fn receive_next<T>(
    from: &Receiver<T>,
    out: &mut dyn Write,
    progress: &mut Progress,
) -> io::Result<Option<T>> {
    if let Ok(next) = from.try_recv() {
        return Ok(Some(next));
    }
    out.flush()?;
    loop {
        match from.recv_timeout(INTERRUPT_POLL) {
            Ok(next) => return Ok(Some(next)),
            Err(RecvTimeoutError::Timeout) if !interrupt::is_set() => progress.add(0),
            Err(_) => return Ok(None),
        }
    }
}
