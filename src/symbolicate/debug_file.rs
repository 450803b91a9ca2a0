//! One debug file at work: addresses of its image to frames, at once from DWARF or from a ready table.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

use super::cache::Cache;
use super::dwarf::{DwarfFile, NONE, UnitIndex};
use super::frame::{Frame, Source};
use super::names;
use super::object_file::ObjectFile;
use super::overlay::overlay;
use super::symbols::Symbols;
use super::table::{Builder, FROM_SYMBOLS, Table, WANTS_SYMBOL};
use super::whole::{self, add_unit, agreeing};

/// An object with its tables, each made when first needed. Shared between threads.
pub(crate) struct DebugFile {
    pub object: ObjectFile,
    sup: Option<ObjectFile>,
    dwarf: OnceLock<Option<DwarfFile>>,
    symbols: OnceLock<Symbols>,
    quick: OnceLock<UnitIndex>,
    complete: OnceLock<UnitIndex>,
    units: Mutex<FxHashMap<usize, UnitUse>>,
    /// How many answers did not come from the table of the whole file.
    direct: AtomicU32,
    /// How many of them asked for symbols.
    near: AtomicU32,
    /// The table of the whole file, once somebody made or mapped it.
    whole: OnceLock<Table>,
    answers: [Mutex<FxHashMap<u32, Answer>>; SHARDS],
    making: Mutex<()>,
    work: Arc<Work>,
}

/// How debug files go about their work.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// Threads to make a table with.
    pub jobs: usize,
    pub cache: Option<Cache>,
}

/// Once so many units were read for single answers, the whole file is worth it.
const ENOUGH_UNITS: usize = 24;
/// Once so many answers were read out of DWARF and the symbol table one by one, it is, too.
const ENOUGH_ANSWERS: u32 = 256;
/// So many addresses of one unit are answered by reading it for each; then it is flattened.
const SINGLE_ANSWERS: u32 = 2;

/// What was read of a unit so far.
#[derive(Default)]
struct UnitUse {
    answers: u32,
    table: Option<Arc<Table>>,
}

/// Symbols for one answer.
enum Near<'a> {
    All(&'a Symbols),
    Some(Symbols),
}

impl std::ops::Deref for Near<'_> {
    type Target = Symbols;

    fn deref(&self) -> &Symbols {
        match self {
            Near::All(symbols) => symbols,
            Near::Some(symbols) => symbols,
        }
    }
}

/// What is known of an address.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// Innermost first; never empty.
    pub frames: Arc<[Frame]>,
    /// Stated address of the function that all of these were inlined into.
    pub entry: Option<u64>,
}

/// Answers already given are kept by chain, in so many parts with a lock each.
const SHARDS: usize = 16;
/// So many of them; a chain is some hundred bytes.
const ANSWERS_KEPT: usize = 1 << 17;
/// Longer chains are damage that runs in a circle.
const MAX_CHAIN: usize = 512;

impl DebugFile {
    pub(crate) fn new(object: ObjectFile, sup: Option<ObjectFile>, work: Arc<Work>) -> DebugFile {
        let whole = OnceLock::new();
        if let Some(cache) = work.cache.as_ref().filter(|_| Cache::is_worth_it(&object))
            && let Some(table) = cache.load(&object)
        {
            let _ = whole.set(table);
        }
        DebugFile {
            object,
            sup,
            dwarf: OnceLock::new(),
            symbols: OnceLock::new(),
            quick: OnceLock::new(),
            complete: OnceLock::new(),
            units: Mutex::default(),
            direct: AtomicU32::new(0),
            near: AtomicU32::new(0),
            whole,
            answers: Default::default(),
            making: Mutex::default(),
            work,
        }
    }

    /// The answer for a stated address; `None` where the truth is unknown.
    pub(crate) fn lookup(&self, svma: u64) -> Option<Answer> {
        self.object.code_end(svma)?;
        if self.whole.get().is_none()
            && (self.direct.fetch_add(1, Relaxed) >= ENOUGH_ANSWERS
                || self.units_read() >= ENOUGH_UNITS)
        {
            self.make_whole();
        }
        if let Some(table) = self.whole.get().filter(|table| !table.is_damaged()) {
            let answer = self.lookup_in(table, svma);
            if !table.is_damaged() {
                return answer;
            }
            if let Some(cache) = &self.work.cache {
                cache.remove(&self.object);
            }
        }
        self.lookup_directly(svma)
    }

