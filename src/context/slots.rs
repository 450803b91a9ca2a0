//! Slots that belong to names: found without a lock, and reused for another name after theirs was removed.

use std::sync::atomic::{AtomicU64, Ordering};

use super::cell::{Cell, MAX_CLAIMS};
use crate::platform::atomic::Atomic;

/// Slots for `COUNT` names, each with a record.
///
/// The first names claim slots in order, each by one compare-and-exchange. A removed name keeps its slot, with an empty
/// record, until all slots are taken and another name needs one. One thread at a time assigns an empty slot to another
/// name, so that no name has two slots. The name of a slot changes only while its cell is claimed, and each writer of
/// the cell checks the name after it has claimed the cell: a write for the old name never changes the record of the new
/// one. Readers use the records alone.
#[derive(Debug)]
pub(super) struct Slots<const COUNT: usize, const N: usize, A = AtomicU64> {
    slots: [Slot<N, A>; COUNT],
    /// 1 while a thread assigns a slot to another name.
    reusing: A,
}

/// A slot: the hash of its name, 0 before the first name; and the record, which is empty if its first word is 0.
#[derive(Debug)]
struct Slot<const N: usize, A> {
    name: A,
    cell: Cell<N, A>,
}

/// The outcome of a try to write a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Written,
    /// Another thread is writing, or no slot is empty.
    Dropped,
    /// Another thread has given the slot to another name since the search.
    Moved,
}

/// A write is dropped after its slot was given to another name this many times.
const MAX_TRIES: u32 = 4;

impl<const COUNT: usize, const N: usize> Slots<COUNT, N> {
    /// Creates empty slots.
    pub const fn new() -> Slots<COUNT, N> {
        Slots {
            slots: [const { Slot::new() }; COUNT],
            reusing: AtomicU64::new(0),
        }
    }
}

impl<const N: usize> Slot<N, AtomicU64> {
    const fn new() -> Self {
        Slot {
            name: AtomicU64::new(0),
            cell: Cell::new(),
        }
    }
}

impl<const COUNT: usize, const N: usize, A: Atomic<Value = u64>> Slots<COUNT, N, A> {
    /// Writes the record of a name, given its hash. Returns false if the write was dropped.
    pub fn put(&self, name: u64, mut write: impl FnMut(&mut [u64; N])) -> bool {
        for _ in 0..MAX_TRIES {
            let outcome = match self.claim(name) {
                Some(slot) => slot.update(name, &mut write),
                None => self.reuse(name, &mut write),
            };
            if outcome != Outcome::Moved {
                return outcome == Outcome::Written;
            }
        }
        false
    }

    /// Empties the record of a name. Returns false if another thread wrote it at the same instant.
    pub fn remove(&self, name: u64) -> bool {
        let mut slots = self.slots.iter();
        let slot = slots.find(|slot| slot.name.load(Ordering::Acquire) == name);
        // A slot that has another name by now was empty before.
        slot.is_none_or(|slot| slot.update(name, |words| words.fill(0)) != Outcome::Dropped)
    }

    /// Returns the cells of the records. Signal-safe.
    pub fn cells(&self) -> impl Iterator<Item = &Cell<N, A>> {
        self.slots.iter().map(|slot| &slot.cell)
    }

    /// Returns the slot of this name, and claims one if it has none; `None` if all are taken. Slots are claimed in
    /// order, so that reports list names in the order of their first use.
    fn claim(&self, name: u64) -> Option<&Slot<N, A>> {
        self.slots.iter().find(|slot| {
            let (order, failed) = (Ordering::AcqRel, Ordering::Acquire);
            match slot.name.compare_exchange(0, name, order, failed) {
                Ok(_) => true,
                Err(taken) => taken == name,
            }
        })
    }

    /// Gives an empty slot to this name, and writes its record.
    fn reuse(&self, name: u64, write: &mut impl FnMut(&mut [u64; N])) -> Outcome {
        if !self.begin_reusing() {
            return Outcome::Dropped;
        }
        let outcome = self.reuse_alone(name, write);
        self.reusing.store(0, Ordering::Release);
        outcome
    }

    /// Does the same while no other thread does.
    fn reuse_alone(&self, name: u64, write: &mut impl FnMut(&mut [u64; N])) -> Outcome {
        let taken = |slot: &Slot<N, A>| slot.name.load(Ordering::Acquire) == name;
        if self.slots.iter().any(taken) {
            return Outcome::Moved;
        }
        let is_given = self.slots.iter().any(|slot| {
            let is_empty = |words: [u64; N]| words.first() == Some(&0);
            slot.cell.read().is_some_and(is_empty)
                && slot.cell.update(|words| {
                    // It was written since the read.
                    if !is_empty(*words) {
                        return false;
                    }
                    slot.name.store(name, Ordering::Release);
                    write(words);
                    true
                })
        });
        if is_given {
            Outcome::Written
        } else {
            Outcome::Dropped
        }
    }

    /// Claims `reusing`. Spins a bounded number of times; returns false if another thread still has it.
    fn begin_reusing(&self) -> bool {
        (0..MAX_CLAIMS).any(|_| {
            let (order, failed) = (Ordering::Acquire, Ordering::Relaxed);
            let begins = self.reusing.compare_exchange(0, 1, order, failed).is_ok();
            if !begins {
                std::hint::spin_loop();
            }
            begins
        })
    }
}

