//! Claims on the parts of a crash report: each part is claimed by compare-and-swap, by one of two writers.
//!
//! The writer thread, a thread that was made at install, and the dying thread may both write, when the writer thread
//! has not got on in time. A part that is claimed is never written by the other at the same time: the words here are
//! the only state that the two share.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::platform::atomic::Atomic;

/// The parts, in order of worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum CrashPart {
    /// The file, `head` and `event`.
    Begin,
    /// The thread that crashed, and its images.
    Thread,
    /// Vitals, the app's context, memory near the crash.
    Vitals,
    /// All other threads.
    Threads,
    /// The cost, the losses, `end`, and the file's final name.
    Close,
}

const COUNT: usize = 5;

/// The two writers of a crash report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum WriterRole {
    /// The thread that was made at install.
    WriterThread = 1,
    /// The thread that crashed (on Apple, the thread that answers its exception).
    Dying = 2,
}

const FREE: u32 = 0;
const DONE: u32 = 3;
const STATE: u32 = 3;

static PART_STATES: PartStates = PartStates([const { AtomicU32::new(0) }; COUNT]);

/// For each part: the crash's number << 2 | state.
struct PartStates<A = AtomicU32>([A; COUNT]);

/// The parts of one report, as one of the two sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claims {
    crash: u32,
    pub role: WriterRole,
    /// The writer thread has stopped for good in the part that it had claimed: the part is not tried again,
    /// or it would stop this thread too.
    pub writer_thread_died: bool,
}

#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "there is no writer thread")
)]
impl Claims {
    /// All parts are free. Only for the thread that owns the crash. Signal-safe.
    pub fn fresh() -> Claims {
        Claims {
            crash: PART_STATES.begin(),
            role: WriterRole::Dying,
            writer_thread_died: false,
        }
    }

    /// The same report for the writer thread. Signal-safe.
    pub fn for_writer_thread(self) -> Claims {
        Claims {
            role: WriterRole::WriterThread,
            ..self
        }
    }

    /// Claims a part: whether it is this writer's now. Signal-safe.
    pub fn claim(&self, part: CrashPart) -> bool {
        PART_STATES.claim(self, part)
    }

    /// A claimed part is written; `false` where it was taken over meanwhile. Signal-safe.
    pub fn done(&self, part: CrashPart) -> bool {
        PART_STATES.done(self, part)
    }

    /// Returns true if this writer may still claim `part`. Signal-safe.
    fn is_left(&self, part: CrashPart) -> bool {
        let state = self.state(part);
        state == Some(FREE)
            || state == Some(WriterRole::WriterThread as u32) && self.may_take_over(part)
    }

    /// Returns true if this writer could claim any of the parts between `head` and the last. Signal-safe.
    pub fn is_any_left(&self) -> bool {
        let parts = [
            CrashPart::Begin,
            CrashPart::Thread,
            CrashPart::Vitals,
            CrashPart::Threads,
        ];
        parts.into_iter().any(|part| self.is_left(part))
    }

    /// Returns true if either writer has claimed it, or has written it. Signal-safe.
    pub fn is_touched(&self, part: CrashPart) -> bool {
        self.state(part) != Some(FREE)
    }

    /// Count of the parts that are written. Signal-safe.
    pub fn written(&self) -> usize {
        PART_STATES.written(self.crash)
    }

    /// Returns true if the dying thread may take over `part` from the writer thread: any part in which that is stuck;
    /// if it crashed, only the beginning, without which there would be no report.
    fn may_take_over(&self, part: CrashPart) -> bool {
        self.role == WriterRole::Dying && (!self.writer_thread_died || part == CrashPart::Begin)
    }

    fn state(&self, part: CrashPart) -> Option<u32> {
        PART_STATES.state(self.crash, part)
    }
}

impl<A: Atomic<Value = u32>> PartStates<A> {
    /// The next crash's number; all its parts are free.
    fn begin(&self) -> u32 {
        let PartStates(words) = self;
        let before = words
            .first()
            .map_or(0, |word| word.load(Ordering::Relaxed) >> 2);
        let crash = (before + 1) & (u32::MAX >> 2);
        for word in words {
            word.store((crash << 2) | FREE, Ordering::Release);
        }
        crash
    }

