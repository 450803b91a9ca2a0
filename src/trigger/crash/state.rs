//! The state of a crash: one enum in one atomic word, and every change of it.
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
//! [`CrashState::survives`] takes the report back, on whatever thread that is noticed. They hinder nothing.
//!
//! The word holds the process too: in a child of `fork` its parent's state is [`CrashStage::Off`].

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::CrashWriter;
use crate::platform::atomic::Atomic;
use crate::platform::signals::Handler;
use crate::platform::stacks::CrashStack;
use crate::platform::{Thread, process_id};

/// Stage of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrashStage {
    /// Nothing is installed in this process.
    Off,
    /// No crash.
    Idle,
    /// This thread writes the report.
    Writing(CrashOwner),
    /// The report stands, and this thread is in the handler from before us, or has jumped out of it.
    Asking(CrashOwner),
    /// The report stands, and that handler has returned to this thread as if it had dealt with the fault.
    Answered(CrashOwner),
    /// The report stands, and the process dies of it.
    Dying(CrashOwner),
    /// This thread takes the report back.
    Retracting(CrashOwner),
}

/// A thread: the lower 32 bits of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CrashOwner(u32);

impl CrashOwner {
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
    pub state: CrashStage,
    word: u64,
}

const PHASE: u32 = 32;
const PROCESS: u32 = 35;
const SURVIVED: u32 = 57;
const PROCESS_BITS: u64 = (1 << (SURVIVED - PROCESS)) - 1;
/// The count comes round to half of it, so that it never looks small again.
const MOST_COUNTED: u64 = (1 << (64 - SURVIVED)) - 1;

/// owner: 32 bits, phase: 3, process: 22 (the kernel's most, 2^22), reports that were taken back: 7.
#[derive(Debug)]
pub(super) struct CrashState<A = AtomicU64>(A);

/// The state of this process.
pub(super) static STATE: CrashState = CrashState(AtomicU64::new(0));

fn decode(word: u64, process: u32) -> CrashStage {
    let owner = CrashOwner(word as u32);
    if word >> PROCESS & PROCESS_BITS != u64::from(process) & PROCESS_BITS {
        return CrashStage::Off;
    }
    match word >> PHASE & 7 {
        0 => CrashStage::Off,
        1 => CrashStage::Idle,
        2 => CrashStage::Writing(owner),
        3 => CrashStage::Asking(owner),
        4 => CrashStage::Answered(owner),
        5 => CrashStage::Dying(owner),
        _ => CrashStage::Retracting(owner),
    }
}

impl SeenState {
    /// Number of reports that were taken back.
    pub fn survived(self) -> u64 {
        self.word >> SURVIVED
    }

    /// The same process and count in another state.
    fn to(self, state: CrashStage) -> SeenState {
        let (phase, owner) = match state {
            CrashStage::Off => (0, CrashOwner(0)),
            CrashStage::Idle => (1, CrashOwner(0)),
            CrashStage::Writing(owner) => (2, owner),
            CrashStage::Asking(owner) => (3, owner),
            CrashStage::Answered(owner) => (4, owner),
            CrashStage::Dying(owner) => (5, owner),
            CrashStage::Retracting(owner) => (6, owner),
        };
        let kept = self.word >> PROCESS << PROCESS;
        let word = kept | phase << PHASE | u64::from(owner.0);
        SeenState { state, word }
    }

    fn counted(self) -> SeenState {
        let survived = match self.survived() {
            MOST_COUNTED => MOST_COUNTED / 2 + 1,
            fewer => fewer + 1,
        };
        let kept = self.word & ((1 << SURVIVED) - 1);
        SeenState {
            word: kept | survived << SURVIVED,
            ..self
        }
    }
}

/// All of these are signal-safe, and a transition gives `None` where it is not to be made from there, or where
/// another thread has made one meanwhile.
impl<A: Atomic<Value = u64>> CrashState<A> {
    pub fn now(&self, process: u32) -> SeenState {
        let word = self.0.load(Ordering::SeqCst);
        let state = decode(word, process);
        SeenState { state, word }
    }

