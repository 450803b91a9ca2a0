//! Units of DWARF, and which scopes of theirs lie around an entry: entries have no reference to what is around them.

use std::sync::{Arc, OnceLock};

use addr2line::gimli::{self, AttributeValue, Dwarf, Unit, UnitOffset};
use rustc_hash::FxHashMap;

use super::super::dwarf::R;

/// Units that are held at a time.
const UNITS: usize = 256;

/// An entry: the offset of its unit in `.debug_info`, and that in the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub unit: usize,
    pub at: UnitOffset,
}

impl Entry {
    /// Its offset in `.debug_info`.
    pub(super) fn section_offset(self) -> usize {
        self.unit + self.at.0
    }
}

pub(super) type UnitHandle<'a> = Arc<Tree<'a>>;
pub(super) type Die<'a> = gimli::DebuggingInformationEntry<R<'a>>;

/// A unit, and its scopes once a name needs them.
pub(crate) struct Tree<'a> {
    unit: Unit<R<'a>>,
    language: Option<gimli::DwLang>,
    scopes: OnceLock<Scopes>,
}

/// The scopes of a unit, in order.
#[derive(Default)]
struct Scopes {
    all: Vec<Scope>,
    /// True if some entry is a base type; units that have line tables alone have none.
    has_types: bool,
}

/// A namespace, class or function with entries below it.
struct Scope {
    begin: usize,
    end: usize,
    /// Index of the scope around it.
    around: Option<usize>,
    tag: gimli::DwTag,
}

/// The units that were read.
pub(super) struct Trees<'a> {
    dwarf: Arc<Dwarf<R<'a>>>,
    /// Offsets of all units, once a reference led out of one.
    offsets: Option<Vec<usize>>,
    known: FxHashMap<usize, Option<UnitHandle<'a>>>,
}

impl<'a> Trees<'a> {
    pub(super) fn new(dwarf: Arc<Dwarf<R<'a>>>) -> Trees<'a> {
        Trees {
            dwarf,
            offsets: None,
            known: FxHashMap::default(),
        }
    }

    pub(super) fn weight(&self) -> usize {
        let scopes = |tree: &UnitHandle<'_>| tree.scopes.get().map_or(0, |scopes| scopes.all.len());
        let scopes: usize = self.known.values().flatten().map(scopes).sum();
        scopes * size_of::<Scope>() + self.known.len() * 1024
    }

    fn unit(&mut self, offset: usize) -> Option<UnitHandle<'a>> {
        if let Some(known) = self.known.get(&offset) {
            return known.clone();
        }
        if self.known.len() >= UNITS {
            self.known.clear();
        }
        let tree = Tree::read(&self.dwarf, offset).map(Arc::new);
        self.known.insert(offset, tree.clone());
        tree
    }

    pub(super) fn language(&mut self, unit: usize) -> Option<gimli::DwLang> {
        self.unit(unit)?.language
    }

    pub(super) fn has_types(&mut self, unit: usize) -> bool {
        self.unit(unit).is_some_and(|tree| tree.scopes().has_types)
    }

    pub(super) fn read(&mut self, entry: Entry) -> Option<(UnitHandle<'a>, Die<'a>)> {
        let tree = self.unit(entry.unit)?;
        let die = tree.unit.entry(entry.at).ok()?;
        Some((tree, die))
    }

