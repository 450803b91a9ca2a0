//! Names from a symbol table, each held to the end of its function.
//!
//! The nearest earlier symbol is most often the wrong one in a stripped image. So a symbol names an
//! address only if something else than the next symbol says where its function ends: on Mach-O
//! `LC_FUNCTION_STARTS`, on ELF the symbol's size or the range of its frame description.

use addr2line::gimli::{self, UnwindSection};
use object::{Object, ObjectSection, ObjectSymbol};

use super::bytes::Bytes;
use super::object_file::{MOST_SYMBOLS, ObjectFile};

/// The functions of a symbol table.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    bytes: Bytes,
    /// By address; of several at one address the one that stands for them comes last.
    symbols: Vec<Symbol>,
    /// By address; the value is an index into `symbols`.
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, Copy)]
struct Symbol {
    address: u64,
    size: u64,
    /// Where its name stands in `bytes`.
    name: (usize, u32),
    rank: u8,
    is_function: bool,
}

impl Symbol {
    /// A symbol as far as it may name a function; its name must stand in `data`.
    fn read<'data>(symbol: &impl ObjectSymbol<'data>, data: &[u8], mach_o: bool) -> Option<Symbol> {
        let name = symbol.name_bytes().ok()?;
        // Mach-O puts an underscore before every name that C and its kin write.
        let name = match name.strip_prefix(b"_") {
            Some(plain) if mach_o => plain,
            _ => name,
        };
        let start = (name.as_ptr() as usize).checked_sub(data.as_ptr() as usize)?;
        if is_no_function(name)
            || start + name.len() > data.len()
            || std::str::from_utf8(name).is_err()
        {
            return None;
        }
        Some(Symbol {
            address: symbol.address(),
            size: if mach_o { 0 } else { symbol.size() },
            name: (start, name.len() as u32),
            rank: match (symbol.is_local(), symbol.is_weak()) {
                (true, _) => 0,
                (_, true) => 1,
                _ => 2,
            },
            is_function: symbol.kind() == object::SymbolKind::Text,
        })
    }

    /// By address; of several at one address the one that stands for them comes last.
    fn order(&self) -> (u64, u64, u8) {
        (self.address, self.size, self.rank)
    }
}

/// A range of stated addresses, and the index of the symbol that names it.
#[derive(Debug, Clone, Copy)]
struct Segment {
    start: u64,
    /// One past the last address.
    end: u64,
    symbol: u32,
}

/// All symbols, each with the number of its table.
fn tables<'file, 'data>(
    file: &'file object::File<'data>,
) -> impl Iterator<Item = (u8, object::Symbol<'data, 'file>)> {
    let first = file.symbols().map(|symbol| (0, symbol));
    let second = file.dynamic_symbols().map(|symbol| (1, symbol));
    first.chain(second).take(MOST_SYMBOLS)
}

/// So many symbols before an address are kept while the nearest is looked for: some of them are labels.
const NEAREST: usize = 512;

/// A range of addresses with the symbol that names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'a> {
    pub start: u64,
    pub end: u64,
    /// Address of the symbol.
    pub entry: u64,
    pub name: &'a str,
}

impl Symbols {
    /// Reads the symbol tables of `object`.
    pub(crate) fn read(object: &ObjectFile) -> Symbols {
        let Some(file) = object.parse() else {
            return Symbols::default();
        };
        let data: &[u8] = &object.bytes;
        let mut symbols: Vec<Symbol> = Vec::new();
        let mut whole = object.has_dwarf;
        let mach_o = object.is_mach_o();
        for (table, symbol) in tables(&file) {
            if !symbol.is_definition() || object.code_end(symbol.address()).is_none() {
                continue;
            }
            let Some(read) = Symbol::read(&symbol, data, mach_o) else {
                continue;
            };
            whole |= table == 0 && symbol.is_local();
            symbols.push(read);
        }
        symbols.sort_by_key(Symbol::order);
        let claims = if mach_o {
            claims_mach_o(object, &symbols, whole)
        } else {
            claims_elf(object, &file, &symbols, whole)
        };
        Symbols {
            bytes: object.bytes.clone(),
            segments: lay_out(claims),
            symbols,
        }
    }

