//! Reports out of the items of a run: read, unpacked and imported.

use std::fmt::Display;
use std::path::Path;

use super::cut::CutReport;
use super::faults;
use super::inputs::Item;
use super::tally::Message;
use super::unpack::{Packing, unpacked};
use crate::report::{self, ReadError, Reading, ReportReader, limits};
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::import::{self, EnvelopeItem, ImportError};

/// A report, or what there is to say in its place.
pub(super) enum Parsed {
    /// A report with its origin.
    Report(String, Box<Reading>),
    Message(Message),
}

/// What items hold, in order. Of files the cut reports go to `cut`, where there is one.
pub(super) fn parse(items: Vec<Item>, mut cut: Option<&mut Vec<CutReport>>) -> Vec<Parsed> {
    let mut all = Vec::with_capacity(items.len());
    for item in items {
        let origin = item.origin();
        if let Err(fault) = faults::run(|| parse_item(item, &mut all, cut.as_deref_mut())) {
            all.push(Parsed::unreadable(format_args!("{origin}: {fault}")));
        }
    }
    all
}

fn parse_item(item: Item, all: &mut Vec<Parsed>, cut: Option<&mut Vec<CutReport>>) {
    match (item, cut) {
        (Item::File(path), None) => parse_path(&path, all),
        (Item::File(path), Some(cut)) => {
            let from = all.len();
            parse_path(&path, all);
            for (index, parsed) in all.split_off(from).into_iter().enumerate() {
                let report = match &parsed {
                    Parsed::Report(_, reading) => CutReport::of(&path, index, reading),
                    _ => None,
                };
                match report {
                    Some(report) => cut.push(report),
                    None => all.push(parsed),
                }
            }
        }
        (Item::Cut(report), _) => {
            let mut parsed = Vec::new();
            parse_path(&report.path, &mut parsed);
            // If the file has changed, there may be a reason why it cannot be read.
            parsed.truncate(report.index + 1);
            all.extend(parsed.pop());
        }
        (Item::Bytes(origin, bytes), _) => parse_bytes(&origin, &bytes, all),
        (Item::Read(origin, reading), _) => all.push(Parsed::of(&origin, *reading)),
        (Item::Message(message), _) => all.push(Parsed::Message(message)),
    }
}

fn parse_path(path: &Path, all: &mut Vec<Parsed>) {
    match SharedBytes::read(path, limits::REPORT_BYTES as u64) {
        Ok(bytes) => parse_file(&path.display().to_string(), &bytes, all),
        Err(error) => all.push(Parsed::unreadable(error)),
    }
}

fn parse_file(origin: &str, bytes: &[u8], all: &mut Vec<Parsed>) {
    match Packing::of(bytes).map(|packing| unpacked(packing, bytes)) {
        Some(Ok(bytes)) => parse_bytes(origin, &bytes, all),
        Some(Err(error)) => all.push(Parsed::unreadable(format_args!("{origin}: {error}"))),
        None => parse_bytes(origin, bytes, all),
    }
}

/// Reads the reports of an envelope; a line says what else is in it.
fn parse_envelope(origin: &str, items: Vec<EnvelopeItem>, all: &mut Vec<Parsed>) {
    let (from, mut others) = (all.len(), Vec::new());
    for item in items {
        match import::read(item.payload) {
            Ok(found) => all.extend(found.into_iter().map(|of| Parsed::of(origin, Ok(of)))),
            Err(ImportError::Unknown) => others.push(item.name),
            Err(error) => all.push(Parsed::unreadable(format_args!("{origin}: {error}"))),
        }
    }
    let text = format!("{origin}: not read of the envelope: {}", others.join(", "));
    let message = [Message::Warning, Message::Unreadable][usize::from(all.len() == from)];
    if !others.is_empty() {
        all.push(Parsed::Message(message(text)));
    }
}

fn parse_bytes(origin: &str, bytes: &[u8], all: &mut Vec<Parsed>) {
    if let Some(items) = import::envelope_items(bytes) {
        return parse_envelope(origin, items, all);
    }
    match import::read(bytes) {
        Ok(found) => all.extend(found.into_iter().map(|of| Parsed::of(origin, Ok(of)))),
        Err(ImportError::Unknown) => match import::other_product(bytes) {
            Some(other) => all.push(Parsed::unreadable(format_args!("{origin}: {other}"))),
            None => all.extend(readings(bytes).map(|reading| Parsed::of(origin, reading))),
        },
        Err(error) => all.push(Parsed::unreadable(format_args!("{origin}: {error}"))),
    }
}

impl Parsed {
    fn unreadable(why: impl Display) -> Parsed {
        Parsed::Message(Message::Unreadable(why.to_string()))
    }

    fn of(origin: &str, reading: Result<Reading, ReadError>) -> Parsed {
        match reading {
            Ok(reading) => Parsed::Report(origin.to_owned(), Box::new(reading)),
            Err(error) => Parsed::unreadable(format_args!("{origin}: {error}")),
        }
    }
}

/// The report in `bytes`, or each of several.
pub(super) fn readings(bytes: &[u8]) -> impl Iterator<Item = Result<Reading, ReadError>> + '_ {
    let whole = report::read(bytes);
    let (mut first, mut sound) = (Vec::new(), 0);
    let mut others = ReportReader::new(bytes);
    let is_one = matches!(&whole, Ok(reading) if reading.damage.is_empty());
    // Several reports put behind each other look like one damaged report.
    while !is_one
        && sound < 2
        && let Some(reading) = others.next()
    {
        sound += usize::from(reading.is_ok());
        first.push(reading);
    }
    let (first, others) = if sound > 1 {
        (first, Some(others))
    } else {
        (vec![whole], None)
    };
    first.into_iter().chain(others.into_iter().flatten())
}
