//! The listings of images so far, and the images that were removed.

use std::sync::Arc;

use super::loaded_image::LoadedImage;

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
