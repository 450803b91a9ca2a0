//! `memory`: some bytes near what went wrong.

use super::optional_text;
use crate::report::encode::MapEncoder;

/// What a `memory` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct NearMemoryView<'a> {
    /// `pc`, `address`, `stack`, or a register's name.
    pub of: &'a str,
    /// Where `bytes` or `text` begins (avma).
    pub at: u64,
    /// The bytes; empty for a text.
    pub bytes: &'a [u8],
    /// A C string, without its zero.
    pub text: Option<&'a str>,
}

impl NearMemoryView<'_> {
    pub(crate) const KIND: &'static str = "memory";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        m.text("of", self.of);
        m.unsigned("at", self.at);
        optional_text(m, "text", self.text);
        if !self.bytes.is_empty() {
            m.bin("bytes", self.bytes);
        }
    }
}
