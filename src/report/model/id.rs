//! UUIDs and build ids as people write them.

/// A UUID with hyphens for Mach-O's 16 bytes, else hexadecimal digits.
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
