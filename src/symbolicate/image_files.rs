//! The files that name the addresses of one image.

use std::sync::Mutex;

use rustc_hash::FxHashMap;

use super::debug_file::DebugFile;
use super::frame::Answer;
use super::lock;

/// Recent answers lie in so many parts with a lock each, by address.
const SHARDS: usize = 16;
/// So many recent answers, some 60 bytes each: a fleet's reports ask for the same addresses over and
/// over.
const RECENT: usize = 1 << 14;

/// The files of one image: those with DWARF first, then those with symbols alone.
pub(crate) struct ImageFiles {
    files: Vec<DebugFile>,
    recent: [Mutex<FxHashMap<u64, Option<Answer>>>; SHARDS],
}

impl ImageFiles {
    pub(super) fn new(files: Vec<DebugFile>) -> ImageFiles {
        ImageFiles {
            files,
            recent: Default::default(),
        }
    }

    /// Frames at an svma of the image.
    pub(crate) fn lookup(&self, svma: u64) -> Option<Answer> {
        // The low bits of arm64 addresses are all alike.
        let shard = &self.recent[(svma >> 2) as usize % SHARDS];
        if let Some(answer) = lock(shard).get(&svma) {
            return answer.clone();
        }
        let answer = self.files.iter().find_map(|file| file.lookup(svma));
        let mut recent = lock(shard);
        if recent.len() >= RECENT / SHARDS {
            recent.clear();
        }
        recent.insert(svma, answer.clone());
        answer
    }

    /// The link-time address of the image's first byte.
    pub(crate) fn base(&self) -> u64 {
        self.files.first().map_or(0, |file| file.object().base)
    }

    pub(crate) fn is_mach_o(&self) -> bool {
        self.files
            .first()
            .is_some_and(|file| file.object().is_mach_o())
    }

    pub(crate) fn has_debug_info(&self) -> bool {
        has_dwarf(&self.files)
    }

    /// Whether a part of the debug information lies in a file that is not there: see
    /// [`DebugFile::is_missing_a_part`].
    pub(crate) fn is_missing_a_part(&self) -> bool {
        self.files.iter().any(DebugFile::is_missing_a_part)
    }
}

/// Whether one of `files` has debug information.
pub(super) fn has_dwarf(files: &[DebugFile]) -> bool {
    files.iter().any(|file| file.object().has_dwarf)
}
