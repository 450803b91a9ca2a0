//! The words that the watched thread and the watchdog share, the beat first, and how neither misses the other.

#[cfg(all(loom, test))]
use super::model::Semaphore;
#[cfg(not(all(loom, test)))]
use crate::platform::Semaphore;
#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::atomic::compiler_fence;
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Heartbeat;
use crate::platform::clock;
use crate::platform::context::thread_pointer;

/// The last report of the watched thread: a count of `begin`s and `end`s, how deep they nest, and
/// which of the two was last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beat(pub(super) u64);

impl Beat {
    pub(super) const DEPTH: u64 = 0xffff;
    pub(super) const ENDED: u64 = 0x1_0000;
    const ONE: u64 = 0x2_0000;

    /// Nothing was ever reported.
    pub const NONE: Beat = Beat(0);

    /// After one more `begin`.
    #[inline]
    #[must_use]
    pub const fn begun(self) -> Beat {
        let deeper = (self.0 & Self::DEPTH != Self::DEPTH) as u64;
        Beat((self.0.wrapping_add(Self::ONE) & !Self::ENDED).wrapping_add(deeper))
    }

    /// After one more `end`; one without a `begin` only counts.
    #[inline]
    #[must_use]
    pub const fn ended(self) -> Beat {
        let shallower = (self.0 & Self::DEPTH != 0) as u64;
        Beat((self.0.wrapping_add(Self::ONE) | Self::ENDED).wrapping_sub(shallower))
    }

    /// At rest, whatever has begun.
    #[must_use]
    pub(super) const fn paused(self) -> Beat {
        Beat((self.0.wrapping_add(Self::ONE) | Self::ENDED) & !Self::DEPTH)
    }

    /// At work again, `depth` turns deep; at rest if `depth` is 0.
    #[must_use]
    const fn resumed(self, depth: u64) -> Beat {
        let at_rest = self.paused();
        match depth {
            0 => at_rest,
            _ => Beat((at_rest.0 & !Self::ENDED).wrapping_add(depth)),
        }
    }

    /// Count of all `begin`s and `end`s.
    pub const fn count(self) -> u64 {
        self.0 / Self::ONE
    }

    /// Count of the `begin`s and `end`s since an earlier beat.
    pub const fn since(self, earlier: Beat) -> u64 {
        self.count().wrapping_sub(earlier.count()) & (u64::MAX / Self::ONE)
    }

    /// Count of the `begin`s that have not ended yet.
    pub const fn depth(self) -> u64 {
        self.0 & Self::DEPTH
    }

    /// Returns true if the thread has reported that it waits for its next event.
    pub const fn idle(self) -> bool {
        self.depth() == 0 && self.0 != 0
    }

    /// Returns true if a nested turn has ended inside one that has not: a nested run loop waits, or it is
    /// over and the outer turn goes on. The beat alone cannot tell which.
    pub const fn nested(self) -> bool {
        self.depth() != 0 && self.0 & Self::ENDED != 0
    }
}

/// Time after which each side has seen the other's store, nanoseconds.
///
/// A processor keeps a store back until it has the line that it goes to, which takes under a microsecond, and at most until
/// the kernel runs there: a thread that waits, or whose time slice is over, has passed the kernel's fences.
const SETTLES: u64 = 50_000_000;

