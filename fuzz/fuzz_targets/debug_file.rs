//! Any bytes as a debug file: opened, inspected, and queried for addresses all over it.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use wedjat::new;
use wedjat::report::{Found, Frame, Image, Report, Thread};
use wedjat::symbolicate::{Addresses, DebugFiles, Symbolicator};

/// One file for each process, in memory where the system has such a folder.
static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    folder.join(format!("wedjat-fuzz-{}", std::process::id()))
});

fuzz_target!(|bytes: &[u8]| {
    // A new file each time: the one before may still be mapped.
    let _ = std::fs::remove_file(&*PATH);
    std::fs::write(&*PATH, bytes).expect("there is room for it");
    look();
    let _ = std::fs::remove_file(&*PATH);
});

fn look() {
    let mut files = DebugFiles::new().no_search();
    if let Err(error) = files.add(&PATH) {
        assert!(!error.to_string().is_empty());
        return;
    }
    if let Ok(addresses) = Addresses::new(&files, None, None) {
        for address in places() {
            for frame in addresses.frames(address).iter() {
                assert!(frame.function.is_some() || frame.file.is_some() || frame.line.is_none());
            }
        }
    }
    let mut report = Report::default();
    let ids: Vec<Vec<u8>> = files.ids().map(<[u8]>::to_vec).collect();
    for (id, index) in ids.into_iter().take(4).zip(0..) {
        report.images.push(new!(Image { id, size: u64::MAX }));
        let frame = |pc| {
            new!(Frame {
                pc,
                found: Found::UnwindInfo,
                image: Some(index),
                name: None,
            })
        };
        report.threads.push(new!(Thread {
            frames: places().map(frame).collect(),
        }));
    }
    Symbolicator::new(files).symbolicate(report);
}

/// Where the code of small ELF and Mach-O files lies.
fn places() -> impl Iterator<Item = u64> {
    let low = (0..0x2000).step_by(0x20);
    let high = (0x1_0000_0000..0x1_0000_8000_u64).step_by(0x100);
    low.chain(high).chain([u64::MAX, 1 << 63])
}
