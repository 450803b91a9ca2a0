//! Swift's mangled names: a parser to a tree, a printer of the simplified form, and what the tree says of the code.
//!
//! It reads the grammar of Swift 4 to 6 (`$s`, `$S`, `_T0`, Embedded Swift's `$e`, macro files `@__swiftmacro_`) and names
//! of classes and protocols in the Objective-C runtime (`_TtC`, `_TtP`), each also with one `_` before it, as the symbols of
//! Mach-O have it. Function names of Swift 1 to 3 (until 2017) are not read.
//! [`SwiftName::simplified`] is the form that Xcode, lldb and Apple's crash texts show, and which is closest to what was
//! written: `Loader.refresh()`, `closure #1 in openScreen(_:)`, `specialized Store.read(_:)`.
//!
//! The grammar is described by Swift's own documentation (`docs/ABI/Mangling.rst`) and by its demangler, which is the reference
//! for what is printed. A name that is damaged, or that needs what it refers to in memory (symbolic references), is
//! none; none is shortened or guessed.
//!
//! Names are a stranger's. Nodes, text and time of a name are at most a small multiple of its length, text is at most 16
//! KB, and no reader goes deeper than a few hundred levels. There is no `unsafe` here, and nothing is used but Rust's
//! library: the module can be lifted out as it is.

mod full;
mod identifier;
mod kind;
mod objc;
mod parse;
mod print;
mod summary;
pub(crate) mod text;
mod tree;

pub(crate) use summary::{Role, Summary};
use tree::{Id, Tree};

/// Beginnings of names of Swift 4 and later.
const PREFIXES: [&str; 5] = ["$s", "$S", "$e", "_T0", "@__swiftmacro_"];

/// A parsed name.
pub(crate) struct SwiftName {
    tree: Tree,
    root: Id,
}

impl SwiftName {
    /// Parses a mangled name; `None` for any other, and for a damaged one.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (tree, root) = match split_prefix(name) {
            Some((prefix, rest)) => parse::parse(rest, prefix == "_T0")?,
            None => objc::parse(
                name.strip_prefix("__Tt")
                    .or_else(|| name.strip_prefix("_Tt"))?,
            )?,
        };
        Some(Self { tree, root })
    }

    /// Returns true for a name that begins as those of Swift 4 and later do.
    pub(crate) fn is_prefixed(name: &str) -> bool {
        split_prefix(name).is_some()
    }

    /// Returns true for the name of a type in the Objective-C runtime. A C function's name may begin in the same way.
    pub(crate) fn is_type(name: &str) -> bool {
        let is_marked = name.starts_with("_Tt") || name.starts_with("__Tt");
        is_marked && Self::parse(name).is_some()
    }

    /// The simplified form.
    pub(crate) fn simplified(&self) -> Option<String> {
        print::text(&self.tree, self.root).filter(|text| !text.is_empty())
    }

    /// Facts of the code that the name is of.
    pub(crate) fn summary(&self) -> Summary {
        summary::summary(&self.tree, self.root)
    }

    /// The name of the declaration alone, as debug information has it: `init`, `add`, `subscript`.
    pub(crate) fn base_name(&self) -> Option<&str> {
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

#[cfg(test)]
mod tests;
