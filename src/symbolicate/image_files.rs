//! The files that name the addresses of one image.

use super::debug_file::{Answer, DebugFile};

/// The files of one image: those with DWARF first, then those with symbols alone.
pub(crate) struct ImageFiles {
    pub(super) files: Vec<DebugFile>,
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

/// Whether one of `files` has debug information.
pub(super) fn has_dwarf(files: &[DebugFile]) -> bool {
    files.iter().any(|file| file.object.has_dwarf)
}
