//! tokio, current-thread runtime: each of a task's polls is a turn.
//!
//! A task that computes for long, or blocks, keeps all others of its runtime waiting.

mod scenario;

use scenario::Scenario;

fn main() {
    // On the thread that is to be watched: the one that runs the tasks.
    let mut scenario = Scenario::install();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    // Each poll is a turn of the loop. Between two polls the runtime waits, and that is no stall. Wrap each future that you
    // `spawn` too.
    runtime.block_on(wedjat::threads::polls(app(&mut scenario)));
    scenario.end();
}

/// The app.
async fn app(scenario: &mut Scenario) {
    scenario.draw();
    let dialog = |time| {
        let _pause = wedjat::threads::may_block();
        std::thread::sleep(time);
    };
    while let Some(rest) = scenario.step(dialog) {
        tokio::time::sleep(rest).await;
    }
}
