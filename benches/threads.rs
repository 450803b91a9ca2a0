//! What a live report of a thousand threads takes, that park, sleep, and wait for a condition or a message:
//! `cargo bench --bench threads`. First as the machine is, then beside 20 busy loops.

use std::process::{Child, Command};
use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use wedjat::Monitor;
use wedjat::report::WalkEnd;

const THREADS: usize = 1000;
const LOOPS: usize = 20;
const ROUNDS: usize = 5;

fn main() {
    if std::env::args().any(|word| word == "busy") {
        loop {
            std::hint::black_box(0);
        }
    }
    let up = Arc::new(Barrier::new(THREADS + 1));
    let never = Arc::new((Mutex::new(()), Condvar::new()));
    let mut open = Vec::new();
    for number in 0..THREADS {
        let (up, never) = (Arc::clone(&up), Arc::clone(&never));
        let (sender, receiver) = mpsc::channel::<()>();
        open.push(sender);
        let wait = move || {
            up.wait();
            match number % 4 {
                0 => loop {
                    thread::park();
                },
                1 => thread::sleep(Duration::MAX),
                2 => drop(never.1.wait_while(never.0.lock().unwrap(), |()| true)),
                _ => drop(receiver.recv()),
            }
        };
        let small = thread::Builder::new().stack_size(128 << 10);
        small.spawn(wait).expect("a thread");
    }
    up.wait();
    thread::sleep(Duration::from_millis(500));
    let folder = std::env::temp_dir().join(format!("wedjat-threads-{}", std::process::id()));
    let builder = Monitor::builder("threads", "1").directory(&folder);
    let monitor = builder.install().expect("a monitor");
    println!("| {THREADS} threads | `record`, median | most | to the root | stack copied |");
    println!("| --- | --: | --: | --: | --: |");
    measure(&monitor, "as the machine is");
    let program = std::env::current_exe().expect("this program");
    let load = (0..LOOPS).map(|_| Command::new(&program).arg("busy").spawn());
    let mut load: Vec<Child> = load.collect::<Result<_, _>>().expect("a load");
    thread::sleep(Duration::from_secs(1));
    measure(&monitor, "beside busy loops");
    for child in &mut load {
        child.kill().and_then(|()| child.wait()).expect("its end");
    }
    drop(monitor);
    std::fs::remove_dir_all(&folder).expect("the folder");
    std::process::exit(0);
}

fn measure(monitor: &Monitor, how: &str) {
    let mut times = Vec::new();
    let (mut roots, mut bytes) = (usize::MAX, 0);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let path = monitor.record("bench").expect("a report");
        times.push(begin.elapsed());
        let file = std::fs::read(path).expect("the report");
        let report = wedjat::report::read(&file).expect("a report").report;
        let whole = report.threads.iter();
        let whole = whole.filter(|thread| thread.end == Some(WalkEnd::Root));
        roots = roots.min(whole.count());
        bytes = bytes.max(report.capture.and_then(|cost| cost.bytes).unwrap_or(0));
    }
    times.sort_unstable();
    let (median, most) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    println!(
        "| {how} | {median:.0?} | {most:.0?} | {roots} | {} KiB |",
        bytes >> 10
    );
}
