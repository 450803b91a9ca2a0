//! A unit's line program, as sequences of rows in order of address.

use gimli::{IncompleteLineProgram, LineProgramHeader, Unit};
use rustc_hash::FxHashMap;

use super::R;
use super::units::Walk;
use crate::symbolicate::object_file::code_end;

/// The rows from one `DW_LNE_set_address` to its `DW_LNE_end_sequence`.
#[derive(Debug)]
pub(super) struct Sequence {
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    pub rows: Vec<Row>,
}

/// From `address` to the next row: this file (as the line program numbers it) and line (0: none).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub address: u64,
    pub file: u64,
    pub line: u32,
}

/// All live sequences of a unit, by address.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub sequences: Vec<Sequence>,
}

impl Lines {
    /// Runs the line program. Sequences that do not start in code are those of functions that the
    /// linker threw away. With `points`, only the rows that hold one of these addresses are kept. What
    /// a damaged program gave before the damage is kept.
    pub(super) fn read(
        program: IncompleteLineProgram<R<'_>>,
        code: &[(u64, u64)],
        points: Option<&[u64]>,
    ) -> Lines {
        let mut sequences = Vec::new();
        let mut sequence = Growing {
            points,
            start: None,
            last: None,
            rows: Vec::new(),
        };
        let mut program = program.rows();
        while let Ok(Some((_, row))) = program.next_row() {
            let address = row.address();
            if row.end_sequence() {
                let (start, rows) = sequence.finish(address);
                if let Some(start) = start
                    && start < address
                    && !rows.is_empty()
                    && code_end(code, start).is_some()
                {
                    sequences.push(Sequence {
                        start,
                        end: address,
                        rows,
                    });
                }
                continue;
            }
            let line = row
                .line()
                .map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
            sequence.add(Row {
                address,
                file: row.file_index(),
                line,
            });
        }
        sequences.sort_by_key(|sequence| sequence.start);
        Lines { sequences }
    }

    /// The sequences that hold `address`.
    pub(super) fn around(&self, address: u64) -> impl Iterator<Item = usize> + '_ {
        let after = self
            .sequences
            .partition_point(|sequence| sequence.start <= address);
        // Overlaps come from folded functions: few, and near.
        (after.saturating_sub(32)..after)
            .rev()
            .filter(move |&i| address < self.sequences[i].end)
    }
}

/// A sequence whose end has not come yet.
struct Growing<'p> {
    points: Option<&'p [u64]>,
    start: Option<u64>,
    /// The row whose end the next one tells.
    last: Option<Row>,
    rows: Vec<Row>,
}

impl Growing<'_> {
    fn add(&mut self, row: Row) {
        match self.last {
            Some(last) if last.address > row.address => return, // backwards: damaged
            // Of rows at one address the last one counts.
            Some(last) if last.address == row.address => {}
            Some(_) => self.settle(row.address),
            None => self.start = Some(row.address),
        }
        self.last = Some(row);
    }

    /// Keeps the last row, now that it is known to end at `end`, if anyone wants it.
    fn settle(&mut self, end: u64) {
        if let Some(row) = self.last.take() {
            let holds = |&point: &u64| row.address <= point && point < end;
            if self.points.is_none_or(|points| points.iter().any(holds)) {
                self.rows.push(row);
            }
        }
    }

    /// The sequence's start and rows; ready for the next one.
    fn finish(&mut self, end: u64) -> (Option<u64>, Vec<Row>) {
        self.settle(end);
        (self.start.take(), std::mem::take(&mut self.rows))
    }
}

impl Sequence {
    /// The rows over `start..end`, each with the part of that range it covers.
    pub(super) fn over(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, Row)> + '_ {
        let end = end.min(self.end);
        let first = self
            .rows
            .partition_point(|row| row.address <= start)
            .saturating_sub(1);
        (first..self.rows.len())
            .map(move |i| {
                let row = self.rows[i];
                let stop = self.rows.get(i + 1).map_or(self.end, |next| next.address);
                (row.address.max(start), stop.min(end), row)
            })
            .take_while(move |&(from, ..)| from < end)
            .filter(|&(from, to, _)| from < to)
    }

    /// The line at `address`.
    pub(super) fn line_at(&self, address: u64) -> Option<u32> {
        let after = self.rows.partition_point(|row| row.address <= address);
        Some(self.rows.get(after.checked_sub(1)?)?.line)
    }
}

