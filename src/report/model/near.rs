//! `memory`: some bytes near what went wrong.

use serde::{Deserialize, Serialize};

use super::hold::{Hold, Owned, Owning};
use crate::report::wire::fields::{address, bytes, extra, lenient};

/// Memory of the process at the time of a crash, near a place that matters.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct NearMemory<H: Hold = Owned> {
    /// What lies there: `pc`, `address` (the fault's), `stack`, or the name of the register that points
    /// to it.
    #[serde(deserialize_with = "lenient")]
    pub of: H::Text,
    /// Where `bytes`, or `text`, begins (avma).
    #[serde(with = "address")]
    pub at: u64,
    /// A C string that begins there, without its zero.
    #[serde(deserialize_with = "lenient")]
    pub text: Option<H::Text>,
    /// The bytes.
    #[serde(with = "bytes")]
    pub bytes: H::Bytes,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}
