//! Pings through the app's own queue, in place of heartbeats.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::stall::{DISTURBED, delay, only_monitor, own_tid, undisturbed};
use wedjat::report::{Report, StallClass};
use wedjat::{Monitor, Stall, Stats};

#[test]
fn a_freeze_is_found_and_an_idle_loop_is_none() {
    undisturbed(DISTURBED, play, |reports| {
        assert_eq!(reports.len(), 1);
        let report = &reports[0];
        let class = report.event.as_ref().unwrap().class.unwrap();
        // On a machine under load, it may not get the CPU that it wants.
        assert!(
            matches!(class, StallClass::Busy | StallClass::Starved),
            "{class:?}"
        );
        let end = report.stall_end.as_ref().unwrap();
        assert!(end.duration >= Duration::from_millis(400), "{end:?}");
        assert!(end.at_least, "it began before the look at it");
    });
}

/// Keeps the calling thread busy until it has had the CPU for so long.
fn work(time: Duration) {
    let cpu = || {
        // SAFETY: an all-zero `timespec` is a valid value; the call fills it in.
        let now = unsafe {
            let mut now: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now);
            now
        };
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let end = cpu() + time;
    while cpu() < end {
        std::hint::spin_loop();
    }
}

/// The reports, and how long the watched thread starved.
fn play() -> (Vec<Report>, u64) {
    let _only = only_monitor();
    let before = delay(own_tid());
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    let monitor = Monitor::builder("Pinged", "1")
        .directory(directory)
        .stall(Stall::default())
        .install()
        .unwrap();
    let (queue, events) = mpsc::channel();
    monitor
        .watch_by_ping(move |beat| {
            let _ = queue.send(beat);
        })
        .unwrap();
    assert!(monitor.watch_by_ping(|_| ()).is_err());
    let turn = |time| {
        let until = Instant::now() + Duration::from_millis(time);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if let Ok(beat) = events.recv_timeout(left) {
                beat();
            }
        }
    };
    turn(700);
    // Not in a turn of anything that the app would tell us of.
    work(Duration::from_millis(700));
    turn(400);
    drop(monitor);
    let reports = wedjat::store::reports(directory).unwrap();
    let reports = reports.iter().map(|stored| stored.read().unwrap().report);
    (reports.collect(), delay(own_tid()) - before)
}

/// A loop at rest gets no pings, and the watchdog looks at it at most four times a second.
#[test]
fn a_loop_at_rest_is_left_alone() {
    undisturbed(DISTURBED, play_at_rest, |(at_rest, stats)| {
        // Each wait for the time that is left may count as work once.
        assert!(at_rest <= 6, "{at_rest} pings in 3 s");
        // It works and does not come to its queue: that is a stall, from the first look at it.
        assert_eq!(stats.stalls, 1);
        assert!(stats.longest > Duration::from_millis(350), "{stats:?}");
    });
}

/// The pings to a loop at rest and the monitor's counts after its stall, and how long the watched thread starved.
fn play_at_rest() -> ((u32, Stats), u64) {
    let before = delay(own_tid());
    let _only = only_monitor();
    let folder = tempfile::tempdir().unwrap();
    let builder = Monitor::builder("Pinged", "1").directory(folder.path());
    let monitor = builder.stall(Stall::default()).install().unwrap();
    let (queue, events) = mpsc::channel();
    monitor
        .watch_by_ping(move |beat| {
            let _ = queue.send(beat);
        })
        .unwrap();
    let mut beats = 0;
    let mut turn = |time| {
        let until = Instant::now() + Duration::from_millis(time);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if let Ok(beat) = events.recv_timeout(left) {
                beat();
                beats += 1;
            }
        }
        std::mem::take(&mut beats)
    };
    turn(1_500);
    let at_rest = turn(3_000);
    work(Duration::from_millis(700));
    turn(300);
    ((at_rest, monitor.stats()), delay(own_tid()) - before)
}

type Event = Box<dyn FnOnce() + Send>;

/// A loop that is pinged, on the calling thread.
struct Loop {
    monitor: Monitor,
    queue: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    _folder: tempfile::TempDir,
}

impl Loop {
    /// `then` follows each beat.
    fn start(then: fn()) -> Loop {
        let folder = tempfile::tempdir().unwrap();
        let builder = Monitor::builder("Pinged", "1").directory(folder.path());
        let monitor = builder.stall(Stall::default()).install().unwrap();
        let (queue, events) = mpsc::channel::<Event>();
        let of_ping = queue.clone();
        let post = move |beat: fn()| {
            let answer = move || {
                beat();
                then();
            };
            let _ = of_ping.send(Box::new(answer));
        };
        monitor.watch_by_ping(post).unwrap();
        Loop {
            monitor,
            queue,
            events,
            _folder: folder,
        }
    }

