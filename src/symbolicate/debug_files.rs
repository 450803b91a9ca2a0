//! Debug files by UUID or build id: those that were given, and on Linux those of the system.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use super::Error;
use super::debug_info::debug_file::{DebugFile, DebugFileOptions, Learned};
use super::files::bytes::SharedBytes;
use super::files::cache::Cache;
use super::files::dyld_cache;
use super::files::links::is_system_library;
use super::files::object_file::{self, ObjectFile};
use super::files::search::{self, FolderWalk, ObjectSummary};
use super::frame::id_text;
use super::image_files::{ImageFiles, has_dwarf};
use super::lock;
use crate::report::model::Image;

/// Memory that open images may take, roughly, besides what is mapped of their files. A file that is mapped needs no
/// descriptor.
const OPEN_BYTES: usize = 256 << 20;
/// Images without a file that are known to have none.
const KNOWN_IMAGES: usize = 1 << 14;
/// Look-ups of images after which their memory is summed up again: it grows with use.
const WEIGH_EVERY: u64 = 256;

/// The folders and files that are searched for debug information, and the results so far. `Send + Sync`.
pub struct DebugFiles {
    /// Objects by UUID or build id; those that have none together.
    index: BTreeMap<Vec<u8>, Vec<FoundObject>>,
    /// The ids in it, by file name.
    names: FxHashMap<OsString, BTreeSet<Vec<u8>>>,
    /// Images given by their own path that have nothing to name functions by.
    nameless: Vec<FoundObject>,
    follow_links: bool,
    max_size: u64,
    open: Mutex<OpenImages>,
    options: Arc<DebugFileOptions>,
    #[cfg(feature = "debuginfod")]
    debuginfod: Option<super::Debuginfod>,
}

/// An object that was found.
#[derive(Debug, Clone)]
pub(crate) struct FoundObject {
    pub path: PathBuf,
    pub object: ObjectSummary,
}

impl FoundObject {
    /// File name, without the folder.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy()
    }

    /// Name, architecture and id, in words.
    pub(crate) fn describe(&self) -> String {
        let (name, arch) = (self.name(), &self.object.arch);
        match &self.object.id[..] {
            [] => format!("{name} {arch} without an id: {}", self.path.display()),
            id => format!("{name} {arch} {}", id_text(id)),
        }
    }
}

/// The images in use, and when each was used last.
struct OpenImages {
    images: FxHashMap<(Vec<u8>, String), OpenImage>,
    clock: u64,
    limit: usize,
    /// What is known of each file that was opened, by its path and id.
    learned: FxHashMap<(PathBuf, Vec<u8>), Arc<Mutex<Learned>>>,
}

impl OpenImages {
    /// Closes those that were not used for longest, until the others are within the limits, but never `keep`.
    fn make_room(&mut self, keep: &(Vec<u8>, String)) {
        if self.images.len() > KNOWN_IMAGES {
            self.images.retain(|_, (files, _)| files.is_some());
        }
        let is_open = |(key, (files, used)): (&(Vec<u8>, String), &OpenImage)| {
            let weight = files.as_ref()?.weight();
            Some((*used, weight, key.clone()))
        };
        let mut open: Vec<_> = self.images.iter().filter_map(is_open).collect();
        open.sort_unstable();
        let (mut count, mut bytes) = (open.len(), open.iter().map(|of| of.1).sum::<usize>());
        for (_, weight, key) in open {
            if count <= self.limit && bytes <= OPEN_BYTES {
                return;
            }
            if key != *keep {
                self.images.remove(&key);
                (count, bytes) = (count - 1, bytes.saturating_sub(weight));
            }
        }
    }
}

/// An image's files (`None` if it has no file), and when they were used last.
type OpenImage = (Option<Arc<ImageFiles>>, u64);

/// The result of [`DebugFiles::add`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// Objects (a universal file has several) with an id and with something to name functions by.
    pub objects: usize,
    /// Files that looked like debug files but could not be read, and why.
    pub damaged: Vec<String>,
    /// Links that lead out of the folder, and were not followed: see [`DebugFiles::follow_links`].
    pub links_out: usize,
}

impl Default for DebugFiles {
    fn default() -> DebugFiles {
        DebugFiles::new()
    }
}

impl DebugFiles {
    /// Only the system's: its libraries, by an image's own path, and on Linux `/usr/lib/debug`.
    pub fn new() -> DebugFiles {
        let open = OpenImages {
            images: FxHashMap::default(),
            clock: 0,
            limit: usize::MAX,
            learned: FxHashMap::default(),
        };
        DebugFiles {
            index: BTreeMap::new(),
            names: FxHashMap::default(),
            nameless: Vec::new(),
            follow_links: false,
            max_size: u64::MAX,
            open: Mutex::new(open),
            options: Arc::new(DebugFileOptions {
                jobs: 1,
                cache: None,
                search: true,
                making: Arc::default(),
            }),
            #[cfg(feature = "debuginfod")]
            debuginfod: None,
        }
    }

