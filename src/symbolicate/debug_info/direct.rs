//! Answers straight from DWARF, by the addr2line crate: the first ones, those of files that share
//! debug information (dwz), and those of split DWARF.

use std::path::PathBuf;
use std::sync::Arc;

use addr2line::gimli::{self, Dwarf, UnitOffset};
use addr2line::{Context, LookupContinuation, LookupResult};
use rustc_hash::FxHashMap;

use super::checked_units::{self, CheckedUnits};
use super::dwarf::{DwarfSections, Slice, forever, text};
use super::lines;
use super::names::{self, unless_number};
use super::scopes::{Entry, ScopedNames};
use super::split::Split;
use super::units::Units;
use crate::symbolicate::files::object_file::ObjectFile;
use crate::symbolicate::frame::{SourceFrame, Unread, bounded};

/// One object's DWARF: which units claim an address, and, once one does, all of them at work.
pub(crate) struct Direct {
    pub units: Units,
    /// What is known of the units before addr2line reads them.
    guard: CheckedUnits,
    /// `None` until an address needs it; within, `None` where the headers are damaged.
    addr2line: Option<Option<Addr2Line>>,
    /// True if dwz took a part of it out, some units are in other files, or a section cannot be read: symbolic reads none
    /// of these.
    pub is_partial: bool,
    /// True if `.dwo` files may lie at any path that the units name.
    pub is_anywhere: bool,
    /// The object's own, next to which `.dwo` and `.dwp` files are looked for.
    path: PathBuf,
    own: &'static DwarfSections,
    shared: Option<&'static DwarfSections>,
    /// Code of an ELF image, until the lines of folded functions were taken out.
    folds: Option<Vec<(u64, u64)>>,
    /// Addresses at which lines of a unit begin twice, by the place of its lines, of the units that answered.
    begun_twice: FxHashMap<usize, Box<[u64]>>,
    /// Count of units with damaged lines, once one of them was read, and all were mended.
    damaged: Option<usize>,
    /// The sections that all of the above read; dropped last.
    sections: Vec<Arc<DwarfSections>>,
}

/// One object's units as addr2line has them.
pub(crate) struct Addr2Line {
    context: Context<Slice>,
    dwarf: Arc<Dwarf<Slice>>,
    guard: CheckedUnits,
    split: Split,
    names: ScopedNames<'static>,
}

/// An answer as DWARF has it.
#[derive(Debug, Default)]
pub(crate) struct DwarfAnswer {
    /// Innermost first.
    pub frames: Vec<SourceFrame>,
    /// First address of the outermost function's range that holds the address.
    pub entry: Option<u64>,
}

impl Direct {
    /// Reads the roots of the units, and nothing else yet. `guard` has the units that were checked before.
    pub(crate) fn new(
        object: &ObjectFile,
        sections: &Arc<DwarfSections>,
        sup: Option<&Arc<DwarfSections>>,
        guard: CheckedUnits,
    ) -> Direct {
        let shared = sup.map(|sup| &**sup);
        let (mut sections, mut damaged) = (sections.clone(), None);
        let mut units = Units::new(&sections.view(shared), &object.code);
        if units.has_damaged_lines
            && let Some((mended, count)) = checked_units::mended(&sections, shared)
        {
            sections = Arc::new(mended);
            damaged = Some(count);
            units = Units::new(&sections.view(shared), &object.code);
        }
        if !units.lines_of_partial.is_empty() {
            sections = Arc::new(sections.without_attributes(&units.lines_of_partial));
        }
        // SAFETY: everything that reads these bytes is a field before `sections`, which
        // holds them, and returns only copies.
        let (own, shared) = unsafe { (forever(&sections), sup.map(|sup| forever(sup))) };
        Direct {
            is_partial: object.altlink.is_some() || units.is_partial || sections.unread > 0,
            is_anywhere: false,
            units,
            guard,
            addr2line: None,
            path: object.path.clone(),
            own,
            shared,
            folds: (!object.is_mach_o()).then(|| object.code.clone()),
            begun_twice: FxHashMap::default(),
            damaged,
            sections: sup.cloned().into_iter().chain([sections]).collect(),
        }
    }

    /// Bytes of memory that it takes, roughly.
    pub(crate) fn weight(&self) -> usize {
        let read = self.addr2line.iter().flatten();
        let read: usize = read
            .map(|addr2line| addr2line.guard.weight() + addr2line.names.weight())
            .sum();
        self.units.weight() + read
    }

    /// Returns addr2line's context of the units; `None` if their headers are damaged.
    pub(crate) fn read(&mut self) -> Option<&mut Addr2Line> {
        let split = || Split::new(&self.path, self.is_anywhere);
        let read = || {
            let guard = std::mem::take(&mut self.guard);
            Addr2Line::new(split(), self.own, self.shared, guard, self.units.has_cpp)
        };
        self.addr2line.get_or_insert_with(read).as_mut()
    }

