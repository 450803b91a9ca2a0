//! Types, generic signatures and argument labels.

use super::super::kind::{Convention, Isolation, Kind, Nominal};
use super::super::tree::Id;
use super::Printer;

/// Parameters of one level that are printed, as Swift prints them.
const MAX_PARAMETERS: i64 = 128;

impl<'t> Printer<'t> {
    pub(super) fn print_type(&mut self, id: Id) -> Option<()> {
        match self.tree.kind(id) {
            Kind::Type => self.print_child(id, 0),
            Kind::BoundGeneric(nominal) => self.print_bound(id, nominal),
            Kind::Optional => {
                self.print_in_parentheses(self.child(id, 0)?)?;
                self.put("?")
            }
            Kind::OpaqueReturnOf => {
                self.put("<<opaque return type of ")?;
                self.print_children(id, "")?;
                self.put(">>")
            }
            Kind::FunctionType(_) => self.print_function_type(None, id),
            Kind::Arguments => self.print_arguments(None, id),
            Kind::Sending => self.put("sending "),
            Kind::Isolation(Isolation::Any) => self.put("@isolated(any) "),
            Kind::Isolation(Isolation::Caller) => self.put("nonisolated(nonsending) "),
            Kind::Isolation(Isolation::GlobalActor) => self.print_phrase(id, &["@", " "]),
            Kind::Differentiable => {
                self.put_own_text(id)?;
                self.put(" ")
            }
            Kind::Sendable => self.put("@Sendable "),
            Kind::Async => self.put(" async"),
            Kind::Throws => self.put(" throws"),
            Kind::ImplFunction => self.print_implementation(id),
            Kind::ImplParameter => self.print_parameter(id),
            Kind::ImplResult("") => self.print_parameter(id),
            Kind::ImplResult(words) => {
                self.put(words)?;
                self.print_children(id, " ")
            }
            Kind::Tuple => {
                self.put("(")?;
                self.print_children(id, ", ")?;
                self.put(")")
            }
            Kind::TupleElement => self.print_element(id),
            Kind::TupleName => {
                self.put_own_text(id)?;
                self.put(": ")
            }
            Kind::Metatype => self.print_metatype(id),
            Kind::ExistentialMetatype => {
                self.print_children(id, " ")?;
                self.put(".Type")
            }
            Kind::ProtocolList | Kind::ProtocolsWithClass | Kind::ProtocolsWithAnyObject => {
                self.print_protocols(id)
            }
            Kind::SelfType => self.put("Self"),
            Kind::GenericParameter => {
                let depth = self.tree.number_of(self.child(id, 0)?)?;
                let index = self.tree.number_of(self.child(id, 1)?)?;
                self.put(&parameter_name(depth, index))
            }
            Kind::DependentGeneric => {
                self.print_child(id, 0)?;
                if self.needs_space(self.child(id, 1)?) {
                    self.put(" ")?;
                }
                self.print_child(id, 1)
            }
            Kind::DependentMember | Kind::AssociatedRef => self.print_phrase(id, &["", "."]),
            Kind::Signature => self.print_signature(id),
            Kind::BoxLayout => self.print_box(id),
            Kind::BoxWithLayout => self.print_box_with_layout(id),
            _ => None,
        }
    }

    fn print_bound(&mut self, id: Id, nominal: Nominal) -> Option<()> {
        let tree = self.tree;
        let inner = self.child(id, 0)?;
        let arguments = tree.children(self.child(id, 1)?);
        let has_sugar = tree.children(id).len() == 2;
        if has_sugar && nominal == Nominal::Protocol {
            self.print_all(arguments, "")?;
            self.put(" as ")?;
            return self.print(inner);
        }
        let name = if has_sugar {
            self.swift_name(inner)
        } else {
            ""
        };
        match (nominal, name, arguments) {
            (Nominal::Enum, "Optional" | "ImplicitlyUnwrappedOptional", [wrapped]) => {
                self.print_in_parentheses(*wrapped)?;
                self.put(if name == "Optional" { "?" } else { "!" })
            }
            (Nominal::Structure, "Array", [element]) => {
                self.put("[")?;
                self.print(*element)?;
                self.put("]")
            }
            (Nominal::Structure, "Dictionary", [key, value]) => {
                self.put("[")?;
                self.print(*key)?;
                self.put(" : ")?;
                self.print(*value)?;
                self.put("]")
            }
            _ => {
                self.print(inner)?;
                self.put("<")?;
                self.print_all(arguments, ", ")?;
                self.put(">")
            }
        }
    }

