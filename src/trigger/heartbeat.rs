//! The run loop's pulse: one word that the watched thread writes, one by which the watchdog asks
//! to be woken.
//!
//! The two sides never miss each other, by the store-then-load handshake of Dekker: the watchdog
//! stores its *call* and then reads the *beat*; `begin` stores its beat and then reads the call.
//! With sequentially consistent order at least one of them sees the other, so that either the
//! watchdog stays up or `begin` wakes it. `end` has no such order (it would cost another fence):
//! its ring is an early word on when a freeze ended, and what it misses the next look finds.

#[cfg(all(loom, test))]
use self::model::Semaphore;
#[cfg(not(all(loom, test)))]
use crate::platform::Semaphore;
#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Tells the watchdog that the watched thread is busy or idle.
///
/// It is a plain value: copy it wherever it is needed. Beats come from the thread that is watched;
/// from several threads at once they are safe, but miscounted. Once the monitor is dropped, those
/// that are left do nothing.
///
/// `begin` and `end` nest: a nested run loop (a modal dialog) that still turns is no stall.
#[derive(Debug, Clone, Copy)]
pub struct Heartbeat {
    pulse: &'static Pulse,
    install: u32,
}

impl Heartbeat {
    /// The thread has something to do: an event arrived, a timer fired.
    ///
    /// Costs one sequentially consistent store. When the watchdog sleeps, this wakes it (one
    /// system call). Never blocks, allocates or panics.
    #[inline]
    pub fn begin(self) {
        if self.pulse.install.load(Ordering::Relaxed) == self.install {
            self.pulse.begin();
        }
    }

    /// The thread is done with it and about to wait for the next event.
    #[inline]
    pub fn end(self) {
        if self.pulse.install.load(Ordering::Relaxed) == self.install {
            self.pulse.end();
        }
    }

    /// Of an install of the process' pulse.
    pub(crate) fn of(install: u32) -> Heartbeat {
        Heartbeat {
            pulse: &PULSE,
            install,
        }
    }

    /// The install that it belongs to.
    pub(crate) fn install(self) -> u32 {
        self.install
    }

    /// One turn of the run loop: [`begin`](Self::begin), `handle`, [`end`](Self::end), which comes
    /// even if `handle` panics.
    #[inline]
    pub fn turn<T>(self, handle: impl FnOnce() -> T) -> T {
        struct End(Heartbeat);
        impl Drop for End {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        self.begin();
        let _end = End(self);
        handle()
    }
}

/// What the watched thread last said: a count of `begin`s and `end`s, how deep they nest, and
/// which of the two was last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beat(u64);

impl Beat {
    const DEPTH: u64 = 0xffff;
    const ENDED: u64 = 0x1_0000;
    const ONE: u64 = 0x2_0000;

    /// Nothing was ever said.
    pub const NONE: Beat = Beat(0);

    /// After one more `begin`.
    #[inline]
    #[must_use]
    pub const fn begun(self) -> Beat {
        let deeper = if self.0 & Self::DEPTH == Self::DEPTH {
            0
        } else {
            1
        };
        Beat((self.0.wrapping_add(Self::ONE) & !Self::ENDED) + deeper)
    }

    /// After one more `end`; one without a `begin` only counts.
    #[inline]
    #[must_use]
    pub const fn ended(self) -> Beat {
        let shallower = if self.0 & Self::DEPTH == 0 { 0 } else { 1 };
        Beat((self.0.wrapping_add(Self::ONE) | Self::ENDED) - shallower)
    }

    /// How many `begin`s and `end`s there were.
    pub const fn count(self) -> u64 {
        self.0 / Self::ONE
    }

    /// How many there were since an earlier beat.
    pub const fn since(self, earlier: Beat) -> u64 {
        self.count().wrapping_sub(earlier.count()) & (u64::MAX / Self::ONE)
    }

    /// How many `begin`s have not ended yet.
    pub const fn depth(self) -> u64 {
        self.0 & Self::DEPTH
    }

    /// Whether the thread waits for its next event, by its own word.
    pub const fn idle(self) -> bool {
        self.depth() == 0 && self.0 != 0
    }

