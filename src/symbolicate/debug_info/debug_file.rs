//! One debug file at work: addresses of its image to frames, at once from DWARF or out of the table of
//! the whole file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use super::convert::{NoTable, convert};
use super::direct::Direct;
use super::dwarf::DwarfSections;
use super::learned::Learned;
use super::names::{self, KnownNames};
use super::symbols::{self, ObjectSymbols};
use super::symcache::FullTable;
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::cache::Cache;
use crate::symbolicate::files::object_file::ObjectFile;
use crate::symbolicate::files::packed_symbols;
use crate::symbolicate::frame::{Resolved, Source, SourceFrame, Unread};
use crate::symbolicate::lock;

/// An object with what was read of it. Shared between threads.
pub(crate) struct DebugFile {
    inner: Arc<Inner>,
}

struct Inner {
    object: ObjectFile,
    sup: Option<ObjectFile>,
    options: Arc<DebugFileOptions>,
    /// Once the whole file is known, no more is read of its DWARF.
    dwarf: Mutex<DwarfState>,
    /// What stays when the file is closed.
    learned: Arc<Mutex<Learned>>,
    symbols: OnceLock<ObjectSymbols>,
    /// The symbols that are packed in the file, once one was needed; within, `None` where they cannot be read.
    packed_symbols: OnceLock<Option<ObjectSymbols>>,
    /// The table of the whole file, once it was made or mapped.
    full_table: OnceLock<FullTable>,
    /// Set where the table that is being made is of no use any more.
    stop: AtomicBool,
    /// Set where the file is closed for want of room: it may be opened again.
    is_wanted_again: AtomicBool,
}

/// What all debug files share: options, and the thread that makes tables.
#[derive(Debug, Clone)]
pub(crate) struct DebugFileOptions {
    /// Threads to walk folders with.
    pub jobs: usize,
    pub cache: Option<Cache>,
    /// Looks at paths that neither the user nor the folder of a debug file states.
    pub search: bool,
    /// Size of the largest file, also once it is unpacked.
    pub max_size: u64,
    /// The thread that makes the table of a whole file: one at a time, as each needs much memory.
    pub making: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// The DWARF as far as it was read.
#[derive(Default)]
struct DwarfState {
    began: bool,
    sections: Option<Arc<DwarfSections>>,
    direct: Option<Direct>,
    /// Names of the frames that were found.
    names: KnownNames,
    /// Count of answers that needed symbols.
    near: u32,
}

/// Bytes of memory of a file of which nothing is read yet, and of a symbol.
const WEIGHT: usize = 16 << 10;
const SYMBOL_WEIGHT: usize = 48;
/// Answers that read no more of the symbol table than they need; after them all of it is read.
const SINGLE_ANSWERS: u32 = 2;
/// Runs that a table in the cache is expected to be of use to: each bears its part.
const RUNS: u32 = 3;
/// The thread that makes it has a stack for entries as deep as the guard lets them be.
const STACK: usize = 16 << 20;

impl DebugFile {
    pub(crate) fn new(
        object: ObjectFile,
        sup: Option<ObjectFile>,
        options: Arc<DebugFileOptions>,
        learned: Arc<Mutex<Learned>>,
    ) -> DebugFile {
        let table = lock(&learned).opened(&object, options.cache.as_ref());
        DebugFile {
            inner: Arc::new(Inner {
                object,
                sup,
                options,
                dwarf: Mutex::default(),
                learned,
                symbols: OnceLock::new(),
                packed_symbols: OnceLock::new(),
                full_table: table.map_or_else(OnceLock::new, OnceLock::from),
                stop: AtomicBool::new(false),
                is_wanted_again: AtomicBool::new(false),
            }),
        }
    }

    pub(crate) fn object(&self) -> &ObjectFile {
        &self.inner.object
    }

    /// Returns what is not read of its debug information, as far as look-ups needed it.
    pub(crate) fn unread(&self) -> Unread {
        let dwarf = lock(&self.inner.dwarf);
        let mut unread = dwarf
            .direct
            .as_ref()
            .map(Direct::unread)
            .unwrap_or_default();
        if let Some(table) = self.inner.full_table.get() {
            unread.damaged = table.damaged;
        }
        unread.refused += usize::from(matches!(self.inner.packed_symbols.get(), Some(None)));
        unread.split |= self.inner.object.altlink.is_some() && self.inner.sup.is_none();
        unread
    }

