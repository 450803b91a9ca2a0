//! From an address to the entry that covers it: the linker's search table, or one made here.

use std::ops::Range;

use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection};

use crate::capture::section::Section;

/// A search table from addresses to entries, as in `.eh_frame_hdr`: pairs of (start, entry), 32-bit offsets from the
/// header's own address.
#[derive(Debug)]
pub(super) struct Index {
    header: Section,
    table: Range<usize>,
    /// The first start, from which blocks of code are counted, each of as many bytes as a power of two.
    first: i32,
    shift: u32,
    /// For each stretch the count of the entries that begin before it; a search looks at one stretch alone.
    blocks: Box<[u32]>,
}

/// Entries of a stretch, on average: four steps of a search, and a byte of memory for each four entries.
const ENTRIES_PER_BLOCK: usize = 16;

impl Index {
    /// Uses the linker's table in `header` if it is valid, or else makes one from the section; `None` if neither has
    /// any entry.
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
        let starts = || pairs(&header, &table).unwrap_or(&[]).iter().map(start_of);
        let first = starts().next().unwrap_or(0);
        let past = |start: i32| start.abs_diff(first);
        let most = (starts().len() / ENTRIES_PER_BLOCK) as u32;
        let span = starts().next_back().map_or(0, past);
        let shift = (0..31).find(|shift| span >> shift <= most).unwrap_or(31);
        let mut blocks = Vec::new();
        for (start, before) in starts().zip(0u32..) {
            let stretch = (past(start) >> shift) as usize;
            blocks.resize(blocks.len().max(stretch.saturating_add(1)), before);
        }
        let blocks = blocks.into();
        Some(Index {
            header,
            table,
            first,
            shift,
            blocks,
        })
    }

    /// Returns the first addresses (svma) of the entries' functions, in order.
    pub(super) fn starts(&self) -> Vec<u64> {
        let pairs = pairs(&self.header, &self.table).unwrap_or(&[]).iter();
        let start = |pair| self.header.svma.wrapping_add_signed(start_of(pair).into());
        pairs.map(start).collect()
    }

    /// Count of the entries, at most.
    pub(super) fn len(&self) -> usize {
        self.table.len() / 8
    }

    /// The last entry that begins at or before an address; the section lies at `section`. Signal-safe.
    pub(super) fn entry(&self, svma: u64, section: u64) -> Option<FdePlace> {
        let pairs = pairs(&self.header, &self.table)?;
        let wanted = i32::try_from(svma.wrapping_sub(self.header.svma) as i64).ok()?;
        let past = u32::try_from(i64::from(wanted).wrapping_sub(self.first.into())).ok()?;
        let last = self.blocks.len().checked_sub(1)?;
        let stretch = last.min((past >> self.shift) as usize);
        let before = *self.blocks.get(stretch)? as usize;
        let behind = self.blocks.get(stretch.wrapping_add(1));
        let inside = pairs.get(before..behind.map_or(pairs.len(), |behind| *behind as usize))?;
        let after = inside.partition_point(|pair| start_of(pair) <= wanted);
        let number = before.wrapping_add(after).checked_sub(1)?;
        let pair = pairs.get(number)?;
        let start = start_of(pair);
        let [.., a, b, c, d] = *pair;
        let entry = i32::from_le_bytes([a, b, c, d]);
        let entry = self.header.svma.wrapping_add_signed(i64::from(entry));
        Some(FdePlace {
            number,
            start: self.header.svma.wrapping_add_signed(i64::from(start)),
            offset: usize::try_from(entry.checked_sub(section)?).ok()?,
        })
    }
}

/// The place of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct FdePlace {
    /// In the search table.
    pub(super) number: usize,
    /// First address of its function (svma).
    pub(super) start: u64,
    /// In the section.
    pub(super) offset: usize,
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
    let (count_at, start): (usize, usize) = match header.bytes.get(1)? & 0x0f {
        0x03 | 0x0b => (8, 12),
        0x04 | 0x0c => (12, 16),
        _ => return None,
    };
    let known = header.bytes.first() == Some(&1)
        && header.bytes.get(2) == Some(&UDATA4)
        && header.bytes.get(3) == Some(&SDATA4_DATAREL);
    if !known {
        return None;
    }
    let count = header.bytes.get(count_at..start)?.try_into().ok()?;
    let count = u32::from_le_bytes(count) as usize;
    let table = start..start.checked_add(count.checked_mul(8)?)?;
    header.bytes.get(table.clone())?;
    Some((header, table))
}

/// A header for a section that has none, which lies where the section does; `None` where that would have
/// no entries. What stands before a broken entry is kept.
fn built_header(section: &Section, bases: &BaseAddresses) -> Option<Section> {
    /// Added to signed distances, so that their order is that of unsigned numbers.
    const SIGN: u32 = 1 << 31;
    let mut frames = EhFrame::new(&section.bytes, LittleEndian);
    frames.set_address_size(8);
    // Pairs of this type are sorted elsewhere too: their code is there once.
    let mut pairs: Vec<(u64, u64)> = Vec::new();
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        if let Ok(entry) = partial.parse(EhFrame::cie_from_offset)
            && let Ok(offset) = i32::try_from(entry.offset())
            && let start = entry.initial_address().wrapping_sub(section.svma)
            && let Ok(start) = u32::try_from(start.wrapping_add(SIGN.into()))
        {
            pairs.push((u64::from(start), offset as u64));
        }
    }
    pairs.sort_unstable();
    let count = u32::try_from(pairs.len()).ok().filter(|count| *count > 0)?;
    let mut bytes = vec![1, PCREL_SDATA4, UDATA4, SDATA4_DATAREL];
    // Distance from this word to the section.
    bytes.extend((-4i32).to_le_bytes());
    bytes.extend(count.to_le_bytes());
    let pair = |(start, offset)| {
        [
            (start as u32 ^ SIGN).to_le_bytes(),
            (offset as u32).to_le_bytes(),
        ]
    };
    bytes.extend(pairs.into_iter().flat_map(pair).flatten());
    Some(Section::new(section.svma, bytes))
}

/// Returns the address (svma) of `.eh_frame` that `.eh_frame_hdr` states.
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
