//! From an address to the entry that covers it: the linker's search table, or one made here.

use std::ops::Range;

use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection};

use crate::capture::images::Section;

/// Where the entry for an address stands: the binary search table of `.eh_frame_hdr`, pairs of (start,
/// entry), 32-bit offsets from the header's own address.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) header: Section,
    table: Range<usize>,
    steps: Steps,
}

impl Index {
    /// That of a header where it can be used, or else one made of the section; `None` where there
    /// is nothing in either.
    pub(super) fn new(
        header: Option<Section>,
        section: &Section,
        bases: &BaseAddresses,
    ) -> Option<Index> {
        let lies_here = |header: &Section| eh_frame_of(header) == Some(section.svma);
        let linked = header.filter(lies_here).and_then(header_table);
        let linked = linked.filter(|(header, table)| {
            pairs(header, table).is_some_and(|pairs| pairs.is_sorted_by_key(start_of))
        });
        let (header, table) = match linked {
            Some(linked) => linked,
            None => header_table(built_header(section, bases)?)?,
        };
        let steps = Steps::of(pairs(&header, &table)?);
        Some(Index {
            header,
            table,
            steps,
        })
    }

    /// Where the entries' functions begin (svma), in order.
    pub(super) fn starts(&self) -> Vec<u64> {
        let pairs = pairs(&self.header, &self.table).unwrap_or(&[]).iter();
        let start = |pair| self.header.svma.wrapping_add_signed(start_of(pair).into());
        pairs.map(start).collect()
    }

    /// How many entries there are, at most.
    pub(super) fn len(&self) -> usize {
        self.table.len() / 8
    }

    /// The last entry that begins at or before an address; the section lies at `section`. Signal-safe.
    pub(super) fn entry(&self, svma: u64, section: u64) -> Option<Place> {
        let pairs = pairs(&self.header, &self.table)?;
        let wanted = i32::try_from(svma.wrapping_sub(self.header.svma) as i64).ok()?;
        let (mut low, mut high) = self.steps.around(wanted, pairs.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if start_of(pairs.get(middle)?) <= wanted {
                low = middle + 1
            } else {
                high = middle
            }
        }
        let number = low.checked_sub(1)?;
        let pair = pairs.get(number)?;
        let start = start_of(pair);
        let [.., a, b, c, d] = *pair;
        let entry = i32::from_le_bytes([a, b, c, d]);
        let entry = self.header.svma.wrapping_add_signed(i64::from(entry));
        let before = number.checked_sub(1).and_then(|before| pairs.get(before));
        Some(Place {
            number,
            start: self.header.svma.wrapping_add_signed(i64::from(start)),
            offset: usize::try_from(entry.checked_sub(section)?).ok()?,
            alone: before.is_none_or(|before| start_of(before) < start),
        })
    }
}

/// Where an entry stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// In the search table.
    pub(super) number: usize,
    /// Where its function begins (svma).
    pub(super) start: u64,
    /// In the section.
    pub(super) offset: usize,
    /// Whether no other entry begins where it does.
    pub(super) alone: bool,
}

/// Where in a search table to look: how many entries begin before each of some places that lie at equal
/// distances, so that most of the search is one look.
#[derive(Debug)]
pub(super) struct Steps {
    first: i32,
    shift: u32,
    before: Box<[u32]>,
}

impl Steps {
    /// So many places at most: 8 KiB an image.
    const MOST: usize = 2048;

    fn of(pairs: &[[u8; 8]]) -> Steps {
        let first = pairs.first().map_or(0, start_of);
        let last = pairs.last().map_or(0, start_of);
        let span = u64::from(last.wrapping_sub(first) as u32);
        // About four entries from one place to the next.
        let places = (pairs.len() / 4).clamp(1, Steps::MOST) as u64;
        let shift = (span / places).checked_ilog2().map_or(0, |log| log + 1);
        let before = (0..=(span >> shift) + 1)
            .map(|place| {
                let at = i64::from(first).saturating_add((place << shift) as i64);
                pairs.partition_point(|pair| i64::from(start_of(pair)) < at) as u32
            })
            .collect();
        Steps {
            first,
            shift,
            before,
        }
    }

    /// Between which two counts that of the entries which begin at or before an offset is; of `all`
    /// entries. Signal-safe.
    fn around(&self, wanted: i32, all: usize) -> (usize, usize) {
        let Ok(past) = u64::try_from(i64::from(wanted) - i64::from(self.first)) else {
            // Before the first one.
            return (0, 0);
        };
        let place = usize::try_from(past >> self.shift).unwrap_or(usize::MAX);
        // Behind the last place lie no further ones: there all entries begin before.
        let count = |place: usize| {
            self.before
                .get(place)
                .map_or(all, |&known| all.min(known as usize))
        };
        (count(place), count(place.saturating_add(1)))
    }
}

