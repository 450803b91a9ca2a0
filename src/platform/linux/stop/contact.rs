//! The signal to a thread whose alternate stack nobody has seen yet, or of which there is nothing left.
//!
//! A thread may have an alternate stack that was unmapped (some runtimes do so as a thread ends). No other thread can see
//! where that lies. The kernel cannot put the handler's frame there, raises SIGSEGV in its place, and ends the process,
//! since that one's handler is to run on the same stack. Therefore, while such a thread is asked, the handler of SIGSEGV
//! is [`refused`], which runs on the stack that the thread is on: it notes that the thread cannot answer, and the thread
//! goes on as if nothing had come. Each answer shows where the alternate stack lies, so that this is done once a thread.
//!
//! A stack overflow during these microseconds ends the process without a report.
//!
//! Source: `setup_rt_frame` and `signal_setup_done` in arch/x86/kernel/signal.c and kernel/signal.c: the signal is taken,
//! the registers stay as they are, and `force_sig` gives `SI_KERNEL`.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use super::slot::{GENERATION_SHIFT, PHASE_MASK, REFUSED, REQUESTED, SLOTS, WAITING};
use super::wait::futex_wake;
use crate::platform::linux::{memory, send_again};
use crate::platform::{Thread, signals};

/// An alternate stack, as a thread's last answer has shown it.
struct SeenStack {
    /// The thread; 0 while the rest is written.
    thread: AtomicI32,
    start: AtomicU64,
    end: AtomicU64,
    /// True if the thread blocked the captures' own signal.
    blocks: AtomicBool,
}

const PLACES: usize = 512;

/// A place for each thread by its id, shared with others: one that is not there is asked with care.
static SEEN: [SeenStack; PLACES] = [const {
    SeenStack {
        thread: AtomicI32::new(0),
        start: AtomicU64::new(0),
        end: AtomicU64::new(0),
        blocks: AtomicBool::new(false),
    }
}; 512];

fn place_of(thread: Thread) -> &'static SeenStack {
    let [first, ..] = &SEEN;
    SEEN.get(thread.tid() as usize % PLACES).unwrap_or(first)
}

/// Notes where the alternate stack of `thread` lies (an empty range without one), and if it `blocks` the captures' own signal.
pub(super) fn note(thread: Thread, stack: &Range<u64>, blocks: bool) {
    let place = place_of(thread);
    place.thread.store(0, Ordering::Release);
    place.start.store(stack.start, Ordering::Release);
    place.end.store(stack.end, Ordering::Release);
    place.blocks.store(blocks, Ordering::Release);
    place.thread.store(thread.tid(), Ordering::Release);
}

/// Notes that a thread which has answered before does block the signal now.
pub(super) fn note_blocks(thread: Thread) {
    place_of(thread).blocks.store(true, Ordering::Release);
}

/// Returns true unless `thread` answered the captures' own signal when it was last asked.
pub(super) fn may_block(thread: Thread) -> bool {
    let place = place_of(thread);
    place.thread.load(Ordering::Acquire) != thread.tid() || place.blocks.load(Ordering::Acquire)
}

/// The time for which a thread that answered by another signal may block that one too, out of `answer`: it is on its way out of
/// the handler. None for any other thread.
pub(super) fn patience(thread: Thread, answer: u64) -> u64 {
    let place = place_of(thread);
    let has_answered = place.thread.load(Ordering::Acquire) == thread.tid();
    if has_answered { answer } else { 0 }
}

/// Forgets what the last answer of `thread` has shown.
pub(super) fn forget(thread: Thread) {
    let place = place_of(thread);
    if place.thread.load(Ordering::Acquire) == thread.tid() {
        place.thread.store(0, Ordering::Release);
    }
}

/// Bytes below the end of an alternate stack that the kernel's frame lies in, at least.
const FRAME: u64 = 1 << 10;

/// Returns true if the alternate stack of `thread` was seen, and is there still.
pub(super) fn is_safe(thread: Thread) -> bool {
    let place = place_of(thread);
    let [start, end] = [&place.start, &place.end].map(|word| word.load(Ordering::Acquire));
    let is_there = || {
        let frame = end.saturating_sub(FRAME).max(start);
        [frame, end.saturating_sub(8)]
            .into_iter()
            .all(memory::is_there)
    };
    place.thread.load(Ordering::Acquire) == thread.tid() && (start == end || is_there())
}

/// True while SIGSEGV has the handler [`refused`], or somebody keeps it from that.
static BUSY: AtomicBool = AtomicBool::new(false);
/// True while it has.
static OPEN: AtomicBool = AtomicBool::new(false);

/// The action of SIGSEGV before; from the first use on.
struct Before(UnsafeCell<MaybeUninit<libc::sigaction>>);
// SAFETY: written by the one that holds `BUSY`, before `refused` is in place.
unsafe impl Sync for Before {}
static BEFORE: Before = Before(UnsafeCell::new(MaybeUninit::zeroed()));