    /// Bytes of memory that it takes, roughly: more than what is mapped of files.
    pub(crate) fn weight(&self) -> usize {
        let inner = &self.inner;
        let table = inner.full_table.get().map_or(0, FullTable::weight);
        let packed = inner.packed_symbols.get().and_then(Option::as_ref);
        let symbols = inner.symbols.get().into_iter().chain(packed);
        let symbols: usize = symbols.map(|all| all.len() * SYMBOL_WEIGHT).sum();
        // One that is at work is known another time.
        let dwarf = inner.dwarf.try_lock().ok();
        let dwarf = dwarf.as_deref();
        let direct = dwarf.and_then(|dwarf| dwarf.direct.as_ref());
        let direct = direct.map_or(0, Direct::weight);
        let names = dwarf.map_or(0, |dwarf| dwarf.names.weight());
        let unpacked = dwarf
            .and_then(|dwarf| dwarf.sections.as_ref())
            .map_or(0, |_| inner.object.unpacked as usize);
        WEIGHT + table + symbols + direct + names + unpacked
    }

    /// Notes that the file is closed for want of room: its table is kept, also one that is still being made.
    pub(crate) fn will_be_wanted(&self) {
        self.inner.is_wanted_again.store(true, Ordering::Relaxed);
    }

    /// Notes that nothing is asked for a while: what is mapped need not stay in memory.
    pub(crate) fn let_go(&self) {
        self.inner.object.bytes.let_go();
        if let Some(table) = self.inner.full_table.get() {
            table.bytes().let_go();
        }
    }

    /// Returns true if its answers come from the table of the whole file, in less than a microsecond each.
    pub(crate) fn has_table(&self) -> bool {
        self.inner.full_table.get().is_some()
    }

    /// The answer for a link-time address; `None` where the truth is unknown.
    pub(crate) fn lookup(&self, svma: u64) -> Option<Resolved> {
        let inner = &self.inner;
        inner.object.code_end(svma)?;
        if let Some(table) = inner.full_table.get() {
            return table.lookup(svma);
        }
        let (answer, is_worth_it) = inner.lookup_directly(svma);
        if is_worth_it {
            self.begin_table();
        }
        answer
    }

    /// Begins to make the table of the whole file; a later look-up asks again where another file's is being made.
    fn begin_table(&self) {
        let Ok(mut making) = self.inner.options.making.try_lock() else {
            return;
        };
        if making.as_ref().is_none_or(JoinHandle::is_finished) {
            self.begin_after(&mut making);
        }
    }

    /// Makes the table of the whole file now if so many times the look-ups so far pay for it. For one who is about to look up
    /// many addresses.
    pub(crate) fn make_table(&self, times: u32) {
        if self.inner.wants_table(times) {
            let mut making = lock(&self.inner.options.making);
            self.begin_after(&mut making);
            let _ = making.take().map(JoinHandle::join);
        }
    }

