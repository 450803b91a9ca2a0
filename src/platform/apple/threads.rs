//! The threads of this process, listed and named without allocating.
//!
//! Signal-safe throughout.

use super::task;
use crate::platform::forked::OnceAProcess;
pub use crate::platform::surface::ThreadProgress;

/// One thread of this process: the system's id and its port's name. The id is never reused; the name may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thread {
    id: u64,
    port: u32,
}

/// The main thread: its id; its port.
static MAIN: [OnceAProcess; 2] = [OnceAProcess::new(), OnceAProcess::new()];

impl Thread {
    /// The calling thread.
    pub fn current() -> Thread {
        let mut id = 0;
        // SAFETY: a null thread is the calling one; `id` lives across the call. The port is the
        // pthread library's own reference, which lasts as long as the thread.
        let port = unsafe {
            libc::pthread_threadid_np(0, &mut id);
            libc::pthread_mach_thread_np(libc::pthread_self())
        };
        Thread { id, port }
    }

    /// The thread with which the process began. Signal-safe once it has been looked up at install.
    pub fn main() -> Thread {
        let id = MAIN[0].get(|| Some(Thread::first()?.id));
        let port = MAIN[1].get(|| Some(Thread::first()?.port.into()));
        Thread {
            id: id.unwrap_or(0),
            port: port.unwrap_or(0) as u32,
        }
    }

    /// Finds the main thread: the calling one, or the first in the kernel's list.
    fn first() -> Option<Thread> {
        // SAFETY: no arguments.
        if unsafe { libc::pthread_main_np() } == 1 {
            return Some(Thread::current());
        }
        // The kernel lists threads in the order in which they began.
        let mut first = [Thread { id: 0, port: 0 }];
        list(&mut first);
        (first[0].id != 0).then_some(first[0])
    }

    /// Returns the thread of the system's id. Its port is 0 if there is no such thread.
    pub fn from_id(id: u64) -> Thread {
        let mut found = Thread { id, port: 0 };
        each(|thread| {
            if thread.id == id {
                found = thread;
            }
        });
        found
    }

    /// Returns the thread of a port's name. The id is 0 once it has ended.
    pub(super) fn from_port(port: u32) -> Thread {
        let id = task::thread_id(port).unwrap_or(0);
        Thread { id, port }
    }

    /// The system's id of the thread.
    pub fn id(self) -> u64 {
        self.id
    }

    /// Returns true if this process has such a thread now.
    pub fn is_alive(self) -> bool {
        self.port != 0 && task::thread_id(self.port) == Some(self.id)
    }

    /// The name of its port, as Mach calls take it.
    pub fn tid(self) -> i32 {
        self.port as i32
    }

    /// Returns true if it is the thread with which the process began.
    pub fn is_main(self) -> bool {
        self == Thread::main()
    }

    /// Copies its name, cut at 32 bytes, and returns the name's length.
    pub fn name(self, buffer: &mut [u8; 32]) -> usize {
        let Some(info) = task::extended(self.port) else {
            return 0;
        };
        let mut length = 0usize;
        for (slot, byte) in buffer.iter_mut().zip(info.pth_name) {
            if byte == 0 {
                break;
            }
            *slot = byte as u8;
            length = length.saturating_add(1);
        }
        length
    }

    /// Returns counters that change when the thread runs; `None` if the kernel does not report them.
    pub fn progress(self) -> Option<ThreadProgress> {
        const RUNNING: i32 = 1; // TH_STATE_RUNNING (mach/thread_info.h)
        let info = task::extended(self.port)?;
        Some(ThreadProgress {
            running: info.pth_run_state == RUNNING,
            cpu: info.pth_user_time.saturating_add(info.pth_system_time),
            slices: 0,
        })
    }
}

/// Lists the threads of this process into `into` and returns how many there are. They may be more than there was room
/// for.
///
/// Never call it while a thread is suspended. The kernel maps the list into this task; it is unmapped, and every
/// reference released, before this returns.
pub fn list(into: &mut [Thread]) -> usize {
    let mut listed = 0usize;
    each(|thread| {
        if let Some(slot) = into.get_mut(listed) {
            *slot = thread;
        }
        listed = listed.saturating_add(1);
    });
    listed
}

/// Calls `work` with each thread of this process. Signal-safe as [`list`] is, as far as `work` is.
fn each(mut work: impl FnMut(Thread)) {
    let mut ports: *mut u32 = std::ptr::null_mut();
    let mut count = 0;
    // SAFETY: both results live across the call.
    let code = unsafe { mach2::task::task_threads(task::own(), &mut ports, &mut count) };
    if code != mach2::kern_return::KERN_SUCCESS || ports.is_null() {
        return;
    }
    // SAFETY: the kernel gave an array of `count` names.
    let names = unsafe { std::slice::from_raw_parts(ports, count as usize) };
    for &port in names {
        if let Some(id) = task::thread_id(port) {
            work(Thread { id, port });
        }
        task::release(port);
    }
    let bytes = size_of_val(names) as u64;
    // SAFETY: the kernel's array, given for us to unmap, not used any more.
    unsafe { mach2::vm::mach_vm_deallocate(task::own(), ports as u64, bytes) };
}
