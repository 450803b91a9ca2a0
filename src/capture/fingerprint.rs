//! Bytes of an image in memory, which change if another image takes its place.

use crate::platform::memory;
use crate::report::crc32;

/// Length and sum of bytes at an address: a build id, or the first page of code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fingerprint {
    at: u64,
    length: usize,
    sum: u32,
}

impl Fingerprint {
    /// Of `bytes`, which are at this address (avma).
    #[cfg(any(target_os = "linux", test))]
    pub fn new(at: u64, bytes: &[u8]) -> Fingerprint {
        Fingerprint {
            at,
            length: bytes.len(),
            sum: crc32(0, bytes),
        }
    }

    /// Returns true if other bytes, or none, are there now. Signal-safe.
    pub fn has_changed(&self) -> bool {
        let mut sum = 0;
        let mut chunk = [0; 512];
        for start in (0..self.length).step_by(chunk.len()) {
            let length = chunk.len().min(self.length.saturating_sub(start));
            let chunk = chunk.get_mut(..length).unwrap_or_default();
            let at = self.at.wrapping_add(start as u64);
            if memory::read(at, chunk) != length {
                // If reading is denied, the memory there is taken to be the same.
                return !memory::is_there(at);
            }
            sum = crc32(sum, chunk);
        }
        sum != self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_has_changed_once_one_of_its_bytes_has() {
        let mut bytes = vec![7u8; 5000];
        let bytes_then = Fingerprint::new(bytes.as_ptr() as u64, &bytes[..4000]);
        assert!(!bytes_then.has_changed());
        for (place, is_compared) in [(0, true), (3999, true), (4000, false)] {
            bytes[place] = 8;
            assert_eq!(bytes_then.has_changed(), is_compared, "{place}");
            bytes[place] = 7;
        }
        assert!(Fingerprint::new(8, b"nothing is mapped there").has_changed());
    }
}
