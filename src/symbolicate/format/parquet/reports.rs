//! The table of reports: a row each, of at most [`MAX_ROW`] bytes.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{BooleanArray, TimestampMicrosecondArray};

use super::{Columns, ReportIds, Row, Table, numbers, texts};
use crate::report::Report;
use crate::report::time::nanos;
use crate::symbolicate::format::facts::{app_state, known_id};
use crate::symbolicate::format::findings::Findings;
use crate::symbolicate::format::{Parts, Style};
use crate::symbolicate::frame::{Symbolicated, id_text};
use crate::symbolicate::group::{RECIPE, key_text};

/// Bytes of the texts of a row.
const MAX_ROW: usize = 19_000;
/// Bytes of the longest text.
const MAX_TEXT: usize = 2_000;

/// The file being written; `docs/data.md` has its columns.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ParquetReports {
    table: Table<ReportRow>,
    ids: ReportIds,
}

/// One report.
#[derive(Debug, Default)]
pub struct ReportRow {
    texts: [Option<String>; TEXTS.len()],
    time: Option<i64>,
    numbers: [Option<u64>; NUMBERS.len()],
    flags: [Option<bool>; FLAGS.len()],
    lists: [Vec<String>; LISTS.len()],
    context: Vec<(String, String)>,
    gauges: Vec<(String, f64)>,
}

/// Columns of text, in order.
#[rustfmt::skip]
const TEXTS: [&str; 22] = [
    "report", "report_id", "launch", "app", "version", "os", "os_version", "device", "arch", "type",
    "class", "signal", "exception", "how", "group", "os_build", "ending", "watched_thread", "title",
    "blame", "message", "reason",
];
#[rustfmt::skip]
const NUMBERS: [&str; 8] = [
    "pid", "duration", "samples", "watched_number", "pool_threads", "pool_at_rest", "pool_stalled",
    "group_recipe",
];
const FLAGS: [&str; 4] = ["fatal", "ended", "at_least", "main_thread"];
const LISTS: [&str; 3] = ["stack", "damage", "breadcrumbs"];

impl Parts for ParquetReports {
    type Part = ReportRow;

    fn part(_style: &Style, origin: &str, of: &Symbolicated) -> ReportRow {
        let report = &of.report;
        let (head, event) = (&report.head, report.event.as_ref());
        let found = Findings::new(origin, of);
        let member = found.member;
        let watched = event.and_then(|event| event.watched.as_ref());
        let (context, app) = (report.context.as_ref(), app_state(report));
        let breadcrumbs = app.breadcrumbs.into_iter();
        let samples = report.samples.iter().map(|sample| sample.count.max(1));
        let launch = (head.launch != [0; 16]).then(|| id_text(&head.launch));
        let row = ReportRow {
            texts: [
                Some(origin.to_owned()),
                known_id(report),
                launch,
                Some(head.app.name.clone()),
                Some(head.app.version.clone()),
                Some(head.os.name.clone()),
                Some(head.os.version.clone()),
                head.device.clone(),
                Some(head.arch.clone()),
                event.map(|event| event.word().to_owned()),
                report.class_word().map(str::to_owned),
                event.and_then(|event| Some(event.signal.as_ref()?.name.clone())),
                event.and_then(|event| event.name.clone()),
                (report.stall_end.as_ref()).map(|end| end.how_word().to_owned()),
                Some(key_text(member.key)),
                head.os.build.clone(),
                Some(member.ending),
                watched.map(|watched| watched.name.clone()),
                Some(found.title),
                found.blame,
                event.and_then(|event| event.message.clone()),
                report.reason().map(str::to_owned),
            ],
            // Spark reads no finer ones.
            time: member.time.and_then(|time| i64::try_from(time / 1000).ok()),
            numbers: [
                Some(head.pid),
                Some(nanos(member.duration)).filter(|duration| *duration > 0),
                Some(samples.fold(0, u64::saturating_add)),
                watched.and_then(|watched| watched.number),
                watched.and_then(|watched| watched.pool),
                watched.and_then(|watched| watched.at_rest),
                watched.and_then(|watched| watched.stalled),
                Some(u64::from(RECIPE)),
            ],
            flags: [
                event.map(|event| event.fatal),
                Some(member.ended),
                Some(member.at_least),
                is_main(report, found.thread),
            ],
            lists: [
                member.stack.iter().map(ToString::to_string).collect(),
                of.damage.clone(),
                breadcrumbs.map(|crumb| crumb.what).collect(),
            ],
            context: app.keys,
            gauges: context.map_or(Vec::new(), |context| context.gauges.clone()),
        };
        row.fitted()
    }

