//! The functions of a symbol table, by address.

use object::ObjectSymbol;

use super::image::{ImageFile, ObjectFacts};
use super::symbol_ranges::{Segment, Symbol, all_symbols, disjoint, ranges_elf, ranges_mach_o};

/// The functions of a symbol table.
#[derive(Debug, Default)]
pub struct Symbols<B> {
    bytes: B,
    /// Symbols, sorted by address; of several at one address the one that names them comes last.
    symbols: Vec<Symbol>,
    /// Segments, sorted by address; the value is an index into `symbols`.
    segments: Vec<Segment>,
}

/// A range of addresses with the symbol that names it.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    #[cfg_attr(not(feature = "symbolicate"), expect(dead_code))]
    pub start: u64,
    pub end: u64,
    /// Address of the symbol.
    pub entry: u64,
    pub name: &'a str,
}

impl<B: AsRef<[u8]>> Symbols<B> {
    /// Reads the functions of `file`, whose contents are `bytes`.
    pub fn read<'data>(
        file: &impl ImageFile<'data>,
        object: &ObjectFacts<'_>,
        bytes: B,
    ) -> Symbols<B> {
        let mut symbols: Vec<Symbol> = Vec::new();
        let mut whole = object.has_dwarf;
        for (table, symbol) in all_symbols(file) {
            if !symbol.is_definition() || object.code_end(symbol.address()).is_none() {
                continue;
            }
            let Some(read) = Symbol::read(&symbol, bytes.as_ref(), object.is_mach_o) else {
                continue;
            };
            whole |= table == 0 && symbol.is_local();
            symbols.push(read);
        }
        Symbols::of(symbols, file, object, whole, bytes)
    }

    /// The functions of these symbols; `whole` means that no symbol of a function is missing.
    pub fn of<'data>(
        mut symbols: Vec<Symbol>,
        file: &impl ImageFile<'data>,
        object: &ObjectFacts<'_>,
        whole: bool,
        bytes: B,
    ) -> Symbols<B> {
        symbols.sort_by_key(Symbol::order);
        let ranges = if object.is_mach_o {
            ranges_mach_o(object, file, &symbols, whole)
        } else {
            ranges_elf(object, file, &symbols, whole)
        };
        Symbols {
            bytes,
            segments: disjoint(ranges),
            symbols,
        }
    }

    /// The symbol whose function holds `address`.
    pub fn at(&self, address: u64) -> Option<Named<'_>> {
        let after = self.segments.partition_point(|s| s.start <= address);
        let segment = &self.segments[after.checked_sub(1)?];
        self.name_range(segment).filter(|named| address < named.end)
    }

    fn name_range(&self, segment: &Segment) -> Option<Named<'_>> {
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
        let bytes = self.bytes.as_ref().get(start..start + len as usize);
        std::str::from_utf8(bytes.unwrap_or(&[])).unwrap_or("")
    }
}

#[cfg(feature = "symbolicate")]
impl<B: AsRef<[u8]>> Symbols<B> {
    /// The ranges with a name that overlap `start..end`, in order.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = Named<'_>> {
        let first = self.segments.partition_point(|s| s.end <= start);
        let within = self.segments[first..].iter();
        within
            .take_while(move |segment| segment.start < end)
            .filter_map(|segment| self.name_range(segment))
    }

    /// All ranges that have a name, in order of address.
    pub fn all(&self) -> impl Iterator<Item = Named<'_>> {
        self.segments
            .iter()
            .filter_map(|segment| self.name_range(segment))
    }

    /// The names of all symbols at exactly `address`; more than one where functions were folded.
    pub fn names_at(&self, address: u64) -> impl Iterator<Item = &str> {
        let first = self
            .symbols
            .partition_point(|symbol| symbol.address < address);
        self.symbols[first..]
            .iter()
            .take_while(move |s| s.address == address)
            .map(|s| self.name(s))
    }

    pub fn len(&self) -> usize {
        self.symbols.len()
    }
}
