//! The kernel's counters of one thread of this process, read without touching the thread.

use super::{task, waits};
use crate::platform::clock;
pub use crate::platform::surface::{Blocked, Holder, Waits};

/// `P_TRACED` in `p_flag` (sys/proc.h).
const P_TRACED: i32 = 0x800;

/// Reads the state of one thread by its port, to which it holds a reference of its own: the name
/// can't come to stand for another thread meanwhile.
#[derive(Debug)]
pub struct ThreadGauge {
    port: u32,
}

impl ThreadGauge {
    /// For the thread whose port has this name.
    pub fn open(port: i32) -> ThreadGauge {
        const SEND: u32 = 0; // MACH_PORT_RIGHT_SEND (mach/port.h)
        // SAFETY: takes names only; of a name that is gone the readings are unknown.
        unsafe { mach2::mach_port::mach_port_mod_refs(task::own(), port as u32, SEND, 1) };
        ThreadGauge { port: port as u32 }
    }

    /// For one of many threads.
    pub fn unopened(port: i32) -> ThreadGauge {
        ThreadGauge::open(port)
    }

    /// For the calling thread.
    pub fn current() -> ThreadGauge {
        ThreadGauge {
            // SAFETY: no arguments; the reference that it gives is this gauge's.
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
    pub fn delay(&self) -> u64 {
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
    let mut facts = [0u8; 648];
    let known = task::kinfo(&mut facts);
    let flags = facts.get(32..36).and_then(|word| word.try_into().ok());
    known && flags.map_or(0, i32::from_le_bytes) & P_TRACED != 0
}

impl Drop for ThreadGauge {
    fn drop(&mut self) {
        task::release(self.port);
    }
}

impl Blocked {
    /// As on Linux; never known here.
    pub fn of(_thread: crate::platform::Thread) -> Option<Blocked> {
        None
    }

    /// As on Linux; never known here.
    pub fn call_name(&self) -> Option<&'static str> {
        None
    }

    /// As on Linux; never known here.
    pub fn holder(self) -> Option<Holder> {
        None
    }
}
