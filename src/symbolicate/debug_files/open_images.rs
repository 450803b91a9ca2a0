//! The images in use: which of them stay open, by the memory that they take.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use crate::symbolicate::debug_info::debug_file::FileHistory;
use crate::symbolicate::image_files::ImageFiles;

/// Memory that open images may take, roughly, besides what is mapped of their files. A file that is mapped needs no
/// descriptor.
const MAX_OPEN_BYTES: usize = 256 << 20;
/// The same where a batch is done with one image after the other: no report waits for two of them.
const MAX_BATCH_BYTES: usize = 64 << 20;
/// Uses between two sums of the memory of open images, which grows with use.
const WEIGH_EVERY: u64 = 256;
/// Most images that are remembered. Beyond this, those without a file are forgotten.
const MAX_IMAGES: usize = 1 << 14;

/// Id (or hash of the text) and name of an image.
pub(crate) type ImageKey = (Vec<u8>, String);

/// The images in use.
pub(super) struct OpenImages {
    images: FxHashMap<ImageKey, OpenImage>,
    /// Count of the uses so far.
    clock: u64,
    /// Sum of their weights.
    bytes: usize,
    pub limit: usize,
    /// What is known of each file that was opened, by its path and id.
    pub histories: FxHashMap<(PathBuf, Vec<u8>), Arc<Mutex<FileHistory>>>,
}

struct OpenImage {
    /// `None` if it has no file.
    files: Option<Arc<ImageFiles>>,
    /// When it was used last.
    used: u64,
    /// Bytes of memory that it takes, as weighed last.
    weight: usize,
}

impl OpenImages {
    pub(super) fn new() -> OpenImages {
        OpenImages {
            images: FxHashMap::default(),
            clock: 0,
            bytes: 0,
            limit: usize::MAX,
            histories: FxHashMap::default(),
        }
    }

    /// Returns the files of an image that is known.
    pub(super) fn lookup(&mut self, key: &ImageKey) -> Option<Option<Arc<ImageFiles>>> {
        self.clock += 1;
        if self.clock.is_multiple_of(WEIGH_EVERY) {
            self.make_room(key);
        }
        let image = self.images.get_mut(key)?;
        image.used = self.clock;
        Some(image.files.clone())
    }

    /// Adds an image, unless another thread has; returns its files.
    pub(super) fn add(
        &mut self,
        key: &ImageKey,
        files: Option<Arc<ImageFiles>>,
    ) -> Option<Arc<ImageFiles>> {
        let used = self.clock;
        let image = self.images.entry(key.clone()).or_insert(OpenImage {
            files,
            used,
            weight: 0,
        });
        let files = image.files.clone();
        if self.images.len() > self.limit.min(MAX_IMAGES) {
            self.make_room(key);
        }
        files
    }

    /// A batch is done with this image: it is closed if others have taken the room. They are wanted sooner, as the next
    /// batch has them in much the same order.
    pub(super) fn is_done(&mut self, key: &ImageKey) {
        let Some(image) = self.images.get_mut(key) else {
            return;
        };
        self.bytes -= std::mem::take(&mut image.weight);
        if self.bytes > MAX_BATCH_BYTES {
            self.close(key);
        } else {
            image.weight = image.files.as_ref().map_or(0, |files| files.weight());
            self.bytes += image.weight;
        }
    }

    fn close(&mut self, key: &ImageKey) {
        if let Some(image) = self.images.remove(key) {
            self.bytes -= image.weight;
        }
    }

    /// Closes the least recently used images until the rest is within the limits, but never `keep`. Images without a
    /// table are closed first: they take more memory, and a table is made only after many look-ups.
    fn make_room(&mut self, keep: &ImageKey) {
        if self.images.len() > MAX_IMAGES {
            self.images.retain(|_, image| image.files.is_some());
        }
        self.bytes = 0;
        let mut open = Vec::new();
        for (key, image) in &mut self.images {
            if let Some(files) = &image.files {
                image.weight = files.weight();
                self.bytes += image.weight;
                open.push((files.has_table(), image.used, key.clone()));
            }
        }
        open.sort_unstable();
        let mut count = open.len();
        for (_, _, key) in open {
            if count <= self.limit && self.bytes <= MAX_OPEN_BYTES {
                return;
            }
            if key != *keep {
                self.close(&key);
                count -= 1;
            }
        }
    }

    /// Closes all.
    pub(super) fn clear(&mut self) {
        self.images.clear();
        self.bytes = 0;
    }
}
