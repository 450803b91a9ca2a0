//! The main dispatch queue (dispatch/queue.h): pings through it, and the thread that works it off.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{memory, task, threads};
use crate::platform::{QueueWorker, Thread};

unsafe extern "C" {
    static _dispatch_main_q: c_void;
    fn dispatch_async_f(
        queue: *const c_void,
        context: *mut c_void,
        work: extern "C" fn(*mut c_void),
    );
}

/// The queue, which each program has.
#[derive(Debug, Clone, Copy)]
pub struct MainQueue;

/// True once a monitor pings through it.
static PINGED: AtomicBool = AtomicBool::new(false);

impl MainQueue {
    /// The queue.
    pub fn find() -> Option<MainQueue> {
        Some(MainQueue)
    }

    /// Queues `beat`, to be called on the thread that works the queue off. Does not wait for it.
    pub fn post(self, beat: fn()) {
        extern "C" fn work(context: *mut c_void) {
            // SAFETY: the function that was passed below.
            unsafe { std::mem::transmute::<*mut c_void, fn()>(context)() };
        }
        PINGED.store(true, Ordering::Relaxed);
        // SAFETY: the main queue lives as long as the process; `work` takes the context that it is given.
        unsafe { dispatch_async_f(&raw const _dispatch_main_q, beat as *mut c_void, work) };
    }

    /// Forgets that an earlier monitor has pinged through it.
    pub fn forget() {
        PINGED.store(false, Ordering::Relaxed);
    }

    /// Returns true once a monitor pings through it.
    pub fn is_pinged() -> bool {
        PINGED.load(Ordering::Relaxed)
    }

    /// Looks up the thread that works the queue off at this moment, if a monitor pings through it and the thread is not
    /// `usual`. Not for handlers: it lists the threads.
    pub fn served(usual: Thread) -> QueueWorker {
        if !MainQueue::is_pinged() || serves(usual) {
            return QueueWorker::default();
        }
        let mut all = [usual; 512];
        let count = threads::list(&mut all);
        QueueWorker {
            by: all.into_iter().take(count).find(|&thread| serves(thread)),
            rests: None,
        }
    }
}

/// Returns true if a thread works off the main queue: the kernel reports where the dispatch
/// library notes that (`dispatch_qaddr` of mach/thread_info.h), for spindump(8) and its like.
fn serves(thread: Thread) -> bool {
    let mut queue = [0; 8];
    let noted = task::queue_at(thread.tid() as u32, thread.id());
    noted.is_some_and(|at| memory::read(at, &mut queue) == queue.len())
        && u64::from_ne_bytes(queue) == &raw const _dispatch_main_q as u64
}
