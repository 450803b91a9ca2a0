//! tokio, current-thread runtime: the heartbeat around each of a task's turns.
//!
//! A task that computes for long, or blocks, keeps all others of its runtime waiting. `--freeze` shows it.

mod shared;

use std::time::Duration;

fn main() {
    // On the thread that is to be watched: the one that runs the tasks.
    let _monitor = shared::install();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    // Each poll is a turn of the loop. Between two polls the runtime waits, and that is no stall. Wrap each future that you
    // `spawn` too.
    runtime.block_on(wedjat::threads::polls(app()));
}

/// The app: it counts, and stops after two seconds.
async fn app() {
    for tick in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if tick == 10 && shared::is_to_freeze() {
            shared::reload_catalogue();
        }
    }
}
