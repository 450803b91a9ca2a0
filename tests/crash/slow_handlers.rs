//! Handlers from before ours that take long: while one is asked, no report begins. If the process dies there is the one of the
//! crash; if it lives there are those that were held back.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use wedjat::load::CpuLoad;
use wedjat::report::{EventKind, Report, StallOutcome};
use wedjat::store::{self, HowEnded};
use wedjat::{Crash, Monitor, MonitorBuilder, Stall};

use crate::child::{Ended, calls, play, stack};
use crate::neighbours::{siglongjmp, sigsetjmp};
use crate::undecided::{Handler, handle};
use crate::{Tests, Way, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        (
            "a_death_after_a_slow_handler_is_one_report_whatever_else_would_be_reported",
            dies,
        ),
        (
            "a_stall_that_is_open_at_a_crash_stays_open_beside_a_slow_handler",
            stays_open,
        ),
        ("what_is_held_back_is_written_if_the_process_lives", lives),
        (
            "a_stall_in_a_slow_handler_that_fixes_the_fault_is_written",
            fixes,
        ),
    ])
}

/// Time that the handler takes.
const SLOW: Duration = Duration::from_millis(1200);
/// Time after which reports would begin in the middle of it.
const AMID: Duration = Duration::from_millis(300);

type Jump = AtomicPtr<[u64; 64]>;
static JUMP: Jump = Jump::new(std::ptr::null_mut());
/// Held by the thread that crashes, for which another one waits.
static HELD: Mutex<()> = Mutex::new(());

extern "C" fn resets(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    std::thread::sleep(SLOW);
    // SAFETY: async-signal-safe.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

extern "C" fn raises(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    std::thread::sleep(SLOW);
    // SAFETY: async-signal-safe calls; the set is zeroed, which is valid.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

extern "C" fn computes(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let start = Instant::now();
    while start.elapsed() < SLOW {}
    // SAFETY: async-signal-safe.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

extern "C" fn exits(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    std::thread::sleep(SLOW);
    // SAFETY: nothing of the process is used any more.
    unsafe { libc::_exit(3) };
}

/// As one that waits for a program which it has started.
extern "C" fn waits(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the child only sleeps; async-signal-safe calls.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::usleep(SLOW.as_micros() as u32);
            libc::_exit(0);
        }
        libc::waitpid(child, std::ptr::null_mut(), 0);
        libc::signal(signal, libc::SIG_DFL);
    }
}

extern "C" fn jumps(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    std::thread::sleep(SLOW);
    // SAFETY: the function that set the buffer is still there.
    unsafe { siglongjmp(JUMP.load(Ordering::SeqCst), 1) };
}

/// Skips what raised the signal, which comes by a call.
extern "C" fn returns(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    std::thread::sleep(SLOW);
}

fn builder(folder: &Path) -> MonitorBuilder {
    Monitor::builder("crash test", "1.0")
        .directory(folder)
        .crash(Crash::default())
        .stall(Stall::default())
}

#[inline(never)]
fn waits_for_the_lock() {
    drop(HELD.lock());
}

/// Starts threads that would each report something in the middle of the handler: a stall, a panic, a report that the app
/// asks for, load.
fn others(folder: &Path) -> &'static Monitor {
    let over = Duration::from_millis(700);
    let cpu = CpuLoad::default().share(0.01).over(over);
    let monitor = builder(folder).cpu(cpu).install().unwrap();
    let monitor: &'static Monitor = Box::leak(Box::new(monitor));
    std::thread::spawn(|| {
        let watch = wedjat::watch_thread("render", Stall::default()).unwrap();
        watch.heartbeat().turn(|| ());
        std::thread::sleep(AMID);
        watch.heartbeat().turn(waits_for_the_lock);
        std::thread::sleep(Duration::from_secs(60));
    });
    std::thread::spawn(|| {
        std::thread::sleep(2 * AMID);
        let _ = std::panic::catch_unwind(|| panic!("amid"));
    });
    std::thread::spawn(|| {
        std::thread::sleep(2 * AMID);
        let _ = monitor.record("amid");
    });
    std::thread::spawn(|| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(8) {
            std::hint::black_box(&start);
        }
    });
    monitor
}

#[inline(never)]
fn survived_on_a_worker() {
    let mut buffer = [0; 64];
    // SAFETY: nothing of this frame is looked at after the jump but `buffer`'s address.
    unsafe {
        JUMP.store(&mut buffer, Ordering::SeqCst);
        if sigsetjmp(&raw mut buffer, 1) == 0 {
            libc::raise(libc::SIGFPE);
        }
    }
}

#[inline(never)]
fn main_is_slow(time: Duration) {
    std::thread::sleep(time);
    std::hint::black_box(time);
}

#[inline(never)]
fn render_is_slow(time: Duration) {
    std::thread::sleep(time);
    std::hint::black_box(time);
}

