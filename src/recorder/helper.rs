//! The helper thread: it calls the loader for the images, so that no capture has to, and writes to the disk what the
//! watched thread must not.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::capture::ImageTable;
use crate::platform::{Semaphore, clock, own_thread, vitals};
use crate::store::{Tidying, launch};
use crate::trigger::crash::{self, LifeWatch, OtherWork};
use crate::trigger::{join, spawn, terminate};
use crate::vitals::VITALS;

/// Time between two counts of the kernel's kills, nanoseconds: an earlier kill was the end of another process.
const COUNT_PERIOD: u64 = 5_000_000_000;
/// The same in a process that does nothing.
const IDLE_COUNT_PERIOD: u64 = 300_000_000_000;
/// CPU time below which a process did nothing, nanoseconds: it cannot have filled much memory.
const MAX_IDLE_CPU: u64 = 10_000_000;

/// Posted when there is something to do.
static WAKE_UP: Semaphore = Semaphore::new();
/// True if calls of `std::terminate` are to be noted.
pub(crate) static TERMINATE: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);
/// Counts of the refreshes requested, and of those done.
static REFRESHES: AtomicU64 = AtomicU64::new(0);
static REFRESHED: AtomicU64 = AtomicU64::new(0);
/// True if the folder is to be tidied up.
static TIDY: AtomicBool = AtomicBool::new(false);
/// True if the last of the app's threads may end, which is to end the process.
static LAST_MAY_END: AtomicBool = AtomicBool::new(false);
/// Ends the recorder's threads.
static END_THREADS: std::sync::OnceLock<fn()> = std::sync::OnceLock::new();
/// Time between two looks for threads of the app's, nanoseconds.
const SCAN_PERIOD: u64 = 1_000_000_000;

/// The running thread; dropping it stops and joins it. One a process, as there is one monitor.
#[derive(Debug)]
pub(crate) struct Helper {
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts it. `tidy` begins what [`Helper::tidy_soon`] requests.
    pub fn spawn(tidy: impl Fn() -> Option<Tidying> + Send + 'static) -> io::Result<Helper> {
        let _ = [&STOP, &TIDY, &LAST_MAY_END].map(|flag| flag.swap(false, Ordering::SeqCst));
        let work = Box::new(move || run(tidy));
        let thread = spawn("wedjat-helper", 512 << 10, work).map(Some)?;
        Ok(Helper { thread })
    }

    /// Requests a fresh image table and does not wait. Signal-safe.
    pub fn refresh_soon() -> u64 {
        let ticket = REFRESHES.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        WAKE_UP.post();
        ticket
    }

    /// Wakes the helper to write the changes in the launch's record, and to look whether a crash was survived.
    /// Signal-safe.
    pub fn wake() {
        WAKE_UP.post();
    }

    /// Looks from now on, once a second, whether the app has threads, and calls `end` once it has none.
    pub fn look_for_last_end(end: fn()) {
        let _ = END_THREADS.set(end);
        LAST_MAY_END.store(true, Ordering::SeqCst);
        WAKE_UP.post();
    }

    /// Requests a fresh image table and waits for it, at most so many nanoseconds: the helper may
    /// be stuck behind the loader's lock. Signal-safe.
    pub fn refresh_within(nanoseconds: u64) -> bool {
        let ticket = Helper::refresh_soon();
        let deadline = clock::monotonic().saturating_add(nanoseconds);
        loop {
            if REFRESHED.load(Ordering::SeqCst) >= ticket {
                return true;
            }
            if clock::monotonic() >= deadline {
                return false;
            }
            crate::platform::signals::pause(100_000);
        }
    }

    /// Requests that the folder is tidied up, and does not wait. Signal-safe.
    pub fn tidy_soon() {
        TIDY.store(true, Ordering::SeqCst);
        WAKE_UP.post();
    }
}

/// Waits for fresh images where a stack leads into code of none that is known: a library may have been
/// loaded a moment ago. So many times and no more, as of code that a process makes for itself no table
/// will ever know; and where the helper did not answer once, it is not waited for again. The default never waits.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    left: u32,
    stuck: bool,
}

impl Renewals {
    /// Time that the helper may take, nanoseconds: it may be behind the loader's lock.
    const MAX_HELPER_WAIT: u64 = 20_000_000;

    pub fn new() -> Renewals {
        Renewals {
            left: 20,
            stuck: false,
        }
    }

    /// Returns true if the images have been listed anew. Signal-safe.
    pub fn renew(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else {
            return false;
        };
        self.left = left;
        if self.stuck {
            Helper::refresh_soon();
            return false;
        }
        self.stuck = !Helper::refresh_within(Self::MAX_HELPER_WAIT);
        !self.stuck
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        STOP.store(true, Ordering::SeqCst);
        WAKE_UP.post();
        if let Some(thread) = self.thread.take() {
            join(thread);
        }
    }
}

