//! Reports in, one format out.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::ColorChoice;

use super::answering::{Answered, Answering};
use super::args::{Args, FormatName};
use super::feed::{Inputs, Item, feed};
use super::interrupt;
use super::output::{Output, Target, refusal};
use super::parsed::Parsed;
use super::progress::Progress;
use super::sources;
use super::survive;
use super::tally::{Quiet, Tally};
use super::{DONE, INTERRUPTED, Messages, USAGE, done};
use crate::report::{Reading, Redact};
use crate::symbolicate::format::facts::count;
use crate::symbolicate::format::{
    Firefox, FlameGraph, Folded, Format, Html, Json, Ndjson, Sources, Speedscope, Style, Text, Top,
    TopLayout, missing_text,
};
#[cfg(feature = "parquet")]
use crate::symbolicate::format::{ParquetFrames, ParquetReports};
use crate::symbolicate::gathered::Gathered;
use crate::symbolicate::group::{SeenIds, identity};
use crate::symbolicate::{Symbolicator, redact};

/// Batches that are worked on or wait for their turn, for each worker.
const AHEAD: usize = 4;
/// Time between two looks of a waiting thread for an interrupt.
const TICK: Duration = Duration::from_millis(100);

pub(super) fn run(
    args: &Args,
    symbolicator: &Symbolicator,
    input: Box<dyn Read + Send>,
    target: &Target,
    messages: &mut Messages<'_>,
) -> u8 {
    let style = Style {
        demangle: !args.no_demangle,
        color: colors(args),
        verbose: args.verbose,
        sources: (!args.source.is_empty()).then(|| Arc::new(Sources::new(args.source.clone()))),
    };
    let single = matches!(&args.reports[..], [one] if !one.is_dir() && one.as_os_str() != "-");
    let job = Job {
        args,
        symbolicator,
        style,
        redact: args.redaction(),
        target,
    };
    if let (Some(n), FormatName::Html) = (args.top, args.format) {
        return job.run(Html::top(n as usize), input, messages);
    }
    if let Some(n) = args.top {
        let layout = match args.format {
            FormatName::Json => TopLayout::Json,
            FormatName::Ndjson => TopLayout::Ndjson,
            _ => TopLayout::Text,
        };
        let top = Top::new(n as usize, layout, job.style.clone());
        return job.run(top, input, messages);
    }
    match args.format {
        FormatName::Flamegraph => job.run(FlameGraph::default(), input, messages),
        FormatName::Speedscope => job.run(Speedscope::default(), input, messages),
        FormatName::Firefox => job.run(Firefox::default(), input, messages),
        FormatName::Html => job.run(Html::default(), input, messages),
        #[cfg(feature = "parquet")]
        FormatName::Parquet => job.run(ParquetReports::default(), input, messages),
        #[cfg(feature = "parquet")]
        FormatName::ParquetFrames => job.run(ParquetFrames::default(), input, messages),
        FormatName::Text => job.run(Text::default(), input, messages),
        FormatName::Json => job.run(Json::new(!single), input, messages),
        FormatName::Ndjson => job.run(Ndjson::default(), input, messages),
        FormatName::Folded => job.run(Folded::default(), input, messages),
    }
}

/// The work to do with every report.
struct Job<'a> {
    args: &'a Args,
    symbolicator: &'a Symbolicator,
    style: Style,
    /// Data to take out of every report.
    redact: Option<Redact>,
    /// The file that is to be written.
    target: &'a Target,
}

/// A batch with the answers for it, and where its result goes.
type BatchWork<P> = (Answered, SyncSender<Batch<P>>);

/// The result of a batch.
struct Batch<P> {
    /// Parts of the output and messages, in the order of the reports.
    outcomes: Vec<Outcome<P>>,
    tally: Tally,
}

enum Outcome<P> {
    /// Of the report with this identity.
    Part(Option<u64>, P),
    Warning(String),
    Error(String),
    /// Nothing may be written, and why.
    Refused(String),
}

