//! `image`: one executable or library.

use super::optional_text;
use crate::report::encode::MapEncoder;

/// What an `image` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImageView<'a> {
    /// Its path.
    pub name: &'a str,
    /// UUID or build id; empty if it has none.
    pub id: &'a [u8],
    /// Where it lies in memory (avma of the stated base).
    pub base: u64,
    /// Where its file says it lies (svma).
    pub stated: u64,
    /// Bytes from `base` to the end of its last segment.
    pub size: u64,
    /// `arm64`, `arm64e`, `x86_64`.
    pub arch: Option<&'a str>,
    /// Hash of the executable section, for images without an id.
    pub text_hash: Option<&'a [u8]>,
}

impl ImageView<'_> {
    pub(crate) const KIND: &'static str = "image";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        m.bin("id", self.id);
        m.unsigned("base", self.base);
        m.unsigned("stated", self.stated);
        m.unsigned("size", self.size);
        optional_text(m, "arch", self.arch);
        if let Some(hash) = self.text_hash {
            m.bin("text_hash", hash);
        }
        m.text("name", self.name);
    }
}