impl<const N: usize, A: Atomic<Value = u64>> Slot<N, A> {
    /// Writes the record if the slot still belongs to this name.
    fn update(&self, name: u64, write: impl FnOnce(&mut [u64; N])) -> Outcome {
        let mut outcome = Outcome::Dropped;
        self.cell.update(|words| {
            if self.name.load(Ordering::Relaxed) != name {
                outcome = Outcome::Moved;
                return false;
            }
            outcome = Outcome::Written;
            write(words);
            true
        });
        outcome
    }
}

/// `scripts/model`
#[cfg(all(loom, test))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;

    const OLD: u64 = 7;
    const NEW: u64 = 9;

    fn write(name: u64) -> impl FnMut(&mut [u64; 2]) {
        move |words| *words = [name, name]
    }

    /// The only slot is given to another name beside a late writer of the old name.
    #[test]
    fn model_a_reused_slot_never_has_the_record_of_the_old_name() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let word = |value| AtomicU64::new(value);
            let slots = Arc::new(Slots::<1, 2, AtomicU64> {
                slots: [Slot {
                    name: word(OLD),
                    cell: Cell::model([OLD, OLD]),
                }],
                reusing: word(0),
            });
            let late = {
                let slots = slots.clone();
                loom::thread::spawn(move || slots.put(OLD, write(OLD)))
            };
            let is_removed = slots.remove(OLD);
            let is_given = slots.put(NEW, write(NEW));
            let [slot] = &slots.slots;
            let seen = slot.cell.read();
            let is_late = late.join().unwrap();
            if let Some([kind, value]) = seen {
                assert!(kind == value && [0, OLD, NEW].contains(&kind));
                assert!(
                    kind != OLD || !is_given,
                    "the old record in the slot of the new name"
                );
            }
            let (name, record) = (slot.name.load(Ordering::Relaxed), slot.cell.read());
            match (is_removed, is_given) {
                (_, true) => assert_eq!((name, record), (NEW, Some([NEW, NEW]))),
                (true, false) => assert!(name == OLD && is_late && record == Some([OLD, OLD])),
                (false, false) => assert_eq!((name, record), (OLD, Some([OLD, OLD]))),
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn write(value: u64) -> impl FnMut(&mut [u64; 2]) {
        move |words| *words = [value, value]
    }

    fn records<const COUNT: usize>(slots: &Slots<COUNT, 2>) -> Vec<u64> {
        let records = slots.cells().filter_map(Cell::read);
        records.map(|[value, _]| value).collect()
    }

    #[test]
    fn a_removed_name_keeps_its_slot_until_another_needs_it() {
        let slots = Slots::<3, 2>::new();
        for name in 1..=3 {
            assert!(slots.put(name, write(name)));
        }
        assert!(!slots.put(4, write(4)), "all slots are taken");
        assert!(slots.remove(2) && slots.remove(5));
        assert_eq!(records(&slots), [1, 0, 3]);
        assert!(slots.put(2, write(20)));
        assert_eq!(records(&slots), [1, 20, 3]);
        assert!(slots.remove(2));
        assert!(slots.put(4, write(4)));
        assert_eq!(records(&slots), [1, 4, 3]);
        assert!(!slots.put(2, write(2)), "another name has its slot");
        assert!(slots.remove(2), "a late removal changes nothing");
        assert_eq!(records(&slots), [1, 4, 3]);
    }

    /// A writer that was interrupted between its search and its write.
    #[test]
    fn a_late_write_does_not_land_in_the_record_of_the_next_name() {
        let slots = Slots::<1, 2>::new();
        assert!(slots.put(1, write(1)));
        let found = slots.claim(1).unwrap();
        assert!(slots.remove(1) && slots.put(2, write(2)));
        assert_eq!(found.update(1, write(10)), Outcome::Moved);
        assert_eq!(records(&slots), [2]);
    }

    /// As in a signal handler that interrupts a thread while it gives a slot to another name.
    #[test]
    fn a_second_thread_does_not_wait_for_ever() {
        let slots = Slots::<1, 2>::new();
        assert!(slots.put(1, write(1)) && slots.remove(1));
        let mut inner = None;
        assert!(slots.put(2, |words| {
            inner = Some((slots.put(3, write(3)), slots.remove(1)));
            *words = [2, 2];
        }));
        assert_eq!(inner, Some((false, true)));
        assert_eq!(records(&slots), [2]);
    }

    /// Threads that set and remove more names than there are slots: no name has two slots.
    #[test]
    fn many_threads_share_few_slots() {
        static SLOTS: Slots<4, 2> = Slots::new();
        let failed = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let threads = (1..=3u64).map(|thread| {
                let failed = &failed;
                scope.spawn(move || {
                    for round in 0..5_000 {
                        let name = thread << 32 | round;
                        let is_set = SLOTS.put(name, write(name));
                        let count = records(&SLOTS).iter().filter(|&&at| at == name).count();
                        if count != usize::from(is_set) {
                            failed.lock().unwrap().push((name, count));
                        }
                        while !SLOTS.remove(name) {}
                    }
                })
            });
            let threads: Vec<_> = threads.collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                for words in SLOTS.cells().filter_map(Cell::read) {
                    assert_eq!(words[0], words[1]);
                }
            }
        });
        assert_eq!(*failed.lock().unwrap(), []);
        assert_eq!(records(&SLOTS), [0; 4]);
    }
}