impl Before {
    fn get(&self) -> libc::sigaction {
        // SAFETY: zeroes, which are valid, or what the kernel has filled in.
        unsafe { (*self.0.get()).assume_init() }
    }
}

/// Looks for the other user of [`BUSY`] so often, a fifth of a millisecond apart.
const LOOKS: u32 = 500;

/// Frees [`BUSY`].
struct Hold;

impl Hold {
    /// `None` where another thread keeps it.
    fn take() -> Option<Hold> {
        (0..LOOKS).find_map(|look| {
            if look > 0 {
                signals::pause(200_000);
            }
            // Not by `then_some`: a hold that is made and dropped is another's that ends.
            let is_busy = BUSY.swap(true, Ordering::AcqRel);
            if is_busy { None } else { Some(Hold) }
        })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        BUSY.store(false, Ordering::Release);
    }
}

/// Runs `work`, which looks at handlers or changes them, while the handler of refusals is none of them.
pub fn with_lasting_handlers<T>(work: impl FnOnce() -> T) -> T {
    let _hold = Hold::take();
    work()
}

/// While this lives a thread whose alternate stack is gone refuses the signal, and lives on.
pub(super) struct Contact(Hold);

impl Contact {
    /// `None` where another thread keeps it from that, or a sandbox.
    pub fn begin() -> Option<Contact> {
        let hold = Hold::take()?;
        let before = signals::exchange(libc::SIGSEGV, None).ok()?;
        // SAFETY: this thread holds `BUSY`, and `refused` is not in place.
        unsafe { (*BEFORE.0.get()).write(before) };
        let flags = libc::SA_NODEFER | libc::SA_RESTART;
        let action = signals::action(refused as *const () as usize, flags, &signals::FAULTS);
        signals::exchange(libc::SIGSEGV, Some(&action)).ok()?;
        OPEN.store(true, Ordering::Release);
        Some(Contact(hold))
    }
}

impl Drop for Contact {
    fn drop(&mut self) {
        OPEN.store(false, Ordering::Release);
        put_back();
    }
}

/// Puts back what was before, unless it has been, or the app has put a handler of its own there.
fn put_back() {
    if signals::disposition(libc::SIGSEGV) == Some(refused as *const () as usize) {
        let _ = signals::exchange(libc::SIGSEGV, Some(&BEFORE.get()));
    }
}

/// Handler of SIGSEGV meanwhile. A fault of another thread is left to the handler before.
extern "C-unwind" fn refused(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    const SI_KERNEL: i32 = 0x80;
    // SAFETY: the kernel gives a valid siginfo.
    let code = unsafe { (*info).si_code };
    if code == SI_KERNEL && refuse(Thread::current()) {
        return;
    }
    let before = BEFORE.get();
    if signals::disposition(signal) == Some(refused as *const () as usize) {
        put_back();
        // A fault comes again by itself.
        // SAFETY: what the kernel gave for this signal.
        unsafe {
            if !signals::comes_again(signal, info) {
                send_again(signal, info);
            }
        }
    } else if matches!(before.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
        signals::set_default(signal);
    } else {
        // The app has met this handler as the one before its own, and passes on to it.
        // SAFETY: the kernel would have called that function with these arguments.
        unsafe {
            type Plain = extern "C-unwind" fn(i32, *mut libc::siginfo_t, *mut c_void);
            std::mem::transmute::<usize, Plain>(before.sa_sigaction)(signal, info, context);
        }
    }
}

