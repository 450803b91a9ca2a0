//! Finds debug files by id, in folders, caches and servers, and reads their bytes as object files.

pub(super) mod apple_places;
pub(super) mod archives;
pub(super) mod bytes;
pub(super) mod cache;
#[cfg(feature = "debuginfod")]
pub(super) mod debuginfod;
pub(super) mod dyld_cache;
pub(super) mod links;
pub(super) mod object_file;
pub(super) mod owner;
pub(super) mod search;
