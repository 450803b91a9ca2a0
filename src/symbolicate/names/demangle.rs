//! Mangled names of every language in their source form, under one bound for all.
//!
//! Names are a stranger's: they are as long as a file, they double with each letter, and a parser that tries one way
//! after another takes twice as long for each. So the work on a name grows with its length alone, and what is kept of it
//! is cut at [`NAME_BYTES`].

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use cpp_demangle::error::Error;
use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};
use swift_name::SwiftName;

use super::plain::{plain_name, without_clones, without_hash};
use crate::symbolicate::frame::{NAME_BYTES, bounded};

/// The longest name that is demangled. C++'s are up to 20 KB.
pub(crate) const MAX_MANGLED: usize = 64 * 1024;

/// Parts of a C++ name that are printed: it can repeat parts of itself that print nothing.
const MAX_PARTS: usize = 1 << 15;

/// The language of a mangling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mangling {
    Swift,
    /// Rust's and C++'s: the older one of Rust's is C++'s, with `17h` and a hash at its end.
    Itanium,
    Rust,
}

impl Mangling {
    /// The mangling that a name shows.
    pub(crate) fn of(name: &str) -> Option<Self> {
        if swift_name::is_mangled(name) {
            return Some(Self::Swift);
        }
        // Its path begins with one of these letters: `_Rb_tree` is of C++'s library, and as plain as can be.
        let rust = |path: &str| path.starts_with(['C', 'M', 'X', 'Y', 'N', 'I', 'B']);
        if name.strip_prefix("_R").is_some_and(rust) {
            return Some(Self::Rust);
        }
        let itanium = ["_Z", "__Z", "___Z", "____Z", "_GLOBAL__"];
        let is_itanium = itanium.iter().any(|prefix| name.starts_with(prefix));
        is_itanium.then_some(Self::Itanium)
    }
}

/// A mangled Rust, C++ or Swift name in its source form, any other as it is; cut at [`NAME_BYTES`].
pub(crate) fn demangle(name: &str) -> Cow<'_, str> {
    // What compilers add to a name stays behind its source form.
    let (front, suffixes) = name.split_at(without_clones(name).len());
    let suffixes = Some(suffixes).filter(|suffixes| !suffixes.is_empty());
    let suffixes = suffixes.map_or(String::new(), |suffixes| format!(" ({suffixes})"));
    let with_suffixes = |text: String| text + &suffixes;
    let demangled = Mangling::of(name)
        .filter(|_| name.len() <= MAX_MANGLED)
        .and_then(|mangling| match mangling {
            Mangling::Swift => swift_name::simplified(name),
            Mangling::Rust => rust(front).map(with_suffixes),
            Mangling::Itanium if name.contains("17h") => {
                rust(front).or_else(|| cpp(front)).map(with_suffixes)
            }
            Mangling::Itanium => cpp(front).map(with_suffixes),
        });
    match demangled {
        Some(text) if text.len() > NAME_BYTES => Cow::Owned(bounded(&text).into_owned()),
        Some(text) => Cow::Owned(text),
        None => bounded(name),
    }
}

fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let text = Bounded::text_of(name, |out| fmt::write(out, format_args!("{demangled:#}")))?;
    // The older mangling has no `-`.
    Some(text.replace(" .> ", " -> "))
}

fn cpp(name: &str) -> Option<String> {
    // Some linkers tell local symbols apart by a hash.
    let name = without_hash(name, "$", 32);
    name.trim_start_matches('_').strip_prefix('Z')?;
    let symbol = parsed(name)?;
    let options = DemangleOptions::new().recursion_limit(192);
    let text = Bounded::text_of(name, |out| symbol.structured_demangle(out, &options))?;
    // `{virtual override thunk({offset(-8)}, till::Cart::pay(int))}`, which all others call a thunk to the function.
    let thunk = text.strip_prefix("{virtual override thunk({");
    let thunk = thunk.and_then(|rest| rest.strip_suffix(")}")?.split_once("}, "));
    let kind = |offset: &str| ["non-virtual", "virtual"][usize::from(offset.starts_with('v'))];
    let thunk = thunk.map(|(offset, function)| format!("{} thunk to {function}", kind(offset)));
    Some(thunk.unwrap_or(text))
}

