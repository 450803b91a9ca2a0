//! The two serde adaptors that a report needs: one fills a fixed buffer, one reads untrusted bytes.
// Signal-safe code writes, and untrusted bytes are read: nothing in these modules can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

pub(crate) mod fields;
mod fit;
pub(crate) mod lenient;
mod part;
pub(crate) mod section;

/// The field of a section that has the keys which this version does not know. In bytes they stand among the
/// others.
pub(crate) const EXTRA: &str = "extra";
/// The variant for a word that this version does not know. The word itself is among the unknown keys.
const OTHER: &str = "other";
/// The name under which `rmp-serde` knows an extension value.
pub(crate) const EXTENSION: &str = rmp_serde::MSGPACK_EXT_STRUCT_NAME;
/// The name of a value that may be of another type than expected, and is then as if it were missing.
pub(crate) const TRIED: &str = "wedjat::Tried";
/// The field that has a stack: a frame in it that can't be read is a gap.
const FRAMES: &str = "frames";

/// Returns how many elements a struct that is an array in bytes has at least; those after its fields are skipped. `None`
/// for a map.
///
/// A struct is one by what its `#[serde(rename)]` says, whatever its name.
fn row(name: &str) -> Option<u32> {
    match name {
        "[2..]" => Some(2),
        "[3..]" => Some(3),
        _ => None,
    }
}
