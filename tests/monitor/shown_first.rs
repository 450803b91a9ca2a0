use wedjat::{Crash, Monitor, Stall};

fn main() {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from).unwrap_or_default();
    // On Apple platforms: Library/Application Support.
    let state = std::env::var_os("XDG_STATE_HOME").map_or(home.join(".local/state"), Into::into);
    let reports = state.join("myapp/reports");
    let monitor = Monitor::builder("MyApp", "1.2.3")
        .directory(&reports)              // where reports go
        .stall(Stall::default())          // 50 ms, 5 in a row
        .crash(Crash::default())          // seven signals, and Rust panics
        .on_report(|path: &std::path::Path| println!("{}", path.display()))
        .install()                        // on the thread to be watched
        .inspect_err(|error| eprintln!("no reports: {error}"))
        .ok();                            // the app goes on without

    // What earlier launches left.
    for old in wedjat::store::reports(&reports).unwrap_or_default() {
        println!("{}", old.path().display());
    }

    let heart = monitor.as_ref().map(Monitor::heartbeat); // Copy, Send, Sync
    loop {
        // wait for an event, then
        let _busy = heart.map(wedjat::Heartbeat::busy); // until the end of the turn
        // handle it
    }
}
