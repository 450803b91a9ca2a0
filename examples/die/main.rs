//! Dies in every way there is, and shows what the next start makes of it.
//!
//! `cargo run --release --example die -- KIND` dies as KIND says in a child process and prints its
//! report; without KIND it lists them. `-- --soak 1000 [KIND]...` dies so often in each way and
//! prints a table: runs, valid reports, right first frame.

mod ways;

use std::error::Error;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use wedjat::report::{Event, Report};
use wedjat::symbolicate::format::{Format, Style, Text};
use wedjat::symbolicate::{DebugFiles, Symbolicator};
use wedjat::{Crash, Monitor, store};

use ways::{Expected, KINDS, Kind};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["--now", kind, directory] => {
            let _monitor = Monitor::builder("Die", "1.0")
                .directory(directory)
                .crash(Crash::default())
                .install()?;
            (find(kind)?.die)();
            Err("it did not die".into())
        }
        ["--soak", times, ref kinds @ ..] => soak(times.parse()?, kinds),
        [kind] => show(find(kind)?),
        _ => {
            let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            Err(format!("which way? {}", names.join(", ")).into())
        }
    }
}

fn find(name: &str) -> Result<&'static Kind, String> {
    let found = KINDS.iter().find(|kind| kind.name == name);
    found.ok_or_else(|| format!("there is no way to die called {name}"))
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wedjat-die-{}-{name}", std::process::id()))
}

/// Dies in a child process, quietly.
fn die(kind: &Kind, directory: &Path) -> std::io::Result<ExitStatus> {
    Command::new(std::env::current_exe()?)
        .args(["--now", kind.name])
        .arg(directory)
        .stderr(Stdio::null())
        .status()
}

/// The debug information of this program, and the system's.
fn own_files() -> Result<DebugFiles, Box<dyn Error>> {
    let mut files = DebugFiles::new();
    files.add(&std::env::current_exe()?)?;
    Ok(files)
}

fn show(kind: &Kind) -> Result<(), Box<dyn Error>> {
    let directory = folder(kind.name);
    let status = die(kind, &directory)?;
    println!("It died: {status}\n");
    // The next start: what did the last one leave?
    let symbolicator = Symbolicator::new(own_files()?);
    let (style, mut text) = (Style::default(), Text::default());
    let mut out = std::io::stdout().lock();
    for report in store::reports(&directory)? {
        let path = report.path().display().to_string();
        let symbolicated = symbolicator.symbolicate(report.read()?.report);
        text.report(&style, &path, &symbolicated, &mut out)?;
    }
    text.finish(&mut out)?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

/// How often it went well.
#[derive(Default)]
struct Tally {
    valid: AtomicUsize,
    right: AtomicUsize,
}

fn soak(times: usize, kinds: &[&str]) -> Result<(), Box<dyn Error>> {
    let symbolicator = Mutex::new(Symbolicator::new(own_files()?));
    println!("| kind | runs | valid | right frame |\n| --- | ---: | ---: | ---: |");
    let mut all = true;
    for kind in &KINDS {
        if !kinds.is_empty() && !kinds.contains(&kind.name) {
            continue;
        }
        let (tally, next) = (Tally::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while next.fetch_add(1, Ordering::Relaxed) < times {
                        let run = next.load(Ordering::Relaxed);
                        if let Err(error) = once(kind, run, &symbolicator, &tally) {
                            eprintln!("{}, run {run}: {error}", kind.name);
                        }
                    }
                });
            }
        });
        let (valid, right) = (tally.valid.into_inner(), tally.right.into_inner());
        all &= valid == times && right == times;
        println!("| {} | {times} | {valid} | {right} |", kind.name);
    }
    if all {
        Ok(())
    } else {
        Err("not every report was right".into())
    }
}

fn once(
    kind: &Kind,
    run: usize,
    symbolicator: &Mutex<Symbolicator>,
    tally: &Tally,
) -> Result<(), Box<dyn Error>> {
    static FOLDERS: AtomicUsize = AtomicUsize::new(0);
    let unique = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let directory = folder(&format!("{}-{run}-{unique}", kind.name));
    let status = die(kind, &directory)?;
    let found = store::reports(&directory)?;
    let [report] = &found[..] else {
        return Err(format!("{} reports, {status}", found.len()).into());
    };
    let reading = report.read()?;
    std::fs::remove_dir_all(&directory)?;
    let report = reading.report;
    let whole = reading.damage.is_empty()
        && report
            .end
            .as_ref()
            .is_some_and(|end| end.closed_by == "writer");
    let event = report.event.clone().unwrap_or_default();
    // Rust's own handler ends an overflow by SIGABRT: what it died of first is what counts.
    if !whole || status.signal().is_none() || !is_expected(&event, &kind.expected) {
        return Err(format!("{status}, {:?}, {event:?}", reading.damage).into());
    }
    tally.valid.fetch_add(1, Ordering::Relaxed);
    let first = first_frame(symbolicator, report);
    let wanted = kind.name.replace('-', "_");
    if first.as_deref() != Some(&*wanted) {
        return Err(format!("the first frame is {first:?}").into());
    }
    tally.right.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn is_expected(event: &Event, expected: &Expected) -> bool {
    event.fatal
        && event.signal.as_ref().is_some_and(|signal| {
            signal.name == expected.signal
                && signal.code_name.as_deref() == Some(expected.code)
                && signal.address.is_some() == expected.address
        })
}

/// The innermost function of this file in the crashed thread, without its path.
fn first_frame(symbolicator: &Mutex<Symbolicator>, report: Report) -> Option<String> {
    let symbolicator = symbolicator
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let named = symbolicator.symbolicate(report);
    let thread = named.threads.first()?;
    let frames = thread
        .frames
        .iter()
        .flat_map(|physical| physical.frames.iter());
    let mut own = frames.filter(|frame| {
        let file = frame.file.as_deref().unwrap_or_default();
        file.ends_with("ways.rs")
    });
    let function = own.next()?.function.clone()?;
    let name = function.rsplit("::").next()?;
    Some(
        name.trim_end_matches("_here")
            .trim_end_matches('_')
            .to_owned(),
    )
}
