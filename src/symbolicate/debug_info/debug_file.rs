//! One debug file at work: addresses of its image to frames, at once from DWARF or out of the table of
//! the whole file.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::convert::{self, NoTable, convert};
use super::direct::Direct;
use super::dwarf::DwarfSections;
use super::names;
use super::symbols::{self, ObjectSymbols};
use super::symcache::FullTable;
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::cache::Cache;
use crate::symbolicate::files::object_file::ObjectFile;
use crate::symbolicate::frame::{Resolved, Source, SourceFrame, Unread};
use crate::symbolicate::lock;

/// An object with what was read of it. Shared between threads.
pub(crate) struct DebugFile {
    object: ObjectFile,
    sup: Option<ObjectFile>,
    options: Arc<DebugFileOptions>,
    /// Once the whole file is known, no more is read of its DWARF.
    dwarf: Mutex<DwarfState>,
    /// What stays when the file is closed.
    history: Arc<Mutex<FileHistory>>,
    symbols: OnceLock<ObjectSymbols>,
    /// The symbols that are packed in the file, once one was needed; within, `None` where they cannot be read.
    packed_symbols: OnceLock<Option<ObjectSymbols>>,
    /// The table of the whole file, once it was made or mapped.
    full_table: OnceLock<FullTable>,
}

/// History of one debug file in this process: it outlives the file, which may be closed and opened again.
#[derive(Debug, Default)]
pub(crate) struct FileHistory {
    /// Work in its DWARF so far, in bytes of a table that could have been made instead.
    work: usize,
    /// The table of the whole file, once it was made, or the reason why it can't be.
    pub table: Option<Result<KeptTable, NoTable>>,
}

impl FileHistory {
    /// Returns true if the work so far, and that of looking `more` addresses up, is worth so many bytes of a table.
    fn pays_for_table(&self, bytes: usize, more: usize) -> bool {
        let work = self.work.saturating_add(more.saturating_mul(LOOKUP_BYTES));
        self.table.is_none() && work >= bytes.max(MIN_LOOKUPS * LOOKUP_BYTES)
    }
}

/// The bytes of a table, and the count of units with damaged lines.
type KeptTable = (SharedBytes, usize);

/// What all debug files share.
#[derive(Debug, Clone)]
pub(crate) struct DebugFileOptions {
    /// Threads to walk folders with.
    pub jobs: usize,
    pub cache: Option<Cache>,
    /// Looks at paths that neither the user nor the folder of a debug file states.
    pub search: bool,
    /// Size of the largest file, also once it is unpacked.
    pub max_size: u64,
    /// Held while the table of a whole file is made: one at a time, as each needs much memory.
    pub making: Arc<Mutex<()>>,
}

/// The DWARF as far as it was read.
#[derive(Default)]
struct DwarfState {
    began: bool,
    sections: Option<Arc<DwarfSections>>,
    direct: Option<Direct>,
    /// Count of answers that needed symbols.
    near: u32,
}

/// Bytes of memory of a file of which nothing is read yet, and of a symbol.
const FILE_WEIGHT: usize = 16 << 10;
const SYMBOL_WEIGHT: usize = 48;
/// Answers that read no more of the symbol table than they need; after them all of it is read.
const MAX_SINGLE_ANSWERS: u32 = 2;
/// Bytes of `.debug_info` and `.debug_line` of which a table is made while an address is looked up without one. The table of
/// the whole file is made once that takes no longer than the work so far did.
const LOOKUP_BYTES: usize = 16;
/// Bytes of memory of what is read of a file while a byte of a table is made.
const READ_WEIGHT: usize = 24;
/// Runs for which a table is made that the cache keeps.
const KEPT_FOR_RUNS: usize = 16;
/// Fewer addresses than this never have a table made.
const MIN_LOOKUPS: usize = 16;
/// The thread that makes it has a stack for entries as deep as the guard lets them be.
const CONVERT_STACK: usize = 16 << 20;

impl DebugFile {
    pub(crate) fn new(
        object: ObjectFile,
        sup: Option<ObjectFile>,
        options: Arc<DebugFileOptions>,
        history: Arc<Mutex<FileHistory>>,
    ) -> DebugFile {
        let cache = options.cache.as_ref();
        let cache = cache.filter(|_| Cache::is_worth_it(&object));
        let kept = lock(&history).table.clone().and_then(Result::ok);
        let kept = kept.or_else(|| Some((cache?.load(&object)?, 0)));
        let table = kept.and_then(|(bytes, damaged)| FullTable::new(bytes, damaged, object.base));
        DebugFile {
            object,
            sup,
            options,
            dwarf: Mutex::default(),
            history,
            symbols: OnceLock::new(),
            packed_symbols: OnceLock::new(),
            full_table: table.map_or_else(OnceLock::new, OnceLock::from),
        }
    }