    fn claim(&self, of: &Claims, part: CrashPart) -> bool {
        let (thread, dying) = (WriterRole::WriterThread as u32, WriterRole::Dying as u32);
        self.swap(of.crash, part, FREE, of.role as u32)
            || of.may_take_over(part) && self.swap(of.crash, part, thread, dying)
    }

    fn done(&self, of: &Claims, part: CrashPart) -> bool {
        self.swap(of.crash, part, of.role as u32, DONE)
    }

    fn written(&self, crash: u32) -> usize {
        let is_done = |word: &&A| word.load(Ordering::Acquire) == (crash << 2) | DONE;
        self.0.iter().filter(is_done).count()
    }

    fn state(&self, crash: u32, part: CrashPart) -> Option<u32> {
        let word = self.0.get(part as usize)?.load(Ordering::Acquire);
        (word >> 2 == crash).then_some(word & STATE)
    }

    fn swap(&self, crash: u32, part: CrashPart, from: u32, to: u32) -> bool {
        let (from, to) = ((crash << 2) | from, (crash << 2) | to);
        self.0.get(part as usize).is_some_and(|word| {
            word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        })
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test --lib model`
#[cfg(all(loom, test))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// In every interleaving each part is written by one of the two in the end, and what the writer thread had
    /// begun counts for nothing once it was taken over.
    #[test]
    fn model_each_part_is_done_once() {
        loom::model(|| {
            let words = || loom::sync::atomic::AtomicU32::new(0);
            let words = Arc::new(PartStates([words(), words(), words(), words(), words()]));
            let done = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let crash = words.begin();
            let dying = Claims {
                crash,
                role: WriterRole::Dying,
                writer_thread_died: false,
            };
            let writer = {
                let (words, done) = (words.clone(), done.clone());
                loom::thread::spawn(move || write(&words, &done, &dying.for_writer_thread()))
            };
            write(&words, &done, &dying);
            writer.join().unwrap();
            for done in done.iter() {
                assert_eq!(done.load(Ordering::Relaxed), 1);
            }
            assert_eq!(words.written(crash), 2);
        });
    }

    fn write(
        words: &PartStates<loom::sync::atomic::AtomicU32>,
        done: &[AtomicUsize; 2],
        claims: &Claims,
    ) {
        for (part, done) in [CrashPart::Begin, CrashPart::Thread].into_iter().zip(done) {
            if words.claim(claims, part) && words.done(claims, part) {
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    // One test: the words are the process' own.
    #[test]
    fn each_part_is_written_once_and_what_one_is_stuck_in_the_other_takes_over() {
        let mut dying = Claims::fresh();
        let writer_thread = dying.for_writer_thread();
        assert!(writer_thread.claim(CrashPart::Begin) && dying.claim(CrashPart::Begin));
        // It was taken over: the writer thread's work counts for nothing.
        assert!(!writer_thread.done(CrashPart::Begin) && dying.done(CrashPart::Begin));
        assert!(!writer_thread.claim(CrashPart::Begin) && !dying.claim(CrashPart::Begin));

        // A part in which the writer thread crashed is left alone, except for the beginning.
        dying.writer_thread_died = true;
        assert!(writer_thread.claim(CrashPart::Thread));
        assert!(!dying.is_left(CrashPart::Thread) && !dying.claim(CrashPart::Thread));
        assert!(dying.claim(CrashPart::Vitals) && !writer_thread.claim(CrashPart::Vitals));
        assert_eq!(dying.written(), 1);

        // The next crash knows nothing of it, and what is late writes nothing into it.
        let next = Claims::fresh();
        assert!(!writer_thread.done(CrashPart::Thread) && !writer_thread.claim(CrashPart::Close));
        assert!(next.is_left(CrashPart::Thread) && !next.is_touched(CrashPart::Begin));
        assert_eq!(next.written(), 0);
    }
}
