//! Lookup tables on disk: mapped, keyed by what they were made of, written whole or not at all.
//!
//! A cache file is a table (see `table.rs`), then the CRC-32 of each of its blocks, then a trailer:
//! length of the table (`u64`), CRC-32 of all block CRCs and of that length, magic. Blocks are checked
//! when they are first read, so that opening costs the same for any size. Its name holds the id, the
//! size of the debug file and the version of the format: whatever changes, another file is looked for.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use super::bytes::Bytes;
use super::object_file::ObjectFile;
use super::table::{BLOCK, Table, VERSION};

const MAGIC: &[u8; 8] = b"wdjcache";
/// Length of the table, CRC, magic.
const TRAILER: usize = 8 + 4 + 8;
/// All tables together take no more than this by default.
const LIMIT: u64 = 2 << 30;
/// A lock of somebody who died while building is taken over after this.
const STALE_LOCK: Duration = Duration::from_secs(600);
/// A table in use is marked as used once in this time.
const TOUCH_EVERY: Duration = Duration::from_secs(3600);
/// Debug files smaller than this are read faster than a cache is looked for.
const WORTH_IT: usize = 1 << 20;

/// A folder of lookup tables, shared by any number of processes.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
}

impl Cache {
    /// The cache in `folder`, which is made when first written to. It takes at most 2 GiB.
    pub fn new(folder: &Path) -> Cache {
        Cache {
            folder: folder.to_owned(),
            limit: LIMIT,
        }
    }

    /// Where a user's caches belong: `$XDG_CACHE_HOME/wedjat`, `~/.cache/wedjat`, on Apple platforms
    /// `~/Library/Caches/wedjat`. `None` where there is no home.
    pub fn of_user() -> Option<Cache> {
        let absolute = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|p| p.is_absolute())
        };
        let below_home = if cfg!(target_vendor = "apple") {
            "Library/Caches"
        } else {
            ".cache"
        };
        let caches =
            absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(below_home)))?;
        Some(Cache::new(&caches.join("wedjat")))
    }

    /// Bounds the size of all tables together, in bytes: those unused for longest go first.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Cache {
        self.limit = bytes;
        self
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn is_worth_it(object: &ObjectFile) -> bool {
        !object.id.is_empty() && object.has_dwarf && object.bytes.len() >= WORTH_IT
    }

    /// The table of `object`, if it is there and whole. A damaged file is removed.
    pub(crate) fn load(&self, object: &ObjectFile) -> Option<Table> {
        let path = self.path(object)?;
        let bytes = Bytes::map(&path).ok()?;
        match open(&bytes) {
            Some(table) => {
                self.touch(&path);
                Some(table)
            }
            None => {
                let _ = fs::remove_file(&path);
                None
            }
        }
    }

    /// Forgets the table of `object`: it was found damaged.
    pub(crate) fn remove(&self, object: &ObjectFile) {
        if let Some(path) = self.path(object) {
            let _ = fs::remove_file(path);
        }
    }

    /// Writes a table, whole or not at all, and makes room for it. That a cache cannot be written is
    /// no error: it is a cache.
    pub(crate) fn store(&self, object: &ObjectFile, table: &Table) {
        let Some(path) = self.path(object) else {
            return;
        };
        if self.write(&path, table).is_ok() {
            self.make_room(&path);
        }
    }

    /// A small file of this name, if it is there.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.join(name)).ok()
    }

    /// Writes a small file, whole or not at all.
    pub(crate) fn write_whole(&self, name: &str, data: &[u8]) {
        let path = self.folder.join(name);
        let parts: [&[u8]; 1] = [data];
        if self.write_parts(&path, &parts).is_ok() {
            self.make_room(&path);
        }
    }

    /// Takes the right to build the table of `object`; `None` while another process holds it.
    pub(crate) fn lock(&self, object: &ObjectFile) -> Option<Lock> {
        let path = self.path(object)?.with_extension("lock");
        fs::create_dir_all(&self.folder).ok()?;
        let age = fs::metadata(&path).and_then(|meta| meta.modified()).ok();
        if age
            .and_then(|at| SystemTime::now().duration_since(at).ok())
            .is_some_and(|age| age > STALE_LOCK)
        {
            let _ = fs::remove_file(&path);
        }
        let file = fs::File::options().write(true).create_new(true).open(&path);
        file.ok().map(|_| Lock { path })
    }

    fn path(&self, object: &ObjectFile) -> Option<PathBuf> {
        if object.id.is_empty() {
            return None;
        }
        let id: String = object.id.iter().map(|byte| format!("{byte:02x}")).collect();
        let size = object.bytes.len();
        Some(self.folder.join(format!("{id}-{size:x}-v{VERSION}.table")))
    }

    fn write(&self, path: &Path, table: &Table) -> std::io::Result<()> {
        let data = table.as_bytes();
        let mut tail: Vec<u8> = data
            .chunks(BLOCK)
            .flat_map(|block| crc32fast::hash(block).to_le_bytes())
            .collect();
        tail.extend((data.len() as u64).to_le_bytes());
        let crc = crc32fast::hash(&tail);
        tail.extend(crc.to_le_bytes());
        tail.extend(MAGIC);
        self.write_parts(path, &[data, &tail])
    }

    /// Writes under another name first, so that nobody ever sees half a file.
    fn write_parts(&self, path: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(&self.folder)?;
        let count = COUNTER.fetch_add(1, Relaxed);
        let temporary = path.with_extension(format!("{}-{count}.new", std::process::id()));
        let written = fs::File::create_new(&temporary)
            .and_then(|mut file| parts.iter().try_for_each(|part| file.write_all(part)));
        written
            .and_then(|()| fs::rename(&temporary, path))
            .inspect_err(|_| {
                let _ = fs::remove_file(&temporary);
            })
    }

    /// Removes the tables unused for longest, but never `keep`, until all fit into the limit.
    fn make_room(&self, keep: &Path) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let meta = entry.metadata().ok().filter(|meta| meta.is_file())?;
                Some((meta.modified().ok()?, meta.len(), entry.path()))
            })
            .collect();
        files.sort();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if total <= self.limit {
                return;
            }
            if path != keep && fs::remove_file(&path).is_ok() {
                total -= size;
            }
        }
    }

    /// Marks a table as used.
    fn touch(&self, path: &Path) {
        let now = SystemTime::now();
        let modified = fs::metadata(path).and_then(|meta| meta.modified());
        let old =
            modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > TOUCH_EVERY));
        if old && let Ok(file) = fs::File::options().append(true).open(path) {
            let _ = file.set_modified(now);
        }
    }
}

/// The right to build one table, until dropped.
pub(crate) struct Lock {
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The table in a cache file, its blocks yet to be checked.
fn open(bytes: &Bytes) -> Option<Table> {
    let data: &[u8] = bytes;
    let trailer_at = data.len().checked_sub(TRAILER)?;
    let trailer = &data[trailer_at..];
    if &trailer[12..] != MAGIC {
        return None;
    }
    let length = usize::try_from(u64::from_le_bytes(trailer[..8].try_into().ok()?)).ok()?;
    let crcs = length.div_ceil(BLOCK).checked_mul(4)?;
    if length.checked_add(crcs)? != trailer_at {
        return None;
    }
    let checked = &data[length..trailer_at + 8];
    if crc32fast::hash(checked).to_le_bytes() != trailer[8..12] {
        return None;
    }
    let crcs: Vec<u32> = data[length..trailer_at]
        .chunks_exact(4)
        .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]))
        .collect();
    Table::open_checked(bytes.part(0..length)?, crcs).ok()
}
