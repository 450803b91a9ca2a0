//! Debug files by UUID or build id: those that were given, and on Linux those of the system.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::Error;
use super::cache::Cache;
use super::debug_file::{Answer, DebugFile, Work};
use super::frame::image_file_name;
use super::object_file::{self, ObjectFile};
use crate::report::model::Image;

/// So many images are kept open by default.
const OPEN_IMAGES: usize = 64;
/// Folders nest no deeper than this.
const MAX_DEPTH: usize = 64;

/// Where to look for debug information, and what was found there. `Send + Sync`.
pub struct DebugFiles {
    /// By UUID or build id.
    index: FxHashMap<Vec<u8>, Vec<Entry>>,
    system: bool,
    open: Mutex<Open>,
    work: Arc<Work>,
    #[cfg(feature = "debuginfod")]
    debuginfod: Option<super::Debuginfod>,
}

/// An object that was found.
#[derive(Debug, Clone)]
struct Entry {
    path: PathBuf,
    arch: String,
    has_dwarf: bool,
}

/// An image of which there is at least one file.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    /// File name, without the folder.
    pub name: String,
    pub arch: String,
    pub id: Vec<u8>,
}

/// The images in use, and when each was used last.
struct Open {
    images: FxHashMap<(Vec<u8>, String), Used>,
    clock: u64,
    limit: usize,
}

/// An image's files (or that there are none), and when they were last asked for.
type Used = (Option<Arc<ImageFiles>>, u64);

/// What [`DebugFiles::add`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// Objects (a universal file has several) with an id and with something to name functions by.
    pub objects: usize,
    /// Files that looked like debug files but could not be read, and why.
    pub damaged: Vec<String>,
}

impl Default for DebugFiles {
    fn default() -> DebugFiles {
        DebugFiles::new()
    }
}

impl DebugFiles {
    /// None yet, but those of the system: an image's own path, and on Linux `/usr/lib/debug`.
    pub fn new() -> DebugFiles {
        let open = Open {
            images: FxHashMap::default(),
            clock: 0,
            limit: OPEN_IMAGES,
        };
        DebugFiles {
            index: FxHashMap::default(),
            system: true,
            open: Mutex::new(open),
            work: Arc::new(Work {
                jobs: 1,
                cache: None,
            }),
            #[cfg(feature = "debuginfod")]
            debuginfod: None,
        }
    }

    /// Whether to look at an image's own path and in the system's folders, too. On by default; a
    /// back end that reads strangers' reports turns it off.
    #[must_use]
    pub fn system(mut self, system: bool) -> DebugFiles {
        self.system = system;
        self
    }

    /// Keeps lookup tables in `cache`, and uses those that are there. None by default.
    #[must_use]
    pub fn cache(mut self, cache: Option<Cache>) -> DebugFiles {
        Arc::make_mut(&mut self.work).cache = cache;
        self
    }

    /// Asks these servers for debug files that are found nowhere else. None by default.
    #[cfg(feature = "debuginfod")]
    #[must_use]
    pub fn debuginfod(mut self, debuginfod: Option<super::Debuginfod>) -> DebugFiles {
        self.debuginfod = debuginfod;
        self
    }

    /// How many threads may work on one debug file (1 by default).
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> DebugFiles {
        Arc::make_mut(&mut self.work).jobs = jobs.max(1);
        self
    }

    /// Debug files that answered straight from their DWARF, where a table in the cache would be
    /// quicker the next time.
    pub(crate) fn without_table(&self) -> Vec<PathBuf> {
        let open = self.lock();
        let images = open.images.values().filter_map(|(image, _)| image.as_ref());
        let files = images.flat_map(|image| image.files().iter().filter(|file| file.wants_table()));
        files.map(|file| file.object.path.clone()).collect()
    }

    /// Makes the tables in the cache of all debug files that were added.
    pub(crate) fn make_tables(&self) {
        for image in self.images() {
            if let Some(files) = self.find_by_id(&image.id, &image.name) {
                files.files().iter().for_each(DebugFile::make_table);
            }
        }
    }

    /// How many images to keep open at most (64 by default); the one that was not used for longest
    /// is closed first.
    #[must_use]
    pub fn limit(self, images: usize) -> DebugFiles {
        self.lock().limit = images.max(1);
        self
    }

