//! CRC-32 (IEEE, as zlib's) that can be carried on, and the hash of an image without a build id.
// Signal-safe: nothing here can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

use crc::{CRC_32_ISO_HDLC, Crc, Table};

/// Tables of 1 KiB each: a report has little to sum, a symbolicator sums a million reports.
type Crc32 = Crc<u32, Table<{ if cfg!(feature = "symbolicate") { 16 } else { 1 } }>>;
static CRC32: Crc32 = Crc32::new(&CRC_32_ISO_HDLC);

/// The CRC-32 of some bytes followed by `bytes`, where `before` is the CRC-32 of the former (0 for none).
///
/// As `zlib.crc32(bytes, before)`. Signal-safe: tables are in read-only data, nothing is set up at
/// first use.
#[inline(never)]
pub(crate) fn crc32(before: u32, bytes: &[u8]) -> u32 {
    // The register after `before` is its complement, and `crc` takes it bit-reversed.
    let mut digest = CRC32.digest_with_initial((!before).reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

/// The `text_hash` of an image, of `text`, the bytes that its file has of its first executable segment:
/// the CRC-32 of the first MiB of them, then how many there are as 64 bits, both big-endian.
#[cfg(any(target_os = "linux", feature = "symbolicate", test))]
pub(crate) fn text_hash(text: &[u8]) -> [u8; 12] {
    /// Some milliseconds' work.
    const HASHED: usize = 1 << 20;
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

    /// The check value of the CRC catalogue.
    #[test]
    fn a_sum_can_be_carried_on() {
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(crc32(0, b"1234"), b"56789"), 0xcbf4_3926);
    }

    #[test]
    fn a_hash_has_sum_and_length() {
        let hash = text_hash(b"123456789");
        assert_eq!(hash, [0xcb, 0xf4, 0x39, 0x26, 0, 0, 0, 0, 0, 0, 0, 9]);
        // Only the length counts after the first MiB.
        let (long, hashed) = (vec![1; (1 << 20) + 1], 1 << 20);
        assert_eq!(text_hash(&long)[..4], text_hash(&long[..hashed])[..4]);
    }
}
