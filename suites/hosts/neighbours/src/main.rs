//! A program with wedjat and one other crate that looks at panics or signals, in either order, that then dies.
//!
//! `wedjat-neighbours NEIGHBOUR before|after DEATH FOLDER`: NEIGHBOUR is installed before or after wedjat. Each
//! neighbour that sees the death writes a line that begins with `seen by` to standard error (color-eyre writes what
//! it always writes).

use std::sync::Arc;
use std::time::Duration;

use crash_handler::{CrashContext, CrashEventResult, CrashHandler, make_crash_event};
use wedjat::{Crash, Monitor, Stall};

/// What a neighbour has to keep for as long as it is to work.
type Kept = Box<dyn std::any::Any>;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [neighbour, order, death, folder] = &args[..] else {
        panic!("usage: wedjat-neighbours NEIGHBOUR before|after DEATH FOLDER");
    };
    let (monitor, _kept) = match order.as_str() {
        "before" => {
            let kept = install_neighbour(neighbour);
            (install_wedjat(folder), kept)
        }
        "after" => {
            let monitor = install_wedjat(folder);
            (monitor, install_neighbour(neighbour))
        }
        _ => panic!("no order {order}"),
    };
    match death.as_str() {
        "panic" => die_by_panic(),
        "thread" => {
            // The process goes on.
            let _ = std::thread::spawn(die_by_panic).join();
        }
        "segv" => die_by_segv(),
        // How the launch before ended, as this one knows it.
        "look" => {
            if let Some(launch) = monitor.previous_launch() {
                println!("{:?}", launch.how);
            }
        }
        _ => panic!("no death {death}"),
    }
}

fn install_wedjat(folder: &str) -> Monitor {
    Monitor::builder("neighbours", "1")
        .directory(folder)
        .stall(Stall::default())
        .crash(Crash::default())
        .install()
        .expect("wedjat is installed")
}

fn install_neighbour(neighbour: &str) -> Kept {
    match neighbour {
        "none" => Box::new(()),
        "sentry" => Box::new(sentry::init(
            sentry::ClientOptions::new()
                .dsn("https://public@sentry.invalid/1")
                .transport(|_: &sentry::ClientOptions| {
                    Arc::new(Shown) as Arc<dyn sentry::Transport>
                }),
        )),
        "color-eyre" => Box::new(color_eyre::install().expect("color-eyre is installed")),
        "crash-handler" => Box::new(attach(false)),
        "crash-handler, which handles" => Box::new(attach(true)),
        _ => panic!("no neighbour {neighbour}"),
    }
}

/// Sentry's way out of the process.
struct Shown;

impl sentry::Transport for Shown {
    fn send_envelope(&self, envelope: sentry::Envelope) {
        if envelope.event().is_some() {
            eprintln!("seen by sentry");
        }
    }

    fn flush(&self, _timeout: Duration) -> bool {
        true
    }
}

/// crash-handler, whose event returns `handled`: whether the signal goes on to the handlers before it.
fn attach(handled: bool) -> CrashHandler {
    // SAFETY: the event calls `write` alone, and compares.
    let event = unsafe {
        make_crash_event(move |_: &CrashContext| {
            let text = b"seen by crash-handler\n";
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
            CrashEventResult::Handled(handled)
        })
    };
    CrashHandler::attach(event).expect("crash-handler is attached")
}

#[inline(never)]
fn die_by_panic() {
    panic!("the catalogue is empty");
}

#[inline(never)]
fn die_by_segv() {
    let nowhere = std::hint::black_box(8 as *mut u32);
    // SAFETY: nothing is mapped there, and that is what it is for.
    unsafe { nowhere.write_volatile(1) };
}
