//! What the examples share: the monitor, and the freeze.

use std::time::{Duration, Instant};

use wedjat::{Monitor, Stall};

/// Reports go to the folder that the environment names (`REPORTS`), and their paths to standard output.
pub fn install() -> Monitor {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    let own = || home.unwrap_or_default().join(".local/state/wedjat-loops");
    let folder = std::env::var_os("REPORTS").map_or_else(own, Into::into);
    Monitor::builder("loops", "1")
        .directory(folder)
        .stall(Stall::default())
        .on_report(|path: &std::path::Path| println!("{}", path.display()))
        .install()
        .expect("the monitor is installed")
}

/// Whether the app was started with `--freeze`.
pub fn is_to_freeze() -> bool {
    std::env::args().any(|arg| arg == "--freeze")
}

/// Computes for 600 ms: a stall is 50 ms without a beat, five times in a row.
#[inline(never)]
pub fn reload_catalogue() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(600) {
        std::hint::spin_loop();
    }
}
