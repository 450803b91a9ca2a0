//! Any name, and any name with a part that is repeated, in every language: it ends, soon, in a text of at most 4,096 bytes.
#![no_main]

use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use wedjat::symbolicate::demangled;

/// What a name may take, also of code that is not optimized, on a busy machine: a few KB take less than a millisecond otherwise.
const LONGEST: Duration = Duration::from_secs(5);

// `PREFIX|PART|REST` and a number before: the part is repeated so often.
fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let name = match repeated(&text) {
        Some(name) => name,
        None => text.into_owned(),
    };
    let began = Instant::now();
    let text = demangled(&name);
    assert!(text.len() <= 4096, "{} bytes", text.len());
    assert!(began.elapsed() < LONGEST, "{name}");
    // The same again: nothing is kept from one name to the next.
    assert_eq!(demangled(&name), text);
});

fn repeated(text: &str) -> Option<String> {
    let mut parts = text.splitn(4, '|');
    let times: usize = parts.next()?.parse().ok()?;
    let (prefix, part, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let times = times.min(16_384 / part.len().max(1));
    Some(format!("{prefix}{}{rest}", part.repeat(times)))
}
