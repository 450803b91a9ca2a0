//! Where the functions of an image's symbol table begin and end.
//!
//! The nearest earlier symbol is most often the wrong one in a stripped image. So a symbol names an
//! address only if something else than the next symbol says where its function ends: on Mach-O
//! `LC_FUNCTION_STARTS`, on ELF the symbol's size or the range of its frame description.

use gimli::UnwindSection;
use object::read::elf::{ElfFile, FileHeader};
use object::read::macho::{MachHeader, MachOFile};
use object::{Object as _, ObjectSection, ObjectSymbol};

/// So many symbols are looked at; a large app has some hundred thousand.
pub const MOST_SYMBOLS: usize = 1 << 25;

/// What is known of an image besides its symbols.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a> {
    /// What [`code`] gave.
    pub code: &'a [(u64, u64)],
    /// Stated address of `__TEXT`.
    pub base: u64,
    pub has_dwarf: bool,
    pub is_mach_o: bool,
}

impl Object<'_> {
    /// The end of the code section that holds `address`.
    pub fn code_end(&self, address: u64) -> Option<u64> {
        let after = self.code.partition_point(|&(start, _)| start <= address);
        // Sections may overlap in damaged files: the nearest one that reaches so far.
        let near = self.code[..after].iter().rev().take(4);
        let mut near = near.filter(|&&(_, end)| address < end);
        near.next().map(|&(_, end)| end)
    }
}

/// A file of one layout, or of any: who knows the layout need not link the readers of the others.
pub trait File<'data>: object::Object<'data> {
    /// Stated addresses at which functions start, by `LC_FUNCTION_STARTS`, in order, of an image at `base`; `None` where
    /// the file has no such table.
    fn function_starts(&self, base: u64) -> Option<Vec<u64>>;

    fn is_mach_o(&self) -> bool;
}

impl<'data, H: FileHeader> File<'data> for ElfFile<'data, H> {
    fn function_starts(&self, _: u64) -> Option<Vec<u64>> {
        None
    }

    fn is_mach_o(&self) -> bool {
        false
    }
}

impl<'data, H: MachHeader> File<'data> for MachOFile<'data, H> {
    fn function_starts(&self, base: u64) -> Option<Vec<u64>> {
        starts_of(self, base)
    }

    fn is_mach_o(&self) -> bool {
        true
    }
}

#[cfg(feature = "symbolicate")]
impl<'data> File<'data> for object::File<'data> {
    fn function_starts(&self, base: u64) -> Option<Vec<u64>> {
        match self {
            object::File::MachO64(file) => starts_of(file, base),
            object::File::MachO32(file) => starts_of(file, base),
            _ => None,
        }
    }

    fn is_mach_o(&self) -> bool {
        self.format() == object::BinaryFormat::MachO
    }
}

/// The ranges of stated addresses that hold code, in order of address.
pub fn code<'data>(file: &impl File<'data>) -> Vec<(u64, u64)> {
    let mut code: Vec<(u64, u64)> = file
        .sections()
        .filter(is_code)
        .map(|s| (s.address(), s.address().saturating_add(s.size())))
        .filter(|(start, end)| start < end)
        .collect();
    code.sort_unstable();
    // In an object file that was not linked all sections may lie at 0: nothing tells which is meant.
    let unlinked = file.kind() == object::ObjectKind::Relocatable;
    if unlinked && code.windows(2).any(|pair| pair[1].0 < pair[0].1) {
        code.clear();
    }
    code.dedup();
    code
}

/// Whether a file has DWARF.
pub fn has_dwarf<'data>(file: &impl File<'data>) -> bool {
    const NAMES: [&str; 4] = [
        ".debug_info",
        "__debug_info",
        ".zdebug_info",
        "__zdebug_info",
    ];
    file.sections().any(|s| {
        let is_info = s.size() > 0 && s.name().is_ok_and(|name| NAMES.contains(&name));
        is_info && s.file_range().is_some()
    })
}

/// Whether a section holds instructions. Linker stubs are left out: no function of theirs has a name
/// of its own, and the last function before them must not lend them its.
fn is_code<'data>(section: &impl ObjectSection<'data>) -> bool {
    match section.flags() {
        object::SectionFlags::Elf { sh_flags, .. } => {
            sh_flags.contains(object::elf::SHF_EXECINSTR)
                && sh_flags.contains(object::elf::SHF_ALLOC)
                && !matches!(section.name(), Ok(name) if name == ".plt" || name.starts_with(".plt."))
        }
        object::SectionFlags::MachO { flags, .. } => {
            let instructions = object::macho::S_ATTR_PURE_INSTRUCTIONS.0
                | object::macho::S_ATTR_SOME_INSTRUCTIONS.0;
            flags.0 & instructions != 0
                && !matches!(
                    section.name(),
                    Ok("__stubs" | "__stub_helper" | "__auth_stubs")
                )
        }
        _ => false,
    }
}

