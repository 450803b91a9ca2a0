//! The example of freezes, played: of each kind one, and its symbolicated report names the culprit, for
//! locks the holder's function too.

use super::child::deadline;

#[path = "../../examples/freezes.rs"]
mod example;

/// Set for the processes that play.
const PLAY: &str = "WEDJAT_TEST_FREEZES";
const CULPRITS: [&str; 11] = [
    "sorts_badly",
    "reads_a_pipe",
    "waits_for_the_database",
    "holds_the_database",
    "waits_for_the_cache",
    "holds_the_cache",
    "locks_a_then_b",
    "locks_b_then_a",
    "draws_slowly",
    "loads_everything",
    "parses",
];

/// Plays the example, in a process that is to.
pub fn is_played() -> bool {
    let plays = std::env::var_os(PLAY).is_some();
    if plays {
        example::main();
    }
    plays
}

pub fn each_culprit_is_named() {
    let program = std::env::current_exe().expect("this program");
    let output = deadline::output(std::process::Command::new(program).env(PLAY, "1"));
    let printed = String::from_utf8_lossy(&output.stdout);
    let named = CULPRITS.iter().all(|culprit| printed.contains(culprit));
    let all = output.status.success() && printed.contains("8 of 8 named");
    assert!(named && all, "{printed}");
}
