//! A test that plays in a process of its own: the test program starts itself again for one test,
//! which then is the child.
#![allow(dead_code, reason = "each test program uses a part")]

pub use super::deadline::{self, DISTURBED, delay, undisturbed};

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use wedjat::report::{Frame, Report};
use wedjat::trigger::heartbeat::{Heartbeat, HeartbeatState};
use wedjat::trigger::stall::{Reason, StallEndInfo, StallInfo};
use wedjat::trigger::watchdog::{Watchdog, Watcher};
use wedjat::{Monitor, Stall};

const CHILD: &str = "WEDJAT_TEST_CHILD";

/// The child, from the parent's side. What it prints is what the watchdog called, a line each.
pub struct Played {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// Whether this process is to be the child.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Starts the child for the test of this name, and waits until it says that it is ready.
pub fn start(test: &str) -> Played {
    let mut child = deadline::one_test(test)
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut played = Played {
        child,
        input,
        output,
    };
    while played.line() != "ready" {}
    played
}

impl Played {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(
            self.output.read_line(&mut line).unwrap() > 0,
            "the child is gone"
        );
        // The test harness writes its own words before the first.
        line.trim_end().rsplit(" ... ").next().unwrap().to_owned()
    }

    /// Lets the child go on.
    pub fn tell(&mut self) {
        self.input.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// Waits for the end, whatever it is.
    pub fn end(mut self) {
        self.input = None;
        let mut text = Vec::new();
        self.output.read_to_end(&mut text).unwrap();
        self.child.wait().unwrap();
    }

    /// All lines until the end, which must be a good one.
    pub fn rest(self) -> Vec<String> {
        let (good, lines) = self.outcome();
        assert!(good, "{lines:#?}");
        lines
    }

    /// Whether the end is a good one, and all lines until then.
    pub fn outcome(mut self) -> (bool, Vec<String>) {
        self.input = None;
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        let good = self.child.wait().unwrap().success();
        (good, text.lines().map(str::to_owned).collect())
    }
}

/// Held by a test while its monitor is installed: there is one a process.
pub fn only_monitor() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits until all stalls are over, and their reports are there.
pub fn all_are_over(monitor: &Monitor, stalls: u64) {
    let start = Instant::now();
    while monitor.stats().stalls < stalls || monitor.stats().stalled {
        std::thread::sleep(Duration::from_millis(10));
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{:?}",
            monitor.stats()
        );
    }
}

/// The calling thread's id.
pub fn own_tid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// Says how long the threads of this process had no CPU; before what may fail for it.
pub fn tell_all_starved() {
    println!("starved {}", deadline::starved());
}

/// Says how long the calling thread and the watchdog had no CPU; the child's last word.
pub fn tell_starved(watchdog: &Watchdog) {
    println!("starved {}", delay(own_tid()) + delay(watchdog.thread_id()));
}

/// The same with a child, which says at its end how long it starved.
#[track_caller]
pub fn undisturbed_child(play: impl Fn() -> Vec<String>, check: impl Fn(&[String])) {
    let play = || {
        let lines = play();
        let starved = lines.iter().find_map(|line| line.strip_prefix("starved "));
        let starved = starved.expect("the child's last word").parse().unwrap();
        (lines, starved)
    };
    undisturbed(DISTURBED, play, |lines| check(&lines));
}

/// How many lines begin so.
pub fn count(lines: &[String], begin: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(begin)).count()
}

struct Printer;

impl Watcher for Printer {
    fn first_miss(&mut self, at: u64) {
        println!("miss {at}");
    }
    fn sample(&mut self, _at: u64) {}
    fn forget(&mut self) {
        println!("forget");
    }
    fn stalled(&mut self, info: &StallInfo) {
        println!("stalled {info:?}");
    }
    fn ended(&mut self, end: &StallEndInfo) {
        println!("ended {end:?}; in all {}", end.info.lasted.as_nanos());
    }
    fn dropped(&mut self, reason: Reason) {
        println!("dropped {}", reason.as_str());
    }
}

/// Watches the calling thread, past its launch, and prints what the watchdog calls.
pub fn watch() -> (Heartbeat, Watchdog) {
    let heartbeat: &'static HeartbeatState = Box::leak(Box::new(HeartbeatState::new()));
    let heart = heartbeat.install();
    let watchdog = Watchdog::spawn(Stall::default(), heartbeat, Printer).unwrap();
    heart.turn(|| ());
    (heart, watchdog)
}

/// Blocks in `read` until the parent writes.
pub fn wait_for_parent() {
    let mut byte = [0];
    std::io::stdin().read_exact(&mut byte).unwrap();
}

pub fn burn(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The whole stacks of the report's samples.
pub fn stacks(report: &Report) -> Vec<Vec<Frame>> {
    let mut stack: Vec<Frame> = Vec::new();
    let whole = report.samples.iter().map(|sample| {
        let kept = stack.split_off(stack.len() - sample.keep as usize);
        stack = sample.frames.iter().cloned().chain(kept).collect();
        stack.clone()
    });
    whole.collect()
}

/// Signals that the threads of libdispatch leave open: `_dispatch_worker_thread` in its src/queue.c.
const LIBDISPATCH: [i32; 8] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGPIPE,
    libc::SIGSYS,
    libc::SIGPROF,
];

/// Blocks the signals that threads of libdispatch block, besides those that the calling thread has inherited.
pub fn block_all_but_libdispatchs() {
    // SAFETY: plain memory, of which zeros are a value; concerns the calling thread alone.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        for signal in LIBDISPATCH {
            libc::sigdelset(&raw mut all, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}