    /// The answer of the whole file's table.
    fn lookup_in(&self, table: &Table, svma: u64) -> Option<Answer> {
        let relative = u32::try_from(svma.checked_sub(self.object.base)?).ok()?;
        let chain = table.chain_at(relative)?;
        let shard = &self.answers[chain as usize % SHARDS];
        if let Some(answer) = lock(shard).get(&chain) {
            return Some(answer.clone());
        }
        let answer = self.answer(table, chain, None)?;
        let mut shard = lock(shard);
        if shard.len() >= ANSWERS_KEPT / SHARDS {
            shard.clear();
        }
        shard.insert(chain, answer.clone());
        Some(answer)
    }

    /// Makes the table of the whole file, unless another thread is at it, and keeps it for the next
    /// process, too.
    fn make_whole(&self) {
        let Ok(_making) = self.making.try_lock() else {
            return;
        };
        if self.whole.get().is_some() {
            return;
        }
        let table = whole::build(
            self.dwarf(),
            self.symbols(),
            self.object.base,
            self.work.jobs,
        );
        if let Some(cache) = self
            .work
            .cache
            .as_ref()
            .filter(|_| Cache::is_worth_it(&self.object))
        {
            cache.store(&self.object, &table);
        }
        let _ = self.whole.set(table);
    }

    /// Whether answers came straight from DWARF or the symbol table, where a table on disk would have been quicker.
    pub(crate) fn wants_table(&self) -> bool {
        self.work.cache.is_some()
            && self.direct.load(Relaxed) > 0
            && !self.is_whole()
            && Cache::is_worth_it(&self.object)
    }

    /// Makes the table on disk, unless it is there or another process is at it.
    pub(crate) fn make_table(&self) {
        let Some(cache) = self
            .work
            .cache
            .as_ref()
            .filter(|_| Cache::is_worth_it(&self.object))
        else {
            return;
        };
        if !self.is_whole()
            && let Some(_lock) = cache.lock(&self.object)
        {
            self.make_whole();
        }
    }

    /// Reads a chain out of `table`. For a unit's own table, `svma` settles names by the symbol table.
    fn answer(&self, table: &Table, chain: u32, svma: Option<u64>) -> Option<Answer> {
        let base = self.object.base;
        let mut frames: Vec<Frame> = Vec::new();
        let mut entry = None;
        let mut at = chain;
        while at != NONE && frames.len() < MAX_CHAIN {
            let chain = table.chain(at)?;
            let mut frame = Frame::default();
            if let Some(function) = table.function(chain.function) {
                entry = function.entry.map(|entry| base + u64::from(entry));
                let wants_symbol = function.flags & WANTS_SYMBOL != 0;
                let better = entry.filter(|_| wants_symbol).and_then(|entry| {
                    let symbols = self.symbols_near(entry);
                    let symbol = agreeing(&symbols, entry, function.name)?;
                    Some(Frame::named(symbol, &names::demangle(symbol)))
                });
                if let Some(named) = better {
                    frame = named;
                } else if !function.name.is_empty() {
                    frame = match function.demangled {
                        Some(demangled) => Frame::named(function.name, demangled),
                        None => Frame::named(function.name, &names::demangle(function.name)),
                    };
                }
                if function.flags & FROM_SYMBOLS != 0 && chain.line == 0 && chain.file == NONE {
                    frame.source = Source::Symbols;
                }
            } else if chain.caller == NONE
                && let Some(svma) = svma
                && let Some(symbol) = self.symbols_near(svma).at(svma)
            {
                frame = Frame::named(symbol.name, &names::demangle(symbol.name));
                entry = Some(symbol.entry);
            }
            frame.file = table.file(chain.file).map(Into::into);
            // A line of no file says nothing.
            frame.line = Some(chain.line).filter(|&line| line != 0 && frame.file.is_some());
            frame.inlined = chain.caller != NONE;
            frames.push(frame);
            at = chain.caller;
        }
        let says_something = |frame: &Frame| frame.function.is_some() || frame.file.is_some();
        frames.iter().any(says_something).then(|| Answer {
            frames: frames.into(),
            entry,
        })
    }

    /// How many units were read for single answers so far.
    fn units_read(&self) -> usize {
        lock(&self.units).len()
    }

    fn is_whole(&self) -> bool {
        self.whole.get().is_some()
    }

