//! `std::terminate` of C++ and Objective-C's exceptions that are not caught: what is noted of them
//! for the crash handler, so that one death is one report.
// Signal-safe: nothing here can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::capture::ImageTable;
#[cfg(target_vendor = "apple")]
use crate::platform::objective_c;
use crate::platform::text::FixedText;
use crate::platform::{Thread, cxx};
use crate::report::Omitted;

/// Addresses of the stack of a throw, at most; only Objective-C's exceptions have it.
#[cfg(target_vendor = "apple")]
pub(crate) const MAX_ADDRESSES: usize = objective_c::MAX_ADDRESSES;
#[cfg(not(target_vendor = "apple"))]
pub(crate) const MAX_ADDRESSES: usize = 0;

/// Name, reason and stack of the exception that ends the process.
#[derive(Debug)]
pub(crate) struct Exception {
    name: FixedText<256>,
    what: FixedText<1024>,
    stack: [u64; MAX_ADDRESSES],
    stack_len: usize,
    omitted: Option<Omitted>,
}

/// The exception that ends the process, and its thread.
struct ExceptionSlot {
    /// The first thread that came here; it alone writes the note.
    writer: AtomicU64,
    /// The same, once the note is whole.
    owner: AtomicU64,
    note: UnsafeCell<Exception>,
}

// SAFETY: `note` is written by the thread that set `writer` by compare-and-swap, and read only by
// that thread after it set `owner`.
unsafe impl Sync for ExceptionSlot {}

static NOTED: ExceptionSlot = ExceptionSlot {
    writer: AtomicU64::new(0),
    owner: AtomicU64::new(0),
    note: UnsafeCell::new(Exception {
        name: FixedText::EMPTY,
        what: FixedText::EMPTY,
        stack: [0; MAX_ADDRESSES],
        stack_len: 0,
        omitted: None,
    }),
};

/// Sets both handlers, if C++ or Foundation is in the process. Calling it again is fine: they may be loaded later. Not
/// signal-safe.
pub(crate) fn install() {
    let images = ImageTable::enter();
    let mut paths = images.images().iter().map(|image| &*image.name);
    cxx::on_terminate(terminated, &mut paths);
    #[cfg(target_vendor = "apple")]
    objective_c::on_uncaught(thrown);
}

/// Takes back the handler of `std::terminate`: our library is unloaded.
pub(crate) fn uninstall() {
    cxx::not_on_terminate(terminated);
}

extern "C" fn terminated() {
    cxx::current_exception(&mut note);
    cxx::terminate_as_before()
}

#[cfg(target_vendor = "apple")]
fn thrown(thrown: &objective_c::Thrown<'_>) {
    note_thrown(thrown.name, thrown.reason, thrown.stack, thrown.omitted);
}

fn note(name: &CStr, what: Option<&CStr>) {
    note_thrown(name, what, &[], None);
}

/// Notes what the calling thread has come here with; Objective-C comes second, and knows better.
fn note_thrown(name: &CStr, what: Option<&CStr>, stack: &[u64], omitted: Option<(usize, usize)>) {
    let thread = Thread::current().id();
    let claimed = NOTED
        .writer
        .compare_exchange(0, thread, Ordering::AcqRel, Ordering::Acquire);
    if claimed.is_err_and(|writer| writer != thread) {
        return;
    }
    // SAFETY: this thread is the writer, and it alone reads, in a handler of its own signal, which
    // does not come before it aborts.
    let note = unsafe { &mut *NOTED.note.get() };
    note.name = FixedText::of(name.to_bytes());
    note.what = FixedText::of(what.map_or(&[], CStr::to_bytes));
    note.stack_len = stack.len();
    let slots = note.stack.iter_mut().zip(stack);
    slots.for_each(|(slot, address)| *slot = *address);
    note.omitted = omitted.map(|(at, count)| Omitted {
        at: at as u64,
        count: count as u64,
    });
    NOTED.owner.store(thread, Ordering::Release);
}

impl Exception {
    /// Returns the exception with which `thread` came to `std::terminate`: the calling thread, or one that stands still
    /// in its handler. Signal-safe.
    pub fn of(thread: Thread) -> Option<&'static Exception> {
        // SAFETY: the note is whole, and its thread, which is this one or stands still, writes no more of it.
        (NOTED.owner.load(Ordering::Acquire) == thread.id()).then(|| unsafe { &*NOTED.note.get() })
    }

    /// Its type, as C++ writes it, or its name. Signal-safe.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Its `what()`, or its reason; nothing where it is no `std::exception`. Signal-safe.
    pub fn message(&self) -> Option<&str> {
        Some(self.what.as_str()).filter(|what| !what.is_empty())
    }

    /// The return addresses of its first throw, innermost first, if it has any. Signal-safe.
    pub fn stack(&self) -> &[u64] {
        self.stack.get(..self.stack_len).unwrap_or_default()
    }

    /// Place and count of the frames left out of [`Exception::stack`]. Signal-safe.
    pub fn omitted(&self) -> Option<Omitted> {
        self.omitted
    }
}
