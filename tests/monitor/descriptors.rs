//! Descriptors 0, 1 and 2 are the app's: where it has closed them, the recorder leaves their numbers
//! free, and what the app prints never stands inside a report.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use wedjat::load::{CpuLoad, MemoryLoad, SlowFrames};
use wedjat::report::EventKind;
use wedjat::{Crash, Monitor, Stall};

use super::child::play;

const LINE: &[u8] = b"a line of the app's\n";
const KINDS: [EventKind; 3] = [EventKind::Live, EventKind::Stall, EventKind::Crash];

/// Plays a child, if the role is one of this module's.
pub fn is_played(role: &str, folder: &Path) -> bool {
    match role {
        "closed_before" => closed_before(folder),
        "closed_later" => closed_later(folder),
        _ => return false,
    }
    true
}

pub const TESTS: [(&str, fn()); 2] = [
    ("an_app_that_starts_with_closed_stdio", || {
        reports_are_whole("closed_before")
    }),
    ("an_app_that_closes_its_stdio_later", || {
        reports_are_whole("closed_later")
    }),
];

fn reports_are_whole(role: &str) {
    let ended = play(role);
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let printed = std::fs::read_to_string(ended.folder.0.join("printed")).unwrap();
    assert_eq!(printed, "", "descriptors that were ours");
    for found in wedjat::store::reports(&ended.folder.0).unwrap() {
        let bytes = std::fs::read(found.path()).unwrap();
        let printed = bytes.windows(LINE.len()).any(|part| part == LINE);
        assert!(
            !printed,
            "{} has lines of the app's",
            found.path().display()
        );
    }
    let readings = ended.readings();
    for reading in &readings {
        assert!(reading.damage.is_empty(), "{:?}", reading.damage);
    }
    let mut kinds: Vec<EventKind> = readings
        .iter()
        .map(|reading| reading.report.event.as_ref().unwrap().kind)
        .collect();
    kinds.sort_by_key(|kind| KINDS.iter().position(|known| known == kind));
    assert_eq!(kinds, KINDS);
}

fn closed_before(folder: &Path) {
    let printed = close_standard(folder);
    let (monitor, receiver) = install(folder);
    look_and_die(&monitor, &receiver, &printed);
}

fn closed_later(folder: &Path) {
    let (monitor, receiver) = install(folder);
    let printed = close_standard(folder);
    look_and_die(&monitor, &receiver, &printed);
}

/// Closes 0, 1 and 2, and has a thread print to them from now on. What is wrong goes to the file that
/// this gives.
fn close_standard(folder: &Path) -> std::fs::File {
    let printed = std::fs::File::create(folder.join("printed")).unwrap();
    for fd in 0..3 {
        // SAFETY: nothing uses them again.
        unsafe { libc::close(fd) };
    }
    printed
}

fn install(folder: &Path) -> (Monitor, mpsc::Receiver<std::path::PathBuf>) {
    let (sender, receiver) = mpsc::channel();
    let monitor = Monitor::builder("closed stdio", "1.0")
        .directory(folder)
        .stall(Stall::default())
        .crash(Crash::default())
        .cpu(CpuLoad::default())
        .memory(MemoryLoad::default())
        .slow_frames(SlowFrames::default())
        .resolve_names(true)
        .on_report(move |path| drop(sender.send(path.to_owned())))
        .install()
        .unwrap();
    monitor.heartbeat().turn(|| {});
    (monitor, receiver)
}

fn look_and_die(
    monitor: &Monitor,
    receiver: &mpsc::Receiver<std::path::PathBuf>,
    printed: &std::fs::File,
) {
    // A descriptor that is opened and moved has a low number for a moment; one that is kept has it
    // at each look.
    let look = |when: &str| {
        for fd in 0..3 {
            let kept = (0..50).all(|_| {
                std::thread::sleep(Duration::from_millis(1));
                // SAFETY: a plain call on any number.
                unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
            });
            if kept {
                use std::io::Write;
                writeln!(&mut &*printed, "{fd} {when}").unwrap();
            }
        }
    };
    look("at rest");
    let printing = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while printing.load(Ordering::Relaxed) {
                print();
            }
        });
        monitor.record("all threads").unwrap();
        monitor.heartbeat().turn(|| {
            // The report of a stall is open while the stall lasts.
            std::thread::sleep(Duration::from_millis(400));
            look("in a stall");
        });
        receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        look("behind it");
        // SAFETY: it is to die, while the other thread prints.
        unsafe { std::ptr::null_mut::<u32>().write_volatile(1) };
        printing.store(false, Ordering::Relaxed);
    });
}

fn print() {
    for fd in 1..3 {
        // SAFETY: the bytes are constant; a descriptor that is closed is refused.
        unsafe { libc::write(fd, LINE.as_ptr().cast(), LINE.len()) };
    }
}
