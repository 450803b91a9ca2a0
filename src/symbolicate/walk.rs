//! The debug files in a folder: walked on several threads, with a memory of what was found before.
//!
//! The memory is a file in the cache, one for each folder: what each file in it was, with its size and
//! time of change. A file that has not changed is not opened again. It is checked by a CRC-32 and
//! believed only as far as finding goes: whoever opens a debug file compares its id anew.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::Error;
use super::bytes::Bytes;
use super::cache::Cache;
use super::dyld_cache;
use super::identity::{Identity, identity};
use super::object_file::{self, ObjectFile};

/// Folders nest no deeper than this.
const MAX_DEPTH: usize = 64;
/// A walk of fewer folders than this is done before other threads would have started.
const FEW: usize = 32;
/// Looking into fewer files than this costs no more than remembering them.
const WORTH_REMEMBERING: usize = 64;
/// Counts up with every change of what is remembered.
const VERSION: u32 = 2;

/// An object in a file, by what its headers say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Found {
    /// UUID or build id; may be empty.
    pub id: Vec<u8>,
    pub arch: String,
    pub has_dwarf: bool,
    pub has_symbols: bool,
    pub has_code: bool,
}

impl Found {
    pub(super) fn of(object: &ObjectFile) -> Found {
        Found {
            id: object.id.clone(),
            arch: object.arch.clone(),
            has_dwarf: object.has_dwarf,
            has_symbols: object.has_symbols,
            has_code: !object.code.is_empty(),
        }
    }
}

/// A file that was looked into.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Looked {
    pub path: PathBuf,
    size: u64,
    /// Nanoseconds since the epoch.
    changed: u64,
    /// The objects in it (none in a file of another kind), or why it could not be read.
    pub objects: Result<Vec<Found>, String>,
}

/// All files below `folder`, in order of path, on `jobs` threads. What cannot be read is passed over.
pub(super) fn walk(folder: &Path, jobs: usize, cache: Option<&Cache>) -> Vec<Looked> {
    let root = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let known = cache
        .and_then(|cache| remembered(cache, &root))
        .unwrap_or_default();
    let walk = Walk {
        known,
        queue: Mutex::default(),
        more: Condvar::new(),
        seen: Mutex::default(),
        looked: Mutex::default(),
    };
    walk.push(folder.to_owned(), 0);
    walk.run(FEW);
    if walk.is_unfinished() {
        std::thread::scope(|scope| {
            for _ in 1..jobs.clamp(1, 64) {
                scope.spawn(|| walk.run(usize::MAX));
            }
            walk.run(usize::MAX);
        });
    }
    let (mut looked, fresh) = lock_into(walk.looked);
    looked.sort_by(|a, b| a.path.cmp(&b.path));
    if let Some(cache) = cache.filter(|_| fresh >= WORTH_REMEMBERING) {
        remember(cache, &root, &looked);
    }
    looked
}

struct Walk {
    known: FxHashMap<PathBuf, Looked>,
    queue: Mutex<Queue>,
    more: Condvar,
    /// Folders that were entered, so that links in a circle end.
    seen: Mutex<HashSet<Identity>>,
    /// Files, and how many of them were not known before.
    looked: Mutex<(Vec<Looked>, usize)>,
}

#[derive(Default)]
struct Queue {
    folders: Vec<(PathBuf, usize)>,
    /// Threads that are in a folder, and may yet find more.
    busy: usize,
}

impl Walk {
    fn push(&self, folder: PathBuf, depth: usize) {
        lock(&self.queue).folders.push((folder, depth));
        self.more.notify_one();
    }

    fn is_unfinished(&self) -> bool {
        !lock(&self.queue).folders.is_empty()
    }

    /// Works until nothing is left, or at most `limit` folders.
    fn run(&self, limit: usize) {
        for _ in 0..limit {
            let mut queue = lock(&self.queue);
            let (folder, depth) = loop {
                if let Some(next) = queue.folders.pop() {
                    queue.busy += 1;
                    break next;
                }
                if queue.busy == 0 {
                    self.more.notify_all();
                    return;
                }
                queue = self
                    .more
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            };
            drop(queue);
            self.folder(&folder, depth);
            lock(&self.queue).busy -= 1;
            self.more.notify_all();
        }
    }

    fn folder(&self, folder: &Path, depth: usize) {
        let Some(identity) = identity(folder) else {
            return;
        };
        if depth > MAX_DEPTH || !lock(&self.seen).insert(identity) {
            return;
        }
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(meta) = std::fs::metadata(&path) else {
                continue;
            };
            if meta.is_dir() {
                self.push(path, depth + 1);
            } else if meta.is_file() {
                self.file(path, &meta);
            }
        }
    }

    fn file(&self, path: PathBuf, meta: &std::fs::Metadata) {
        let since = meta.modified().ok().map(|at| at.duration_since(UNIX_EPOCH));
        let changed = since.and_then(Result::ok).map_or(0, |at| at.as_nanos());
        let (size, changed) = (meta.len(), u64::try_from(changed).unwrap_or(0));
        let known = self
            .known
            .get(&path)
            .filter(|known| known.size == size && known.changed == changed && changed != 0);
        let is_fresh = known.is_none();
        let looked = known.cloned().unwrap_or_else(|| Looked {
            objects: look(&path),
            path,
            size,
            changed,
        });
        let mut all = lock(&self.looked);
        all.0.push(looked);
        all.1 += usize::from(is_fresh);
    }
}