pub fn role(role: &str, folder: &Path) -> bool {
    let Some(how) = role.strip_prefix("slow_") else {
        return false;
    };
    match how {
        "resets" | "raises" | "computes" | "exits" | "waits" => {
            let handler = match how {
                "resets" => resets,
                "raises" => raises,
                "computes" => computes,
                "waits" => waits,
                _ => exits as Handler,
            };
            handle(libc::SIGSEGV, handler);
            let monitor = others(folder);
            monitor.heartbeat().turn(|| {
                let _held = HELD.lock();
                std::thread::sleep(Duration::from_millis(150));
                outer(Way::Null);
            });
        }
        "exit_resets" | "exit_computes" => {
            let is_busy = how == "exit_computes";
            handle(
                libc::SIGSEGV,
                if is_busy { computes } else { resets as Handler },
            );
            std::mem::forget(builder(folder).install().unwrap());
            std::thread::spawn(|| outer(Way::Null));
            std::thread::sleep(2 * AMID);
            std::process::exit(0);
        }
        "stays_open" => {
            handle(libc::SIGSEGV, resets);
            let monitor = builder(folder).install().unwrap();
            monitor.heartbeat().turn(|| {
                main_is_slow(Duration::from_millis(900));
                outer(Way::Null);
            });
        }
        "lives" => {
            handle(libc::SIGFPE, jumps);
            let monitor = others(folder);
            let heart = monitor.heartbeat();
            heart.turn(|| ());
            let render = std::thread::spawn(|| {
                let watch = wedjat::watch_thread("other", Stall::default()).unwrap();
                watch.heartbeat().turn(|| ());
                std::thread::sleep(AMID);
                // Goes on behind the time at which it is known that the process lives.
                watch
                    .heartbeat()
                    .turn(|| render_is_slow(Duration::from_secs(5)));
                std::thread::sleep(AMID);
            });
            let worker = std::thread::spawn(|| {
                std::thread::sleep(AMID / 2);
                survived_on_a_worker();
                std::thread::sleep(Duration::from_secs(60));
            });
            std::thread::sleep(AMID);
            // Over before that.
            heart.turn(|| main_is_slow(Duration::from_millis(600)));
            render.join().unwrap();
            std::thread::sleep(Duration::from_secs(3));
            drop(worker);
            std::process::exit(0);
        }
        "fixes" => {
            handle(libc::SIGFPE, returns);
            let monitor = builder(folder).install().unwrap();
            let heart = monitor.heartbeat();
            heart.turn(|| ());
            // SAFETY: it has a handler.
            heart.turn(|| unsafe { assert_eq!(libc::raise(libc::SIGFPE), 0) });
            heart.turn(|| ());
            std::thread::sleep(AMID);
            drop(monitor);
        }
        other => panic!("no way {other}"),
    }
    true
}

fn kinds(ended: &Ended) -> Vec<EventKind> {
    let readings = ended.readings().into_iter();
    readings
        .filter_map(|reading| Some(reading.report.event?.kind))
        .collect()
}

fn how(ended: &Ended) -> HowEnded {
    let launches = store::launches(&ended.folder.0).unwrap();
    assert_eq!(launches.len(), 1, "{launches:?}");
    launches[0].how
}

fn dies() {
    for role in [
        "slow_resets",
        "slow_raises",
        "slow_computes",
        "slow_exits",
        "slow_waits",
    ] {
        let ended = play(role);
        match role {
            "slow_exits" => assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr),
            _ => assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr),
        }
        assert_eq!(kinds(&ended), [EventKind::Crash], "{role}");
        let stack = stack(&ended.report(), 0);
        assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
        assert_eq!(how(&ended), HowEnded::Crash);
    }
}

fn stays_open() {
    let ended = play("slow_stays_open");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    assert_eq!(kinds(&ended), [EventKind::Stall, EventKind::Crash]);
    let stall = &ended.readings()[0].report;
    assert!(stall.stall_end.is_none());
    assert!(calls(&stack(stall, 0), &["main_is_slow"]));
    assert_eq!(how(&ended), HowEnded::Crash);
}

/// The one report of such a kind, and of the thread with this name.
fn only<'r>(reports: &'r [Report], kind: EventKind, watched: Option<&str>) -> &'r Report {
    let is_it = |report: &&Report| {
        let event = report.event.as_ref().unwrap();
        event.kind == kind && event.watched.as_ref().map(|watched| &*watched.name) == watched
    };
    let found: Vec<&Report> = reports.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{kind:?} {watched:?}");
    found[0]
}

fn lives() {
    let ended = play("slow_lives");
    ended.succeeded();
    let reports: Vec<Report> = ended
        .readings()
        .into_iter()
        .map(|reading| reading.report)
        .collect();
    assert!(reports.iter().all(|report| report.end.is_some()));
    assert!(
        !kinds(&ended).contains(&EventKind::Crash),
        "{:?}",
        kinds(&ended)
    );
    for (watched, function, lasted) in [
        (None, "main_is_slow", 300..900),
        (Some("other"), "render_is_slow", 4500..5600),
    ] {
        let stall = only(&reports, EventKind::Stall, watched);
        assert!(
            calls(&stack(stall, 0), &[function]),
            "{:#?}",
            stack(stall, 0)
        );
        let end = stall.stall_end.as_ref().unwrap();
        assert_eq!(end.how, StallOutcome::Recovered);
        let duration = end.duration.as_millis();
        assert!(lasted.contains(&duration), "{watched:?}: {duration} ms");
    }
    let panic = only(&reports, EventKind::Panic, None);
    assert_eq!(
        panic.event.as_ref().unwrap().message.as_deref(),
        Some("amid")
    );
    only(&reports, EventKind::Live, None);
    assert!(kinds(&ended).contains(&EventKind::Cpu));
    assert_eq!(how(&ended), HowEnded::Exit);
}

fn fixes() {
    let ended = play("slow_fixes");
    ended.succeeded();
    assert_eq!(kinds(&ended), [EventKind::Stall]);
    let end = ended.report().stall_end.unwrap();
    assert_eq!(end.how, StallOutcome::Recovered);
    // It runs from the first look that saw the turn, and says so.
    let look = Duration::from_millis(100);
    assert!(end.duration + look >= SLOW, "{:?}", end.duration);
    assert!(end.at_least || end.duration >= SLOW, "{:?}", end.duration);
}
