//! Names with their scopes of C++ functions that debug information names by their last part alone: those with internal
//! linkage, those of local classes, lambdas.
//!
//! Each part is spelled as the compiler has it: `app::(anonymous namespace)::join_row`, `app::pay::<lambda>::operator()`.

use std::sync::{Arc, OnceLock};

use addr2line::gimli::{self, AttributeValue, Dwarf, Reader as _, Section as _, Unit, UnitOffset};
use rustc_hash::FxHashMap;

use super::dwarf::{R, text};
use super::lines;
use super::names::unless_number;
use super::roots::is_cpp;
use crate::symbolicate::frame::NAME_BYTES;
use crate::symbolicate::memo::Memo;

/// Units that are held at a time.
const MAX_UNITS: usize = 256;
/// Scopes of a name.
const MAX_DEPTH: usize = 32;
/// References from an entry to those that say more of it.
const MAX_REFERENCES: usize = 4;
/// Bytes of names for each byte of `.debug_info`: many functions may be in one scope of a long name.
const MAX_NAMES_PER_BYTE: usize = 8;

/// An entry: the offset of its unit in `.debug_info`, and that in the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub unit: usize,
    pub at: UnitOffset,
}

/// Names of functions by their entries, and the units that were read for them.
pub(crate) struct ScopedNames<'a> {
    dwarf: Arc<Dwarf<R<'a>>>,
    /// False where no unit is of C++.
    has_cpp: bool,
    /// Offsets of all units, once a reference led out of one.
    offsets: Option<Vec<usize>>,
    units: Memo<usize, Option<Arc<ScopedUnit<'a>>>, MAX_UNITS>,
    /// By the entry of the function itself, and by those of its copies that were asked for.
    known: FxHashMap<usize, Option<ScopedName>>,
    /// Bytes of names that may still be made.
    left: usize,
}

/// A function's name.
#[derive(Debug, Clone)]
pub(crate) struct ScopedName {
    pub full: Arc<str>,
    /// Its last part, as the entry has it.
    pub plain: Arc<str>,
}

/// A unit, and its scopes once a name needs them.
struct ScopedUnit<'a> {
    unit: Unit<R<'a>>,
    language: Option<gimli::DwLang>,
    scopes: OnceLock<Vec<Scope>>,
}

/// A namespace, class or function with entries below it.
struct Scope {
    begin: usize,
    end: usize,
    /// Index of the scope around it.
    around: Option<usize>,
    tag: gimli::DwTag,
}

/// A function or class, with what its entry and those that it refers to say.
struct Described {
    /// The entry that has its scopes around it.
    own: Entry,
    plain: Option<String>,
    has_linkage: bool,
    is_external: bool,
}

