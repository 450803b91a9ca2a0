//! Executables and libraries.

use super::Extra;

/// One loaded image (executable or library).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Image {
    /// Its path.
    pub name: String,
    /// UUID (Mach-O, 16 bytes) or build id (ELF, as many bytes as the note has); empty if none.
    pub id: Vec<u8>,
    /// Where it lies in memory (avma of the stated base).
    pub base: u64,
    /// Where its file says it lies (svma): `avma - base + stated` is the address in the file.
    pub stated: u64,
    /// Bytes from `base` to the end of its last segment.
    pub size: u64,
    /// `arm64`, `arm64e` or `x86_64`.
    pub arch: Option<String>,
    /// Hash of the executable section, for images without an id.
    pub text_hash: Option<Vec<u8>>,
    /// Keys not known here.
    pub extra: Extra,
}
