//! The images in use: which of them stay open, by the memory that they take.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use crate::symbolicate::debug_info::learned::Learned;
use crate::symbolicate::image_files::ImageFiles;

/// Memory that open images may take, roughly, besides what is mapped of their files. A file that is mapped needs no
/// descriptor.
const OPEN_BYTES: usize = 256 << 20;
/// Most images that are remembered. Beyond this, those without a file are forgotten.
pub(super) const KNOWN_IMAGES: usize = 1 << 14;
/// Look-ups between two sums of the memory of open images, which grows with use.
pub(super) const WEIGH_EVERY: u64 = 256;

/// Id (or hash of the text) and name of an image.
pub(crate) type ImageKey = (Vec<u8>, String);

/// The images in use, and when each was used last.
pub(super) struct OpenImages {
    pub images: FxHashMap<ImageKey, OpenImage>,
    pub clock: u64,
    pub limit: usize,
    /// What is known of each file that was opened, by its path and id.
    pub learned: FxHashMap<(PathBuf, Vec<u8>), Arc<Mutex<Learned>>>,
}

impl OpenImages {
    /// Closes the least recently used images until the rest is within the limits, but never `keep`. Images without a
    /// table are closed first: they take more memory, and a table is made only after many look-ups.
    pub(super) fn make_room(&mut self, keep: &ImageKey) {
        if self.images.len() > KNOWN_IMAGES {
            self.images.retain(|_, (files, _)| files.is_some());
        }
        let is_open = |(key, (files, used)): (&ImageKey, &OpenImage)| {
            let files = files.as_ref()?;
            Some((files.has_table(), *used, files.weight(), key.clone()))
        };
        let mut open: Vec<_> = self.images.iter().filter_map(is_open).collect();
        open.sort_unstable();
        let mut count = open.len();
        let mut bytes: usize = open.iter().map(|(_, _, weight, _)| weight).sum();
        for (_, _, weight, key) in open {
            if count <= self.limit && bytes <= OPEN_BYTES {
                return;
            }
            if key != *keep {
                if let Some((Some(files), _)) = self.images.remove(&key) {
                    files.will_be_wanted();
                }
                count -= 1;
                bytes = bytes.saturating_sub(weight);
            }
        }
    }
}

/// An image's files (`None` if it has no file), and when they were used last.
pub(super) type OpenImage = (Option<Arc<ImageFiles>>, u64);
