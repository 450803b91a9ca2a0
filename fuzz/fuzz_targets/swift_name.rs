//! Any name of Swift, and any with a part that is repeated: it ends, soon, in a text of at most 16 KB, and so does its summary.
#![no_main]

use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use swift_name::{Role, SwiftName};

/// Most time that a name may take in code without optimization, on a busy machine.
const LONGEST: Duration = Duration::from_secs(5);

#[path = "../repeated.rs"]
mod repeated;

fuzz_target!(|bytes: &[u8]| {
    let name = repeated::name(bytes);
    let began = Instant::now();
    let Some(parsed) = SwiftName::parse(&name) else {
        return;
    };
    assert!(swift_name::is_mangled(&name), "{name}");
    let simplified = parsed.simplified();
    assert!(
        simplified
            .as_ref()
            .is_none_or(|text| text.len() <= 16 << 10),
        "{name}"
    );
    let summary = parsed.summary();
    assert!(
        summary.role != Role::Glue || summary.function.is_none(),
        "{name}"
    );
    let _ = parsed.base_name();
    assert!(began.elapsed() < LONGEST, "{name}");
});