impl<'a> ScopedNames<'a> {
    pub(crate) fn new(dwarf: Arc<Dwarf<R<'a>>>, has_cpp: bool) -> ScopedNames<'a> {
        ScopedNames {
            left: dwarf
                .debug_info
                .reader()
                .len()
                .saturating_mul(MAX_NAMES_PER_BYTE),
            dwarf,
            has_cpp,
            offsets: None,
            units: Memo::default(),
            known: FxHashMap::default(),
        }
    }

    /// Bytes of memory that they take, roughly.
    pub(crate) fn weight(&self) -> usize {
        let units = self.units.values().flatten();
        let scopes: usize = units
            .map(|unit| unit.scopes.get().map_or(0, Vec::len))
            .sum();
        scopes * size_of::<Scope>() + self.units.len() * 1024 + self.known.len() * 128
    }

    /// The name of the function at an entry, which may be that of an inlined copy; `None` where it has a linkage name, is
    /// not of C++, or where its entries say no more than its last part.
    pub(crate) fn of(&mut self, entry: Entry) -> Option<ScopedName> {
        let asked = entry.unit + entry.at.0;
        if let Some(known) = self.known.get(&asked) {
            return known.clone();
        }
        let function = self.has_cpp.then(|| self.describe(entry))??;
        // A copy has no name of its own: its function's is that of all its copies.
        let own = function.own.unit + function.own.at.0;
        let name = self.known.get(&own).cloned().unwrap_or_else(|| {
            let name = self.with_scopes(&function);
            let name = name.filter(|name| name.full.len() <= self.left);
            self.left -= name.as_ref().map_or(0, |name| name.full.len());
            self.known.insert(own, name.clone());
            name
        });
        self.known.insert(asked, name.clone());
        name
    }

    /// The name that tells a function from others: as the linker has it, or with its scopes. `None` for a label of assembly:
    /// several at one address are aliases.
    pub(crate) fn distinct(&mut self, entry: Entry) -> Option<String> {
        let unit = self.unit(entry.unit)?;
        if unit.language == Some(gimli::DW_LANG_Mips_Assembler) {
            return None;
        }
        let scoped = self.of(entry).map(|name| name.full.to_string());
        scoped.or_else(|| lines::described(unit.unit.unit_ref(&self.dwarf), entry.at).name)
    }

    fn with_scopes(&mut self, function: &Described) -> Option<ScopedName> {
        let plain = unless_number(function.plain.as_deref()?)?;
        let language = self.unit(function.own.unit)?.language;
        if function.has_linkage || !language.is_some_and(is_cpp) || is_whole(plain) {
            return None;
        }
        let (mut parts, mut bytes, mut at) = (vec![plain.to_owned()], plain.len(), function.own);
        while let Some((scope, tag)) = self.scope_of(at)? {
            // `main`, what is `extern "C"`, and what no compiler mangles.
            let is_class = !matches!(tag, gimli::DW_TAG_namespace | gimli::DW_TAG_subprogram);
            if parts.len() == 1 && function.is_external && !is_class {
                return None;
            }
            let scope = self.describe(scope)?;
            let name = scope.plain.unwrap_or_else(|| match tag {
                gimli::DW_TAG_namespace => "(anonymous namespace)".into(),
                _ if parts.last().is_some_and(|part| part == "operator()") => "<lambda>".into(),
                _ => "{unnamed type}".into(),
            });
            bytes += name.len() + 2;
            if parts.len() > MAX_DEPTH || bytes > NAME_BYTES {
                return None;
            }
            parts.push(name);
            at = scope.own;
        }
        parts.reverse();
        (parts.len() > 1).then(|| ScopedName {
            full: parts.join("::").into(),
            plain: plain.into(),
        })
    }

    /// Follows the references of an entry.
    fn describe(&mut self, entry: Entry) -> Option<Described> {
        let mut described = Described {
            own: entry,
            plain: None,
            has_linkage: false,
            is_external: false,
        };
        let mut next = Some(entry);
        for _ in 0..MAX_REFERENCES {
            let Some(entry) = next.take() else { break };
            described.own = entry;
            let unit = self.unit(entry.unit)?;
            let die = unit.unit.entry(entry.at).ok()?;
            for attribute in die.attrs() {
                let value = attribute.value();
                match attribute.name() {
                    gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                        described.has_linkage = true;
                    }
                    gimli::DW_AT_name if described.plain.is_none() => {
                        let name = self.dwarf.attr_string(&unit.unit, value).ok();
                        described.plain = name.map(|name| text(name.slice()).into_owned());
                    }
                    gimli::DW_AT_external => {
                        described.is_external |= value == AttributeValue::Flag(true);
                    }
                    gimli::DW_AT_specification | gimli::DW_AT_abstract_origin => {
                        next = self.target(entry, value);
                    }
                    _ => {}
                }
            }
        }
        Some(described)
    }

    fn unit(&mut self, offset: usize) -> Option<Arc<ScopedUnit<'a>>> {
        let read = || ScopedUnit::read(&self.dwarf, offset).map(Arc::new);
        self.units.get_or_find(&offset, read)
    }

    /// The entry that an attribute of `entry` refers to, in this unit or another one.
    fn target(&mut self, entry: Entry, value: AttributeValue<R<'a>>) -> Option<Entry> {
        match value {
            AttributeValue::UnitRef(at) => Some(Entry { at, ..entry }),
            AttributeValue::DebugInfoRef(at) => {
                let all = self.offsets.get_or_insert_with(|| offsets(&self.dwarf));
                let after = all.partition_point(|&unit| unit <= at.0);
                let unit = *all.get(after.checked_sub(1)?)?;
                let at = UnitOffset(at.0 - unit);
                Some(Entry { unit, at })
            }
            _ => None,
        }
    }

    /// The scope around an entry: `None` if its unit cannot be read, `Some(None)` if no scope is around it.
    fn scope_of(&mut self, entry: Entry) -> Option<Option<(Entry, gimli::DwTag)>> {
        let unit = self.unit(entry.unit)?;
        let scopes = unit.scopes();
        let before = scopes.partition_point(|scope| scope.begin < entry.at.0);
        let mut at = before.checked_sub(1);
        while let Some(scope) = at.map(|at| &scopes[at]) {
            if entry.at.0 < scope.end {
                let at = UnitOffset(scope.begin);
                return Some(Some((Entry { at, ..entry }, scope.tag)));
            }
            at = scope.around;
        }
        Some(None)
    }
}