    /// Begins to make the table once the one before is made: the thread takes over its memory.
    fn begin_after(&self, making: &mut Option<JoinHandle<()>>) {
        let _ = making.take().map(JoinHandle::join);
        if std::mem::replace(&mut lock(&self.inner.learned).settled, true) {
            return;
        }
        let inner = self.inner.clone();
        let thread = std::thread::Builder::new()
            .name("debug file".into())
            .stack_size(STACK)
            .spawn(move || inner.build_table());
        *making = thread.ok();
    }
}

impl Drop for DebugFile {
    /// A table that was begun is made, for the next process, or for the next opening of a file that is closed for want of
    /// room; else it is of no use without a cache.
    fn drop(&mut self) {
        let stop = self.inner.options.cache.is_none();
        if stop && self.inner.is_wanted_again.load(Ordering::Relaxed) {
            return;
        }
        self.inner.stop.store(stop, Ordering::Relaxed);
        // The thread holds the file that it works on: while it does, no other one takes its place.
        let works_on_this = |_: &mut JoinHandle<()>| Arc::strong_count(&self.inner) > 1;
        let making = lock(&self.inner.options.making).take_if(works_on_this);
        let _ = making.map(JoinHandle::join);
    }
}

impl Drop for Inner {
    /// Keeps what is known of a file that may be opened again, by this process or by the next.
    fn drop(&mut self) {
        let mut learned = lock(&self.learned);
        learned.keep_cost(&self.object, self.options.cache.as_ref());
        if !self.is_wanted_again.load(Ordering::Relaxed) {
            return;
        }
        let dwarf = self.dwarf.get_mut();
        let direct = dwarf.unwrap_or_else(PoisonError::into_inner).direct.take();
        learned.guard = direct.and_then(Direct::into_guard).unwrap_or_default();
        if let Some(table) = self.full_table.get() {
            learned.put_aside(table);
        }
    }
}

impl Inner {
    /// Makes the table of the whole file, and keeps it for the next process, too, or the reason why it can't be made.
    fn build_table(&self) {
        let Some(sections) = self.begun().sections.clone() else {
            return;
        };
        match convert(&self.object, &sections, self.symbols(), &self.stop) {
            Ok((table, damaged)) => {
                let _ = self.use_table(table, damaged);
            }
            Err(reason) if reason.is_final() => {
                let reason = reason.to_string();
                let cache = self.options.cache.as_ref();
                if let Some(cache) = cache
                    && Cache::is_worth_it(&self.object)
                {
                    cache.store_reason(&self.object, &reason);
                }
                lock(&self.learned).no_table = Some(reason);
            }
            // A later look-up may begin it again.
            Err(_) => lock(&self.learned).settled = false,
        }
    }

    fn use_table(&self, table: Vec<u8>, damaged: usize) -> Option<()> {
        // A damaged file may be mended, with the same id and size.
        let worth_it = |_: &&Cache| damaged == 0 && Cache::is_worth_it(&self.object);
        if let Some(cache) = self.options.cache.as_ref().filter(worth_it) {
            cache.store(&self.object, &table);
        }
        let bytes = SharedBytes::from(table);
        // A process has no room for all tables.
        let bytes = bytes.aside().unwrap_or(bytes);
        let table = FullTable::new(bytes, damaged, self.object.base)?;
        self.full_table.set(table).ok()?;
        let mut dwarf = lock(&self.dwarf);
        dwarf.direct = None;
        dwarf.names = KnownNames::default();
        dwarf.sections = None;
        Some(())
    }

    /// The object's symbols.
    fn symbols(&self) -> &ObjectSymbols {
        self.symbols.get_or_init(|| symbols::read(&self.object))
    }

    /// Runs `work` on the symbols that an answer for `svma` needs: for the first answers no more than those.
    fn with_symbols<T>(
        &self,
        dwarf: &mut DwarfState,
        svma: u64,
        work: impl FnOnce(&ObjectSymbols, &mut KnownNames) -> T,
    ) -> T {
        dwarf.near += 1;
        if self.symbols.get().is_none()
            && dwarf.near <= SINGLE_ANSWERS
            && let Some(symbols) = symbols::read_near(&self.object, svma)
        {
            return work(&symbols, &mut dwarf.names);
        }
        work(self.symbols(), &mut dwarf.names)
    }

    /// The DWARF, once it is begun to be read.
    fn begun(&self) -> MutexGuard<'_, DwarfState> {
        let mut dwarf = lock(&self.dwarf);
        if self.full_table.get().is_some() || std::mem::replace(&mut dwarf.began, true) {
            return dwarf;
        }
        dwarf.sections = DwarfSections::load(&self.object).map(Arc::new);
        let sup = self.sup.as_ref().and_then(DwarfSections::load);
        let sup = sup.map(Arc::new);
        if let Some(own) = &dwarf.sections {
            let mut learned = lock(&self.learned);
            let (info, lines) = (own.info_len(), own.lines_len());
            learned.cost.table_is_made_of(info, lines);
            let guard = std::mem::take(&mut learned.guard);
            let mut direct = Direct::new(&self.object, own, sup.as_ref(), guard);
            direct.is_anywhere = self.options.search;
            dwarf.direct = Some(direct);
        }
        self.object.bytes.let_go();
        dwarf
    }