    /// Returns what is not read, as far as look-ups needed it; units of which not even addresses are known count as one.
    pub(crate) fn unread(&self) -> Unread {
        let read = self.addr2line.as_ref().map(Option::as_ref);
        let is_cut = self.units.is_cut || read.is_some_and(|read| read.is_none());
        let read = read.flatten();
        let refused = read.map_or(0, |read| read.guard.refused());
        Unread {
            damaged: self.damaged.unwrap_or(0),
            refused: refused + usize::from(is_cut) + self.own.unread,
            split: read.is_some_and(|read| read.split.is_missing),
        }
    }

    /// Returns the context in which `svma` may be looked up; `None` if no unit claims it, or one that does is not
    /// sound.
    pub(crate) fn read_for(&mut self, svma: u64) -> Option<&mut Addr2Line> {
        let units = self.units.at(svma, || self.own.view(self.shared));
        if units.is_empty() {
            return None;
        }
        let mut is_sound = self.allows(&units)?;
        if self.damaged.is_none() && self.read()?.guard.has_damaged_lines {
            let mended = checked_units::mended(self.own, self.shared);
            self.damaged = Some(mended.as_ref().map_or(0, |(_, count)| *count));
            if let Some((mended, _)) = mended {
                self.replace(mended);
                is_sound = self.allows(&units)?;
            }
        }
        is_sound.then(|| self.read())?
    }

    fn allows(&mut self, units: &[usize]) -> Option<bool> {
        let addr2line = self.read()?;
        Some(addr2line.guard.allows(&addr2line.dwarf, units))
    }

    /// From now on these sections are read.
    fn replace(&mut self, own: DwarfSections) {
        let sections = Arc::new(own);
        // SAFETY: as in `new`; `sections` keeps what was read before, too.
        self.own = unsafe { forever(&sections) };
        self.sections.push(sections);
        self.addr2line = None;
        self.begun_twice.clear();
    }

    /// Looks up a link-time address in DWARF; `None` if nothing is known of it, or a unit is not sound.
    pub(crate) fn lookup(&mut self, svma: u64) -> Option<DwarfAnswer> {
        // addr2line looks at the address after it, too.
        svma.checked_add(1)?;
        let found = self.read_for(svma)?.lookup(svma)?;
        if self.folds.is_some() && self.is_doubtful(svma, &found) == Some(true) {
            self.take_folded_lines_out();
            return self.read_for(svma)?.lookup(svma);
        }
        Some(found)
    }

    /// Returns true if lines begin twice where the function begins that was found.
    fn is_doubtful(&mut self, svma: u64, found: &DwarfAnswer) -> Option<bool> {
        let begin = found.entry?;
        let addr2line = self.addr2line.as_ref().and_then(Option::as_ref)?;
        let LookupResult::Output(unit) = addr2line.context.find_dwarf_and_unit(svma) else {
            return None;
        };
        let unit = unit?.unit;
        let lines = unit.line_program.as_ref()?.header().offset().0;
        let begun_twice = self.begun_twice.entry(lines);
        let begun_twice = begun_twice.or_insert_with(|| lines::begun_twice(unit));
        Some(begun_twice.binary_search(&begin).is_ok())
    }

    /// Once: lines of functions that the linker folded into others are not read any more.
    fn take_folded_lines_out(&mut self) {
        let code = self.folds.take().unwrap_or_default();
        let dwarf = checked_units::view_all(self.own, self.shared);
        let lines = dwarf.map_or_else(Vec::new, |dwarf| lines::folded(&dwarf, &code));
        if lines.is_empty() {
            return;
        }
        self.replace(self.own.without_lines(&lines));
    }
}

impl Addr2Line {
    fn new(
        split: Split,
        own: &'static DwarfSections,
        shared: Option<&'static DwarfSections>,
        guard: CheckedUnits,
        has_cpp: bool,
    ) -> Option<Addr2Line> {
        let dwarf = Arc::new(checked_units::view_all(own, shared)?);
        let (dwarf, context) = match Context::from_arc_dwarf(dwarf.clone()) {
            Ok(context) => (dwarf, context),
            Err(_) => {
                // It refuses a file for one damaged header in `.debug_aranges`, which it can do without.
                let mut dwarf = checked_units::view_all(own, shared)?;
                dwarf.debug_aranges = gimli::DebugAranges::default();
                let dwarf = Arc::new(dwarf);
                (dwarf.clone(), Context::from_arc_dwarf(dwarf).ok()?)
            }
        };
        Some(Addr2Line {
            context,
            names: ScopedNames::new(dwarf.clone(), has_cpp),
            dwarf,
            guard,
            split,
        })
    }