    /// Also looks where nobody pointed to, if `system` is true: at the path of an image in the system's folders of
    /// libraries, in `/usr/lib/debug`, and at the paths of further files that a debug file names. On by default; a
    /// back end that reads strangers' reports turns it off.
    ///
    /// A report's own path elsewhere is never looked at. A program that names its own frames adds
    /// [`current_exe`](std::env::current_exe).
    #[must_use]
    pub fn system(mut self, system: bool) -> DebugFiles {
        Arc::make_mut(&mut self.options).search = system;
        self
    }

    /// Follows links that lead out of a folder that is [added](DebugFiles::add) after this. Off by default: whoever may
    /// write in the folder would choose which files are read.
    #[must_use]
    pub fn follow_links(mut self, follow: bool) -> DebugFiles {
        self.follow_links = follow;
        self
    }

    /// Sets the size of the largest debug file to open, also once its sections are unpacked; no limit by
    /// default. Naming addresses takes at most some three times this much memory.
    #[must_use]
    pub fn max_size(mut self, bytes: u64) -> DebugFiles {
        self.max_size = bytes;
        self
    }

    /// Keeps lookup tables in `cache`, and uses those that are there. None by default.
    #[must_use]
    pub fn cache(mut self, cache: Option<Cache>) -> DebugFiles {
        Arc::make_mut(&mut self.options).cache = cache;
        self
    }

    /// Asks these servers for debug files that are found nowhere else. None by default.
    #[cfg(feature = "debuginfod")]
    #[must_use]
    pub fn debuginfod(mut self, debuginfod: Option<super::Debuginfod>) -> DebugFiles {
        self.debuginfod = debuginfod;
        self
    }

    /// Sets the number of threads that may work on one debug file (1 by default).
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> DebugFiles {
        Arc::make_mut(&mut self.options).jobs = jobs.max(1);
        self
    }

    /// Sets the number of images to keep open at most; no limit by default, but that of memory: some 256 MB, besides what
    /// is mapped of files. The one that was not used for longest is closed first.
    #[must_use]
    pub fn limit(self, images: usize) -> DebugFiles {
        lock(&self.open).limit = images.max(1);
        self
    }

    /// Adds what `path` holds: a Mach-O or ELF file, a `.dSYM`, an `.xcarchive`, a dyld shared cache, or a
    /// folder of any of these, as Xcode's `DeviceSupport` is one. Only headers are read. A folder is walked by as many
    /// threads as [`jobs`](DebugFiles::jobs) allows; what was found in it is remembered in the
    /// [`cache`](DebugFiles::cache).
    ///
    /// # Errors
    /// If `path` cannot be read, or is a file that is neither Mach-O nor ELF nor a shared cache. What is unreadable
    /// within a folder is passed over; damaged debug files are named in the result.
    pub fn add(&mut self, path: &Path) -> Result<Added, Error> {
        let mut added = Added::default();
        let meta = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
        if meta.is_dir() {
            std::fs::read_dir(path).map_err(|e| Error::io(path, e))?;
            let walked = search::walk(
                path,
                FolderWalk {
                    jobs: self.options.jobs,
                    cache: self.options.cache.as_ref(),
                    follow_links: self.follow_links,
                },
            );
            added.links_out = walked.links_out;
            for looked in walked.looked {
                match looked.objects {
                    Ok(objects) => added.objects += self.add_objects(&looked.path, objects),
                    Err(damage) => added.damaged.push(damage),
                }
            }
        } else {
            let objects = search::objects(path)?;
            if !objects.iter().any(ObjectSummary::names) {
                let path = || path.to_owned();
                let images = objects.iter().filter(|object| object.has_code).cloned();
                let images = images.map(|object| FoundObject {
                    path: path(),
                    object,
                });
                self.nameless.extend(images);
            }
            added.objects += self.add_objects(path, objects);
        }
        lock(&self.open).images.clear();
        Ok(added)
    }

    /// Adds the objects of one file that have something to name functions by.
    fn add_objects(&mut self, path: &Path, objects: Vec<ObjectSummary>) -> usize {
        let mut added = 0;
        for object in objects.into_iter().filter(ObjectSummary::names) {
            added += 1;
            let name = path.file_name().unwrap_or_default().to_owned();
            let ids = self.names.entry(name).or_default();
            ids.insert(object.id.clone());
            let entries = self.index.entry(object.id.clone()).or_default();
            let same = |entry: &FoundObject| entry.path == path && entry.object.arch == object.arch;
            if !entries.iter().any(same) {
                let path = path.to_owned();
                entries.push(FoundObject { path, object });
                entries.sort_by_key(|entry| !entry.object.has_dwarf); // stable: as given, those with DWARF first
            }
        }
        added
    }