    pub(crate) fn object(&self) -> &ObjectFile {
        &self.object
    }

    /// Returns what is not read of its debug information, as far as look-ups needed it.
    pub(crate) fn unread(&self) -> Unread {
        let dwarf = lock(&self.dwarf);
        let mut unread = dwarf
            .direct
            .as_ref()
            .map(Direct::unread)
            .unwrap_or_default();
        if let Some(table) = self.full_table.get() {
            unread.damaged = table.damaged;
        }
        unread.refused += usize::from(matches!(self.packed_symbols.get(), Some(None)));
        unread.split |= self.object.altlink.is_some() && self.sup.is_none();
        unread
    }

    /// Bytes of memory that it takes, roughly: more than what is mapped of files.
    pub(crate) fn weight(&self) -> usize {
        let table = self.full_table.get().map_or(0, FullTable::weight);
        let packed = self.packed_symbols.get().and_then(Option::as_ref);
        let symbols = self.symbols.get().into_iter().chain(packed);
        let symbols: usize = symbols.map(|all| all.len() * SYMBOL_WEIGHT).sum();
        // One that is at work is known another time.
        let dwarf = self.dwarf.try_lock().ok();
        let dwarf = dwarf.as_deref();
        let direct = dwarf.and_then(|dwarf| dwarf.direct.as_ref());
        let direct = direct.map_or(0, Direct::weight);
        let unpacked = dwarf
            .and_then(|dwarf| dwarf.sections.as_ref())
            .map_or(0, |_| self.object.unpacked as usize);
        FILE_WEIGHT + table + symbols + direct + unpacked
    }

    /// Notes that nothing is asked for a while: what is mapped need not stay in memory.
    pub(crate) fn drop_resident_pages(&self) {
        self.object.bytes.drop_resident_pages();
        if let Some(table) = self.full_table.get() {
            table.bytes().drop_resident_pages();
        }
    }

    /// Returns true if its answers come from the table of the whole file, in less than a microsecond each.
    pub(crate) fn has_table(&self) -> bool {
        self.full_table.get().is_some()
    }

    /// The answer for a link-time address; `None` where the truth is unknown.
    pub(crate) fn lookup(&self, svma: u64) -> Option<Resolved> {
        self.object.code_end(svma)?;
        if let Some(table) = self.full_table.get() {
            return table.lookup(svma);
        }
        self.make_table_for(0);
        self.lookup_directly(svma)
    }

    /// Makes the table of the whole file if the addresses that were looked up so far, and `more` of them to come, pay for it.
    pub(crate) fn make_table_for(&self, more: usize) {
        let pays = |bytes| lock(&self.history).pays_for_table(bytes, more);
        if self.full_table.get().is_some() || !pays(0) {
            return;
        }
        let Some(sections) = self.begun().sections.clone() else {
            return;
        };
        let bytes = sections.info_len() + sections.lines_len();
        if !pays(bytes / self.cache().map_or(1, |_| KEPT_FOR_RUNS)) {
            return;
        }
        let _one_at_a_time = lock(&self.options.making);
        if !pays(0) {
            return;
        }
        // Until it is made, no other thread waits for it.
        lock(&self.history).table = Some(Err(convert::UNREADABLE));
        let made = on_a_large_stack(|| convert(&self.object, &sections, self.symbols()));
        let kept = made.map(|(table, damaged)| (self.kept(table, damaged), damaged));
        lock(&self.history).table = Some(kept.clone());
        let _ = kept.map(|kept| self.use_table(kept));
    }

    /// The folder of tables, where one of this file is worth it.
    fn cache(&self) -> Option<&Cache> {
        let cache = self.options.cache.as_ref();
        cache.filter(|_| Cache::is_worth_it(&self.object))
    }