    /// Adds what `path` holds: a Mach-O or ELF file, a `.dSYM`, an `.xcarchive`, or a folder of any
    /// of these. Only headers are read.
    ///
    /// # Errors
    /// If `path` cannot be read, or is a file that is neither Mach-O nor ELF. What is unreadable
    /// within a folder is passed over; damaged debug files are named in the result.
    pub fn add(&mut self, path: &Path) -> Result<Added, Error> {
        let mut added = Added::default();
        let meta = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
        if meta.is_dir() {
            std::fs::read_dir(path).map_err(|e| Error::io(path, e))?;
            self.walk(path, &mut HashSet::new(), 0, &mut added);
        } else {
            added.objects += self.add_objects(object_file::open(path)?);
        }
        self.lock().images.clear();
        Ok(added)
    }

    fn walk(
        &mut self,
        folder: &Path,
        seen: &mut HashSet<PathBuf>,
        depth: usize,
        added: &mut Added,
    ) {
        // The canonical path ends symlink loops.
        let Ok(real) = folder.canonicalize() else {
            return;
        };
        if depth > MAX_DEPTH || !seen.insert(real) {
            return;
        }
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        paths.sort();
        for path in paths {
            let Ok(meta) = std::fs::metadata(&path) else {
                continue;
            };
            if meta.is_dir() {
                self.walk(&path, seen, depth + 1, added);
            } else if meta.is_file() && may_be_object(&path) {
                match object_file::open(&path) {
                    Ok(objects) => added.objects += self.add_objects(objects),
                    Err(e) => added.damaged.push(e.to_string()),
                }
            }
        }
    }

    fn add_objects(&mut self, objects: Vec<ObjectFile>) -> usize {
        let mut added = 0;
        for object in objects {
            if object.id.is_empty() || !(object.has_dwarf || object.has_symbols) {
                continue;
            }
            added += 1;
            let entries = self.index.entry(object.id).or_default();
            if !entries.iter().any(|entry| entry.path == object.path) {
                entries.push(Entry {
                    path: object.path,
                    arch: object.arch,
                    has_dwarf: object.has_dwarf,
                });
                entries.sort_by_key(|entry| !entry.has_dwarf); // stable: as given, those with DWARF first
            }
        }
        added
    }

    /// The ids of all objects that were added.
    pub fn ids(&self) -> impl Iterator<Item = &[u8]> {
        self.index.keys().map(Vec::as_slice)
    }

    /// The images of all objects that were added, in order of name and id.
    pub(crate) fn images(&self) -> Vec<Listed> {
        let listed = self.index.iter().filter_map(|(id, entries)| {
            let first = entries.first()?;
            let name = first
                .path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            Some(Listed {
                name,
                arch: first.arch.clone(),
                id: id.clone(),
            })
        });
        let mut listed: Vec<Listed> = listed.collect();
        listed.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        listed
    }

    /// The files of the image with this id.
    pub(crate) fn find_by_id(&self, id: &[u8], name: &str) -> Option<Arc<ImageFiles>> {
        self.find(&Image {
            id: id.to_vec(),
            name: name.to_owned(),
            ..Image::default()
        })
    }

    /// Ids of files with this name but another id.
    pub(crate) fn others_named(&self, name: &str, id: &[u8]) -> Vec<Vec<u8>> {
        let mut others: Vec<Vec<u8>> = Vec::new();
        for (other, entries) in &self.index {
            let same = |entry: &Entry| entry.path.file_name().is_some_and(|file| file == name);
            if other != id && entries.iter().any(same) {
                others.push(other.clone());
            }
        }
        others.sort();
        others
    }

    /// The files that name addresses of `image`; `None` if there are none.
    pub(crate) fn find(&self, image: &Image) -> Option<Arc<ImageFiles>> {
        let key = (image.id.clone(), image.name.clone());
        {
            let mut open = self.lock();
            open.clock += 1;
            let clock = open.clock;
            if let Some((files, used)) = open.images.get_mut(&key) {
                *used = clock;
                return files.clone();
            }
        }
        // Without the lock: opening may take a while, and another thread may want another image.
        let files = self.open_image(image).map(Arc::new);
        let mut open = self.lock();
        while open.images.len() >= open.limit {
            let oldest = open
                .images
                .iter()
                .min_by_key(|(_, (_, used))| *used)
                .map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            open.images.remove(&oldest);
        }
        let clock = open.clock;
        open.images.entry(key).or_insert((files, clock)).0.clone()
    }

