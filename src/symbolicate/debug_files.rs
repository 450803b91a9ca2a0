//! Debug files by UUID or build id: those that were given, and on Linux those of the system.

mod finding;
mod open_images;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use super::Error;
use super::debug_info::convert::NoTable;
use super::debug_info::debug_file::{DebugFileOptions, FileHistory};
use super::files::apple_places::{ApplePlaces, dsymutil_hint};
use super::files::cache::Cache;
use super::files::object_file;
use super::files::search::{self, FolderWalk, ObjectSummary};
use super::frame::id_text;
use super::image_files::ImageFiles;
use super::lock;
use crate::report::model::Image;
pub(crate) use open_images::ImageKey;
use open_images::OpenImages;

/// Most images of a folder whose symbols are searched for a debug map.
const MAX_WITHOUT_DWARF: usize = 16;
/// Most of them that are named in a hint.
const MAX_HINTS: usize = 3;

/// The folders and files that are searched for debug information, and the results so far. `Send + Sync`.
pub struct DebugFiles {
    /// Objects by UUID or build id. Objects without an id are under the empty one.
    index: BTreeMap<Vec<u8>, Vec<FoundObject>>,
    /// The ids in `index`, by file name.
    names: FxHashMap<OsString, BTreeSet<Vec<u8>>>,
    /// Images that were added by their own path and cannot name functions.
    nameless: Vec<FoundObject>,
    /// The paths that were added.
    given: Vec<PathBuf>,
    apple: ApplePlaces,
    follow_links: bool,
    /// True if the program or library at the path that a report names is read, if its id is that of the report.
    pub(crate) reads_named: bool,
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
    /// Creates a set that searches the system's files alone: its libraries, by an image's own path, and on Linux
    /// `/usr/lib/debug`.
    pub fn new() -> DebugFiles {
        DebugFiles {
            index: BTreeMap::new(),
            names: FxHashMap::default(),
            nameless: Vec::new(),
            given: Vec::new(),
            apple: ApplePlaces::default(),
            follow_links: false,
            reads_named: false,
            open: Mutex::new(OpenImages::new()),
            options: Arc::new(DebugFileOptions {
                jobs: 1,
                cache: None,
                search: true,
                max_size: u64::MAX,
                making: Arc::default(),
            }),
            #[cfg(feature = "debuginfod")]
            debuginfod: None,
        }
    }

    /// Turns off the search of places that were not added: the path of an image in the system's folders of
    /// libraries, `/usr/lib/debug`, the paths of further files that a debug file names, a dSYM beside a binary that
    /// was added, Spotlight (`mdfind`), and Xcode's folders of archives, products and devices. A back end that reads
    /// strangers' reports calls this.
    ///
    /// A report's own path elsewhere is never looked at (the command looks at it). A program that names its own frames adds
    /// [`current_exe`](std::env::current_exe).
    #[must_use]
    pub fn no_search(mut self) -> DebugFiles {
        Arc::make_mut(&mut self.options).search = false;
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
        Arc::make_mut(&mut self.options).max_size = bytes;
        self
    }

    /// Keeps lookup tables in `cache`, and uses those that are there. None by default.
    #[must_use]
    pub fn cache(mut self, cache: Option<Cache>) -> DebugFiles {
        Arc::make_mut(&mut self.options).cache = cache;
        self
    }

    /// Queries these servers for debug files that are found nowhere else. None by default.
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

    /// Sets the number of images to keep open at most; no limit by default. Their memory is limited, too: some 256
    /// MB, besides mapped files. The least recently used image is closed first.
    #[must_use]
    pub fn limit(self, images: usize) -> DebugFiles {
        lock(&self.open).limit = images.max(1);
        self
    }

