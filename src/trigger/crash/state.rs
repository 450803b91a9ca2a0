//! The state of a crash: a stage and its owner in one atomic word, and every change of it.
//!
//! ```text
//! Off <-> Idle -> Writing -> Dying                   the process ends
//!                        \      ^
//!                          -> Asking -> Answered      a handler from before us decides
//!                              \         /
//!                               Retracting -> Idle    the process lives on
//! ```
//!
//! `Asking` and `Answered` are undecided: if the process ends, the report was that of its death; if it lives on,
//! [`CrashState::survives`] takes the report back, on whatever thread that is noticed. Until then other reports are held back
//! ([`is_undecided`]), and nothing else is hindered.
//!
//! The word holds the process too: in a child of `fork` its parent's state is [`CrashStage::Off`].

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::platform::atomic::Atomic;
use crate::platform::{Thread, process_token};

/// Stage of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrashStage {
    /// Nothing is installed in this process.
    Off,
    /// No crash.
    Idle,
    /// The owner writes the report.
    Writing,
    /// The report stands, and the owner is in the handler from before us, or has jumped out of it.
    Asking,
    /// The report stands, and that handler has returned to the owner as if it had dealt with the fault.
    Answered,
    /// The report stands, and the process dies of it.
    Dying,
    /// The owner takes the report back.
    Retracting,
}
use CrashStage::{Answered, Asking, Dying, Idle, Off, Retracting, Writing};

/// By their numbers in the word.
const STAGES: [CrashStage; 7] = [Off, Idle, Writing, Asking, Answered, Dying, Retracting];

/// A thread: the lower 32 bits of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CrashOwner(u32);

impl CrashOwner {
    const NONE: CrashOwner = CrashOwner(0);

    pub fn current() -> CrashOwner {
        CrashOwner::of(Thread::current())
    }

    pub fn of(thread: Thread) -> CrashOwner {
        CrashOwner(thread.id() as u32)
    }

    pub fn thread(self) -> Thread {
        Thread::from_id(self.0.into())
    }
}

/// A state, and the word that stood for it: one thread makes a transition from it, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenState {
    pub stage: CrashStage,
    /// No thread in `Off` and `Idle`.
    pub owner: CrashOwner,
    word: u64,
}

const STAGE: u32 = 32;
const PROCESS: u32 = 35;
const SURVIVED: u32 = 57;
const PROCESS_BITS: u64 = (1 << (SURVIVED - PROCESS)) - 1;
/// The count comes round to half of it, so that it never looks small again.
const MAX_SURVIVED: u64 = (1 << (64 - SURVIVED)) - 1;

impl SeenState {
    fn of(word: u64, process: u32) -> SeenState {
        let is_ours = word >> PROCESS & PROCESS_BITS == u64::from(process) & PROCESS_BITS;
        let stage = STAGES.get((word >> STAGE & 7) as usize).filter(|_| is_ours);
        SeenState {
            stage: stage.copied().unwrap_or(Off),
            owner: CrashOwner(word as u32),
            word,
        }
    }

    /// Number of reports that were taken back.
    pub fn survived(self) -> u64 {
        self.word >> SURVIVED
    }

    /// The same process and count in another stage.
    fn in_stage(self, stage: CrashStage, owner: CrashOwner) -> SeenState {
        let kept = self.word >> PROCESS << PROCESS;
        let word = kept | (stage as u64) << STAGE | u64::from(owner.0);
        SeenState { stage, owner, word }
    }

    /// `Idle`, and one report more that was taken back.
    fn to_next(self) -> SeenState {
        let survived = match self.survived() {
            MAX_SURVIVED => MAX_SURVIVED / 2 + 1,
            fewer => fewer.saturating_add(1),
        };
        let kept = self.word & ((1 << SURVIVED) - 1);
        let word = kept | survived << SURVIVED;
        SeenState { word, ..self }.in_stage(Idle, CrashOwner::NONE)
    }
}

