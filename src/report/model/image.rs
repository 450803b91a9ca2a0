//! Executables and libraries.

use serde::{Deserialize, Serialize};

use super::hold::{Hold, Owned, Owning};
use crate::report::wire::fields::{address, bytes, extra, image_id, lenient};

/// One loaded image (executable or library).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Image<H: Hold = Owned> {
    /// UUID (Mach-O, 16 bytes) or build id (ELF, as many bytes as the note has); empty if none.
    #[serde(with = "image_id")]
    pub id: H::Bytes,
    /// Where it lies in memory (avma of the stated base).
    #[serde(with = "address")]
    pub base: u64,
    /// Where its file says it lies (svma): `avma - base + stated` is the address in the file.
    #[serde(with = "address")]
    pub stated: u64,
    /// Bytes from `base` to the end of its last segment.
    #[serde(deserialize_with = "lenient")]
    pub size: u64,
    /// `arm64`, `arm64e` or `x86_64`.
    #[serde(deserialize_with = "lenient")]
    pub arch: Option<H::Text>,
    /// Hash of the executable section, for images without an id.
    #[serde(with = "bytes::optional")]
    pub text_hash: Option<H::Bytes>,
    /// Its path.
    #[serde(deserialize_with = "lenient")]
    pub name: H::Text,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

/// How people write an id: a UUID with hyphens for Mach-O's 16 bytes, else hexadecimal digits.
pub(crate) struct IdText<'a>(pub(crate) &'a [u8]);

impl std::fmt::Display for IdText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_uuid = self.0.len() == 16;
        for (index, byte) in self.0.iter().enumerate() {
            match is_uuid {
                true if matches!(index, 4 | 6 | 8 | 10) => write!(f, "-{byte:02X}")?,
                true => write!(f, "{byte:02X}")?,
                false => write!(f, "{byte:02x}")?,
            }
        }
        Ok(())
    }
}