    /// As much of the symbol table as one address needs: the same answers for `address`, sooner,
    /// since the names of all other symbols are never touched. `None` where that needs the whole table.
    pub(crate) fn read_near(object: &ObjectFile, address: u64) -> Option<Symbols> {
        // A Mach-O symbol ends at the next function, so that the nearest earlier one alone counts.
        if !object.is_mach_o() || !object.has_dwarf {
            return None;
        }
        let file = object.parse()?;
        let limit = object.code_end(address)?;
        let mut near: Vec<(u64, object::SymbolIndex)> = Vec::with_capacity(2 * NEAREST);
        let mut cut = false;
        for (_, symbol) in tables(&file) {
            let at = symbol.address();
            if !symbol.is_definition() || at > address || object.code_end(at) != Some(limit) {
                continue;
            }
            near.push((at, symbol.index()));
            if near.len() == 2 * NEAREST {
                near.sort_by_key(|&(at, _)| std::cmp::Reverse(at));
                near.truncate(NEAREST);
                cut = true;
            }
        }
        // Among equals the order of the table stays, as it does when all are read.
        near.sort_by_key(|&(at, _)| std::cmp::Reverse(at));
        let furthest = near.last().filter(|_| cut).map(|&(at, _)| at);
        let mut symbols: Vec<Symbol> = Vec::new();
        for (at, index) in near {
            if symbols.last().is_some_and(|last| last.address != at) {
                break;
            }
            if furthest == Some(at) {
                return None;
            }
            let symbol = file.symbol_by_index(index).ok()?;
            symbols.extend(Symbol::read(&symbol, &object.bytes, true));
        }
        symbols.sort_by_key(Symbol::order);
        Some(Symbols {
            bytes: object.bytes.clone(),
            segments: lay_out(claims_mach_o(object, &symbols, true)),
            symbols,
        })
    }

    /// The symbol whose function holds `address`.
    pub(crate) fn at(&self, address: u64) -> Option<Named<'_>> {
        let after = self.segments.partition_point(|s| s.start <= address);
        let segment = &self.segments[after.checked_sub(1)?];
        self.named(segment).filter(|named| address < named.end)
    }

    /// The ranges with a name that overlap `start..end`, in order.
    pub(crate) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Named<'_>> {
        let first = self.segments.partition_point(|s| s.end <= start);
        let within = self.segments[first..].iter();
        within
            .take_while(move |segment| segment.start < end)
            .filter_map(|segment| self.named(segment))
    }

    /// All ranges that have a name, in order of address.
    pub(crate) fn all(&self) -> impl Iterator<Item = Named<'_>> {
        self.segments
            .iter()
            .filter_map(|segment| self.named(segment))
    }

    /// The names of all symbols at exactly `address`; more than one where functions were folded.
    pub(crate) fn names_at(&self, address: u64) -> impl Iterator<Item = &str> {
        let first = self
            .symbols
            .partition_point(|symbol| symbol.address < address);
        self.symbols[first..]
            .iter()
            .take_while(move |s| s.address == address)
            .map(|s| self.name(s))
    }

    pub(crate) fn len(&self) -> usize {
        self.symbols.len()
    }

    fn named(&self, segment: &Segment) -> Option<Named<'_>> {
        let symbol = self.symbols.get(segment.symbol as usize)?;
        Some(Named {
            start: segment.start,
            end: segment.end,
            entry: symbol.address,
            name: self.name(symbol),
        })
    }

    fn name(&self, symbol: &Symbol) -> &str {
        let (start, len) = symbol.name;
        let bytes = self.bytes.get(start..start + len as usize).unwrap_or(&[]);
        std::str::from_utf8(bytes).unwrap_or("")
    }
}

/// Cuts claims, which are in order of start, so that the symbol that begins last has an address; of those
/// that begin together, the last.
fn lay_out(claims: Vec<Segment>) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::with_capacity(claims.len());
    let mut open: Vec<Segment> = Vec::new();
    let mut at = 0;
    let no_more = Segment {
        start: u64::MAX,
        end: u64::MAX,
        symbol: 0,
    };
    for claim in claims.into_iter().chain([no_more]) {
        // What was begun before goes on up to here, the innermost first.
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

fn claims_mach_o(object: &ObjectFile, symbols: &[Symbol], whole: bool) -> Vec<Segment> {
    let starts = object.function_starts();
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

fn claims_elf(
    object: &ObjectFile,
    file: &object::File<'_>,
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
                    let next = symbols[index..].iter().find(|s| s.address > symbol.address);
                    let next_described = described.get(after).map_or(u64::MAX, |&(start, _)| start);
                    next.map_or(u64::MAX, |s| s.address).min(next_described)
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
fn frame_descriptions(file: &object::File<'_>) -> Vec<(u64, u64)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolicate::object_file;

    #[test]
    fn the_nearest_symbols_say_what_all_of_them_say() {
        for arch in ["arm64", "x86_64"] {
            let path = format!("testdata/macho/{arch}/kiosk.dSYM/Contents/Resources/DWARF/kiosk");
            let object = &object_file::open(path.as_ref()).unwrap()[0];
            let all = Symbols::read(object);
            let mut named = 0;
            for address in object.code.iter().flat_map(|&(start, end)| start..end) {
                let near = Symbols::read_near(object, address).expect("a dSYM");
                let plain = |named: Named<'_>| (named.entry, named.name.to_owned());
                let (near, all) = (near.at(address).map(plain), all.at(address).map(plain));
                assert_eq!(near, all, "{arch} {address:#x}");
                named += usize::from(all.is_some());
            }
            assert!(named > 500, "{arch}: only {named} have a name");
        }
    }
}
