//! Finds debug files: those in a folder, looked into on several threads, with a memory of what was found before; and
//! those of one image, at its own path, in the system's folders, at the targets of links.
//!
//! The memory is a file in the cache, one for each folder: what each file in it was, with its size and
//! time of change. A file that has not changed is not opened again. It is used for finding files alone: opening a debug
//! file compares its id anew.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use walkdir::{DirEntry, WalkDir};

use super::archives;
use super::bytes::SharedBytes;
use super::cache::{Cache, file_name};
use super::dyld_cache;
use super::links::{GivenFolder, is_below};
use super::object_file::{self, ObjectFile};
use super::owner::identity;
use crate::report::crc32;
use crate::symbolicate::Error;
use crate::symbolicate::frame::{hex, image_file_name};
use crate::symbolicate::lock;

/// Folders nest no deeper than this.
const MAX_DEPTH: usize = 64;
/// Fewer files than this are looked into before another thread would have started.
const FEW: usize = 32;
/// Bytes of a Mach-O file's id; build ids of ELF files are longer.
pub(in crate::symbolicate) const UUID: usize = 16;
/// Looking into fewer files than this costs no more than remembering them.
const WORTH_REMEMBERING: usize = 64;

/// An object in a file, by what its headers say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectSummary {
    /// UUID or build id; may be empty.
    pub id: Vec<u8>,
    pub arch: String,
    pub has_dwarf: bool,
    pub has_symbols: bool,
    pub has_code: bool,
}

impl ObjectSummary {
    /// Returns true if it has something to name functions by.
    pub(in crate::symbolicate) fn names(&self) -> bool {
        self.has_dwarf || self.has_symbols
    }

    /// Returns true for what may be a Mach-O image without debug information.
    pub(in crate::symbolicate) fn is_bare_mach_o(&self) -> bool {
        self.id.len() == UUID && self.has_code && !self.has_dwarf
    }

