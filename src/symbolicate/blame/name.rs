//! Whose code a function of the app's image is, by its name alone.

use super::Owner;
use crate::symbolicate::group::within;

/// Recorders that an app links in, by how the names of their functions begin: KSCrash and its copies, PLCrashReporter,
/// Crashlytics.
const RECORDERS: [&str; 27] = [
    "kscrash",
    "kscm_",
    "ksmc_",
    "ksmach_",
    "ksmachexc_",
    "kssc_",
    "ksbt_",
    "kscpu_",
    "ksdl_",
    "ksid_",
    "ksmem_",
    "ksobjc_",
    "kssignal_",
    "ksthread_",
    "ksdebug_",
    "ksjson",
    "ksfu_",
    "kslog_",
    "kssymbolicator",
    "kssysctl_",
    "KSCrash",
    "KSStackCursor",
    "CPPExceptionTerminate",
    "sentrycrash",
    "plcrash_",
    "PLCrash",
    "FIRCLS",
];

/// React Native and what it brings along.
const LIBRARIES: [&str; 4] = ["facebook::", "folly::", "hermes::", "RCT"];

/// Whose code a function of the app's image is, by its name alone.
pub(super) fn of_name(name: &str) -> Owner {
    const LANGUAGE: [&str; 32] = [
        "std::",
        "core::",
        "alloc::",
        "panic_unwind::",
        "panic_abort::",
        // What Rust's library was built with; it brings no lines.
        "addr2line::",
        "adler2::",
        "compiler_builtins::",
        "gimli::",
        "hashbrown::",
        "miniz_oxide::",
        "object::read::",
        "rustc_demangle::",
        "std_detect::",
        "__gnu_cxx::",
        "_rdl_",
        "_rg_",
        "_rust_",
        "__rust_",
        "__rustc",
        "rust_begin_unwind",
        "rust_panic",
        "rust_eh_personality",
        "__cxa_",
        "__libc_",
        "_Unwind_",
        "Swift.",
        "kfun:kotlin.",
        "generic specialization <",
        "thunk for ",
        "partial apply for",
        "reabstraction thunk",
    ];
    let starts = |name: &str| LANGUAGE.iter().any(|prefix| name.starts_with(prefix));
    if name.starts_with("__CFRUNLOOP_IS_") {
        return Owner::System;
    }
    // `-[KSCrash reportUserException:…]`, `__45-[KSCrash …]_block_invoke`.
    let class = name.split_once("-[").or_else(|| name.split_once("+["));
    let own = class.map_or(name, |(_, class)| class);
    let own = own.trim_start_matches('_');
    if RECORDERS.iter().any(|prefix| own.starts_with(prefix)) {
        return Owner::Recorder;
    }
    if LIBRARIES.iter().any(|prefix| own.starts_with(prefix)) {
        return Owner::Library;
    }
    // `<X as Trait>::method` is its type's or its trait's.
    if name.starts_with('<') {
        let inner = within(name);
        let inner = inner.strip_prefix("impl ").unwrap_or(inner);
        let (of, as_what) = inner.split_once(" as ").unwrap_or((inner, "std::"));
        let of = of.trim_start_matches(['&', '*', '<', '[', '(']);
        let of = of
            .trim_start_matches("mut ")
            .trim_start_matches("const ")
            .trim_start_matches("dyn ");
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let word = of
            .split([':', '>', ' ', ',', ']', ')'])
            .next()
            .unwrap_or(of);
        let built_in = word.len() <= 5 && word.chars().all(plain) && !of.contains("::");
        let (is_ours, is_languages) = (of.starts_with("wedjat::"), starts(of) || built_in);
        let (of_ours, of_languages) = (as_what.starts_with("wedjat::"), starts(as_what));
        // The app may implement its traits for ours, and ours for its types.
        return match (is_ours || is_languages, of_ours || of_languages) {
            (true, true) if is_ours || of_ours => Owner::Recorder,
            (true, true) => Owner::Language,
            _ => Owner::App,
        };
    }
    if name.starts_with("wedjat::") {
        Owner::Recorder
    } else if starts(name) {
        Owner::Language
    } else {
        Owner::App
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_a_file_goes_by_its_name() {
        use Owner::{App, Language, Library, Recorder, System};
        for (name, owner) in [
            ("core::ops::function::FnOnce::call_once", Language),
            (
                "<core::fmt::Arguments as core::fmt::Display>::fmt",
                Language,
            ),
            ("<alloc::string::String as till::Price>::parse", App),
            ("<till::Price as core::fmt::Display>::fmt", App),
            ("<till::Price>::parse", App),
            ("<u64 as core::fmt::Display>::fmt", Language),
            (
                "<&mut core::iter::Map<I, F> as core::iter::Iterator>::next",
                Language,
            ),
            (
                "<wedjat::Heartbeat>::turn::<(), till::main::{closure#0}>",
                Recorder,
            ),
            ("wedjat::trigger::panic::panicked", Recorder),
            (
                "<wedjat::Heartbeat>::turn::<<u8 as till::Price>::Of>",
                Recorder,
            ),
            ("<wedjat::Stall as core::fmt::Debug>::fmt", Recorder),
            (
                "<alloc::vec::Vec<u8> as wedjat::report::Sink>::write",
                Recorder,
            ),
            ("<till::Store as wedjat::report::Sink>::write", App),
            ("<wedjat::Stall as till::Price>::parse", App),
            ("till::parse", App),
            ("stdout_of_till", App),
            (
                "__CFRUNLOOP_IS_CALLING_OUT_TO_A_SOURCE0_PERFORM_FUNCTION__",
                System,
            ),
            ("-[Till parse:]", App),
            ("-[KSCrash reportUserException:reason:]", Recorder),
            (
                "__40-[KSCrash sendAllReportsWithCompletion:]_block_invoke",
                Recorder,
            ),
            ("kscm_handleException", Recorder),
            ("kicks_", App),
            ("facebook::react::Instance::callJSFunction()", Library),
            ("-[RCTBridge dispatchBlock:queue:]", Library),
            ("kfun:kotlin.collections.List#get", Language),
            ("kfun:till.Shop#open", App),
            ("miniz_oxide::inflate::core::decompress", Language),
            (
                "<gimli::read::line::LineRows<R> as core::fmt::Debug>::fmt",
                Language,
            ),
            (
                "partial apply for closure #1 () -> () in main.foo() -> ()",
                Language,
            ),
        ] {
            assert_eq!(of_name(name), owner, "{name}");
        }
    }
}
