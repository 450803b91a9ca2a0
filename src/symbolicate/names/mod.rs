//! Names of functions, parsed once for all who ask: blame, groups, titles and profiles.
//!
//! A name is what debug information, a symbol table or another recorder's report has: mangled, demangled, or in the full or the
//! simplified form of Swift. Its parts are here what they are in every language; no other place looks into a name.

mod code;
pub(crate) mod demangle;
mod owner;
mod plain;
mod swift_full;
mod swift_text;
pub(crate) mod symbol_text;
mod throw;
pub(crate) mod title;

use std::sync::Arc;

pub(crate) use code::{Code, end_reason_of_trap, holder_of_closure};
pub(crate) use plain::{plain_name, without_clones};

use super::frame::{Owner, SourceFrame};
use super::memo::Memo;

/// The parsed name of a function.
#[derive(Debug)]
pub(crate) struct Name {
    /// The function that it was parsed from, as the frame has it.
    function: Option<Arc<str>>,
    /// The kind of code.
    pub code: Code,
    /// The name in keys of groups: of a Swift function with its labels, else [`plain_name`].
    pub plain: Arc<str>,
    /// True for the entry point of a program.
    pub is_entry: bool,
    /// True for a plain name that functions of any kind share: `{closure}`, `operator()`.
    pub says_nothing: bool,
    /// True for a function that does nothing but throw or abort.
    pub is_throw: bool,
    /// True for code into which the compiler merged several functions: the name is of one of these.
    is_merged: bool,
    /// Whose code it is in the app's image, if no source file is known.
    pub owner: Owner,
}

/// Returns the parsed name of a frame.
pub(crate) fn name(frame: &SourceFrame) -> Arc<Name> {
    thread_local! {
        static KNOWN: std::cell::RefCell<Memo<Arc<str>, Arc<Name>, 32768>> = Default::default();
    }
    let parse = |text: &Arc<str>| Arc::new(Name::parse(text, frame.function.as_ref()));
    let nothing = &Arc::default();
    let text = frame.mangled.as_ref().or(frame.function.as_ref());
    let text = text.unwrap_or(nothing);
    let found = KNOWN.with_borrow_mut(|known| known.get_or_find(text, || parse(text)));
    // Debug information has the scopes of a function that is not mangled.
    let is_same = found.function == frame.function;
    if is_same { found } else { parse(text) }
}

/// Gives lambdas of C++ their full names, where debug information says `operator()` alone and the template that calls one has it.
/// The frames are those of one address, innermost first.
pub(crate) fn name_lambdas(frames: &mut [SourceFrame]) {
    for at in 1..frames.len() {
        let caller = frames[at].function.as_deref();
        let caller = caller.filter(|_| frames[at - 1].function.as_deref() == Some(plain::CALL));
        if let Some(name) = caller.and_then(plain::lambda_called_by) {
            frames[at - 1].function = Some(name.into());
        }
    }
}

/// The word before the names of merged code, as Swift has it.
pub(crate) const MERGED_PREFIX: &str = "merged ";

impl Name {
    /// Returns true if the function counts in keys of groups.
    pub(crate) fn counts(&self) -> bool {
        !self.is_throw && !self.is_merged
    }

