//! Reads DWARF, SymCaches and symbols of one debug file: an address becomes functions, files and lines.

pub(super) mod checked_units;
pub(super) mod convert;
pub(super) mod debug_file;
pub(super) mod direct;
pub(super) mod dwarf;
pub(super) mod instructions;
pub(super) mod lines;
pub(super) mod names;
pub(super) mod names_by_code;
pub(super) mod roots;
pub(super) mod scopes;
pub(super) mod split;
pub(super) mod symbols;
pub(super) mod symcache;
pub(super) mod units;
