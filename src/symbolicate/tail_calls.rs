//! Callers that are on no stack: a function that ends by calling another one may jump there, and its frame is gone. The code
//! still shows it: the frame below called a function that is not the one above, but jumps to it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use super::debug_files::{DebugFiles, ImageKey};
use super::debug_info::instructions::Instructions;
use super::frame::SourceFrame;
use super::image_files::ImageFiles;
use super::lock;
use super::names::without_clones;
use crate::report::model::Image;

/// Jumps from the function that was called to the one on the stack, at most.
const MAX_JUMPS: usize = 4;
/// Bytes of a function in which jumps are looked for.
const MAX_BYTES: u64 = 1 << 16;
/// Work of a search: bytes that it reads, and look-ups, which count as so many bytes.
const MAX_WORK: u64 = 1 << 20;
const LOOKUP_WORK: u64 = 256;
/// Work of all searches in an image, and for each byte of its code.
const MIN_WORK_LIMIT: u64 = 1 << 24;
const MAX_WORK_PER_BYTE: u64 = 64;
/// Results and targets of jumps that are kept.
const MAX_ANSWERS: usize = 1 << 18;

/// Functions that are on no stack, innermost first; `None` where the code shows none.
pub(super) type TailCallers = Option<Arc<[SourceFrame]>>;

/// Link-time addresses: of the function that was called, and of the one on the stack.
type Pair = (u64, u64);

/// The last jump of a way: the index of the function that jumps, and where; `None` where there are several jumps.
type LastJump = (usize, Option<u64>);

/// The searches so far, by image.
#[derive(Default)]
pub(super) struct KnownTailCallers(Mutex<FxHashMap<ImageKey, SearchedImage>>);

#[derive(Default)]
struct SearchedImage {
    found: FxHashMap<Pair, TailCallers>,
    /// By the function that was called.
    searches: FxHashMap<u64, Search>,
    /// Work of all of them.
    work: u64,
}

impl KnownTailCallers {
    /// The functions by way of which a call of the function at `called` led to the one at `entry`, both of `image`.
    pub(super) fn find(
        &self,
        files: &DebugFiles,
        image: &Image,
        build: Option<&str>,
        pair: Pair,
    ) -> TailCallers {
        let mut all = lock(&self.0);
        if all.values().map(SearchedImage::answers_kept).sum::<usize>() >= MAX_ANSWERS {
            for image in all.values_mut() {
                image.found.clear();
                image.searches.clear();
            }
        }
        let of_image = all.entry(DebugFiles::key(image)).or_default();
        if let Some(found) = of_image.found.get(&pair) {
            return found.clone();
        }
        let files = files.find(image, build);
        let found = files.and_then(|files| of_image.search(&files, pair));
        of_image.found.insert(pair, found.clone());
        found
    }
}

impl SearchedImage {
    fn answers_kept(&self) -> usize {
        let targets = self.searches.values().map(|search| search.targets.len());
        self.found.len() + targets.sum::<usize>()
    }

    fn search(&mut self, files: &ImageFiles, (called, entry): Pair) -> TailCallers {
        let code = files.instructions()?;
        let most = MIN_WORK_LIMIT.max(code.size().saturating_mul(MAX_WORK_PER_BYTE));
        let search = self.searches.entry(called);
        let search = search.or_insert_with(|| Search::new(called));
        search.work = search.work.min(most.saturating_sub(self.work));
        let before = search.work;
        while !search.targets.contains_key(&entry) && !search.level.is_empty() {
            search.follow(files, code);
        }
        self.work += before - search.work;
        search.frames(files, entry, *search.targets.get(&entry)?)
    }
}

/// The functions that one function reaches by jumps, level by level, as far as they were asked for.
struct Search {
    /// Where they begin, and the jump to each. The first one was called.
    reached: Vec<(u64, LastJump)>,
    /// Where their jumps lead, by way of the fewest of them.
    targets: FxHashMap<u64, LastJump>,
    /// Those of `reached` whose jumps are not in `targets` yet.
    level: Range<usize>,
    levels: usize,
    /// Work that may still be done.
    work: u64,
}

impl Search {
    fn new(called: u64) -> Search {
        Search {
            reached: vec![(called, (0, None))],
            targets: FxHashMap::from_iter([(called, (0, None))]),
            level: 0..1,
            levels: 0,
            work: MAX_WORK,
        }
    }

    /// Follows the jumps of one level.
    fn follow(&mut self, files: &ImageFiles, code: &Instructions) {
        let mut jumps: BTreeMap<u64, LastJump> = BTreeMap::new();
        for from in self.level.clone() {
            let entry = self.reached[from].0;
            let length = self.length(files, entry).min(self.work);
            self.work -= length;
            let own = entry..entry.saturating_add(length);
            let found = code.jumps(entry, length as usize);
            for (at, target) in found.filter(|(_, target)| !own.contains(target)) {
                let other = jumps.insert(target, (from, Some(at)));
                // By way of which of several functions it came is not known; the first was called.
                if let Some((other, _)) = other {
                    jumps.insert(target, ([0, from][usize::from(other == from)], None));
                }
            }
        }
        self.levels += 1;
        let known = self.reached.len();
        for (target, jump) in jumps {
            if self.targets.contains_key(&target) {
                continue;
            }
            self.targets.insert(target, jump);
            if self.levels < MAX_JUMPS && self.function_at(files, target) == Some(target) {
                self.reached.push((target, jump));
            }
        }
        self.level = known..self.reached.len();
    }

    /// The beginning of the function that holds an address.
    fn function_at(&mut self, files: &ImageFiles, svma: u64) -> Option<u64> {
        self.work = self.work.checked_sub(LOOKUP_WORK)?;
        files.lookup(svma)?.entry
    }

    /// The bytes of the function at `entry`, as far as they are read: up to the first byte after it, or [`MAX_BYTES`]; none
    /// where no function begins.
    fn length(&mut self, files: &ImageFiles, entry: u64) -> u64 {
        let mut is_in =
            |length| self.function_at(files, entry.saturating_add(length)) == Some(entry);
        let (mut inside, mut outside) = (0, 64);
        if !is_in(0) {
            return 0;
        }
        while outside < MAX_BYTES && is_in(outside) {
            (inside, outside) = (outside, outside * 2);
        }
        while outside - inside > 1 {
            let middle = inside.midpoint(outside);
            if is_in(middle) {
                inside = middle;
            } else {
                outside = middle;
            }
        }
        outside
    }

    /// The frames of the functions on the way to the one at `entry`, innermost first, by its last jump. One that jumps into its
    /// own cold part is omitted: that is no call.
    fn frames(&self, files: &ImageFiles, entry: u64, (mut at, mut by): LastJump) -> TailCallers {
        let named = |f: &SourceFrame| Some(without_clones(f.function.as_deref()?).to_owned());
        let mut inner = named(files.lookup(entry)?.frames.last()?);
        let mut all = Vec::new();
        loop {
            let answer = files.lookup(by.unwrap_or(self.reached[at].0))?;
            let function = answer.frames.last()?;
            let outer = named(function);
            match by {
                _ if outer == inner => {}
                Some(_) => all.extend_from_slice(&answer.frames),
                // The function alone is sure.
                None => all.push(SourceFrame {
                    line: None,
                    ..function.clone()
                }),
            }
            inner = outer;
            if at == 0 {
                break;
            }
            // Of several the first is sure, which was called.
            (at, by) = self.reached[at].1;
        }
        let is_named = |frame: &SourceFrame| frame.function.is_some();
        all.last().is_some_and(is_named).then(|| all.into())
    }
}
