//! Finds debug files: those in a folder, looked into on several threads; and those of one image, at its own path, in
//! the system's folders, at the targets of links.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use walkdir::{DirEntry, WalkDir};

use super::archives;
use super::bytes::SharedBytes;
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
const MIN_PARALLEL: usize = 32;
/// Bytes of a Mach-O file's id; build ids of ELF files are longer.
pub(in crate::symbolicate) const UUID: usize = 16;

/// An object in a file, by what its headers say.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    pub(in crate::symbolicate) fn lacks_dwarf(&self) -> bool {
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
#[derive(Debug, Clone)]
pub(in crate::symbolicate) struct InspectedFile {
    pub path: PathBuf,
    /// The objects in it (none in a file of another kind), or why it could not be read.
    pub objects: Result<Vec<ObjectSummary>, String>,
}

/// How a folder is walked.
#[derive(Debug, Clone, Copy)]
pub(in crate::symbolicate) struct FolderWalk {
    /// Threads that look into files.
    pub jobs: usize,
    /// Follows links, also out of the folder.
    pub follow_links: bool,
}

/// What was found below a folder.
pub(in crate::symbolicate) struct WalkResult {
    /// All files, in order of path.
    pub looked: Vec<InspectedFile>,
    /// Count of links that lead out of the folder, and were not followed.
    pub links_out: usize,
}

/// Looks into all files below `folder`. What cannot be read is passed over. Of a link that stays in the folder the target is
/// found without it.
pub(in crate::symbolicate) fn walk(folder: &Path, how: FolderWalk) -> WalkResult {
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
    let mut looked = run_parallel(how.jobs.min(files.len() / MIN_PARALLEL), files, |entry| {
        let path = entry.into_path();
        let objects = list_objects(&path);
        InspectedFile { path, objects }
    });
    looked.sort_by(|a: &InspectedFile, b| a.path.cmp(&b.path));
    WalkResult { looked, links_out }
}

/// Runs `work` on each input, by so many threads. The results are in the order of the inputs.
pub(in crate::symbolicate) fn run_parallel<I: Send, T: Send>(
    jobs: usize,
    inputs: Vec<I>,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    if jobs.min(inputs.len()) <= 1 {
        return inputs.into_iter().map(work).collect();
    }
    let threads = jobs.min(inputs.len());
    let inputs = Mutex::new(inputs.into_iter().enumerate());
    let results = Mutex::new(Vec::new());
    let run = || {
        loop {
            let next = lock(&inputs).next();
            let Some((at, input)) = next else {
                return;
            };
            let result = work(input);
            lock(&results).push((at, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|&(at, _)| at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Lists the objects in a file. Of a file that is no object, only the first bytes are read.
fn list_objects(path: &Path) -> Result<Vec<ObjectSummary>, String> {
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
pub(in crate::symbolicate) fn by_link(object: &ObjectFile) -> Option<ObjectFile> {
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

    fn names(looked: &[InspectedFile], root: &Path) -> Vec<String> {
        let name = |of: &InspectedFile| of.path.strip_prefix(root).unwrap().display().to_string();
        looked.iter().map(name).collect()
    }

    /// Hundreds of folders, links in a circle among them: every file once, in order, on any number of
    /// threads.
    #[test]
    fn every_file_once_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
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
        for (jobs, follow_links) in [(1, false), (2, true), (8, false), (8, true)] {
            let how = FolderWalk { jobs, follow_links };
            assert_eq!(names(&walk(&root, how).looked, &root), expected);
        }
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
            follow_links,
        };
        let walked = walk(&root, how(false));
        assert_eq!(names(&walked.looked, &root), ["file"]);
        assert_eq!(walked.links_out, 2);
        let walked = walk(&root, how(true));
        let followed = ["file", "folder/file", "other", "same"];
        assert_eq!(names(&walked.looked, &root), followed);
    }
}
