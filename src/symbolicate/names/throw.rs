//! Functions by which programs throw and abort: where they were called says what happened, they don't.

/// Functions, without parameters.
#[rustfmt::skip]
const THROWS: [&str; 46] = [
    // Objective-C's runtime, and Foundation's ways into it.
    "__exceptionPreprocess", "objc_exception_throw", "objc_exception_rethrow", "_objc_terminate",
    "_CFThrowFormattedException", "___forwarding___", "_CF_forwarding_prep_0", "__forwarding_prep_0___",
    "_NSThrowException",
    // C++'s.
    "__cxa_throw", "__cxa_rethrow", "__cxa_bad_cast", "__cxa_pure_virtual", "__cxa_throw_bad_array_new_length",
    "_Unwind_RaiseException", "std::terminate", "std::__terminate", "std::rethrow_exception",
    "__cxxabiv1::__terminate", "__gnu_cxx::__verbose_terminate_handler", "demangling_terminate_handler",
    "__clang_call_terminate", "abort_message", "__abort_message", "std::__throw_out_of_range",
    "std::__1::__libcpp_verbose_abort", "__libcpp_verbose_abort",
    // C's.
    "abort", "__abort", "raise", "gsignal", "kill", "__kill", "pthread_kill", "__pthread_kill",
    "__pthread_kill_implementation", "__pthread_kill_internal", "__assert_rtn", "__assert_fail",
    "__assert_fail_base", "__assert2", "__stack_chk_fail",
    // The C functions of Swift's runtime.
    "swift_unexpectedError", "swift_errorInMain", "swift_willThrow", "swift_reportError",
];
const METHODS: [&str; 5] = [
    "-[NSException raise]",
    "+[NSException raise:",
    "+[NSException exceptionWithName:",
    "-[NSObject(NSObject) doesNotRecognizeSelector:]",
    "-[NSAssertionHandler handleFailureIn",
];

/// Returns true if a function does nothing but throw or abort.
pub(super) fn is_throw(name: &str) -> bool {
    if name.starts_with(['-', '+']) {
        return METHODS.iter().any(|method| name.starts_with(method));
    }
    let function = name.split('(').next().unwrap_or(name).trim();
    // glibc calls its own functions by hidden names.
    THROWS.contains(&function.strip_prefix("__GI_").unwrap_or(function))
}

#[cfg(test)]
mod tests {
    use super::is_throw;

    #[test]
    fn a_throw_is_known_in_every_spelling() {
        for name in [
            "__exceptionPreprocess",
            "std::terminate()",
            "swift_errorInMain",
            "__GI_raise",
            "__GI___pthread_kill",
            "+[NSException raise:format:arguments:]",
            "-[NSAssertionHandler handleFailureInMethod:object:file:lineNumber:description:]",
        ] {
            assert!(is_throw(name), "{name}");
        }
        for name in [
            "-[Till raise]",
            "till::abort()",
            "raise_price",
            "main",
            "-[__NSArrayM objectAtIndex:]",
        ] {
            assert!(!is_throw(name), "{name}");
        }
    }
}
