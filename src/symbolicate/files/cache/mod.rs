//! Lookup tables on disk: mapped, keyed by what they were made of, written whole or not at all.
//!
//! A cache file begins with a magic, its length and its checksum (`u64` each); behind them stands a
//! SymCache of symbolic's, and what else is known of the file (`convert.rs`). All of it is checked before it is used, by a hash that takes several bytes
//! a cycle: that is most of the time of a first answer. Its name holds the id, the size of the debug file
//! and the version of the format: whatever changes, another file is looked for. One that belongs to
//! another user, or that others may write, is not read.
//!
//! Nothing is removed or replaced but regular files of this user that have such a name and begin as such files do, in a
//! folder that is marked and that no other may write in (see `place.rs`).

mod place;

use std::fs;
use std::hash::Hasher;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use rustc_hash::FxHasher;

use super::bytes::SharedBytes;
use super::object_file::ObjectFile;
use super::own;
use crate::symbolicate::frame::hex;

/// First bytes of a folder's memory.
const MAGIC: &[u8; 8] = b"wdjcache";
/// First bytes of a table.
const TABLE: &[u8; 8] = b"wdjsymca";
/// First bytes of the tables of earlier versions.
const OLD_TABLE: &[u8; 8] = b"wdjtable";
/// Magic, length and checksum.
const HEADER: usize = 3 * 8;
/// Counts up with every change of what a table holds.
const VERSION: u32 = 6;
/// Bytes that are checked at a time, and then let go.
const BLOCK: usize = 1 << 20;
/// All tables together take no more than this by default.
const LIMIT: u64 = 2 << 30;
/// Age after which the half-written file of a process that died is removed.
const STALE: Duration = Duration::from_secs(24 * 3600);
/// A table in use is marked as used once in this time.
const TOUCH_EVERY: Duration = Duration::from_secs(3600);
/// Most bytes that are read of a folder's memory.
const MEMORY: u64 = 64 << 20;
/// Debug files smaller than this are read faster than a cache is looked for.
const WORTH_IT: usize = 1 << 20;

/// A folder of lookup tables, shared by any number of processes.
///
/// The folder is marked by a file `CACHEDIR.TAG`. One that holds other things gets a folder
/// `wedjat-cache` for the tables; nothing else in it is touched.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    /// The folder within it that holds the tables, once that is known.
    place: Arc<OnceLock<PathBuf>>,
    limit: u64,
}

impl Cache {
    /// The cache in `folder`, which is made when first written to. It takes at most 2 GiB.
    pub fn new(folder: &Path) -> Cache {
        Cache {
            folder: folder.to_owned(),
            place: Arc::default(),
            limit: LIMIT,
        }
    }

    /// The cache in the user's folder for caches: `$XDG_CACHE_HOME/wedjat`, `~/.cache/wedjat`, on Apple platforms
    /// `~/Library/Caches/wedjat`. `None` without a home folder.
    pub fn of_user() -> Option<Cache> {
        let absolute = own::absolute_variable;
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

    /// The folder that was given.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn is_worth_it(object: &ObjectFile) -> bool {
        !object.id.is_empty() && object.has_dwarf && object.bytes.len() >= WORTH_IT
    }

    /// The table of `object`, if it is there, whole, and this user's alone.
    pub(crate) fn load(&self, object: &ObjectFile) -> Option<SharedBytes> {
        let path = self.find()?.join(name(object, "table")?);
        let file = own::open(&path).ok()?;
        let meta = file.metadata().ok()?;
        // Its content is used as it stands.
        if meta.mode() & 0o022 != 0 {
            return None;
        }
        let table = open(&SharedBytes::map_open(&file, &path).ok()?)?;
        touch(&file, &meta);
        Some(table)
    }

    /// Writes a table, whole or not at all, and makes room for it. That a cache cannot be written is
    /// no error: it is a cache.
    pub(crate) fn store(&self, object: &ObjectFile, table: &[u8]) {
        if let Some(name) = name(object, "table") {
            let length = (table.len() as u64).to_le_bytes();
            let checksum = table.chunks(BLOCK).fold(0, checksum).to_le_bytes();
            self.write(&name, &[TABLE, &length, &checksum, table]);
        }
    }