    /// The ids of all objects that were added.
    pub fn ids(&self) -> impl Iterator<Item = &[u8]> {
        let ids = self.index.keys().map(Vec::as_slice);
        ids.filter(|id| !id.is_empty())
    }

    /// The images of all objects that were added, in order of name and id; where none of them can name
    /// anything, those of the files that were given.
    pub(crate) fn images(&self) -> Vec<FoundObject> {
        let listed = self.index.iter().flat_map(|(id, entries)| {
            // Without an id nothing says that two files are of one image.
            let count = if id.is_empty() { entries.len() } else { 1 };
            entries.iter().take(count).cloned()
        });
        let mut listed: Vec<FoundObject> = listed.collect();
        if listed.is_empty() {
            listed.extend(self.nameless.iter().cloned());
        }
        let key = |of: &FoundObject| {
            let name = of.name().into_owned();
            (name, of.object.id.clone(), of.path.clone())
        };
        listed.sort_by_cached_key(key);
        listed
    }

    /// The files of an image that was added.
    pub(crate) fn open_listed(&self, image: &FoundObject) -> Option<Arc<ImageFiles>> {
        let ObjectSummary { id, arch, .. } = &image.object;
        if self.index.contains_key(id) && !id.is_empty() {
            return self.find(&Image {
                id: id.clone(),
                name: image.name().into_owned(),
                ..Image::default()
            });
        }
        let mut objects = object_file::open(&image.path).ok()?.into_iter();
        let object = objects.find(|object| object.id == *id && object.arch == *arch)?;
        Some(Arc::new(ImageFiles::new(vec![self.debug_file(object)?])))
    }

    /// Files that were opened and of which no table can be made, and why, in order. Waits for a table that is being made for
    /// the cache.
    pub(crate) fn without_table(&self) -> Vec<(PathBuf, String)> {
        if self.options.cache.is_some() {
            let making = lock(&self.options.making).take();
            let _ = making.map(std::thread::JoinHandle::join);
        }
        let open = lock(&self.open);
        let reason = |((path, _), learned): (&(PathBuf, Vec<u8>), &Arc<Mutex<Learned>>)| {
            Some((path.clone(), lock(learned).no_table.clone()?))
        };
        let mut all: Vec<_> = open.learned.iter().filter_map(reason).collect();
        all.sort();
        all
    }

    /// Ids of files with this name but another id.
    pub(crate) fn others_named(&self, name: &str, id: &[u8]) -> Vec<Vec<u8>> {
        let ids = self.names.get(OsStr::new(name)).into_iter().flatten();
        let others = ids.filter(|other| *other != id && !other.is_empty());
        others.cloned().collect()
    }

    /// Returns the files that name addresses of `image`; `None` if no file was found.
    pub(crate) fn find(&self, image: &Image) -> Option<Arc<ImageFiles>> {
        let hash = image.text_hash.as_ref().filter(|_| image.id.is_empty());
        let build = hash.unwrap_or(&image.id);
        let key = (build.clone(), image.name.clone());
        {
            let mut open = lock(&self.open);
            open.clock += 1;
            let clock = open.clock;
            if clock.is_multiple_of(WEIGH_EVERY) {
                open.make_room(&key);
            }
            if let Some((files, used)) = open.images.get_mut(&key) {
                *used = clock;
                return files.clone();
            }
        }
        // Without the lock: opening may take a while, and another thread may want another image.
        let files = self.open_image(image).map(Arc::new);
        let mut open = lock(&self.open);
        let clock = open.clock;
        let entry = open.images.entry(key.clone());
        let files = entry.or_insert((files, clock)).0.clone();
        if open.images.len() > open.limit.min(KNOWN_IMAGES) {
            open.make_room(&key);
        }
        files
    }

