//! Swift's mangled names: a parser, a printer of the simplified form, and a summary of the code that a name is of.
//!
//! ```
//! use swift_name::{Role, SwiftName};
//!
//! let name = SwiftName::parse("$s4shop8checkoutyySiFyyXEfU_TA").expect("a name of Swift");
//! assert_eq!(name.simplified().as_deref(), Some("partial apply for closure #1 in checkout(_:)"));
//! let summary = name.summary();
//! assert_eq!((summary.role, summary.module.as_deref()), (Role::Closure, Some("shop")));
//! assert_eq!(summary.function.as_deref(), Some("closure in checkout(_:)"));
//!
//! assert_eq!(swift_name::simplified("_ZN4shop8checkoutEi"), None);
//! ```
//!
//! # Names that are read
//!
//! - Swift 4 to 6 (`$s`, `$S`, `_T0`), Embedded Swift (`$e`) and files of macro expansions (`@__swiftmacro_`);
//! - classes and protocols in the Objective-C runtime (`_TtC`, `_TtP`).
//!
//! Each may have one `_` before it, as the symbols of Mach-O have. Function names of Swift 1 to 3 (until 2017) are not read.
//!
//! # Contract
//!
//! - **Form.** [`SwiftName::simplified`] is the form that Xcode, lldb and Apple's crash texts show, and which is closest to the
//!   source: `Loader.refresh()`, `closure #1 in openScreen(_:)`, `specialized Store.read(_:)`. The reference for it is Swift's own
//!   demangler (`swift-demangle -simplified`), which leaves out two things that are here: the labels of a subscript before the name
//!   of its accessor (`Grid.subscript(row:).getter`), and that the compiler merged several functions (`merged Cart.total()`). The
//!   grammar is that of Swift's `docs/ABI/Mangling.rst`.
//! - **Whole or nothing.** A name that is damaged, or that refers to the program's memory (symbolic references), gives `None`. No
//!   name is shortened or guessed.
//! - **Bounds.** Names are untrusted input. Nodes, text and time of a name are at most a small multiple of its length, its text is
//!   at most 16 KB, and recursion ends after a few hundred levels. No input panics.
//! - **No state.** Nothing is kept between two names. The crate has no `unsafe` code and no dependency.

#![forbid(unsafe_code)]

mod identifier;
mod kind;
mod objc;
mod parse;
mod print;
mod summary;
mod tree;

pub use summary::{Role, Summary};
use tree::{Id, Tree};

/// Beginnings of names of Swift 4 and later.
const PREFIXES: [&str; 5] = ["$s", "$S", "$e", "_T0", "@__swiftmacro_"];

/// A mangled name in the simplified form; `None` for any other name, and for a damaged one.
///
/// ```
/// let name = "$s4shop4CartC3add_2toySi_AA5ShelfCtF";
/// assert_eq!(swift_name::simplified(name).as_deref(), Some("Cart.add(_:to:)"));
/// ```
pub fn simplified(name: &str) -> Option<String> {
    SwiftName::parse(name)?.simplified()
}

/// Returns true if a name is a mangled Swift name. The prefix decides, so a damaged name counts. A name with `_Tt` must also
/// parse, as C functions may begin with `_Tt`.
///
/// ```
/// assert!(swift_name::is_mangled("$s4shop8checkoutyyF"));
/// assert!(!swift_name::is_mangled("_TtCursorOpen"));
/// ```
pub fn is_mangled(name: &str) -> bool {
    let is_type = || name.starts_with("_Tt") || name.starts_with("__Tt");
    split_prefix(name).is_some() || is_type() && SwiftName::parse(name).is_some()
}

/// A parsed name.
#[derive(Debug, Clone)]
pub struct SwiftName {
    tree: Tree,
    root: Id,
}

impl SwiftName {
    /// Parses a mangled name; `None` for any other, and for a damaged one.
    pub fn parse(name: &str) -> Option<Self> {
        let (tree, root) = match split_prefix(name) {
            Some((prefix, rest)) => parse::parse(rest, prefix == "_T0")?,
            None => objc::parse(
                name.strip_prefix("__Tt")
                    .or_else(|| name.strip_prefix("_Tt"))?,
            )?,
        };
        Some(Self { tree, root })
    }

    /// The simplified form; `None` if it would be longer than 16 KB.
    pub fn simplified(&self) -> Option<String> {
        print::text(&self.tree, self.root).filter(|text| !text.is_empty())
    }

    /// The module, the function and the kind of the code that the name is of.
    pub fn summary(&self) -> Summary {
        summary::summary(&self.tree, self.root)
    }

    /// The name of the declaration alone, as debug information has it: `init`, `add`, `subscript`.
    pub fn base_name(&self) -> Option<&str> {
        summary::base_name(&self.tree, self.root)
    }
}

/// The prefix of a name of Swift 4 and later, and what is mangled after it.
fn split_prefix(name: &str) -> Option<(&'static str, &str)> {
    let split = |name: &'_ str| -> Option<(&'static str, usize)> {
        let prefix = PREFIXES.iter().find(|prefix| name.starts_with(**prefix))?;
        Some((prefix, prefix.len()))
    };
    let (prefix, length) = split(name).or_else(|| {
        let (prefix, length) = split(name.strip_prefix('_')?)?;
        Some((prefix, length + 1))
    })?;
    Some((prefix, &name[length..]))
}

/// Compiles the example of the readme.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
