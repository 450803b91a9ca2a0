//! The symbols of a debug file: all of them, or those near one address.

use object::{Object, ObjectSymbol};

pub(crate) use crate::functions::Named;
use crate::functions::{self, Symbol, all_symbols};
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::object_file::ObjectFile;

/// The functions of a symbol table.
pub(crate) type ObjectSymbols = functions::Symbols<SharedBytes>;

/// Symbols before an address that are kept while the nearest is looked for: some of them are labels.
const MAX_CANDIDATES: usize = 512;

/// All of an object's.
pub(crate) fn read(object: &ObjectFile) -> ObjectSymbols {
    let Some(file) = object.parse() else {
        return ObjectSymbols::default();
    };
    ObjectSymbols::read(&file, &object.bounds(), object.bytes.clone())
}

/// As much of the symbol table as one address needs: the same answers for `address`, sooner,
/// since the names of all other symbols are never touched. `None` where that needs the whole table.
pub(crate) fn read_near(object: &ObjectFile, address: u64) -> Option<ObjectSymbols> {
    let file = object.parse()?;
    if !object.is_mach_o() {
        return read_sized(object, &file, address);
    }
    // A Mach-O symbol ends at the next function, so that the nearest earlier one alone counts.
    if !object.has_dwarf {
        return None;
    }
    let limit = object.code_end(address)?;
    let mut near: Vec<(u64, object::SymbolIndex)> = Vec::with_capacity(2 * MAX_CANDIDATES);
    let mut cut = false;
    for (_, symbol) in all_symbols(&file) {
        let at = symbol.address();
        if !symbol.is_definition() || at > address || object.code_end(at) != Some(limit) {
            continue;
        }
        near.push((at, symbol.index()));
        if near.len() == 2 * MAX_CANDIDATES {
            near.sort_by_key(|&(at, _)| std::cmp::Reverse(at));
            near.truncate(MAX_CANDIDATES);
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
    let (bounds, bytes) = (object.bounds(), object.bytes.clone());
    Some(ObjectSymbols::of(symbols, &file, &bounds, true, bytes))
}

/// Works as [`read_near`], for ELF: reads the function whose size reaches over `address`, and the symbols that begin
/// with it or later; `None` if no function does, or something without a size may be another function.
fn read_sized(object: &ObjectFile, file: &object::File<'_>, address: u64) -> Option<ObjectSymbols> {
    let all = || {
        all_symbols(file)
            .map(|(_, symbol)| symbol)
            .filter(|symbol| symbol.address() <= address && symbol.is_definition())
    };
    let reaches = |symbol: &object::Symbol<'_, '_>| {
        let end = symbol.address().saturating_add(symbol.size());
        let limit = object.code_end(symbol.address());
        symbol.kind() == object::SymbolKind::Text
            && limit.is_some_and(|limit| address < end.min(limit))
            && Symbol::read(symbol, &object.bytes, false).is_some()
    };
    let begin = all().filter(reaches).map(|symbol| symbol.address()).max()?;
    let mut symbols = Vec::new();
    for symbol in all().filter(|symbol| symbol.address() >= begin) {
        let Some(read) = Symbol::read(&symbol, &object.bytes, false) else {
            continue;
        };
        if object.code_end(read.address).is_none() {
            continue;
        }
        if symbol.size() == 0 {
            return None;
        }
        symbols.push(read);
    }
    let (bounds, bytes) = (object.bounds(), object.bytes.clone());
    Some(ObjectSymbols::of(symbols, file, &bounds, true, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolicate::files::object_file;

    #[test]
    fn the_nearest_symbols_say_what_all_of_them_say() {
        for arch in ["arm64", "x86_64"] {
            let path = format!("testdata/macho/{arch}/kiosk.dSYM/Contents/Resources/DWARF/kiosk");
            let object = &object_file::open(path.as_ref()).unwrap()[0];
            let all = read(object);
            let mut named = 0;
            for address in object.code.iter().flat_map(|&(start, end)| start..end) {
                let near = read_near(object, address).expect("a dSYM");
                let plain = |named: Named<'_>| (named.entry, named.name.to_owned());
                let (near, all) = (near.at(address).map(plain), all.at(address).map(plain));
                assert_eq!(near, all, "{arch} {address:#x}");
                named += usize::from(all.is_some());
            }
            assert!(named > 500, "{arch}: only {named} have a name");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_function_that_reaches_over_an_address_is_the_one_of_all() {
        let path = std::env::current_exe().unwrap();
        let object = &object_file::open(&path).unwrap()[0];
        let all = read(object);
        let mut named = 0;
        for &(start, end) in &object.code {
            let step = ((end - start) / 100).max(1) as usize;
            for address in (start..end).step_by(step) {
                let Some(near) = read_near(object, address) else {
                    continue; // it needs all of them
                };
                let plain = |named: Named<'_>| (named.entry, named.name.to_owned());
                let (one, other) = (near.at(address).map(plain), all.at(address).map(plain));
                assert_eq!(one, other, "{address:#x}");
                let entry = one.expect("a function reaches over it").0;
                let names = |symbols: &ObjectSymbols| -> Vec<String> {
                    symbols.names_at(entry).map(str::to_owned).collect()
                };
                assert_eq!(names(&near), names(&all), "{address:#x}");
                named += 1;
            }
        }
        assert!(named > 50, "{named}");
    }
}
