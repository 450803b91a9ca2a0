//! Bounds of functions, from the symbol table of an image.
//!
//! The nearest earlier symbol is most often the wrong one in a stripped image. A symbol therefore names an
//! address only if something else than the next symbol says where its function ends: on Mach-O
//! `LC_FUNCTION_STARTS`, on ELF the symbol's size or the range of its frame description.

mod image;
mod symbol_ranges;
mod symbols;

pub use image::{ImageFile, ObjectFacts, code, has_dwarf};
#[cfg(feature = "symbolicate")]
pub use symbol_ranges::{MAX_SYMBOLS, Symbol, all_symbols};
#[cfg(feature = "symbolicate")]
pub use symbols::Named;
pub use symbols::Symbols;