    /// The bytes of a table that was made, as they are kept.
    fn kept(&self, table: Vec<u8>, damaged: usize) -> SharedBytes {
        // A damaged file may be mended, with the same id and size.
        let cache = self.cache().filter(|_| damaged == 0);
        // A mapped table takes no room.
        let kept = cache.and_then(|cache| {
            cache.store(&self.object, &table);
            cache.load(&self.object)
        });
        let kept = kept.or_else(|| SharedBytes::unnamed(&table));
        kept.unwrap_or_else(|| SharedBytes::from(table))
    }

    fn use_table(&self, (table, damaged): KeptTable) -> Option<()> {
        let table = FullTable::new(table, damaged, self.object.base)?;
        self.full_table.set(table).ok()?;
        let mut dwarf = lock(&self.dwarf);
        dwarf.direct = None;
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
        work: impl FnOnce(&ObjectSymbols) -> T,
    ) -> T {
        dwarf.near += 1;
        if self.symbols.get().is_none()
            && dwarf.near <= MAX_SINGLE_ANSWERS
            && let Some(symbols) = symbols::read_near(&self.object, svma)
        {
            return work(&symbols);
        }
        work(self.symbols())
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
            let mut direct = Direct::new(&self.object, own, sup.as_ref(), Default::default());
            direct.is_anywhere = self.options.search;
            dwarf.direct = Some(direct);
        }
        self.object.bytes.drop_resident_pages();
        dwarf
    }

    /// The answer straight from DWARF and symbols.
    fn lookup_directly(&self, svma: u64) -> Option<Resolved> {
        let mut dwarf = self.begun();
        if let Some(table) = self.full_table.get() {
            return table.lookup(svma); // made while this thread waited
        }
        lock(&self.history).work += LOOKUP_BYTES;
        self.answer(&mut dwarf, svma)
    }

    fn answer(&self, dwarf: &mut DwarfState, svma: u64) -> Option<Resolved> {
        let direct = dwarf.direct.as_mut();
        let found = direct.and_then(|direct| direct.lookup(svma));
        // Code that the linker threw away lies at 0, or at the top.
        let is_code = |entry: u64| self.object.code_end(entry).is_some();
        let Some(mut found) = found.filter(|found| found.entry.is_none_or(is_code)) else {
            return self.answer_by_symbol(dwarf, svma);
        };
        let mut entry = found.entry;
        let outermost = found.frames.last_mut()?;
        self.with_symbols(dwarf, entry.unwrap_or(svma), |symbols| {
            let name = match entry {
                Some(entry) => names::in_full(symbols, entry, outermost.mangled.as_deref())?,
                None => {
                    let symbol = symbols.at(svma)?;
                    entry = Some(symbol.entry);
                    names::of_symbol(symbols, &symbol)
                }
            };
            names::rename(outermost, names::named(&name));
            Some(())
        });
        names::resolved(found.frames.into(), entry)
    }

    fn answer_by_symbol(&self, dwarf: &mut DwarfState, svma: u64) -> Option<Resolved> {
        let name = |symbols: &ObjectSymbols| {
            let symbol = symbols.at(svma)?;
            let frame = SourceFrame {
                source: Source::Symbols,
                ..names::named(&names::of_symbol(symbols, &symbol))
            };
            Resolved::of([frame].into(), Some(symbol.entry))
        };
        let own = self.with_symbols(dwarf, svma, name);
        own.or_else(|| name(self.packed_symbols()?))
    }

    /// The symbols that are packed in the file. No table of a whole file has them: they are for files without debug
    /// information.
    fn packed_symbols(&self) -> Option<&ObjectSymbols> {
        if !self.object.has_packed_symbols || self.object.has_dwarf {
            return None;
        }
        let read = || {
            let unpacked = self.object.packed_symbols(self.options.max_size);
            unpacked.map(|unpacked| symbols::read(&unpacked))
        };
        self.packed_symbols.get_or_init(read).as_ref()
    }
}

impl Drop for DebugFile {
    /// Notes the work of reading what is read again if the file is opened again.
    fn drop(&mut self) {
        let dwarf = lock(&self.dwarf);
        let read = dwarf.direct.as_ref().map_or(0, Direct::weight);
        lock(&self.history).work += read / READ_WEIGHT;
    }
}

/// Runs `work` on a stack for entries as deep as the guard lets them be.
fn on_a_large_stack<T: Send>(
    work: impl FnOnce() -> Result<T, NoTable> + Send,
) -> Result<T, NoTable> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(CONVERT_STACK);
        let thread = thread.spawn_scoped(scope, work);
        let made = thread.map_err(|_| convert::UNREADABLE)?.join();
        made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests;