/// What `LC_FUNCTION_STARTS` says, of an image at `base`.
fn starts_of<M: MachHeader>(file: &MachOFile<'_, M>, base: u64) -> Option<Vec<u64>> {
    let (endian, header, data) = (file.endian(), file.macho_header(), file.data());
    // The lowest bit says that a function is of Thumb instructions.
    let thumb = u64::from(file.architecture() == object::Architecture::Arm);
    let mut commands = header.load_commands(endian, data, 0).ok()?;
    while let Ok(Some(command)) = commands.next() {
        if command.cmd() == object::macho::LC_FUNCTION_STARTS {
            let linkedit: &object::macho::LinkeditDataCommand<_> = command.data().ok()?;
            let starts = linkedit.function_starts(endian, data, base).ok()?;
            let starts = starts.map_while(Result::ok).map(|start| start & !thumb);
            let starts: Vec<u64> = starts.collect();
            return (!starts.is_empty()).then_some(starts);
        }
    }
    None
}

/// The functions of a symbol table.
#[derive(Debug, Default)]
pub struct Symbols<B> {
    bytes: B,
    /// By address; of several at one address the one that stands for them comes last.
    symbols: Vec<Symbol>,
    /// By address; the value is an index into `symbols`.
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, Copy)]
pub struct Symbol {
    pub address: u64,
    size: u64,
    /// Where its name stands in `bytes`.
    name: (usize, u32),
    rank: u8,
    is_function: bool,
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
pub fn tables<'file, 'data: 'file, F: File<'data>>(
    file: &'file F,
) -> impl Iterator<Item = (u8, F::Symbol<'file>)> {
    let first = file.symbols().map(|symbol| (0, symbol));
    let second = file.dynamic_symbols().map(|symbol| (1, symbol));
    first.chain(second).take(MOST_SYMBOLS)
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
    /// Those of `file`, of which `bytes` are the bytes.
    pub fn read<'data>(file: &impl File<'data>, object: &Object<'_>, bytes: B) -> Symbols<B> {
        let mut symbols: Vec<Symbol> = Vec::new();
        let mut whole = object.has_dwarf;
        for (table, symbol) in tables(file) {
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

    /// Of these symbols; `whole` says that no symbol of a function is left out.
    pub fn of<'data>(
        mut symbols: Vec<Symbol>,
        file: &impl File<'data>,
        object: &Object<'_>,
        whole: bool,
        bytes: B,
    ) -> Symbols<B> {
        symbols.sort_by_key(Symbol::order);
        let claims = if object.is_mach_o {
            claims_mach_o(object, file, &symbols, whole)
        } else {
            claims_elf(object, file, &symbols, whole)
        };
        Symbols {
            bytes,
            segments: lay_out(claims),
            symbols,
        }
    }

    /// The symbol whose function holds `address`.
    pub fn at(&self, address: u64) -> Option<Named<'_>> {
        let after = self.segments.partition_point(|s| s.start <= address);
        let segment = &self.segments[after.checked_sub(1)?];
        self.named(segment).filter(|named| address < named.end)
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
        let bytes = self.bytes.as_ref().get(start..start + len as usize);
        std::str::from_utf8(bytes.unwrap_or(&[])).unwrap_or("")
    }
}

#[cfg(feature = "symbolicate")]
impl<B: AsRef<[u8]>> Symbols<B> {
    /// The ranges with a name that overlap `start..end`, in order.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Named<'_>> {
        let first = self.segments.partition_point(|s| s.end <= start);
        let within = self.segments[first..].iter();
        within
            .take_while(move |segment| segment.start < end)
            .filter_map(|segment| self.named(segment))
    }

    /// All ranges that have a name, in order of address.
    pub fn all(&self) -> impl Iterator<Item = Named<'_>> {
        self.segments
            .iter()
            .filter_map(|segment| self.named(segment))
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

fn claims_mach_o<'data>(
    object: &Object<'_>,
    file: &impl File<'data>,
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

fn claims_elf<'data>(
    object: &Object<'_>,
    file: &impl File<'data>,
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
fn frame_descriptions<'data>(file: &impl File<'data>) -> Vec<(u64, u64)> {
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
