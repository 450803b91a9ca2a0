//! `std::terminate` of C++ and Objective-C's exceptions that are not caught: what is noted of them
//! for the crash handler, so that one death is one report.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_vendor = "apple")]
use crate::platform::objective_c;
use crate::platform::{Thread, cxx};
use crate::report::Omitted;

const NAME: usize = 256;
const WHAT: usize = 1024;

/// Addresses of the stack of a throw, at most; only Objective-C's exceptions have it.
#[cfg(target_vendor = "apple")]
pub(crate) const STACK: usize = objective_c::STACK;
#[cfg(not(target_vendor = "apple"))]
pub(crate) const STACK: usize = 0;

/// Name, reason and stack of an exception.
struct ExceptionText {
    name: [u8; NAME],
    name_len: usize,
    what: [u8; WHAT],
    what_len: usize,
    stack: [u64; STACK],
    stack_len: usize,
    omitted: Option<(usize, usize)>,
}

/// The exception that ends the process, and its thread.
struct ExceptionSlot {
    /// The first thread that came here; it alone writes the note.
    writer: AtomicU64,
    /// The same, once the note is whole.
    owner: AtomicU64,
    note: UnsafeCell<ExceptionText>,
}

// SAFETY: `note` is written by the thread that set `writer` by compare-and-swap, and read only by
// that thread after it set `owner`.
unsafe impl Sync for ExceptionSlot {}

static NOTED: ExceptionSlot = ExceptionSlot {
    writer: AtomicU64::new(0),
    owner: AtomicU64::new(0),
    note: UnsafeCell::new(ExceptionText {
        name: [0; NAME],
        name_len: 0,
        what: [0; WHAT],
        what_len: 0,
        stack: [0; STACK],
        stack_len: 0,
        omitted: None,
    }),
};

/// Sets both handlers, if C++ or Foundation is in the process. Calling it again is fine: they may be loaded later. Not
/// signal-safe.
pub(crate) fn install() {
    cxx::on_terminate(terminated);
    #[cfg(target_vendor = "apple")]
    objective_c::on_uncaught(thrown);
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
    note.name_len = copy(&mut note.name, name);
    note.what_len = what.map_or(0, |what| copy(&mut note.what, what));
    note.stack_len = stack.len();
    let slots = note.stack.iter_mut().zip(stack);
    slots.for_each(|(slot, address)| *slot = *address);
    note.omitted = omitted;
    NOTED.owner.store(thread, Ordering::Release);
}

/// As much as there is room for, up to what is no UTF-8.
fn copy(into: &mut [u8], text: &CStr) -> usize {
    let mut length = 0;
    for (slot, byte) in into.iter_mut().zip(text.to_bytes()) {
        *slot = *byte;
        length += 1;
    }
    match std::str::from_utf8(into.get(..length).unwrap_or_default()) {
        Ok(_) => length,
        Err(error) => error.valid_up_to(),
    }
}

/// The exception that ends the process.
#[derive(Clone, Copy)]
pub(crate) struct Exception {
    note: &'static ExceptionText,
}

impl Exception {
    /// Returns the exception with which `thread` came to `std::terminate`: the calling thread, or one that stands still
    /// in its handler. Signal-safe.
    pub fn of(thread: Thread) -> Option<Exception> {
        (NOTED.owner.load(Ordering::Acquire) == thread.id()).then(|| Exception {
            // SAFETY: the note is whole, and its thread, which is this one or stands still, writes no more of it.
            note: unsafe { &*NOTED.note.get() },
        })
    }

    /// Its type, as C++ writes it, or its name. Signal-safe.
    pub fn name(&self) -> &str {
        text(&self.note.name, self.note.name_len)
    }

    /// Its `what()`, or its reason; nothing where it is no `std::exception`. Signal-safe.
    pub fn what(&self) -> Option<&str> {
        Some(text(&self.note.what, self.note.what_len)).filter(|what| !what.is_empty())
    }

    /// The return addresses of its first throw, innermost first, if it has any. Signal-safe.
    pub fn stack(&self) -> &[u64] {
        self.note
            .stack
            .get(..self.note.stack_len)
            .unwrap_or_default()
    }

    /// Place and count of the frames left out of [`Exception::stack`]. Signal-safe.
    pub fn omitted(&self) -> Option<Omitted> {
        let (at, count) = self.note.omitted?;
        Some(Omitted {
            at: at as u64,
            count: count as u64,
        })
    }
}

fn text(bytes: &[u8], length: usize) -> &str {
    bytes
        .get(..length)
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .unwrap_or_default()
}
