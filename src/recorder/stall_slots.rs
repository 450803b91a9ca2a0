//! The stalls that are recorded at once: the memory for the stacks of each, reserved before, and what its pool may record.

use std::sync::{Arc, Mutex};

use super::buffers::ImageIndices;
use super::lock::{MainCause, Waiting};
use super::sampler::Sampler;
use super::{Recording, Shared};
use crate::platform::Thread;
use crate::trigger::heartbeat::THREADS;
use crate::trigger::stall::{StallEndInfo, StallInfo};
use crate::trigger::watchdog::WatchTarget;
use crate::trigger::watched_thread::WatchedThread;

/// Stalls of threads besides the one that installed that are recorded at once.
const MAX_OTHER_THREADS: usize = 2;
/// Pools and single threads with limits of their own; all further ones share the last.
const MAX_LIMITS: usize = 16;
/// Time after a recorded stall is over until a waiting one of the same pool takes its place, nanoseconds. Members that stalled
/// together go on within it: their reports use up no quota of the pool.
const HANDOVER: u64 = 1_000_000_000;

/// One stall, perhaps, of one thread.
pub(super) struct StallSlot {
    pub subject: WatchTarget,
    pub sampler: Sampler,
    pub open: Option<Recording>,
    /// The numbers of the images in it.
    pub indices: ImageIndices,
    /// The stall whose report is to begin, once it is known that the process survives a crash.
    pub held: Option<(StallInfo, Option<Waiting>)>,
    /// The end that the report lacks, for the same reason.
    pub end: Option<StallEndInfo>,
    /// The lock that the stall waits for most of its time.
    pub cause: MainCause,
    /// The limits are those of its pool.
    pub shared: Shared,
    pub is_stalled: bool,
    /// The thread that installed the monitor.
    pub installed: Thread,
    is_free: bool,
    /// Time at which its last recorded stall was over, monotonic, nanoseconds.
    ended: u64,
}

impl StallSlot {
    fn is_of(&self, subject: &WatchTarget) -> bool {
        !self.is_free && self.end.is_none() && self.subject.index == subject.index
    }

    /// Is free again; its last stall was over at this time.
    pub fn close(&mut self, ended: u64) {
        self.is_free = true;
        self.open = None;
        self.held = None;
        self.ended = ended;
    }
}

/// All of them, and the thread that the watchdog's calls are about.
pub(super) struct StallSlots {
    /// The first is kept for the thread that installed, if that is watched.
    pub all: Vec<StallSlot>,
    is_main_watched: bool,
    installed: Thread,
    pub subject: WatchTarget,
    /// What all reports share, with the limits of threads without a pool; of each pool the same with its own.
    shared: Shared,
    pools: Vec<(Arc<str>, Shared)>,
    /// Stalls that are certain, last, and found no place.
    waiting: Vec<(WatchTarget, StallInfo)>,
}

impl StallSlots {
    /// Reserves the memory for one.
    pub fn new(installed: Thread, is_main_watched: bool, shared: Shared) -> StallSlots {
        let subject = WatchTarget {
            index: 0,
            thread: installed,
            name: None,
            number: 0,
            essential: true,
            pool: [0; 3],
        };
        let mut cases = StallSlots {
            all: Vec::new(),
            is_main_watched,
            installed,
            subject,
            shared,
            pools: Vec::new(),
            waiting: Vec::new(),
        };
        cases.reserve(WatchedThread::new(installed));
        cases
    }

    fn reserve(&mut self, watched: WatchedThread) {
        self.all.push(StallSlot {
            subject: self.subject.clone(),
            sampler: Sampler::new(watched),
            open: None,
            indices: ImageIndices::new(),
            held: None,
            end: None,
            cause: MainCause::new(),
            shared: self.shared.clone(),
            is_stalled: false,
            installed: self.installed,
            is_free: true,
            ended: 0,
        });
    }

    /// Reserves the memory for stalls of other threads, once.
    pub fn make_room(&mut self) {
        self.waiting.reserve(THREADS);
        let count = MAX_OTHER_THREADS.saturating_add(usize::from(self.is_main_watched));
        while self.all.len() < count {
            self.reserve(WatchedThread::fixed(self.installed));
        }
    }