/// What [`CrashState::now`] reads, and what the owner notes beside it.
#[derive(Debug)]
pub(super) struct CrashState<A = AtomicU64> {
    /// Owner: 32 bits, stage: 3, process: 22 (the kernel's most, 2^22), reports that were taken back: 7.
    word: A,
    /// The signal, from `Writing` on.
    signal: A,
    /// The stack address of the owner's handler, and the lowest one of what it calls, from `Asking` on.
    handler: A,
    bottom: A,
}

/// The state of this process.
pub(super) static STATE: CrashState = CrashState {
    word: AtomicU64::new(0),
    signal: AtomicU64::new(0),
    handler: AtomicU64::new(0),
    bottom: AtomicU64::new(0),
};

/// All of these are signal-safe, and a transition gives `None` where it is not to be made from there, or where
/// another thread has made one meanwhile.
impl<A: Atomic<Value = u64>> CrashState<A> {
    #[inline(never)]
    pub fn now(&self, process: u32) -> SeenState {
        SeenState::of(self.word.load(Ordering::SeqCst), process)
    }

    fn transition(&self, seen: SeenState, from: &[CrashStage], to: SeenState) -> Option<SeenState> {
        let order = Ordering::SeqCst;
        let gone = from.contains(&seen.stage)
            && (self.word)
                .compare_exchange(seen.word, to.word, order, order)
                .is_ok();
        gone.then_some(to)
    }

    /// Handlers are installed. A report that some thread is in the middle of, for a monitor before this one, keeps
    /// its state.
    pub fn install(&self, process: u32) {
        loop {
            let seen = self.now(process);
            let to = match seen.stage {
                Off => {
                    let word = (u64::from(process) & PROCESS_BITS) << PROCESS;
                    SeenState { word, ..seen }.in_stage(Idle, CrashOwner::NONE)
                }
                // A handler that comes back finds another count.
                Idle | Asking | Answered => seen.to_next(),
                Writing | Dying | Retracting => return,
            };
            if self.transition(seen, &STAGES, to).is_some() {
                return;
            }
        }
    }

    /// No thread looks any more at what the writer needs, and none will; `None` while one may.
    pub fn uninstall(&self, seen: SeenState) -> Option<SeenState> {
        match seen.stage {
            Off => Some(seen),
            _ => self.transition(seen, &[Idle], seen.in_stage(Off, CrashOwner::NONE)),
        }
    }

    /// `owner` is to write the report of this signal.
    pub fn claim(&self, seen: SeenState, owner: CrashOwner, signal: i32) -> Option<SeenState> {
        let writing = self.transition(seen, &[Idle], seen.in_stage(Writing, owner))?;
        self.signal.store(signal as u64, Ordering::Relaxed);
        Some(writing)
    }

    /// The report stands, and its owner, whose handler has its calls on this part of a stack, is about to call the one from
    /// before us.
    pub fn ask_previous(&self, seen: SeenState, calls: Range<u64>) -> Option<SeenState> {
        let from = [Writing, Dying];
        if from.contains(&seen.stage) {
            // Its owner alone stores here.
            self.bottom.store(calls.start, Ordering::Relaxed);
            self.handler.store(calls.end, Ordering::Relaxed);
        }
        self.transition(seen, &from, seen.in_stage(Asking, seen.owner))
    }

    /// The process goes on, as far as the owner's handler can say.
    pub fn answers(&self, seen: SeenState) -> Option<SeenState> {
        let from = [Writing, Asking, Dying];
        self.transition(seen, &from, seen.in_stage(Answered, seen.owner))
    }

    /// The process dies of what was reported: `owner`'s signal comes (again).
    pub fn mark_dying(&self, seen: SeenState, owner: CrashOwner) -> Option<SeenState> {
        self.transition(seen, &[Writing, Asking], seen.in_stage(Dying, owner))
    }

