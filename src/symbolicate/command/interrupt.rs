//! Ctrl-C, a terminal that is closed, and a mapped file that got shorter: what was printed is kept, nothing new is
//! begun, and no half-written file stays.
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

use std::ffi::{CString, c_char};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use signal_hook::consts::{SIGBUS, SIGHUP, SIGINT, SIGTERM};

/// Signals that end the command early: Ctrl-C, the end of its terminal or session, SIGTERM.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Those of them that do end it: what is ignored, as nohup(1) has it for SIGHUP, stays so.
fn signals() -> impl Iterator<Item = i32> {
    SIGNALS.into_iter().filter(|&signal| !is_ignored(signal))
}

fn is_ignored(signal: i32) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only queries; all zero is a valid value of that plain struct, in which the answer has room.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
        now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// What the next of these signals does: it ends the process, or is only noted, or was noted, so that the next one ends it.
static STATE: AtomicU8 = AtomicU8::new(ENDS);
const ENDS: u8 = 0;
const NOTES: u8 = 1;
const NOTED: u8 = 2;

/// Has each of these signals handled, from the first call on. Where the system refuses, a signal does what it always does.
fn handle() {
    static HANDLED: AtomicBool = AtomicBool::new(false);
    if HANDLED.swap(true, Ordering::SeqCst) {
        return;
    }
    for signal in signals() {
        let action = move || {
            remove_temporary();
            let noted = STATE.compare_exchange(NOTES, NOTED, Ordering::SeqCst, Ordering::SeqCst);
            if noted.is_err() {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        // SAFETY: the action is async-signal-safe: unlink(2), an atomic, and what signal-hook says is.
        let _ = unsafe { signal_hook::low_level::register(signal, action) };
    }
}

/// From now on the first Ctrl-C is only noted; the second ends the process at once.
pub(super) fn defer_interrupt() {
    handle();
    STATE.store(NOTES, Ordering::SeqCst);
}

/// Returns true once a signal was noted.
pub(super) fn is_set() -> bool {
    STATE.load(Ordering::SeqCst) == NOTED
}

/// The file that goes when the process ends early: a C string that is never freed, or null.
static TEMPORARY: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Has the file at this path, which is about to be made, removed by the signals that end the process. There is one
/// at a time.
pub(super) fn remove_at_end(path: &Path) {
    let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) else {
        return;
    };
    TEMPORARY.store(path.into_raw(), Ordering::SeqCst);
    handle();
}

/// The file that was to be made is not ours.
pub(super) fn keep_at_end() {
    TEMPORARY.store(std::ptr::null_mut(), Ordering::SeqCst);
}

/// Removes it now. Signal-safe.
fn remove_temporary() {
    let path = TEMPORARY.load(Ordering::SeqCst);
    if !path.is_null() {
        // SAFETY: a C string that is never freed; unlink(2) is async-signal-safe.
        unsafe { libc::unlink(path) };
    }
}

/// From now on a write beyond the limit of a file's size (`ulimit -f`) is an error of that write, where the system
/// would end the process without a word.
pub(super) fn report_size_limit() {
    // SAFETY: no handler: the signal is ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// From now on a read behind the end of a mapped file ends the process with words and exit code 3, where
/// the system would end it with SIGBUS alone. What was printed before stays printed.
pub(super) fn explain_lost_file() {
    const MESSAGE: &[u8] =
        b"symbolicate: error: a debug file or table got shorter while it was read: run again once it is whole\n";
    // A descriptor of its own: `stderr()` takes a lock.
    let Ok(descriptor) = std::io::stderr().as_fd().try_clone_to_owned() else {
        return;
    };
    let errors = std::fs::File::from(descriptor);
    let action = move || {
        remove_temporary();
        let _ = (&errors).write(MESSAGE);
        signal_hook::low_level::exit(i32::from(super::UNREADABLE));
    };
    // SAFETY: the action is async-signal-safe: unlink(2), one write(2) to a descriptor that stays open, then
    // _exit(2).
    // Where the system refuses, the signal does what it always does.
    let _ = unsafe { signal_hook::low_level::register(SIGBUS, action) };
}
