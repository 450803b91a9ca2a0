//! The holder of a lock of the C library: by the words of the mutex that a thread waits on.

use super::memory;
use super::threads::Thread;
use crate::platform::surface::{Blocked, Holder};

/// The bits of a futex that has its owner in its word (include/uapi/linux/futex.h): older versions of libc have none.
const FUTEX_WAITERS: u32 = 0x8000_0000;
const FUTEX_TID_MASK: u32 = 0x3fff_ffff;

impl Blocked {
    /// The holder of the lock that the thread waits for; `None` if it waits for none. Signal-safe.
    pub fn holder(self) -> Option<Holder> {
        // futex(2): the address of the word, the operation, the value that the word had to have.
        let [address, operation, value, ..] = self.arguments;
        if self.call != Some(libc::SYS_futex as u64) {
            return None;
        }
        let mut bytes = [0u8; 20];
        let read = memory::read(address, &mut bytes) == bytes.len();
        let mut words = [0u32; 5];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_ne_bytes(bytes.try_into().ok()?);
        }
        let owner = owner(operation as i32, value as u32, read.then_some(words))?;
        let owner = owner.map(|tid| Thread::from_id(u64::from(tid)));
        Some(match owner.filter(|owner| owner.is_alive()) {
            Some(owner) => Holder::Known(owner),
            None => Holder::Unknown,
        })
    }
}

/// Returns the owner that the futex's words name. `None`: the operation is not a wait. `Some(None)`: the words do not name
/// an owner.
///
/// glibc's `pthread_mutex_t` begins with `__lock`, `__count`, `__owner`, `__nusers`, `__kind`, four
/// bytes each (`sysdeps/x86/nptl/bits/struct_mutex.h`), and waits by plain FUTEX_WAIT for the word 2
/// (`lowlevellock.h`); a robust or priority-inheriting one has the owner in the word itself. Rust's
/// standard library waits by FUTEX_WAIT_BITSET. Only what fits in every field is believed.
fn owner(operation: i32, value: u32, words: Option<[u32; 5]>) -> Option<Option<u32>> {
    let operation = operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let [word, _, owner, users, kind] = words.unwrap_or_default();
    // PTHREAD_MUTEX_ELISION_NP and PTHREAD_MUTEX_NO_ELISION_NP: pthread_mutexattr_settype sets the second
    // with PTHREAD_MUTEX_NORMAL.
    let kind = kind & !(256 | 512);
    // PTHREAD_MUTEX_ROBUST_NORMAL_NP and PTHREAD_MUTEX_PRIO_INHERIT_NP of the `__kind`.
    let (robust, inherits) = (kind & 16 != 0, kind & 32 != 0);
    let owner = match operation {
        libc::FUTEX_LOCK_PI | libc::FUTEX_LOCK_PI2 if inherits => Some(word & FUTEX_TID_MASK),
        libc::FUTEX_WAIT if robust && value & FUTEX_WAITERS != 0 => Some(word & FUTEX_TID_MASK),
        libc::FUTEX_WAIT if value == 2 && word == 2 && users >= 1 && kind <= 3 => Some(owner),
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI | libc::FUTEX_LOCK_PI2 => {
            None
        }
        _ => return None,
    };
    Some(owner.filter(|&tid| tid != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_of_a_mutex_name_an_owner() {
        const WAIT: i32 = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        const REALTIME: i32 = libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME;
        const TIMED: i32 = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
        const PI: i32 = libc::FUTEX_LOCK_PI | libc::FUTEX_PRIVATE_FLAG;
        const WAKE: i32 = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        let waited = FUTEX_WAITERS | 77;
        for (what, operation, value, words, expected) in [
            ("a mutex", WAIT, 2, Some([2, 0, 77, 1, 0]), Some(Some(77))),
            (
                "a recursive one",
                WAIT,
                2,
                Some([2, 3, 77, 1, 1]),
                Some(Some(77)),
            ),
            (
                "one that is not elided",
                WAIT,
                2,
                Some([2, 0, 77, 1, 512]),
                Some(Some(77)),
            ),
            (
                "a robust one",
                WAIT,
                waited,
                Some([waited, 0, 0, 0, 16]),
                Some(Some(77)),
            ),
            (
                "one that inherits",
                PI,
                0,
                Some([waited, 0, 0, 0, 32]),
                Some(Some(77)),
            ),
            ("of no thread", WAIT, 2, Some([2, 0, 0, 1, 0]), Some(None)),
            (
                "a mutex that has just been let go",
                WAIT,
                2,
                Some([0, 0, 77, 1, 0]),
                Some(None),
            ),
            ("without users", WAIT, 2, Some([2, 0, 77, 0, 0]), Some(None)),
            (
                "of no known kind",
                WAIT,
                2,
                Some([2, 0, 77, 1, 99]),
                Some(None),
            ),
            ("Rust's Mutex", TIMED, 2, Some([2, 0, 77, 1, 0]), Some(None)),
            ("a condition", TIMED, 8, Some([8, 0, 77, 1, 0]), Some(None)),
            (
                "pthread_join",
                REALTIME,
                78,
                Some([78, 0, 0, 0, 0]),
                Some(None),
            ),
            ("unreadable", WAIT, 2, None, Some(None)),
            ("no wait", WAKE, 1, Some([2, 0, 77, 1, 0]), None),
        ] {
            assert_eq!(owner(operation, value, words), expected, "{what}");
        }
    }
}
