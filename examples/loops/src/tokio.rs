//! tokio, current-thread runtime: the heartbeat around each of a task's turns.
//!
//! A task that computes for long, or blocks, keeps all others of its runtime waiting. `--freeze` shows it.

mod shared;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use wedjat::{Heartbeat, Monitor};

fn main() {
    // On the thread that is to be watched: the one that runs the tasks.
    let monitor = shared::install();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(watched(&monitor, app()));
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

/// `future`, each `poll` of which is a turn of the loop. Between two polls the runtime waits, and that is
/// no stall. Wrap each future that you `spawn` too.
fn watched<F: Future>(monitor: &Monitor, future: F) -> Watched<F> {
    Watched {
        heartbeat: monitor.heartbeat(),
        future: Box::pin(future),
    }
}

struct Watched<F> {
    heartbeat: Heartbeat,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let heartbeat = self.heartbeat;
        heartbeat.turn(|| self.future.as_mut().poll(cx))
    }
}