    /// The process lives on after what was reported: has `retract` take the report back, and the next one may come.
    pub fn survives(
        &self,
        seen: SeenState,
        noticed_by: CrashOwner,
        retract: impl FnOnce(),
    ) -> Option<SeenState> {
        let from = [Asking, Answered, Dying];
        let retracting = self.transition(seen, &from, seen.in_stage(Retracting, noticed_by))?;
        retract();
        self.transition(retracting, &[Retracting], retracting.to_next())
    }

    /// The signal of the report that stands.
    pub fn signal(&self) -> i32 {
        self.signal.load(Ordering::Relaxed) as i32
    }

    /// The part of a stack for the calls of the owner's handler, as [`CrashState::asks`] took it.
    pub fn calls(&self) -> Range<u64> {
        self.bottom.load(Ordering::Relaxed)..self.handler.load(Ordering::Relaxed)
    }
}

/// The state of this process now. Signal-safe.
pub(super) fn now() -> SeenState {
    STATE.now(process_token())
}

/// Returns true while a crash is reported that the process is about to die of, as far as is known: no stacks are taken for
/// other reports. Signal-safe.
pub(crate) fn in_progress() -> bool {
    matches!(now().stage, Writing | Dying)
}

/// Returns true while the report of a crash stands or is written: other reports are held back until it is known whether the
/// process dies of it. Signal-safe.
pub(crate) fn is_undecided() -> bool {
    !matches!(now().stage, Off | Idle)
}

/// A previous handler that has dealt with so many faults is called first from then on.
pub(super) const FAULTS_HANDLED: u64 = 8;