    /// The name of a type of Swift's own module; empty for all others.
    fn swift_name(&self, outer: Id) -> &'t str {
        let tree = self.tree;
        let name = || {
            let nominal = self.child(outer, 0)?;
            let module = self.child(nominal, 0)?;
            let name = self.child(nominal, 1)?;
            let is_swift = tree.kind(module) == Kind::Module && tree.text_of(module) == "Swift";
            (is_swift && tree.kind(name) == Kind::Identifier).then(|| tree.text_of(name))
        };
        name().unwrap_or_default()
    }

    fn print_in_parentheses(&mut self, id: Id) -> Option<()> {
        if self.is_simple(id) {
            return self.print(id);
        }
        self.put("(")?;
        self.print(id)?;
        self.put(")")
    }

    /// Returns true for a type that needs no parentheses before `?` or `.Type`.
    fn is_simple(&self, id: Id) -> bool {
        let mut id = id;
        while self.tree.kind(id) == Kind::Type {
            match self.child(id, 0) {
                Some(inner) => id = inner,
                None => return true,
            }
        }
        let protocols = |list: Option<Id>| list.map_or(0, |list| self.tree.children(list).len());
        match self.tree.kind(id) {
            Kind::Words(is_simple, _) => is_simple,
            Kind::ProtocolList => protocols(self.child(id, 0)) <= 1,
            Kind::ProtocolsWithAnyObject => {
                protocols(self.child(id, 0).and_then(|list| self.child(list, 0))) == 0
            }
            kind => is_simple(kind),
        }
    }

    /// Returns true for a type that a space parts from the generic signature before it.
    pub(super) fn needs_space(&self, id: Id) -> bool {
        let mut id = id;
        while self.tree.kind(id) == Kind::Type {
            match self.child(id, 0) {
                Some(inner) => id = inner,
                None => return true,
            }
        }
        use Convention::{NoEscape, Plain, Uncurried};
        !matches!(
            self.tree.kind(id),
            Kind::FunctionType(Plain | NoEscape | Uncurried) | Kind::DependentGeneric
        )
    }

    fn print_element(&mut self, id: Id) -> Option<()> {
        if let Some(name) = self.tree.child_of(id, Kind::TupleName) {
            self.print(name)?;
        }
        self.print(self.tree.child_of(id, Kind::Type)?)?;
        match self.tree.child_of(id, Kind::Variadic) {
            Some(_) => self.put("..."),
            None => Some(()),
        }
    }

    fn print_metatype(&mut self, id: Id) -> Option<()> {
        let (inner, representation) = self.tree.children(id).split_last()?;
        for representation in representation {
            self.print(*representation)?;
            self.put(" ")?;
        }
        let inner = self.child(*inner, 0)?;
        self.print_in_parentheses(inner)?;
        self.put(match self.tree.kind(inner) {
            Kind::ExistentialMetatype
            | Kind::ProtocolList
            | Kind::ProtocolsWithClass
            | Kind::ProtocolsWithAnyObject => ".Protocol",
            _ => ".Type",
        })
    }

    fn print_protocols(&mut self, id: Id) -> Option<()> {
        let tree = self.tree;
        if tree.kind(id) == Kind::ProtocolList {
            let list = tree.children(self.child(id, 0)?);
            return if list.is_empty() {
                self.put("Any")
            } else {
                self.print_all(list, " & ")
            };
        }
        let list = tree.children(self.child(self.child(id, 0)?, 0)?);
        if tree.kind(id) == Kind::ProtocolsWithClass {
            self.print_child(id, 1)?;
            self.put(" & ")?;
            return self.print_all(list, " & ");
        }
        self.print_all(list, " & ")?;
        self.put(if list.is_empty() { "" } else { " & " })?;
        self.put("Swift.AnyObject")
    }

    fn print_signature(&mut self, id: Id) -> Option<()> {
        let tree = self.tree;
        let children = tree.children(id);
        let counts = children
            .iter()
            .take_while(|child| tree.kind(**child) == Kind::ParameterCount)
            .count();
        let (counts, requirements) = children.split_at(counts);
        self.put("<")?;
        for (depth, count) in (0i64..).zip(counts) {
            if depth > 0 {
                self.put("><")?;
            }
            for index in 0..tree.number_of(*count)? {
                if index > 0 {
                    self.put(", ")?;
                }
                if index >= MAX_PARAMETERS {
                    self.put("...")?;
                    break;
                }
                if self
                    .marker(requirements, Kind::PackMarker, depth, index)
                    .is_some()
                {
                    self.put("each ")?;
                }
                let value = self.marker(requirements, Kind::ValueMarker, depth, index);
                if value.is_some() {
                    self.put("let ")?;
                }
                self.put(&parameter_name(depth, index))?;
                if let Some(value) = value.and_then(|marker| self.child(marker, 1)) {
                    self.put(": ")?;
                    self.print(value)?;
                }
            }
        }
        self.put(">")
    }

    /// The marker of a parameter among the first requirements.
    fn marker(&self, requirements: &[Id], kind: Kind, depth: i64, index: i64) -> Option<Id> {
        let is_marker =
            |id: &&Id| matches!(self.tree.kind(**id), Kind::PackMarker | Kind::ValueMarker);
        requirements
            .iter()
            .take_while(is_marker)
            .copied()
            .find(|marker| {
                let number = |at| {
                    let parameter = self.child(self.child(*marker, 0)?, 0)?;
                    if self.tree.kind(parameter) != Kind::GenericParameter {
                        return None;
                    }
                    self.tree.number_of(self.child(parameter, at)?)
                };
                // Swift compares the depth with the index, and the index with the depth.
                self.tree.kind(*marker) == kind
                    && number(0) == Some(index)
                    && number(1) == Some(depth)
            })
    }

    fn print_box(&mut self, id: Id) -> Option<()> {
        let tree = self.tree;
        self.put("{")?;
        for (index, field) in tree.children(id).iter().enumerate() {
            self.put(if index > 0 { ", " } else { " " })?;
            self.print(*field)?;
        }
        self.put(" }")
    }

    fn print_box_with_layout(&mut self, id: Id) -> Option<()> {
        let Some(signature) = self.child(id, 1) else {
            return self.print_child(id, 0);
        };
        self.print(signature)?;
        self.put(" ")?;
        self.print_child(id, 0)?;
        self.put(" <")?;
        self.print_children(self.child(id, 2)?, ", ")?;
        self.put(">")
    }
}

fn is_simple(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::AssociatedRef
            | Kind::BoundGeneric(_)
            | Kind::BoundGenericFunction
            | Kind::Builtin
            | Kind::BuiltinTuple
            | Kind::Nominal(_)
            | Kind::DependentGeneric
            | Kind::DependentMember
            | Kind::GenericParameter
            | Kind::SelfType
            | Kind::ExistentialMetatype
            | Kind::Metatype
            | Kind::Module
            | Kind::Tuple
            | Kind::TupleName
            | Kind::Joined(..)
            | Kind::Result
            | Kind::BoxWithLayout
            | Kind::TypeList
            | Kind::LabelList
            | Kind::Optional
            | Kind::Integer
    )
}

/// A letter for a parameter, and its level.
fn parameter_name(depth: i64, index: i64) -> String {
    let mut name = String::new();
    let mut index = index.unsigned_abs();
    loop {
        name.push(char::from(b'A' + (index % 26) as u8));
        index /= 26;
        if index == 0 {
            break;
        }
    }
    if depth != 0 {
        name.push_str(&depth.to_string());
    }
    name
}