impl Job<'_> {
    /// Reads, names and prints all reports: one thread finds them, some work on them, this one puts
    /// their parts together in order. However many there are, only a few batches are held at a time.
    fn run<F: Format<Part: 'static>>(
        &self,
        mut format: F,
        mut input: Box<dyn Read + Send>,
        messages: &mut Messages<'_>,
    ) -> u8 {
        let mut out = match Output::open(self.args) {
            Ok(out) => out,
            Err(error) => return done(Err(error), messages),
        };
        // Not before: a pipe without a reader holds the command up until the first signal.
        interrupt::note();
        let inputs = Inputs {
            paths: self.args.reports.clone(),
            follow_links: self.args.follow_links,
            target: self.target.clone(),
        };
        let paths = &inputs.paths;
        let many = paths.len() > 1 || paths.iter().any(|p| p.is_dir() || p.as_os_str() == "-");
        let workers = if many { self.args.jobs() } else { 1 };
        // Never full, since there is a result for each.
        let (to_do, batches) = sync_channel::<BatchWork<F::Part>>(workers * AHEAD + 2);
        // Where the result of each batch will be, in their order.
        let (in_order, results) = sync_channel::<Receiver<Batch<F::Part>>>(workers * AHEAD);
        let (read, items) = sync_channel::<Vec<Item>>(workers * AHEAD);
        // Not one of the scope's: it may hang in reading a stream when no more of it is needed.
        std::thread::spawn(move || {
            feed(&inputs, &mut input, &mut |batch| read.send(batch).is_ok());
        });
        let batches = Mutex::new(batches);
        let stop = AtomicBool::new(false);
        let mut tally = Tally::default();
        let mut refused = None;
        let mut quiet = Quiet::new(self.args.verbose);
        // As text a report is printed as often as it is named.
        let counts_once = self.args.top.is_some() || self.args.format != FormatName::Text;
        // Groups do it for themselves.
        let each_once =
            counts_once && self.args.top.is_none() && self.args.format != FormatName::Html;
        let mut seen = SeenIds::default();
        let to_file = self.args.output.is_some();
        let mut progress = Progress::new(&self.args.reports, to_file);
        let written = std::thread::scope(|scope| {
            let answering = Answering {
                symbolicator: self.symbolicator,
                select: &self.args.select,
                jobs: workers,
                // Nothing is printed before the end.
                is_patient: self.args.top.is_some() || to_file,
                counts_once,
                stop: &stop,
            };
            scope.spawn(move || {
                answering.run(&items, &mut |batch| {
                    let (slot, result) = sync_channel(1);
                    in_order.send(result).is_ok() && to_do.send((batch, slot)).is_ok()
                });
            });
            for _ in 0..workers {
                scope.spawn(|| self.work::<F>(&batches, &stop));
            }
            let (quiet, seen) = (&mut quiet, &mut seen);
            let results = results;
            let mut print = || -> io::Result<()> {
                while let Some(result) = self.next(&results, &mut out)?
                    && let Some(batch) = self.next(&result, &mut out)?
                {
                    progress.add(batch.outcomes.len() as u64);
                    tally.add(batch.tally);
                    for outcome in batch.outcomes {
                        match outcome {
                            Outcome::Part(identity, _) if each_once && !seen.is_new(identity) => {}
                            Outcome::Part(_, part) => format.add(part, &mut out)?,
                            Outcome::Warning(_) | Outcome::Error(_) if quiet.is_enough() => {}
                            Outcome::Warning(text) => progress.aside(|| messages.warning(&text)),
                            Outcome::Error(text) => progress.aside(|| messages.error(&text)),
                            Outcome::Refused(text) => {
                                refused = Some(text);
                                return Ok(());
                            }
                        }
                    }
                }
                Ok(())
            };
            let written = print();
            stop.store(true, Ordering::SeqCst);
            // Who waits to send more need not wait any longer.
            drop(results);
            written
        });
        progress.finish();
        tally.again = seen.again();
        if let Some(more) = quiet.more() {
            let all = count(tally.seen, "report");
            let text = format!("{more} more such messages about {all}; --verbose prints all");
            messages.warning(&text);
        }
        if let Some(refused) = refused.or_else(|| self.refused_source()) {
            messages.error(&refused);
            return USAGE;
        }
        let file = out.path().map(|path| path.display().to_string());
        // A file is written whole, or not at all.
        let is_kept = file.is_none() || tally.seen > 0 && !interrupt::came();
        let mut result = written;
        if self.args.list_missing {
            let mut missing = tally.missing.values();
            result = result
                .and_then(|()| missing.try_for_each(|m| writeln!(out, "{}", missing_text(m))));
        } else if tally.seen > 0 {
            result = result.and_then(|()| format.finish(&mut out));
        }
        if is_kept {
            result = result.and_then(|()| out.finish());
        }
        // Ctrl-C takes the file away at once.
        let is_lost = file.is_some() && interrupt::came();
        if !is_lost {
            let code = done(result, messages);
            if code != DONE {
                return code;
            }
        }
        if self.args.verbose || self.args.list_missing {
            messages.searched(self.symbolicator.files());
        }
        if self.args.verbose {
            messages.without_table(self.symbolicator.files());
        }
        let code = tally.conclude(self.args, messages);
        if interrupt::came() {
            let done = count(tally.seen, "report");
            let lost = file.filter(|_| is_lost);
            let file = lost.map_or(String::new(), |file| format!("; {file} is not written"));
            messages.warning(&format!("interrupted: {done} done{file}"));
            return INTERRUPTED;
        }
        code
    }

    /// Refuses if the file to be written was shown as source code; `None` if it was not.
    fn refused_source(&self) -> Option<String> {
        let sources = self.style.sources.as_ref()?;
        let is_read = self.target.is_among(&sources.files_read());
        is_read.then(|| refusal("a file of source code"))
    }

    /// Waits for the next value; `None` after the last, and when someone pressed Ctrl-C. Before it waits, what was
    /// written goes out.
    fn next<T>(&self, from: &Receiver<T>, out: &mut dyn Write) -> io::Result<Option<T>> {
        if let Ok(next) = from.try_recv() {
            return Ok(Some(next));
        }
        out.flush()?;
        loop {
            match from.recv_timeout(TICK) {
                Ok(next) => return Ok(Some(next)),
                Err(RecvTimeoutError::Timeout) if !interrupt::came() => {}
                Err(_) => return Ok(None),
            }
        }
    }

    fn work<F: Format>(&self, batches: &Mutex<Receiver<BatchWork<F::Part>>>, stop: &AtomicBool) {
        loop {
            let next = match batches.lock() {
                Ok(batches) => batches.recv_timeout(TICK),
                Err(_) => return,
            };
            let ((parsed, gathered), slot) = match next {
                _ if stop.load(Ordering::SeqCst) || interrupt::came() => return,
                Ok(batch) => batch,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut batch = Batch {
                outcomes: Vec::with_capacity(parsed.len()),
                tally: Tally::default(),
            };
            for parsed in parsed {
                self.parsed::<F>(parsed, &gathered, &mut batch);
            }
            if slot.send(batch).is_err() {
                return;
            }
        }
    }

    fn parsed<F: Format>(&self, parsed: Parsed, gathered: &Gathered, batch: &mut Batch<F::Part>) {
        match parsed {
            Parsed::Report(origin, reading) => {
                self.reading::<F>(&origin, *reading, gathered, batch);
            }
            Parsed::Warning(text) => batch.outcomes.push(Outcome::Warning(text)),
            Parsed::Unopened(text) => batch.unopened(text),
            Parsed::Unreadable(text) => batch.unreadable(text),
            Parsed::Refused(text) => batch.outcomes.push(Outcome::Refused(text)),
        }
    }

    fn reading<F: Format>(
        &self,
        origin: &str,
        reading: Reading,
        gathered: &Gathered,
        batch: &mut Batch<F::Part>,
    ) {
        batch.tally.seen += 1;
        if !self.args.select.wants(&reading) {
            batch.tally.unwanted += 1;
            return;
        }
        batch.tally.damaged += u64::from(!reading.damage.is_empty());
        for damage in &reading.damage {
            let text = format!("{origin}: {damage}");
            batch.outcomes.push(Outcome::Warning(text));
        }
        let identity = identity(&reading.report);
        let named = survive::run(|| self.named::<F>(origin, reading, gathered, &mut batch.tally));
        match named {
            Ok(part) => batch
                .outcomes
                .extend(part.map(|part| Outcome::Part(identity, part))),
            Err(fault) => batch.unreadable(format!("{origin}: {fault}")),
        }
    }

    /// Names a report, and makes its part of the output.
    fn named<F: Format>(
        &self,
        origin: &str,
        reading: Reading,
        gathered: &Gathered,
        tally: &mut Tally,
    ) -> Option<F::Part> {
        let mut symbolicated = self.symbolicator.symbolicate_gathered(reading, gathered);
        let mut origin = origin.to_owned();
        if let Some(rules) = &self.redact {
            // Names first: the files lie under paths that are redacted.
            redact(&mut symbolicated, &mut origin, rules);
        }
        tally.note_missing(&symbolicated);
        if self.args.list_missing {
            return None;
        }
        let part = F::part(&self.style, &origin, &symbolicated);
        if let Some(shown) = &self.style.sources {
            let files = self.symbolicator.files();
            tally
                .changed
                .extend(sources::changed(&symbolicated, shown, files));
        }
        Some(part)
    }
}

impl<P> Batch<P> {
    fn unreadable(&mut self, text: String) {
        self.tally.damaged += 1;
        self.outcomes.push(Outcome::Error(text));
    }

    fn unopened(&mut self, text: String) {
        self.tally.unopened += 1;
        self.outcomes.push(Outcome::Error(text));
    }
}

fn colors(args: &Args) -> bool {
    match args.color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            args.output.is_none()
                && io::stdout().is_terminal()
                && anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
        }
    }
}

#[cfg(test)]
mod tests;
