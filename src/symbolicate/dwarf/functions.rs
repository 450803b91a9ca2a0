//! A unit's functions and what was inlined into them: a walk over its DIEs.

use gimli::{AttributeValue, DwTag, Unit, UnitOffset};
use rustc_hash::FxHashMap;

use super::R;
use super::flatten::{Function, NONE};
use super::names::{Names, Target, target};
use super::units::Walk;
use crate::symbolicate::object_file::code_end;
use crate::symbolicate::overlay::Claim;

/// A function's body, or an inlined copy of one.
#[derive(Debug)]
pub(super) struct Node {
    /// Index into [`Functions::functions`].
    pub function: u32,
    /// The node it was inlined into; `None` for a function with a body of its own.
    pub caller: Option<u32>,
    pub call_file: u64,
    pub call_line: u32,
    /// Where the body starts, and the line of its declaration.
    pub entry: u64,
    pub line: Option<u64>,
    depth: u64,
    rank: u64,
}

/// All of a unit's code, as claims of nodes on addresses.
#[derive(Debug, Default)]
pub(super) struct Functions {
    pub nodes: Vec<Node>,
    pub claims: Vec<Claim<u32>>,
    pub functions: Vec<Function>,
}

/// Deeper nesting than this is damage.
const DEPTH: u64 = 0xffff;

/// What a DIE says that matters here.
#[derive(Default)]
struct Facts<'a> {
    low: Option<u64>,
    high: Option<AttributeValue<R<'a>>>,
    ranges: Option<AttributeValue<R<'a>>>,
    /// Read only for DIEs with code: most have none.
    linkage: Option<AttributeValue<R<'a>>>,
    name: Option<AttributeValue<R<'a>>>,
    line: Option<u64>,
    origin: Option<Target>,
    specification: Option<Target>,
    call_file: u64,
    call_line: u32,
}

impl Functions {
    /// Reads the DIEs of `unit`; with `only`, just the functions that hold this address, with claims
    /// on this address alone. What stands before damage is kept.
    pub(super) fn read<'a>(walk: &Walk<'a>, unit: &Unit<R<'a>>, only: Option<u64>) -> Functions {
        let mut reading = Reading {
            walk,
            unit,
            only,
            mangles: language_mangles(walk, unit),
            result: Functions::default(),
            inlined: FxHashMap::default(),
            stack: Vec::new(),
        };
        let _damaged = reading.run();
        reading.result
    }
}

struct Reading<'w, 'a> {
    walk: &'w Walk<'a>,
    unit: &'w Unit<R<'a>>,
    only: Option<u64>,
    /// Whether this unit's language mangles names, so that a plain name is only half of one.
    mangles: bool,
    result: Functions,
    /// Functions that were inlined, by their abstract origin.
    inlined: FxHashMap<(bool, usize), u32>,
    /// The DIEs that we are inside of: depth, and node if it has code.
    stack: Vec<(isize, Option<u32>)>,
}

