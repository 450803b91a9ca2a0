//! The one table of remembered values: a fleet's reports have the same names, files and addresses over and over.

use rustc_hash::FxHashMap;

/// Values by key, at most `MAX`: before one more, all are forgotten.
#[derive(Debug)]
pub(super) struct Memo<K, V, const MAX: usize>(FxHashMap<K, V>);

impl<K, V, const MAX: usize> Default for Memo<K, V, MAX> {
    fn default() -> Memo<K, V, MAX> {
        Memo(FxHashMap::default())
    }
}

/// Reads go to the map itself.
impl<K, V, const MAX: usize> std::ops::Deref for Memo<K, V, MAX> {
    type Target = FxHashMap<K, V>;

    fn deref(&self) -> &FxHashMap<K, V> {
        &self.0
    }
}

impl<K: Eq + std::hash::Hash + Clone, V: Clone, const MAX: usize> Memo<K, V, MAX> {
    /// Returns the value of a key, which `find` finds unless it is remembered.
    pub(super) fn get_or_find(&mut self, key: &K, find: impl FnOnce() -> V) -> V {
        if !self.contains_key(key) {
            self.insert(key.clone(), find());
        }
        self.0[key].clone()
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.len() >= MAX {
            self.0.clear();
        }
        self.0.insert(key, value);
    }
}
