//! What was counted, as the table of `docs/measured/exactness.md`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use wedjat::unwind::{RuleSource, WalkEnd};

/// How a walk compares with the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The very chain of callers, to the root.
    Exact,
    /// A true part of it, with a reason why no more.
    Early,
    /// A wrong frame, all of them presented as certain.
    Wrong,
    /// A wrong frame, found by a frame pointer or by what lay on the stack, and marked so.
    Doubtful,
}

#[derive(Default, Clone)]
struct Row {
    stops: u64,
    exact: u64,
    early: u64,
    wrong: u64,
    doubtful: u64,
    their_exact: u64,
    their_early: u64,
    their_wrong: u64,
    addresses: HashMap<u64, bool>,
    distinct: u64,
    distinct_wrong: u64,
    /// Frames by what gave the rule that leaves them.
    sources: BTreeMap<RuleSource, u64>,
    /// Those among them that have no caller.
    roots: BTreeMap<RuleSource, u64>,
}

const HEADER: &str = "| corpus | stops | exact | early | certain | guess | framehop's rules \
    | framehop: exact | early | wrong |\n\
    | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n";

#[derive(Default)]
pub struct Table {
    now: Row,
    rows: Vec<(String, Row)>,
    misses: BTreeMap<String, u64>,
}

impl Table {
    pub fn count(&mut self, ours: Outcome, theirs: Outcome, pc: u64, what: impl Fn() -> String) {
        let row = &mut self.now;
        row.stops += 1;
        match ours {
            Outcome::Exact => row.exact += 1,
            Outcome::Early => row.early += 1,
            Outcome::Wrong => row.wrong += 1,
            Outcome::Doubtful => row.doubtful += 1,
        }
        match theirs {
            Outcome::Exact => row.their_exact += 1,
            Outcome::Early => row.their_early += 1,
            Outcome::Wrong | Outcome::Doubtful => row.their_wrong += 1,
        }
        let bad = matches!(ours, Outcome::Wrong | Outcome::Doubtful);
        *row.addresses.entry(pc).or_default() |= bad;
        if ours != Outcome::Exact {
            *self.misses.entry(what()).or_default() += 1;
        }
    }

    /// What gave the rule that leaves each frame of a walk, and why the last one was not.
    pub fn count_sources(&mut self, sources: &[RuleSource], end: Option<WalkEnd>) {
        for source in sources {
            *self.now.sources.entry(*source).or_default() += 1;
        }
        if end == Some(WalkEnd::Root)
            && let Some(last) = sources.last()
        {
            *self.now.roots.entry(*last).or_default() += 1;
        }
    }

    /// The shares of all frames, by what gave the rule that leaves them.
    pub fn print_sources(&self) {
        let mut all = Row::default();
        for (_, row) in &self.rows {
            all.add(row);
        }
        let frames: u64 = all.sources.values().sum();
        let left = frames - all.roots.values().sum::<u64>();
        for (source, count) in &all.sources {
            let roots = all.roots.get(source).copied().unwrap_or(0);
            eprintln!(
                "{source:?}: {:.3} % of {frames} frames; {:.3} % of {left} with a caller",
                of(*count, frames),
                of(count - roots, left)
            );
        }
    }

    /// A build of this corpus is done.
    pub fn close(&mut self, name: &str) {
        let mut row = std::mem::take(&mut self.now);
        row.distinct = row.addresses.len() as u64;
        row.distinct_wrong = row.addresses.values().filter(|bad| **bad).count() as u64;
        row.addresses.clear();
        match self.rows.last_mut().filter(|(last, _)| last == name) {
            Some((_, sum)) => sum.add(&row),
            None => self.rows.push((name.to_string(), row)),
        }
    }

    /// Takes over what another one counted.
    pub fn append(&mut self, other: Table) {
        self.rows.extend(other.rows);
        for (what, count) in other.misses {
            *self.misses.entry(what).or_default() += count;
        }
    }

