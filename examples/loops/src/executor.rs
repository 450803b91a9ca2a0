//! async-executor, as smol has it: each worker enters a pool, and each poll of a task is a turn of the worker that polls.
//!
//! Here a worker that always has work is no stall: what counts is how long one poll takes. `--freeze` shows it.

mod shared;

use std::thread;
use std::time::Duration;

use async_executor::Executor;
use futures_lite::future::{block_on, yield_now};
use wedjat::{Stall, threads};

fn main() {
    let _monitor = shared::install();
    let executor = Executor::new();
    let task = executor.spawn(threads::polls(handle()));
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("executor".into());
        let run = || {
            threads::enter("executor", Stall::default());
            block_on(executor.run(task));
        };
        worker.spawn_scoped(scope, run).expect("a thread");
    });
}

/// The app: each of its polls is short, until one is not.
async fn handle() {
    for tick in 0..200 {
        thread::sleep(Duration::from_millis(10));
        if tick == 100 && shared::is_to_freeze() {
            shared::reload_catalogue();
        }
        yield_now().await;
    }
}
