//! Executables and libraries, by address too, and memory near a crash.

use super::Extra;
use crate::report::limits::IMAGE_BYTES;
use crate::report::wire::fields::{Address, As, bytes, extra, image_id, lenient};

section! {
    /// One loaded image (executable or library).
    #[derive(Default)]
    Image, ImageView<'a> {
        /// UUID (Mach-O, 16 bytes) or build id (ELF, as many bytes as the note has).
        /// *else empty: it has none*
        #[serde(with = "image_id")]
        id: Vec<u8> as &'a [u8],
        /// Base address in memory.
        /// *always; avma*
        #[serde(with = "As::<Address>")]
        base: u64,
        /// Base address that its file states.
        /// *always; svma*
        #[serde(with = "As::<Address>")]
        #[serde(rename = "stated")]
        base_svma: u64,
        /// From `base` to the end of its last segment.
        /// *always; bytes*
        #[serde(deserialize_with = "lenient")]
        size: u64,
        /// `arm64`, `arm64e`, `x86_64`.
        /// *else that of `head`*
        #[serde(deserialize_with = "lenient")]
        arch: Option<String> as Option<&'a str>,
        /// For images without an id, two big-endian numbers: 4 bytes with the CRC-32 of the first MiB (or less) of the
        /// first executable segment, as it is in the file; 8 bytes with the segment's size in the file.
        /// *else none; 12 bytes*
        #[serde(with = "bytes::optional")]
        text_hash: Option<Vec<u8>> as Option<&'a [u8]>,
        /// Its path.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        name: String as &'a str,
    }
}

section! {
    /// Memory of the process at the time of a crash, near a place that matters.
    #[derive(Default)]
    NearMemory, NearMemoryView<'a> {
        /// `pc`, `address` (the fault's), `stack` (from below the stack pointer upwards), or the name of the
        /// register that points to a text. If the kernel forbids core dumps of the process (set-user-id, file capabilities),
        /// the only `memory` section has `withheld` here, the reason as `text`, 0 as `at`.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        of: String as &'a str,
        /// Address of the first byte of `bytes` or `text`.
        /// *always; avma*
        #[serde(with = "As::<Address>")]
        at: u64,
        /// A C string, without its zero; cut after 255 bytes.
        /// *else bytes alone*
        #[serde(deserialize_with = "lenient")]
        text: Option<String> as Option<&'a str>,
        /// The bytes: at most 128 for `pc` and `address`, 1024 for `stack`.
        /// *else a text alone*
        #[serde(with = "bytes")]
        bytes: Vec<u8> as &'a [u8],
    }
}

/// The images of a report in order of address: base, end and index. An image without a size ends where the next one begins.
#[derive(Debug, Default)]
pub(crate) struct ImageIndex(pub Vec<(u64, u64, u32)>);

impl ImageIndex {
    pub fn new(images: &[Image]) -> ImageIndex {
        let images = images.iter().zip(0..);
        let range =
            |(image, at): (&Image, u32)| (image.base, image.base.saturating_add(image.size), at);
        let mut ranges: Vec<_> = images.map(range).collect();
        ranges.sort_unstable();
        let mut next = u64::MAX;
        for (base, end, _) in ranges.iter_mut().rev() {
            if *end == *base && *base != 0 {
                *end = next.min(base.saturating_add(IMAGE_BYTES));
            }
            next = *base;
        }
        ImageIndex(ranges)
    }

    /// The index of the image at an address.
    pub fn at(&self, address: u64) -> Option<u32> {
        let after = self.0.partition_point(|(base, ..)| *base <= address);
        let (_, end, index) = *self.0.get(after.checked_sub(1)?)?;
        (address < end).then_some(index)
    }
}