    fn turn(&self, time: u64) {
        let until = Instant::now() + Duration::from_millis(time);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let event = self.events.recv_timeout(left);
            event.into_iter().for_each(|event| event());
        }
    }
}

/// An event that is handled at once costs the watchdog a look or two, and no more pings.
#[test]
fn a_loop_with_an_event_a_second_is_looked_at_four_times_a_second() {
    undisturbed(DISTURBED, play_with_events, |(woken, stalls)| {
        let (seconds, events) = (5, 5);
        // At each end of a wait for what is left of the time, the thread runs too; one that had its CPU taken away before it had
        // answered gets a second ping.
        let budget = 4 * seconds + 4 * (events + 2);
        assert!(
            woken <= budget,
            "{woken} times in {seconds} s, not {budget}"
        );
        assert_eq!(stalls, 0);
    });
}

/// Count of the times that the watchdog woke and of its stalls, and how long the watched thread starved.
fn play_with_events() -> ((u64, u64), u64) {
    let _only = only_monitor();
    let before = delay(own_tid());
    let pinged = Loop::start(|| ());
    pinged.turn(1_500);
    let of_app = pinged.queue.clone();
    let user = std::thread::spawn(move || {
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(997));
            of_app.send(Box::new(|| ())).unwrap();
        }
    });
    let woken = watchdog_waits();
    pinged.turn(5_000);
    let woken = watchdog_waits() - woken;
    user.join().unwrap();
    let stalls = pinged.monitor.stats().stalls;
    ((woken, stalls), delay(own_tid()) - before)
}

/// Count of the times that the watchdog's thread has waited.
fn watchdog_waits() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let status = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default()
    };
    let mut all = tasks.map(status);
    let ours = all.find(|status| status.starts_with("Name:\twedjat\n"));
    let status = ours.expect("a watchdog");
    let (_, count) = status.split_once("\nvoluntary_ctxt_switches:\t").unwrap();
    count.lines().next().unwrap().parse().unwrap()
}

/// A loop that rests answers late where the machine has no CPU for it: it does not stand still.
#[test]
fn a_loop_at_rest_that_waits_for_a_cpu_is_no_stall() {
    let _only = only_monitor();
    // The rank and the place of a thread end with it.
    let stalls = std::thread::spawn(play_starved).join().unwrap();
    assert_eq!(stalls, 0);
}

/// Count of the stalls of a loop that has a few events, beside a thread that leaves it next to nothing of its processor.
fn play_starved() -> u64 {
    let pinged = Loop::start(|| ());
    pinged.turn(1_500);
    let of_app = pinged.queue.clone();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            on_first_cpu();
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let is_over = &is_over;
        scope.spawn(move || {
            for _ in 0..4 {
                std::thread::sleep(Duration::from_millis(1_500));
                of_app.send(Box::new(|| ())).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        on_first_cpu();
        let rank = libc::sched_param { sched_priority: 0 };
        // SAFETY: of the calling thread; `rank` is live.
        let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &rank) };
        assert_eq!(set, 0);
        pinged.turn(6_000);
    });
    pinged.monitor.stats().stalls
}

/// Keeps the calling thread on one processor.
fn on_first_cpu() {
    // SAFETY: plain bits; the calls are of the calling thread, with a live set of its size.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&all), &mut all), 0);
        let first = (0..1_024).find(|&cpu| libc::CPU_ISSET(cpu, &all)).unwrap();
        libc::CPU_SET(first, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &one), 0);
    }
}

/// Set when the next beat is to be followed by a freeze.
static FREEZES: AtomicBool = AtomicBool::new(false);

/// The thread answers, and the next event that it finds blocks: it sleeps as one at rest does, but elsewhere.
#[test]
fn a_freeze_right_after_an_answer_is_found() {
    let _only = only_monitor();
    let pinged = Loop::start(|| {
        if FREEZES.swap(false, Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(900));
        }
    });
    for count in 1..=3 {
        pinged.turn(1_700);
        FREEZES.store(true, Ordering::SeqCst);
        // It works, so it is pinged.
        pinged.queue.send(Box::new(|| ())).unwrap();
        pinged.turn(1_700);
        let stalls = pinged.monitor.stats().stalls;
        assert!(stalls >= count, "{stalls} of {count}");
    }
}
