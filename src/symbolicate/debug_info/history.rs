//! History of one debug file in this process: it outlives the file, which may be closed and opened again.

use super::checked_units::CheckedUnits;
use super::symcache::FullTable;
use crate::symbolicate::files::cache::Cache;
use crate::symbolicate::files::object_file::ObjectFile;

/// Bytes of `.debug_info` and `.debug_line` for each address, on average, that is looked up before the table of the whole
/// file is made: the table then takes about as long as the look-ups did.
const BYTES_PER_ADDRESS: usize = 256;
/// Fewer addresses than this never have a table made.
const FEW_ADDRESSES: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FileHistory {
    /// Addresses that were looked up in its DWARF so far.
    pub asked: usize,
    /// True once the table of the whole file was made, or cannot be made.
    pub is_settled: bool,
    /// The reason why it can't be made.
    pub no_table: Option<String>,
    /// The units of a file that was closed for want of room that were checked: half of the work of reading them.
    pub guard: CheckedUnits,
}

impl FileHistory {
    /// Returns the table that the cache has of a file that is opened. Else notes why it can't be made, if the cache knows.
    pub(super) fn opened(
        &mut self,
        object: &ObjectFile,
        cache: Option<&Cache>,
    ) -> Option<FullTable> {
        let cache = cache.filter(|_| Cache::is_worth_it(object))?;
        let table = cache.load(object);
        if let Some(table) = table.and_then(|bytes| FullTable::new(bytes, 0, object.base)) {
            return Some(table);
        }
        if let Some(reason) = cache.load_reason(object) {
            self.is_settled = true;
            self.no_table = Some(reason);
        }
        None
    }

    /// Returns true if a table pays for a file with so many bytes of DWARF once `more` addresses are looked up, too.
    pub(super) fn pays_for_table(&self, bytes: usize, more: usize) -> bool {
        let asked = self.asked.saturating_add(more);
        !self.is_settled && asked >= FEW_ADDRESSES.max(bytes / BYTES_PER_ADDRESS)
    }
}
