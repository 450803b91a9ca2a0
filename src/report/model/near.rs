//! `memory`: some bytes near what went wrong.

use serde::{Deserialize, Serialize};

use super::hold::{Hold, Owned, Owning};
use crate::report::wire::fields::{Address, As, bytes, extra, lenient};

/// Memory of the process at the time of a crash, near a place that matters.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct NearMemory<H: Hold = Owned> {
    /// `pc`, `address` (the fault's), `stack` (from below the stack pointer upwards), or the name of the
    /// register that points to a text.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub of: H::Text,
    /// Address of the first byte of `bytes` or `text`.
    /// *always; avma*
    #[serde(with = "As::<Address>")]
    pub at: u64,
    /// A C string, without its zero; cut after 255 bytes.
    /// *else bytes alone*
    #[serde(deserialize_with = "lenient")]
    pub text: Option<H::Text>,
    /// The bytes: at most 128 for `pc` and `address`, 1024 for `stack`.
    /// *else a text alone*
    #[serde(with = "bytes")]
    pub bytes: H::Bytes,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}
