//! More threads stall at once than have a report at once: the one that lasts longest has one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use crate::support::deadline::run_again;
use crate::support::stall::{self, all_are_over, only_monitor};
use crate::threads::{install, reports};
use wedjat::report::Report;
use wedjat::{Monitor, RateLimit, Stall, threads, watch_thread};

/// What one thread does.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    is_pool: bool,
    /// When it begins to hang, and for how long, milliseconds; 0 for ever.
    after: u64,
    hangs: u64,
}

const fn alone(name: &'static str, after: u64, hangs: u64) -> Part {
    Part {
        name,
        is_pool: false,
        after,
        hangs,
    }
}

/// Starts all of them together.
fn play(parts: &[Part], is_over: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let start = Arc::new(Barrier::new(parts.len()));
    let threads = parts.iter().map(|&part| {
        let (start, is_over) = (Arc::clone(&start), Arc::clone(is_over));
        spawn(move || {
            let watch = if part.is_pool {
                threads::enter(part.name, Stall::default());
                None
            } else {
                Some(watch_thread(part.name, Stall::default()).unwrap())
            };
            threads::begin();
            threads::end();
            start.wait();
            sleep(Duration::from_millis(part.after));
            threads::begin();
            let began = Instant::now();
            while !is_over.load(Ordering::Relaxed)
                && (part.hangs == 0 || began.elapsed() < Duration::from_millis(part.hangs))
            {
                sleep(Duration::from_millis(5));
            }
            threads::end();
            // One that ends would say so.
            while !is_over.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(5));
            }
            drop(watch);
        })
    });
    threads.collect()
}

fn name(report: &Report) -> &str {
    let event = report.event.as_ref().unwrap();
    &event.watched.as_ref().unwrap().name
}

/// The names of the open reports.
fn open_reports(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let open = paths.filter(|path| path.extension().is_some_and(|of| of == "partial"));
    let read = open.filter_map(|path| wedjat::report::read(&std::fs::read(path).ok()?).ok());
    let stalls = read.filter(|reading| {
        let event = reading.report.event.as_ref();
        event.is_some_and(|event| event.watched.is_some())
    });
    stalls
        .map(|reading| name(&reading.report).to_owned())
        .collect()
}

/// Waits for an open report of this name.
fn is_reported(folder: &Path, name: &str, within: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < within {
        if open_reports(folder).iter().any(|open| open == name) {
            return true;
        }
        sleep(Duration::from_millis(20));
    }
    false
}

const SOON: Duration = Duration::from_secs(10);

#[test]
fn the_stall_that_lasts_has_a_report_however_many_others_there_were() {
    for others in [2, 4, 15] {
        let _only = only_monitor();
        let (folder, monitor) = install(None);
        let mut parts = vec![alone("deadlock", 30, 0)];
        let names = "abcdefghijklmno";
        let short = (0..others).map(|at| alone(&names[at..=at], 0, 400));
        parts.extend(short);
        let is_over = Arc::new(AtomicBool::new(false));
        let threads = play(&parts, &is_over);
        assert!(
            is_reported(folder.path(), "deadlock", SOON),
            "{others} others"
        );
        sleep(Duration::from_millis(600));
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|of| of.join().unwrap());
        all_are_over(&monitor, others as u64 + 1);
        drop(monitor);
        let reports = reports(folder.path());
        let of = reports.iter().find(|report| name(report) == "deadlock");
        let of = of.unwrap();
        // The duration is that of the whole stall.
        let longest = reports.iter().map(|of| of.stall_end.as_ref().unwrap());
        let longest = longest.map(|end| end.duration).max();
        assert_eq!(of.stall_end.as_ref().map(|end| end.duration), longest);
        assert!(!of.threads[0].frames.is_empty());
    }
}

#[test]
fn frames_of_two_stalls_at_once_lie_in_the_images_that_they_name() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    let watched = ["computes first", "waits first"].map(|name| {
        spawn(move || {
            let watch = watch_thread(name, Stall::default()).unwrap();
            threads::begin();
            threads::end();
            threads::begin();
            // Each has new stacks after the other's report has begun.
            for turn in 0..2 {
                if (turn == 0) == name.starts_with("computes") {
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_millis(700) {}
                } else {
                    sleep(Duration::from_millis(700));
                }
            }
            threads::end();
            drop(watch);
        })
    });
    watched.into_iter().for_each(|of| of.join().unwrap());
    drop(monitor);
    let reports = reports(folder.path());
    assert_eq!(reports.len(), 2);
    for report in reports {
        let threads = report.threads.iter().map(|thread| &thread.frames);
        let stacks = threads.chain(report.samples.iter().map(|sample| &sample.frames));
        for frame in stacks.flatten() {
            let image = &report.images[frame.image.unwrap() as usize];
            let range = image.base..image.base + image.size;
            assert!(range.contains(&frame.pc), "{frame:x?} in {image:x?}");
        }
    }
}

/// Takes turns of 20 ms without a rest, and returns the thread's id and its longest row of slow turns. A turn of less
/// than 30 ms is surely quick, which ends a row.
fn turns_without_rest(computes: bool, time: Duration) -> (u64, Duration) {
    threads::enter("member", Stall::default());
    let (start, mut row, mut longest) = (Instant::now(), None, Duration::ZERO);
    while start.elapsed() < time {
        let began = Instant::now();
        threads::begin();
        if computes {
            while began.elapsed() < Duration::from_millis(20) {}
        } else {
            sleep(Duration::from_millis(20));
        }
        threads::end();
        if began.elapsed() < Duration::from_millis(30) {
            row = None;
        } else {
            longest = longest.max(row.get_or_insert(began).elapsed());
        }
    }
    (threads::id(), longest)
}

