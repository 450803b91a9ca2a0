//! `memory`: some bytes near what went wrong.

use super::Extra;

/// Memory of the process at the time of a crash, near a place that matters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NearMemory {
    /// What lies there: `pc`, `address` (the fault's), `stack`, or the name of the register that points
    /// to it.
    pub of: String,
    /// Where `bytes`, or `text`, begins (avma).
    pub at: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// A C string that begins there, without its zero.
    pub text: Option<String>,
    /// Keys not known here.
    pub extra: Extra,
}
