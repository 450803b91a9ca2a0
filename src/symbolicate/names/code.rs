//! Kinds of functions, by their names: Swift's functions, code that Swift's compiler makes, and the pseudo-functions
//! that hold the reason of a trap.

use std::sync::Arc;

use swift_name::{Role, Summary, SwiftName};

use super::plain::split_top;
use super::{MERGED_PREFIX, swift_text};

/// Modules of Swift's own libraries. Their code may be in an app's file: libraries are linked statically, and generic
/// functions are compiled into the app.
#[rustfmt::skip]
const LANGUAGE: [&str; 35] = [
    "Swift", "_Concurrency", "_StringProcessing", "_RegexParser", "_Differentiation", "_Observation", "_Backtracing",
    "_Volatile", "_Builtin_float", "Observation", "Synchronization", "Distributed", "RegexBuilder", "Runtime", "Cxx", "CxxStdlib",
    "SwiftOnoneSupport", "Dispatch", "Foundation", "FoundationEssentials", "FoundationInternationalization",
    "FoundationNetworking", "FoundationXML", "FoundationICU", "_FoundationICU", "_FoundationCollections",
    "_FoundationCShims", "ObjectiveC", "Darwin", "Glibc", "Musl", "Builtin", "SwiftShims", "__C", "__C_Synthesized",
];

/// The kind of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Code {
    /// A pseudo-function. The text is the reason of the trap.
    Pseudo(Arc<str>),
    /// A function of a Swift library, or code that Swift's compiler made.
    SwiftLanguage,
    /// A function of Swift's library that does nothing but end the program.
    SwiftFatal,
    /// A function of another Swift module. All versions and parts of it, and closures of one function, have the same text.
    Swift(Arc<str>),
    Other,
}

/// The function in which a closure is written, by the text of [`Code::Swift`]; `None` for other functions.
pub(crate) fn holder_of_closure(function: &str) -> Option<&str> {
    function.strip_prefix("closure in ")
}

/// Returns the kind of a function with this name, mangled or simplified, and true if the compiler merged several functions into it.
pub(super) fn of_name(name: &str) -> (Code, bool) {
    if let Some(reason) = trap_reason(name) {
        return (Code::Pseudo(reason.into()), false);
    }
    let list = name.strip_prefix(MERGED_PREFIX);
    if list.is_some_and(|list| split_top(list, ", ").is_some()) {
        return (Code::Other, true);
    }
    let summary = SwiftName::parse(name).map(|parsed| parsed.summary());
    let summary = summary.or_else(|| swift_text::summary(name));
    let is_merged = summary.as_ref().is_some_and(|summary| summary.is_merged);
    (summary.map_or(Code::Other, of_summary), is_merged)
}

/// Functions of Swift's library that end the program, without labels.
#[rustfmt::skip]
const FATAL_FUNCTIONS: [&str; 7] = [
    "_assertionFailure", "_fatalErrorMessage", "_errorInMain", "_unexpectedError", "fatalError", "preconditionFailure",
    "assertionFailure",
];

/// Returns true for a function that ends the program, and for closures of it.
fn is_fatal(function: &str) -> bool {
    let name = function.rsplit(" in ").next().unwrap_or(function);
    let name = name.strip_prefix("Swift.").unwrap_or(name);
    FATAL_FUNCTIONS.contains(&name.split('(').next().unwrap_or(name))
}

fn of_summary(summary: Summary) -> Code {
    let is_language = |module: &String| LANGUAGE.contains(&module.as_str());
    let module = summary.module.as_deref();
    let is_library = module.is_none_or(|module| module == "Swift");
    match summary.function {
        Some(function) if is_library && is_fatal(&function) => Code::SwiftFatal,
        Some(function)
            if summary.role != Role::Glue && !summary.module.as_ref().is_some_and(is_language) =>
        {
            Code::Swift(function.into())
        }
        _ => Code::SwiftLanguage,
    }
}

