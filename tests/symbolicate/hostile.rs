//! What the symbolicator does with files that mean it ill: a clear error, an exit code, no hang, bounded memory.

mod changed;
mod compressed;
mod doubling;
mod dwarf;
mod files;
mod linear;
mod mutated;
mod names;
mod proportion;
mod reports;
mod split;

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::deadline::{Ran, finish};
use crate::support::symbolicate::Workshop;
use wedjat::new;
use wedjat::report::{self, Event, EventKind, Found, Frame, Image, Report, Thread};

const DSYM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/testdata/macho/arm64/kiosk.dSYM/Contents/Resources/DWARF/kiosk"
);
/// Where the code of that file lies.
const CODE: std::ops::Range<u64> = 0x1_0000_0000..0x1_0000_8000;

/// A live report with a frame in each image.
fn report_of(images: Vec<Image>) -> Vec<u8> {
    let mut report = Report::default();
    report.event = Some(new!(Event {
        kind: EventKind::Live,
    }));
    let frames = images.iter().enumerate().map(|(index, image)| {
        new!(Frame {
            pc: image.base + 0x10,
            found: Found::Context,
            image: Some(index as u32),
            name: None,
        })
    });
    report.threads.push(new!(Thread {
        frames: frames.collect(),
    }));
    report.images = images;
    report.end = Some(new!(report::End {
        closed_by: "writer".to_owned(),
    }));
    report::to_bytes(&report)
}

/// Runs the command within so much address space (KiB) and CPU time (seconds).
fn limited<A: AsRef<OsStr>>(memory: u32, cpu: u32, args: impl IntoIterator<Item = A>) -> Ran {
    bounded_by(Limit::AddressSpace(memory), cpu, args)
}

/// A limit on memory, KiB.
enum Limit {
    /// All that is mapped, files among it.
    AddressSpace(u32),
    /// What the process allocates.
    Data(u32),
}

/// Runs the command within a limit on memory and so much CPU time (seconds).
fn bounded_by<A: AsRef<OsStr>>(limit: Limit, cpu: u32, args: impl IntoIterator<Item = A>) -> Ran {
    let memory = match limit {
        Limit::AddressSpace(kib) => format!("-v {kib}"),
        Limit::Data(kib) => format!("-d {kib}"),
    };
    let limits = format!("ulimit -t {cpu} {memory}; exec \"$@\"");
    let child = Command::new("bash")
        .args([
            "-c",
            &limits,
            "bash",
            env!("CARGO_BIN_EXE_symbolicate"),
            "--no-cache",
        ])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    finish(child.unwrap())
}

/// Bytes that do not pack.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn fifo(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: `path` ends with a zero and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

/// The library `a.so` with `.debug_*` sections around a function `main`.
fn assembled(debug: &str) -> Workshop {
    let source = format!(
        ".text\n.globl main\n.type main,@function\nmain: nop\n.rept 64\nnop\n.endr\nret\n.Lend:\n.size main,.-main\n{debug}\n.section .note.GNU-stack,\"\",@progbits\n"
    );
    let workshop = Workshop::new(&[("a.s", &source)]);
    workshop.run("gcc -shared -nostdlib -Wl,--build-id=sha1 a.s -o a.so");
    workshop
}

/// A DWARF 4 unit with these DIEs behind its root, and these further abbreviations.
fn unit(abbreviations: &str, dies: &str) -> String {
    format!(
        ".section .debug_abbrev,\"\",@progbits
         .uleb128 1, 0x11
         .byte 1
         .uleb128 0x11, 1, 0x12, 7, 0x10, 0x17, 0, 0
         {abbreviations}
         .uleb128 0
         .section .debug_info,\"\",@progbits
         .Lunit: .long .Lunit_end - .Lversion
         .Lversion: .value 4
         .long 0
         .byte 8
         .uleb128 1
         .quad main
         .quad .Lend - main
         .long 0
         {dies}
         .uleb128 0
         .Lunit_end:"
    )
}