    pub(in crate::symbolicate) fn of(object: &ObjectFile) -> ObjectSummary {
        ObjectSummary {
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
pub(in crate::symbolicate) struct Looked {
    pub path: PathBuf,
    size: u64,
    /// Nanoseconds since the epoch.
    changed: u64,
    /// The objects in it (none in a file of another kind), or why it could not be read.
    pub objects: Result<Vec<ObjectSummary>, String>,
}

/// How a folder is walked.
#[derive(Debug, Clone, Copy)]
pub(in crate::symbolicate) struct FolderWalk<'a> {
    /// Threads that look into files.
    pub jobs: usize,
    /// Where what was found is remembered.
    pub cache: Option<&'a Cache>,
    /// Follows links, also out of the folder.
    pub follow_links: bool,
}

/// What was found below a folder.
pub(in crate::symbolicate) struct Walked {
    /// All files, in order of path.
    pub looked: Vec<Looked>,
    /// Count of links that lead out of the folder, and were not followed.
    pub links_out: usize,
}

/// Looks into all files below `folder`. What cannot be read is passed over. Of a link that stays in the folder the target is
/// found without it.
pub(in crate::symbolicate) fn walk(folder: &Path, how: FolderWalk<'_>) -> Walked {
    let FolderWalk { jobs, cache, .. } = how;
    let root = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let known = cache
        .and_then(|cache| remembered(cache, &root))
        .unwrap_or_default();
    // Folders that were entered, so that links lead nowhere twice.
    let mut seen = HashSet::new();
    let is_new = |entry: &DirEntry| {
        let is_folder = entry.file_type().is_dir();
        !is_folder || identity(entry.path()).is_some_and(|folder| seen.insert(folder))
    };
    let all = WalkDir::new(folder).follow_links(how.follow_links);
    let all = all.max_depth(MAX_DEPTH).into_iter().filter_entry(is_new);
    let (given, mut links_out) = (GivenFolder::new(folder), 0);
    let mut files: Vec<DirEntry> = Vec::new();
    for entry in all.filter_map(Result::ok) {
        if entry.file_type().is_file() {
            files.push(entry);
        } else if entry.file_type().is_symlink() && given.is_left_by(entry.path()) {
            links_out += 1;
        }
    }
    let (next, fresh) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let looked = Mutex::new(Vec::with_capacity(files.len()));
    let work = || {
        while let Some(entry) = files.get(next.fetch_add(1, Relaxed)) {
            let Ok(meta) = entry.metadata() else { continue };
            let (file, is_fresh) = file(entry.path(), &meta, &known);
            fresh.fetch_add(usize::from(is_fresh), Relaxed);
            lock(&looked).push(file);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(files.len() / FEW) {
            scope.spawn(work);
        }
        work();
    });
    let mut looked = looked.into_inner().unwrap_or_else(PoisonError::into_inner);
    looked.sort_by(|a: &Looked, b| a.path.cmp(&b.path));
    let is_worth_it = fresh.into_inner() >= WORTH_REMEMBERING;
    if let Some(cache) = cache
        && is_worth_it
    {
        remember(cache, &root, &looked);
    }
    Walked { looked, links_out }
}

/// A file, and whether it was not known before.
fn file(
    path: &Path,
    meta: &std::fs::Metadata,
    known: &FxHashMap<PathBuf, Looked>,
) -> (Looked, bool) {
    let since = meta.modified().ok().map(|at| at.duration_since(UNIX_EPOCH));
    let changed = since.and_then(Result::ok).map_or(0, |at| at.as_nanos());
    let (size, changed) = (meta.len(), u64::try_from(changed).unwrap_or(0));
    let is_same = |known: &&Looked| known.size == size && known.changed == changed && changed != 0;
    if let Some(known) = known.get(path).filter(is_same) {
        return (known.clone(), false);
    }
    let looked = Looked {
        objects: look(path),
        path: path.to_owned(),
        size,
        changed,
    };
    (looked, true)
}

/// Lists the objects in a file. Of a file that is no object, only the first bytes are read.
fn look(path: &Path) -> Result<Vec<ObjectSummary>, String> {
    let mut head = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    let may_be_packed = read.is_ok() && archives::is_of_debug_files(path);
    if may_be_packed && let Some(command) = archives::unpacking(path, &head) {
        let path = path.display();
        return Err(format!(
            "{path}: packed files are not read; unpack it: {command}"
        ));
    }
    if read.is_err()
        || !(object_file::looks_like_object(&head) || object_file::is_shared_cache(&head))
    {
        return Ok(Vec::new());
    }
    objects(path).map_err(|error| error.to_string())
}

/// The objects in a file, a dyld shared cache among them.
pub(in crate::symbolicate) fn objects(path: &Path) -> Result<Vec<ObjectSummary>, Error> {
    let bytes = SharedBytes::map(path)?;
    if !object_file::is_shared_cache(&bytes) {
        let objects = object_file::open_bytes(path, bytes)?;
        return Ok(objects.iter().map(ObjectSummary::of).collect());
    }
    let (arch, ids) = dyld_cache::list(path, &bytes)?;
    let found = |id| ObjectSummary {
        id,
        arch: arch.clone(),
        has_dwarf: false,
        has_symbols: true,
        has_code: true,
    };
    Ok(ids.into_iter().map(found).collect())
}

#[derive(Serialize, Deserialize)]
struct FolderMemory {
    root: PathBuf,
    looked: Vec<Looked>,
}

/// A name that tells folders apart well enough: the memory itself says which one it is of.
fn memory_name(root: &Path) -> String {
    let path = root.as_os_str().as_encoded_bytes();
    file_name(&format!("{:08x}", crc32(0, path)), path.len(), "folder")
}

fn remembered(cache: &Cache, root: &Path) -> Option<FxHashMap<PathBuf, Looked>> {
    let bytes = cache.read(&memory_name(root))?;
    let memory: FolderMemory = serde_json::from_slice(&bytes).ok()?;
    let looked = memory.looked.into_iter();
    (memory.root == root).then(|| looked.map(|of| (of.path.clone(), of)).collect())
}

/// A path that is no UTF-8 cannot be written as JSON: then nothing is remembered.
fn remember(cache: &Cache, root: &Path, looked: &[Looked]) {
    let memory = FolderMemory {
        root: root.to_owned(),
        looked: looked.to_vec(),
    };
    if let Ok(data) = serde_json::to_vec(&memory) {
        cache.write(&memory_name(root), &data);
    }
}

/// The folder in which distributions put debug files.
pub(in crate::symbolicate) const SYSTEM: &str = "/usr/lib/debug";

/// `/usr/lib/debug/.build-id/ab/cdef.debug`
pub(in crate::symbolicate) fn build_id_path(root: &Path, id: &[u8]) -> PathBuf {
    let hex = hex(id);
    let (first, rest) = hex.split_at(hex.len().min(2));
    root.join(format!(".build-id/{first}/{rest}.debug"))
}

/// Returns the debug file that `object`'s debuginfo link means, the best one first: next to it, in `.debug`, and below
/// the system's folder. It has the same build id or, without one, the CRC-32 that the link states. The link is a name of a
/// file, without folders that may lead elsewhere.
pub(in crate::symbolicate) fn linked(object: &ObjectFile) -> Option<ObjectFile> {
    let ((link, crc), folder) = (object.debuglink.as_ref()?, object.path.parent()?);
    if !is_below(Path::new(link)) {
        return None;
    }
    // gdb follows links of the image's path, too: /lib may be /usr/lib.
    let real = object.path.canonicalize().ok();
    let mut places = vec![folder.join(link), folder.join(".debug").join(link)];
    for folder in [Some(folder), real.as_deref().and_then(Path::parent)] {
        if let Some(below) = folder.and_then(|folder| folder.strip_prefix("/").ok()) {
            places.push(Path::new(SYSTEM).join(below).join(link));
        }
    }
    let fits = |other: &ObjectFile| match (&object.id[..], &other.id[..]) {
        ([], _) | (_, []) => crc32(0, &other.bytes) == *crc,
        (one, other) => one == other,
    };
    let open = |path: &PathBuf| object_file::open(path).ok()?.into_iter().find(fits);
    let other = |path: &&PathBuf| path.is_file() && **path != object.path;
    places.iter().filter(other).find_map(open)
}

/// The dwz file that a debug file shares with others: the path in its link, next to it, and in the tree
/// that both were unpacked to; `more` are places to look at besides. With `anywhere` the path may lead out of the debug
/// file's folder.
pub(in crate::symbolicate) fn dwz_file(
    object: &ObjectFile,
    more: Vec<PathBuf>,
    anywhere: bool,
) -> Option<ObjectFile> {
    let (name, id) = object.altlink.as_ref()?;
    let mut places = Vec::new();
    if !anywhere {
        let folder = object.path.parent()?;
        let next = image_file_name(name);
        places.extend([folder.join(next), folder.join(".dwz").join(next)]);
    } else if let Some(folder) = object.path.parent() {
        places.push(PathBuf::from(name));
        places.push(folder.join(name));
        places.push(folder.join(".dwz").join(image_file_name(name)));
        let below = name.trim_start_matches('/');
        places.extend(folder.ancestors().map(|above| above.join(below)));
    }
    places.extend(more);
    places.extend(anywhere.then(|| build_id_path(Path::new(SYSTEM), id)));
    let open = |path: &PathBuf| {
        let mut objects = object_file::open(path).ok()?.into_iter();
        objects.find(|object| object.id == *id)
    };
    places.iter().filter(|path| path.is_file()).find_map(open)
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
        std::os::unix::fs::symlink(&root, root.join("05/circle")).unwrap();
        let cache = &Cache::new(&kept);
        for (jobs, follow_links) in [(1, false), (2, true), (8, false), (8, true)] {
            for cache in [None, Some(cache)] {
                let how = FolderWalk {
                    jobs,
                    cache,
                    follow_links,
                };
                assert_eq!(names(&walk(&root, how).looked, &root), expected);
            }
        }
        let how = FolderWalk {
            jobs: 2,
            cache: Some(cache),
            follow_links: false,
        };
        assert!(remembered(cache, &root.canonicalize().unwrap()).is_some());
        // A change is seen, and a removed file is gone.
        std::fs::remove_file(root.join("00/00/file")).unwrap();
        std::fs::write(root.join("00/00/other"), b"new").unwrap();
        expected[0] = "00/00/other".into();
        assert_eq!(names(&walk(&root, how).looked, &root), expected);
    }

    #[test]
    fn links_out_of_the_folder_are_followed_if_that_is_asked_for() {
        let all = tempfile::tempdir().unwrap();
        let (root, out) = (all.path().join("root"), all.path().join("out"));
        for folder in [&root, &out] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("file"), "x").unwrap();
        }
        std::os::unix::fs::symlink(&out, root.join("folder")).unwrap();
        std::os::unix::fs::symlink(out.join("file"), root.join("other")).unwrap();
        std::os::unix::fs::symlink("file", root.join("same")).unwrap();
        let how = |follow_links| FolderWalk {
            jobs: 1,
            cache: None,
            follow_links,
        };
        let walked = walk(&root, how(false));
        assert_eq!(names(&walked.looked, &root), ["file"]);
        assert_eq!(walked.links_out, 2);
        let walked = walk(&root, how(true));
        let followed = ["file", "folder/file", "other", "same"];
        assert_eq!(names(&walked.looked, &root), followed);
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
