//! Types as the demangler writes them: `char const*`, `int (&) [3]`, `void (app::Till::*)(int)`.

use addr2line::gimli;

use super::spelling::{demangled_spelling, has_arguments, spelling};
use super::tree::Entry;
use super::{DEEPEST, FullNames};
use crate::symbolicate::frame::NAME_BYTES;

impl FullNames<'_> {
    /// A type; `void` without one.
    pub(super) fn type_name(&mut self, of: Option<Entry>, depth: usize) -> Option<String> {
        self.declared(of, String::new(), depth)
    }

    /// A parameter's type: its own `const` is no part of the function.
    pub(super) fn parameter(&mut self, of: Entry, depth: usize) -> Option<String> {
        let mut of = of;
        for _ in 0..DEEPEST {
            let (_, die) = self.take(of)?;
            match die.tag() {
                gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type | gimli::DW_TAG_typedef => {}
                _ => return self.type_name(Some(of), depth),
            }
            let Some(inner) = die.attr_value(gimli::DW_AT_type) else {
                return Some("void".into());
            };
            let inner = self.trees.target(of, inner)?;
            // A class without a name has that of the `typedef`.
            if die.tag() == gimli::DW_TAG_typedef && self.is_nameless(inner)? {
                return self.type_name(Some(of), depth);
            }
            of = inner;
        }
        None
    }

    /// Returns true for a pointer, itself `const` or not, to something that is `const`.
    pub(super) fn is_pointer_to_const(&mut self, of: Entry) -> Option<bool> {
        let (mut of, mut is_pointer) = (of, false);
        for _ in 0..LEVELS {
            let (_, die) = self.take(of)?;
            match die.tag() {
                gimli::DW_TAG_pointer_type if !is_pointer => is_pointer = true,
                gimli::DW_TAG_const_type if is_pointer => return Some(true),
                gimli::DW_TAG_const_type | gimli::DW_TAG_typedef => {}
                _ => return Some(false),
            }
            let Some(inner) = die.attr_value(gimli::DW_AT_type) else {
                return Some(false);
            };
            of = self.trees.target(of, inner)?;
        }
        Some(false)
    }

    /// A type around what is declared with it.
    fn declared(&mut self, of: Option<Entry>, what: String, depth: usize) -> Option<String> {
        if depth > DEEPEST || what.len() > NAME_BYTES {
            return None;
        }
        let Some(of) = of else {
            return Some(format!("void{what}"));
        };
        let (_, die) = self.take(of)?;
        let inner = die.attr_value(gimli::DW_AT_type);
        let inner = match inner {
            Some(inner) => Some(self.trees.target(of, inner)?),
            None => None,
        };
        let next = depth + 1;
        match die.tag() {
            gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type => {
                self.qualified(of, what, depth)
            }
            gimli::DW_TAG_restrict_type | gimli::DW_TAG_atomic_type => {
                self.declared(inner, what, next)
            }
            gimli::DW_TAG_pointer_type => self.pointer(inner, "*", &what, next),
            gimli::DW_TAG_reference_type => self.pointer(inner, "&", &what, next),
            gimli::DW_TAG_rvalue_reference_type => self.pointer(inner, "&&", &what, next),
            gimli::DW_TAG_ptr_to_member_type => {
                let class = die.attr_value(gimli::DW_AT_containing_type)?;
                let class = self.trees.target(of, class)?;
                let class = self.type_name(Some(class), next)?;
                let is_function = self.is_around(inner)?;
                let sign = format!("{class}::*");
                if is_function {
                    self.pointer(inner, &sign, &what, next)
                } else {
                    self.declared(inner, format!(" {sign}{what}"), next)
                }
            }
            gimli::DW_TAG_subroutine_type => {
                let (parameters, is_const) = self.parameters(&[of], next)?;
                let end = if is_const { " const" } else { "" };
                // The result is apart from what is declared.
                let gap = if what.is_empty() { " " } else { "" };
                self.declared(inner, format!("{gap}{what}({parameters}){end}"), next)
            }
            gimli::DW_TAG_array_type => {
                let size = self.array_size(of)?;
                self.declared(inner, format!("{what} [{size}]"), next)
            }
            gimli::DW_TAG_typedef => match inner {
                Some(inner) if self.is_nameless(inner)? => {
                    Some(format!("{}{what}", self.named(of, next)?))
                }
                inner => self.declared(inner, what, next),
            },
            gimli::DW_TAG_base_type => {
                let name = self.own_name(of)?;
                Some(format!("{}{what}", spelling(&name)))
            }
            gimli::DW_TAG_unspecified_type => Some(format!("{}{what}", self.own_name(of)?)),
            gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type => Some(format!("{}{what}", self.class(of, next)?)),
            _ => None,
        }
    }

    /// A type with `const`, `volatile` or both, whichever the debug information has first.
    fn qualified(&mut self, of: Entry, what: String, depth: usize) -> Option<String> {
        let (mut next, mut words) = (Some(of), [""; 2]);
        for _ in 0..LEVELS {
            let Some(of) = next else { break };
            let (_, die) = self.take(of)?;
            match die.tag() {
                gimli::DW_TAG_const_type => words[0] = " const",
                gimli::DW_TAG_volatile_type => words[1] = " volatile",
                _ => break,
            }
            let inner = die.attr_value(gimli::DW_AT_type);
            next = match inner {
                Some(inner) => Some(self.trees.target(of, inner)?),
                None => None,
            };
        }
        self.declared(next, format!("{}{what}", words.concat()), depth + 1)
    }

    /// A pointer or reference: in parentheses where its target is around it.
    fn pointer(
        &mut self,
        inner: Option<Entry>,
        sign: &str,
        what: &str,
        depth: usize,
    ) -> Option<String> {
        let what = if self.is_around(inner)? {
            format!(" ({sign}{what})")
        } else {
            format!("{sign}{what}")
        };
        self.declared(inner, what, depth)
    }

    /// Returns true for functions and arrays, also by another name.
    fn is_around(&mut self, of: Option<Entry>) -> Option<bool> {
        let mut next = of;
        for _ in 0..LEVELS {
            let Some(of) = next else { break };
            let (_, die) = self.take(of)?;
            match die.tag() {
                gimli::DW_TAG_subroutine_type | gimli::DW_TAG_array_type => return Some(true),
                gimli::DW_TAG_typedef | gimli::DW_TAG_const_type => {}
                _ => return Some(false),
            }
            let inner = die.attr_value(gimli::DW_AT_type);
            next = inner.and_then(|inner| self.trees.target(of, inner));
        }
        Some(false)
    }

    fn is_nameless(&mut self, of: Entry) -> Option<bool> {
        let (_, die) = self.take(of)?;
        let is_class = matches!(
            die.tag(),
            gimli::DW_TAG_class_type
                | gimli::DW_TAG_structure_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type
        );
        Some(is_class && die.attr_value(gimli::DW_AT_name).is_none())
    }

    fn array_size(&mut self, of: Entry) -> Option<String> {
        for (child, tag) in self.children(of)? {
            if tag == gimli::DW_TAG_subrange_type {
                let (_, die) = self.take(child)?;
                let count = die
                    .attr(gimli::DW_AT_count)
                    .and_then(|count| count.udata_value());
                let upper = die.attr(gimli::DW_AT_upper_bound);
                let upper = upper.and_then(|upper| upper.udata_value()?.checked_add(1));
                return Some(
                    count
                        .or(upper)
                        .map_or(String::new(), |size| size.to_string()),
                );
            }
        }
        Some(String::new())
    }

    fn own_name(&mut self, of: Entry) -> Option<String> {
        let (unit, die) = self.take(of)?;
        let name = die.attr_value(gimli::DW_AT_name)?;
        self.trees.text(&unit, name)
    }

    /// A type's own name with its scopes.
    fn named(&mut self, of: Entry, depth: usize) -> Option<String> {
        let name = self.own_name(of)?;
        self.within(of, &demangled_spelling(&name), depth)
    }

    /// A class, structure, union or enumeration.
    pub(super) fn class(&mut self, of: Entry, depth: usize) -> Option<String> {
        if depth > DEEPEST {
            return None;
        }
        let (unit, die) = self.take(of)?;
        let name = die.attr_value(gimli::DW_AT_name);
        let name = name.and_then(|name| self.trees.text(&unit, name));
        let declaration = die.attr_value(gimli::DW_AT_specification);
        if let Some(declaration) = declaration {
            let declaration = self.trees.target(of, declaration)?;
            return self.class(declaration, depth + 1);
        }
        let name = match name {
            Some(name) if !name.starts_with("<lambda") => {
                if has_arguments(&name) {
                    demangled_spelling(&name)
                } else {
                    let arguments = self.template_arguments(&[of], depth + 1)?;
                    name + &arguments.unwrap_or_default()
                }
            }
            _ => self.nameless(of, depth + 1)?,
        };
        self.within(of, &name, depth + 1)
    }

    /// `{lambda(int)#2}`: the number counts those of one function that have the same parameters.
    fn nameless(&mut self, of: Entry, depth: usize) -> Option<String> {
        let Some(own) = self.lambda(of, depth)? else {
            return Some("{unnamed type#1}".into());
        };
        let (place, mut number) = (self.place(of)?, 1);
        for other in self.trees.classes_beside(of)? {
            if other != of
                && self.place(other)? < place
                && self.lambda(other, depth)?.as_deref() == Some(&*own)
            {
                number += 1;
            }
        }
        Some(format!("{{lambda({own})#{number}}}"))
    }

    /// Where a class is declared: file, line and column.
    fn place(&mut self, of: Entry) -> Option<[u64; 3]> {
        let (_, die) = self.take(of)?;
        let number = |name| match die.attr_value(name) {
            Some(gimli::AttributeValue::FileIndex(index)) => index,
            Some(value) => value.udata_value().unwrap_or(0),
            None => 0,
        };
        Some(
            [
                gimli::DW_AT_decl_file,
                gimli::DW_AT_decl_line,
                gimli::DW_AT_decl_column,
            ]
            .map(number),
        )
    }

    /// The parameters of a lambda, by its class; within, `None` for another class.
    fn lambda(&mut self, of: Entry, depth: usize) -> Option<Option<String>> {
        let (unit, die) = self.take(of)?;
        let name = die.attr_value(gimli::DW_AT_name);
        let name = name.and_then(|name| self.trees.text(&unit, name));
        if name.is_some_and(|name| !name.starts_with("<lambda")) {
            return Some(None);
        }
        for (child, tag) in self.children(of)? {
            if tag != gimli::DW_TAG_subprogram {
                continue;
            }
            let name = self.own_name(child);
            if name.is_some_and(|name| name == "operator()" || name.starts_with("operator()<")) {
                let (parameters, _) = self.parameters(&[child], depth)?;
                return Some(Some(parameters));
            }
        }
        Some(None)
    }
}

/// Names and qualifiers on the way to a type.
const LEVELS: usize = 16;
