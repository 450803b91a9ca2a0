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
const MOST_BYTES: usize = 1 << 16;
/// Bytes that one search reads, and addresses that it looks up.
const MOST_BYTES_IN_ALL: usize = 1 << 18;
const MOST_LOOKUPS: usize = 128;
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
    };
    if search.function_at(called) != Some(called) {
        return None;
    }
    let mut reached = vec![Reached {
        entry: called,
        from: None,
        by: None,
    }];
    let mut level = 0..1;
    for _ in 0..MOST_JUMPS {
        let direct = level.clone().filter_map(|from| {
            let jumps = search.jumps(reached[from].entry, Some(entry));
            Some((from, unique(&jumps)?))
        });
        let direct: Vec<(usize, Option<u64>)> = direct.collect();
        match direct[..] {
            [] => {}
            [(from, by)] => return frames(files, &reached, from, by),
            // By which of them it came is not known; the first was called.
            _ => return frames(files, &reached, 0, None),
        }
        let next = reached.len();
        for from in level {
            for jump in search.jumps(reached[from].entry, None) {
                search.reach(&mut reached, next, from, jump);
            }
        }
        level = next..reached.len();
    }
    None
}

/// The jump, of the only one; within, `None` of several.
fn unique(jumps: &[(u64, u64)]) -> Option<Option<u64>> {
    match jumps {
        [] => None,
        [(by, _)] => Some(Some(*by)),
        _ => Some(None),
    }
}

struct Search<'a> {
    files: &'a ImageFiles,
    instructions: &'a Instructions,
    /// Bytes and look-ups that are left.
    bytes: usize,
    lookups: usize,
}

impl Search<'_> {
    /// The beginning of the function that holds an address.
    fn function_at(&mut self, svma: u64) -> Option<u64> {
        self.lookups = self.lookups.checked_sub(1)?;
        self.files.lookup(svma)?.entry
    }

    /// The jumps of the function at `entry` to the beginnings of others, or of the one that is sought, with their targets.
    fn jumps(&mut self, entry: u64, sought: Option<u64>) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let length = MOST_BYTES.min(self.bytes);
        self.bytes -= length;
        for (at, target) in self.instructions.jumps(entry, length) {
            if target == entry || sought.is_some_and(|sought| target != sought) {
                continue;
            }
            if self.function_at(at) != Some(entry) {
                break;
            }
            if sought.is_some() || self.function_at(target) == Some(target) {
                found.push((at, target));
            }
        }
        found
    }

    /// Adds the target of a jump, unless it is reached by fewer; of several jumps from one level none is known.
    fn reach(&self, reached: &mut Vec<Reached>, next: usize, from: usize, jump: (u64, u64)) {
        let (by, entry) = jump;
        let known = reached.iter().position(|known| known.entry == entry);
        match known {
            Some(at) if at >= next => {
                reached[at].by = None;
                reached[at].from = reached[at].from.filter(|before| *before == from);
            }
            Some(_) => {}
            None => reached.push(Reached {
                entry,
                from: Some(from),
                by: Some(by),
            }),
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