    fn lookup(&mut self, svma: u64) -> Option<DwarfAnswer> {
        let (mut found, outermost) = self.frames(svma)?;
        if let Some(entry) = outermost {
            let begin = self.range_at(entry, svma)?;
            found.entry = Some(begin);
            if let Some(name) = self.merged(begin)
                && let Some(frame) = found.frames.last_mut()
            {
                names::rename(frame, names::named(&name));
            }
        }
        (!found.frames.is_empty()).then_some(found)
    }

    /// The frames at an address, and the entry of the outermost one.
    fn frames(&mut self, svma: u64) -> Option<(DwarfAnswer, Option<UnitOffset>)> {
        let mut lookup = self.context.find_frames(svma);
        let mut frames = loop {
            match lookup {
                LookupResult::Output(Ok(frames)) => break frames,
                // Its functions are damaged: the lines are those of a symbol.
                LookupResult::Output(Err(_)) => return Some((self.line_alone(svma)?, None)),
                LookupResult::Load { load, continuation } => {
                    // Without its other half a unit has lines, but not whose they are.
                    let split = self.split.load(&load)?;
                    lookup = continuation.resume(Some(split));
                }
            }
        };
        let (mut found, mut outermost) = (DwarfAnswer::default(), None);
        let unit = match self.context.find_dwarf_and_unit(svma) {
            // An entry of a `.dwo` file is one of other sections.
            LookupResult::Output(Some(unit)) if unit.unit.dwo_id.is_none() => {
                unit.unit.header.debug_info_offset()
            }
            _ => None,
        };
        while let Ok(Some(frame)) = frames.next() {
            let function = frame.function.as_ref();
            let name = function.map(|function| text(function.name.slice()));
            let entry = unit.zip(frame.dw_die_offset);
            let entry = entry.map(|(unit, at)| Entry { unit: unit.0, at });
            let is_mangled = name.as_deref().is_some_and(names::is_mangled);
            let full = entry.filter(|_| !is_mangled);
            let full = full.and_then(|entry| self.names.of(entry));
            let name = match &full {
                Some(name) => Some(names::named(&name.full)),
                None => {
                    let name = name.as_deref().and_then(unless_number);
                    name.map(names::named)
                }
            };
            let location = frame.location.as_ref();
            let file = location.and_then(|location| location.file);
            found.frames.push(SourceFrame {
                file: file
                    .filter(is_stated)
                    .map(|file| Arc::from(&*bounded(file))),
                line: location.and_then(|location| location.line),
                ..name.unwrap_or_default()
            });
            outermost = frame.dw_die_offset;
        }
        Some((found, outermost))
    }

    /// The line at an address, and nothing else.
    fn line_alone(&self, svma: u64) -> Option<DwarfAnswer> {
        let row = self.rows(svma, svma.checked_add(1)?).into_iter().next();
        let (_, _, file, line) = row?;
        let file = file.map(|file| Arc::from(&*bounded(file)));
        Some(DwarfAnswer {
            frames: vec![SourceFrame {
                file,
                line,
                ..SourceFrame::default()
            }],
            ..DwarfAnswer::default()
        })
    }

    /// Returns the name of the functions of one unit that the linker folded into one at `begin`; `None` if it is one function.
    pub(crate) fn merged(&mut self, begin: u64) -> Option<String> {
        let entries = self.guard.folded(begin).iter().take(names::MAX_MERGED);
        let names = entries.filter_map(|&(unit, at)| self.names.distinct(Entry { unit, at }));
        let names: Vec<String> = names.collect();
        names::merged(names.iter().filter_map(|name| unless_number(name)))
    }

    /// The start of the range of a function's entry that holds `svma`.
    fn range_at(&self, entry: UnitOffset, svma: u64) -> Option<u64> {
        let LookupResult::Output(unit) = self.context.find_dwarf_and_unit(svma) else {
            return None; // what it needs was loaded before
        };
        let unit = unit?;
        let mut ranges = unit.die_ranges(&unit.entry(entry).ok()?).ok()?;
        while let Some(range) = ranges.next().ok()? {
            if range.begin <= svma && svma < range.end {
                return Some(range.begin);
            }
        }
        None
    }

    /// Rows of the line tables in `start..end`: start, end, file and line.
    pub(crate) fn rows(&self, start: u64, end: u64) -> Vec<(u64, u64, Option<&str>, Option<u32>)> {
        let rows = self.context.find_location_range(start, end);
        rows.into_iter()
            .flatten()
            .map(|(from, len, row)| {
                let file = row.file.filter(is_stated);
                let to = from.saturating_add(len).min(end);
                (from.max(start), to, file, row.line)
            })
            .filter(|(from, to, ..)| from < to)
            .collect()
    }
}

/// Returns true for the path of a file. A number that a bitcode build put in its place is one: the lines are real.
fn is_stated(file: &&str) -> bool {
    !file.is_empty()
}
