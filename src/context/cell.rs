//! A few words that one thread writes while another reads, without a lock on either side.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::platform::atomic::Atomic;

/// Words in two copies: the published one, and one to be written. A writer that is interrupted for
/// good (its thread froze or died there) leaves the published copy as it was.
///
/// The state is `version × 2`, plus 1 while a thread writes. The lowest bit of the version selects the copy that is
/// published. After Boehm, "Can seqlocks get along with programming language memory models?" (2012).
#[derive(Debug)]
pub(super) struct Cell<const N: usize, A = AtomicU64> {
    state: A,
    copies: [[A; N]; 2],
}

/// A reader gives up after this many tries that writers disturbed.
const MAX_TRIES: u32 = 16;
/// A writer gives up after it has found another writer this many times.
pub(super) const MAX_CLAIMS: u32 = if cfg!(loom) { 1 } else { 256 };

impl<const N: usize> Cell<N> {
    /// All words zero.
    pub const fn new() -> Cell<N> {
        Cell {
            state: AtomicU64::new(0),
            copies: [const { [const { AtomicU64::new(0) }; N] }; 2],
        }
    }
}

impl<const N: usize, A: Atomic<Value = u64>> Cell<N, A> {
    /// Publishes the words that `change` makes of the present ones. Returns false and changes nothing if another
    /// writer does not finish soon, or if `change` returns false.
    pub fn update(&self, change: impl FnOnce(&mut [u64; N]) -> bool) -> bool {
        let Some(state) = self.claim() else {
            return false;
        };
        let (published, spare) = match (state >> 1) & 1 {
            0 => (&self.copies[0], &self.copies[1]),
            _ => (&self.copies[1], &self.copies[0]),
        };
        let mut words = [0; N];
        for (word, from) in words.iter_mut().zip(published) {
            *word = from.load(Ordering::Relaxed);
        }
        if !change(&mut words) {
            self.state.store(state, Ordering::Release);
            return false;
        }
        // A reader that sees one of the words stored below sees the state stored above.
        A::fence(Ordering::Release);
        for (word, into) in words.iter().zip(spare) {
            into.store(*word, Ordering::Relaxed);
        }
        self.state.store(state.wrapping_add(2), Ordering::Release);
        true
    }

    /// Makes this thread the writer, and returns the state before. Spins a bounded number of times; returns `None` if
    /// another thread still writes.
    fn claim(&self) -> Option<u64> {
        for _ in 0..MAX_CLAIMS {
            let state = self.state.load(Ordering::Relaxed);
            if state & 1 == 0
                && self
                    .state
                    .compare_exchange(state, state | 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Some(state);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Returns the published words; `None` if writers disturbed every try. Signal-safe.
    pub fn read(&self) -> Option<[u64; N]> {
        for _ in 0..MAX_TRIES {
            let before = self.state.load(Ordering::Acquire);
            let copy = match (before >> 1) & 1 {
                0 => &self.copies[0],
                _ => &self.copies[1],
            };
            let mut words = [0; N];
            for (word, from) in words.iter_mut().zip(copy) {
                *word = from.load(Ordering::Relaxed);
            }
            A::fence(Ordering::Acquire);
            // The next write leaves this copy unchanged; the write after that does not.
            if self.state.load(Ordering::Relaxed) >> 1 == before >> 1 {
                return Some(words);
            }
        }
        None
    }
}

/// `scripts/model`
#[cfg(all(loom, test))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;

    impl<const N: usize> Cell<N, AtomicU64> {
        /// With these words published.
        pub(in crate::context) fn model(words: [u64; N]) -> Self {
            Cell {
                state: AtomicU64::new(0),
                copies: [words, [0; N]].map(|copy| copy.map(AtomicU64::new)),
            }
        }
    }

    /// A reader beside a writer of two versions sees one of the three, whole.
    #[test]
    fn model_no_reader_sees_half_of_a_write() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let cell = Arc::new(Cell::model([0; 2]));
            // loom goes back only where the other thread's last access was no access of its own: the thread that
            // comes second may do nothing but read.
            let reader = {
                let cell = cell.clone();
                loom::thread::spawn(move || {
                    if let Some([first, second]) = cell.read() {
                        assert!(first == second && first <= 2);
                    }
                })
            };
            for version in 1..=2 {
                assert!(cell.update(|words| {
                    *words = [version; 2];
                    true
                }));
            }
            reader.join().unwrap();
            assert_eq!(cell.read(), Some([2, 2]));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn readers_never_see_half_of_a_write() {
        static CELL: Cell<8> = Cell::new();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 1..=20_000u64 {
                    assert!(CELL.update(|words| {
                        words.fill(round);
                        true
                    }));
                }
            });
            while !writer.is_finished() {
                if let Some(words) = CELL.read() {
                    assert!(words.iter().all(|&word| word == words[0]), "{words:?}");
                }
            }
        });
        assert_eq!(CELL.read(), Some([20_000; 8]));
    }

    #[test]
    fn what_was_published_stays_while_a_writer_is_stuck() {
        let cell = Cell::<2>::new();
        cell.update(|words| {
            *words = [1, 2];
            true
        });
        cell.update(|words| {
            *words = [3, 4];
            assert_eq!(cell.read(), Some([1, 2]), "as a signal handler here would");
            assert!(
                !cell.update(|_| true),
                "a second writer does not wait for ever"
            );
            false
        });
        assert_eq!(cell.read(), Some([1, 2]));
    }
}
