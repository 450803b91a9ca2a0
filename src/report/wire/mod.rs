//! The two serde adaptors that a report needs: one fills a fixed buffer, one reads untrusted bytes.

pub(crate) mod fields;
mod fit;
pub(crate) mod lenient;
mod part;
pub(crate) mod section;

/// The field of a section that has the keys which this version does not know. In bytes they stand among the
/// others.
pub(crate) const EXTRA: &str = "extra";
/// The name under which `rmp-serde` knows an extension value.
pub(crate) const EXTENSION: &str = rmp_serde::MSGPACK_EXT_STRUCT_NAME;
/// The name of a value that may be of another type than expected, and is then as if it were missing.
pub(crate) const TRIED: &str = "wedjat::Tried";
/// The field that has a stack: a frame in it that can't be read is a gap.
const FRAMES: &str = "frames";
/// Structs that are arrays in bytes, and how many elements each has at least; those after its fields are skipped.
const ROWS: [(&str, u32); 5] = [
    ("Frame", 3),
    ("Omitted", 2),
    ("Breadcrumb", 2),
    ("Mark", 2),
    ("AsyncChain", 2),
];

/// Returns how many elements a struct of [`ROWS`] has at least; `None` for any other.
fn row(name: &str) -> Option<u32> {
    let row = ROWS.iter().find(|(row, _)| *row == name);
    row.map(|(_, least)| *least)
}
