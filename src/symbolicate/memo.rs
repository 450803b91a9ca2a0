//! What was found of texts, by text: a fleet's reports have the same names and files over and over.

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Texts of which something is kept.
const TEXTS: usize = 4096;

/// Facts by text, for one thread.
pub(super) struct Memo<T>(RefCell<FxHashMap<Arc<str>, T>>);

impl<T> Default for Memo<T> {
    fn default() -> Memo<T> {
        Memo(RefCell::default())
    }
}

impl<T: Clone> Memo<T> {
    /// Returns what `find` finds of a text, now or earlier.
    pub(super) fn of(&self, text: &Arc<str>, find: impl FnOnce(&Arc<str>) -> T) -> T {
        let mut known = self.0.borrow_mut();
        if let Some(found) = known.get(text) {
            return found.clone();
        }
        if known.len() >= TEXTS {
            known.clear();
        }
        let found = find(text);
        known.insert(text.clone(), found.clone());
        found
    }
}
