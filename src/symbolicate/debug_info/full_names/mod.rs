//! Names in full of C++ functions that debug information names by their last part alone: those with internal linkage,
//! lambdas, local classes. The entries around a function's own have its namespaces and classes, its own has its parameters.
//!
//! A name is written as the demangler writes a mangled one: `app::(anonymous namespace)::join_row(int)`,
//! `app::pay(int)::{lambda(int)#1}::operator()(int) const`.

mod by_code;
mod spelling;
mod tree;
mod types;

use std::sync::Arc;

use addr2line::gimli::{self, AttributeValue, Dwarf, Reader as _, Section as _};
use rustc_hash::FxHashMap;

use super::dwarf::R;
use super::names::{is_mangled, known};
use crate::symbolicate::frame::NAME_BYTES;
use crate::symbolicate::names::demangle::demangle;
pub(crate) use by_code::NamesByCode;
pub(crate) use tree::Entry;
use tree::Trees;

/// Entries that are read for one name.
const MOST_ENTRIES: usize = 4096;
/// Scopes and types nest no deeper than this in a name.
const DEEPEST: usize = 32;
/// References from an entry to those that say more of it.
const LONGEST: usize = 4;

/// Names of functions by their entries, and what was read for them.
pub(crate) struct FullNames<'a> {
    trees: Trees<'a>,
    /// By the entry of the function itself, not of its inlined copies.
    known: FxHashMap<usize, Option<FullName>>,
    /// Entries that may still be read for the name at hand, and in all.
    entries_left: usize,
    all_left: usize,
}

/// A function's name.
#[derive(Debug, Clone)]
pub(crate) struct FullName {
    pub full: Arc<str>,
    /// Its last part, as the entry has it.
    pub plain: Arc<str>,
}

/// A function's entry, with those that it refers to.
struct Function {
    /// Its own, which copies of it refer to, and that of its declaration.
    entries: Vec<Entry>,
    linkage: Option<String>,
    plain: Option<String>,
    is_external: bool,
}

impl<'a> FullNames<'a> {
    pub(crate) fn new(dwarf: Arc<Dwarf<R<'a>>>) -> FullNames<'a> {
        FullNames {
            all_left: dwarf.debug_info.reader().len(),
            trees: Trees::new(dwarf),
            known: FxHashMap::default(),
            entries_left: 0,
        }
    }

    /// Bytes of memory that they take, roughly.
    pub(crate) fn weight(&self) -> usize {
        self.trees.weight() + self.known.len() * 128
    }

    /// The language of the unit that has the function at an entry, which may be that of an inlined copy: linkers join units
    /// of several languages into one.
    pub(crate) fn language(&mut self, entry: Entry) -> Option<gimli::DwLang> {
        let function = self.function(entry)?;
        self.trees.language(function.entries.last()?.unit)
    }

    /// The name of the function at an entry, which may be that of an inlined copy; `None` where it has a linkage name, is
    /// not of C++, or where its entries say no more than its last part.
    pub(crate) fn of(&mut self, entry: Entry) -> Option<FullName> {
        let function = self.function(entry)?;
        let own = *function.entries.last()?;
        // A copy has no name of its own: its function's is that of all its copies.
        if let Some(known) = self.known.get(&own.section_offset()) {
            return known.clone();
        }
        self.entries_left = MOST_ENTRIES.min(self.all_left);
        let begin = self.entries_left;
        let is_wanted =
            function.linkage.is_none() && self.trees.language(own.unit).is_some_and(is_cpp);
        let name = if is_wanted {
            self.in_full(&function, 0)
        } else {
            None
        };
        self.all_left -= begin - self.entries_left;
        let is_more = |name: &String| function.plain.as_ref() != Some(name);
        let name = name.filter(|name| name.len() <= NAME_BYTES && is_more(name));
        let name = name.zip(function.plain).map(|(full, plain)| FullName {
            full: full.into(),
            plain: plain.into(),
        });
        self.known.insert(own.section_offset(), name.clone());
        name
    }

    /// Follows the references of a function's entry.
    fn function(&mut self, entry: Entry) -> Option<Function> {
        let mut function = Function {
            entries: Vec::new(),
            linkage: None,
            plain: None,
            is_external: false,
        };
        let mut next = Some(entry);
        for _ in 0..LONGEST {
            let Some(entry) = next.take() else { break };
            function.entries.push(entry);
            let (unit, die) = self.trees.read(entry)?;
            for attribute in die.attrs() {
                let value = attribute.value();
                match attribute.name() {
                    gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                        function.linkage =
                            function.linkage.or_else(|| self.trees.text(&unit, value));
                    }
                    gimli::DW_AT_name => {
                        function.plain = function.plain.or_else(|| self.trees.text(&unit, value));
                    }
                    gimli::DW_AT_external => {
                        function.is_external |= value == AttributeValue::Flag(true);
                    }
                    gimli::DW_AT_specification => next = self.trees.target(entry, value),
                    gimli::DW_AT_abstract_origin => {
                        // This one is of a copy.
                        function.entries.clear();
                        next = self.trees.target(entry, value);
                    }
                    _ => {}
                }
            }
        }
        Some(function)
    }

