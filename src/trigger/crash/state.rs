//! The state of a crash: one enum in one atomic word, and every change of it.
//!
//! ```text
//! Off <-> Idle -> Writing -> Dying            the process ends
//!                   |   \      ^
//!                Closing  -> Asking -> Answered       a handler from before us decides
//!                              \         /
//!                               Retracting -> Idle    the process lives on
//! ```
//!
//! `Asking` and `Answered` are undecided: if the process ends, the report was that of its death; if it lives on,
//! [`CrashState::survives`] takes the report back, on whatever thread that is noticed. They hinder nothing.
//!
//! The word holds the process too: in a child of `fork` its parent's state is [`State::Off`].

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::CrashWriter;
use crate::platform::atomic::Atomic;
use crate::platform::stacks::CrashStack;
use crate::platform::{Thread, process_id};

/// Where a crash is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is installed in this process.
    Off,
    /// No crash.
    Idle,
    /// This thread writes the report, or has another one write it.
    Writing(Owner),
    /// This thread has crashed in the writing, and closes what stands.
    Closing(Owner),
    /// The report stands, and this thread is in the handler from before us, or has jumped out of it.
    Asking(Owner),
    /// The report stands, and that handler has returned to this thread as if it had dealt with the fault.
    Answered(Owner),
    /// The report stands, and the process dies of it.
    Dying(Owner),
    /// This thread takes the report back.
    Retracting(Owner),
}

/// A thread: the lower 32 bits of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner(u32);

impl Owner {
    pub fn current() -> Owner {
        Owner::of(Thread::current())
    }

    pub fn of(thread: Thread) -> Owner {
        Owner(thread.id() as u32)
    }

    pub fn thread(self) -> Thread {
        Thread::from_id(self.0.into())
    }
}

/// A state, and the word that stood for it: one thread makes a transition from it, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub state: State,
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

/// That of this process.
pub(super) static STATE: CrashState = CrashState(AtomicU64::new(0));

fn decode(word: u64, process: u32) -> State {
    let owner = Owner(word as u32);
    if word >> PROCESS & PROCESS_BITS != u64::from(process) & PROCESS_BITS {
        return State::Off;
    }
    match word >> PHASE & 7 {
        0 => State::Off,
        1 => State::Idle,
        2 => State::Writing(owner),
        3 => State::Closing(owner),
        4 => State::Asking(owner),
        5 => State::Answered(owner),
        6 => State::Dying(owner),
        _ => State::Retracting(owner),
    }
}

impl Seen {
    /// How many reports were taken back.
    pub fn survived(self) -> u64 {
        self.word >> SURVIVED
    }

    /// The same process and count in another state.
    fn to(self, state: State) -> Seen {
        let (phase, owner) = match state {
            State::Off => (0, Owner(0)),
            State::Idle => (1, Owner(0)),
            State::Writing(owner) => (2, owner),
            State::Closing(owner) => (3, owner),
            State::Asking(owner) => (4, owner),
            State::Answered(owner) => (5, owner),
            State::Dying(owner) => (6, owner),
            State::Retracting(owner) => (7, owner),
        };
        let kept = self.word >> PROCESS << PROCESS;
        let word = kept | phase << PHASE | u64::from(owner.0);
        Seen { state, word }
    }

    fn counted(self) -> Seen {
        let survived = match self.survived() {
            MOST_COUNTED => MOST_COUNTED / 2 + 1,
            fewer => fewer + 1,
        };
        let kept = self.word & ((1 << SURVIVED) - 1);
        Seen {
            word: kept | survived << SURVIVED,
            ..self
        }
    }
}

/// All of these are signal-safe, and a transition gives `None` where it is not to be made from there, or where
/// another thread has made one meanwhile.
impl<A: Atomic<Value = u64>> CrashState<A> {
    pub fn now(&self, process: u32) -> Seen {
        let word = self.0.load(Ordering::SeqCst);
        let state = decode(word, process);
        Seen { state, word }
    }

