//! The rules on names, behind both engines: names as people write them, in full, and whether two mean one function.

use std::borrow::Cow;

use symbolic::common::{Language, Name, NameMangling};
use symbolic::demangle::{Demangle, DemangleOptions};

use super::swift3;
use super::symbols::ObjectSymbols;
use crate::symbolicate::frame::Frame;
use crate::symbolicate::group::plain_name;

/// A mangled Rust, C++ or Swift name in its source form; any other name as it is.
pub(crate) fn demangle(name: &str) -> Cow<'_, str> {
    if let Some(name) = old_swift(name) {
        return Cow::Owned(name);
    }
    let Some(language) = mangling(name) else {
        return Cow::Borrowed(name);
    };
    let demangled =
        Name::new(name, NameMangling::Mangled, language).demangle(DemangleOptions::complete());
    demangled.map_or(Cow::Borrowed(name), Cow::Owned)
}

/// Returns true if a name shows that it is mangled.
pub(crate) fn is_mangled(name: &str) -> bool {
    mangling(name).is_some()
}

/// A name of Swift 3 and before, demangled: symbolic's demangler leaves that mangling out.
fn old_swift(name: &str) -> Option<String> {
    let is_old = name.starts_with("_T") && !name.starts_with("_T0");
    is_old.then(|| swift3::demangle(name))?
}

/// The language whose mangling a name shows; `Unknown` leaves it to the demangler.
fn mangling(name: &str) -> Option<Language> {
    let swift = ["$s", "$S", "_$s", "_$S", "_T0", "@__swiftmacro_"];
    if swift.iter().any(|prefix| name.starts_with(prefix)) || old_swift(name).is_some() {
        return Some(Language::Swift);
    }
    // Its path begins with one of these letters: `_Rb_tree` is of C++'s library, and as plain as can be.
    let rust = |path: &str| path.starts_with(['C', 'M', 'X', 'Y', 'N', 'I', 'B']);
    if name.strip_prefix("_R").is_some_and(rust) {
        return Some(Language::Rust);
    }
    let itanium = ["_Z", "__Z", "___Z", "____Z", "_GLOBAL__"];
    if itanium.iter().any(|prefix| name.starts_with(prefix)) {
        return Some(Language::Unknown);
    }
    None
}

/// A frame with a name as the file has it.
pub(crate) fn named(name: &str) -> Frame {
    Frame::named(name, &demangle(name))
}

/// A name or path that says something; `None` for one in whose place a bitcode build put a number.
pub(crate) fn known(text: &str) -> Option<&str> {
    let name = text.rsplit(['/', '\\']).next().unwrap_or(text);
    Some(text).filter(|text| !text.is_empty() && !name.starts_with("__hidden#"))
}

/// Returns true if a function's name is half of one, or none: a plain one of a language that mangles names.
pub(crate) fn is_half(name: Option<&str>, mangles: bool) -> bool {
    name.is_none_or(|name| mangles && !is_mangled(name))
}

/// The full name of the function at a link-time address, of which debug information has but the plain one,
/// or none: that of the symbol at its entry that agrees.
pub(crate) fn in_full<'s>(
    symbols: &'s ObjectSymbols,
    entry: u64,
    plain: Option<&str>,
) -> Option<&'s str> {
    let agrees = |symbol: &&str| plain.is_none_or(|plain| *symbol != plain && agree(symbol, plain));
    symbols.names_at(entry).find(agrees)
}

/// Returns true if a mangled symbol and the plain name that debug information gives may be one function:
/// the last part of the symbol's path is that name.
pub(crate) fn agree(symbol: &str, plain: &str) -> bool {
    if symbol == plain {
        return true;
    }
    let demangled = demangle(symbol);
    if mangling(symbol) == Some(Language::Swift) {
        return is_in_swift(&demangled, plain);
    }
    // `operator< <int>` and `operator<<int>` are one.
    let last = |name: &str| {
        let name = plain_name(name);
        name.rsplit("::")
            .next()
            .unwrap_or_default()
            .replace(' ', "")
    };
    last(&demangled) == last(plain)
}

