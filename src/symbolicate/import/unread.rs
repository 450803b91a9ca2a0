//! Files of other products that hold stacks, but are not read: by their names, and what to do.

use std::fmt;

use memchr::memmem;

/// A product, by what its files have, and what to do with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtherProduct {
    /// `a minidump`.
    pub name: &'static str,
    advice: &'static str,
}

impl fmt::Display for OtherProduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherProduct { name, advice } = self;
        write!(f, "it looks like {name}, which is not read: {advice}")
    }
}

/// Bytes in which the words of a product are looked for.
const MAX_FRONT: usize = 1 << 16;

/// Detects a file of another product that is not read.
pub(crate) fn other_product(bytes: &[u8]) -> Option<OtherProduct> {
    const ADDRESSES: &str =
        "give the addresses of its frames to `symbolicate --debug FILE --address`";
    const READ_AS_IS: &str = "it names its frames itself: read it as it is";
    // All words of a row are there.
    #[rustfmt::skip]
    const PRODUCTS: [(&[&[u8]], &str, &str); 19] = [
        (&[b"*** *** *** ***", b"Build fingerprint:"], "a tombstone of Android", "symbolicate it with `ndk-stack`"),
        (&[b"----- pid ", b"Cmd line:"], "a trace of Android (ANR)", "symbolicate it with `ndk-stack`"),
        (&[b"==ERROR: "], "the report of a sanitizer", "set `symbolizer_path` for the sanitizer, or use `asan_symbolize.py`"),
        (&[b"WARNING: ThreadSanitizer"], "the report of a sanitizer", "set `symbolizer_path` for the sanitizer"),
        // Before UBSan's: `panic: runtime error: `.
        (&[b"goroutine ", b"[running]:"], "a panic of Go", READ_AS_IS),
        (&[b": runtime error: "], "the report of a sanitizer (UBSan)", "set `print_stacktrace=1` and `symbolizer_path` for the sanitizer"),
        (&[b"==    at 0x", b"==    by 0x"], "the output of valgrind", READ_AS_IS),
        (&[b"Traceback (most recent call last):"], "a traceback of Python", READ_AS_IS),
        (&[b"A fatal error has been detected by the Java Runtime Environment"], "a fatal error log of Java", ADDRESSES),
        (&[b"panicked at ", b"stack backtrace:"], "a panic that Rust printed", "record panics with wedjat, or build with line tables"),
        (&[b"Stack trace (most recent call last)"], "a trace of backward-cpp or V8", ADDRESSES),
        (&[b"ProblemType: ", b"ExecutablePath: "], "a report of apport", "unpack it with `apport-unpack`, and open its core with gdb"),
        (&[b"frame #0: 0x", b"thread #"], "a backtrace of lldb", "load symbols there, with `target symbols add`"),
        (&[b"#0  ", b"#1  0x", b" in "], "a backtrace of gdb", "load symbols there, with `symbol-file`"),
        (&[b"#0  0x", b" in ", b" () from "], "a backtrace of gdb", "load symbols there, with `symbol-file`"),
        (&[b"panic(cpu ", b"aller 0x"], "the report of a kernel panic", "open it on the Mac or iPhone that it is of"),
        (&[b"\"stacktrace\"", b"\"errorClass\""], "an event of Bugsnag", ADDRESSES),
        (&[b"\"stacktrace\"", b"\"error_class\""], "an event of Bugsnag", ADDRESSES),
        (&[b"\"panicString\""], "the report of a kernel panic", "open it on the Mac or iPhone that it is of"),
    ];
    // The first bytes, and where they are.
    #[rustfmt::skip]
    const MAGICS: [(usize, &[u8], &str, &str); 3] = [
        (0, b"MDMP", "a minidump", "symbolicate it with `minidump-stackwalk`"),
        (0, b"PK\x03\x04", "a ZIP archive", "unpack it first"),
        (257, b"ustar", "a tar archive", "unpack it first"),
    ];
    let has_magic =
        |at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(magic));
    let found = MAGICS.iter().find(|(at, magic, ..)| has_magic(*at, magic));
    if let Some((.., name, advice)) = found {
        return Some(OtherProduct { name, advice });
    }
    // Each section of a report of our own is an array of two.
    if bytes.first() == Some(&0x92) {
        return None;
    }
    let front = &bytes[..bytes.len().min(MAX_FRONT)];
    let has = |word: &&[u8]| memmem::find(front, word).is_some();
    let found = PRODUCTS.iter().find(|(words, ..)| words.iter().all(has));
    found.map(|(_, name, advice)| OtherProduct { name, advice })
}