/// Returns the reason why the program ends, if the function is one of a runtime that shows it by its name.
pub(crate) fn end_reason_of_trap(function: &str) -> Option<&'static str> {
    match function {
        "swift_errorInMain" => Some("Swift: an error left main"),
        "swift_unexpectedError" => Some("Swift: try! met an error"),
        _ => None,
    }
}

/// Returns the reason of a trap, if the name is one of a pseudo-function that an optimizer inlined there.
fn trap_reason(name: &str) -> Option<String> {
    if let Some(text) = swift_text::runtime_failure(name) {
        return Some(format!("Swift: {text}"));
    }
    // Clang's: a category, and a text.
    let text = name.strip_prefix("__clang_trap_msg$")?;
    Some(text.replacen('$', ": ", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Code {
        of_name(name).0
    }

    fn swift(function: &str) -> Code {
        Code::Swift(function.into())
    }

    #[test]
    fn a_pseudo_function_is_a_reason() {
        let pseudo = |text: &str| Code::Pseudo(text.into());
        assert_eq!(
            of("Swift runtime failure: Index out of range"),
            pseudo("Swift: Index out of range")
        );
        assert_eq!(
            of("__clang_trap_msg$Undefined Behavior Sanitizer$Integer overflow"),
            pseudo("Undefined Behavior Sanitizer: Integer overflow")
        );
        assert_eq!(of("main"), Code::Other);
    }

    /// The module decides, after all that stands around the function.
    #[test]
    fn a_swift_function_is_its_modules() {
        for (name, expected) in [
            (
                "$e4main4RingV10difference33_D84986C8784D58FAC22AA7A4A9C32B49LLyS2i_SitF",
                swift("Ring.difference(_:_:)"),
            ),
            (
                "$e6Shapes5totalySix_xt_tAA5ShapeRzlFAA4RingV_Tg5",
                swift("total<A>(_:)"),
            ),
            (
                "$e4main7FailureOSQAASQ2eeoiySbx_xtFZTW",
                swift("static Failure.== infix(_:_:)"),
            ),
            ("$s4main3fooyySiFyyXEfU_TA.1", swift("closure in foo(_:)")),
            (
                "$s5Actor02MyA0C17testAsyncFunctionyyYaKFTQ1_",
                swift("MyActor.testAsyncFunction()"),
            ),
            (
                "$s5Actor02MyA0C17testAsyncFunctionyyYaKF",
                swift("MyActor.testAsyncFunction()"),
            ),
            // Compiled into the app: a generic function of Swift's library, its assertion, a thunk, an outlined copy.
            (
                "$eSlsE20_failEarlyRangeCheck_6boundsy5IndexQz_SnyADGtFSnySiG_Tt1g5",
                Code::SwiftLanguage,
            ),
            (
                "$es17_assertionFailure__4file4line5flagss5NeverOs12StaticStringV_A2HSus6UInt32VtF",
                Code::SwiftFatal,
            ),
            ("$sIeg_IyB_TR", Code::SwiftLanguage),
            ("_T0SqWOC", Code::SwiftLanguage),
            ("_$e6Shapes6CanvasCN", Code::SwiftLanguage),
            // As text, of another recorder.
            ("specialized Cart.add(_:to:)", swift("Cart.add(_:to:)")),
            (
                "closure #1 in Cart.add(_:of:)",
                swift("closure in Cart.add(_:of:)"),
            ),
            (
                "thunk for @escaping @callee_guaranteed () -> ()",
                Code::SwiftLanguage,
            ),
            (
                "$ss17_assertionFailure__4file4line5flagss5NeverOs12StaticStringV_SSAHSus6UInt32VtF",
                Code::SwiftFatal,
            ),
            (
                "closure #1 in closure #1 in _assertionFailure(_:_:file:line:flags:)",
                Code::SwiftFatal,
            ),
            (
                "specialized Swift._assertionFailure(_:_:file:line:flags:)",
                Code::SwiftFatal,
            ),
            ("till::pay(int)", Code::Other),
            ("_ZN4till3payEi", Code::Other),
        ] {
            assert_eq!(of(name), expected, "{name}");
        }
    }
}
