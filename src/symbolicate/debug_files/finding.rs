//! Finds the files of one image: those that were given, then the places where others lie.

use std::ops::Bound;
use std::path::Path;

use super::{DebugFiles, FoundObject};
use crate::report::model::Image;
use crate::symbolicate::Error;
use crate::symbolicate::debug_info::debug_file::DebugFile;
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::links::is_system_library;
use crate::symbolicate::files::object_file::{self, ObjectFile};
use crate::symbolicate::files::search::UUID;
use crate::symbolicate::files::{apple_places, dyld_cache, owner, search};
use crate::symbolicate::frame::is_system;
use crate::symbolicate::image_files::{ImageFiles, has_dwarf};
use crate::symbolicate::lock;

impl DebugFiles {
    /// Opens the files of an image, those with debug information first; `None` if there are none.
    pub(super) fn open_image(&self, image: &Image, build: Option<&str>) -> Option<ImageFiles> {
        let mut files: Vec<DebugFile> = Vec::new();
        let add = |object: Option<ObjectFile>, files: &mut Vec<DebugFile>| {
            files.extend(object.and_then(|object| self.debug_file(object)));
        };
        let take = |path: &Path, files: &mut Vec<DebugFile>| {
            if !files.iter().any(|file| file.object().path == path) {
                let bytes = SharedBytes::map(path);
                let found = bytes.and_then(|bytes| object_in(path, bytes, image));
                add(found.ok().flatten(), files);
            }
        };
        for entry in self.entries(&image.id) {
            take(&entry.path, &mut files);
        }
        if self.options.search {
            self.take_beside(image, &mut files, &take);
            let image_path = Path::new(&image.name);
            if is_system_library(image_path) {
                take(image_path, &mut files);
            } else if !has_dwarf(&files) {
                add(self.at_named_path(image).and_then(Result::ok), &mut files);
            }
            if !has_dwarf(&files) {
                let path = search::build_id_path(Path::new(search::SYSTEM), &image.id);
                take(&path, &mut files);
            }
            if !has_dwarf(&files) {
                let linked = files.iter().find_map(|file| search::by_link(file.object()));
                add(
                    linked.or_else(|| self.linked_by_nameless(image)),
                    &mut files,
                );
            }
            // Apple's own libraries have a dSYM nowhere.
            if !has_dwarf(&files) && !is_system(&image.name) {
                for path in self.apple.find(&image.id) {
                    take(&path, &mut files);
                }
            }
            if files.is_empty() && image.id.len() == UUID {
                let mut copies = apple_places::in_device_support(&image.name, build).into_iter();
                while files.is_empty()
                    && let Some(path) = copies.next()
                {
                    take(&path, &mut files);
                }
            }
        }
        #[cfg(feature = "debuginfod")]
        if !has_dwarf(&files)
            && let Some(servers) = &self.debuginfod
            && let Some(path) = servers.find(&image.id)
        {
            take(&path, &mut files);
        }
        files.sort_by_key(|file| !file.object().has_dwarf);
        (!files.is_empty()).then(|| ImageFiles::new(files))
    }

    /// Returns the debug file that an added image links to. The image itself cannot name functions.
    fn linked_by_nameless(&self, image: &Image) -> Option<ObjectFile> {
        let given = self.nameless.iter();
        let mut same = given.filter(|given| given.object.id == image.id);
        same.find_map(|given| {
            let mut objects = object_file::open(&given.path).ok()?.into_iter();
            let object = objects.find(|object| object.id == image.id && is_what_ran(object, image));
            search::by_link(&object?)
        })
    }

    /// Returns the objects of this id. If there are none, and the id is a build id cut to the length of a GUID, those
    /// of the whole build id.
    fn entries(&self, id: &[u8]) -> impl Iterator<Item = &FoundObject> {
        let known = self.index.get(id);
        let longer = self
            .index
            .range::<[u8], _>((Bound::Excluded(id), Bound::Unbounded))
            .take_while(|(other, _)| other.starts_with(id))
            .filter(move |(other, _)| known.is_none() && is_front(id, other))
            .map(|(_, entries)| entries);
        known.into_iter().chain(longer).flatten()
    }