    /// The case of the present thread, if it has one.
    pub fn present(&mut self) -> Option<&mut StallSlot> {
        let subject = &self.subject;
        self.all.iter_mut().find(|case| case.is_of(subject))
    }

    /// The case of the present thread, which gets one if there is one free and no stall waits for it. A stall that is certain
    /// (`is_stalled`) takes that of a thread that only may be in one.
    pub fn slot_of_target(&mut self, is_stalled: bool) -> Option<&mut StallSlot> {
        self.claim(self.place(is_stalled)?, is_stalled)
    }

    /// Keeps the present thread's stall, which found no place.
    pub fn wait(&mut self, info: &StallInfo) {
        self.waiting.push((self.subject.clone(), *info));
    }

    /// Turns to the longest of the stalls that found no place, if there is a place for it by now.
    pub fn next_waiting(&mut self, now: u64) -> Option<StallInfo> {
        let waiting = self.waiting.iter().enumerate();
        let (at, (subject, _)) = waiting.min_by_key(|(_, (_, info))| info.start)?;
        let index = self.find(|case| {
            let is_other = case.subject.name != subject.name;
            case.is_free && (is_other || now.saturating_sub(case.ended) >= HANDOVER)
        })?;
        let (subject, info) = self.waiting.swap_remove(at);
        self.subject = subject;
        self.claim(index, true);
        Some(info)
    }

    /// Gives the present thread this case.
    fn claim(&mut self, index: usize, is_stalled: bool) -> Option<&mut StallSlot> {
        let limits = self.limits();
        let case = self.all.get_mut(index)?;
        if !case.is_of(&self.subject) {
            let thread = self.subject.thread;
            let other = limits.is_some().then(|| WatchedThread::fixed(thread));
            case.sampler.clear(other);
            case.shared = limits.unwrap_or_else(|| self.shared.clone());
            case.is_stalled = false;
        }
        case.is_free = false;
        case.subject.clone_from(&self.subject);
        if is_stalled {
            case.is_stalled = true;
            case.cause = MainCause::new();
        }
        Some(case)
    }

    /// Finds a case of the threads besides the one that installed.
    fn find(&self, is_it: impl Fn(&StallSlot) -> bool) -> Option<usize> {
        let first = usize::from(self.is_main_watched);
        let others = self.all.get(first..)?;
        others.iter().position(is_it)?.checked_add(first)
    }

    fn place(&self, is_stalled: bool) -> Option<usize> {
        if self.subject.index == 0 {
            let is_taken = self.all.first().is_some_and(|main| main.end.is_some());
            return (!is_taken).then_some(0);
        }
        let own = self.find(|case| case.is_of(&self.subject));
        if own.is_some() || !self.waiting.is_empty() {
            return own;
        }
        self.find(|case| case.is_free)
            .or_else(|| self.find(|case| is_stalled && !case.is_free && !case.is_stalled))
    }

    /// The limits of the present thread's pool; `None` for the thread that installed.
    fn limits(&mut self) -> Option<Shared> {
        let name = self.subject.name.as_ref()?;
        let known = self.pools.iter().find(|(of, _)| of == name);
        if let Some((_, shared)) = known.or(self.pools.get(MAX_LIMITS - 1)) {
            return Some(shared.clone());
        }
        let mut shared = self.shared.clone();
        shared.limiter = Arc::new(Mutex::new(self.shared.limiter().with_same_limits()));
        self.pools.push((Arc::clone(name), shared.clone()));
        Some(shared)
    }

    /// The present thread has no stall any more, or none to record; a recorded one was `over` at this time. Returns true if it
    /// still waited for a place.
    pub fn close(&mut self, ended: u64) -> bool {
        if let Some(case) = self.present() {
            case.close(ended);
        }
        let (index, before) = (self.subject.index, self.waiting.len());
        self.waiting.retain(|(of, _)| of.index != index);
        self.waiting.len() < before
    }
}