    /// A small file of this name, if it is there.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = own::open(&self.find()?.join(name)).ok()?;
        // A larger one, cut here, is not whole.
        file.take(MEMORY).read_to_end(&mut bytes).ok()?;
        Some(bytes.strip_prefix(MAGIC)?.to_vec())
    }

    /// Writes a small file, whole or not at all.
    pub(crate) fn write_whole(&self, name: &str, data: &[u8]) {
        self.write(name, &[MAGIC, data]);
    }

    /// Makes the folder, unless it is there.
    pub(crate) fn prepare(&self) -> std::io::Result<()> {
        place::make(&self.folder).map(drop)
    }

    /// The folder to read from.
    fn find(&self) -> Option<&Path> {
        if self.place.get().is_none() {
            let _ = self.place.set(place::find(&self.folder)?);
        }
        self.place.get().map(PathBuf::as_path)
    }

    /// The folder to write to.
    fn make(&self) -> Option<&Path> {
        if self.place.get().is_none_or(|place| !place.exists()) {
            let made = place::make(&self.folder).ok()?;
            let _ = self.place.set(made);
        }
        self.place.get().map(PathBuf::as_path)
    }

    /// Writes under another name first, so that no process sees half a file; then makes room.
    fn write(&self, name: &str, parts: &[&[u8]]) {
        let Some(place) = self.make() else {
            return;
        };
        let path = place.join(name);
        if fs::symlink_metadata(&path).is_ok() && !is_own(&path) {
            return;
        }
        let written = tempfile::Builder::new()
            .prefix(&format!("{name}."))
            .suffix(".new")
            .tempfile_in(place)
            .and_then(|mut file| {
                parts.iter().try_for_each(|part| file.write_all(part))?;
                // A name must not outlive a loss of power when what it names does not.
                file.as_file().sync_data()?;
                file.persist(&path).map_err(|error| error.error)
            });
        if written.is_ok() {
            self.make_room(place, &path);
        }
    }

    /// Removes what died half-written, and the tables unused for longest, but never `keep`, until all fit
    /// into the limit.
    fn make_room(&self, place: &Path, keep: &Path) {
        let Ok(entries) = fs::read_dir(place) else {
            return;
        };
        let now = SystemTime::now();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in entries.flatten() {
            let Some(kind) = entry.file_name().to_str().and_then(kind) else {
                continue;
            };
            let Ok(meta) = entry.metadata() else { continue };
            let Ok(modified) = meta.modified() else {
                continue;
            };
            let is_old = now.duration_since(modified).is_ok_and(|age| age > STALE);
            match kind {
                Kind::Kept => files.push((modified, meta.len(), entry.path())),
                Kind::Passing if is_old => drop(remove(&entry.path())),
                Kind::Passing => {}
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if total <= self.limit {
                return;
            }
            if path != keep && remove(&path) {
                total -= size;
            }
        }
    }
}

/// Marks a table as used.
fn touch(file: &fs::File, meta: &fs::Metadata) {
    let now = SystemTime::now();
    let age = meta
        .modified()
        .and_then(|at| now.duration_since(at).map_err(std::io::Error::other));
    if age.is_ok_and(|age| age > TOUCH_EVERY) {
        let _ = file.set_modified(now);
    }
}

/// The kind of a file in the folder, by its name.
enum Kind {
    /// A table, or the memory of a folder.
    Kept,
    /// A lock, as earlier versions made, or a file that is being written.
    Passing,
}

/// Returns the kind of our file that has this name; `None` for a name that we never give.
fn kind(name: &str) -> Option<Kind> {
    let is_hex = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let (stem, rest) = name.split_once('.')?;
    let (ending, fresh) = match rest.strip_suffix(".new") {
        Some(rest) => (rest.split_once('.')?.0, true),
        None => (rest, false),
    };
    let mut parts = stem.split('-');
    let [id, size, version] = [(); 3].map(|()| parts.next());
    let version = version.map(|version| version.strip_prefix('v').unwrap_or("none"));
    let fits = is_hex(id?)
        && is_hex(size?)
        && parts.next().is_none()
        && match ending {
            "table" | "lock" => version.is_some_and(|version| version.parse::<u32>().is_ok()),
            "folder" => version.is_none(),
            _ => false,
        };
    fits.then_some(match ending {
        _ if fresh => Kind::Passing,
        "lock" => Kind::Passing,
        _ => Kind::Kept,
    })
}

/// Returns true if a file of this user begins as ours do.
fn is_own(path: &Path) -> bool {
    let mut front = [0; MAGIC.len()];
    let read = own::open(path).and_then(|mut file| file.read_exact(&mut front));
    read.is_ok() && [MAGIC, TABLE, OLD_TABLE].contains(&&front)
}

/// Removes a file of ours; false if it is not ours, or stays.
fn remove(path: &Path) -> bool {
    is_own(path) && fs::remove_file(path).is_ok()
}

/// The name of a file of `object`; `None` where nothing tells it from others.
fn name(object: &ObjectFile, ending: &str) -> Option<String> {
    if object.id.is_empty() {
        return None;
    }
    let id = hex(&object.id);
    let size = object.bytes.len();
    Some(format!("{id}-{size:x}-v{VERSION}.{ending}"))
}

/// Checksum of a block that follows others with the checksum `before`. It does not detect forgery, but disks that lose
/// data.
fn checksum(before: u64, block: &[u8]) -> u64 {
    let mut hasher = FxHasher::with_seed(before as usize);
    hasher.write(block);
    hasher.finish()
}

/// The table in a cache file, if it is whole.
fn open(bytes: &SharedBytes) -> Option<SharedBytes> {
    let (header, table) = bytes.split_at_checked(HEADER)?;
    let (magic, numbers) = header.split_at_checked(TABLE.len())?;
    // Of one that was cut or made longer, no byte is read.
    if !numbers.starts_with(&(table.len() as u64).to_le_bytes()) {
        return None;
    }
    let expected = [table.len() as u64, {
        let blocks = table.chunks(BLOCK).enumerate();
        blocks.fold(0, |before, (index, block)| {
            let found = checksum(before, block);
            let at = HEADER + index * BLOCK;
            bytes.let_go_of(at..at + BLOCK);
            found
        })
    }];
    let is_whole = magic == TABLE && numbers == expected.map(u64::to_le_bytes).as_flattened();
    is_whole.then(|| bytes.part(HEADER..bytes.len()))?
}
