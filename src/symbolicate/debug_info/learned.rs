//! What was learned of a debug file: known still when it was closed and is opened again; its table, the reason why it has
//! none, and the time that look-ups took also to the next process that has the cache.

use super::cost::Cost;
use super::guard::Guard;
use super::symcache::FullTable;
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::cache::Cache;
use crate::symbolicate::files::object_file::ObjectFile;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// That of the addresses looked up in its DWARF so far.
    pub cost: Cost,
    /// True once the table of the whole file was begun, or cannot be made.
    pub settled: bool,
    /// The reason why it can't be made.
    pub no_table: Option<String>,
    /// The units of a file that was closed for want of room that were checked: half of the work of reading them.
    pub guard: Guard,
    /// The table of a file that was closed for want of room, and the count of its units with damaged lines. It is a
    /// file without a name.
    table: Option<(SharedBytes, usize)>,
}

impl Learned {
    /// Returns the table of a file that is opened, if it has one. Else takes over what the cache knows of it.
    pub(super) fn opened(
        &mut self,
        object: &ObjectFile,
        cache: Option<&Cache>,
    ) -> Option<FullTable> {
        if let Some((bytes, damaged)) = self.table.clone() {
            return FullTable::new(bytes, damaged, object.base);
        }
        let cache = cache.filter(|_| Cache::is_worth_it(object))?;
        let table = cache.load(object);
        if let Some(table) = table.and_then(|bytes| FullTable::new(bytes, 0, object.base)) {
            return Some(table);
        }
        if let Some(reason) = cache.load_reason(object) {
            self.settled = true;
            self.no_table = Some(reason);
        } else if self.cost.is_unknown() {
            let spent = cache.load_spent(object);
            self.cost = Cost::of_earlier_runs(spent.unwrap_or_default());
        }
        None
    }

    /// Keeps the table of a file that is closed for want of room, if it is mapped or can be written to a file.
    pub(super) fn put_aside(&mut self, table: &FullTable) {
        if self.table.is_none() {
            let aside = table.bytes().aside();
            self.table = aside.map(|bytes| (bytes, table.damaged));
        }
        match &self.table {
            Some((bytes, _)) => bytes.let_go(),
            // It is lost with the file: the next opening may make it again.
            None => self.settled = false,
        }
    }

    /// Keeps the time that look-ups took for the next process, if it is worth a file.
    pub(super) fn keep_cost(&mut self, object: &ObjectFile, cache: Option<&Cache>) {
        let cache = cache.filter(|_| Cache::is_worth_it(object) && !self.settled);
        if let Some((cache, spent)) = cache.zip(self.cost.take_unkept()) {
            cache.store_spent(object, spent);
        }
    }
}
