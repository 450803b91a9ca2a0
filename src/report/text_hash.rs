//! A hash of an image's text, which identifies a build whose linker left no build id.

use super::checksum::crc32;

/// Bytes of the text that are hashed: about a millisecond's work.
const HASHED: usize = 1 << 20;

/// The `text_hash` of an image, of `text`, the bytes that its file has of its first executable segment:
/// the CRC-32 of the first MiB of them, then how many there are as 64 bits, both big-endian.
pub(crate) fn text_hash(text: &[u8]) -> [u8; 12] {
    let mut hash = [0; 12];
    let (sum, length) = hash.split_at_mut(4);
    let first = text.get(..HASHED).unwrap_or(text);
    sum.copy_from_slice(&crc32(0, first).to_be_bytes());
    length.copy_from_slice(&(text.len() as u64).to_be_bytes());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_has_sum_and_length() {
        let hash = text_hash(b"123456789");
        assert_eq!(hash, [0xcb, 0xf4, 0x39, 0x26, 0, 0, 0, 0, 0, 0, 0, 9]);
        // Only the length counts behind the first MiB.
        let long = vec![1; HASHED + 1];
        assert_eq!(text_hash(&long)[..4], text_hash(&long[..HASHED])[..4]);
    }
}
