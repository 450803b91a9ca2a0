//! Any name, and any name with a part that is repeated, in every language: it ends, soon, in a text of at most 4,096 bytes.
#![no_main]

use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use wedjat::symbolicate::demangled;

/// What a name may take, also of code that is not optimized, on a busy machine: a few KB take less than a millisecond otherwise.
const LONGEST: Duration = Duration::from_secs(5);

#[path = "../repeated.rs"]
mod repeated;

fuzz_target!(|bytes: &[u8]| {
    let name = repeated::name(bytes);
    let began = Instant::now();
    let text = demangled(&name);
    assert!(text.len() <= 4096, "{} bytes", text.len());
    assert!(began.elapsed() < LONGEST, "{name}");
    // The same again: nothing is kept from one name to the next.
    assert_eq!(demangled(&name), text);
});