/// The pairs of a search table. Signal-safe.
fn pairs<'h>(header: &'h Section, table: &Range<usize>) -> Option<&'h [[u8; 8]]> {
    Some(header.bytes.get(table.clone())?.as_chunks().0)
}

/// The first half of a pair: where its function begins.
fn start_of([a, b, c, d, ..]: &[u8; 8]) -> i32 {
    i32::from_le_bytes([*a, *b, *c, *d])
}

/// `DW_EH_PE_*`, as linkers use them in a header.
const PCREL_SDATA4: u8 = 0x1b;
const SDATA4_DATAREL: u8 = 0x3b;
const UDATA4: u8 = 0x03;

/// The search table of a header, if it is of the shape that linkers make: a version of 1, the
/// count as 4 bytes, entries relative to the header in 4 signed bytes each.
fn header_table(header: Section) -> Option<(Section, Range<usize>)> {
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
    let table = start..start.checked_add(count.checked_mul(8)?)?;
    header.bytes.get(table.clone())?;
    Some((header, table))
}

/// A header for a section that has none, which lies where the section does; `None` where that would have
/// no entries. What stands before a broken entry is kept.
fn built_header(section: &Section, bases: &BaseAddresses) -> Option<Section> {
    let mut frames = EhFrame::new(&section.bytes, LittleEndian);
    frames.set_address_size(8);
    let mut pairs = Vec::new();
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        if let Ok(entry) = partial.parse(EhFrame::cie_from_offset)
            && let Ok(offset) = i32::try_from(entry.offset())
            && let start = entry.initial_address().wrapping_sub(section.svma) as i64
            && let Ok(start) = i32::try_from(start)
        {
            pairs.push((start, offset));
        }
    }
    pairs.sort_unstable();
    let count = u32::try_from(pairs.len()).ok().filter(|count| *count > 0)?;
    let mut bytes = vec![1, PCREL_SDATA4, UDATA4, SDATA4_DATAREL];
    // Where the section lies, from here.
    bytes.extend((-4i32).to_le_bytes());
    bytes.extend(count.to_le_bytes());
    let pair = |(start, offset): (i32, i32)| [start.to_le_bytes(), offset.to_le_bytes()];
    bytes.extend(pairs.into_iter().flat_map(pair).flatten());
    Some(Section {
        svma: section.svma,
        bytes: bytes.into(),
    })
}

/// Where `.eh_frame` lies, as `.eh_frame_hdr` says.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn the_steps_lead_to_where_a_whole_search_does() {
        let mut state = 0x2545_f491_4f6c_dd1d;
        for round in 0..400u64 {
            let count = random(&mut state) % [1, 3, 50, 3000][round as usize % 4];
            let spread = [100, 1 << 20, i32::MAX as u64][round as usize % 3];
            let below = random(&mut state) as i32 / 2;
            let mut starts: Vec<i32> = (0..count)
                .map(|_| below.saturating_add((random(&mut state) % spread) as i32))
                .collect();
            starts.sort_unstable();
            let pairs: Vec<[u8; 8]> = starts
                .iter()
                .map(|start| (u64::from(*start as u32)).to_le_bytes())
                .collect();
            let steps = Steps::of(&pairs);
            assert!(steps.before.len() <= Steps::MOST + 2);
            let near = starts
                .iter()
                .flat_map(|&start| [start.saturating_sub(1), start, start.saturating_add(1)]);
            let others = [i32::MIN, i32::MAX, 0, below];
            for wanted in near.chain(others) {
                let (low, high) = steps.around(wanted, pairs.len());
                let whole = starts.partition_point(|start| *start <= wanted);
                assert!(
                    (low..=high).contains(&whole),
                    "{wanted}: {low}..{high}, {whole}"
                );
            }
        }
    }

    #[test]
    fn a_table_in_disorder_does_no_harm() {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        for _ in 0..200 {
            let pairs: Vec<[u8; 8]> = (0..random(&mut state) % 200)
                .map(|_| random(&mut state).to_le_bytes())
                .collect();
            let steps = Steps::of(&pairs);
            for _ in 0..50 {
                let (low, high) = steps.around(random(&mut state) as i32, pairs.len());
                assert!(low <= pairs.len() && high <= pairs.len());
            }
        }
    }
}