    /// The answer straight from DWARF and symbols, and whether the table of the whole file is worth it now.
    fn lookup_directly(&self, svma: u64) -> (Option<Resolved>, bool) {
        let begun = lock(&self.learned).cost.begin();
        let mut dwarf = self.begun();
        if let Some(table) = self.full_table.get() {
            return (table.lookup(svma), false); // made while this thread waited
        }
        let answer = self.answer(&mut dwarf, svma);
        drop(dwarf);
        lock(&self.learned).cost.end(begun);
        (answer, self.wants_table(1))
    }

    /// Returns true if so many times the look-ups so far pay for a table, and none was begun. Notes the reason where none
    /// can be made.
    fn wants_table(&self, times: u32) -> bool {
        let times = times * self.options.cache.as_ref().map_or(1, |_| RUNS);
        let pays = |learned: &Learned| !learned.settled && learned.cost.pays_for_table(times);
        if !pays(&lock(&self.learned)) {
            return false;
        }
        let is_partial = (self.begun().direct.as_ref()).map(|direct| direct.is_partial);
        if is_partial != Some(true) {
            return is_partial.is_some();
        }
        let mut learned = lock(&self.learned);
        learned.settled = true;
        learned.no_table = Some(NoTable::OtherFiles.to_string());
        false
    }

    fn answer(&self, dwarf: &mut DwarfState, svma: u64) -> Option<Resolved> {
        let direct = dwarf.direct.as_mut();
        let found = direct.and_then(|direct| direct.lookup(svma, &mut dwarf.names));
        // Code that the linker threw away lies at 0, or at the top.
        let is_code = |entry: u64| self.object.code_end(entry).is_some();
        let Some(mut found) = found.filter(|found| found.entry.is_none_or(is_code)) else {
            return self.answer_by_symbol(dwarf, svma);
        };
        let mut entry = found.entry;
        let outermost = found.frames.last_mut()?;
        let better = match entry {
            Some(entry) if names::is_half(outermost.mangled.as_deref(), found.mangles) => {
                let known = outermost.mangled.as_deref();
                self.with_symbols(dwarf, entry, |symbols, names| {
                    let name = names::in_full(symbols, entry, known)?;
                    Some(names.named(name))
                })
            }
            Some(_) => None,
            None => self.with_symbols(dwarf, svma, |symbols, names| {
                let symbol = symbols.at(svma)?;
                entry = Some(symbol.entry);
                Some(names.named(symbol.name))
            }),
        };
        if let Some(better) = better {
            let (file, line) = (outermost.file.take(), outermost.line);
            *outermost = SourceFrame {
                file,
                line,
                ..better
            };
        }
        Resolved::of(found.frames.into(), entry)
    }

    fn answer_by_symbol(&self, dwarf: &mut DwarfState, svma: u64) -> Option<Resolved> {
        let name = |symbols: &ObjectSymbols, names: &mut KnownNames| {
            let symbol = symbols.at(svma)?;
            let frame = SourceFrame {
                source: Source::Symbols,
                ..names.named(symbol.name)
            };
            Resolved::of([frame].into(), Some(symbol.entry))
        };
        let own = self.with_symbols(dwarf, svma, name);
        own.or_else(|| name(self.packed_symbols()?, &mut dwarf.names))
    }

    /// The symbols that are packed in the file. No table of a whole file has them: they are for files without debug
    /// information.
    fn packed_symbols(&self) -> Option<&ObjectSymbols> {
        if !self.object.has_packed_symbols || self.object.has_dwarf {
            return None;
        }
        let read = || {
            let unpacked = packed_symbols::unpacked(&self.object, self.options.max_size);
            unpacked.map(|unpacked| symbols::read(&unpacked))
        };
        self.packed_symbols.get_or_init(read).as_ref()
    }
}

#[cfg(test)]
mod tests;
