//! From an address to the entry that covers it: the linker's search table, or one made here.

use std::ops::Range;

use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection};

use crate::capture::images::Section;

/// Where the entry for an address stands.
#[derive(Debug)]
pub(super) enum Index {
    /// The binary search table of `.eh_frame_hdr`: pairs of (start, entry), 32-bit offsets from
    /// the header's own address.
    Header {
        header: Section,
        table: Range<usize>,
    },
    /// Made here: (start, offset of the entry), sorted.
    Built(Vec<(u64, u32)>),
}

impl Index {
    /// Of no entries.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn none() -> Index {
        Index::Built(Vec::new())
    }

    /// That of a header where it can be used, or else one made of the section; `None` where there
    /// is nothing in either.
    pub(super) fn new(
        header: Option<Section>,
        section: &Section,
        bases: &BaseAddresses,
    ) -> Option<Index> {
        if let Some((header, table)) = header.and_then(header_table) {
            return Some(Index::Header { header, table });
        }
        let entries = build_index(section, bases);
        (!entries.is_empty()).then_some(Index::Built(entries))
    }

    /// The offset in the section, which lies at `section`, of the last entry that begins at or
    /// before an address. Signal-safe.
    pub(super) fn entry(&self, svma: u64, section: u64) -> Option<usize> {
        match self {
            Index::Built(entries) => {
                let after = entries.partition_point(|entry| entry.0 <= svma);
                entries
                    .get(after.checked_sub(1)?)
                    .map(|entry| entry.1 as usize)
            }
            Index::Header { header, table } => {
                let (pairs, _) = header.bytes.get(table.clone())?.as_chunks::<8>();
                let first =
                    |pair: &[u8; 8]| i32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]);
                let wanted = i32::try_from(svma.wrapping_sub(header.svma) as i64).ok()?;
                let (mut low, mut high) = (0, pairs.len());
                while low < high {
                    let middle = low + (high - low) / 2;
                    if first(pairs.get(middle)?) <= wanted {
                        low = middle + 1
                    } else {
                        high = middle
                    }
                }
                let pair = pairs.get(low.checked_sub(1)?)?;
                let entry = i32::from_le_bytes([pair[4], pair[5], pair[6], pair[7]]);
                let entry = header.svma.wrapping_add_signed(i64::from(entry));
                usize::try_from(entry.checked_sub(section)?).ok()
            }
        }
    }
}

/// The search table of a header, if it is of the shape that linkers make: a version of 1, the
/// count as 4 bytes, entries relative to the header in 4 signed bytes each.
fn header_table(header: Section) -> Option<(Section, Range<usize>)> {
    const SDATA4_DATAREL: u8 = 0x3b;
    const UDATA4: u8 = 0x03;
    let pointer_size = match header.bytes.get(1)? & 0x0f {
        0x03 | 0x0b => 4,
        0x04 | 0x0c => 8,
        _ => return None,
    };
    let known = header.bytes.first() == Some(&1)
        && header.bytes.get(2) == Some(&UDATA4)
        && header.bytes.get(3) == Some(&SDATA4_DATAREL);
    if !known {
        return None;
    }
    let at = 4 + pointer_size;
    let count = u32::from_le_bytes(header.bytes.get(at..at + 4)?.try_into().ok()?) as usize;
    let start = at + 4;
    let end = start.checked_add(count.checked_mul(8)?)?;
    let table = start..end.min(header.bytes.len());
    Some((header, table))
}

fn build_index(section: &Section, bases: &BaseAddresses) -> Vec<(u64, u32)> {
    let mut frames = EhFrame::new(&section.bytes, LittleEndian);
    frames.set_address_size(8);
    let mut index = Vec::new();
    let mut entries = frames.entries(bases);
    // What stands before a broken entry is kept.
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        if let Ok(entry) = partial.parse(EhFrame::cie_from_offset)
            && let Ok(offset) = u32::try_from(entry.offset())
        {
            index.push((entry.initial_address(), offset));
        }
    }
    index.sort_unstable();
    index
}

/// Where `.eh_frame` lies, as `.eh_frame_hdr` says.
#[cfg(target_os = "linux")]
pub(crate) fn eh_frame_of(header: &Section) -> Option<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(header.svma);
    let parsed = gimli::EhFrameHdr::new(&header.bytes, LittleEndian)
        .parse(&bases, 8)
        .ok()?;
    match parsed.eh_frame_ptr() {
        gimli::Pointer::Direct(address) => Some(address),
        gimli::Pointer::Indirect(_) => None,
    }
}
