//! Symbols that may name functions, and the ranges of addresses that they name. Each range ends where a table ends the function.

use gimli::UnwindSection;
use object::{ObjectSection, ObjectSymbol};

use super::image::{ImageFile, ObjectFacts};

/// A range of svmas, and the index of the symbol that names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    pub symbol: u32,
}

/// Turns ranges that may overlap into segments that do not overlap. They are sorted by start. An address in several ranges belongs
/// to the one that starts last; of those with one start, to the last.
pub(super) fn disjoint(ranges: Vec<Segment>) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::with_capacity(ranges.len());
    let mut enclosing: Vec<Segment> = Vec::new();
    let mut at = 0;
    let sentinel = Segment {
        start: u64::MAX,
        end: u64::MAX,
        symbol: 0,
    };
    for range in ranges.into_iter().chain([sentinel]) {
        // Claims that began before continue up to here, the innermost first.
        while let Some(&Segment { end, symbol, .. }) = enclosing.last() {
            let until = end.min(range.start);
            if at < until {
                segments.push(Segment {
                    start: at,
                    end: until,
                    symbol,
                });
                at = until;
            }
            if range.start < end {
                break;
            }
            enclosing.pop();
        }
        at = range.start;
        enclosing.push(range);
    }
    segments
}

/// Returns the ranges of a Mach-O file's symbols. A function ends at the next entry of `LC_FUNCTION_STARTS`. Without that
/// table it ends with its section, if `is_complete`: no symbol of a function is missing.
pub(super) fn ranges_mach_o<'data>(
    object: &ObjectFacts<'_>,
    file: &impl ImageFile<'data>,
    symbols: &[Symbol],
    is_complete: bool,
) -> Vec<Segment> {
    let starts = file.function_starts(object.base);
    let mut ranges = Vec::with_capacity(symbols.len());
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
        ranges.push(Segment {
            start: symbol.address,
            end,
            symbol: index as u32,
        });
    }
    ranges
}

/// Returns the ranges of an ELF file's symbols. A function ends by its symbol's size; without a size, by its frame
/// description, or at the next symbol if `is_complete`: no symbol of a function is missing.
pub(super) fn ranges_elf<'data>(
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
    let mut ranges = Vec::with_capacity(symbols.len());
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
        ranges.push(Segment {
            start: symbol.address,
            end: end.min(limit),
            symbol: index as u32,
        });
    }
    ranges
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

/// Most symbols that are read; a large app has some hundred thousand.
pub const MAX_SYMBOLS: usize = 1 << 25;

#[derive(Debug, Clone, Copy)]
pub struct Symbol {
    pub address: u64,
    pub(super) size: u64,
    /// Offset and length of the name in `data`.
    pub(super) name: (usize, u32),
    binding: u8,
    pub(super) is_function: bool,
}

impl Symbol {
    /// A symbol as far as it may name a function; its name must stand in `data`.
    pub fn read<'data>(
        symbol: &impl ObjectSymbol<'data>,
        data: &[u8],
        mach_o: bool,
    ) -> Option<Symbol> {
        let name = symbol.name_bytes().ok()?;
        // Mach-O puts an underscore before every name that C and its kin write.
        let name = match name.strip_prefix(b"_") {
            Some(plain) if mach_o => plain,
            _ => name,
        };
        let start = (name.as_ptr() as usize).checked_sub(data.as_ptr() as usize)?;
        let is_in = start + name.len() <= data.len();
        if !is_in || is_no_function(name) || std::str::from_utf8(name).is_err() {
            return None;
        }
        Some(Symbol {
            address: symbol.address(),
            size: if mach_o { 0 } else { symbol.size() },
            name: (start, name.len() as u32),
            binding: match (symbol.is_local(), symbol.is_weak()) {
                (true, _) => 0,
                (_, true) => 1,
                _ => 2,
            },
            is_function: symbol.kind() == object::SymbolKind::Text,
        })
    }

    /// The key by which symbols are sorted: the address; of several at one address the one that names them comes
    /// last.
    pub(super) fn order(&self) -> (u64, u64, u8) {
        (self.address, self.size, self.binding)
    }
}

/// All symbols, each with the number of its table.
pub fn all_symbols<'file, 'data: 'file, F: ImageFile<'data>>(
    file: &'file F,
) -> impl Iterator<Item = (u8, F::Symbol<'file>)> {
    let first = file.symbols().map(|symbol| (0, symbol));
    let second = file.dynamic_symbols().map(|symbol| (1, symbol));
    first.chain(second).take(MAX_SYMBOLS)
}

/// Labels and marks that assemblers and linkers leave among the functions, and the numbers that bitcode
/// builds have in place of names.
fn is_no_function(name: &[u8]) -> bool {
    let plain = name.strip_prefix(b"_").unwrap_or(name);
    name.is_empty()
        || plain.starts_with(b"_hidden#")
        || plain.starts_with(b"hidden#")
        || name.starts_with(b".L")
        || name.starts_with(b"ltmp")
        || name.starts_with(b"GCC_except_table")
        || name == b"<redacted>" // a local one, whose name dyld's shared cache keeps elsewhere
        || matches!(
            name,
            [b'$', b'a' | b'd' | b't' | b'x'] | [b'$', b'a' | b'd' | b't' | b'x', b'.', ..]
        )
        || matches!(
            name,
            b"_mh_execute_header" | b"_mh_dylib_header" | b"_mh_bundle_header"
        )
}
