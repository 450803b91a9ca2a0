//! Ctrl-C: what was printed is kept, nothing new is begun, and no half-written file stays.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Whether an [`Interrupt`] says what the signals do.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether someone pressed Ctrl-C, or asked the process to terminate.
#[derive(Debug, Clone, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first Ctrl-C only sets this; the second ends the process at once.
    pub fn install() -> Interrupt {
        let interrupt = Interrupt::default();
        INSTALLED.store(true, Ordering::SeqCst);
        for signal in [SIGINT, SIGTERM] {
            // In this order: at the first one the flag is not yet set. Where the system refuses,
            // Ctrl-C does what it always does.
            let _ = signal_hook::flag::register_conditional_default(signal, interrupt.0.clone());
            let _ = signal_hook::flag::register(signal, interrupt.0.clone());
        }
        interrupt
    }

    pub fn came(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// The file that goes when the process ends early: a C string that is never freed, or null.
static TEMPORARY: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Has this file removed by the signals that end the process. There is one at a time.
#[cfg(unix)]
pub(super) fn remove_at_end(path: &Path) {
    let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) else {
        return;
    };
    TEMPORARY.store(path.into_raw(), Ordering::SeqCst);
    for signal in [SIGINT, SIGTERM] {
        let action = move || {
            remove_temporary();
            if !INSTALLED.load(Ordering::SeqCst) {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        // SAFETY: the action is async-signal-safe: unlink(2), and what signal-hook says is.
        let _ = unsafe { signal_hook::low_level::register(signal, action) };
    }
}

#[cfg(not(unix))]
pub(super) fn remove_at_end(_: &Path) {}

/// Removes it now. Signal-safe.
#[cfg(unix)]
pub(super) fn remove_temporary() {
    let path = TEMPORARY.load(Ordering::SeqCst);
    if !path.is_null() {
        // SAFETY: a C string that is never freed; unlink(2) is async-signal-safe.
        unsafe { libc::unlink(path) };
    }
}