/// Plays a pool of 64 members, half of which compute. Returns the stall that is said to be longer than its slow turns.
fn too_long() -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let often = RateLimit::default().same_stalls(1_000).per_hour(1_000);
    let monitor = Monitor::builder("Crowded", "1").directory(folder.path());
    let monitor = monitor.rate_limit(often).install().unwrap();
    let time = Duration::from_secs(5);
    let members = (0..64).map(|n| spawn(move || turns_without_rest(n % 2 == 0, time)));
    let members: Vec<_> = members.collect();
    let rows: Vec<_> = members.into_iter().map(|of| of.join().unwrap()).collect();
    drop(monitor);
    let reports = reports(folder.path());
    println!("{} reports", reports.len());
    reports.iter().find_map(|report| {
        let thread = report.threads[0].id;
        let (_, longest) = rows.iter().find(|(id, _)| *id == thread).unwrap();
        let end = report.stall_end.as_ref().unwrap();
        let is_longer = end.duration > *longest + Duration::from_millis(10);
        is_longer.then(|| format!("{end:?}, {longest:?}"))
    })
}

#[test]
fn no_stall_of_a_crowded_pool_is_said_to_be_longer_than_its_slow_turns() {
    let _only = only_monitor();
    // What a busy machine does between the two clocks is no stall's.
    if let Some(why) = too_long() {
        run_again(&why);
        assert_eq!(too_long(), None);
    }
}

#[test]
fn of_three_the_longest_has_a_report_if_it_lasts_but_little_longer() {
    let _only = only_monitor();
    let (folder, monitor) = install(None);
    let is_over = Arc::new(AtomicBool::new(false));
    let parts = [
        alone("first", 0, 800),
        alone("second", 0, 800),
        alone("longest", 100, 1_300),
    ];
    let threads = play(&parts, &is_over);
    all_are_over(&monitor, 3);
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|of| of.join().unwrap());
    drop(monitor);
    let reports = reports(folder.path());
    let mut names: Vec<&str> = reports.iter().map(name).collect();
    names.sort_unstable();
    assert_eq!(names, ["first", "longest", "second"]);
}

/// All have one limit of reports: those of the members that go on together leave room for the one that does not.
#[test]
fn a_member_that_lasts_has_a_report_within_the_quota_of_its_pool() {
    let _only = only_monitor();
    let folder = tempfile::tempdir().unwrap();
    let builder = Monitor::builder("Crowded", "1").directory(folder.path());
    let limit = RateLimit::default().per_hour(3);
    let monitor = builder.rate_limit(limit).install().unwrap();
    let member = |hangs| Part {
        is_pool: true,
        ..alone("pool", 0, hangs)
    };
    let mut parts = vec![member(0)];
    parts.extend((0..15).map(|at| member(400 + 20 * at)));
    let is_over = Arc::new(AtomicBool::new(false));
    let threads = play(&parts, &is_over);
    sleep(Duration::from_millis(1_500));
    assert!(is_reported(folder.path(), "pool", SOON));
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|of| of.join().unwrap());
    all_are_over(&monitor, 16);
    drop(monitor);
    let reports = reports(folder.path());
    assert!(reports.len() <= 3, "{}", reports.len());
    let lasted = reports.iter().map(|of| of.stall_end.as_ref().unwrap());
    assert!(lasted.map(|end| end.duration).max() > Some(Duration::from_millis(1_200)));
}

/// A stall whose report the quota refuses needs no place.
#[test]
fn stalls_without_a_report_keep_no_place() {
    let _only = only_monitor();
    let folder = tempfile::tempdir().unwrap();
    let builder = Monitor::builder("Crowded", "1").directory(folder.path());
    let limit = RateLimit::default().per_hour(1);
    let monitor = builder.rate_limit(limit).install().unwrap();
    let member = Part {
        is_pool: true,
        ..alone("pool", 0, 0)
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let threads = play(
        &[member, member, member, alone("deadlock", 700, 0)],
        &is_over,
    );
    assert!(is_reported(folder.path(), "deadlock", SOON));
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|of| of.join().unwrap());
    all_are_over(&monitor, 4);
    assert_eq!(monitor.stats().losses.get("quota"), Some(&2));
}

#[test]
fn a_stall_that_got_its_place_late_outlives_a_kill() {
    let test = "crowded::a_stall_that_got_its_place_late_outlives_a_kill";
    if stall::is_child() {
        let (folder, _monitor) = install(None);
        let is_over = Arc::new(AtomicBool::new(false));
        let short = ["a", "b", "c", "d"].map(|name| alone(name, 0, 400));
        let _threads = play(
            &[&short[..], &[alone("deadlock", 30, 0)]].concat(),
            &is_over,
        );
        let is_reported = is_reported(folder.path(), "deadlock", SOON);
        println!("ready");
        println!("{} {is_reported}", folder.path().display());
        return stall::wait_for_parent();
    }
    let mut played = stall::start(test);
    let line = played.line();
    let (folder, is_reported) = line.rsplit_once(' ').unwrap();
    played.signal(libc::SIGKILL);
    played.end();
    assert_eq!(is_reported, "true");
    {
        let _only = only_monitor();
        let builder = Monitor::builder("Crowded", "1").directory(folder);
        drop(builder.install().unwrap());
    }
    let reports = reports(Path::new(folder));
    let killed = reports.iter().find(|report| name(report) == "deadlock");
    assert!(killed.unwrap().stall_end.is_none());
    std::fs::remove_dir_all(folder).unwrap();
}