    /// The object's symbols.
    fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| Symbols::read(&self.object))
    }

    /// The symbols that an answer for `svma` needs: for the first answers no more than those.
    fn symbols_near(&self, svma: u64) -> Near<'_> {
        if self.symbols.get().is_none()
            && self.near.fetch_add(1, Relaxed) < SINGLE_ANSWERS
            && let Some(symbols) = Symbols::read_near(&self.object, svma)
        {
            return Near::Some(symbols);
        }
        Near::All(self.symbols())
    }

    fn dwarf(&self) -> Option<&DwarfFile> {
        self.dwarf
            .get_or_init(|| DwarfFile::load(&self.object, self.sup.as_ref()))
            .as_ref()
    }

    fn lookup_directly(&self, svma: u64) -> Option<Answer> {
        if let Some(dwarf) = self.dwarf() {
            let quick = self
                .quick
                .get_or_init(|| dwarf.read(|walk| walk.quick_index()));
            let asked = quick.units_at(svma);
            let mut found = self.in_units(dwarf, &asked, svma);
            if found.is_none() && quick.is_partial() {
                let complete = self
                    .complete
                    .get_or_init(|| dwarf.read(|walk| walk.complete_index()));
                self.object.bytes.let_go();
                let mut units = complete.units_at(svma);
                units.retain(|unit| !asked.contains(unit));
                found = self.in_units(dwarf, &units, svma);
            }
            if let Some((table, chain)) = found {
                return self.answer(&table, chain, Some(svma));
            }
        }
        let symbols = self.symbols_near(svma);
        let symbol = symbols.at(svma)?;
        let frame = Frame {
            source: Source::Symbols,
            ..Frame::named(symbol.name, &names::demangle(symbol.name))
        };
        Some(Answer {
            frames: [frame].into(),
            entry: Some(symbol.entry),
        })
    }

    /// The first of `units` that knows the function at an address; else the first that knows a line.
    fn in_units(&self, dwarf: &DwarfFile, units: &[usize], svma: u64) -> Option<(Arc<Table>, u32)> {
        let relative = u32::try_from(svma.checked_sub(self.object.base)?).ok()?;
        let mut lines_only = None;
        for &offset in units {
            let table = self.unit(dwarf, offset, svma);
            let Some(chain) = table.chain_at(relative) else {
                continue;
            };
            if table
                .chain(chain)
                .is_some_and(|chain| chain.function != NONE || chain.caller != NONE)
            {
                return Some((table, chain));
            }
            lines_only.get_or_insert((table, chain));
        }
        lines_only
    }

    /// The table of a unit, or as much of it as one address needs.
    fn unit(&self, dwarf: &DwarfFile, offset: usize, svma: u64) -> Arc<Table> {
        let only = {
            let mut units = lock(&self.units);
            let used = units.entry(offset).or_default();
            if let Some(table) = &used.table {
                return table.clone();
            }
            used.answers += 1;
            (used.answers <= SINGLE_ANSWERS).then_some(svma)
        };
        let unit = dwarf.read(|walk| walk.flatten(offset, only));
        if only.is_some() {
            self.object.bytes.let_go();
        }
        let mut builder = Builder::default();
        let mut claims = Vec::new();
        let base = self.object.base;
        add_unit(&mut builder, &mut claims, &unit, 0, base, |_| None);
        let segments: Vec<_> = overlay(claims);
        let table = Arc::new(builder.finish(&segments, base));
        if only.is_none() {
            lock(&self.units).entry(offset).or_default().table = Some(table.clone());
        }
        table
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolicate::object_file;

    /// Every address of an image, asked of its debug information directly and of the table of the
    /// whole file.
    #[test]
    fn answers_do_not_hang_on_where_they_come_from() {
        for arch in ["arm64", "x86_64"] {
            let path = format!("testdata/macho/{arch}/kiosk.dSYM/Contents/Resources/DWARF/kiosk");
            let work = Arc::new(Work {
                jobs: 1,
                cache: None,
            });
            let object = object_file::open(path.as_ref()).unwrap().remove(0);
            let code = object.code.clone();
            let file = DebugFile::new(object, None, work);
            let table = whole::build(file.dwarf(), file.symbols(), file.object.base, 1);
            let mut known = 0;
            for address in code.iter().flat_map(|&(start, end)| start..end) {
                let direct = file.lookup_directly(address);
                let of_table = file.lookup_in(&table, address);
                let plain = |answer: &Option<Answer>| format!("{answer:?}");
                assert_eq!(plain(&direct), plain(&of_table), "{arch} {address:#x}");
                known += usize::from(direct.is_some());
            }
            assert!(known > 500, "{arch}: only {known} are known");
        }
    }
}