    fn go(&self, from: SeenState, to: SeenState) -> Option<SeenState> {
        let order = Ordering::SeqCst;
        let gone = self.0.compare_exchange(from.word, to.word, order, order);
        gone.is_ok().then_some(to)
    }

    /// Handlers are installed. A report that some thread is in the middle of, for a monitor before this one, keeps
    /// its state.
    pub fn install(&self, process: u32) {
        loop {
            let seen = self.now(process);
            let from = match seen.state {
                CrashStage::Off => SeenState {
                    word: (u64::from(process) & PROCESS_BITS) << PROCESS,
                    ..seen
                },
                // A handler that comes back finds another count.
                CrashStage::Idle | CrashStage::Asking(_) | CrashStage::Answered(_) => {
                    seen.counted()
                }
                CrashStage::Writing(_) | CrashStage::Dying(_) | CrashStage::Retracting(_) => {
                    return;
                }
            };
            if self.go(seen, from.to(CrashStage::Idle)).is_some() {
                return;
            }
        }
    }

    /// No thread looks any more at what the writer needs, and none will; `None` while one may.
    pub fn uninstall(&self, seen: SeenState) -> Option<SeenState> {
        match seen.state {
            CrashStage::Off => Some(seen),
            CrashStage::Idle => self.go(seen, seen.to(CrashStage::Off)),
            _ => None,
        }
    }

    /// `owner` is to write the report.
    pub fn claim(&self, seen: SeenState, owner: CrashOwner) -> Option<SeenState> {
        match seen.state {
            CrashStage::Idle => self.go(seen, seen.to(CrashStage::Writing(owner))),
            _ => None,
        }
    }

    /// The report stands, and its owner is about to call the handler from before us.
    pub fn asks(&self, seen: SeenState) -> Option<SeenState> {
        match seen.state {
            CrashStage::Writing(owner) | CrashStage::Dying(owner) => {
                self.go(seen, seen.to(CrashStage::Asking(owner)))
            }
            _ => None,
        }
    }

    /// The process goes on, as far as the owner's handler can say.
    pub fn answers(&self, seen: SeenState) -> Option<SeenState> {
        match seen.state {
            CrashStage::Writing(owner) | CrashStage::Asking(owner) | CrashStage::Dying(owner) => {
                self.go(seen, seen.to(CrashStage::Answered(owner)))
            }
            _ => None,
        }
    }

    /// The process dies of what was reported: `owner`'s signal comes (again).
    pub fn dies(&self, seen: SeenState, owner: CrashOwner) -> Option<SeenState> {
        match seen.state {
            CrashStage::Writing(_) | CrashStage::Asking(_) => {
                self.go(seen, seen.to(CrashStage::Dying(owner)))
            }
            _ => None,
        }
    }

    /// The process lives on after what was reported: has `retract` take the report back, and the next one may come.
    pub fn survives(
        &self,
        seen: SeenState,
        noticed_by: CrashOwner,
        retract: impl FnOnce(),
    ) -> Option<SeenState> {
        let retracting = match seen.state {
            CrashStage::Asking(_) | CrashStage::Answered(_) | CrashStage::Dying(_) => {
                self.go(seen, seen.counted().to(CrashStage::Retracting(noticed_by)))?
            }
            _ => return None,
        };
        retract();
        self.go(retracting, retracting.to(CrashStage::Idle))
    }
}

/// The state of this process now. Signal-safe.
pub(super) fn now() -> SeenState {
    STATE.now(process_id())
}

/// Returns true while a crash is reported that the process is about to die of, as far as is known: other triggers do
/// nothing then. Signal-safe.
pub(crate) fn in_progress() -> bool {
    matches!(now().state, CrashStage::Writing(_) | CrashStage::Dying(_))
}

