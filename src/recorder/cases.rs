//! The stalls that are recorded at once: the memory for the stacks of each, reserved before, and what its pool may record.

use std::sync::{Arc, Mutex};

use super::cause::MainCause;
use super::sampler::Sampler;
use super::{Recording, Shared, StallEvent};
use crate::platform::Thread;
use crate::trigger::watchdog::Subject;
use crate::trigger::watched_thread::WatchedThread;

/// Stalls of threads besides the one that installed that are recorded at once.
const OTHERS: usize = 2;
/// Pools and single threads with limits of their own; all further ones share the last.
const LIMITED: usize = 16;

/// One stall, perhaps, of one thread.
pub(super) struct Case {
    pub subject: Subject,
    pub sampler: Sampler,
    pub open: Option<Recording>,
    /// The lock that the stall waits for most of its time.
    pub cause: MainCause,
    /// The limits are those of its pool.
    pub shared: Shared,
    pub is_stalled: bool,
    /// The thread that installed the monitor.
    pub installed: Thread,
    is_free: bool,
}

impl Case {
    fn new(subject: &Subject, sampler: Sampler, shared: Shared, installed: Thread) -> Case {
        Case {
            subject: subject.clone(),
            sampler,
            open: None,
            cause: MainCause::new(),
            shared,
            is_stalled: false,
            installed,
            is_free: true,
        }
    }

    fn is_of(&self, subject: &Subject) -> bool {
        !self.is_free && self.subject.index == subject.index
    }
}

/// All of them, and the thread that the watchdog's calls are about.
pub(super) struct Cases {
    /// The first is kept for the thread that installed, if that is watched.
    all: Vec<Case>,
    is_main_watched: bool,
    subject: Subject,
    shared: Shared,
    pools: Vec<(Arc<str>, Shared)>,
}

impl Cases {
    /// Reserves the memory for one.
    pub fn new(installed: Thread, is_main_watched: bool, shared: Shared) -> Cases {
        let subject = Subject {
            index: 0,
            thread: installed,
            name: None,
            number: 0,
            essential: true,
            pool: [0; 3],
        };
        let sampler = Sampler::new(WatchedThread::new(installed));
        Cases {
            all: vec![Case::new(&subject, sampler, shared.clone(), installed)],
            is_main_watched,
            subject,
            shared,
            pools: Vec::new(),
        }
    }

    /// Reserves the memory for stalls of other threads, once.
    pub fn make_room(&mut self) {
        let count = if self.is_main_watched {
            OTHERS + 1
        } else {
            OTHERS
        };
        let installed = self.all.first().map(|case| case.installed);
        while let Some(installed) = installed.filter(|_| self.all.len() < count) {
            let sampler = Sampler::new(WatchedThread::fixed(installed));
            let case = Case::new(&self.subject, sampler, self.shared.clone(), installed);
            self.all.push(case);
        }
    }

    pub fn turn_to(&mut self, subject: &Subject) {
        self.subject.clone_from(subject);
    }

    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    pub fn log(&self) -> Arc<dyn Fn(&StallEvent<'_>) + Send + Sync> {
        Arc::clone(&self.shared.log)
    }

    /// The case of the present thread, if it has one.
    pub fn present(&mut self) -> Option<&mut Case> {
        let subject = &self.subject;
        self.all.iter_mut().find(|case| case.is_of(subject))
    }

    /// The case of the present thread, which gets one if there is one free. A stall that is certain (`is_stalled`) takes that
    /// of a thread that only may be in one.
    pub fn wanted(&mut self, is_stalled: bool) -> Option<&mut Case> {
        let index = self.place(is_stalled)?;
        let shared = self.limits();
        let case = self.all.get_mut(index)?;
        if !case.is_of(&self.subject) {
            case.sampler.clear();
            if let Some(shared) = shared {
                case.shared = shared;
                case.sampler
                    .watch(WatchedThread::fixed(self.subject.thread));
            }
        }
        case.is_free = false;
        case.subject.clone_from(&self.subject);
        if is_stalled {
            case.is_stalled = true;
            case.cause = MainCause::new();
        }
        Some(case)
    }

    fn place(&self, is_stalled: bool) -> Option<usize> {
        if self.subject.index == 0 {
            return Some(0);
        }
        let first = usize::from(self.is_main_watched);
        let find = |is_it: &dyn Fn(&Case) -> bool| {
            let mut others = self.all.iter().enumerate().skip(first);
            others.find(|(_, case)| is_it(case)).map(|(at, _)| at)
        };
        find(&|case| case.is_of(&self.subject))
            .or_else(|| find(&|case| case.is_free))
            .or_else(|| find(&|case| is_stalled && !case.is_stalled))
    }

    /// The limits of the present thread's pool; `None` for the thread that installed.
    fn limits(&mut self) -> Option<Shared> {
        let name = self.subject.name.as_ref()?;
        let known = self.pools.iter().find(|(of, _)| of == name);
        if let Some((_, shared)) = known.or(self.pools.get(LIMITED - 1)) {
            return Some(shared.clone());
        }
        let limiter = self.shared.limiter().anew();
        let limiter = Arc::new(Mutex::new(limiter));
        let shared = Shared {
            limiter,
            ..self.shared.clone()
        };
        self.pools.push((Arc::clone(name), shared.clone()));
        Some(shared)
    }

    /// The present thread has no stall any more.
    pub fn close(&mut self) {
        if let Some(case) = self.present() {
            case.sampler.clear();
            case.is_stalled = false;
            case.is_free = true;
            case.open = None;
        }
    }
}
