//! The bytes that a table was made of, by a sum: an id and a size are what anyone may give his own file.
//!
//! The sum has a key that only this user can read, and each table another one. So nobody can make a file that has the sum of
//! another's.

use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};

use crate::symbolicate::files::bytes::SharedBytes;

/// Bytes that are summed up at a time, and then dropped from memory.
const BLOCK: usize = 1 << 20;
const KEY: usize = 32;
const SUM: usize = 8;

/// A key, and the sum of a file by it.
pub(super) struct MadeOf {
    key: [u8; KEY],
    sum: u64,
}

impl MadeOf {
    /// Of a file, by a new key.
    pub(super) fn new(bytes: &SharedBytes) -> MadeOf {
        let random = || RandomState::new().build_hasher().finish();
        let words: [u64; KEY / 8] = std::array::from_fn(|_| random());
        let mut key = [0; KEY];
        for (part, word) in key.chunks_mut(8).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        let sum = sum(&key, bytes);
        MadeOf { key, sum }
    }

    /// What [`to_bytes`](MadeOf::to_bytes) wrote, and what follows it.
    pub(super) fn split(content: &SharedBytes) -> Option<(MadeOf, SharedBytes)> {
        let (key, rest) = content.split_first_chunk::<KEY>()?;
        let (sum, _) = rest.split_first_chunk::<SUM>()?;
        let made_of = MadeOf {
            key: *key,
            sum: u64::from_le_bytes(*sum),
        };
        Some((made_of, content.part(KEY + SUM..content.len())?))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        [&self.key[..], &self.sum.to_le_bytes()].concat()
    }

    /// Returns true if these are the bytes.
    pub(super) fn is(&self, bytes: &SharedBytes) -> bool {
        sum(&self.key, bytes) == self.sum
    }
}

/// By SipHash, which the key makes unforgeable.
fn sum(key: &[u8], bytes: &SharedBytes) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    for (index, block) in bytes.chunks(BLOCK).enumerate() {
        hasher.write(block);
        bytes.drop_pages_of(index * BLOCK..(index + 1) * BLOCK);
    }
    hasher.finish()
}
