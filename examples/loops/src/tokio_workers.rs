//! tokio, multi-thread runtime: each worker enters a pool, and each poll of a task is a turn.
//!
//! A task that computes for long, or blocks, keeps its worker from all others. The report is about that worker, and says how
//! many of the pool's threads were in a stall and at rest. `--freeze` shows it.

mod shared;

use std::time::Duration;

use wedjat::{Stall, threads};

fn main() {
    // Before the workers start: threads are watched while there is a monitor.
    let _monitor = shared::install();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .on_thread_start(|| threads::enter("tokio", Stall::default()))
        .build()
        .expect("a runtime");
    let tasks = ["catalogue", "basket"].map(|name| runtime.spawn(threads::polls(handle(name))));
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("a task");
        }
    });
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
