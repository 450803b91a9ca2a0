use wedjat::{Crash, Monitor, Stall};

fn main() {
    let home = std::env::var_os("HOME")
        .map(std::path::PathBuf::from)
        .unwrap_or_default();
    // On Apple platforms: Library/Application Support.
    let state = std::env::var_os("XDG_STATE_HOME").map_or(home.join(".local/state"), Into::into);
    let monitor = Monitor::builder("MyApp", env!("CARGO_PKG_VERSION"))
        .directory(state.join("myapp/reports"))
        .stall(Stall::default())
        .crash(Crash::default())
        .install()
        .inspect_err(|error| eprintln!("no reports: {error}"))
        .ok(); // the app goes on without a recorder

    let heart = monitor.as_ref().map(Monitor::heartbeat);
    for event in ["open", "scroll", "close"] {
        heart.inspect(|heart| heart.begin());
        println!("handling {event}");
        heart.inspect(|heart| heart.end());
    }
}