    /// Whether a nested turn has ended inside one that has not: a nested run loop waits, or it is
    /// over and the outer turn goes on. The beat alone cannot tell which.
    pub const fn nested(self) -> bool {
        self.depth() != 0 && self.0 & Self::ENDED != 0
    }
}

/// The words that both sides share. It is never freed: a heartbeat that outlives its monitor still
/// finds it.
#[derive(Debug)]
#[repr(align(128))]
pub struct Pulse {
    beat: AtomicU64,
    call: AtomicU32,
    install: AtomicU32,
    bell: Semaphore,
}

/// The one pulse of the process, as there is one monitor.
#[cfg(not(all(loom, test)))]
pub static PULSE: Pulse = Pulse::new();
/// loom's atomics cannot be made in a constant; its tests do not use this one.
#[cfg(all(loom, test))]
pub static PULSE: std::sync::LazyLock<Pulse> = std::sync::LazyLock::new(model::pulse);

impl Pulse {
    /// With no beat yet, and nobody listening.
    #[cfg(not(all(loom, test)))]
    pub const fn new() -> Pulse {
        Pulse {
            beat: AtomicU64::new(0),
            call: AtomicU32::new(0),
            install: AtomicU32::new(0),
            bell: Semaphore::new(),
        }
    }

    /// Starts anew, with no beat yet; heartbeats of earlier installs do nothing from now on.
    pub fn install(&'static self) -> Heartbeat {
        let install = self.uninstall();
        self.call.store(0, Ordering::SeqCst);
        self.beat.store(0, Ordering::SeqCst);
        self.install
            .store(install.wrapping_add(1), Ordering::SeqCst);
        Heartbeat {
            pulse: self,
            install: install.wrapping_add(1),
        }
    }

    /// Turns all heartbeats into no-ops. Even numbers are nobody's.
    pub fn uninstall(&self) -> u32 {
        let next = (self.install.load(Ordering::SeqCst) | 1).wrapping_add(1);
        self.install.store(next, Ordering::SeqCst);
        next
    }

    #[inline]
    fn begin(&self) {
        let beat = Beat(self.beat.load(Ordering::Relaxed)).begun();
        self.beat.store(beat.0, Ordering::SeqCst);
        store_before_load();
        if self.call.load(Ordering::SeqCst) != 0 {
            self.ring();
        }
    }

