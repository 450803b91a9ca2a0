//! Files of other products that hold stacks, but are not read: by their names, and what to do.

use std::fmt;

use memchr::memmem;

/// A product, by what its files have, and what to do with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtherProduct {
    name: &'static str,
    advice: &'static str,
}

impl fmt::Display for OtherProduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherProduct { name, advice } = self;
        write!(f, "it looks like {name}, which is not read: {advice}")
    }
}

/// Bytes in which the marks of a product are looked for.
const FRONT: usize = 1 << 16;

/// Detects a file of another product that is not read.
pub(crate) fn other_product(bytes: &[u8]) -> Option<OtherProduct> {
    const ADDRESSES: &str =
        "give the addresses of its frames to `symbolicate --debug FILE --address`";
    // All marks of a row are there.
    #[rustfmt::skip]
    const PRODUCTS: [(&[&[u8]], &str, &str); 10] = [
        (&[b"\"stacktrace\"", b"\"errorClass\""], "an event of Bugsnag", "give the addresses of its frames to `symbolicate --debug FILE --address`"),
        (&[b"MDMP"], "a minidump", "symbolicate it with `minidump-stackwalk`"),
        (&[b"*** *** *** ***", b"Build fingerprint:"], "a tombstone of Android", "symbolicate it with `ndk-stack`"),
        (&[b"==ERROR: "], "the report of a sanitizer", "set `symbolizer_path` for the sanitizer, or use `asan_symbolize.py`"),
        (&[b"WARNING: ThreadSanitizer"], "the report of a sanitizer", "set `symbolizer_path` for the sanitizer"),
        (&[b"goroutine ", b"[running]:"], "a panic of Go, which names its frames itself", "read it as it is"),
        (&[b"Traceback (most recent call last):"], "a traceback of Python, which names its frames itself", "read it as it is"),
        (&[b"A fatal error has been detected by the Java Runtime Environment"], "a fatal error log of Java", ADDRESSES),
        (&[b"panicked at ", b"stack backtrace:"], "a panic that Rust printed", "record panics with wedjat, or build with line tables"),
        (&[b"Stack trace (most recent call last)"], "a trace of backward-cpp or V8", ADDRESSES),
    ];
    // Each section of a report of our own is an array of two.
    if bytes.first() == Some(&0x92) {
        return None;
    }
    let front = &bytes[..bytes.len().min(FRONT)];
    let has = |mark: &&[u8]| match *mark {
        b"MDMP" => front.starts_with(b"MDMP"),
        mark => memmem::find(front, mark).is_some(),
    };
    let found = PRODUCTS.iter().find(|(marks, ..)| marks.iter().all(has));
    found.map(|(_, name, advice)| OtherProduct { name, advice })
}
