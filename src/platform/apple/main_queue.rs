//! The main dispatch queue (dispatch/queue.h): pings through it, and the thread that works it off.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{memory, task, threads};
use crate::platform::Thread;

unsafe extern "C" {
    static _dispatch_main_q: c_void;
    fn dispatch_async_f(
        queue: *const c_void,
        context: *mut c_void,
        work: extern "C" fn(*mut c_void),
    );
}

/// True once a monitor pings through it.
static PINGED: AtomicBool = AtomicBool::new(false);

/// Queues `beat` on the main queue, to be called on the main thread. Does not wait for it.
pub fn post(beat: fn()) {
    extern "C" fn work(context: *mut c_void) {
        // SAFETY: the function that was passed below.
        unsafe { std::mem::transmute::<*mut c_void, fn()>(context)() };
    }
    PINGED.store(true, Ordering::Relaxed);
    // SAFETY: the main queue lives as long as the process; `work` takes the context that it is given.
    unsafe { dispatch_async_f(&raw const _dispatch_main_q, beat as *mut c_void, work) };
}

/// Returns the thread that works off the main queue at this moment, if a monitor pings through it and the thread is not
/// `usual`. Not for handlers: it lists the threads.
pub fn served_by(usual: Thread) -> Option<Thread> {
    if !PINGED.load(Ordering::Relaxed) || serves(usual) {
        return None;
    }
    let mut all = [usual; 512];
    let count = threads::list(&mut all);
    all.into_iter().take(count).find(|&thread| serves(thread))
}

/// Returns true if a thread works off the main queue: the kernel reports where the dispatch
/// library notes that (`dispatch_qaddr` of mach/thread_info.h), for spindump(8) and its like.
fn serves(thread: Thread) -> bool {
    let mut queue = [0; 8];
    let noted = task::queue_at(thread.tid() as u32, thread.id());
    noted.is_some_and(|at| memory::read(at, &mut queue) == queue.len())
        && u64::from_ne_bytes(queue) == &raw const _dispatch_main_q as u64
}