    fn open_image(&self, image: &Image) -> Option<ImageFiles> {
        let mut files: Vec<DebugFile> = Vec::new();
        let take = |path: &Path, files: &mut Vec<DebugFile>| {
            if files.iter().any(|file| file.object.path == path) {
                return;
            }
            let Ok(objects) = object_file::open(path) else {
                return;
            };
            let matching = objects
                .into_iter()
                .find(|object| object.id == image.id && !image.id.is_empty());
            if let Some(object) = matching {
                let sup = self.dwz_file(&object);
                files.push(DebugFile::new(object, sup, self.work.clone()));
            }
        };
        for entry in self.index.get(&image.id).into_iter().flatten() {
            take(&entry.path, &mut files);
        }
        if self.system {
            let own = Path::new(&image.name);
            if own.is_absolute() && own.is_file() {
                if image.id.is_empty() {
                    files.extend(self.without_id(own));
                }
                take(own, &mut files);
            }
            if !has_dwarf(&files) {
                take(
                    &build_id_path(Path::new("/usr/lib/debug"), &image.id),
                    &mut files,
                );
            }
            if !has_dwarf(&files) {
                for path in debuglinks(&files) {
                    take(&path, &mut files);
                }
            }
        }
        #[cfg(feature = "debuginfod")]
        if !has_dwarf(&files)
            && let Some(path) = self
                .debuginfod
                .as_ref()
                .and_then(|servers| servers.find(&image.id))
        {
            take(&path, &mut files);
        }
        files.sort_by_key(|file| !file.object.has_dwarf);
        (!files.is_empty()).then_some(ImageFiles { files })
    }

    /// The image at its own path, where neither it nor the report knows an id.
    fn without_id(&self, path: &Path) -> Option<DebugFile> {
        let object = object_file::open(path).ok()?.into_iter().next()?;
        object.id.is_empty().then(|| {
            let sup = self.dwz_file(&object);
            DebugFile::new(object, sup, self.work.clone())
        })
    }

    /// The dwz file that a debug file shares with others.
    fn dwz_file(&self, object: &ObjectFile) -> Option<ObjectFile> {
        let (name, id) = object.altlink.as_ref()?;
        let mut places = vec![PathBuf::from(name)];
        if let Some(folder) = object.path.parent() {
            places.push(folder.join(name));
            places.push(folder.join(".dwz").join(image_file_name(name)));
        }
        places.extend(
            self.index
                .get(id)
                .into_iter()
                .flatten()
                .map(|entry| entry.path.clone()),
        );
        places.push(build_id_path(Path::new("/usr/lib/debug"), id));
        let open = |path: &PathBuf| {
            object_file::open(path)
                .ok()?
                .into_iter()
                .find(|object| object.id == *id)
        };
        places.iter().filter(|path| path.is_file()).find_map(open)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `/usr/lib/debug/.build-id/ab/cdef.debug`
fn build_id_path(root: &Path, id: &[u8]) -> PathBuf {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at(hex.len().min(2));
    root.join(".build-id")
        .join(first)
        .join(format!("{rest}.debug"))
}

/// Where an ELF file's debuglink may lead. Whether the id agrees is checked by who opens it.
fn debuglinks(files: &[DebugFile]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for file in files {
        let (Some((link, _)), Some(folder)) = (&file.object.debuglink, file.object.path.parent())
        else {
            continue;
        };
        paths.push(folder.join(link));
        paths.push(folder.join(".debug").join(link));
        if let Ok(below) = folder.strip_prefix("/") {
            paths.push(Path::new("/usr/lib/debug").join(below).join(link));
        }
    }
    paths
}

fn has_dwarf(files: &[DebugFile]) -> bool {
    files.iter().any(|file| file.object.has_dwarf)
}

/// Whether the first bytes are worth a closer look.
fn may_be_object(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 8];
    let Ok(mut file) = std::fs::File::open(path) else {
        return false;
    };
    file.read_exact(&mut head).is_ok() && object_file::looks_like_object(&head)
}

/// The files of one image: those with DWARF first, then those with symbols alone.
pub(crate) struct ImageFiles {
    files: Vec<DebugFile>,
}

impl ImageFiles {
    /// Frames at an address stated in the image.
    pub(crate) fn lookup(&self, svma: u64) -> Option<Answer> {
        self.files.iter().find_map(|file| file.lookup(svma))
    }

    /// The stated address of the image's first byte.
    pub(crate) fn base(&self) -> u64 {
        self.files.first().map_or(0, |file| file.object.base)
    }

    pub(crate) fn is_mach_o(&self) -> bool {
        self.files
            .first()
            .is_some_and(|file| file.object.is_mach_o())
    }

    pub(crate) fn has_debug_info(&self) -> bool {
        has_dwarf(&self.files)
    }

    pub(crate) fn files(&self) -> &[DebugFile] {
        &self.files
    }
}