    pub(super) fn text(&self, tree: &Tree<'a>, value: AttributeValue<R<'a>>) -> Option<String> {
        let text = self.dwarf.attr_string(&tree.unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// The entry that an attribute of `entry` refers to, in this unit or another one.
    pub(super) fn target(&mut self, entry: Entry, value: AttributeValue<R<'a>>) -> Option<Entry> {
        match value {
            AttributeValue::UnitRef(at) => Some(Entry { at, ..entry }),
            AttributeValue::DebugInfoRef(at) => {
                let all = self.offsets.get_or_insert_with(|| offsets(&self.dwarf));
                let after = all.partition_point(|&unit| unit <= at.0);
                let unit = *all.get(after.checked_sub(1)?)?;
                Some(Entry {
                    unit,
                    at: UnitOffset(at.0 - unit),
                })
            }
            _ => None,
        }
    }

    /// The scope around an entry: `None` if its unit cannot be read, `Some(None)` if no scope is around it.
    pub(super) fn scope_of(&mut self, entry: Entry) -> Option<Option<(Entry, gimli::DwTag)>> {
        let tree = self.unit(entry.unit)?;
        let scopes = &tree.scopes().all;
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

    /// The entries right below one, with their tags, and how many were read for them: no more than `most`.
    pub(super) fn children(
        &mut self,
        entry: Entry,
        most: usize,
    ) -> Option<(Vec<(Entry, gimli::DwTag)>, usize)> {
        let tree = self.unit(entry.unit)?;
        let mut entries = tree.unit.entries_at_offset(entry.at).ok()?;
        let mut found = Vec::new();
        let own = entries.next_dfs().ok()??;
        if !own.has_children() {
            return Some((found, 1));
        }
        let depth = own.depth();
        let mut read = 1;
        while read < most
            && let Ok(Some(child)) = entries.next_dfs()
            && child.depth() > depth
        {
            read += 1;
            if child.depth() == depth + 1 {
                let at = child.offset();
                found.push((Entry { at, ..entry }, child.tag()));
                // The code of a function follows what its name needs.
                if matches!(
                    child.tag(),
                    gimli::DW_TAG_lexical_block | gimli::DW_TAG_inlined_subroutine
                ) {
                    break;
                }
            }
        }
        Some((found, read))
    }

    /// The classes that lie directly in the same function, class or namespace as `entry`.
    pub(super) fn classes_beside(&mut self, entry: Entry) -> Option<Vec<Entry>> {
        let around = self.scope_of(entry)?.map(|(scope, _)| scope.at.0);
        let tree = self.unit(entry.unit)?;
        let scopes = &tree.scopes().all;
        let is_class = |tag| !matches!(tag, gimli::DW_TAG_namespace | gimli::DW_TAG_subprogram);
        let beside = scopes.iter().filter(|scope| {
            is_class(scope.tag) && scope.around.map(|at| scopes[at].begin) == around
        });
        Some(
            beside
                .map(|scope| Entry {
                    at: UnitOffset(scope.begin),
                    ..entry
                })
                .collect(),
        )
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

impl<'a> Tree<'a> {
    fn read(dwarf: &Dwarf<R<'a>>, offset: usize) -> Option<Tree<'a>> {
        let header = dwarf.unit_header(gimli::DebugInfoOffset(offset)).ok()?;
        let unit = dwarf.unit(header).ok()?;
        let root = unit.entry(unit.header.root_offset()).ok()?;
        let language = match root.attr_value(gimli::DW_AT_language) {
            Some(AttributeValue::Language(language)) => Some(language),
            _ => None,
        };
        Some(Tree {
            unit,
            language,
            scopes: OnceLock::new(),
        })
    }

    fn scopes(&self) -> &Scopes {
        self.scopes.get_or_init(|| {
            let mut scopes = Scopes::default();
            let _ = scopes.read(&self.unit);
            scopes
        })
    }
}

impl Scopes {
    /// Reads all entries, up to damage.
    fn read(&mut self, unit: &Unit<R<'_>>) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        // Indexes of the scopes around the entry that is read, with their depths.
        let mut open: Vec<(usize, isize)> = Vec::new();
        let end = unit.header.length_including_self();
        while !entries.is_empty() {
            let (begin, depth) = (entries.next_offset().0, entries.next_depth());
            while let Some((scope, _)) = open.pop_if(|(_, around)| *around >= depth) {
                self.all[scope].end = begin;
            }
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            let tag = abbreviation.tag();
            self.has_types |= tag == gimli::DW_TAG_base_type;
            if abbreviation.has_children() && is_scope(tag) {
                let around = open.last().map(|&(scope, _)| scope);
                open.push((self.all.len(), depth));
                self.all.push(Scope {
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