/// Paths of a unit's files, made when first asked for.
pub(super) struct Files<'w, 'a> {
    walk: &'w Walk<'a>,
    unit: &'w Unit<R<'a>>,
    header: Option<&'w LineProgramHeader<R<'a>>>,
    known: FxHashMap<u64, u32>,
    pub paths: Vec<String>,
}

impl<'w, 'a> Files<'w, 'a> {
    /// `unit` is the one whose line program numbers the files.
    pub(super) fn new(walk: &'w Walk<'a>, unit: &'w Unit<R<'a>>) -> Files<'w, 'a> {
        let header = unit.line_program.as_ref().map(|program| program.header());
        Files {
            walk,
            unit,
            header,
            known: FxHashMap::default(),
            paths: Vec::new(),
        }
    }

    /// The index in [`Files::paths`] of the file that the line program calls `number`.
    pub(super) fn index(&mut self, number: u64) -> Option<u32> {
        if let Some(&index) = self.known.get(&number) {
            return (index != u32::MAX).then_some(index);
        }
        let index = self.path(number).map(|path| {
            // One path may stand twice in the table, as the unit's first file and as file 0.
            match self.paths.iter().position(|known| *known == path) {
                Some(at) => at as u32,
                None => {
                    self.paths.push(path);
                    self.paths.len() as u32 - 1
                }
            }
        });
        self.known.insert(number, index.unwrap_or(u32::MAX));
        index
    }

    fn path(&self, number: u64) -> Option<String> {
        let header = self.header?;
        let file = header.file(number)?;
        let name = self.walk.text(self.unit, false, file.path_name());
        let name = name.filter(|name| !super::functions::is_hidden(name))?;
        let mut path = String::new();
        if !is_absolute(&name) {
            if let Some(comp_dir) = self.unit.comp_dir {
                path = comp_dir.to_string_lossy().into_owned();
            }
            if (header.version() >= 5 || file.directory_index() != 0)
                && let Some(directory) = file.directory(header)
                && let Some(directory) = self.walk.text(self.unit, false, directory)
                // Folder 0 of DWARF 5 is the one compiled in, again: it may be a relative one.
                && (file.directory_index() != 0 || directory != path)
            {
                push(&mut path, &directory);
            }
        }
        push(&mut path, &name);
        Some(path)
    }
}

/// Joins as the compiler meant it: Unix or Windows paths, whatever system this is.
fn push(path: &mut String, part: &str) {
    if is_absolute(part) || path.is_empty() {
        part.clone_into(path);
        return;
    }
    let windows = path.as_bytes().get(1) == Some(&b':') || path.starts_with('\\');
    if !path.ends_with(['/', '\\']) {
        path.push(if windows { '\\' } else { '/' });
    }
    path.push_str(part);
}

fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    matches!(bytes.first(), Some(b'/' | b'\\'))
        || (bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.get(1) == Some(&b':')
            && matches!(bytes.get(2), Some(b'/' | b'\\')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_to_the_range_asked_for() {
        let row = |address, line| Row {
            address,
            file: 1,
            line,
        };
        let sequence = Sequence {
            start: 10,
            end: 40,
            rows: vec![row(10, 1), row(20, 2), row(30, 3)],
        };
        let over = |a, b| {
            sequence
                .over(a, b)
                .map(|(s, e, r)| (s, e, r.line))
                .collect::<Vec<_>>()
        };
        assert_eq!(over(10, 40), [(10, 20, 1), (20, 30, 2), (30, 40, 3)]);
        assert_eq!(over(15, 22), [(15, 20, 1), (20, 22, 2)]);
        assert_eq!(over(35, 99), [(35, 40, 3)]);
        assert_eq!(sequence.line_at(29), Some(2));
    }

    #[test]
    fn paths_join_as_the_compiler_meant() {
        let joined = |base: &str, part: &str| {
            let mut path = base.to_owned();
            push(&mut path, part);
            path
        };
        assert_eq!(joined("/build", "src/a.c"), "/build/src/a.c");
        assert_eq!(joined("/build", "/abs/a.c"), "/abs/a.c");
        assert_eq!(joined("C:\\build", "a.c"), "C:\\build\\a.c");
        assert_eq!(joined("", "a.c"), "a.c");
    }
}
