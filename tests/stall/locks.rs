//! A stall that waits for a lock names the thread that holds it, for every kind of mutex whose memory
//! says so; and says that no owner is known where it does not, or where what it says cannot be true.

use std::cell::UnsafeCell;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::support::deadline::PATIENCE;
use crate::support::stall::{self, DISTURBED, is_child, start, tell_all_starved, undisturbed};
use wedjat::report::Report;
use wedjat::{Monitor, Stall};

/// libc's mutex of some kind.
struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: that is what a mutex is for.
unsafe impl Sync for Mutex {}

impl Mutex {
    fn new(kind: i32, robust: bool, protocol: i32) -> Mutex {
        // SAFETY: structures that are initialised before they are used, and not moved while they are locked.
        unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&mut attributes), 0);
            assert_eq!(libc::pthread_mutexattr_settype(&mut attributes, kind), 0);
            assert_eq!(
                libc::pthread_mutexattr_setprotocol(&mut attributes, protocol),
                0
            );
            let robust = if robust {
                libc::PTHREAD_MUTEX_ROBUST
            } else {
                libc::PTHREAD_MUTEX_STALLED
            };
            assert_eq!(
                libc::pthread_mutexattr_setrobust(&mut attributes, robust),
                0
            );
            let mutex = Mutex(UnsafeCell::new(std::mem::zeroed()));
            assert_eq!(libc::pthread_mutex_init(mutex.0.get(), &attributes), 0);
            mutex
        }
    }

    fn lock(&self) {
        // SAFETY: initialised by `new`.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
    }

    fn unlock(&self) {
        // SAFETY: locked by this thread.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0);
    }

    /// `__owner`, as glibc's `struct_mutex.h` has it.
    fn owner(&self) -> *mut i32 {
        self.0.get().cast::<i32>().wrapping_add(2)
    }
}

const HOLDER: &str = "the holder";

#[inline(never)]
fn holds_it(mutex: &Mutex, ready: &Barrier, folder: &Path) {
    mutex.lock();
    let holder = stall::own_tid() as u64;
    println!("holder {holder}");
    ready.wait();
    // Until its stack is in the report: seconds, in a debug build on a busy machine.
    let begin = Instant::now();
    while !being_written(folder).is_some_and(|report| has_function(&report, holder, "holds_it"))
        && begin.elapsed() < PATIENCE
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    mutex.unlock();
}

/// What there is by now of the report of the stall that lasts.
fn being_written(folder: &Path) -> Option<Report> {
    let mut files = std::fs::read_dir(folder).unwrap();
    let is_partial = |path: &Path| path.extension().is_some_and(|ending| ending == "partial");
    let path = files.find_map(|file| Some(file.ok()?.path()).filter(|path| is_partial(path)))?;
    let reading = wedjat::report::read(&std::fs::read(path).ok()?).ok()?;
    Some(reading.report)
}

#[inline(never)]
fn waits_for_it(mutex: &Mutex) {
    mutex.lock();
    mutex.unlock();
}

/// The child's report, and the thread that held the mutex.
fn play(test: &str, mutex: impl Fn() -> Mutex, lie: Option<i32>, check: impl Fn(&Report, u64)) {
    let folder = |pid| std::env::temp_dir().join(format!("wedjat-locks-{pid}-{test}"));
    if is_child() {
        let mutex = mutex();
        let folder = folder(std::os::unix::process::parent_id());
        let monitor = Monitor::builder("Locks", "1")
            .directory(&folder)
            .stall(Stall::default())
            .resolve_names(true)
            .install()
            .unwrap();
        println!("ready");
        let heart = monitor.heartbeat();
        heart.turn(|| ());
        let ready = Barrier::new(2);
        std::thread::scope(|scope| {
            let worker = std::thread::Builder::new().name(HOLDER.to_owned());
            worker
                .spawn_scoped(scope, || holds_it(&mutex, &ready, &folder))
                .unwrap();
            ready.wait();
            if let Some(lie) = lie {
                // SAFETY: a word of the mutex, which glibc looks at only to unlock other kinds.
                unsafe { mutex.owner().write_volatile(lie) };
            }
            heart.turn(|| waits_for_it(&mutex));
        });
        drop(monitor);
        tell_all_starved();
        return;
    }
    let folder = folder(std::process::id());
    let play = || {
        let lines = start(&format!("locks::{test}")).rest();
        let number = |key: &str| {
            let found = lines.iter().find_map(|line| line.strip_prefix(key));
            found.expect(key).parse::<u64>().unwrap()
        };
        let stored = wedjat::store::reports(&folder).unwrap();
        let reports: Vec<Report> = stored
            .iter()
            .map(|one| one.read().unwrap().report)
            .collect();
        std::fs::remove_dir_all(&folder).unwrap();
        ((reports, number("holder ")), number("starved "))
    };
    undisturbed(DISTURBED, play, |(reports, holder)| {
        assert_eq!(reports.len(), 1);
        check(&reports[0], holder);
    });
}

fn reason(report: &Report) -> &str {
    report.event.as_ref().unwrap().reason.as_deref().unwrap()
}

fn has_function(report: &Report, thread: u64, function: &str) -> bool {
    let thread = report.threads.iter().find(|known| known.id == thread);
    let mut names = thread.iter().flat_map(|thread| &thread.frames);
    names.any(|frame| {
        frame
            .name
            .as_ref()
            .is_some_and(|name| name.contains(function))
    })
}

fn names_the_holder(test: &str, mutex: impl Fn() -> Mutex) {
    play(test, mutex, None, |report, holder| {
        let expected = format!("waits for a lock held by thread {holder} ({HOLDER})");
        assert_eq!(reason(report), expected);
        assert!(
            has_function(report, holder, "holds_it"),
            "{:#?}",
            report.threads
        );
        assert!(has_function(report, report.threads[0].id, "waits_for_it"));
    });
}

macro_rules! kinds {
    ($($test:ident: $kind:expr, $robust:expr, $protocol:expr;)*) => {$(
        #[test]
        fn $test() {
            names_the_holder(stringify!($test), || Mutex::new($kind, $robust, $protocol));
        }
    )*};
}

kinds! {
    a_plain_mutex: libc::PTHREAD_MUTEX_NORMAL, false, libc::PTHREAD_PRIO_NONE;
    a_recursive_mutex: libc::PTHREAD_MUTEX_RECURSIVE, false, libc::PTHREAD_PRIO_NONE;
    a_mutex_that_checks_errors: libc::PTHREAD_MUTEX_ERRORCHECK, false, libc::PTHREAD_PRIO_NONE;
    a_robust_mutex: libc::PTHREAD_MUTEX_NORMAL, true, libc::PTHREAD_PRIO_NONE;
    a_mutex_that_inherits_priority: libc::PTHREAD_MUTEX_NORMAL, false, libc::PTHREAD_PRIO_INHERIT;
    a_robust_mutex_that_inherits_priority: libc::PTHREAD_MUTEX_NORMAL, true, libc::PTHREAD_PRIO_INHERIT;
}

/// The owner's word is that of no thread of this process.
#[test]
fn an_owner_that_is_not_there_is_not_believed() {
    let plain = || Mutex::new(libc::PTHREAD_MUTEX_NORMAL, false, libc::PTHREAD_PRIO_NONE);
    let test = "an_owner_that_is_not_there_is_not_believed";
    play(test, plain, Some(1), |report, holder| {
        assert_eq!(
            reason(report),
            "waits on a lock or an event, holder unknown"
        );
        // Any of them may hold it: all are there.
        assert!(
            has_function(report, holder, "holds_it"),
            "{:#?}",
            report.threads
        );
    });
}
