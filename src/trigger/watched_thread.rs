//! A thread that is watched. Where the queue of the one that installed is pinged and worked off by others, the thread that
//! works it off now.

use crate::platform::{Thread, ThreadGauge};

/// The watched thread, and what the kernel reports of it.
#[derive(Debug)]
pub(crate) struct WatchedThread {
    /// The thread that installed; `None` for any other.
    #[cfg_attr(
        not(target_vendor = "apple"),
        allow(dead_code, reason = "only Apple's queues move")
    )]
    installed: Option<Thread>,
    now: Thread,
    gauge: ThreadGauge,
    /// Time added to the thread's CPU time, so that readings go on when another thread is followed.
    #[cfg_attr(
        not(target_vendor = "apple"),
        allow(dead_code, reason = "only Apple's queues move")
    )]
    before: u64,
}

impl WatchedThread {
    /// Begins with this thread. Not signal-safe.
    pub fn new(thread: Thread) -> WatchedThread {
        WatchedThread {
            installed: Some(thread),
            now: thread,
            gauge: ThreadGauge::open(thread.tid()),
            before: 0,
        }
    }

    /// A thread whose work no other does. Its counters are looked up at each reading: there may be hundreds.
    pub fn fixed(thread: Thread) -> WatchedThread {
        WatchedThread {
            installed: None,
            now: thread,
            gauge: ThreadGauge::unopened(thread.tid()),
            before: 0,
        }
    }

    /// Looks up which it is now; whether that is another one than before. Not for handlers.
    pub fn follow(&mut self) -> bool {
        #[cfg(target_vendor = "apple")]
        if let Some(installed) = self.installed {
            let server = crate::platform::run_loop::served_by(installed);
            let now = server.unwrap_or(installed);
            if now != self.now {
                let cpu = self.cpu();
                self.now = now;
                self.gauge = ThreadGauge::open(now.tid());
                self.before = cpu.wrapping_sub(self.gauge.cpu());
                return true;
            }
        }
        false
    }

    /// Returns true if the thread, whose state is this, has ended. Always false on Apple platforms, where others may
    /// work off the queue of a main thread that has.
    pub fn has_ended(&self, state: Option<u8>) -> bool {
        cfg!(target_os = "linux")
            && match state {
                Some(state) => matches!(state, b'Z' | b'X'),
                None => !self.now.is_alive(),
            }
    }

    /// The thread.
    pub fn thread(&self) -> Thread {
        self.now
    }

    /// The kernel's counters of the thread.
    pub fn gauge(&self) -> &ThreadGauge {
        &self.gauge
    }

    /// CPU time that it used, nanoseconds, and what others had used before it.
    pub fn cpu(&self) -> u64 {
        self.gauge.cpu().wrapping_add(self.before)
    }
}