    fn go(&self, from: Seen, to: Seen) -> Option<Seen> {
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
                State::Off => Seen {
                    word: (u64::from(process) & PROCESS_BITS) << PROCESS,
                    ..seen
                },
                // A handler that comes back finds another count.
                State::Idle | State::Asking(_) | State::Answered(_) => seen.counted(),
                State::Writing(_) | State::Closing(_) | State::Dying(_) | State::Retracting(_) => {
                    return;
                }
            };
            if self.go(seen, from.to(State::Idle)).is_some() {
                return;
            }
        }
    }

    /// No thread looks any more at what the writer needs, and none will; `None` while one may.
    pub fn uninstall(&self, seen: Seen) -> Option<Seen> {
        match seen.state {
            State::Off => Some(seen),
            State::Idle => self.go(seen, seen.to(State::Off)),
            _ => None,
        }
    }

    /// `owner` is to write the report.
    pub fn claim(&self, seen: Seen, owner: Owner) -> Option<Seen> {
        match seen.state {
            State::Idle => self.go(seen, seen.to(State::Writing(owner))),
            _ => None,
        }
    }

    /// The writer has crashed itself, and is to close what stands.
    pub fn crashes(&self, seen: Seen) -> Option<Seen> {
        match seen.state {
            State::Writing(owner) => self.go(seen, seen.to(State::Closing(owner))),
            _ => None,
        }
    }

    /// The report stands, and its owner is about to call the handler from before us.
    pub fn asks(&self, seen: Seen) -> Option<Seen> {
        match seen.state {
            State::Writing(owner) | State::Dying(owner) => {
                self.go(seen, seen.to(State::Asking(owner)))
            }
            _ => None,
        }
    }

    /// The process goes on, as far as the owner's handler can say.
    pub fn answers(&self, seen: Seen) -> Option<Seen> {
        match seen.state {
            State::Writing(owner) | State::Asking(owner) | State::Dying(owner) => {
                self.go(seen, seen.to(State::Answered(owner)))
            }
            _ => None,
        }
    }

    /// The process dies of what was reported: `owner`'s signal comes (again).
    pub fn dies(&self, seen: Seen, owner: Owner) -> Option<Seen> {
        match seen.state {
            State::Writing(_) | State::Asking(_) => self.go(seen, seen.to(State::Dying(owner))),
            _ => None,
        }
    }

    /// The process lives on after what was reported: has `retract` take the report back, and the next one may come.
    pub fn survives(&self, seen: Seen, noticed_by: Owner, retract: impl FnOnce()) -> Option<Seen> {
        let retracting = match seen.state {
            State::Asking(_) | State::Answered(_) | State::Dying(_) => {
                self.go(seen, seen.counted().to(State::Retracting(noticed_by)))?
            }
            _ => return None,
        };
        retract();
        self.go(retracting, retracting.to(State::Idle))
    }
}

/// The state of this process now. Signal-safe.
pub(super) fn now() -> Seen {
    STATE.now(process_id())
}

/// Whether a crash is being reported that the process is about to die of, as far as is known: other triggers do
/// nothing then. Signal-safe.
pub(crate) fn in_progress() -> bool {
    matches!(
        now().state,
        State::Writing(_) | State::Closing(_) | State::Dying(_)
    )
}

/// The signal of the last report.
pub(super) static FIRST_SIGNAL: AtomicU32 = AtomicU32::new(0);
/// Where the owner's handler stands on its stack in [`State::Asking`]; the lowest bit is set where the handler from
/// before us was called on [`STACK`].
pub(super) static HERE: AtomicUsize = AtomicUsize::new(0);
/// Whether nothing is reported while a debugger is attached.
pub(super) static LEAVE_TO_DEBUGGER: AtomicBool = AtomicBool::new(false);
pub(super) static WRITER: AtomicPtr<CrashWriter> = AtomicPtr::new(std::ptr::null_mut());
/// On which a report is written.
pub(super) static STACK: AtomicPtr<CrashStack> = AtomicPtr::new(std::ptr::null_mut());
/// For signals that come meanwhile.
pub(super) static SALVAGE_STACK: AtomicPtr<CrashStack> = AtomicPtr::new(std::ptr::null_mut());

