//! The ranges of addresses that symbols name, by what says where their functions end.

use gimli::UnwindSection;
use object::ObjectSection;

use super::image::{ImageFile, ObjectFacts};
use super::symbol::Symbol;

/// A range of svmas, and the index of the symbol that names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    pub symbol: u32,
}

/// Cuts claims, which are in order of start, so that the symbol that begins last has an address; of those
/// that begin together, the last.
pub(super) fn lay_out(claims: Vec<Segment>) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::with_capacity(claims.len());
    let mut open: Vec<Segment> = Vec::new();
    let mut at = 0;
    let no_more = Segment {
        start: u64::MAX,
        end: u64::MAX,
        symbol: 0,
    };
    for claim in claims.into_iter().chain([no_more]) {
        // Claims that began before continue up to here, the innermost first.
        while let Some(&Segment { end, symbol, .. }) = open.last() {
            let until = end.min(claim.start);
            if at < until {
                segments.push(Segment {
                    start: at,
                    end: until,
                    symbol,
                });
                at = until;
            }
            if claim.start < end {
                break;
            }
            open.pop();
        }
        at = claim.start;
        open.push(claim);
    }
    segments
}

pub(super) fn claims_mach_o<'data>(
    object: &ObjectFacts<'_>,
    file: &impl ImageFile<'data>,
    symbols: &[Symbol],
    whole: bool,
) -> Vec<Segment> {
    let starts = file.function_starts(object.base);
    let mut claims = Vec::with_capacity(symbols.len());
    for (index, symbol) in symbols.iter().enumerate() {
        let Some(limit) = object.code_end(symbol.address) else {
            continue;
        };
        let end = match &starts {
            Some(starts) => {
                let next = starts.partition_point(|&start| start <= symbol.address);
                starts.get(next).map_or(limit, |&next| next.min(limit))
            }
            // Without the table only a symbol table that was never stripped says where functions end.
            None if whole => limit,
            None => continue,
        };
        claims.push(Segment {
            start: symbol.address,
            end,
            symbol: index as u32,
        });
    }
    claims
}

pub(super) fn claims_elf<'data>(
    object: &ObjectFacts<'_>,
    file: &impl ImageFile<'data>,
    symbols: &[Symbol],
    whole: bool,
) -> Vec<Segment> {
    let unsized_ones = symbols.iter().any(|symbol| symbol.size == 0);
    let described = if unsized_ones {
        frame_descriptions(file)
    } else {
        Vec::new()
    };
    let mut claims = Vec::with_capacity(symbols.len());
    for (index, symbol) in symbols.iter().enumerate() {
        let Some(limit) = object.code_end(symbol.address) else {
            continue;
        };
        let end = if symbol.size > 0 {
            if !symbol.is_function {
                continue;
            }
            symbol.address.saturating_add(symbol.size)
        } else {
            let after = described.partition_point(|&(start, _)| start <= symbol.address);
            match after.checked_sub(1).map(|i| described[i]) {
                Some((start, end))
                    if symbol.address < end && (symbol.is_function || start == symbol.address) =>
                {
                    end
                }
                _ if symbol.is_function && whole => {
                    let next = symbols.partition_point(|s| s.address <= symbol.address);
                    let next = symbols.get(next).map_or(u64::MAX, |s| s.address);
                    described.get(after).map_or(next, |of| next.min(of.0))
                }
                _ => continue,
            }
        };
        claims.push(Segment {
            start: symbol.address,
            end: end.min(limit),
            symbol: index as u32,
        });
    }
    claims
}

/// The ranges that `.eh_frame` describes, in order of address.
fn frame_descriptions<'data>(file: &impl ImageFile<'data>) -> Vec<(u64, u64)> {
    let Some(section) = file.section_by_name(".eh_frame") else {
        return Vec::new();
    };
    let Ok(data) = section.data() else {
        return Vec::new();
    };
    let address_of = |name: &str| {
        file.section_by_name(name)
            .map_or(0, |section| section.address())
    };
    let bases = gimli::BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_text(address_of(".text"))
        .set_got(address_of(".got"));
    let mut eh_frame = gimli::EhFrame::new(data, gimli::LittleEndian);
    eh_frame.set_address_size(if file.is_64() { 8 } else { 4 });
    let mut ranges = Vec::new();
    let mut entries = eh_frame.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if let gimli::CieOrFde::Fde(partial) = entry
            && let Ok(fde) =
                partial.parse(|section, bases, offset| section.cie_from_offset(bases, offset))
            && fde.len() > 0
        {
            ranges.push((
                fde.initial_address(),
                fde.initial_address().saturating_add(fde.len()),
            ));
        }
    }
    ranges.sort_unstable();
    ranges
}