    #[inline]
    fn end(&self) {
        let beat = Beat(self.beat.load(Ordering::Relaxed)).ended();
        self.beat.store(beat.0, Ordering::Release);
        if self.call.load(Ordering::Relaxed) != 0 {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        if self.call.swap(0, Ordering::SeqCst) != 0 {
            self.bell.post();
        }
    }

    /// What the watched thread last said. Signal-safe.
    pub fn beat(&self) -> Beat {
        Beat(self.beat.load(Ordering::SeqCst))
    }

    /// Waits, on the watchdog's thread, until `deadline` (for ever without one), until the bell is
    /// rung from elsewhere ([`Pulse::wake`]), or, if `call`, until the next beat after `seen`.
    /// It may return early; the caller looks again.
    // Every write to `call` but the install's is a swap: for a plain store, loom knows too little of
    // the order between it and the other side's swap, and finds lost wake-ups that cannot happen.
    pub fn listen(&self, seen: Beat, deadline: Option<u64>, call: bool) {
        if call {
            self.call.swap(1, Ordering::SeqCst);
            store_before_load();
            if self.beat() != seen {
                self.call.swap(0, Ordering::SeqCst);
                return;
            }
        }
        match deadline {
            Some(at) => {
                self.bell.wait_until(at);
            }
            None => self.bell.wait(),
        }
        if call {
            self.call.swap(0, Ordering::SeqCst);
        }
    }

    /// Wakes the watchdog. Signal-safe.
    pub fn wake(&self) {
        self.bell.post();
    }
}

/// The order that sequentially consistent stores and loads have by themselves. loom takes them for
/// acquire and release only, but knows the fence, so that the model alone has one.
#[inline]
fn store_before_load() {
    #[cfg(all(loom, test))]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(not(all(loom, test)))]
impl Default for Pulse {
    fn default() -> Pulse {
        Pulse::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pulse() -> &'static Pulse {
        Box::leak(Box::new(Pulse::new()))
    }

    #[test]
    fn a_turn_is_busy_inside_and_idle_after() {
        let pulse = pulse();
        let heart = pulse.install();
        assert!(
            !pulse.beat().idle(),
            "before the first turn the app is launching"
        );
        heart.turn(|| assert_eq!(pulse.beat().depth(), 1));
        assert!(pulse.beat().idle());
        assert_eq!(pulse.beat().count(), 2);
    }

    #[test]
    fn a_turn_that_panics_ends() {
        let pulse = pulse();
        let heart = pulse.install();
        let caught =
            std::panic::catch_unwind(|| heart.turn(|| std::panic::resume_unwind(Box::new(1))));
        assert!(caught.is_err() && pulse.beat().idle());
    }

    #[test]
    fn a_nested_turn_that_ended_is_told_from_one_that_runs() {
        let pulse = pulse();
        let heart = pulse.install();
        heart.turn(|| {
            heart.turn(|| assert!(!pulse.beat().nested()));
            assert!(pulse.beat().nested() && !pulse.beat().idle());
        });
        assert!(pulse.beat().idle() && !pulse.beat().nested());
    }

    #[test]
    fn heartbeats_left_over_do_nothing() {
        let pulse = pulse();
        let old = pulse.install();
        old.begin();
        pulse.uninstall();
        old.end();
        assert_eq!(
            pulse.beat().depth(),
            1,
            "nothing was written after the uninstall"
        );
        let new = pulse.install();
        old.begin();
        assert_eq!(pulse.beat(), Beat::NONE);
        new.begin();
        assert_eq!(pulse.beat().depth(), 1);
    }

    #[test]
    fn ends_without_a_begin_and_endless_nesting_stay_in_their_bits() {
        let mut beat = Beat::NONE;
        for _ in 0..3 {
            beat = beat.ended();
        }
        assert!(beat.idle() && beat.count() == 3);
        for _ in 0..70_000 {
            beat = beat.begun();
        }
        assert_eq!((beat.depth(), beat.count()), (0xffff, 70_003));
        let last = Beat(!Beat::DEPTH | Beat::ENDED);
        assert_eq!(last.begun().since(last), 1, "the count wraps");
    }
}

/// The handshake under every interleaving: `RUSTFLAGS="--cfg loom" cargo test --release --lib model`.
#[cfg(all(loom, test))]
mod model {
    use super::*;
    use loom::sync::{Condvar, Mutex};

    /// The platform's semaphore, as loom sees it. A wait with a deadline is not modelled.
    #[derive(Debug)]
    pub struct Semaphore {
        count: Mutex<u32>,
        change: Condvar,
    }

    impl Semaphore {
        fn new() -> Semaphore {
            Semaphore {
                count: Mutex::new(0),
                change: Condvar::new(),
            }
        }

        pub fn post(&self) {
            *self.count.lock().unwrap() += 1;
            self.change.notify_one();
        }

        pub fn wait(&self) {
            let mut count = self.count.lock().unwrap();
            while *count == 0 {
                count = self.change.wait(count).unwrap();
            }
            *count -= 1;
        }

        pub fn wait_until(&self, _deadline: u64) -> bool {
            unreachable!("the model waits without a deadline")
        }
    }

    /// After one whole turn.
    pub fn pulse() -> Pulse {
        Pulse {
            beat: AtomicU64::new(Beat::NONE.begun().ended().0),
            call: AtomicU32::new(0),
            install: AtomicU32::new(0),
            bell: Semaphore::new(),
        }
    }

    /// A watchdog that goes to sleep for good while the app's next turn begins: it always wakes
    /// (a lost wake-up would be a deadlock, which loom reports).
    #[test]
    fn model_no_wake_up_is_lost() {
        loom::model(|| {
            let pulse = loom::sync::Arc::new(pulse());
            let app = loom::sync::Arc::clone(&pulse);
            let app = loom::thread::spawn(move || app.begin());
            let seen = Beat::NONE.begun().ended();
            while pulse.beat() == seen {
                pulse.listen(seen, None, true);
            }
            assert_eq!(pulse.beat().depth(), 1);
            app.join().unwrap();
        });
    }

    /// The same over a whole turn and the begin of the next: a freeze right after a rest is found.
    #[test]
    fn model_a_freeze_after_a_rest_is_found() {
        // Every interleaving with up to three preemptions; without a bound it takes hours.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let pulse = loom::sync::Arc::new(pulse());
            let app = loom::sync::Arc::clone(&pulse);
            let app = loom::thread::spawn(move || {
                app.begin();
                app.end();
                app.begin();
            });
            loop {
                let seen = pulse.beat();
                if seen.depth() == 1 && seen.count() == 5 {
                    break;
                }
                pulse.listen(seen, None, true);
            }
            app.join().unwrap();
        });
    }
}