    /// Opens the image at the path that the report names. `None` if there is no file, or if such paths are not read.
    ///
    /// # Errors
    /// The reason why the file that is there is not read.
    pub(crate) fn at_named_path(&self, image: &Image) -> Option<Result<ObjectFile, Error>> {
        let path = Path::new(&image.name);
        let file = (self.reads_named && self.options.search).then(|| owner::open_named(path))??;
        let bytes = file.and_then(|file| SharedBytes::map_open(&file, path));
        let object = bytes.and_then(|bytes| object_in(path, bytes, image));
        let other = || Error::bad_file(path, "another build of it is there");
        Some(object.and_then(|object| object.ok_or_else(other)))
    }

    /// Takes the dSYM beside an added binary that has no debug information itself.
    fn take_beside(
        &self,
        image: &Image,
        files: &mut Vec<DebugFile>,
        take: &dyn Fn(&Path, &mut Vec<DebugFile>),
    ) {
        if has_dwarf(files) || image.id.len() != UUID {
            return;
        }
        let given = self
            .nameless
            .iter()
            .filter(|given| given.object.id == image.id);
        let given: Vec<&FoundObject> = self.entries(&image.id).chain(given).collect();
        let beside = given
            .iter()
            .flat_map(|given| apple_places::dsyms_beside(&given.path));
        beside.for_each(|path| take(&path, files));
    }

    /// The places in which debug files are looked for, in words.
    pub(crate) fn searched(&self) -> Vec<String> {
        let mut places: Vec<String> = self
            .given
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        if self.options.search {
            places.push("the system's folders of libraries".into());
            places.push(search::SYSTEM.into());
            places.extend(apple_places::searched());
        }
        #[cfg(feature = "debuginfod")]
        places.extend(
            self.debuginfod
                .iter()
                .flat_map(|servers| servers.servers().iter().cloned()),
        );
        places
    }

    /// Prepares an object for look-ups; returns `None` if it is larger than [`max_size`](DebugFiles::max_size).
    pub(super) fn debug_file(&self, object: ObjectFile) -> Option<DebugFile> {
        let most = self.options.max_size;
        let has_room = |of: &ObjectFile| of.unpacked.max(of.bytes.len() as u64) <= most;
        let object = Some(object).filter(has_room)?;
        let sup = self.dwz_file(&object).filter(has_room);
        let key = (object.path.clone(), object.id.clone());
        let history = lock(&self.open).histories.entry(key).or_default().clone();
        let options = self.options.clone();
        Some(DebugFile::new(object, sup, options, history))
    }

    /// Opens the dwz file of a debug file, among what was added or where the debug file says.
    fn dwz_file(&self, object: &ObjectFile) -> Option<ObjectFile> {
        let (_, id) = object.altlink.as_ref()?;
        let entries = self.index.get(id).into_iter().flatten();
        let entries = entries.map(|entry| entry.path.clone());
        search::dwz_file(object, entries.collect(), self.options.search)
    }
}

/// Returns true unless the report has a hash of the image's text and the object has another one.
fn is_what_ran(object: &ObjectFile, image: &Image) -> bool {
    let ran = image.text_hash.as_deref();
    ran.is_none_or(|ran| object.text_hash().is_some_and(|hash| hash == *ran))
}

/// The image's object in a file: that with its UUID or build id. An image without an id has the object without one whose text
/// has the hash that is in the report.
fn object_in(path: &Path, bytes: SharedBytes, image: &Image) -> Result<Option<ObjectFile>, Error> {
    if object_file::is_shared_cache(&bytes) {
        return dyld_cache::image(path, &bytes, &image.id);
    }
    let has_hash = image.text_hash.is_some();
    let mut objects = object_file::open_bytes(path, bytes)?.into_iter();
    Ok(objects.find(|object| match &image.id[..] {
        [] => has_hash && object.id.is_empty() && is_what_ran(object, image),
        id => object.id == id || is_front(id, &object.id),
    }))
}

/// Returns true if `id` is the first 16 bytes of a longer build id: other recorders keep no more.
fn is_front(id: &[u8], build_id: &[u8]) -> bool {
    id.len() == 16 && build_id.len() > 16 && build_id.starts_with(id)
}