/// A signal, as the kernel gave it to the handler.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub signal: i32,
    pub info: *mut libc::siginfo_t,
    pub frame: *mut c_void,
    /// Where the handler stands on its stack.
    pub here: usize,
}

/// `RUSTFLAGS="--cfg loom" cargo test --lib model`
#[cfg(all(loom, test))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64 as Word, AtomicUsize as Count};

    const PROCESS: u32 = 7;

    /// What the handler from before us does.
    #[derive(Clone, Copy, PartialEq)]
    enum Does {
        Returns,
        GivesWay,
        JumpsAway,
    }

    struct Shared {
        state: CrashState<Word>,
        /// Threads that look at what the writer needs, or at its stack.
        inside: Count,
        /// Reports that stand.
        reports: Count,
        freed: Count,
    }

    impl Shared {
        fn new() -> Arc<Shared> {
            let count = || Count::new(0);
            let state = CrashState(Word::new(0));
            state.install(PROCESS);
            Arc::new(Shared {
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
        fn crash(&self, owner: Owner, does: Does) -> bool {
            for _ in 0..8 {
                let seen = self.state.now(PROCESS);
                match seen.state {
                    State::Idle => {
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
                    State::Asking(_) | State::Answered(_) => {
                        let _ = self.state.survives(seen, owner, || self.retract());
                    }
                    State::Off | State::Dying(_) => return false,
                    _ => loom::thread::yield_now(),
                }
            }
            false
        }

        fn uninstall(&self) {
            let seen = self.state.now(PROCESS);
            let seen = match seen.state {
                State::Asking(_) | State::Answered(_) => {
                    self.state.survives(seen, Owner(9), || self.retract())
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
            let shared = Shared::new();
            let other = {
                let shared = shared.clone();
                loom::thread::spawn(move || shared.crash(Owner(2), second))
            };
            let mine = shared.crash(Owner(1), first);
            let theirs = other.join().unwrap();
            assert!(mine || theirs);
            assert_eq!(shared.reports.load(Ordering::SeqCst), 1);
            let owner = |owner| owner == Owner(1) && mine || owner == Owner(2) && theirs;
            assert!(match shared.state.now(PROCESS).state {
                State::Asking(by) => owner(by),
                State::Answered(by) =>
                    owner(by) && (first, second) != (Does::JumpsAway, Does::JumpsAway),
                State::Dying(by) =>
                    owner(by) && (first == Does::GivesWay || second == Does::GivesWay),
                _ => false,
            });
        });
    }

    /// A crash while the monitor goes: nothing is freed that a handler looks at. A monitor that comes then is its own.
    #[test]
    fn model_nothing_is_freed_under_a_crash() {
        all(|first, _| {
            let shared = Shared::new();
            let other = {
                let shared = shared.clone();
                loom::thread::spawn(move || shared.crash(Owner(2), first))
            };
            shared.uninstall();
            if shared.freed.load(Ordering::SeqCst) == 1 {
                assert_eq!(shared.state.now(PROCESS).state, State::Off);
                other.join().unwrap();
                shared.freed.store(0, Ordering::SeqCst);
                shared.state.install(PROCESS);
                shared.reports.store(0, Ordering::SeqCst);
                assert!(shared.crash(Owner(3), Does::Returns));
            } else {
                other.join().unwrap();
            }
        });
    }

    /// In a child of `fork` nothing is installed, whatever its parent's threads were at, before it installs itself.
    #[test]
    fn model_a_child_of_fork_is_off() {
        all(|first, _| {
            let shared = Shared::new();
            let other = {
                let shared = shared.clone();
                loom::thread::spawn(move || shared.crash(Owner(2), first))
            };
            let child = shared.state.now(PROCESS + 1);
            assert_eq!(child.state, State::Off);
            let own = CrashState(Word::new(child.word));
            own.install(PROCESS + 1);
            assert_eq!(own.now(PROCESS + 1).state, State::Idle);
            assert_eq!(own.now(PROCESS).state, State::Off);
            other.join().unwrap();
        });
    }
}