/// Returns true if the Swift function `full`, with its module, type and arguments, is called `plain`: for
/// `app.Store.init(name: Swift.String) -> app.Store` that is `init`, or `init(name:)`.
fn is_in_swift(full: &str, plain: &str) -> bool {
    let plain = plain.split('(').next().unwrap_or(plain);
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(['(', '<', ' ']);
    !plain.is_empty()
        && full.match_indices(plain).any(|(at, _)| {
            let before = &full[..at];
            before.ends_with('.') && !before.contains('(') && ends(&full[at + plain.len()..])
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_their_source_form() {
        assert_eq!(demangle("_ZN3foo3barEv"), "foo::bar()");
        assert_eq!(
            demangle("_ZN4core3fmt5Write9write_str17h0123456789abcdefE"),
            "core::fmt::Write::write_str"
        );
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(demangle("$s4main3fooyyF"), "main.foo() -> ()");
        assert_eq!(demangle("main"), "main");
        // Of C++'s library.
        assert!(!is_mangled("_Rb_tree_iterator") && !is_mangled("_R") && !is_mangled("_Reuse"));
        assert!(is_mangled("_RNvC6_123foo3bar") && is_mangled("_RINvCs1_3foo3barmE"));
        assert_eq!(demangle("-[Foo bar:]"), "-[Foo bar:]");
        assert_eq!(demangle("_ZN_damaged"), "_ZN_damaged");
    }

    /// Pairs of Swift's own tests (`test/Demangle/Inputs/manglings.txt`), which `swift-demangle` is tested by.
    #[test]
    fn swift_names_are_those_of_swift_demangle() {
        for (mangled, expected) in [
            ("$s7example1fyyYaKF", "example.f() async throws -> ()"),
            (
                "$s5Actor02MyA0C17testAsyncFunctionyyYaKFTQ1_",
                "(2) await resume partial function for Actor.MyActor.testAsyncFunction() async throws -> ()",
            ),
            (
                "$s4Test6testityyxlFAA8MystructV_TB5",
                "generic specialization <Test.Mystruct> of Test.testit<A>(A) -> ()",
            ),
            (
                "_$Ss17MutableCollectionP1asAARzs012RandomAccessB0RzsAA11SubSequences013BidirectionalB0PRpzsAdHRQlE06rotatecD015shiftingToStart5Indexs01_A9IndexablePQzAN_tFAKs01_M4BasePQzAQcfU_",
                "closure #1 (A.Swift._IndexableBase.Index) -> A.Swift._IndexableBase.Index in (extension in a):Swift.MutableCollection<A where A: Swift.MutableCollection, A: Swift.RandomAccessCollection, A.Swift.BidirectionalCollection.SubSequence: Swift.MutableCollection, A.Swift.BidirectionalCollection.SubSequence: Swift.RandomAccessCollection>.rotateRandomAccess(shiftingToStart: A.Swift._MutableIndexable.Index) -> A.Swift._MutableIndexable.Index",
            ),
            (
                "$sSo17OS_dispatch_queueC4sync7executeyyyXE_tFTOTA",
                "partial apply forwarder for @nonobjc __C.OS_dispatch_queue.sync(execute: () -> ()) -> ()",
            ),
            (
                "_T08mangling14varargsVsArrayySi3arrd_tF",
                "mangling.varargsVsArray(arr: Swift.Int...) -> ()",
            ),
        ] {
            assert_eq!(demangle(mangled), expected);
        }
        // `(() -> A)?` there: symbolic leaves types as they are declared.
        assert_eq!(
            demangle("$s4test10returnsOptyxycSgxyScMYccSglF"),
            "test.returnsOpt<A>(Swift.Optional<@Swift.MainActor () -> A>) -> Swift.Optional<() -> A>"
        );
    }

    #[test]
    fn names_of_swift_3_have_their_context() {
        let mangled = "_TFC3red11BaseClassEHcfzT1aSi_S0_";
        assert_eq!(demangle(mangled), "red.BaseClassEH.init");
        assert!(agree(mangled, "init") && !agree(mangled, "BaseClassEH"));
        assert!(is_mangled(mangled) && !is_mangled("_TIFFOpen") && !is_mangled("_Thread"));
    }

    #[test]
    fn a_symbol_agrees_with_its_own_plain_name_alone() {
        assert!(agree("_ZN3app6freeze17h0123456789abcdefE", "freeze"));
        assert!(agree("_ZN3foo3barIiEEvT_", "bar<int>"));
        assert!(agree("main", "main"));
        assert!(agree(
            "_ZN3app3run28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
            "{closure#0}"
        ));
        assert!(agree(
            "_RINvNtCs1234_7mycrate3foo3barxE.llvm.13921902409383346971",
            "bar<i64>"
        ));
        assert!(agree(
            "_RNCINvNtCs1234_7mycrate3foo3barxE0",
            "{closure#0}<i64>"
        ));
        assert!(!agree("_RINvNtCs1234_7mycrate3foo3barxE", "foo"));
        assert!(agree("$s4main3FooCACycfc", "init"));
        assert!(agree("$s4main3FooC3baryyF", "bar"));
        assert!(agree("$s4main3FooC3baryyF", "bar()"));
        assert!(!agree("$s4main3FooC3baryyF", "ba"));
        assert!(!agree("$s4main3FooC3baryyF", "Foo"));
        assert!(agree("_Z4nameB5cxx11i", "name"));
        assert!(agree("_ZN3BoxixEi", "operator[]"));
        assert!(agree("_ZNK3BoxclEii", "operator()"));
        assert!(agree("_ZltIcEbRK3BoxS2_", "operator<<char>"));
        assert!(agree("_ZNK3BoxcvbEv", "operator bool"));
        assert!(!agree("_ZN3BoxixEi", "operator()"));
        assert!(!agree("_ZlsR3BoxS0_", "operator<"));
        assert!(!agree("_ZN3foo3barEv", "baz"));
        assert!(!agree("_ZN3foo3barEv", "foo"));
    }
}
