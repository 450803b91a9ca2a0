//! The watched threads besides the one that installed: a table of fixed size, and the calling thread's place in it.
//!
//! A thread joins the table when it is registered, and leaves it with its guard, at its end, or with the monitor. The lock is
//! for these moments alone: a beat finds its own state by one thread-local.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::state::{HEARTBEAT, HeartbeatState};
use super::{Beat, Heartbeat};
use crate::platform::Thread;
use crate::platform::forked::{ForkLock, OnceFlag, around_forks};
use crate::trigger::stall::Stall;

/// Most threads that are watched at once besides the one that installed.
pub const THREADS: usize = 256;
/// Most bytes of a name.
const MAX_NAME: usize = 64;

#[cfg(not(all(loom, test)))]
static STATES: [HeartbeatState; THREADS] = [const { HeartbeatState::with(None) }; THREADS];
#[cfg(all(loom, test))]
static STATES: std::sync::LazyLock<Vec<HeartbeatState>> = std::sync::LazyLock::new(Vec::new);

/// States up to here have been used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Count of the threads that found no room.
static REFUSED: AtomicU64 = AtomicU64::new(0);
static MEMBERS: ForkLock<Registered> = ForkLock::new(Registered {
    open: false,
    all: Vec::new(),
});

thread_local! {
    /// The calling thread's state. It may belong to another thread by now: see [`own_state`].
    static OWN: Cell<Option<&'static HeartbeatState>> = const { Cell::new(None) };
    /// Ends the watch with the thread.
    static AT_END: AtEnd = const { AtEnd };
}

/// Dropped when the thread ends.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(heart) = own_heartbeat().filter(|heart| !heart.is_main()) {
            Registry.leave(heart.state, heart.install);
        }
    }
}

/// The calling thread's state, if that thread is watched. One thread-local, no lock.
#[inline]
pub fn own_state() -> Option<&'static HeartbeatState> {
    OWN.get()
        .filter(|state| state.installed().is_some() && state.is_own())
}

/// The calling thread's heartbeat, if that thread is watched.
#[inline]
pub fn own_heartbeat() -> Option<Heartbeat> {
    let state = own_state()?;
    let install = state.installed()?;
    Some(Heartbeat { state, install })
}

/// The state with this index. Index 0, and any index out of range, is the state of the thread that installed.
pub(super) fn state_at(index: u32) -> &'static HeartbeatState {
    let index = (index as usize).checked_sub(1);
    index
        .and_then(|index| STATES.get(index))
        .unwrap_or(&HEARTBEAT)
}

/// The index of a state, 0 for one that is not in the table.
pub(super) fn index_of(state: &HeartbeatState) -> u32 {
    const SIZE: usize = size_of::<HeartbeatState>();
    let offset = (std::ptr::from_ref(state) as usize).wrapping_sub(STATES.as_ptr() as usize);
    let index = offset / SIZE;
    if index < STATES.len() {
        (index as u32).wrapping_add(1)
    } else {
        0
    }
}

/// A watched thread.
#[derive(Debug, Clone)]
pub(crate) struct WatchedMember {
    /// The app's name for it, or for its pool.
    pub name: Arc<str>,
    /// Its number in its pool; 0 for a thread of its own.
    pub number: u32,
    pub thread: Thread,
    pub stall: Stall,
    /// The install of its state.
    pub install: u32,
}

impl WatchedMember {
    /// Returns true for a member of this pool; false for a thread of its own, whatever its name is.
    pub fn is_in_pool(&self, name: &str) -> bool {
        self.number > 0 && &*self.name == name
    }
}

/// The reason why a thread is not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no monitor.
    NoMonitor,
    /// It is watched already.
    Watched,
    /// There are [`THREADS`] already.
    Full,
}

struct Registered {
    /// True while there is a monitor.
    open: bool,
    all: Vec<Option<WatchedMember>>,
}

impl Registered {
    fn iter(&self) -> impl Iterator<Item = &WatchedMember> {
        self.all.iter().flatten()
    }

    fn find_free(&self, is_free: impl Fn(&Option<WatchedMember>) -> bool) -> Option<usize> {
        self.all.iter().position(is_free)
    }

    /// The least number that no other member of the pool has.
    fn free_number(&self, name: &str) -> u32 {
        let taken = |number| (self.iter()).any(|of| &*of.name == name && of.number == number);
        (1..).find(|number| !taken(*number)).unwrap_or(0)
    }

    /// The name as other members have it, cut to what there is room for.
    fn shared_name(&self, name: &str) -> Arc<str> {
        let name = name
            .get(..name.floor_char_boundary(MAX_NAME))
            .unwrap_or_default();
        let shared = self.iter().find(|of| &*of.name == name);
        shared.map_or_else(|| Arc::from(name), |of| Arc::clone(&of.name))
    }
}

/// The table of the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registry;

impl Registry {
    /// A monitor is there, installed by the calling thread: threads may join. Those of an earlier one have left.
    pub fn open(self) -> Heartbeat {
        static ONCE: OnceFlag = OnceFlag::new();
        if ONCE.is_first_call() {
            around_forks!(MEMBERS);
        }
        self.close();
        REFUSED.store(0, Ordering::Relaxed);
        let states = STATES.iter();
        states.for_each(|state| state.strays.store(0, Ordering::Relaxed));
        let heart = HEARTBEAT.install();
        OWN.set(Some(&HEARTBEAT));
        if let Some(mut members) = MEMBERS.lock() {
            members.open = true;
        }
        heart
    }

