//! crossterm: a turn begins after `poll` has waited for an event, and ends before it.

mod scenario;

use std::time::{Duration, Instant};

use crossterm::event;
use scenario::Scenario;
use wedjat::Heartbeat;

fn main() -> std::io::Result<()> {
    let mut scenario = Scenario::install();
    let heartbeat = scenario.monitor().heartbeat();
    crossterm::terminal::enable_raw_mode()?;
    scenario.draw();
    while let Some(rest) = scenario.step(|time| handle_keys(heartbeat, time)) {
        scenario.draw();
        handle_keys(heartbeat, rest);
    }
    crossterm::terminal::disable_raw_mode()?;
    scenario.end();
    Ok(())
}

/// Handles keys for so long: the app's loop, and that of a dialog within a turn. Both end the turn while they wait.
fn handle_keys(heartbeat: Heartbeat, time: Duration) {
    let due = Instant::now() + time;
    while let Some(left) = due.checked_duration_since(Instant::now()) {
        heartbeat.end();
        let is_there = event::poll(left).is_ok_and(|is_there| is_there);
        heartbeat.begin();
        if is_there {
            let _key = event::read();
        }
    }
}
