//! A thread that is watched. Where the queue of the one that installed is pinged and worked off by others, the thread that
//! works it off now.

use crate::platform::{MainQueue, Thread, ThreadGauge};

/// The watched thread, and what the kernel reports of it.
#[derive(Debug)]
pub(crate) struct WatchedThread {
    /// The thread that installed; `None` for any other.
    installer: Option<Thread>,
    now: Thread,
    gauge: ThreadGauge,
    /// Time added to the thread's CPU time, so that readings go on when another thread is followed.
    cpu_offset: u64,
    /// Whether the queue was at rest when it was followed; `None` where that did not show.
    is_queue_idle: Option<bool>,
}

impl WatchedThread {
    /// Begins with this thread. Not signal-safe.
    pub fn new(thread: Thread) -> WatchedThread {
        WatchedThread {
            installer: Some(thread),
            now: thread,
            gauge: ThreadGauge::open(thread.tid()),
            cpu_offset: 0,
            is_queue_idle: None,
        }
    }

    /// A thread whose work no other does. Its counters are looked up at each reading: there may be hundreds.
    pub fn fixed(thread: Thread) -> WatchedThread {
        WatchedThread {
            installer: None,
            now: thread,
            gauge: ThreadGauge::unopened(thread.tid()),
            cpu_offset: 0,
            is_queue_idle: None,
        }
    }

    /// Looks up which it is now; whether that is another one than before. Not for handlers.
    pub fn follow(&mut self) -> bool {
        let Some(installed) = self.installer.filter(|_| MainQueue::is_pinged()) else {
            return false;
        };
        let served = MainQueue::served(installed);
        self.is_queue_idle = served.rests;
        let now = served.by.unwrap_or(installed);
        if now == self.now {
            return false;
        }
        let cpu = self.cpu();
        self.now = now;
        self.gauge = ThreadGauge::open(now.tid());
        self.cpu_offset = cpu.wrapping_sub(self.gauge.cpu());
        true
    }

    /// True if the queue that the thread worked off was empty when it was followed, false if not; `None` where only the thread's
    /// own progress shows it.
    pub fn rests(&self) -> Option<bool> {
        self.is_queue_idle
    }

    /// Returns true if the thread, whose state is this, has ended. Not so where others may work off its queue, and on Apple
    /// platforms.
    pub fn has_ended(&self, state: Option<u8>) -> bool {
        let may_move = self.installer.is_some() && MainQueue::is_pinged();
        cfg!(target_os = "linux")
            && !may_move
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
        self.gauge.cpu().wrapping_add(self.cpu_offset)
    }
}
