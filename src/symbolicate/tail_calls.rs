//! Callers that are on no stack: a function that ends by calling another one may jump there, and its frame is gone. The code
//! still shows it: the frame below called a function that is not the one above, but jumps to it.

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use super::debug_files::{DebugFiles, ImageKey};
use super::debug_info::instructions::Instructions;
use super::frame::SourceFrame;
use super::image_files::ImageFiles;
use super::lock;
use crate::report::model::Image;

/// Jumps from the function that was called to the one on the stack, at most.
const MOST_JUMPS: usize = 4;
/// Bytes of a function in which jumps are looked for.
const MOST_BYTES: u64 = 1 << 16;
/// Bytes that one search reads, and addresses that it looks up.
const MOST_BYTES_IN_ALL: u64 = 1 << 18;
const MOST_LOOKUPS: usize = 1 << 11;
/// Searches of which the results are kept.
const KEPT: usize = 1 << 14;

/// Functions that are on no stack, innermost first; `None` where the code shows none.
pub(super) type TailCallers = Option<Arc<[SourceFrame]>>;

/// Link-time addresses: of the function that was called, and of the one on the stack.
type Pair = (u64, u64);

/// The results of the searches so far, by image.
#[derive(Default)]
pub(super) struct KnownTailCallers(Mutex<FxHashMap<ImageKey, FxHashMap<Pair, TailCallers>>>);

impl KnownTailCallers {
    /// The functions by way of which a call of the function at `called` led to the one at `entry`, both of `image`.
    pub(super) fn find(
        &self,
        files: &DebugFiles,
        image: &Image,
        build: Option<&str>,
        (called, entry): Pair,
    ) -> TailCallers {
        let key = DebugFiles::key(image);
        let known = || lock(&self.0).get(&key)?.get(&(called, entry)).cloned();
        if let Some(known) = known() {
            return known;
        }
        let files = files.find(image, build);
        let found = files.and_then(|files| search(&files, called, entry));
        let mut all = lock(&self.0);
        if all.values().map(FxHashMap::len).sum::<usize>() >= KEPT {
            all.clear();
        }
        let of_image = all.entry(key).or_default();
        of_image.insert((called, entry), found.clone());
        found
    }
}

/// A function that was reached by jumps.
struct Reached {
    entry: u64,
    /// Index of the function that jumps to it.
    from: Option<usize>,
    /// The jump; `None` where there are several.
    by: Option<u64>,
}

fn search(files: &ImageFiles, called: u64, entry: u64) -> TailCallers {
    let mut search = Search {
        files,
        instructions: files.instructions()?,
        bytes: MOST_BYTES_IN_ALL,
        lookups: MOST_LOOKUPS,
        reached: vec![Reached {
            entry: called,
            from: None,
            by: None,
        }],
        known: FxHashMap::from_iter([(called, 0)]),
    };
    if search.function_at(called) != Some(called) {
        return None;
    }
    let mut level = 0..1;
    for _ in 0..MOST_JUMPS {
        let jumps: Vec<_> = level.flat_map(|from| search.jumps(from)).collect();
        let direct: Vec<_> = jumps.iter().filter(|jump| jump.target == entry).collect();
        match direct[..] {
            [] => {}
            [jump] => return frames(files, &search.reached, jump.from, Some(jump.at)),
            [first, ..] => {
                let is_one_function = direct.iter().all(|jump| jump.from == first.from);
                // By way of which of several functions it came is not known; the first was called.
                let last = if is_one_function { first.from } else { 0 };
                return frames(files, &search.reached, last, None);
            }
        }
        let next = search.reached.len();
        for jump in jumps {
            search.reach(next, jump);
        }
        level = next..search.reached.len();
    }
    None
}

/// What may be a jump from a function that was reached to another function.
struct Jump {
    /// Index of the function.
    from: usize,
    at: u64,
    target: u64,
}

struct Search<'a> {
    files: &'a ImageFiles,
    instructions: &'a Instructions,
    /// Bytes and look-ups that are left.
    bytes: u64,
    lookups: usize,
    reached: Vec<Reached>,
    /// Their indexes, by where they begin.
    known: FxHashMap<u64, usize>,
}

impl Search<'_> {
    /// The beginning of the function that holds an address.
    fn function_at(&mut self, svma: u64) -> Option<u64> {
        self.lookups = self.lookups.checked_sub(1)?;
        self.files.lookup(svma)?.entry
    }

    /// The bytes of the function at `entry`, as far as they are read: up to the first byte after it, or [`MOST_BYTES`].
    fn length(&mut self, entry: u64) -> u64 {
        let mut is_in = |length| self.function_at(entry.saturating_add(length)) == Some(entry);
        let (mut inside, mut outside) = (0, 64);
        while outside < MOST_BYTES && is_in(outside) {
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

    /// What may be jumps of a function that was reached to others.
    fn jumps(&mut self, from: usize) -> Vec<Jump> {
        let entry = self.reached[from].entry;
        let length = self.length(entry).min(self.bytes);
        self.bytes -= length;
        let own = entry..entry.saturating_add(length);
        let jumps = self.instructions.jumps(entry, length as usize);
        jumps
            .filter(|(_, target)| !own.contains(target))
            .map(|(at, target)| Jump { from, at, target })
            .collect()
    }

    /// Adds the function at which a jump ends, unless it is reached by fewer; of several jumps from one level none is known.
    fn reach(&mut self, next: usize, jump: Jump) {
        let Jump { from, at, target } = jump;
        match self.known.get(&target).copied() {
            Some(known) if known >= next => {
                let known = &mut self.reached[known];
                known.by = None;
                known.from = known.from.filter(|before| *before == from);
            }
            Some(_) => {}
            None if self.function_at(target) == Some(target) => {
                self.known.insert(target, self.reached.len());
                self.reached.push(Reached {
                    entry: target,
                    from: Some(from),
                    by: Some(at),
                });
            }
            None => {}
        }
    }
}

/// The frames of the functions on the way, innermost first, of which the last one jumped by `by`.
fn frames(
    files: &ImageFiles,
    reached: &[Reached],
    last: usize,
    mut by: Option<u64>,
) -> TailCallers {
    let mut all = Vec::new();
    let mut at = last;
    loop {
        match by {
            Some(by) => all.extend_from_slice(&files.lookup(by)?.frames),
            // The function alone is sure.
            None => {
                let answer = files.lookup(reached[at].entry)?;
                let function = answer.frames.last()?.clone();
                all.push(SourceFrame {
                    line: None,
                    ..function
                });
            }
        }
        if at == 0 {
            break;
        }
        by = reached[at].by;
        // Of several the first is sure, which was called.
        at = reached[at].from.unwrap_or(0);
    }
    let is_named = |frame: &SourceFrame| frame.function.is_some();
    all.last().is_some_and(is_named).then(|| all.into())
}
