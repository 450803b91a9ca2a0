//! The desk: turns reports into functions, files and lines.
#![allow(dead_code)]

mod addresses;
mod bytes;
mod cache;
#[doc(hidden)]
pub mod command;
mod debug_file;
mod debug_files;
#[cfg(feature = "debuginfod")]
mod debuginfod;
mod dwarf;
mod error;
pub mod foreign;
pub mod format;
mod frame;
pub mod group;
mod names;
mod object_file;
mod overlay;
mod pc;
mod symbolicator;
mod symbols;
mod table;

pub use addresses::{Addresses, Ambiguous};
pub use cache::Cache;
pub use debug_files::{Added, DebugFiles};
#[cfg(feature = "debuginfod")]
pub use debuginfod::Debuginfod;
pub use error::Error;
pub use frame::{
    Frame, Missing, PhysicalFrame, Source, Stack, Symbolicated, id_text, image_file_name,
};
pub use pc::Pc;
pub use symbolicator::Symbolicator;
