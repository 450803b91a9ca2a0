//! The kernel of Darwin, as far as it is emulated: one file per subsystem. Everything above the kernel
//! (pthreads, malloc, stdio, dyld's own functions, CoreFoundation) is guest code, in `system/` of
//! this workspace, compiled against Darwin's own headers.

pub mod clock;
pub mod dyld;
pub mod exception;
pub mod file;
pub mod guest;
pub mod mach_port;
pub mod mach_task;
pub mod mach_thread;
pub mod mach_vm;
pub mod notify;
pub mod process;
pub mod semaphore;
pub mod signal;
pub mod thread;

use crate::machine::{Machine, Outcome};

/// `kern_return_t` (`mach/kern_return.h`).
pub mod kern {
    pub const SUCCESS: u64 = 0;
    pub const INVALID_ADDRESS: u64 = 1;
    pub const PROTECTION_FAILURE: u64 = 2;
    pub const INVALID_ARGUMENT: u64 = 4;
    pub const FAILURE: u64 = 5;
    pub const OPERATION_TIMED_OUT: u64 = 49;
    pub const TERMINATED: u64 = 37;
}

/// Whether a thread may call this while it holds another one suspended, which may hold any lock: only
/// what looks, and what lets go.
pub fn may_hold(symbol: &str) -> bool {
    const LOOKS: [&str; 8] = [
        "_thread_get_state",
        "_thread_info",
        "_thread_suspend",
        "_thread_resume",
        "_mach_vm_region",
        "_mach_vm_read_overwrite",
        "_mach_absolute_time",
        "_clock_gettime",
    ];
    LOOKS.contains(&symbol)
}

/// Plays the trap of that name (with the assembler's underscore).
pub fn call(m: &mut Machine, symbol: &str, a: &[u64; 8]) -> Outcome {
    // A suffix after a dollar sign names a variant, as `fstat$INODE64`: here they are all the same.
    let plain = symbol.split('$').next().unwrap_or(symbol);
    let name = plain.strip_prefix('_').unwrap_or(plain);
    if let Some(odd) = guest::odd(m, name) {
        return match odd.errno {
            0 => Outcome::Return(odd.result),
            number => error(m, number),
        };
    }
    let last = guest::is_last(m, name);
    let outcome = dispatch(m, name, a);
    match outcome {
        Outcome::Return(value) if last => Outcome::Yield(value),
        outcome => outcome,
    }
}

fn dispatch(m: &mut Machine, name: &str, a: &[u64; 8]) -> Outcome {
    let rooms = [
        clock::call,
        dyld::call,
        exception::call,
        file::call,
        guest::call,
        mach_port::call,
        mach_task::call,
        mach_thread::call,
        mach_vm::call,
        notify::call,
        process::call,
        semaphore::call,
        signal::call,
        thread::call,
    ];
    rooms
        .iter()
        .find_map(|room| room(m, name, a))
        .unwrap_or(Outcome::Unknown)
}

/// Sets the calling thread's `errno` (Darwin's number) and returns -1 (`sys/errno.h`).
pub fn error(m: &mut Machine, number: u32) -> Outcome {
    let at = m.threads[m.current].pthread + thread::ERRNO;
    m.write_u32(at, number);
    Outcome::Return(u64::MAX)
}
