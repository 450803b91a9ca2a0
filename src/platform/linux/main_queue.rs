//! The main queue of libdispatch, in a program that has that library, as Swift's on Linux do: pings through it, and the thread that
//! works it off.
//!
//! After `dispatch_main`, which an async `main` of Swift calls too, the main thread sleeps in sigsuspend(2), and threads of the
//! library's pool work the queue off, at each time another one. The queue's lock has the id of the one that does. No header
//! declares where that word lies: each ping, which runs on that thread, looks for the word that holds its own thread's id.
//!
//! Source: dispatch/queue.h (`_dispatch_main_q`, `dispatch_async_f`); swift-corelibs-libdispatch, src/shims/lock.h
//! (`DLOCK_OWNER_MASK`) and src/queue_internal.h (`dq_state`, 128 bytes a queue).

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::memory;
use crate::platform::{QueueWorker, Thread, keeping_errno};

type Work = extern "C" fn(*mut c_void);
type Async = unsafe extern "C" fn(queue: *const c_void, context: *mut c_void, work: Work);

/// The queue, and the function that adds to it.
#[derive(Debug, Clone, Copy)]
pub struct MainQueue {
    queue: u64,
    add: Async,
}

/// Address of the queue, once a monitor pings through it.
static QUEUE: AtomicU64 = AtomicU64::new(0);
/// Address of the word with its owner, as the last ping has found it; 0: not found.
static LOCK: AtomicU64 = AtomicU64::new(0);
/// The thread that ran the last ping; 0 before the first.
static LAST_WORKER: AtomicI32 = AtomicI32::new(0);

/// Bytes of a queue.
const BYTES: usize = 128;
/// The bits of a lock that have the id of its owner: `FUTEX_TID_MASK`.
const OWNER: u32 = 0x3fff_ffff;

/// The address that the linker has for a symbol, 0 where nothing defines it: a program that is linked statically exports none.
macro_rules! linked {
    ($name:literal) => {{
        let address: u64;
        // SAFETY: reads the symbol's own entry of the global offset table.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                concat!(".weak ", $name),
                concat!("adrp {0}, :got:", $name),
                concat!("ldr {0}, [{0}, :got_lo12:", $name, "]"),
                out(reg) address,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        address
    }};
}

/// The address that the loader has for a symbol, 0 where no library has it.
fn loaded(name: &CStr) -> u64 {
    // SAFETY: a C string.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as u64 }
}

impl MainQueue {
    /// Looks for the library; `None` in a program without it. Not signal-safe.
    pub fn find() -> Option<MainQueue> {
        let or_loaded = |linked: u64, name: &CStr| match linked {
            0 => Some(loaded(name)).filter(|&address| address != 0),
            address => Some(address),
        };
        let queue = or_loaded(linked!("_dispatch_main_q"), c"_dispatch_main_q")?;
        let add = or_loaded(linked!("dispatch_async_f"), c"dispatch_async_f")?;
        // SAFETY: the function of this name has this type.
        let add = unsafe { std::mem::transmute::<usize, Async>(add as usize) };
        Some(MainQueue { queue, add })
    }

    /// Queues `beat`, to be called on the thread that works the queue off. Does not wait for it.
    pub fn post(self, beat: fn()) {
        extern "C" fn work(context: *mut c_void) {
            keeping_errno(note_worker);
            // SAFETY: the function that was passed below.
            unsafe { std::mem::transmute::<*mut c_void, fn()>(context)() };
        }
        QUEUE.store(self.queue, Ordering::Relaxed);
        // SAFETY: the main queue lives as long as the process; `work` takes the context that it is given.
        unsafe { (self.add)(self.queue as *const c_void, beat as *mut c_void, work) };
    }

    /// Forgets a queue that an earlier monitor has pinged.
    pub fn forget() {
        QUEUE.store(0, Ordering::Relaxed);
        LOCK.store(0, Ordering::Relaxed);
        LAST_WORKER.store(0, Ordering::Relaxed);
    }

    /// Returns true once a monitor pings through it.
    pub fn is_pinged() -> bool {
        QUEUE.load(Ordering::Relaxed) != 0
    }