    /// Adds what `path` holds: a Mach-O or ELF file, a `.dSYM`, an `.xcarchive`, a dyld shared cache, or a
    /// folder of any of these, as Xcode's `DeviceSupport` is one. Only headers are read. A folder is walked by as many
    /// threads as [`jobs`](DebugFiles::jobs) allows.
    ///
    /// # Errors
    /// If `path` cannot be read, or is a file that is neither Mach-O nor ELF nor a shared cache. Unreadable files
    /// within a folder are skipped; damaged debug files are named in the result.
    pub fn add(&mut self, path: &Path) -> Result<Added, Error> {
        let mut added = Added::default();
        let meta = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
        if meta.is_dir() {
            std::fs::read_dir(path).map_err(|e| Error::io(path, e))?;
            let how = FolderWalk {
                jobs: self.options.jobs,
                follow_links: self.follow_links,
            };
            let walked = search::walk(path, how);
            added.links_out = walked.links_out;
            let mut images = Vec::new();
            for looked in walked.looked {
                match looked.objects {
                    Ok(objects) => {
                        let lacking = objects.iter().filter(|file| file.lacks_dwarf());
                        images.extend(lacking.map(|file| (file.id.clone(), looked.path.clone())));
                        added.objects += self.add_objects(&looked.path, objects);
                    }
                    Err(damage) => added.damaged.push(damage),
                }
            }
            images.retain(|(id, _)| !self.has_dwarf(id));
            let lacking = images.iter().take(MAX_WITHOUT_DWARF);
            let commands = lacking.filter_map(|(_, path)| dsymutil_hint(path));
            added.damaged.extend(commands.take(MAX_HINTS));
        } else {
            let objects = search::objects(path)?;
            if !objects.iter().any(ObjectSummary::names) {
                let with_code = objects.iter().filter(|object| object.has_code);
                self.nameless.extend(with_code.map(|object| FoundObject {
                    path: path.to_owned(),
                    object: object.clone(),
                }));
                let linked = object_file::open(path)?
                    .iter()
                    .filter_map(search::by_link)
                    .count();
                added.objects += if self.options.search { linked } else { 0 };
            }
            added.objects += self.add_objects(path, objects);
            added.damaged.extend(dsymutil_hint(path));
        }
        self.given.push(path.to_owned());
        lock(&self.open).clear();
        Ok(added)
    }

    /// Returns true if an object with this id and with debug information was added.
    fn has_dwarf(&self, id: &[u8]) -> bool {
        let entries = self.index.get(id);
        entries.is_some_and(|all| all.iter().any(|entry| entry.object.has_dwarf))
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

    /// Returns the images of all objects that were added, in order of name and id; if none of them can name
    /// functions, the images that were added by their own path.
    pub(crate) fn images(&self) -> Vec<FoundObject> {
        let listed = self.index.iter().flat_map(|(id, entries)| {
            // Without an id, two files may be of different images.
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
        let listed = Image {
            id: id.clone(),
            name: image.name().into_owned(),
            ..Image::default()
        };
        let found = (!id.is_empty()).then(|| self.find(&listed, None)).flatten();
        found.or_else(|| {
            let mut objects = object_file::open(&image.path).ok()?.into_iter();
            let object = objects.find(|object| object.id == *id && object.arch == *arch)?;
            let linked = search::by_link(&object).filter(|_| self.options.search);
            let files = linked.into_iter().chain([object]);
            let files = files.filter_map(|object| self.debug_file(object));
            Some(Arc::new(ImageFiles::new(files.collect())))
        })
    }

    /// Returns the opened files of which no table can be made, each with the reason, in order.
    pub(crate) fn without_table(&self) -> Vec<(PathBuf, NoTable)> {
        let open = lock(&self.open);
        let reason = |((path, _), history): (&(PathBuf, Vec<u8>), &Arc<Mutex<FileHistory>>)| {
            Some((
                path.clone(),
                lock(history).table.as_ref()?.as_ref().err().copied()?,
            ))
        };
        let mut all: Vec<_> = open.histories.iter().filter_map(reason).collect();
        all.sort();
        all
    }

    /// Ids of files with this name but another id.
    pub(crate) fn others_named(&self, name: &str, id: &[u8]) -> Vec<Vec<u8>> {
        let ids = self.names.get(OsStr::new(name)).into_iter().flatten();
        let others = ids.filter(|other| *other != id && !other.is_empty());
        others.cloned().collect()
    }

    /// The key by which an image is known: two reports' images of one key have the same files.
    pub(crate) fn key(image: &Image) -> ImageKey {
        let id = match &image.text_hash {
            Some(hash) if image.id.is_empty() => hash,
            _ => &image.id,
        };
        (id.clone(), image.name.clone())
    }

    /// Returns the files that name addresses of `image`; `None` if no file was found.
    /// `build` is that of the system that it ran on.
    pub(crate) fn find(&self, image: &Image, build: Option<&str>) -> Option<Arc<ImageFiles>> {
        let key = DebugFiles::key(image);
        if let Some(files) = lock(&self.open).lookup(&key) {
            return files;
        }
        // Without the lock: opening may take a while, and another thread may want another image.
        let files = self.open_image(image, build).map(Arc::new);
        lock(&self.open).add(&key, files)
    }

    /// Notes that a batch is done with an image, which is closed if there is no room for what was read of it.
    pub(crate) fn is_done(&self, image: &Image) {
        lock(&self.open).is_done(&DebugFiles::key(image));
    }
}