/// The words that both sides share, of one watched thread. It is never freed: a heartbeat that outlives its monitor still
/// finds it.
#[derive(Debug)]
#[repr(align(128))]
pub struct HeartbeatState {
    pub(super) beat: AtomicU64,
    pub(super) wake_request: AtomicU32,
    pub(super) install: AtomicU32,
    /// Thread pointer of the watched thread: beats of others are ignored.
    pub(super) owner: AtomicU64,
    /// The depths at which the thread has paused, the last one lowest, a byte each: its highest bit is set.
    pub(super) paused: AtomicU64,
    /// 1 for a member of a pool.
    pub(super) is_in_pool: AtomicU32,
    /// The last beat of the install before.
    final_beat: AtomicU64,
    /// Time of the last beat that woke the watchdog, monotonic, nanoseconds; 0 for none.
    pub(crate) woke: AtomicU64,
    /// Count of the beats of other threads.
    pub(super) strays: AtomicU64,
    /// 1 once the app has reported that its launch is over.
    launched: AtomicU32,
    /// Ends the watchdog's wait; `None`: [`WAKE_UP`].
    #[cfg(not(all(loom, test)))]
    wake_up: Option<&'static Semaphore>,
    #[cfg(all(loom, test))]
    wake_up: loom::sync::Arc<Semaphore>,
}

/// The highest bit of a byte of [`HeartbeatState::paused`].
const PAUSED: u64 = 0x80;

/// The bits in which installs of a state are counted; those above number the state in a [`Heartbeat::number`].
pub(super) const INSTALLS: u32 = (1 << 20) - 1;

/// Ends the wait of the process' watchdog.
#[cfg(not(all(loom, test)))]
static WAKE_UP: Semaphore = Semaphore::new();

/// The heartbeat of the thread that installed the monitor.
#[cfg(not(all(loom, test)))]
pub static HEARTBEAT: HeartbeatState = HeartbeatState::with(None);
/// loom's atomics cannot be made in a constant; its tests do not use this one.
#[cfg(all(loom, test))]
pub static HEARTBEAT: std::sync::LazyLock<HeartbeatState> =
    std::sync::LazyLock::new(HeartbeatState::new);

impl HeartbeatState {
    /// With no beat yet, and no listener.
    #[cfg(not(all(loom, test)))]
    pub(super) const fn with(wake_up: Option<&'static Semaphore>) -> HeartbeatState {
        HeartbeatState {
            beat: AtomicU64::new(0),
            wake_request: AtomicU32::new(0),
            install: AtomicU32::new(0),
            owner: AtomicU64::new(0),
            paused: AtomicU64::new(0),
            is_in_pool: AtomicU32::new(0),
            final_beat: AtomicU64::new(0),
            woke: AtomicU64::new(0),
            strays: AtomicU64::new(0),
            launched: AtomicU32::new(0),
            wake_up,
        }
    }

    /// One with a watchdog of its own.
    #[cfg(all(any(test, feature = "__internals"), not(all(loom, test))))]
    #[allow(clippy::new_without_default, reason = "for tests")]
    pub fn new() -> HeartbeatState {
        HeartbeatState::with(Some(Box::leak(Box::new(Semaphore::new()))))
    }

    /// After one whole turn.
    #[cfg(all(loom, test))]
    pub fn new() -> HeartbeatState {
        HeartbeatState::beside(&loom::sync::Arc::new(Semaphore::new()))
    }

    /// After one whole turn, with the watchdog of others.
    #[cfg(all(loom, test))]
    pub fn beside(wake_up: &loom::sync::Arc<Semaphore>) -> HeartbeatState {
        HeartbeatState {
            beat: AtomicU64::new(Beat::NONE.begun().ended().0),
            wake_request: AtomicU32::new(0),
            install: AtomicU32::new(0),
            owner: AtomicU64::new(0),
            paused: AtomicU64::new(0),
            is_in_pool: AtomicU32::new(0),
            final_beat: AtomicU64::new(0),
            woke: AtomicU64::new(0),
            strays: AtomicU64::new(0),
            launched: AtomicU32::new(0),
            wake_up: loom::sync::Arc::clone(wake_up),
        }
    }

