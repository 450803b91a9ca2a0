//! Rules on names, for both engines: which are incomplete, and which two mean one function. And a store of names, each made once.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::symbols::{Named, ObjectSymbols};
use crate::symbolicate::frame::{Resolved, SourceFrame, bounded};
use crate::symbolicate::memo::Memo;
use crate::symbolicate::names::demangle::{Mangling, agree, demangle};
use crate::symbolicate::names::{MERGED_PREFIX, name, name_lambdas, without_clones};

/// Returns true if a name shows that it is mangled.
pub(crate) fn is_mangled(name: &str) -> bool {
    Mangling::of(name).is_some()
}

/// A name as it is kept: as the file has it, and in its source form. All names come in here.
pub(crate) fn both_forms(name: &str) -> (Cow<'_, str>, Cow<'_, str>) {
    (bounded(name), demangle(name))
}

/// Most names that are remembered, about 256 bytes of memory each.
const MAX_NAMES: usize = 1 << 15;

/// A frame with a name as the file has it. Each is made once: in a batch every third is of a function that was named before.
pub(crate) fn named(name: &str) -> SourceFrame {
    thread_local! {
        static KNOWN: RefCell<Memo<Arc<str>, SourceFrame, MAX_NAMES>> = Default::default();
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(frame) = known.get(name) {
            return frame.clone();
        }
        let (kept, demangled) = both_forms(name);
        let frame = SourceFrame::named(&kept, &demangled);
        // One that had to be cut is another one.
        if let Some(mangled) = frame.mangled.clone().filter(|mangled| **mangled == *name) {
            known.insert(mangled, frame.clone());
        }
        frame
    })
}

/// A name or path that says something; `None` for one in whose place a bitcode build put a number.
pub(crate) fn unless_number(text: &str) -> Option<&str> {
    let name = text.rsplit(['/', '\\']).next().unwrap_or(text);
    Some(text).filter(|text| !text.is_empty() && !name.starts_with("__hidden#"))
}

/// Functions of merged code, and symbols at one address, that are looked at.
pub(crate) const MAX_MERGED: usize = 64;

/// Returns the name of code that linkers or compilers made of several equal functions, as in `merged app::draw, app::load`, from
/// their names; `None` if all are one function's.
pub(crate) fn merged<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let plain: BTreeSet<Arc<str>> = names.map(|of| name(&named(of)).plain.clone()).collect();
    let names: Vec<&str> = plain.iter().map(|name| &**name).collect();
    (names.len() > 1).then(|| format!("{MERGED_PREFIX}{}", names.join(", ")))
}

/// Returns the name of merged code from the symbols at its address. Names that are not mangled are aliases as a rule, and do not
/// count.
fn merged_symbols<'s>(symbols: impl Iterator<Item = &'s str>) -> Option<String> {
    let mangled = symbols.filter(|name| is_mangled(name)).take(MAX_MERGED);
    let mangled: Vec<&str> = mangled.collect();
    if mangled.len() < 2 {
        return None;
    }
    let without_versions = mangled.iter().filter_map(|symbol| symbol.split('@').next());
    let has_source_form = |symbol: &&str| {
        let frame = named(symbol);
        frame.function != frame.mangled
    };
    merged(without_versions.filter(has_source_form))
}

/// Gives a frame the name of another one, and leaves its file and line.
pub(crate) fn rename(frame: &mut SourceFrame, named: SourceFrame) {
    (frame.function, frame.mangled) = (named.function, named.mangled);
}

/// The answer of these frames of debug information: see [`Resolved::of`].
pub(crate) fn resolved(mut frames: Arc<[SourceFrame]>, entry: Option<u64>) -> Option<Resolved> {
    name_lambdas(Arc::get_mut(&mut frames)?);
    Resolved::of(frames, entry)
}

/// The name that a symbol gives to its function: all names of merged code.
pub(crate) fn of_symbol<'s>(symbols: &ObjectSymbols, symbol: &Named<'s>) -> Cow<'s, str> {
    let merged = merged_symbols(symbols.names_at(symbol.entry));
    merged.map_or(Cow::Borrowed(symbol.name), Cow::Owned)
}

/// The full name of the function at a link-time address: all names of merged code. Where debug information has but the plain
/// one, or none, that of the symbol at its entry that agrees; else the plain one with what a compiler added to it, as in
/// `pay.constprop.0`.
pub(crate) fn in_full<'s>(
    symbols: &'s ObjectSymbols,
    entry: u64,
    plain: Option<&str>,
) -> Option<Cow<'s, str>> {
    let names = || symbols.names_at(entry);
    let merged = merged_symbols(names()).map(Cow::Owned);
    if merged.is_some() {
        return merged;
    }
    let is_plain = !plain.is_some_and(is_mangled);
    let agrees = |symbol: &&str| {
        is_plain && plain.is_none_or(|plain| is_mangled(symbol) && agree(symbol, plain))
    };
    // Line tables of Swift name a function `name.set` where its symbol says `Cart.name.setter`.
    let swift = |symbol: &&str| is_plain && Mangling::of(symbol) == Some(Mangling::Swift);
    let clone = |symbol: &&str| Some(without_clones(symbol)) == plain;
    let suffix = |symbol: &&str| symbol.len() - without_clones(symbol).len();
    let full = names().filter(agrees).min_by_key(suffix);
    let full = full.or_else(|| names().find(swift));
    let full = full.or_else(|| names().filter(clone).min_by_key(suffix));
    full.map(Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_several_functions_has_all_names() {
        let at = |names: &[&str]| merged_symbols(names.iter().copied());
        let both = at(&["_ZN4till3payEi", "_ZN4shop4openEii"]);
        assert_eq!(both.as_deref(), Some("merged shop::open, till::pay"));
        for one in [
            // Constructors of an object and of its base, versions, generic instances, aliases.
            &["_ZN4till4CartC1Ev", "_ZN4till4CartC2Ev"][..],
            &["_ZN4till3payEi", "_ZN4till3payEi@@TILL_2"],
            &["_ZN4till3payIiEEvT_", "_ZN4till3payIjEEvT_"],
            &["_ZN4till3payEi", "till_pay", "pay"],
            &["_ZN4till3payEi"],
        ] {
            assert_eq!(at(one), None, "{one:?}");
        }
    }

    #[test]
    fn a_known_name_is_what_a_new_one_is() {
        let cut = |end: &str| "x".repeat(5000) + end;
        let all = ["main".into(), "_Z3payi".into(), cut("y"), cut("z")];
        for name in all.iter().chain(&all) {
            let (kept, demangled) = both_forms(name);
            assert_eq!(named(name), SourceFrame::named(&kept, &demangled), "{name}");
        }
    }
}