    fn open_image(&self, image: &Image) -> Option<ImageFiles> {
        let mut files: Vec<DebugFile> = Vec::new();
        let take = |path: &Path, files: &mut Vec<DebugFile>| {
            if image.id.is_empty() || files.iter().any(|file| file.object().path == path) {
                return;
            }
            let found = open_by_id(path, &image.id).ok().flatten();
            files.extend(found.and_then(|object| self.debug_file(object)));
        };
        for entry in self.entries(&image.id) {
            if image.id.is_empty() && image.text_hash.is_some() {
                files.extend(self.without_id(&entry.path, image));
            }
            take(&entry.path, &mut files);
        }
        if self.options.search {
            let own = Path::new(&image.name);
            if is_system_library(own) {
                if image.id.is_empty() && image.text_hash.is_some() {
                    files.extend(self.without_id(own, image));
                }
                take(own, &mut files);
            }
            if !has_dwarf(&files) {
                let path = search::build_id_path(Path::new(search::SYSTEM), &image.id);
                take(&path, &mut files);
            }
            if !has_dwarf(&files) {
                let linked = files.iter().find_map(|file| search::linked(file.object()));
                let linked = linked.or_else(|| self.linked_by_nameless(image));
                files.extend(linked.and_then(|object| self.debug_file(object)));
            }
        }
        #[cfg(feature = "debuginfod")]
        if let Some(servers) = self.debuginfod.as_ref().filter(|_| !has_dwarf(&files))
            && let Some(path) = servers.find(&image.id)
        {
            take(&path, &mut files);
        }
        files.sort_by_key(|file| !file.object().has_dwarf);
        (!files.is_empty()).then(|| ImageFiles::new(files))
    }

    /// The debug file that a given image links to, which has nothing to name functions by itself.
    fn linked_by_nameless(&self, image: &Image) -> Option<ObjectFile> {
        let given = self.nameless.iter();
        let mut same = given.filter(|given| given.object.id == image.id);
        same.find_map(|given| {
            let object = match image.id.is_empty() {
                true => object_file::open(&given.path).ok()?.into_iter().next()?,
                false => open_by_id(&given.path, &image.id).ok().flatten()?,
            };
            is_what_ran(&object, image).then(|| search::linked(&object))?
        })
    }

    /// The objects of this id; of a build id's front, as far as it goes for a GUID, those of the whole.
    fn entries(&self, id: &[u8]) -> impl Iterator<Item = &FoundObject> {
        let known = self.index.get(id);
        let longer = self
            .index
            .range::<[u8], _>((Bound::Excluded(id), Bound::Unbounded));
        let longer = longer.take_while(|(other, _)| other.starts_with(id));
        let longer = longer.filter(move |(other, _)| known.is_none() && is_front(id, other));
        known
            .into_iter()
            .chain(longer.map(|(_, entries)| entries))
            .flatten()
    }

    /// The image in this file, where neither it nor the report knows an id: its text must be the one
    /// that ran, if the report says which that was.
    fn without_id(&self, path: &Path, image: &Image) -> Option<DebugFile> {
        let object = object_file::open(path).ok()?.into_iter().next()?;
        let is_it = object.id.is_empty() && is_what_ran(&object, image);
        is_it.then(|| self.debug_file(object))?
    }

    /// The object at work; `None` if it is not within [`max_size`](DebugFiles::max_size).
    fn debug_file(&self, object: ObjectFile) -> Option<DebugFile> {
        let has_room = |of: &ObjectFile| of.unpacked.max(of.bytes.len() as u64) <= self.max_size;
        let object = Some(object).filter(has_room)?;
        let sup = self.dwz_file(&object).filter(has_room);
        let key = (object.path.clone(), object.id.clone());
        let learned = lock(&self.open).learned.entry(key).or_default().clone();
        let options = self.options.clone();
        Some(DebugFile::new(object, sup, options, learned))
    }

    /// Places that a debug file's dwz file may be at, by what was added.
    fn dwz_file(&self, object: &ObjectFile) -> Option<ObjectFile> {
        let (_, id) = object.altlink.as_ref()?;
        let entries = self.index.get(id).into_iter().flatten();
        let entries = entries.map(|entry| entry.path.clone());
        search::dwz_file(object, entries.collect(), self.options.search)
    }
}

/// Returns true if the text of an object is the one that ran, if the report has its hash.
fn is_what_ran(object: &ObjectFile, image: &Image) -> bool {
    let ran = image.text_hash.as_deref();
    ran.is_none_or(|ran| object.text_hash().is_some_and(|hash| hash == *ran))
}

/// The object in a file that has this UUID or build id.
fn open_by_id(path: &Path, id: &[u8]) -> Result<Option<ObjectFile>, Error> {
    let bytes = SharedBytes::map(path)?;
    if object_file::is_shared_cache(&bytes) {
        return dyld_cache::image(path, &bytes, id);
    }
    let mut objects = object_file::open_bytes(path, bytes)?.into_iter();
    Ok(objects.find(|object| object.id == id || is_front(id, &object.id)))
}

/// Returns true if `id` is what fits into a GUID of a longer build id: other recorders have no more of it.
fn is_front(id: &[u8], build_id: &[u8]) -> bool {
    id.len() == 16 && build_id.len() > 16 && build_id.starts_with(id)
}