fn offsets(dwarf: &Dwarf<R<'_>>) -> Vec<usize> {
    let mut headers = dwarf.units();
    let mut offsets = Vec::new();
    while let Ok(Some(header)) = headers.next() {
        offsets.extend(header.debug_info_offset().map(|offset| offset.0));
    }
    offsets
}

impl<'a> ScopedUnit<'a> {
    fn read(dwarf: &Dwarf<R<'a>>, offset: usize) -> Option<ScopedUnit<'a>> {
        let header = dwarf.unit_header(gimli::DebugInfoOffset(offset)).ok()?;
        let unit = dwarf.unit(header).ok()?;
        let root = unit.entry(unit.header.root_offset()).ok()?;
        let language = match root.attr_value(gimli::DW_AT_language) {
            Some(AttributeValue::Language(language)) => Some(language),
            _ => None,
        };
        Some(ScopedUnit {
            unit,
            language,
            scopes: OnceLock::new(),
        })
    }

    fn scopes(&self) -> &[Scope] {
        self.scopes.get_or_init(|| {
            let mut scopes = Vec::new();
            // What is after damage no other reader reaches either.
            let _ = read_scopes(&self.unit, &mut scopes);
            scopes
        })
    }
}

fn read_scopes(unit: &Unit<R<'_>>, scopes: &mut Vec<Scope>) -> gimli::Result<()> {
    let mut entries = unit.entries_raw(None)?;
    // Indexes of the scopes around the entry that is read, with their depths.
    let mut open: Vec<(usize, isize)> = Vec::new();
    let end = unit.header.length_including_self();
    while !entries.is_empty() {
        let (begin, depth) = (entries.next_offset().0, entries.next_depth());
        while let Some((scope, _)) = open.pop_if(|(_, around)| *around >= depth) {
            scopes[scope].end = begin;
        }
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        let tag = abbreviation.tag();
        if abbreviation.has_children() && is_scope(tag) {
            let around = open.last().map(|&(scope, _)| scope);
            open.push((scopes.len(), depth));
            scopes.push(Scope {
                begin,
                end,
                around,
                tag,
            });
        }
        entries.skip_attributes(abbreviation.attributes())?;
    }
    Ok(())
}

fn is_scope(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_subprogram
    )
}

/// Returns true for a name that is no part of a C++ one, though it is in a C++ file: methods of Objective-C, blocks, and the
/// functions that compilers make for them and for global variables. In symbol tables they stand as they are.
fn is_whole(name: &str) -> bool {
    let begins = [
        "__copy_helper_block_",
        "__destroy_helper_block_",
        "__cxx_global_",
        "_GLOBAL__",
    ];
    let has = ["-[", "+[", "_block_invoke"];
    begins.iter().any(|begin| name.starts_with(begin)) || has.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_objective_c_and_blocks_are_no_part_of_a_cpp_name() {
        for whole in [
            "-[ArrayAdapter count]",
            "__36-[ArrayAdapter initWithJSObject:]_block_invoke",
            "__main_block_invoke_2",
            "__copy_helper_block_8_32s",
            "__cxx_global_var_init",
            "_GLOBAL__sub_I_main.mm",
        ] {
            assert!(is_whole(whole), "{whole}");
        }
        for part in [
            "join_row",
            "operator()",
            "operator-",
            "operator[]",
            "get<-1>",
        ] {
            assert!(!is_whole(part), "{part}");
        }
    }
}
