//! One symbol of a table, as far as it may name a function.

use object::ObjectSymbol;

use super::image::ImageFile;

/// Most symbols that are read; a large app has some hundred thousand.
pub const MOST_SYMBOLS: usize = 1 << 25;

#[derive(Debug, Clone, Copy)]
pub struct Symbol {
    pub address: u64,
    pub(super) size: u64,
    /// Offset and length of the name in `bytes`.
    pub(super) name: (usize, u32),
    rank: u8,
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
            rank: match (symbol.is_local(), symbol.is_weak()) {
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
        (self.address, self.size, self.rank)
    }
}

/// All symbols, each with the number of its table.
pub fn all_symbols<'file, 'data: 'file, F: ImageFile<'data>>(
    file: &'file F,
) -> impl Iterator<Item = (u8, F::Symbol<'file>)> {
    let first = file.symbols().map(|symbol| (0, symbol));
    let second = file.dynamic_symbols().map(|symbol| (1, symbol));
    first.chain(second).take(MOST_SYMBOLS)
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