/// Levels of recursion that nearly all C++ names need: of 244,000 of LLVM and of C++'s library 98 %.
const USUAL_DEPTH: u32 = 40;
/// Bytes of all names for each of a deeper one that is none; every process may have a few.
const FAILED_SHARE: i64 = 256;

/// Parses a C++ name. The parser tries one production after another, and tries again within what it tries: it takes 0.5 µs and
/// 250 bytes of memory for each byte of a name, and for what is none twice as much for each five levels from [`USUAL_DEPTH`] on, up
/// to a thousand times. So deep names that turn out to be none have a share of the bytes of all names; once it is used up, deep
/// ones stay mangled. (Of those 244,000 seven are none.)
fn parsed(name: &str) -> Option<Symbol<&str>> {
    static CREDIT: AtomicI64 = AtomicI64::new(2048 * FAILED_SHARE);
    let credit = CREDIT.fetch_add(name.len() as i64, Relaxed);
    let limit = |levels| ParseOptions::default().recursion_limit(levels);
    let first = Symbol::new_with_options(name, &limit(USUAL_DEPTH));
    if credit <= 0 || !matches!(first, Err(Error::TooMuchRecursion)) {
        return first.ok();
    }
    // The longer one is, the fewer, in steps of four times 256 bytes.
    let fewer = (name.len() / 256).checked_ilog(4).unwrap_or(0);
    let deep = Symbol::new_with_options(name, &limit((64 - 8 * fewer).max(USUAL_DEPTH)));
    if !matches!(deep, Ok(_) | Err(Error::TooMuchRecursion)) {
        CREDIT.fetch_sub(name.len() as i64 * FAILED_SHARE, Relaxed);
    }
    deep.ok()
}

/// Room for a name that has to be cut.
const UNCUT_BYTES: usize = NAME_BYTES + 4;

/// A text that ends a little after [`NAME_BYTES`].
struct Bounded {
    text: String,
    parts: usize,
    is_full: bool,
}

impl Bounded {
    /// The text that is written of a mangled name, whole or cut; `None` where the writer failed otherwise.
    fn text_of(name: &str, write: impl FnOnce(&mut Self) -> fmt::Result) -> Option<String> {
        let mut out = Bounded {
            // A text is seldom more than twice as long as its name.
            text: String::with_capacity(UNCUT_BYTES.min(name.len() * 2)),
            parts: 0,
            is_full: false,
        };
        match write(&mut out) {
            Ok(()) => Some(out.text),
            // One byte more than fits: the cut ends with an ellipsis.
            Err(_) => out.is_full.then(|| bounded(&out.text).into_owned()),
        }
    }
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(fmt::Error);
        }
        let room = UNCUT_BYTES - self.text.len();
        self.is_full = text.len() > room;
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
        (!self.is_full).then_some(()).ok_or(fmt::Error)
    }
}

/// Returns true if a mangled symbol and the plain name that debug information has may be one function:
/// the last part of the symbol's path is that name.
pub(crate) fn agree(symbol: &str, plain: &str) -> bool {
    if symbol == plain {
        return true;
    }
    if Mangling::of(symbol) == Some(Mangling::Swift) {
        let name = SwiftName::parse(symbol);
        let plain = plain.split('(').next().unwrap_or(plain);
        return name.is_some_and(|name| name.base_name() == Some(plain));
    }
    let demangled = demangle(symbol);
    // `operator< <int>` and `operator<<int>` are one.
    let last = |name: &str| {
        let name = plain_name(name);
        let last = name.rsplit("::").next().unwrap_or_default();
        last.replace(' ', "")
    };
    last(&demangled) == last(plain)
}

#[cfg(test)]
mod tests;
