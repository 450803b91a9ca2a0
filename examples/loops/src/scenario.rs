//! Events that happen in the app, as `c/scenario.h` has them: `NAME idle | dialog | freezes | frames | first`.
//!
//! A program calls [`Scenario::step`] from a timer, [`Scenario::draw`] where it draws, and [`Scenario::end`] last.

use std::thread::sleep;
use std::time::{Duration, Instant};

use wedjat::{Monitor, Stall};

/// The events of one run.
pub struct Scenario {
    name: String,
    steps: usize,
    draws: usize,
    wakeups_before: u64,
    monitor: Monitor,
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl Scenario {
    /// Installs the monitor on the calling thread, which is the loop's. Reports go to the folder `$REPORTS`.
    pub fn install() -> Scenario {
        let name = std::env::args().nth(1).unwrap_or_else(|| "idle".into());
        // A toolkit's own start may take long; it is not what is tried here.
        let launch = if name == "first" { 900 } else { 20_000 };
        let stall = Stall::default().launch_threshold(ms(launch));
        let folder = std::env::var_os("REPORTS").expect("REPORTS names a folder");
        let monitor = Monitor::builder("loops", "1")
            .directory(folder)
            .stall(stall)
            .install()
            .expect("the monitor is installed");
        Scenario {
            name,
            steps: 0,
            draws: 0,
            wakeups_before: 0,
            monitor,
        }
    }

    /// The monitor.
    #[allow(dead_code, reason = "tokio's polls need no heartbeat")]
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Draws a frame. The first may be slow; then the app has launched.
    pub fn draw(&mut self) {
        self.draws += 1;
        if self.draws == 1 {
            if self.name == "first" {
                reload_catalogue(ms(2_000), true);
            }
            self.monitor.launched();
        }
    }

    /// The app's next event; returns the time until the one after, or `None` at the end. `dialog` shows a dialog for a time.
    pub fn step(&mut self, dialog: impl FnOnce(Duration)) -> Option<Duration> {
        let step = self.steps;
        self.steps += 1;
        let rests = match self.name.as_str() {
            "idle" => &[1_000, 20_000][..],
            "dialog" => &[900, 900],
            "freezes" => &[900, 300, 1_300, 400, 1_000],
            "frames" => &[14; 300],
            _ => &[1_500],
        };
        match (self.name.as_str(), step) {
            ("idle", 1) => self.wakeups_before = wakeups(),
            ("dialog", 1) => dialog(ms(5_000)),
            ("freezes", 1..=4) => reload_catalogue(ms(600), step % 2 == 1),
            ("frames", _) => compute(ms(2)),
            _ => {}
        }
        rests.get(step).map(|&rest| ms(rest))
    }

    /// After the loop.
    pub fn end(&self) {
        if self.name == "idle" {
            println!("wake-ups: {}", wakeups() - self.wakeups_before);
        }
        if self.draws == 0 {
            println!("nothing was drawn");
        }
    }
}

fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The freeze: it computes, or it waits.
#[inline(never)]
pub fn reload_catalogue(time: Duration, computes: bool) {
    if computes {
        compute(time);
    } else {
        sleep(time);
    }
    std::hint::black_box(());
}

/// How often the watchdog has gone to sleep.
fn wakeups() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc");
    let statuses = tasks.flatten().filter_map(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        status.starts_with("Name:\twedjat\n").then_some(status)
    });
    let counts = statuses.filter_map(|status| {
        let (_, count) = status.split_once("\nvoluntary_ctxt_switches:\t")?;
        count.lines().next()?.parse::<u64>().ok()
    });
    counts.sum()
}
