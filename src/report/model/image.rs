//! Executables and libraries.

use serde::{Deserialize, Serialize};

use super::hold::{Hold, Owned, Owning};
use crate::report::wire::fields::{Address, As, bytes, extra, image_id, lenient};

/// One loaded image (executable or library).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Image<H: Hold = Owned> {
    /// UUID (Mach-O, 16 bytes) or build id (ELF, as many bytes as the note has).
    /// *else empty: it has none*
    #[serde(with = "image_id")]
    pub id: H::Bytes,
    /// Base address in memory.
    /// *always; avma*
    #[serde(with = "As::<Address>")]
    pub base: u64,
    /// Base address that its file states.
    /// *always; svma*
    #[serde(with = "As::<Address>")]
    pub stated: u64,
    /// From `base` to the end of its last segment.
    /// *always; bytes*
    #[serde(deserialize_with = "lenient")]
    pub size: u64,
    /// `arm64`, `arm64e`, `x86_64`.
    /// *else that of `head`*
    #[serde(deserialize_with = "lenient")]
    pub arch: Option<H::Text>,
    /// For images without an id: CRC-32 of the first MiB (or less) that the file has of its first executable
    /// segment, then the bytes of all of that segment in the file, as 4 and 8 bytes, big-endian.
    /// *else none; 12 bytes*
    #[serde(with = "bytes::optional")]
    pub text_hash: Option<H::Bytes>,
    /// Its path.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub name: H::Text,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}
