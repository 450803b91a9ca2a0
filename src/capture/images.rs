//! A set of images, found by address.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::loaded_image::LoadedImage;

/// A set of images, found by address. Looking things up in it is signal-safe; making it is not.
///
/// ```
/// use wedjat::unwind::{Images, LoadedImage};
///
/// let images = Images::new(vec![LoadedImage::new("app", 0x5000_0000, 0, 0x1000)]);
/// assert_eq!(images.find(0x5000_0fff), Some(0));
/// assert_eq!(images.find(0x5000_1000), None);
/// ```
#[derive(Debug)]
pub struct Images {
    list: Vec<Arc<LoadedImage>>,
    /// Sorted by start: start, end, index into `list`.
    ranges: Vec<(u64, u64, u32)>,
    generation: u64,
    pointer_mask: u64,
    /// The listings of this process up to this set.
    pub(super) history: ListingHistory,
}

/// Counts up to a listing of this process, and the images that are not in it any more.
#[derive(Debug)]
pub(super) struct ListingHistory {
    /// Number of images that the loader had removed.
    pub removed: u64,
    /// Serial numbers assigned.
    pub serials: u32,
    /// Images that were removed, oldest first.
    pub gone: Vec<Arc<LoadedImage>>,
}

impl ListingHistory {
    /// Without any listing.
    pub const NONE: ListingHistory = ListingHistory {
        removed: 0,
        serials: 0,
        gone: Vec::new(),
    };
}

impl Images {
    /// Takes images in any order and keeps that order; of two that overlap, addresses in both are
    /// found in the one that begins later.
    pub fn new(images: Vec<LoadedImage>) -> Images {
        Images::from_shared(images.into_iter().map(Arc::new).collect())
    }

    /// As [`Images::new`], of images that other sets hold too.
    pub fn from_shared(list: Vec<Arc<LoadedImage>>) -> Images {
        /// 0 is no generation, so that an empty cache belongs to none.
        static GENERATION: AtomicU64 = AtomicU64::new(1);
        let mut ranges: Vec<(u64, u64, u32)> = list
            .iter()
            .zip(0u32..)
            .map(|(image, index)| (image.base, image.base.saturating_add(image.size), index))
            .collect();
        ranges.sort_unstable();
        let top = ranges.iter().map(|range| range.1).max().unwrap_or(0);
        Images {
            list,
            ranges,
            generation: GENERATION.fetch_add(1, Ordering::Relaxed),
            // Bits above the highest code address can only be pointer authentication's.
            pointer_mask: u64::MAX
                .checked_shr(top.leading_zeros())
                .unwrap_or(u64::MAX),
            history: ListingHistory::NONE,
        }
    }

    /// Without any image.
    pub(crate) const fn empty() -> Images {
        Images {
            list: Vec::new(),
            ranges: Vec::new(),
            generation: 0,
            pointer_mask: u64::MAX,
            history: ListingHistory::NONE,
        }
    }

    /// Returns all images, in the order in which they were passed.
    pub fn list(&self) -> &[Arc<LoadedImage>] {
        &self.list
    }

    /// Returns the index in [`Images::list`] of the image that contains an address (avma). Signal-safe.
    pub fn find(&self, avma: u64) -> Option<u32> {
        Some(self.find_around(avma)?.1)
    }

    /// As [`Images::find`], with addresses around it (avma) for which the answer is the same.
    /// Signal-safe.
    pub(crate) fn find_around(&self, avma: u64) -> Option<(Range<u64>, u32)> {
        let after = self.ranges.partition_point(|range| range.0 <= avma);
        let range = self.ranges.get(after.checked_sub(1)?)?;
        let next = self.ranges.get(after).map_or(u64::MAX, |next| next.0);
        let same = range.0..range.1.min(next);
        same.contains(&avma).then_some((same, range.2))
    }

    /// Returns the image of this index; `None` also if its sections are in a file that has been truncated since.
    /// Signal-safe.
    pub fn get(&self, index: u32) -> Option<&LoadedImage> {
        let image = self.list.get(index as usize)?;
        image.is_whole().then_some(image)
    }

    /// The image that contains an address (avma); `None` as for [`Images::get`]. Signal-safe.
    pub(crate) fn at(&self, avma: u64) -> Option<&LoadedImage> {
        self.get(self.find(avma)?)
    }

    /// The index of the executable.
    pub fn main(&self) -> Option<u32> {
        self.list
            .iter()
            .position(|image| image.main)
            .map(|index| index as u32)
    }

    /// Differs between any two sets.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// A code address without the bits of pointer authentication (arm64e).
    pub(crate) fn strip(&self, pointer: u64) -> u64 {
        pointer & self.pointer_mask
    }
}
