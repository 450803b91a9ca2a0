//! Reports in, one format out.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::ColorChoice;

use super::args::{Args, FormatName};
use super::{DAMAGED, DONE, NOTHING, Say, done, output};
use crate::report::{self, Reading};
use crate::symbolicate::foreign;
use crate::symbolicate::format::{
    FlameGraph, Folded, Format, Json, Ndjson, Speedscope, Style, Text, Top, TopLayout, missing_text,
};
use crate::symbolicate::{Missing, Symbolicated, Symbolicator};

pub(super) fn run(args: &Args, desk: &Symbolicator, input: &mut dyn Read, say: &mut Say<'_>) -> u8 {
    let style = Style {
        demangle: !args.no_demangle,
        color: colors(args),
    };
    let single = matches!(&args.reports[..], [one] if !one.is_dir());
    let top = |n: u32, layout| Box::new(Top::new(n as usize, layout, style.clone()));
    let mut format: Box<dyn Format> = match args.format {
        FormatName::Json if args.top.is_some() => top(args.top.unwrap_or(10), TopLayout::Json),
        FormatName::Ndjson if args.top.is_some() => top(args.top.unwrap_or(10), TopLayout::Ndjson),
        _ if args.top.is_some() => top(args.top.unwrap_or(10), TopLayout::Text),
        FormatName::Flamegraph => Box::new(FlameGraph::new(style)),
        FormatName::Speedscope => Box::new(Speedscope::new(style)),
        FormatName::Text => Box::new(Text::new(style)),
        FormatName::Json => Box::new(Json::new(style, !single)),
        FormatName::Ndjson => Box::new(Ndjson::new(style)),
        FormatName::Folded => Box::new(Folded::new(style)),
    };
    let mut out = match output(args) {
        Ok(out) => out,
        Err(error) => return done(Err(error), say),
    };
    let mut run = Run {
        args,
        desk,
        seen: 0,
        damaged: 0,
        missing: BTreeMap::new(),
    };
    let mut result = Ok(());
    for path in &args.reports {
        result = run.path(path, input, format.as_mut(), &mut out, say);
        if result.is_err() {
            break;
        }
    }
    if args.list_missing {
        result = result.and_then(|()| {
            run.missing
                .values()
                .try_for_each(|m| writeln!(out, "{}", missing_text(m)))
        });
    } else if run.seen > 0 {
        result = result.and_then(|()| format.finish(&mut out));
    }
    let code = done(result.and_then(|()| out.flush()), say);
    if code != DONE {
        return code;
    }
    run.conclude(say)
}

struct Run<'a> {
    args: &'a Args,
    desk: &'a Symbolicator,
    /// Reports of which something could be read.
    seen: usize,
    damaged: usize,
    missing: BTreeMap<(String, Vec<u8>), Missing>,
}

impl Run<'_> {
    fn path(
        &mut self,
        path: &Path,
        input: &mut dyn Read,
        format: &mut dyn Format,
        out: &mut dyn Write,
        say: &mut Say<'_>,
    ) -> io::Result<()> {
        if path == Path::new("-") {
            let mut bytes = Vec::new();
            return match input.read_to_end(&mut bytes) {
                Ok(_) => self.bytes("standard input", &bytes, format, out, say),
                Err(error) => {
                    self.unreadable(&format!("standard input: {error}"), say);
                    Ok(())
                }
            };
        }
        if !path.is_dir() {
            return self.file(path, format, out, say);
        }
        let mut reports = Vec::new();
        collect(path, 0, &mut reports);
        if reports.is_empty() {
            say.warning(&format!(
                "{}: no reports (*.wedjat, *.partial, *.ips, *.crash, *.plcrash, or *.json of a known layout) in it",
                path.display()
            ));
        }
        reports
            .iter()
            .try_for_each(|report| self.file(report, format, out, say))
    }

    fn file(
        &mut self,
        path: &Path,
        format: &mut dyn Format,
        out: &mut dyn Write,
        say: &mut Say<'_>,
    ) -> io::Result<()> {
        match crate::symbolicate::bytes::Bytes::map(path) {
            Ok(bytes) => self.bytes(&path.display().to_string(), &bytes, format, out, say),
            Err(error) => {
                self.unreadable(&error.to_string(), say);
                Ok(())
            }
        }
    }

    fn bytes(
        &mut self,
        origin: &str,
        bytes: &[u8],
        format: &mut dyn Format,
        out: &mut dyn Write,
        say: &mut Say<'_>,
    ) -> io::Result<()> {
        if foreign::detect(bytes).is_some() {
            return match foreign::read(bytes) {
                Ok(readings) => readings
                    .into_iter()
                    .try_for_each(|reading| self.reading(origin, reading, format, out, say)),
                Err(error) => {
                    self.unreadable(&format!("{origin}: {error}"), say);
                    Ok(())
                }
            };
        }
        match report::read(bytes) {
            Ok(reading) => self.reading(origin, reading, format, out, say),
            Err(error) => {
                self.unreadable(&format!("{origin}: {error}"), say);
                Ok(())
            }
        }
    }

    fn reading(
        &mut self,
        origin: &str,
        reading: Reading,
        format: &mut dyn Format,
        out: &mut dyn Write,
        say: &mut Say<'_>,
    ) -> io::Result<()> {
        self.seen += 1;
        if !reading.damage.is_empty() {
            self.damaged += 1;
            for damage in &reading.damage {
                say.warning(&format!("{origin}: {damage}"));
            }
        }
        let symbolicated = self.desk.symbolicate_reading(reading);
        self.note_missing(&symbolicated);
        if self.args.list_missing {
            Ok(())
        } else {
            format.report(origin, &symbolicated, out)
        }
    }

    fn unreadable(&mut self, text: &str, say: &mut Say<'_>) {
        self.damaged += 1;
        say.error(text);
    }

    fn note_missing(&mut self, report: &Symbolicated) {
        for missing in &report.missing {
            let key = (missing.name.clone(), missing.id.clone());
            self.missing.entry(key).or_insert_with(|| missing.clone());
        }
    }

    /// What people are told at the end, and the exit code.
    fn conclude(&self, say: &mut Say<'_>) -> u8 {
        // The system's own libraries are known to lack debug files: `--list-missing` has them.
        let missing: Vec<&Missing> = self
            .missing
            .values()
            .filter(|m| !(m.system && m.symbols))
            .collect();
        // Text names them itself.
        if !self.args.list_missing && !missing.is_empty() {
            say.warning("debug files missing (give them with --debug):");
            for missing in &missing {
                say.note(&format!("  {}", missing_text(missing)));
            }
        }
        match (self.seen, self.damaged) {
            (0, _) => NOTHING,
            (_, 1..) => DAMAGED,
            _ if self.args.strict && !missing.is_empty() => DAMAGED,
            _ => DONE,
        }
    }
}

/// The reports in a folder and those below it, in order of name.
fn collect(folder: &Path, depth: usize, reports: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if depth < 64 && !path.is_symlink() {
                collect(&path, depth + 1, reports);
            }
        } else if is_report(&path) {
            reports.push(path);
        }
    }
}

/// By its name; JSON and plain text also by what they hold.
fn is_report(path: &Path) -> bool {
    let Some(ext) = path.extension().and_then(|ext| ext.to_str()) else {
        return false;
    };
    match ext {
        "wedjat" | "partial" | "ips" | "crash" | "plcrash" => true,
        "json" | "txt" => crate::symbolicate::bytes::Bytes::map(path)
            .is_ok_and(|bytes| foreign::detect(&bytes).is_some()),
        _ => false,
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
