//! The files that name the addresses of one image.

use std::borrow::Cow;
use std::sync::{Mutex, OnceLock};

use super::debug_info::debug_file::DebugFile;
use super::debug_info::instructions::Instructions;
use super::frame::{Resolved, Unread};
use super::lock;
use super::memo::Memo;

/// Recent answers lie in so many parts with a lock each, by address.
const SHARDS: usize = 16;
/// Count of recent addresses and of answers, some 70 bytes: a fleet's reports ask for the same addresses over and over.
const MAX_RECENT: usize = 1 << 14;
/// Bytes of memory of an answer, a few frames.
const ANSWER_WEIGHT: usize = 400;
/// Repeated look-ups after which a part makes its table of frequent answers.
const MIN_REPEATS: u32 = 64;
/// Most frequent answers of a part, 48 bytes each: 384 KiB an image. They stay for as long as it is open.
const MAX_FREQUENT: usize = 1 << 9;

/// An address and what was found there, once it is looked up often.
type KnownAddress = OnceLock<(u64, Option<Resolved>)>;

/// The files of one image: those with DWARF first, then those with symbols alone.
pub(crate) struct ImageFiles {
    files: Vec<DebugFile>,
    instructions: OnceLock<Option<Instructions>>,
    shards: [Shard; SHARDS],
}

/// Answers for the addresses of one part.
#[derive(Default)]
struct Shard {
    /// The first addresses that were looked up again once there was this table. They stay, so that a look-up takes no lock.
    frequent: OnceLock<Box<[KnownAddress]>>,
    recent: Mutex<Recent>,
}

/// Answers of late, each with its address, until another one takes its place.
#[derive(Default)]
struct Recent {
    /// Addresses of late: with a table, an answer is kept from the second time on that it is asked for.
    asked: Vec<u64>,
    answers: Memo<u64, Option<Resolved>, { MAX_RECENT / SHARDS }>,
    repeats: u32,
}

impl Recent {
    /// Notes the address; returns true if it was noted before, of late.
    fn is_asked_again(&mut self, svma: u64) -> bool {
        self.asked.resize(MAX_RECENT / SHARDS, 0);
        let place = &mut self.asked[hash(svma) % (MAX_RECENT / SHARDS)];
        std::mem::replace(place, svma) == svma
    }
}

impl Shard {
    /// The two places that an address has among the frequent ones.
    fn places(&self, svma: u64) -> &[KnownAddress] {
        let at = (hash(svma) % MAX_FREQUENT) & !1;
        self.frequent.get().map_or(&[], |all| &all[at..at + 2])
    }
}

/// Of an address: multiplicative, as neighbours are alike.
fn hash(svma: u64) -> usize {
    (svma.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl ImageFiles {
    pub(super) fn new(files: Vec<DebugFile>) -> ImageFiles {
        ImageFiles {
            files,
            instructions: OnceLock::new(),
            shards: Default::default(),
        }
    }

    /// Frames at an svma of the image; where it is looked up often, the answer is only borrowed.
    pub(crate) fn lookup(&self, svma: u64) -> Option<Cow<'_, Resolved>> {
        // The low bits of arm64 addresses are all alike.
        let shard = &self.shards[(svma >> 2) as usize % SHARDS];
        let places = shard.places(svma);
        let mut known = places.iter().filter_map(OnceLock::get);
        if let Some((_, answer)) = known.find(|known| known.0 == svma) {
            return answer.as_ref().map(Cow::Borrowed);
        }
        let mut recent = lock(&shard.recent);
        // Free, or taken by another thread for this very address.
        let is_for = |place: &KnownAddress| place.get().is_none_or(|known| known.0 == svma);
        if let Some(answer) = recent.answers.get(&svma).cloned() {
            recent.repeats = recent.repeats.saturating_add(1);
            if recent.repeats == MIN_REPEATS {
                let empty = || std::iter::repeat_with(OnceLock::new).take(MAX_FREQUENT);
                shard.frequent.get_or_init(|| empty().collect());
            } else if let Some(place) = places.iter().find(|place| is_for(place)) {
                let _ = place.set((svma, answer.clone()));
            }
            return answer.map(Cow::Owned);
        }
        let is_kept = !self.has_table() || recent.is_asked_again(svma);
        drop(recent);
        let mut answer = self.files.iter().find_map(|file| file.lookup(svma));
        if let (Some(answer), Some(instructions)) = (&mut answer, self.instructions()) {
            answer.calls = instructions.call_at(svma);
        }
        if is_kept {
            lock(&shard.recent).answers.insert(svma, answer.clone());
        }
        answer.map(Cow::Owned)
    }

    /// The code of the image, from the first of its files that has it.
    pub(super) fn instructions(&self) -> Option<&Instructions> {
        let read = || {
            let mut objects = self.files.iter().map(DebugFile::object);
            objects.find_map(Instructions::of)
        };
        self.instructions.get_or_init(read).as_ref()
    }

    /// Returns true if the answers come from a table, as [`DebugFile::has_table`] does.
    pub(super) fn has_table(&self) -> bool {
        self.files.first().is_some_and(DebugFile::has_table)
    }

    /// Makes the tables that pay for so many addresses, which are about to be looked up.
    pub(super) fn make_tables_for(&self, addresses: usize) {
        let files = self.files.iter();
        files.for_each(|file| file.make_table_for(addresses));
    }

    /// Lets the pages of mapped files go: nothing is asked for a while.
    pub(super) fn drop_resident_pages(&self) {
        self.files.iter().for_each(DebugFile::drop_resident_pages);
    }

    /// Bytes of memory that they take, roughly.
    pub(super) fn weight(&self) -> usize {
        let files: usize = self.files.iter().map(DebugFile::weight).sum();
        let shard = |shard: &Shard| {
            let frequent = shard.frequent.get().map_or(0, |all| size_of_val(&**all));
            let recent = lock(&shard.recent);
            frequent + recent.asked.len() * 8 + recent.answers.len() * ANSWER_WEIGHT
        };
        files + self.shards.iter().map(shard).sum::<usize>()
    }

    /// The link-time address of the image's first byte.
    pub(crate) fn base(&self) -> u64 {
        self.files.first().map_or(0, |file| file.object().base)
    }

    /// The link-time address of its first byte: that which a report states, or the file's own.
    pub(crate) fn base_of(&self, stated: u64) -> u64 {
        base_of(stated, || self.is_mach_o().then(|| self.base()))
    }

    pub(crate) fn is_mach_o(&self) -> bool {
        let first = self.files.first();
        first.is_some_and(|file| file.object().is_mach_o())
    }

    pub(crate) fn has_debug_info(&self) -> bool {
        has_dwarf(&self.files)
    }

    /// Returns what is not read of all files: see [`DebugFile::unread`].
    pub(crate) fn unread(&self) -> Unread {
        let mut all = Unread::default();
        for unread in self.files.iter().map(DebugFile::unread) {
            all.damaged += unread.damaged;
            all.refused += unread.refused;
            all.split |= unread.split;
        }
        all
    }
}

/// Returns true if one of `files` has debug information.
pub(super) fn has_dwarf(files: &[DebugFile]) -> bool {
    files.iter().any(|file| file.object().has_dwarf)
}

/// The link-time address of an image's first byte. Reports of other recorders lack it: that of Mach-O comes from the file, and
/// that of ELF is taken as 0.
pub(super) fn base_of(stated: u64, base: impl FnOnce() -> Option<u64>) -> u64 {
    match stated {
        0 => base().unwrap_or(0),
        stated => stated,
    }
}