    /// Parses a name as the file has it, and the function's demangled name.
    pub(crate) fn parse(text: &str, function: Option<&Arc<str>>) -> Name {
        let (code, is_merged) = code::of_name(text);
        let printed = function.map_or(text, |function| function);
        let own = plain::without_clones(printed);
        let (plain, is_entry, says_nothing): (Arc<str>, bool, bool) = match &code {
            Code::Swift(function) => {
                let is_entry = function.ends_with(".main()") || function.ends_with(".$main()");
                (function.clone(), is_entry, false)
            }
            Code::Other if is_merged => (text.into(), false, false),
            // It has no function, but the types that it is for.
            Code::SwiftLanguage if own.contains("thunk for ") => (own.into(), false, false),
            _ => {
                let plain: Arc<str> = plain_name(printed).into();
                let is_entry = plain::is_entry(&plain);
                (plain.clone(), is_entry, plain::says_nothing(&plain))
            }
        };
        // In C++ a return type may come first.
        let may_have_type = own.contains(' ') && !own.starts_with('<') && !own.contains("<impl ");
        let owned = if may_have_type { &plain } else { own };
        Name {
            function: function.cloned(),
            is_throw: code == Code::SwiftFatal || code == Code::Other && throw::is_throw(own),
            code,
            owner: owner::of_name(owned.trim_start_matches(MERGED_PREFIX)),
            plain,
            is_entry,
            says_nothing,
            is_merged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Arc<Name> {
        name(&SourceFrame::named(text, &demangle::demangle(text)))
    }

    #[test]
    fn a_return_type_is_not_the_owner() {
        for (function, owner) in [
            (
                "void std::__insertion_sort<int*>(int*, int*)",
                Owner::Language,
            ),
            (
                "std::vector<int, std::less<int> > till::prices(int)",
                Owner::App,
            ),
            (
                "std::string till::names<int>(std::string const&)",
                Owner::App,
            ),
            (
                "std::less<int>::operator()(int, int) const",
                Owner::Language,
            ),
            (
                "std::vector<till::Coin>::operator bool() const",
                Owner::Language,
            ),
            (
                "std::ostream& till::operator<< <int>(std::ostream&, int)",
                Owner::App,
            ),
            (
                "<&mut core::iter::Map<I, F> as core::iter::Iterator>::next",
                Owner::Language,
            ),
            ("-[KSCrash reportUserException:reason:]", Owner::Recorder),
        ] {
            assert_eq!(parsed(function).owner, owner, "{function}");
        }
    }

    /// In a static C program: `abort` calls a clone of a function of libc.
    #[test]
    fn names_are_found_in_lists_without_compilers_suffixes() {
        for suffix in [
            "",
            ".constprop.0",
            ".isra.0",
            ".part.0.cold",
            ".lto_priv.0",
            ".llvm.98",
        ] {
            let throw = parsed(&format!("__pthread_kill_implementation{suffix}"));
            assert!(throw.is_throw, "{suffix}");
            assert_eq!(&*throw.plain, "__pthread_kill_implementation");
            let language = parsed(&format!("rust_begin_unwind{suffix}"));
            assert_eq!(language.owner, Owner::Language, "{suffix}");
            let method = parsed(&format!("_ZN4till3payEi{suffix}"));
            assert_eq!(&*method.plain, "till::pay", "{suffix}");
        }
    }

    #[test]
    fn a_thunk_of_swift_is_named_by_the_types_that_it_is_for() {
        let thunk = parsed("$sSo30UIGraphicsImageRendererContextCIgg_ABIegg_TRTA");
        assert!(thunk.plain.contains("thunk for"), "{}", thunk.plain);
    }

    #[test]
    fn a_frame_that_is_not_mangled_has_the_scopes_of_its_debug_information() {
        let frames = [("pay", "till::pay(int)"), ("pay", "shop::pay(int)")];
        for (mangled, function) in frames {
            let found = name(&SourceFrame::named(mangled, function));
            assert_eq!(&*found.plain, function.strip_suffix("(int)").unwrap());
        }
    }

    #[test]
    fn a_lambda_has_the_function_that_holds_it() {
        for (caller, expected) in [
            (
                "std::_Function_handler<long (long), till::pay(long)::{lambda(long)#3}>::_M_invoke(std::_Any_data const&, long&&)",
                "till::pay::{lambda}::operator()",
            ),
            (
                "__invoke_r<long int, till::Shop<int, char>::pay(long int) const::<lambda(till::Number)>&, long int>",
                "till::Shop::pay::{lambda}::operator()",
            ),
            (
                "std::thread::_Invoker<std::tuple<(anonymous namespace)::pay()::{lambda()#1}> >::operator()()",
                "(anonymous namespace)::pay::{lambda}::operator()",
            ),
            (
                "__invoke_impl<int, till::pay(int)::<lambda(int)>::<lambda(int)>&, int>",
                "till::pay::{lambda}::operator()::{lambda}::operator()",
            ),
            (
                "std::_Function_handler<int (int), till::pay(int)::{lambda(int)#3}::operator()(int) const::{lambda(int)#2}>::_M_invoke()",
                "till::pay::{lambda}::operator()::{lambda}::operator()",
            ),
            ("std::sort<int*>(int*, int*)", "operator()"),
        ] {
            let mut frames = ["operator()", caller].map(|name| SourceFrame::named(name, name));
            name_lambdas(&mut frames);
            assert_eq!(&*name(&frames[0]).plain, expected);
        }
    }

    #[test]
    fn merged_code_and_labels_of_subscripts_show() {
        assert!(parsed("$s4main5loadAyySiFTm").is_merged);
        assert!(parsed("merged loadA(_:)").is_merged);
        assert!(!parsed("$s4main5loadAyySiF").is_merged);
        let both = parsed("merged shop::open, till::pay");
        assert!(!both.counts());
        assert_eq!(&*both.plain, "merged shop::open, till::pay");
        let subscripts = ["$s4main4GridV3rowS2i_tcig", "$s4main4GridV6columnS2i_tcig"];
        let [row, column] = subscripts.map(|name| parsed(name).plain.clone());
        assert_eq!(&*row, "Grid.subscript(row:).getter");
        assert_eq!(&*column, "Grid.subscript(column:).getter");
    }
}