    pub fn print_misses(&self) {
        let mut misses: Vec<_> = self.misses.iter().collect();
        let rank = |what: &str| {
            ["Wrong", "Doubtful"]
                .iter()
                .position(|kind| what.starts_with(kind))
                .unwrap_or(2)
        };
        misses.sort_by_key(|(what, count)| (rank(what), std::cmp::Reverse(**count)));
        for (what, count) in misses.iter().take(80) {
            eprintln!("{count:8} {what}");
        }
    }

    pub fn rows(&self) -> String {
        let mut text = String::from(HEADER);
        let mut all = Row::default();
        for (name, row) in &self.rows {
            all.add(row);
            row.write(name, &mut text);
        }
        all.write("all", &mut text);
        text
    }

    pub fn write(&self, path: &str) -> std::io::Result<()> {
        let head = include_str!("head.md");
        std::fs::write(path, format!("{head}\n{}", self.rows()))
    }

    /// Whether every corpus that ran is as exact as promised, and stands in the document.
    ///
    /// The document's figures are those of the machine that wrote it; here other libraries and
    /// another compiler may have run, so that they are held against the promise, with room for one
    /// miss in 5,000 stops and one address in 1,000, and not against the document.
    pub fn check(&self, path: &str, all: &[&str]) -> Result<bool, Box<dyn std::error::Error>> {
        let document = std::fs::read_to_string(path)?;
        let mut good = is_as_written(&document, all);
        if !good {
            eprintln!("{path} is not what this program writes: run it without --check");
        }
        for (name, row) in &self.rows {
            let exact = row.exact * 5_000 >= row.stops * 4_999;
            let addresses = row.distinct_wrong * 1_000 <= row.distinct;
            if row.wrong > 0 || !exact || !addresses {
                eprintln!(
                    "{name}: {} of {} stops exact, {} said to be certain and wrong, {} of {} \
                     addresses ever wrong",
                    row.exact, row.stops, row.wrong, row.distinct_wrong, row.distinct
                );
                good = false;
            }
        }
        Ok(good)
    }
}

/// Whether a document has the head, the columns and the rows that this program writes, whatever
/// its figures are.
fn is_as_written(document: &str, names: &[&str]) -> bool {
    let begin = concat!(include_str!("head.md"), "\n");
    let Some(lines) = document
        .strip_prefix(begin)
        .and_then(|table| table.strip_prefix(HEADER))
    else {
        return false;
    };
    let expected = names.iter().chain(&["all"]);
    let expected = expected.map(|name| format!("| {name} | "));
    let columns = HEADER
        .lines()
        .next()
        .map_or(0, |line| line.matches('|').count());
    let whole = |line: &str| line.matches('|').count() == columns;
    lines.lines().count() == expected.clone().count()
        && lines
            .lines()
            .zip(expected)
            .all(|(line, start)| line.starts_with(&start) && whole(line))
}

fn of(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

impl Row {
    fn add(&mut self, other: &Row) {
        self.stops += other.stops;
        self.exact += other.exact;
        self.early += other.early;
        self.wrong += other.wrong;
        self.doubtful += other.doubtful;
        self.their_exact += other.their_exact;
        self.their_early += other.their_early;
        self.their_wrong += other.their_wrong;
        self.distinct += other.distinct;
        self.distinct_wrong += other.distinct_wrong;
        for (source, count) in &other.sources {
            *self.sources.entry(*source).or_default() += count;
        }
        for (source, count) in &other.roots {
            *self.roots.entry(*source).or_default() += count;
        }
    }

    fn write(&self, name: &str, text: &mut String) {
        let learned = |from: &BTreeMap<RuleSource, u64>| {
            from.get(&RuleSource::Framehop).copied().unwrap_or(0)
        };
        let frames: u64 = self.sources.values().sum();
        let roots: u64 = self.roots.values().sum();
        let rules = learned(&self.sources) - learned(&self.roots);
        let share = |part| of(part, self.stops);
        let _ = writeln!(
            text,
            "| {name} | {} | {:.3} | {:.3} | {:.3} | {:.3} | {:.2} | {:.3} | {:.3} | {:.3} |",
            self.stops,
            share(self.exact),
            share(self.early),
            share(self.wrong),
            share(self.doubtful),
            of(rules, frames - roots),
            share(self.their_exact),
            share(self.their_early),
            share(self.their_wrong),
        );
    }
}
