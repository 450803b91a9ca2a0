//! The ranges of addresses that symbols name. Each range ends where a table ends the function.

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

/// Turns claims into segments that do not overlap. Claims are sorted by start. An address in several claims belongs
/// to the one that starts last; of those with one start, to the last.
pub(super) fn lay_out(claims: Vec<Segment>) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::with_capacity(claims.len());
    let mut enclosing: Vec<Segment> = Vec::new();
    let mut at = 0;
    let sentinel = Segment {
        start: u64::MAX,
        end: u64::MAX,
        symbol: 0,
    };
    for claim in claims.into_iter().chain([sentinel]) {
        // Claims that began before continue up to here, the innermost first.
        while let Some(&Segment { end, symbol, .. }) = enclosing.last() {
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
            enclosing.pop();
        }
        at = claim.start;
        enclosing.push(claim);
    }
    segments
}

/// Returns the claims of a Mach-O file's symbols. A function ends at the next entry of `LC_FUNCTION_STARTS`. Without that
/// table it ends with its section, if `is_complete`: no symbol of a function is missing.
pub(super) fn claims_mach_o<'data>(
    object: &ObjectFacts<'_>,
    file: &impl ImageFile<'data>,
    symbols: &[Symbol],
    is_complete: bool,
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
            // Without that table, functions end at a known place only if the symbol table was never stripped.
            None if is_complete => limit,
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

/// Returns the claims of an ELF file's symbols. A function ends by its symbol's size; without a size, by its frame
/// description, or at the next symbol if `is_complete`: no symbol of a function is missing.
pub(super) fn claims_elf<'data>(
    object: &ObjectFacts<'_>,
    file: &impl ImageFile<'data>,
    symbols: &[Symbol],
    is_complete: bool,
) -> Vec<Segment> {
    let has_unsized = symbols.iter().any(|symbol| symbol.size == 0);
    let fdes = if has_unsized {
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
            let after = fdes.partition_point(|&(start, _)| start <= symbol.address);
            match after.checked_sub(1).map(|i| fdes[i]) {
                Some((start, end))
                    if symbol.address < end && (symbol.is_function || start == symbol.address) =>
                {
                    end
                }
                _ if symbol.is_function && is_complete => {
                    let next = symbols.partition_point(|s| s.address <= symbol.address);
                    let next = symbols.get(next).map_or(u64::MAX, |s| s.address);
                    fdes.get(after).map_or(next, |&(start, _)| next.min(start))
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

/// Returns the ranges of the frame descriptions (FDEs) in `.eh_frame`, in order of address.
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
