//! Reports in, one format out.

use std::io::{self, IsTerminal, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use clap::ColorChoice;

use super::args::{Args, FormatName};
use super::batches::BatchResolver;
use super::faults;
use super::inputs::{Inputs, Item, feed};
use super::interrupt;
use super::output::{Output, Target, refusal};
use super::parsed::Parsed;
use super::printing::{Batch, Outcome, Printer, counts_once};
use super::tally::{Message, Tally};
use super::{Messages, exit_code};
use crate::report::{Reading, Redact};
use crate::symbolicate::format::{
    Firefox, Folded, History, Html, Json, Ndjson, Parts, Sentry, Sources, Style, Text, Top,
    TopLayout,
};
#[cfg(feature = "parquet")]
use crate::symbolicate::format::{ParquetFrames, ParquetReports};
use crate::symbolicate::gathered::GatheredLookups;
use crate::symbolicate::group::identity;
use crate::symbolicate::{Symbolicator, redact};

/// Batches that are worked on or wait for their turn, for each worker.
const BATCHES_PER_WORKER: usize = 4;

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
    let layout = match args.format {
        FormatName::Json => TopLayout::Json,
        FormatName::Ndjson => TopLayout::Ndjson,
        _ => TopLayout::Text,
    };
    let (top, style) = (args.top.map(|n| n as usize), job.style.clone());
    match (args.group.clone(), top) {
        _ if args.format == FormatName::Html => {}
        (Some(key), _) => return job.run(History::new(key, layout, style), input, messages),
        (_, Some(n)) => return job.run(Top::new(n, layout, style), input, messages),
        _ => {}
    }
    match args.format {
        FormatName::Firefox => job.run(Firefox::default(), input, messages),
        FormatName::Sentry => job.run(Sentry::default(), input, messages),
        #[cfg(feature = "parquet")]
        FormatName::Parquet => job.run(ParquetReports::default(), input, messages),
        #[cfg(feature = "parquet")]
        FormatName::ParquetFrames => job.run(ParquetFrames::default(), input, messages),
        #[cfg(not(feature = "parquet"))]
        FormatName::Parquet | FormatName::ParquetFrames => super::USAGE, // refused before
        FormatName::Html => job.run(Html::new(top, args.group.clone()), input, messages),
        FormatName::Text => job.run(Text::default(), input, messages),
        FormatName::Json if single => job.run(Json::default(), input, messages),
        FormatName::Json => job.run(Json::array(), input, messages),
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

impl Job<'_> {
    /// Reads, names and prints all reports: one thread finds them, some work on them, this one puts
    /// their parts together in order. However many there are, only a few batches are held at a time.
    fn run<F: Parts<Part: 'static>>(
        &self,
        format: F,
        input: Box<dyn Read + Send>,
        messages: &mut Messages<'_>,
    ) -> u8 {
        let out = match Output::open(self.args) {
            Ok(out) => out,
            Err(error) => return exit_code(Err(error), messages),
        };
        // Not before: a pipe without a reader holds the command up until the first signal.
        interrupt::defer_interrupt();
        let workers = self.workers();
        let (pass, results) = sync_channel::<Batch<F::Part>>(workers * BATCHES_PER_WORKER);
        let items = self.read_items(input, workers * BATCHES_PER_WORKER);
        let stop = AtomicBool::new(false);
        let mut printer = Printer::new(self.args, format, out, messages);
        std::thread::scope(|scope| {
            let answering = BatchResolver {
                symbolicator: self.symbolicator,
                select: &self.args.select,
                jobs: workers,
                is_patient: self.args.prints_at_end(),
                counts_once: counts_once(self.args),
                stop: &stop,
            };
            scope.spawn(move || {
                let work = |batch, gathered: &_| self.batch::<F>(batch, gathered);
                answering.run(&items, work, |batch| pass.send(batch).is_ok());
            });
            // Dropped with this scope: who waits to send more need not wait any longer.
            let results = results;
            let written = printer.print(&results);
            stop.store(true, Ordering::SeqCst);
            let sources = self.style.sources.as_ref();
            let short = sources.map_or(Vec::new(), |sources| sources.too_short());
            let files = self.symbolicator.files();
            let code = printer.finish(written, self.refused_source(), short, files);
            if interrupt::is_set() {
                // The others may wait for a server, or work on a large file.
                #[cfg(feature = "debuginfod")]
                crate::symbolicate::files::debuginfod::remove_partial();
                std::process::exit(i32::from(code));
            }
            code
        })
    }

    /// Count of the threads that work on reports.
    fn workers(&self) -> usize {
        let mut paths = self.args.reports.iter();
        let many = paths.len() > 1 || paths.any(|path| path.is_dir() || path.as_os_str() == "-");
        if many { self.args.jobs() } else { 1 }
    }

    /// Starts the thread that finds the reports, so many batches ahead.
    fn read_items(&self, mut input: Box<dyn Read + Send>, ahead: usize) -> Receiver<Vec<Item>> {
        let inputs = Inputs {
            paths: self.args.reports.clone(),
            follow_links: self.args.follow_links,
            target: self.target.clone(),
        };
        let (read, items) = sync_channel::<Vec<Item>>(ahead);
        // No scope waits for it: it may hang in reading a stream when no more of it is needed.
        std::thread::spawn(move || {
            feed(&inputs, &mut input, &mut |batch| read.send(batch).is_ok());
        });
        items
    }

    /// Refuses if the file to be written was shown as source code; `None` if it was not.
    fn refused_source(&self) -> Option<String> {
        let sources = self.style.sources.as_ref()?;
        let is_read = self.target.is_among(&sources.files_read());
        is_read.then(|| refusal("a file of source code"))
    }

    /// Names the reports of a batch, and makes their parts of the output.
    fn batch<F: Parts>(&self, reports: Vec<Parsed>, gathered: &GatheredLookups) -> Batch<F::Part> {
        let mut batch = Batch {
            outcomes: Vec::with_capacity(reports.len()),
            tally: Tally::default(),
        };
        for parsed in reports {
            match parsed {
                Parsed::Report(origin, reading) => {
                    self.reading::<F>(&origin, *reading, gathered, &mut batch);
                }
                Parsed::Message(message) => batch.message(message),
            }
        }
        batch
    }

    fn reading<F: Parts>(
        &self,
        origin: &str,
        reading: Reading,
        gathered: &GatheredLookups,
        batch: &mut Batch<F::Part>,
    ) {
        batch.tally.seen += 1;
        if !self.args.select.wants(&reading) {
            batch.tally.unwanted += 1;
            return;
        }
        batch.tally.damaged += u64::from(!reading.damage.is_empty());
        for damage in &reading.damage {
            batch.message(Message::Warning(format!("{origin}: {damage}")));
        }
        let identity = identity(&reading.report, !reading.damage.is_empty());
        let named = faults::run(|| self.render::<F>(origin, reading, gathered, &mut batch.tally));
        match named {
            Ok(part) => batch
                .outcomes
                .extend(part.map(|part| Outcome::Part(identity, part))),
            Err(fault) => batch.message(Message::Unreadable(format!("{origin}: {fault}"))),
        }
    }

    /// Names a report, and makes its part of the output.
    fn render<F: Parts>(
        &self,
        origin: &str,
        reading: Reading,
        gathered: &GatheredLookups,
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
        Some(F::part(&self.style, &origin, &symbolicated))
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
