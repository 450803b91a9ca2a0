//! CRC-32 (IEEE, as zlib's) that can be carried on: tables are constants, so a signal handler may use it.

use crc::{CRC_32_ISO_HDLC, Crc, Table};

static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// The CRC-32 of some bytes followed by `bytes`, where `before` is the CRC-32 of the former (0 for none).
///
/// As `zlib.crc32(bytes, before)`. Signal-safe: tables are in read-only data, nothing is set up at
/// first use.
pub(crate) fn crc32(before: u32, bytes: &[u8]) -> u32 {
    // The register after `before` is its complement, and `crc` takes it bit-reversed.
    let mut digest = CRC32.digest_with_initial((!before).reverse_bits());
    digest.update(bytes);
    digest.finalize()
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
}