/// Answers the request to `thread`; false where there is none.
fn refuse(thread: Thread) -> bool {
    SLOTS.iter().any(|slot| {
        let seen = slot.state.load(Ordering::Acquire);
        let is_asked =
            seen & PHASE_MASK == REQUESTED && slot.thread.load(Ordering::Acquire) == thread.tid();
        if !is_asked {
            return false;
        }
        let refused = (seen >> GENERATION_SHIFT) << GENERATION_SHIFT | REFUSED;
        // The stopper may mark itself as sleeping between the two.
        let before = [seen & !WAITING, seen | WAITING].into_iter().find(|&from| {
            let (order, or) = (Ordering::AcqRel, Ordering::Relaxed);
            slot.state
                .compare_exchange(from, refused, order, or)
                .is_ok()
        });
        if before.is_some_and(|before| before & WAITING != 0) {
            futex_wake(&slot.state);
        }
        before.is_some()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::platform::linux::stop::slot::FREE;

    /// A thread that the kernel does not have, whose place no other test uses: ids end at 2^22.
    fn nobody(place: usize) -> Thread {
        Thread::from_id((1 << 24) + place as u64)
    }

    const NO_STACK: Range<u64> = 0..0;

    #[test]
    fn a_thread_that_was_never_seen_may_block_the_signal_and_is_asked_with_care() {
        let thread = nobody(1);
        assert!(may_block(thread));
        assert!(!is_safe(thread));
        assert_eq!(patience(thread, 7), 0);
    }

    #[test]
    fn an_answer_shows_if_the_thread_blocks_the_signal_until_it_is_forgotten() {
        let thread = nobody(2);
        note(thread, &NO_STACK, false);
        assert!(!may_block(thread));
        assert!(is_safe(thread), "it has no alternate stack");
        assert_eq!(patience(thread, 7), 7);
        note_blocks(thread);
        assert!(may_block(thread));
        assert!(is_safe(thread));
        note(thread, &NO_STACK, false);
        assert!(!may_block(thread));
        note(thread, &NO_STACK, true);
        assert!(may_block(thread));
        forget(thread);
        assert!(may_block(thread));
        assert!(!is_safe(thread));
        assert_eq!(patience(thread, 7), 0);
    }

    #[test]
    fn of_two_threads_with_one_place_the_other_one_is_asked_with_care() {
        let (one, other) = (nobody(3), nobody(3 + PLACES));
        note(one, &NO_STACK, false);
        assert!(may_block(other));
        assert!(!is_safe(other));
        assert_eq!(patience(other, 7), 0);
        forget(other);
        assert!(!may_block(one));
        assert!(is_safe(one));
        note(other, &NO_STACK, false);
        assert!(is_safe(other));
        assert!(!is_safe(one));
    }

    #[test]
    fn an_alternate_stack_is_safe_while_its_end_is_there() {
        const PAGE: usize = 64 << 10;
        let thread = nobody(4);
        // SAFETY: a new mapping, which is not unmapped: other tests map memory meanwhile.
        let start = unsafe {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANON);
            libc::mmap(std::ptr::null_mut(), 3 * PAGE, protection, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let take = |page: usize| {
            // SAFETY: a page of the mapping above, which nothing uses.
            let taken = unsafe { libc::mprotect(start.add(page * PAGE), PAGE, libc::PROT_NONE) };
            assert_eq!(taken, 0);
        };
        // What follows the stack is not part of it.
        take(2);
        let first = start as u64;
        note(thread, &(first..first + 2 * PAGE as u64), false);
        assert!(is_safe(thread));
        take(0);
        assert!(is_safe(thread), "the kernel's frame is at the end");
        take(1);
        assert!(!is_safe(thread));
    }

    /// Calls it until it succeeds: it gives up after a while, in which the other thread may have had no CPU.
    fn patiently<T>(take: impl Fn() -> Option<T>) -> T {
        loop {
            if let Some(taken) = take() {
                return taken;
            }
        }
    }

    /// The handler of SIGSEGV, while no thread is asked with care.
    fn lasting_handler() -> Option<usize> {
        let _hold = patiently(Hold::take);
        signals::disposition(libc::SIGSEGV)
    }

    #[test]
    fn one_at_a_time_handles_refusals_and_then_the_handler_before_is_back() {
        let before = lasting_handler();
        let first = patiently(Contact::begin);
        let now = signals::disposition(libc::SIGSEGV);
        assert_eq!(now, Some(refused as *const () as usize));
        let (say, said) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                drop(patiently(Contact::begin));
                say.send(()).unwrap();
            });
            let is_early = said.recv_timeout(Duration::from_millis(30)).is_ok();
            drop(first);
            assert!(!is_early, "a second one has begun");
            said.recv().unwrap();
        });
        assert_eq!(lasting_handler(), before);
    }

    #[test]
    fn a_handler_that_the_app_puts_in_place_meanwhile_stays() {
        let contact = patiently(Contact::begin);
        let before = BEFORE.get();
        let ignore = signals::action(libc::SIG_IGN, 0, &[]);
        signals::exchange(libc::SIGSEGV, Some(&ignore)).unwrap();
        put_back();
        let now = signals::disposition(libc::SIGSEGV);
        signals::exchange(libc::SIGSEGV, Some(&before)).unwrap();
        assert_eq!(now, Some(libc::SIG_IGN));
        drop(contact);
        assert_eq!(lasting_handler(), Some(before.sa_sigaction));
    }

    #[test]
    fn a_refusal_answers_the_request_to_this_thread_alone() {
        let own = Thread::current();
        assert!(!refuse(own), "nobody asked");
        // The last slot: others are claimed from the first one on.
        let [.., slot] = &SLOTS;
        let generation = 5 << GENERATION_SHIFT;
        for waiting in [0, WAITING] {
            slot.thread.store(nobody(5).tid(), Ordering::Release);
            let asked = generation | REQUESTED | waiting;
            slot.state.store(asked, Ordering::Release);
            assert!(!refuse(own), "another thread was asked");
            slot.thread.store(own.tid(), Ordering::Release);
            assert!(refuse(own));
            assert_eq!(slot.state.load(Ordering::Acquire), generation | REFUSED);
            assert!(!refuse(own), "it was answered");
        }
        slot.state.store(generation | FREE, Ordering::Release);
    }
}