    /// The monitor is gone: all heartbeats do nothing from now on.
    pub fn close(self) {
        HEARTBEAT.uninstall();
        if let Some(mut members) = MEMBERS.lock() {
            members.open = false;
            members.all.clear();
            for state in STATES.iter().take(USED.load(Ordering::Relaxed)) {
                state.uninstall();
            }
        }
    }

    /// Watches the calling thread, as a member of a pool or as a thread of its own.
    ///
    /// # Errors
    /// The reason why not. One for which there is no room is counted.
    pub fn join(self, name: &str, is_pool: bool, stall: Stall) -> Result<Heartbeat, Refusal> {
        if own_state().is_some() {
            return Err(Refusal::Watched);
        }
        // In the last steps of a thread that ends there is nothing left to watch.
        if AT_END.try_with(|_| ()).is_err() {
            return Err(Refusal::NoMonitor);
        }
        let mut members = MEMBERS.lock().ok_or(Refusal::NoMonitor)?;
        if !members.open {
            return Err(Refusal::NoMonitor);
        }
        let free = members.find_free(|of| of.is_none());
        // A thread may have ended without its destructors.
        let ended = || members.find_free(|of| of.as_ref().is_some_and(|of| !of.thread.is_alive()));
        let is_full = members.all.len() == THREADS;
        let free = free.or_else(|| is_full.then(ended).flatten());
        let index = free.unwrap_or(members.all.len());
        let Some(state) = STATES.get(index) else {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::Full);
        };
        let name = members.shared_name(name);
        let number = if is_pool {
            members.free_number(&name)
        } else {
            0
        };
        if free.is_none() {
            members.all.push(None);
        }
        let heart = state.join();
        state.is_in_pool.store(is_pool.into(), Ordering::Relaxed);
        if let Some(slot) = members.all.get_mut(index) {
            *slot = Some(WatchedMember {
                name,
                number,
                thread: Thread::current(),
                stall,
                install: heart.install,
            });
        }
        USED.fetch_max(index.saturating_add(1), Ordering::Release);
        OWN.set(Some(state));
        Ok(heart)
    }

    /// Ends the watch of a thread, unless it has ended.
    pub fn leave(self, state: &HeartbeatState, install: u32) {
        let Some(mut members) = MEMBERS.lock() else {
            return;
        };
        let index = (index_of(state) as usize).checked_sub(1);
        let slot = index.and_then(|index| members.all.get_mut(index));
        let Some(slot) = slot.filter(|_| state.installed() == Some(install)) else {
            return;
        };
        *slot = None;
        let has_beaten = state.beat() != Beat::NONE;
        state.uninstall();
        drop(members);
        if has_beaten {
            state.wake();
        }
    }

    /// The states that may be in use, each with its index.
    pub fn states(self) -> impl Iterator<Item = (usize, &'static HeartbeatState)> {
        STATES.iter().take(USED.load(Ordering::Acquire)).enumerate()
    }

    /// The thread whose state has this index, if it is watched.
    pub fn member(self, index: usize) -> Option<WatchedMember> {
        MEMBERS.lock()?.all.get(index)?.clone()
    }

    /// Count of the threads of a pool, and of those that are at rest or have never beaten.
    pub fn pool(self, name: &str) -> (u64, u64) {
        let Some(members) = MEMBERS.lock() else {
            return (0, 0);
        };
        let states = STATES.iter().zip(&members.all);
        let of_pool = states.filter(|(_, of)| of.as_ref().is_some_and(|of| of.is_in_pool(name)));
        of_pool.fold((0u64, 0u64), |(count, at_rest), (state, _)| {
            let beat = state.beat();
            let rests = beat.idle() || beat == Beat::NONE;
            (
                count.saturating_add(1),
                at_rest.saturating_add(rests.into()),
            )
        })
    }

    /// Count of the threads that are watched now, besides the one that installed.
    pub fn watched(self) -> u64 {
        MEMBERS
            .lock()
            .map_or(0, |members| members.iter().count() as u64)
    }

    /// Count of the threads that found no room since the install.
    pub fn refused(self) -> u64 {
        REFUSED.load(Ordering::Relaxed)
    }

    /// Count of the beats, since the install, of threads that were not the ones watched.
    pub fn strays(self) -> u64 {
        let others = STATES.iter().map(HeartbeatState::strays);
        others.fold(HEARTBEAT.strays(), u64::saturating_add)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_has_a_number_and_is_found_by_it() {
        let state = state_at(7);
        assert_eq!(index_of(state), 7);
        let heart = Heartbeat { state, install: 5 };
        let found = Heartbeat::of(heart.number());
        assert!(std::ptr::eq(found.state, state) && found.install == 5);
        assert!(std::ptr::eq(Heartbeat::of(3).state, &raw const HEARTBEAT));
        assert!(std::ptr::eq(
            Heartbeat::of(u32::MAX).state,
            &raw const HEARTBEAT
        ));
    }

    #[test]
    fn names_are_cut_between_letters_and_numbers_are_used_again() {
        let member = |name: &str, number| WatchedMember {
            name: Arc::from(name),
            number,
            thread: Thread::current(),
            stall: Stall::default(),
            install: 1,
        };
        let members = Registered {
            open: true,
            all: vec![Some(member("pool", 1)), None, Some(member("pool", 3))],
        };
        assert_eq!(members.free_number("pool"), 2);
        assert_eq!(members.free_number("other"), 1);
        assert_eq!(members.shared_name(&"ä".repeat(33)).len(), 64);
        assert_eq!(
            members
                .shared_name(&("a".to_owned() + &"ä".repeat(33)))
                .len(),
            63
        );
        let shared = members.all[0].as_ref().map(|of| Arc::clone(&of.name));
        assert!(Arc::ptr_eq(&members.shared_name("pool"), &shared.unwrap()));
    }
}
