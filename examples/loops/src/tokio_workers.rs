//! tokio, multi-thread runtime: each poll notes when it begins, and a thread of the app's own records one that takes long.
//!
//! No thread is the one to watch: tasks move between workers. So there is no heartbeat, and the report is that of
//! `Monitor::record_thread`: about the worker, with the stacks of all threads. `--freeze` shows it.

mod shared;

use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Milliseconds that a poll may take.
const LONG: u64 = 250;
/// A worker's poll: the millisecond at which it began, 0 between two polls.
static POLLS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// The worker's id, as reports have it.
static WORKERS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
static IS_OVER: AtomicBool = AtomicBool::new(false);

fn main() {
    let watching = std::thread::Builder::new().name("watching".into());
    let watching = watching.spawn(watch).expect("a thread");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime");
    let tasks = ["catalogue", "basket"].map(|name| runtime.spawn(watched(handle(name))));
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("a task");
        }
    });
    IS_OVER.store(true, Relaxed);
    watching.join().expect("the watching thread");
}

/// A task of the app: it counts, and stops after two seconds.
async fn handle(name: &str) {
    for tick in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if tick == 10 && name == "catalogue" && shared::is_to_freeze() {
            shared::reload_catalogue();
        }
    }
}

/// Looks at the polls, and records each that takes long once.
fn watch() {
    let monitor = shared::install();
    let mut recorded = 0;
    while !IS_OVER.load(Relaxed) {
        let begun = POLLS.iter().zip(&WORKERS);
        let begun = begun.map(|(poll, worker)| (poll.load(Relaxed), worker.load(Relaxed)));
        let oldest = begun.filter(|(begun, _)| *begun != 0).min();
        if let Some((begun, worker)) = oldest
            && now() > begun + LONG
            && begun != recorded
        {
            recorded = begun;
            match monitor.record_thread(worker, "a poll takes over 250 ms") {
                Ok(path) => println!("{}", path.display()),
                Err(error) => eprintln!("no report: {error}"),
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Milliseconds; never 0.
fn now() -> u64 {
    BEGIN.elapsed().as_millis() as u64 + 1
}

/// `future`, each `poll` of which is noted. Wrap each future that you `spawn`.
fn watched<F: Future>(future: F) -> Watched<F> {
    Watched(Box::pin(future))
}

struct Watched<F>(Pin<Box<F>>);

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static OWN: usize = NEXT.fetch_add(1, Relaxed) % POLLS.len());
        let slot = OWN.with(|own| *own);
        let own = &POLLS[slot];
        WORKERS[slot].store(wedjat::threads::id(), Relaxed);
        own.store(now(), Relaxed);
        let result = self.0.as_mut().poll(cx);
        own.store(0, Relaxed);
        result
    }
}