    /// Looks up the thread that works the queue off at this moment, if a monitor pings through it and the first ping has run.
    /// Where no word holds an id, that is the thread of the last ping. Not for handlers.
    pub fn served(_: Thread) -> QueueWorker {
        let thread = |tid: i32| Thread::from_id(tid as u64);
        let last = LAST_WORKER.load(Ordering::Relaxed);
        let owner = owner_at(LOCK.load(Ordering::Relaxed));
        match owner {
            _ if !MainQueue::is_pinged() || last == 0 => QueueWorker::default(),
            // A run loop's thread owns the queue at rest, too.
            Some(tid) if thread(tid).is_main() => QueueWorker {
                by: Some(thread(tid)),
                rests: None,
            },
            Some(tid) => QueueWorker {
                by: Some(thread(tid)).filter(|thread| tid != 0 && thread.is_alive()),
                rests: Some(tid == 0),
            },
            None => QueueWorker {
                by: Some(thread(last)),
                rests: Some(false),
            },
        }
    }
}

/// The id in the word at this address; `None` where it cannot be read.
fn owner_at(address: u64) -> Option<i32> {
    let mut word = [0; 4];
    let read = address != 0 && memory::read(address, &mut word) == word.len();
    read.then(|| owner_in(&word))
}

fn owner_in(word: &[u8]) -> i32 {
    let word = word
        .first_chunk()
        .map_or(0, |word| u32::from_ne_bytes(*word));
    (word & OWNER) as i32
}

/// Notes that the calling thread works the queue off, and which of the queue's words shows that.
fn note_worker() {
    let own = Thread::current().tid();
    let queue = QUEUE.load(Ordering::Relaxed);
    let mut bytes = [0; BYTES];
    let length = memory::read(queue, &mut bytes);
    let lock = lock_in(bytes.get(..length).unwrap_or_default(), own);
    let address = lock.map_or(0, |at| queue.saturating_add(at));
    LOCK.store(address, Ordering::Relaxed);
    LAST_WORKER.store(own, Ordering::Relaxed);
}

/// Offset of the word that this thread owns. Of two, either may be the lock: `None`.
fn lock_in(queue: &[u8], owner: i32) -> Option<u64> {
    let words = queue.chunks_exact(4).zip((0..).step_by(4));
    let mut owned = words.filter(|(word, _)| owner_in(word) == owner);
    let (_, at) = owned.next()?;
    owned.next().is_none().then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue with these words at these offsets.
    fn queue(words: &[(usize, u32)]) -> [u8; BYTES] {
        let mut bytes = [0xff; BYTES];
        for &(at, word) in words {
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn the_lock_is_the_one_word_with_the_threads_id_whatever_its_flags_are() {
        const OWN: u32 = 0x1234;
        let lock = |words: &[(usize, u32)]| lock_in(&queue(words), OWN as i32);
        assert_eq!(lock(&[]), None);
        assert_eq!(lock(&[(0, OWN)]), Some(0));
        assert_eq!(lock(&[(56, OWN)]), Some(56));
        assert_eq!(lock(&[(124, OWN)]), Some(124));
        // Waiters, and a lock whose owner has died.
        assert_eq!(lock(&[(56, OWN | 1 << 31)]), Some(56));
        assert_eq!(lock(&[(56, OWN | 1 << 30)]), Some(56));
        // Another thread's, and half a word.
        assert_eq!(lock(&[(56, OWN + 1)]), None);
        assert_eq!(lock(&[(58, OWN)]), None);
        assert_eq!(lock(&[(16, OWN), (56, OWN)]), None);
        assert_eq!(lock_in(&queue(&[(56, OWN)])[..58], OWN as i32), None);
    }

    #[test]
    fn an_owner_is_read_where_there_is_memory() {
        let word = 0x8000_1234u32;
        assert_eq!(owner_at(&raw const word as u64), Some(0x1234));
        assert_eq!(owner_at(&raw const OWNERLESS as u64), Some(0));
        assert_eq!(owner_at(0), None);
        assert_eq!(owner_at(8), None);
    }

    static OWNERLESS: u32 = 0;

    #[test]
    fn a_program_without_the_library_has_no_queue() {
        assert!(MainQueue::find().is_none());
        assert_eq!(MainQueue::served(Thread::current()), QueueWorker::default());
    }
}
