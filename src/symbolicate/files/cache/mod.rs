//! Lookup tables on disk: mapped, keyed by what they were made of, written whole or not at all.
//!
//! A cache file begins with a magic, its length, its checksum (`u64` each) and the stamp of the debug file. After them come
//! the sum of the bytes that it was made of and a SymCache of symbolic's. All of
//! it is checked before it is used, by a hash that takes several bytes a cycle: that is most of the time of a first
//! answer. Its name holds the id, the size of the debug file
//! and the version of the format: whatever changes, another file is looked for. One that belongs to
//! another user, or that others may write, is not read.
//!
//! Nothing is removed or replaced but regular files of this user that have such a name and begin as such files do, in a
//! folder that has its tag and that no other may write in (see `cache_folder.rs`).

mod cache_folder;

use std::fs;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use rustc_hash::FxHasher;

use super::bytes::{FileStamp, SharedBytes};
use super::object_file::ObjectFile;
use super::owner::{self, Identity};
use crate::symbolicate::frame::hex;

/// First bytes of each file.
const MAGIC: &[u8; 8] = b"wdjcache";
/// Magic, length, checksum, and a stamp.
const HEADER_BYTES: usize = STAMP_AT + size_of::<FileStamp>();
const STAMP_AT: usize = 3 * 8;
/// Counts up with every change of what a file holds.
const VERSION: u32 = 12;
/// Ending of the name of a table.
const TABLE: &str = "table";
/// Bytes that are checked at a time, and then let go.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes of a key and of a sum: see [`MadeOf`].
const KEY_BYTES: usize = 32;
const SUM_BYTES: usize = 8;
/// All tables together take no more than this by default.
const DEFAULT_LIMIT: u64 = 2 << 30;
/// Age after which the half-written file of a process that died is removed.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// A table in use is marked as used once in this time.
const TOUCH_EVERY: Duration = Duration::from_secs(3600);
/// Debug files smaller than this are read faster than a cache is looked for.
const MIN_FILE_BYTES: usize = 1 << 20;

