//! Whose code a function of the app's image is, by its name alone.

use super::plain::bracketed;
use crate::symbolicate::frame::Owner;

/// Recorders that an app links in, by how the names of their functions begin: KSCrash and its copies, PLCrashReporter,
/// Crashlytics.
#[rustfmt::skip]
const RECORDERS: [&str; 27] = [
    "kscrash", "kscm_", "ksmc_", "ksmach_", "ksmachexc_", "kssc_", "ksbt_", "kscpu_", "ksdl_",
    "ksid_", "ksmem_", "ksobjc_", "kssignal_", "ksthread_", "ksdebug_", "ksjson", "ksfu_", "kslog_",
    "kssymbolicator", "kssysctl_", "KSCrash", "KSStackCursor", "CPPExceptionTerminate",
    "sentrycrash", "plcrash_", "PLCrash", "FIRCLS",
];

/// React Native and what it brings along.
const LIBRARIES: [&str; 4] = ["facebook::", "folly::", "hermes::", "RCT"];

/// Returns the owner of a function of the app's image, by its name without compilers' suffixes.
pub(super) fn of_name(name: &str) -> Owner {
    #[rustfmt::skip]
    const LANGUAGE: [&str; 34] = [
        "std::", "core::", "alloc::", "panic_unwind::", "panic_abort::",
        // What Rust's library was built with; it brings no lines.
        "addr2line::", "adler2::", "compiler_builtins::", "gimli::", "hashbrown::", "miniz_oxide::",
        "object::read::", "rustc_demangle::", "std_detect::", "__gnu_cxx::", "_rdl_", "_rg_",
        "_rust_", "__rust_", "__rustc", "rust_begin_unwind", "rust_panic", "rust_eh_personality",
        "__cxa_", "__libc_", "_Unwind_", "kfun:kotlin.",
        // Swift's runtime and libdispatch, linked statically; the entry of an async program.
        "swift_", "_swift_", "swift::", "dispatch_", "_dispatch_", "async_Main", "__swift_",
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
        let inner = bracketed(name);
        let inner = inner.strip_prefix("impl ").unwrap_or(inner);
        let (of, as_what) = inner.split_once(" as ").unwrap_or((inner, "std::"));
        let of = of.trim_start_matches(['&', '*', '<', '[', '(']);
        let words = ["mut ", "const ", "dyn "].iter();
        let of = words.fold(of, |of, word| of.trim_start_matches(word));
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let mut words = of.split([':', '>', ' ', ',', ']', ')']);
        let word = words.next().unwrap_or(of);
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

    /// Owners, and names of functions of theirs.
    const NAMES: &str = "
language
    core::ops::function::FnOnce::call_once
    <core::fmt::Arguments as core::fmt::Display>::fmt
    <u64 as core::fmt::Display>::fmt
    <&mut core::iter::Map<I, F> as core::iter::Iterator>::next
    kfun:kotlin.collections.List#get
    miniz_oxide::inflate::core::decompress
    <gimli::read::line::LineRows<R> as core::fmt::Debug>::fmt
    swift_unexpectedError
app
    <alloc::string::String as till::Price>::parse
    <till::Price as core::fmt::Display>::fmt
    <till::Price>::parse
    <till::Store as wedjat::report::Sink>::write
    <wedjat::Stall as till::Price>::parse
    till::parse
    stdout_of_till
    -[Till parse:]
    kicks_
    kfun:till.Shop#open
recorder
    <wedjat::Heartbeat>::turn::<(), till::main::{closure#0}>
    wedjat::trigger::panic::panicked
    <wedjat::Heartbeat>::turn::<<u8 as till::Price>::Of>
    <wedjat::Stall as core::fmt::Debug>::fmt
    <alloc::vec::Vec<u8> as wedjat::report::Sink>::write
    -[KSCrash reportUserException:reason:]
    __40-[KSCrash sendAllReportsWithCompletion:]_block_invoke
    kscm_handleException
system
    __CFRUNLOOP_IS_CALLING_OUT_TO_A_SOURCE0_PERFORM_FUNCTION__
library
    facebook::react::Instance::callJSFunction()
    -[RCTBridge dispatchBlock:queue:]
";

    #[test]
    fn a_frame_without_a_file_goes_by_its_name() {
        let mut owner = "";
        for line in NAMES.lines() {
            match line.strip_prefix("    ") {
                Some(name) => assert_eq!(of_name(name).as_str(), owner, "{name}"),
                None => owner = line,
            }
        }
    }
}