/// The schedule of the counts. Each count that finds the process idle doubles the time to the next one.
#[derive(Debug)]
struct KillCounts {
    /// CPU time of the process and the time, when it was counted last.
    cpu: u64,
    counted: u64,
    period: u64,
}

impl KillCounts {
    fn new(cpu: u64, now: u64) -> KillCounts {
        KillCounts {
            cpu,
            counted: now,
            period: COUNT_PERIOD,
        }
    }

    /// Returns the time to wait until the next count, nanoseconds; 0 if it is due.
    fn wait(&mut self, cpu: u64, now: u64) -> u64 {
        let is_idle = cpu.saturating_sub(self.cpu) < MAX_IDLE_CPU;
        if !is_idle {
            self.period = COUNT_PERIOD;
        }
        let wait = self.counted.saturating_add(self.period).saturating_sub(now);
        if wait == 0 {
            if is_idle {
                self.period = self.period.saturating_mul(2).min(IDLE_COUNT_PERIOD);
            }
            self.cpu = cpu;
            self.counted = now;
        }
        wait
    }
}

fn run(tidy: impl Fn() -> Option<Tidying>) {
    // Here and not in the install, which it would make a sixth longer.
    launch::count(&VITALS.memory());
    let mut counts = KillCounts::new(clock::process_cpu(), clock::monotonic());
    let mut tidying = None;
    let mut life = LifeWatch::default();
    loop {
        let away = OtherWork::begin();
        let look = life.check_survival(clock::monotonic());
        // A process that dies has its images listed, and no more: a disk, or a lock that the thread which dies keeps, may keep us.
        let dies = crash::in_progress();
        if !dies {
            launch::write_changes();
        }
        let requested = REFRESHES.load(Ordering::SeqCst);
        if requested != REFRESHED.load(Ordering::SeqCst) {
            ImageTable::refresh();
            if !dies {
                VITALS.refresh_power();
            }
            if !dies && TERMINATE.load(Ordering::SeqCst) {
                // C++ may have come with a library.
                terminate::install();
            }
            REFRESHED.store(requested, Ordering::SeqCst);
        }
        if !dies && TIDY.swap(false, Ordering::SeqCst) {
            tidying = tidy();
        }
        // In steps: images may be requested meanwhile.
        let is_more = !dies && tidying.as_mut().is_some_and(Tidying::step);
        drop(away);
        if STOP.load(Ordering::SeqCst) {
            return;
        }
        if is_more {
            continue;
        }
        let count = vitals::OOM_KILLS_ARE_COUNTED
            .then(|| counts.wait(clock::process_cpu(), clock::monotonic()));
        if LAST_MAY_END.load(Ordering::SeqCst) && own_thread::are_alone() {
            LAST_MAY_END.store(false, Ordering::SeqCst);
            END_THREADS.get().inspect(|end| end());
        }
        let looks = LAST_MAY_END.load(Ordering::SeqCst).then_some(SCAN_PERIOD);
        match look.into_iter().chain(count).chain(looks).min() {
            None => WAKE_UP.wait(),
            Some(0) => {
                VITALS.sample_cpu();
                launch::count(&VITALS.memory());
            }
            Some(wait) => {
                let _ = WAKE_UP.wait_timeout(wait);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Seconds at which it counts, of so many, in a process that has used `cpu` nanoseconds by each second; it is
    /// woken each second where `awake` returns `true`.
    fn counted(seconds: u64, cpu: impl Fn(u64) -> u64, awake: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut counts = KillCounts::new(cpu(0), 0);
        let mut counted = Vec::new();
        let mut wakes = 0;
        for second in 0..=seconds {
            if second * SECOND < wakes && !awake(second) {
                continue;
            }
            let wait = counts.wait(cpu(second), second * SECOND);
            if wait == 0 {
                counted.push(second);
                wakes = second * SECOND;
            } else {
                wakes = second * SECOND + wait;
            }
        }
        counted
    }

    #[test]
    fn a_busy_process_is_counted_every_five_seconds() {
        let busy = counted(21, |second| second * SECOND, |_| false);
        assert_eq!(busy, [5, 10, 15, 20]);
        // However often the thread is woken for other things.
        assert_eq!(counted(21, |second| second * SECOND, |_| true), busy);
    }

    #[test]
    fn an_idle_process_is_counted_ever_more_seldom_and_at_most_every_five_minutes() {
        let idle = counted(1300, |_| 0, |_| false);
        assert_eq!(idle, [5, 15, 35, 75, 155, 315, 615, 915, 1215]);
    }

    #[test]
    fn a_process_that_works_again_is_counted_at_once_when_it_is_seen_to() {
        // From the 100th second on; the watchdog wakes this thread as soon as it is awake itself.
        let works = |second: u64| second.saturating_sub(100) * SECOND;
        let again = counted(112, works, |second| second > 100);
        assert_eq!(again, [5, 15, 35, 75, 101, 106, 111]);
    }
}