/// What a file holds. Of one that is no object, only the first bytes are read.
fn look(path: &Path) -> Result<Vec<Found>, String> {
    let mut head = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    if read.is_err()
        || !(object_file::looks_like_object(&head) || dyld_cache::is_shared_cache(&head))
    {
        return Ok(Vec::new());
    }
    objects(path).map_err(|error| error.to_string())
}

/// The objects in a file, a dyld shared cache among them.
pub(super) fn objects(path: &Path) -> Result<Vec<Found>, Error> {
    let bytes = Bytes::map(path)?;
    if !dyld_cache::is_shared_cache(&bytes) {
        let objects = object_file::open_bytes(path, bytes)?;
        return Ok(objects.iter().map(Found::of).collect());
    }
    let (arch, ids) = dyld_cache::list(path, &bytes)?;
    let found = |id| Found {
        id,
        arch: arch.clone(),
        has_dwarf: false,
        has_symbols: true,
        has_code: true,
    };
    Ok(ids.into_iter().map(found).collect())
}

#[derive(Serialize, Deserialize)]
struct Memory {
    version: u32,
    root: PathBuf,
    looked: Vec<Looked>,
}

/// A name that tells folders apart well enough: the memory itself says which one it is of.
fn memory_name(root: &Path) -> String {
    let path = root.as_os_str().as_encoded_bytes();
    format!("{:08x}-{:x}.folder", crc32fast::hash(path), path.len())
}

fn remembered(cache: &Cache, root: &Path) -> Option<FxHashMap<PathBuf, Looked>> {
    let bytes = cache.read(&memory_name(root))?;
    let (data, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    if crc32fast::hash(data).to_le_bytes() != crc {
        return None;
    }
    let memory: Memory = serde_json::from_slice(data).ok()?;
    let looked = memory.looked.into_iter();
    (memory.version == VERSION && memory.root == root)
        .then(|| looked.map(|of| (of.path.clone(), of)).collect())
}

/// A path that is no UTF-8 cannot be written as JSON: then nothing is remembered.
fn remember(cache: &Cache, root: &Path, looked: &[Looked]) {
    let memory = Memory {
        version: VERSION,
        root: root.to_owned(),
        looked: looked.to_vec(),
    };
    if let Ok(mut data) = serde_json::to_vec(&memory) {
        data.extend(crc32fast::hash(&data).to_le_bytes());
        cache.write_whole(&memory_name(root), &data);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock_into<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(looked: &[Looked], root: &Path) -> Vec<String> {
        let name = |of: &Looked| of.path.strip_prefix(root).unwrap().display().to_string();
        looked.iter().map(name).collect()
    }

    /// Hundreds of folders, links in a circle among them: every file once, in order, on any number of
    /// threads, from memory as from the disk.
    #[test]
    fn every_file_once_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (root, kept) = (folder.path().join("root"), folder.path().join("cache"));
        let mut expected = Vec::new();
        for a in 0..20 {
            for b in 0..10 {
                let below = root.join(format!("{a:02}/{b:02}"));
                std::fs::create_dir_all(&below).unwrap();
                std::fs::write(below.join("file"), b"of no known kind").unwrap();
                expected.push(format!("{a:02}/{b:02}/file"));
            }
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(&root, root.join("05/circle")).unwrap();
        let cache = Cache::new(&kept);
        for jobs in [1, 2, 8] {
            assert_eq!(names(&walk(&root, jobs, None), &root), expected);
            assert_eq!(names(&walk(&root, jobs, Some(&cache)), &root), expected);
        }
        assert!(remembered(&cache, &root.canonicalize().unwrap()).is_some());
        // What changed since is seen, what is gone is gone.
        std::fs::remove_file(root.join("00/00/file")).unwrap();
        std::fs::write(root.join("00/00/other"), b"new").unwrap();
        expected[0] = "00/00/other".into();
        assert_eq!(names(&walk(&root, 2, Some(&cache)), &root), expected);
    }

    #[test]
    fn a_damaged_memory_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let root = Path::new("/some/root");
        remember(&cache, root, &[]);
        assert!(remembered(&cache, root).is_some());
        let path = folder.path().join(memory_name(root));
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            std::fs::write(&path, &damaged).unwrap();
            assert!(remembered(&cache, root).is_none(), "byte {at}");
        }
    }
}
