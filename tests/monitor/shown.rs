use wedjat::{Crash, Monitor, Stall};
fn main() {
    let monitor = Monitor::builder("MyApp", "1.2.3")
        .directory_for("myapp")  // ~/.local/state/myapp/reports
        .stall(Stall::default()) // freezes of 250 ms
        .crash(Crash::default()) // fatal signals, Rust panics
        .install().inspect_err(|error| eprintln!("no reports: {error}")).ok();
    let heart = monitor.as_ref().map(Monitor::heartbeat);
    loop { // wait for an event
        let _turn = heart.map(wedjat::Heartbeat::busy); // a turn begins: handle the event here
    } // `_turn` is dropped: the turn ends
}