    /// Scopes, name, parameters.
    fn in_full(&mut self, function: &Function, depth: usize) -> Option<String> {
        let plain = known(function.plain.as_deref()?)?;
        let own = *function.entries.last()?;
        let is_class = |tag| !matches!(tag, gimli::DW_TAG_namespace | gimli::DW_TAG_subprogram);
        let is_method = self
            .trees
            .scope_of(own)?
            .is_some_and(|(_, tag)| is_class(tag));
        // `main`, what is `extern "C"`, and what no compiler mangles.
        if function.is_external && !is_method || spelling::is_whole(plain) {
            return Some(plain.to_owned());
        }
        let mut name = self.scopes(own, depth + 1)?;
        let class = name.rsplit("::").next().unwrap_or_default();
        let is_method_without_result = is_without_result(plain, class);
        if !name.is_empty() {
            name.push_str("::");
        }
        name.push_str(&spelling::demangled_spelling(plain));
        let has_arguments = spelling::has_arguments(plain);
        let arguments = if has_arguments {
            None
        } else {
            self.template_arguments(&function.entries, depth + 1)?
        };
        if let Some(arguments) = &arguments {
            name.push_str(arguments);
        }
        // Of line tables alone nobody knows the parameters.
        if !self.trees.has_types(own.unit) {
            return Some(name);
        }
        let (parameters, is_const) = self.parameters(&function.entries, depth + 1)?;
        name.push_str(&format!(
            "({parameters}){}",
            if is_const { " const" } else { "" }
        ));
        // The result is part of the name of what a template made.
        if (has_arguments || arguments.is_some()) && !is_method_without_result {
            let result = self.result(&function.entries, depth + 1)?;
            name = format!("{result} {name}");
        }
        Some(name)
    }

    /// The names of the namespaces, classes and functions around an entry, joined.
    fn scopes(&mut self, entry: Entry, depth: usize) -> Option<String> {
        if depth > DEEPEST {
            return None;
        }
        let Some((scope, tag)) = self.trees.scope_of(entry)? else {
            return Some(String::new());
        };
        match tag {
            gimli::DW_TAG_subprogram => {
                let function = self.function(scope)?;
                let linkage = function.linkage.as_deref().filter(|name| is_mangled(name));
                match linkage {
                    Some(linkage) => {
                        let name = demangle(linkage);
                        // A clone of the function around is no other one.
                        let name = name.split(" [clone").next().unwrap_or_default();
                        Some(name.to_owned())
                    }
                    None => self.in_full(&function, depth + 1),
                }
            }
            gimli::DW_TAG_namespace => {
                let (unit, die) = self.take(scope)?;
                let name = die.attr_value(gimli::DW_AT_name);
                let name = name.and_then(|name| self.trees.text(&unit, name));
                let name = name.unwrap_or_else(|| "(anonymous namespace)".into());
                self.within(scope, &name, depth + 1)
            }
            _ => self.class(scope, depth + 1),
        }
    }

    /// A name with the scopes of its entry.
    fn within(&mut self, entry: Entry, name: &str, depth: usize) -> Option<String> {
        let scopes = self.scopes(entry, depth)?;
        let bounded = scopes.len() + name.len() <= NAME_BYTES;
        bounded.then(|| {
            if scopes.is_empty() {
                name.to_owned()
            } else {
                format!("{scopes}::{name}")
            }
        })
    }

