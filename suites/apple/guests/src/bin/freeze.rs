//! The main thread freezes in a function of its own, three calls deep with one inlined; another
//! thread stops it, copies its stack, lets it go and unwinds the copy. What it found goes to
//! standard output as addresses stated in the file, for the symbolicator to name.
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
use wedjat::platform::{Thread, clock};
use wedjat::report::Found;

static FROZEN: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn spin_for(nanoseconds: u64) -> u64 {
    let start = clock::monotonic();
    let mut turns = 0u64;
    while clock::monotonic() - start < nanoseconds {
        FROZEN.store(true, Ordering::SeqCst);
        turns = black_box(turns + 1);
    }
    turns
}

#[inline(always)]
fn convert(length: u64) -> u64 {
    black_box(spin_for(length) ^ 1)
}

#[inline(never)]
fn load_document(length: u64) -> u64 {
    black_box(convert(length) + 2)
}

#[inline(never)]
fn handle_click(length: u64) -> u64 {
    black_box(load_document(length) + 3)
}

fn main() {
    ImageTable::refresh();
    let main = Thread::main();
    assert_eq!(main, Thread::current());
    let watcher = std::thread::spawn(move || {
        let mut capturer = Capturer::new(&CaptureLimits::default()).expect("memory for a capture");
        while !FROZEN.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        let images = ImageTable::enter();
        let captured = capturer
            .capture(main, &images)
            .expect("the main thread can be stopped");
        println!(
            "end {} cut {} bytes>64 {}",
            captured.end.as_str(),
            captured.cut,
            captured.bytes > 64
        );
        for frame in captured.frames {
            let lookup = if frame.found == Found::Context {
                frame.pc
            } else {
                frame.pc - 1
            };
            let image = images.image_of(frame);
            match image {
                Some(image) if image.main => println!(
                    "frame {:#x} found {}",
                    image.svma(lookup),
                    frame.found.code()
                ),
                Some(image) => println!("other {} found {}", image.name, frame.found.code()),
                None => println!("nowhere {lookup:#x}"),
            }
        }
    });
    black_box(handle_click(black_box(200_000_000)));
    watcher.join().unwrap();
    println!("thawed");
}
