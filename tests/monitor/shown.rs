use wedjat::{Crash, Monitor, Stall};

fn main() {
    let monitor = Monitor::builder("MyApp", env!("CARGO_PKG_VERSION"))
        .directory_for("myapp")
        .stall(Stall::default())
        .crash(Crash::default())
        .install()
        .inspect_err(|error| eprintln!("no reports: {error}"))
        .ok(); // the app runs without a recorder

    let heart = monitor.as_ref().map(Monitor::heartbeat);
    for event in ["open", "scroll", "close"] {
        heart.inspect(|heart| heart.begin());
        println!("handling {event}");
        heart.inspect(|heart| heart.end());
    }
}
