//! The whole way in one run: an app with a run loop freezes, a child of it crashes, and both
//! reports are turned into functions, files and lines.
//!
//! `cargo run --package demo --profile demo`

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use wedjat::report::Report;
use wedjat::symbolicate::format::{Format, Style, Text};
use wedjat::symbolicate::{DebugFiles, Symbolicator};
use wedjat::{Crash, Monitor, Stall, store};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--crash") {
        let directory = args
            .next()
            .ok_or("--crash needs the folder of the reports")?;
        return crash(directory.as_ref());
    }
    // An app's reports stay, as `~/.local/state/myapp/reports`; those of a demo are no longer needed.
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let directory = home.unwrap_or_default().join(".local/state/wedjat-demo");
    let directory = directory.join(std::process::id().to_string());
    let result = run(&directory);
    std::fs::remove_dir_all(&directory)?;
    result
}

fn run(directory: &Path) -> Result<(), Box<dyn Error>> {
    println!("An app handles events; one of them takes 400 ms.\n");
    let stall = freeze(directory)?;
    print(&stall)?;

    println!("\n\nA child process writes to an address that is not there.\n");
    let status = Command::new(std::env::current_exe()?)
        .arg("--crash")
        .arg(directory)
        .status()?;
    println!("It died: {status}\n");
    // The next launch: what did the last one leave?
    for report in store::reports(directory)? {
        let report = report.read()?.report;
        if report.head.pid != u64::from(std::process::id()) {
            print(&report)?;
        }
    }
    Ok(())
}

/// A run loop in which one event is slow.
fn freeze(directory: &Path) -> Result<Report, Box<dyn Error>> {
    let (sender, receiver) = mpsc::channel();
    let monitor = Monitor::builder("Demo", "1.0")
        .directory(directory)
        .stall(Stall::default())
        .on_report(move |path| {
            let _ = sender.send(path.to_owned());
        })
        .install()?;
    let heart = monitor.heartbeat();
    for event in ["open", "scroll", "refresh", "scroll"] {
        heart.begin();
        handle(event);
        heart.end();
        std::thread::sleep(Duration::from_millis(20)); // waiting for the next event
    }
    let path = receiver.recv_timeout(Duration::from_secs(10))?;
    Ok(wedjat::report::read(&std::fs::read(path)?)?.report)
}

#[inline(never)]
fn handle(event: &str) {
    match event {
        "refresh" => reload_catalogue(Duration::from_millis(400)),
        _ => std::thread::sleep(Duration::from_millis(2)),
    }
    std::hint::black_box(event);
}

#[inline(never)]
fn reload_catalogue(time: Duration) {
    let end = Instant::now() + time;
    let mut sum = 0;
    while Instant::now() < end {
        sum = parse_price(sum);
    }
    std::hint::black_box(sum);
}

/// Small enough to be inlined: the report names it all the same.
#[inline(always)]
fn parse_price(mut sum: u64) -> u64 {
    for digit in 0..10_000u64 {
        sum = std::hint::black_box(sum.wrapping_mul(10).wrapping_add(digit));
    }
    sum
}

fn crash(directory: &Path) -> Result<(), Box<dyn Error>> {
    let _monitor = Monitor::builder("Demo", "1.0")
        .directory(directory)
        .crash(Crash::default())
        .install()?;
    checkout(std::hint::black_box(0x10 as *mut u32));
    Ok(())
}

#[inline(never)]
fn checkout(basket: *mut u32) {
    add_item(basket);
    std::hint::black_box(basket);
}

#[inline(never)]
fn add_item(basket: *mut u32) {
    // SAFETY: none: this is the bug that the demo is about.
    unsafe { basket.write_volatile(1) };
    std::hint::black_box(basket);
}

fn print(report: &Report) -> Result<(), Box<dyn Error>> {
    // The program's own file has the debug information; a shipped app would name its dSYM here.
    let mut files = DebugFiles::new();
    files.add(&std::env::current_exe()?)?;
    let symbolicator = Symbolicator::new(files);
    let (style, mut text) = (Style::default(), Text::default());
    let mut out = std::io::stdout().lock();
    text.report(
        &style,
        "-",
        &symbolicator.symbolicate(report.clone()),
        &mut out,
    )?;
    text.finish(&mut out)?;
    Ok(())
}