    fn add(&mut self, mut part: ReportRow, out: &mut dyn Write) -> io::Result<()> {
        let [origin, id, launch, ..] = &mut part.texts;
        let known = self
            .ids
            .next(origin.as_deref().unwrap_or(""), id.as_deref());
        launch.get_or_insert_with(|| known.clone());
        *id = Some(known);
        self.table.add(part, out)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.table.finish(out)
    }
}

/// True if the thread with this index is the main one; `None` where the report knows no main thread.
fn is_main(report: &Report, thread: Option<usize>) -> Option<bool> {
    let threads = &report.threads;
    let is_known = threads.iter().any(|thread| thread.main);
    let thread = threads.get(thread?).filter(|_| is_known)?;
    Some(thread.main)
}

impl ReportRow {
    /// Shortens texts, and drops from lists what has no room: of breadcrumbs the oldest, of others the last.
    fn fitted(mut self) -> ReportRow {
        // Without an id of its own the report has its file's name three times.
        let origin = self.texts[0].as_ref().map_or(0, String::len);
        let mut room = MAX_ROW.saturating_sub(3 * origin);
        for text in self.texts.iter_mut().skip(1).flatten() {
            take(text, &mut room);
        }
        self.context
            .retain_mut(|(key, value)| take(key, &mut room) && take(value, &mut room));
        self.gauges.retain_mut(|(name, _)| take(name, &mut room));
        let [stack, damage, breadcrumbs] = &mut self.lists;
        stack.retain_mut(|text| take(text, &mut room));
        breadcrumbs.reverse();
        breadcrumbs.retain_mut(|text| take(text, &mut room));
        breadcrumbs.reverse();
        damage.retain_mut(|text| take(text, &mut room));
        self
    }
}

/// Shortens a text to the room that is left, and takes it; returns false if there is no room for it.
fn take(text: &mut String, room: &mut usize) -> bool {
    /// Bytes of a text's length, and of a number beside it.
    const BYTES_BESIDE: usize = 12;
    let Some(left) = room.checked_sub(BYTES_BESIDE) else {
        text.clear();
        return false;
    };
    let most = MAX_TEXT.min(left);
    if text.len() > most {
        let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
        text.truncate(end);
        text.push('…');
    }
    *room = left.saturating_sub(text.len());
    true
}

impl Row for ReportRow {
    fn bytes(&self) -> usize {
        let pairs = self.context.iter().flat_map(|(key, value)| [key, value]);
        let names = self.gauges.iter().map(|(name, _)| name);
        let texts = self.lists.iter().flatten().chain(pairs).chain(names);
        let texts = texts.chain(self.texts.iter().flatten());
        texts.map(|text| size_of::<String>() + text.len()).sum()
    }

    fn columns(rows: &[ReportRow]) -> io::Result<Columns> {
        let mut columns = texts(rows, &TEXTS, |row| &row.texts);
        let time: TimestampMicrosecondArray = rows.iter().map(|row| row.time).collect();
        columns.push(("time", Arc::new(time.with_timezone("UTC"))));
        columns.extend(numbers(rows, &NUMBERS, |row| &row.numbers));
        for (at, name) in FLAGS.into_iter().enumerate() {
            let column: BooleanArray = rows.iter().map(|row| row.flags[at]).collect();
            columns.push((name, Arc::new(column)));
        }
        for (at, name) in LISTS.into_iter().enumerate() {
            let mut column = ListBuilder::new(StringBuilder::new());
            rows.iter()
                .for_each(|row| column.append_value(row.lists[at].iter().map(Some)));
            columns.push((name, Arc::new(column.finish())));
        }
        let mut context = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        let mut gauges = MapBuilder::new(None, StringBuilder::new(), Float64Builder::new());
        for row in rows {
            for (key, value) in &row.context {
                context.keys().append_value(key);
                context.values().append_value(value);
            }
            context.append(true).map_err(io::Error::other)?;
            for (name, value) in &row.gauges {
                gauges.keys().append_value(name);
                gauges.values().append_value(*value);
            }
            gauges.append(true).map_err(io::Error::other)?;
        }
        columns.push(("context", Arc::new(context.finish())));
        columns.push(("gauges", Arc::new(gauges.finish())));
        Ok(columns)
    }
}