    #[cfg(not(all(loom, test)))]
    fn wake_up(&self) -> &'static Semaphore {
        self.wake_up.unwrap_or(&WAKE_UP)
    }

    #[cfg(all(loom, test))]
    fn wake_up(&self) -> &Semaphore {
        &self.wake_up
    }

    /// Starts anew, with no beat yet, for the calling thread; heartbeats of earlier installs do nothing from now on.
    pub fn install(&'static self) -> Heartbeat {
        let install = self.uninstall();
        self.wake_request.store(0, Ordering::SeqCst);
        self.final_beat.store(self.beat().0, Ordering::SeqCst);
        self.beat.store(0, Ordering::SeqCst);
        self.woke.store(0, Ordering::SeqCst);
        self.is_in_pool.store(0, Ordering::SeqCst);
        self.owner.store(thread_pointer(), Ordering::SeqCst);
        self.paused.store(0, Ordering::SeqCst);
        self.strays.store(0, Ordering::SeqCst);
        self.launched.store(0, Ordering::SeqCst);
        let install = install | 1;
        self.install.store(install, Ordering::SeqCst);
        Heartbeat {
            state: self,
            install,
        }
    }

    /// [`install`](Self::install) for a thread that a running watchdog does not know yet: its first beat wakes the watchdog.
    pub(super) fn join(&'static self) -> Heartbeat {
        let strays = self.strays();
        let heart = self.install();
        self.strays.store(strays, Ordering::Relaxed);
        self.wake_request.store(1, Ordering::SeqCst);
        heart
    }

    /// Turns all heartbeats into no-ops. Even numbers belong to no install.
    pub fn uninstall(&self) -> u32 {
        let next = (self.install.load(Ordering::SeqCst) | 1).wrapping_add(1) & INSTALLS;
        self.install.store(next, Ordering::SeqCst);
        next
    }

    /// The present install; `None` while there is none.
    #[inline]
    pub fn installed(&self) -> Option<u32> {
        let install = self.install.load(Ordering::Acquire);
        (install % 2 == 1).then_some(install)
    }

    /// The last beat of this install, which is over; `None` if two others have had the state since.
    pub fn final_beat(&self, install: u32) -> Option<Beat> {
        let since = || self.install.load(Ordering::SeqCst).wrapping_sub(install) & INSTALLS;
        let (own, before) = (self.beat(), Beat(self.final_beat.load(Ordering::SeqCst)));
        // Each uninstall adds 1, and each install after it 3.
        match since() {
            1 => Some(own),
            4 | 5 => Some(before),
            _ => None,
        }
    }

    /// Returns true on the watched thread. No call, no system call.
    #[inline]
    pub(super) fn is_own(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == thread_pointer()
    }

    /// Counts a beat of another thread than the watched one.
    #[cold]
    pub(super) fn stray(&self) {
        self.strays.fetch_add(1, Ordering::Relaxed);
    }

    /// Count of the beats that came from another thread than the watched one, and were ignored.
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// The app reports that its launch is over.
    pub fn set_launched(&self) {
        self.launched.store(1, Ordering::Relaxed);
    }

    /// Returns true once the app has reported that its launch is over.
    pub fn launched(&self) -> bool {
        self.launched.load(Ordering::Relaxed) != 0
    }

    /// Rests until [`HeartbeatState::resume`], whatever turns have begun. Call it on the watched thread. Pauses may nest; the
    /// depths of the last eight are kept. The turns of a member of a pool are over: it may leave its loop in the pause.
    pub(super) fn pause(&self) {
        let depth = match self.is_in_pool.load(Ordering::Relaxed) {
            0 => self.beat().depth().min(PAUSED - 1) | PAUSED,
            _ => PAUSED,
        };
        let outer = self.paused.load(Ordering::Relaxed) << 8;
        self.paused.store(outer | depth, Ordering::SeqCst);
        self.report(Beat::paused);
    }

    /// Works on within the turns that had begun before the last pause.
    pub(super) fn resume(&self) {
        let paused = self.paused.load(Ordering::Relaxed);
        if paused & PAUSED != 0 {
            self.paused.store(paused >> 8, Ordering::SeqCst);
            self.report(|beat| beat.resumed(paused & (PAUSED - 1)));
        }
    }

    /// Begins a turn for a ping, on the watchdog's thread, if the watched thread has neither begun one nor paused.
    pub fn ping(&self) -> bool {
        let beat = self.beat();
        let paused = self.paused.load(Ordering::SeqCst) != 0;
        if paused || beat.depth() != 0 {
            return false;
        }
        // The answer is no reason to wake, unless it is missed: the next wait asks anew.
        self.wake_request.swap(0, Ordering::SeqCst);
        // If the watched thread beats meanwhile, its beat wins and the ping is not begun.
        let (now, next) = (beat.0, beat.begun().0);
        let swapped = (self.beat).compare_exchange(now, next, Ordering::SeqCst, Ordering::SeqCst);
        swapped.is_ok()
    }

    /// Ends the turn of a ping, which may have begun before a pause.
    pub fn answer(&self) {
        let paused = self.paused.load(Ordering::Relaxed);
        if paused & PAUSED != 0 && self.beat().depth() == 0 {
            self.paused.store(paused & !(PAUSED - 1), Ordering::SeqCst);
        } else {
            self.end();
        }
    }

    #[inline]
    pub(crate) fn begin(&self) {
        self.report(Beat::begun);
    }

    #[inline]
    pub(crate) fn end(&self) {
        self.report(Beat::ended);
    }

    /// Stores a beat, then reads the request, without a fence between the two: see [`SETTLES`].
    #[inline]
    pub(super) fn report(&self, next: impl FnOnce(Beat) -> Beat) {
        let beat = next(Beat(self.beat.load(Ordering::Relaxed)));
        let load = || self.wake_request.load(Ordering::Relaxed);
        // The model's store leaves the processor behind the load, but before a wait of that time is over.
        #[cfg(all(loom, test))]
        let (buffer, request) = (self.wake_up().buffer.lock(), load());
        self.beat.store(beat.0, Ordering::Release);
        #[cfg(all(loom, test))]
        drop(buffer);
        compiler_fence(Ordering::SeqCst);
        #[cfg(not(all(loom, test)))]
        let request = load();
        if request != 0 {
            self.wake_listener();
        }
    }

    #[cold]
    fn wake_listener(&self) {
        if self.wake_request.swap(0, Ordering::SeqCst) != 0 {
            self.woke.store(clock::monotonic(), Ordering::Release);
            self.wake();
        }
    }

    /// The last report of the watched thread. Signal-safe.
    pub fn beat(&self) -> Beat {
        Beat(self.beat.load(Ordering::SeqCst))
    }

    /// Waits, on the watchdog's thread, until `deadline` (for ever without one), until it is woken from elsewhere
    /// ([`HeartbeatState::wake`]), or until the next beat of any of `threads` after the one that was last seen of it. All
    /// of them have this state's watchdog. It may return early; the caller looks again. `settled` is called before it
    /// sleeps without a time-out.
    // Every write to `wake_request` but the install's is a swap: for a plain store, loom knows too little of
    // the order between it and the other side's swap, and finds lost wake-ups that cannot happen.
    pub fn listen<'s>(
        &self,
        threads: impl Iterator<Item = (&'s HeartbeatState, Beat)> + Clone,
        deadline: Option<u64>,
        settled: impl FnOnce(),
    ) {
        let is_quiet = || threads.clone().all(|(state, seen)| state.beat() == seen);
        // An unanswered request is not withdrawn: after the wait the state may belong to another thread.
        for (state, _) in threads.clone() {
            state.wake_request.swap(1, Ordering::SeqCst);
        }
        if is_quiet() {
            // Without a deadline it waits for ever only if there is no beat once stores have settled.
            let first = deadline.unwrap_or_else(|| clock::monotonic().saturating_add(SETTLES));
            let woken = self.wake_up().wait_until(first);
            if deadline.is_none() && !woken && is_quiet() {
                settled();
                self.wake_up().wait();
            }
        }
    }

    /// Wakes the watchdog. Signal-safe.
    pub fn wake(&self) {
        self.wake_up().post();
    }
}
