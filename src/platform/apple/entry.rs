//! The first instructions of our handlers: a thread's alternate stack has room for them, since crashes come as Mach
//! exceptions first.

use std::ffi::c_void;

use crate::platform::signals;

/// A stack with too little room: there is none.
#[derive(Debug, Clone, Copy)]
pub enum ScarceStack {}

impl ScarceStack {
    /// The stack pointer with which the handler was started.
    pub fn sp(self) -> usize {
        match self {}
    }

    /// Has signals of the calling thread come on another stack.
    pub fn leave_to_signals(self) {
        match self {}
    }

    /// Calls a handler on the stack that the kernel has chosen.
    ///
    /// # Safety
    /// - The kernel would call the same function with the same arguments.
    pub unsafe fn call(
        self,
        _handler: usize,
        _signal: i32,
        _info: *mut libc::siginfo_t,
        _context: *mut c_void,
    ) {
        match self {}
    }
}

/// Nothing is needed.
pub fn prepare() {}

/// Returns true if `address` lies in a stack for handlers.
pub fn is_on_handler_stack(_address: usize) -> bool {
    false
}

/// Starts the handler of fatal signals.
extern "C-unwind" fn fatal(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    signals::dispatch(signal, info, context, None);
}

/// Address of the function that the kernel calls for a signal of ours.
pub fn address() -> usize {
    fatal as *const () as usize
}