/// The signal of the last report.
pub(super) static FIRST_SIGNAL: AtomicU32 = AtomicU32::new(0);
/// Stack address of the owner's handler in [`CrashStage::Asking`]; the lowest bit is set where the handler from
/// before us was called on [`STACK`].
pub(super) static HERE: AtomicUsize = AtomicUsize::new(0);
/// True if nothing is reported while a debugger is attached.
pub(super) static LEAVE_TO_DEBUGGER: AtomicBool = AtomicBool::new(false);
pub(super) static WRITER: AtomicPtr<CrashWriter> = AtomicPtr::new(std::ptr::null_mut());
/// On which a report is written.
pub(super) static STACK: AtomicPtr<CrashStack> = AtomicPtr::new(std::ptr::null_mut());
/// For signals that come meanwhile.
pub(super) static SALVAGE_STACK: AtomicPtr<CrashStack> = AtomicPtr::new(std::ptr::null_mut());

/// A previous handler that has dealt with so many faults is called first from then on.
pub(super) const DEALS_WITH_IT: u64 = 8;

/// A signal, as the kernel gave it to the handler.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub signal: i32,
    pub info: *mut libc::siginfo_t,
    pub frame: *mut c_void,
    /// Address of the handler's frame on its stack.
    pub here: usize,
    /// The handler itself.
    pub handler: Handler,
}

/// `RUSTFLAGS="--cfg loom" cargo test --lib model`
#[cfg(all(loom, test))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64 as Word, AtomicUsize as Count};

    const PROCESS: u32 = 7;

    /// Behaviour of the handler from before us.
    #[derive(Clone, Copy, PartialEq)]
    enum Does {
        Returns,
        GivesWay,
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
            let state = CrashState(Word::new(0));
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

        fn retract(&self) {
            self.alone(|| {
                assert_eq!(self.reports.fetch_sub(1, Ordering::SeqCst), 1);
            });
        }

        /// A handler of ours: whether the report is this thread's.
        fn crash(&self, owner: CrashOwner, does: Does) -> bool {
            for _ in 0..8 {
                let seen = self.state.now(PROCESS);
                match seen.state {
                    CrashStage::Idle => {
                        let Some(mine) = self.state.claim(seen, owner) else {
                            continue;
                        };
                        self.alone(|| {
                            assert_eq!(self.reports.fetch_add(1, Ordering::SeqCst), 0);
                        });
                        let asking = self.state.asks(mine).expect("no other leaves Writing");
                        match does {
                            Does::JumpsAway => {}
                            // Where it fails, another thread has found that this one lives on.
                            Does::Returns => drop(self.state.answers(asking)),
                            Does::GivesWay => drop(self.state.dies(asking, owner)),
                        }
                        return true;
                    }
                    // As if it were known that its handler is left.
                    CrashStage::Asking(_) | CrashStage::Answered(_) => {
                        let _ = self.state.survives(seen, owner, || self.retract());
                    }
                    CrashStage::Off | CrashStage::Dying(_) => return false,
                    _ => loom::thread::yield_now(),
                }
            }
            false
        }

        fn uninstall(&self) {
            let seen = self.state.now(PROCESS);
            let seen = match seen.state {
                CrashStage::Asking(_) | CrashStage::Answered(_) => {
                    self.state.survives(seen, CrashOwner(9), || self.retract())
                }
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
        for first in [Does::Returns, Does::GivesWay, Does::JumpsAway] {
            for second in [Does::Returns, Does::GivesWay, Does::JumpsAway] {
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
            let owner = |owner| owner == CrashOwner(1) && mine || owner == CrashOwner(2) && theirs;
            assert!(match shared.state.now(PROCESS).state {
                CrashStage::Asking(by) => owner(by),
                CrashStage::Answered(by) =>
                    owner(by) && (first, second) != (Does::JumpsAway, Does::JumpsAway),
                CrashStage::Dying(by) =>
                    owner(by) && (first == Does::GivesWay || second == Does::GivesWay),
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
                assert_eq!(shared.state.now(PROCESS).state, CrashStage::Off);
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
            assert_eq!(child.state, CrashStage::Off);
            let own = CrashState(Word::new(child.word));
            own.install(PROCESS + 1);
            assert_eq!(own.now(PROCESS + 1).state, CrashStage::Idle);
            assert_eq!(own.now(PROCESS).state, CrashStage::Off);
            other.join().unwrap();
        });
    }
}