/// A folder of lookup tables, shared by any number of processes.
///
/// The folder is tagged by a file `CACHEDIR.TAG`. One that holds other things gets a folder
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
            limit: DEFAULT_LIMIT,
        }
    }

    /// The cache in the user's folder for caches: `$XDG_CACHE_HOME/wedjat`, `~/.cache/wedjat`, on Apple platforms
    /// `~/Library/Caches/wedjat`. `None` without a home folder.
    pub fn of_user() -> Option<Cache> {
        let absolute = owner::absolute_variable;
        let is_apple = usize::from(cfg!(target_vendor = "apple"));
        let below_home = [".cache", "Library/Caches"][is_apple];
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
        !object.id.is_empty() && object.has_dwarf && object.bytes.len() >= MIN_FILE_BYTES
    }

    /// The table of `object`, if it is there, whole, this user's alone, and made of the same bytes.
    pub(crate) fn load(&self, object: &ObjectFile) -> Option<SharedBytes> {
        let name = name(object)?;
        let (identity, file) = self.read_file(&name)?;
        let (made_of, table) = MadeOf::split(&file.part(HEADER_BYTES..file.len())?)?;
        let stamp = object.bytes.stamp();
        if stamp.is_none_or(|stamp| file[STAMP_AT..HEADER_BYTES] != stamp_bytes(stamp)) {
            if !made_of.is(&object.bytes) {
                return None;
            }
            if let Some(stamp) = stamp {
                // The next time it need not be read for this.
                let path = self.find()?.join(&name);
                let file = owner::reopen(&path, identity);
                let _ =
                    file.and_then(|file| file.write_all_at(&stamp_bytes(stamp), STAMP_AT as u64));
            }
        }
        Some(table)
    }

    /// The content of the file of this name, if it is there, whole, and this user's alone; and which file it is.
    fn read_file(&self, name: &str) -> Option<(Identity, SharedBytes)> {
        let path = self.find()?.join(name);
        let file = owner::open(&path).ok()?;
        let meta = file.metadata().ok()?;
        // Its content is used unchanged.
        if meta.mode() & 0o022 != 0 {
            return None;
        }
        let bytes = SharedBytes::map_open(&file, &path).ok()?;
        if !is_whole(&bytes) {
            return None;
        }
        let age = SystemTime::now().duration_since(meta.modified().ok()?);
        if age.is_ok_and(|age| age > TOUCH_EVERY) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some((owner::identity_in(&meta), bytes))
    }

    /// Writes a table, whole or not at all, and makes room for it. That a cache cannot be written is
    /// no error: it is a cache.
    pub(crate) fn store(&self, object: &ObjectFile, table: &[u8]) {
        if let Some(name) = name(object) {
            let made_of = MadeOf::new(&object.bytes).to_bytes();
            let stamp = object.bytes.stamp().unwrap_or_default();
            self.write_parts(&name, stamp, &[&made_of, table]);
        }
    }

    /// Makes the folder, unless it is there.
    pub(crate) fn prepare(&self) -> std::io::Result<()> {
        cache_folder::make_folder(&self.folder).map(drop)
    }

    /// The folder to read from.
    fn find(&self) -> Option<&Path> {
        if self.place.get().is_none() {
            let _ = self.place.set(cache_folder::find(&self.folder)?);
        }
        self.place.get().map(PathBuf::as_path)
    }

    /// The folder to write to.
    fn folder_to_write(&self) -> Option<&Path> {
        if self.place.get().is_none_or(|place| !place.exists()) {
            let made = cache_folder::make_folder(&self.folder).ok()?;
            let _ = self.place.set(made);
        }
        self.place.get().map(PathBuf::as_path)
    }

    /// Writes a file of this name under another name first, so that no process sees half of it; then makes room.
    fn write_parts(&self, name: &str, stamp: FileStamp, content: &[&[u8]]) {
        let content = content.concat();
        let length = (content.len() as u64).to_le_bytes();
        let checksum = content.chunks(BLOCK_BYTES).fold(0, checksum).to_le_bytes();
        let stamp = stamp_bytes(stamp);
        let parts = [&MAGIC[..], &length, &checksum, &stamp, &content];
        let Some(place) = self.folder_to_write() else {
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
            let Some(is_temporary) = entry.file_name().to_str().and_then(is_temporary) else {
                continue;
            };
            let Ok(meta) = entry.metadata() else { continue };
            let Ok(modified) = meta.modified() else {
                continue;
            };
            let is_old = now.duration_since(modified).is_ok_and(|age| age > MAX_AGE);
            if !is_temporary {
                files.push((modified, meta.len(), entry.path()));
            } else if is_old {
                remove(&entry.path());
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

/// Returns true for the name of a file that is being written, false for that of a whole one; `None` for a name that we
/// never give.
fn is_temporary(name: &str) -> Option<bool> {
    let is_hex = |text: &str| {
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        !text.is_empty() && text.bytes().all(is_digit)
    };
    let (stem, rest) = name.split_once('.')?;
    let [id, size, version] = stem.split('-').collect::<Vec<_>>().try_into().ok()?;
    let version = version.strip_prefix('v')?.parse::<u32>();
    let ending = rest.split('.').next()?;
    let is_whole = rest == ending;
    let is_ours = is_hex(id)
        && is_hex(size)
        && version.is_ok()
        && ending == TABLE
        && (is_whole || rest.ends_with(".new"));
    is_ours.then_some(!is_whole)
}

/// Returns true if a file of this user begins as ours do.
fn is_own(path: &Path) -> bool {
    let mut front = [0; MAGIC.len()];
    let read = owner::open(path).and_then(|mut file| file.read_exact(&mut front));
    read.is_ok() && front == *MAGIC
}

/// Removes a file of ours; false if it is not ours, or stays.
fn remove(path: &Path) -> bool {
    is_own(path) && fs::remove_file(path).is_ok()
}

/// The name of the table of `object`, or of its substitute; `None` where nothing identifies it.
fn name(object: &ObjectFile) -> Option<String> {
    let (id, size) = (hex(&object.id), object.bytes.len());
    (!id.is_empty()).then(|| format!("{id}-{size:x}-v{VERSION}.{TABLE}"))
}

/// Checksum of a block that follows others with the checksum `before`. It does not detect forgery, but disks that lose
/// data.
fn checksum(before: u64, block: &[u8]) -> u64 {
    let mut hasher = FxHasher::with_seed(before as usize);
    hasher.write(block);
    hasher.finish()
}

fn stamp_bytes(stamp: FileStamp) -> [u8; size_of::<FileStamp>()] {
    let mut bytes = stamp.into_iter().flat_map(u64::to_le_bytes);
    std::array::from_fn(|_| bytes.next().unwrap_or(0))
}

/// Returns true if a cache file is what was written.
fn is_whole(bytes: &SharedBytes) -> bool {
    let Some((header, content)) = bytes.split_at_checked(HEADER_BYTES) else {
        return false;
    };
    // Of one that was cut or made longer, no byte is read.
    let length = (content.len() as u64).to_le_bytes();
    let Some(expected) = header
        .strip_prefix(MAGIC)
        .and_then(|rest| rest.strip_prefix(&length))
    else {
        return false;
    };
    let blocks = content.chunks(BLOCK_BYTES).enumerate();
    let found = blocks.fold(0, |before, (index, block)| {
        let found = checksum(before, block);
        let at = HEADER_BYTES + index * BLOCK_BYTES;
        bytes.drop_pages_of(at..at + BLOCK_BYTES);
        found
    });
    expected.starts_with(&found.to_le_bytes())
}

/// The bytes that a table was made of, by a sum: an id and a size are what anyone may give his own file.
///
/// The sum has a key that only this user can read, and each table another one. So nobody can make a file that has the sum of
/// another's.
struct MadeOf {
    key: [u8; KEY_BYTES],
    sum: u64,
}

impl MadeOf {
    /// Of a file, by a new key.
    fn new(bytes: &SharedBytes) -> MadeOf {
        let random = || RandomState::new().build_hasher().finish();
        let words: [u64; KEY_BYTES / 8] = std::array::from_fn(|_| random());
        let mut key = [0; KEY_BYTES];
        for (part, word) in key.chunks_mut(8).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        let sum = sum(&key, bytes);
        MadeOf { key, sum }
    }

    /// What [`to_bytes`](MadeOf::to_bytes) wrote, and what follows it.
    fn split(content: &SharedBytes) -> Option<(MadeOf, SharedBytes)> {
        let (key, rest) = content.split_first_chunk::<KEY_BYTES>()?;
        let (sum, _) = rest.split_first_chunk::<SUM_BYTES>()?;
        let made_of = MadeOf {
            key: *key,
            sum: u64::from_le_bytes(*sum),
        };
        Some((made_of, content.part(KEY_BYTES + SUM_BYTES..content.len())?))
    }

    fn to_bytes(&self) -> Vec<u8> {
        [&self.key[..], &self.sum.to_le_bytes()].concat()
    }

    /// Returns true if these are the bytes.
    fn is(&self, bytes: &SharedBytes) -> bool {
        sum(&self.key, bytes) == self.sum
    }
}

/// By SipHash, which the key makes unforgeable.
fn sum(key: &[u8], bytes: &SharedBytes) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    for (index, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        hasher.write(block);
        bytes.drop_pages_of(index * BLOCK_BYTES..(index + 1) * BLOCK_BYTES);
    }
    hasher.finish()
}
