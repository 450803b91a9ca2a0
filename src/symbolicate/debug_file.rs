//! One debug file at work: addresses of its image to frames, at once from DWARF or from a ready table.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

use super::cache::Cache;
use super::dwarf::{Chain, DwarfFile, NONE, UnitIndex, UnitTable};
use super::frame::{Frame, Source};
use super::names;
use super::object_file::ObjectFile;
use super::overlay::{Claim, overlay};
use super::symbols::Symbols;
use super::table::{Builder, FROM_SYMBOLS, Table, WANTS_SYMBOL};

/// An object with its tables, each made when first needed. Shared between threads.
pub(crate) struct DebugFile {
    pub object: ObjectFile,
    sup: Option<ObjectFile>,
    dwarf: OnceLock<Option<DwarfFile>>,
    symbols: OnceLock<Symbols>,
    quick: OnceLock<UnitIndex>,
    complete: OnceLock<UnitIndex>,
    units: Mutex<FxHashMap<usize, Arc<Table>>>,
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

/// Once so many units were flattened for single answers, the whole file is worth it.
const ENOUGH_UNITS: usize = 24;

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
            whole,
            answers: Default::default(),
            making: Mutex::default(),
            work,
        }
    }

    /// The answer for a stated address; `None` where the truth is unknown.
    pub(crate) fn lookup(&self, svma: u64) -> Option<Answer> {
        self.object.code_end(svma)?;
        if self.whole.get().is_none() && self.flattened() >= ENOUGH_UNITS {
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
        let table = self.build(self.work.jobs);
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

    /// Whether answers came straight from DWARF, where a table on disk would have been quicker.
    pub(crate) fn wants_table(&self) -> bool {
        self.work.cache.is_some()
            && self.flattened() > 0
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
                let better = entry
                    .filter(|_| wants_symbol)
                    .and_then(|e| agreeing(self.symbols(), e, function.name));
                if let Some(symbol) = better {
                    frame = Frame::named(symbol, &names::demangle(symbol));
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
                && let Some(symbol) = svma.and_then(|svma| self.symbols().at(svma))
            {
                frame = Frame::named(symbol.name, &names::demangle(symbol.name));
                entry = Some(symbol.entry);
            }
            frame.file = table.file(chain.file).map(Into::into);
            frame.line = Some(chain.line).filter(|&line| line != 0);
            frame.inlined = chain.caller != NONE;
            frames.push(frame);
            at = chain.caller;
        }
        (!frames.is_empty()).then(|| Answer {
            frames: frames.into(),
            entry,
        })
    }

    /// How many units were flattened for single answers so far.
    pub(crate) fn flattened(&self) -> usize {
        lock(&self.units).len()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.whole.get().is_some()
    }

    /// The object's symbols.
    pub(crate) fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| Symbols::read(&self.object))
    }

    fn dwarf(&self) -> Option<&DwarfFile> {
        self.dwarf
            .get_or_init(|| DwarfFile::load(&self.object, self.sup.as_ref()))
            .as_ref()
    }

    fn lookup_directly(&self, svma: u64) -> Option<Answer> {
        let relative = u32::try_from(svma.checked_sub(self.object.base)?).ok()?;
        if let Some(dwarf) = self.dwarf() {
            let quick = self
                .quick
                .get_or_init(|| dwarf.read(|walk| walk.quick_index()));
            let mut found = self.in_units(dwarf, &quick.units_at(svma), relative);
            if found.is_none() && quick.is_partial() {
                let complete = self
                    .complete
                    .get_or_init(|| dwarf.read(|walk| walk.complete_index()));
                found = self.in_units(dwarf, &complete.units_at(svma), relative);
            }
            if let Some((table, chain)) = found {
                return self.answer(&table, chain, Some(svma));
            }
        }
        let symbol = self.symbols().at(svma)?;
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
    fn in_units(
        &self,
        dwarf: &DwarfFile,
        units: &[usize],
        relative: u32,
    ) -> Option<(Arc<Table>, u32)> {
        let mut lines_only = None;
        for &offset in units {
            let table = self.unit(dwarf, offset);
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

    fn unit(&self, dwarf: &DwarfFile, offset: usize) -> Arc<Table> {
        if let Some(table) = lock(&self.units).get(&offset) {
            return table.clone();
        }
        let unit = dwarf.read(|walk| walk.flatten(offset));
        let mut builder = Builder::default();
        let mut claims = Vec::new();
        add_unit(
            &mut builder,
            &mut claims,
            &unit,
            0,
            self.object.base,
            |_| None,
        );
        let segments: Vec<_> = overlay(claims);
        let table = Arc::new(builder.finish(&segments, self.object.base));
        lock(&self.units).insert(offset, table.clone());
        table
    }

    /// Makes the table of the whole file, with `jobs` threads.
    pub(crate) fn build(&self, jobs: usize) -> Table {
        let base = self.object.base;
        let symbols = self.symbols();
        let mut builder = Builder::default();
        let mut claims = Vec::new();
        if let Some(dwarf) = self.dwarf() {
            let units = dwarf.read(|walk| walk.unit_offsets());
            for (index, unit) in flatten_all(dwarf, &units, jobs).into_iter().enumerate() {
                let settle = |function: &super::dwarf::Function| {
                    function
                        .wants_symbol
                        .then(|| agreeing(symbols, function.entry, &function.name))
                        .flatten()
                };
                // Among units that claim one address the first wins, if it knows the function.
                add_unit(
                    &mut builder,
                    &mut claims,
                    &unit,
                    (units.len() - index) as u64,
                    base,
                    settle,
                );
            }
        }
        self.add_symbols(&mut builder, &mut claims);
        let segments = overlay(claims);
        builder.finish(&segments, base)
    }

    /// Fills with the symbol table what DWARF says nothing about.
    fn add_symbols(&self, builder: &mut Builder, claims: &mut Vec<Claim<u32>>) {
        let known = overlay(claims.clone());
        let mut at = 0;
        for symbol in self.symbols().all() {
            let relative = symbol
                .entry
                .checked_sub(self.object.base)
                .and_then(|e| u32::try_from(e).ok());
            let mut function = None;
            while at > 0 && known[at - 1].end > symbol.start {
                at -= 1;
            }
            while known
                .get(at)
                .is_some_and(|segment| segment.end <= symbol.start)
            {
                at += 1;
            }
            let mut add = |builder: &mut Builder, start, end, file, line| {
                let function = *function.get_or_insert_with(|| {
                    let demangled = names::demangle(symbol.name);
                    builder.function(symbol.name, Some(&demangled), relative, FROM_SYMBOLS)
                });
                let chain = builder.chain(Chain {
                    function,
                    file,
                    line,
                    caller: NONE,
                });
                claims.push(Claim {
                    start,
                    end,
                    rank: u64::MAX,
                    value: chain,
                });
            };
            let mut from = symbol.start;
            while from < symbol.end {
                match known.get(at) {
                    Some(segment) if segment.start < symbol.end => {
                        if from < segment.start {
                            add(builder, from, segment.start, NONE, 0);
                        }
                        let end = segment.end.min(symbol.end);
                        if let Some(chain) = builder.chain_at(segment.value)
                            && chain.function == NONE
                            && chain.caller == NONE
                        {
                            add(
                                builder,
                                segment.start.max(from),
                                end,
                                chain.file,
                                chain.line,
                            );
                        }
                        from = end;
                        if segment.end <= symbol.end {
                            at += 1;
                        }
                    }
                    _ => {
                        add(builder, from, symbol.end, NONE, 0);
                        from = symbol.end;
                    }
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Flattens all units, on `jobs` threads that take the next one each; in the order of `units`.
fn flatten_all(dwarf: &DwarfFile, units: &[usize], jobs: usize) -> Vec<UnitTable> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        dwarf.read(|walk| {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(&offset) = units.get(index) else {
                    return done;
                };
                done.push((index, walk.flatten(offset)));
            }
        })
    };
    let mut done: Vec<(usize, UnitTable)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..jobs.clamp(1, 64)).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, unit)| unit).collect()
}

/// Puts a unit's answers among those of the others. `settle` gives a function a better name.
fn add_unit<'s>(
    builder: &mut Builder,
    claims: &mut Vec<Claim<u32>>,
    unit: &UnitTable,
    rank: u64,
    base: u64,
    settle: impl Fn(&super::dwarf::Function) -> Option<&'s str>,
) {
    let whole = rank != 0;
    let mut functions: Vec<Option<u32>> = vec![None; unit.functions.len()];
    let mut files: Vec<Option<u32>> = vec![None; unit.files.len()];
    let mut chains: Vec<u32> = Vec::with_capacity(unit.chains.len());
    for chain in &unit.chains {
        let function = match unit.functions.get(chain.function as usize) {
            None => NONE,
            Some(function) => *functions[chain.function as usize].get_or_insert_with(|| {
                let entry = function
                    .entry
                    .checked_sub(base)
                    .filter(|_| function.entry != 0);
                let entry = entry.and_then(|entry| u32::try_from(entry).ok());
                let better = settle(function);
                let name = better.unwrap_or(&function.name);
                let flags = match (better, function.wants_symbol) {
                    (Some(_), _) => FROM_SYMBOLS,
                    (None, true) if !whole => WANTS_SYMBOL,
                    _ => 0,
                };
                let demangled = whole.then(|| names::demangle(name));
                builder.function(name, demangled.as_deref(), entry, flags)
            }),
        };
        let file = match unit.files.get(chain.file as usize) {
            None => NONE,
            Some(path) => *files[chain.file as usize].get_or_insert_with(|| builder.file(path)),
        };
        // A caller's chain always stands before those inlined into it.
        let caller = chains.get(chain.caller as usize).copied().unwrap_or(NONE);
        chains.push(builder.chain(Chain {
            function,
            file,
            line: chain.line,
            caller,
        }));
    }
    claims.extend(unit.segments.iter().map(|segment| {
        let chain = unit.chains[segment.value as usize];
        let known = chain.function != NONE || chain.caller != NONE;
        let rank = rank + if known { 1 << 40 } else { 0 };
        Claim {
            start: segment.start,
            end: segment.end,
            rank,
            value: chains[segment.value as usize],
        }
    }));
}

/// The symbol at a function's entry that agrees with its plain name; any, if it has none.
fn agreeing<'s>(symbols: &'s Symbols, entry: u64, plain: &str) -> Option<&'s str> {
    let mut at_entry = symbols.names_at(entry);
    at_entry.find(|symbol| plain.is_empty() || names::agree(symbol, plain))
}

/// What `--inspect` says of an object's DWARF.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub units: usize,
    /// DWARF versions, each once.
    pub versions: std::collections::BTreeSet<u16>,
    /// `DW_AT_producer`, each once.
    pub producers: std::collections::BTreeSet<String>,
}

/// Reads the root of every unit; `None` if there is no DWARF.
pub(crate) fn survey(object: &ObjectFile) -> Option<Survey> {
    DwarfFile::load(object, None).map(|dwarf| dwarf.read(|walk| walk.survey()))
}