impl<'a> Reading<'_, 'a> {
    fn run(&mut self) -> gimli::Result<()> {
        let mut entries = self.unit.entries_raw(None)?;
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let offset = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            while self.stack.last().is_some_and(|&(d, _)| d >= depth) {
                self.stack.pop();
            }
            let tag = abbreviation.tag();
            if tag != gimli::DW_TAG_subprogram && tag != gimli::DW_TAG_inlined_subroutine {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut facts = Facts::default();
            for &spec in abbreviation.attributes() {
                let attribute = entries.read_attribute(spec)?;
                self.note(&mut facts, attribute.name(), attribute.value());
            }
            let node = self.node(tag, offset, facts)?;
            if abbreviation.has_children() {
                self.stack.push((depth, node));
            }
        }
        Ok(())
    }

    fn note(&self, facts: &mut Facts<'a>, name: gimli::DwAt, value: AttributeValue<R<'a>>) {
        let number = |value: &AttributeValue<R<'a>>| match *value {
            AttributeValue::FileIndex(n) => n,
            ref other => other.udata_value().unwrap_or(0),
        };
        match name {
            gimli::DW_AT_low_pc => {
                facts.low = self
                    .walk
                    .dwarf
                    .attr_address(self.unit, value)
                    .ok()
                    .flatten()
            }
            gimli::DW_AT_high_pc => facts.high = Some(value),
            gimli::DW_AT_ranges => facts.ranges = Some(value),
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                facts.linkage = Some(value);
            }
            gimli::DW_AT_name => facts.name = Some(value),
            gimli::DW_AT_decl_line => facts.line = value.udata_value(),
            gimli::DW_AT_abstract_origin => facts.origin = target(value, false),
            gimli::DW_AT_specification => facts.specification = target(value, false),
            gimli::DW_AT_call_file => facts.call_file = number(&value),
            gimli::DW_AT_call_line => facts.call_line = u32::try_from(number(&value)).unwrap_or(0),
            _ => {}
        }
    }

    /// Makes a node of a DIE with code; `None` for declarations and abstract functions.
    fn node(
        &mut self,
        tag: DwTag,
        offset: UnitOffset,
        facts: Facts<'a>,
    ) -> gimli::Result<Option<u32>> {
        let ranges = self.ranges(&facts)?;
        let Some(&(entry, _)) = ranges.first() else {
            return Ok(None);
        };
        let holds = |at: u64| ranges.iter().any(|&(start, end)| start <= at && at < end);
        if tag == gimli::DW_TAG_subprogram && self.only.is_some_and(|at| !holds(at)) {
            return Ok(None);
        }
        let text = |value: Option<_>| self.walk.text(self.unit, false, value?);
        let mut names = Names {
            linkage: text(facts.linkage),
            name: text(facts.name),
            line: facts.line,
        };
        let index = self.result.nodes.len() as u32;
        let inlined = tag == gimli::DW_TAG_inlined_subroutine;
        let caller = if inlined {
            // The nearest DIE around it that has code; lexical blocks are not on the stack.
            let Some(&(_, Some(caller))) = self.stack.last() else {
                return Ok(None);
            };
            Some(caller)
        } else {
            None
        };
        let (depth, rank) = match caller.map(|c| &self.result.nodes[c as usize]) {
            Some(caller) => ((caller.depth + 1).min(DEPTH), caller.rank & !DEPTH),
            // Of two functions at one address in one unit the later one wins, with all that was
            // inlined into it; so name and lines are those of one function.
            None => (0, u64::from(index) << 16),
        };
        let (function, line) = match caller {
            Some(_) => (
                self.inlined_function(offset, names, facts.origin.or(facts.specification)),
                None,
            ),
            None => {
                for reference in [facts.origin, facts.specification].into_iter().flatten() {
                    let more = self.walk.names_of(self.unit, false, reference);
                    names.linkage = names.linkage.or(more.linkage);
                    names.name = names.name.or(more.name);
                    names.line = names.line.or(more.line);
                }
                let line = names.line;
                (self.push_function(names, entry), line)
            }
        };
        let rank = rank | depth;
        let Facts {
            call_file,
            call_line,
            ..
        } = facts;
        self.result.nodes.push(Node {
            function,
            caller,
            call_file,
            call_line,
            entry,
            line,
            depth,
            rank,
        });
        let only = self.only;
        let claims = ranges.into_iter().filter_map(|(start, end)| {
            let (start, end) = match only {
                None => (start, end),
                Some(at) if start <= at && at < end => (at, at + 1),
                Some(_) => return None,
            };
            let value = index;
            Some(Claim {
                start,
                end,
                rank,
                value,
            })
        });
        self.result.claims.extend(claims);
        Ok(Some(index))
    }

    /// The ranges of a DIE that lie in code, cut at the end of their section.
    fn ranges(&self, facts: &Facts<'a>) -> gimli::Result<Vec<(u64, u64)>> {
        let mut ranges = Vec::new();
        let mut push = |begin: u64, end: u64| {
            if begin < end
                && let Some(limit) = code_end(&self.walk.file.code, begin)
            {
                ranges.push((begin, end.min(limit)));
            }
        };
        if let Some(value) = facts.ranges {
            if let Some(mut list) = self.walk.dwarf.attr_ranges(self.unit, value)? {
                while let Some(range) = list.next()? {
                    push(range.begin, range.end);
                }
            }
        } else if let (Some(low), Some(high)) = (facts.low, facts.high) {
            let high = match high {
                AttributeValue::Udata(size) => low.checked_add(size),
                other => self
                    .walk
                    .dwarf
                    .attr_address(self.unit, other)
                    .ok()
                    .flatten(),
            };
            push(low, high.unwrap_or(0));
        }
        Ok(ranges)
    }

    fn inlined_function(
        &mut self,
        offset: UnitOffset,
        names: Names,
        origin: Option<Target>,
    ) -> u32 {
        let own = Target::Here(offset);
        let key = match origin.unwrap_or(own) {
            Target::Here(offset) => (false, offset.0),
            // Offsets in a unit are smaller than the unit; those in a section are marked.
            Target::Elsewhere(sup, offset) => (sup, offset | 1 << (usize::BITS - 1)),
        };
        if let Some(&function) = self.inlined.get(&key) {
            return function;
        }
        let mut names = names;
        if let Some(origin) = origin {
            let more = self.walk.names_of(self.unit, false, origin);
            names.linkage = names.linkage.or(more.linkage);
            names.name = names.name.or(more.name);
        }
        let function = self.push_function(names, 0);
        self.inlined.insert(key, function);
        function
    }

    fn push_function(&mut self, names: Names, entry: u64) -> u32 {
        let Names { linkage, name, .. } = names;
        // Bitcode builds replace names by numbers; the linker's symbol is the better name.
        let linkage = linkage.filter(|text| !is_hidden(text));
        let name = name.filter(|text| !is_hidden(text));
        let wants_symbol = entry != 0 && linkage.is_none() && (self.mangles || name.is_none());
        let name = linkage.or(name);
        if name.is_none() && !wants_symbol {
            return NONE;
        }
        self.result.functions.push(Function {
            name: name.unwrap_or_default(),
            entry,
            wants_symbol,
        });
        self.result.functions.len() as u32 - 1
    }
}

/// Whether a bitcode build put a number in place of this name.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with("__hidden#")
}

/// Whether the unit's language mangles the names of its functions. In C and assembly
/// `DW_AT_name` is the whole name.
fn language_mangles<'a>(_walk: &Walk<'a>, unit: &Unit<R<'a>>) -> bool {
    let mut root = gimli::DebuggingInformationEntry::null();
    let language = unit.entries_raw(None).ok().and_then(|mut entries| {
        entries.read_entry(&mut root).ok()?;
        match root.attr_value(gimli::DW_AT_language)? {
            AttributeValue::Language(language) => Some(language),
            _ => None,
        }
    });
    !matches!(
        language,
        Some(
            gimli::DW_LANG_C
                | gimli::DW_LANG_C89
                | gimli::DW_LANG_C99
                | gimli::DW_LANG_C11
                | gimli::DW_LANG_C17
                | gimli::DW_LANG_ObjC
                | gimli::DW_LANG_Mips_Assembler
        )
    )
}
