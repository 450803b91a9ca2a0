//! The kernel's counters of one thread of this process, read without touching the thread.

use super::{task, waits};
use crate::platform::clock;
pub use crate::platform::surface::{Blocked, Holder, Waits};

/// `P_TRACED` in `p_flag` (sys/proc.h).
const P_TRACED: i32 = 0x800;

/// Reads the state of one thread by its port. It holds a reference to the port, so that the port's name is not reused
/// for another thread.
#[derive(Debug)]
pub struct ThreadGauge {
    port: u32,
}

impl ThreadGauge {
    /// Creates a gauge of the thread whose port has this name.
    pub fn open(port: i32) -> ThreadGauge {
        const SEND: u32 = 0; // MACH_PORT_RIGHT_SEND (mach/port.h)
        // SAFETY: the call takes names only. If the name is gone, all readings are unknown.
        unsafe { mach2::mach_port::mach_port_mod_refs(task::own(), port as u32, SEND, 1) };
        ThreadGauge { port: port as u32 }
    }

    /// Creates a gauge of one of many threads. The same as [`ThreadGauge::open`] here; Linux opens no files for it.
    pub fn unopened(port: i32) -> ThreadGauge {
        ThreadGauge::open(port)
    }

    /// Creates a gauge of the calling thread.
    pub fn current() -> ThreadGauge {
        ThreadGauge {
            // SAFETY: no arguments. The gauge owns the reference that it returns.
            port: unsafe { mach2::mach_init::mach_thread_self() },
        }
    }

    /// The name of the thread's port.
    pub fn tid(&self) -> i32 {
        self.port as i32
    }

    /// CPU time used, nanoseconds.
    pub fn cpu(&self) -> u64 {
        clock::thread_cpu(self.tid())
    }

    /// Time for which it was ready to run but had no CPU; 0, because the kernel does not report it.
    pub fn run_delay(&self) -> u64 {
        0
    }

    /// Its state in Linux's letters: `R`, `S`, `D` (uninterruptible), `T` (stopped); `None` where
    /// unknown. Source: `TH_STATE_*`, mach/thread_info.h.
    pub fn state(&self) -> Option<u8> {
        match task::extended(self.port)?.pth_run_state {
            1 => Some(b'R'),
            2 | 5 => Some(b'T'),
            3 => Some(b'S'),
            4 => Some(b'D'),
            _ => None,
        }
    }

    /// The system call in which it is blocked; `None`, because the kernel does not report it.
    pub fn blocked(&self) -> Option<Blocked> {
        None
    }

    /// Returns the kind of wait of a thread in this [state](ThreadGauge::state).
    pub fn waits(&self, state: Option<u8>) -> Waits {
        match state {
            Some(b'R' | b'T') => Waits::Nothing,
            Some(b'D') => Waits::Disk,
            _ if waits::for_lock(self.port) => Waits::Lock,
            _ => Waits::Event,
        }
    }

    /// Returns true if it sleeps in a call in which run loops wait for events; not known without its
    /// registers, so the run loop's observer reports it instead.
    pub fn waits_for_events(&self) -> bool {
        false
    }

    /// Returns true if a debugger is attached to the process.
    pub fn traced(&self) -> bool {
        is_debugged()
    }
}

/// Returns true if a debugger is attached to this process. Signal-safe: sysctl(3) only traps.
/// Source: Apple's Technical Q&A QA1361.
pub fn is_debugged() -> bool {
    // `kp_proc.p_flag` lies at 32 (sys/proc.h).
    let mut kinfo = [0u8; 648];
    let is_read = task::kinfo(&mut kinfo);
    let flags = kinfo.get(32..36).and_then(|word| word.try_into().ok());
    is_read && flags.map_or(0, i32::from_le_bytes) & P_TRACED != 0
}

impl Drop for ThreadGauge {
    fn drop(&mut self) {
        task::release(self.port);
    }
}

impl Blocked {
    /// Returns the place where a thread is blocked; never known here.
    pub fn of(_thread: crate::platform::Thread) -> Option<Blocked> {
        None
    }

    /// Returns the name of the system call; never known here.
    pub fn call_name(&self) -> Option<&'static str> {
        None
    }

    /// Returns the holder of the lock that the thread waits for; never known here.
    pub fn holder(self) -> Option<Holder> {
        None
    }
}