/// `scripts/model`
#[cfg(all(loom, test))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64 as Word, AtomicUsize as Count};

    const PROCESS: u32 = 7;

    fn state_of(word: u64) -> CrashState<Word> {
        CrashState {
            word: Word::new(word),
            signal: Word::new(0),
            handler: Word::new(0),
            bottom: Word::new(0),
        }
    }

    /// Behaviour of the handler from before us.
    #[derive(Clone, Copy, PartialEq)]
    enum Does {
        Returns,
        LetsDie,
        JumpsAway,
    }

    struct ModelledCrash {
        state: CrashState<Word>,
        /// Threads that look at what the writer needs, or at its stack.
        inside: Count,
        /// Reports that stand.
        reports: Count,
        freed: Count,
    }

    impl ModelledCrash {
        fn new() -> Arc<ModelledCrash> {
            let count = || Count::new(0);
            let state = state_of(0);
            state.install(PROCESS);
            Arc::new(ModelledCrash {
                state,
                inside: count(),
                reports: count(),
                freed: count(),
            })
        }

        /// Alone with what the writer needs.
        fn alone(&self, work: impl FnOnce()) {
            assert_eq!(self.freed.load(Ordering::SeqCst), 0);
            assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0);
            work();
            self.inside.fetch_sub(1, Ordering::SeqCst);
        }

        /// `by` has noticed that the owner of what was seen lives on, and takes the report back: that of its signal.
        fn survives(&self, seen: SeenState, by: CrashOwner) -> Option<SeenState> {
            self.state.survives(seen, by, || {
                assert_eq!(self.state.signal() as u32, seen.owner.0);
                assert!(seen.stage != Asking || self.state.calls().end == u64::from(seen.owner.0));
                self.alone(|| {
                    assert_eq!(self.reports.fetch_sub(1, Ordering::SeqCst), 1);
                });
            })
        }

        /// A handler of ours: whether the report is this thread's.
        fn crash(&self, owner: CrashOwner, does: Does) -> bool {
            for _ in 0..8 {
                let seen = self.state.now(PROCESS);
                match seen.stage {
                    Idle => {
                        let Some(mine) = self.state.claim(seen, owner, owner.0 as i32) else {
                            continue;
                        };
                        self.alone(|| {
                            assert_eq!(self.reports.fetch_add(1, Ordering::SeqCst), 0);
                        });
                        let asking = self.state.ask_previous(mine, 0..owner.0.into());
                        let asking = asking.expect("no other leaves Writing");
                        match does {
                            Does::JumpsAway => {}
                            // Where it fails, another thread has found that this one lives on.
                            Does::Returns => drop(self.state.answers(asking)),
                            Does::LetsDie => drop(self.state.mark_dying(asking, owner)),
                        }
                        return true;
                    }
                    // As if it were known that its handler is left.
                    Asking | Answered => drop(self.survives(seen, owner)),
                    Off | Dying => return false,
                    _ => loom::thread::yield_now(),
                }
            }
            false
        }

        fn uninstall(&self) {
            let seen = self.state.now(PROCESS);
            let seen = match seen.stage {
                Asking | Answered => self.survives(seen, CrashOwner(9)),
                _ => Some(seen),
            };
            if seen.is_some_and(|seen| self.state.uninstall(seen).is_some()) {
                self.freed.store(1, Ordering::SeqCst);
                assert_eq!(self.inside.load(Ordering::SeqCst), 0);
            }
        }
    }

    fn all(check: impl Fn(Does, Does) + Sync + Send + 'static) {
        let check = std::sync::Arc::new(check);
        for first in [Does::Returns, Does::LetsDie, Does::JumpsAway] {
            for second in [Does::Returns, Does::LetsDie, Does::JumpsAway] {
                let check = check.clone();
                loom::model(move || check(first, second));
            }
        }
    }

    /// Two threads crash: one writes at a time, one report stands in the end, and a handler that another thread has
    /// found to be left changes nothing when it comes back.
    #[test]
    fn model_two_threads_that_crash_leave_one_report() {
        all(|first, second| {
            let shared = ModelledCrash::new();
            let other = {
                let shared = shared.clone();
                loom::thread::spawn(move || shared.crash(CrashOwner(2), second))
            };
            let mine = shared.crash(CrashOwner(1), first);
            let theirs = other.join().unwrap();
            assert!(mine || theirs);
            assert_eq!(shared.reports.load(Ordering::SeqCst), 1);
            let seen = shared.state.now(PROCESS);
            assert!(match seen.owner {
                CrashOwner(1) => mine,
                owner => owner == CrashOwner(2) && theirs,
            });
            assert_eq!(shared.state.signal() as u32, seen.owner.0);
            assert!(match seen.stage {
                Asking => true,
                Answered => (first, second) != (Does::JumpsAway, Does::JumpsAway),
                Dying => first == Does::LetsDie || second == Does::LetsDie,
                _ => false,
            });
        });
    }

    /// A crash while the monitor goes: nothing is freed that a handler looks at. A monitor that comes then is its own.
    #[test]
    fn model_nothing_is_freed_under_a_crash() {
        all(|first, _| {
            let shared = ModelledCrash::new();
            let other = {
                let shared = shared.clone();
                loom::thread::spawn(move || shared.crash(CrashOwner(2), first))
            };
            shared.uninstall();
            if shared.freed.load(Ordering::SeqCst) == 1 {
                assert_eq!(shared.state.now(PROCESS).stage, Off);
                other.join().unwrap();
                shared.freed.store(0, Ordering::SeqCst);
                shared.state.install(PROCESS);
                shared.reports.store(0, Ordering::SeqCst);
                assert!(shared.crash(CrashOwner(3), Does::Returns));
            } else {
                other.join().unwrap();
            }
        });
    }

    /// In a child of `fork` nothing is installed, whatever its parent's threads were at, before it installs itself.
    #[test]
    fn model_a_child_of_fork_is_off() {
        all(|first, _| {
            let shared = ModelledCrash::new();
            let other = {
                let shared = shared.clone();
                loom::thread::spawn(move || shared.crash(CrashOwner(2), first))
            };
            let child = shared.state.now(PROCESS + 1);
            assert_eq!(child.stage, Off);
            let own = state_of(child.word);
            own.install(PROCESS + 1);
            assert_eq!(own.now(PROCESS + 1).stage, Idle);
            assert_eq!(own.now(PROCESS).stage, Off);
            other.join().unwrap();
        });
    }
}