    /// Reads an entry, of which so many may be read.
    fn take(&mut self, entry: Entry) -> Option<(tree::UnitHandle<'a>, tree::Die<'a>)> {
        self.entries_left = self.entries_left.checked_sub(1)?;
        self.trees.read(entry)
    }

    /// The first of these entries' results; `void` where none has one.
    fn result(&mut self, entries: &[Entry], depth: usize) -> Option<String> {
        for &entry in entries {
            let (_, die) = self.take(entry)?;
            if let Some(result) = die.attr_value(gimli::DW_AT_type) {
                let result = self.trees.target(entry, result)?;
                return self.type_name(Some(result), depth);
            }
        }
        Some("void".into())
    }

    /// The parameters that the first of these entries has which has any, and whether the method is `const`.
    fn parameters(&mut self, entries: &[Entry], depth: usize) -> Option<(String, bool)> {
        for &entry in entries {
            let children = self.children(entry)?;
            let (mut texts, mut is_const, mut any) = (Vec::new(), false, false);
            for &(child, tag) in &children {
                match tag {
                    gimli::DW_TAG_formal_parameter => {
                        any = true;
                        let (_, die) = self.take(child)?;
                        let of = die.attr_value(gimli::DW_AT_type);
                        let of = of.and_then(|of| self.trees.target(child, of));
                        let is_artificial = die.attr_value(gimli::DW_AT_artificial);
                        if matches!(is_artificial, Some(AttributeValue::Flag(true))) {
                            // `this` alone: others are the compiler's own.
                            is_const |= texts.is_empty() && self.is_pointer_to_const(of?)?;
                        } else {
                            texts.push(self.parameter(of?, depth)?);
                        }
                    }
                    gimli::DW_TAG_unspecified_parameters => {
                        any = true;
                        texts.push("...".into());
                    }
                    _ => {}
                }
                if texts.iter().map(String::len).sum::<usize>() > NAME_BYTES {
                    return None;
                }
            }
            if any {
                return Some((texts.join(", "), is_const));
            }
        }
        Some((String::new(), false))
    }

    /// The arguments of what a template made, where its name has none; `Some(None)` where no template did.
    fn template_arguments(&mut self, entries: &[Entry], depth: usize) -> Option<Option<String>> {
        for &entry in entries {
            let mut texts = Vec::new();
            for (child, tag) in self.children(entry)? {
                let (_, die) = match tag {
                    gimli::DW_TAG_template_type_parameter
                    | gimli::DW_TAG_template_value_parameter => self.take(child)?,
                    _ => continue,
                };
                let value = die.attr(gimli::DW_AT_const_value);
                texts.push(match (tag, value) {
                    (gimli::DW_TAG_template_value_parameter, Some(value)) => {
                        value.sdata_value()?.to_string()
                    }
                    _ => {
                        let of = die.attr_value(gimli::DW_AT_type);
                        let of = of.and_then(|of| self.trees.target(child, of));
                        self.type_name(of, depth)?
                    }
                });
            }
            if !texts.is_empty() {
                let end = if texts.last().is_some_and(|last| last.ends_with('>')) {
                    " >"
                } else {
                    ">"
                };
                return Some(Some(format!("<{}{end}", texts.join(", "))));
            }
        }
        Some(None)
    }

    /// The entries right below one, with their tags: as many as are read for a name.
    fn children(&mut self, entry: Entry) -> Option<Vec<(Entry, gimli::DwTag)>> {
        let (children, read) = self.trees.children(entry, self.entries_left)?;
        self.entries_left = self.entries_left.checked_sub(read)?;
        Some(children)
    }
}

/// Returns true for methods that no result is written of: constructors, destructors, conversions.
fn is_without_result(plain: &str, class: &str) -> bool {
    let bare = |name: &str| name.split('<').next().unwrap_or(name).to_owned();
    let is_conversion = |after: &str| after.starts_with(|c: char| c.is_alphabetic() || c == '_');
    plain.starts_with('~')
        || bare(plain) == bare(class)
        || plain.strip_prefix("operator ").is_some_and(is_conversion)
}

fn is_cpp(language: gimli::DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20
            | gimli::DW_LANG_ObjC_plus_plus
    )
}
