//! Function types: attributes and argument labels, and how the compiler implements them.

use super::super::kind::{Convention, Isolation, Kind};
use super::super::tree::Id;
use super::Printer;

impl Printer<'_> {
    /// A function's attributes and argument labels; its types are not part of the simplified form.
    pub(super) fn print_function_type(&mut self, labels: Option<Id>, id: Id) -> Option<()> {
        let Kind::FunctionType(convention) = self.tree.kind(id) else {
            return None;
        };
        self.put(match convention {
            Convention::Plain | Convention::Uncurried | Convention::NoEscape => "",
            Convention::AutoClosure => "@autoclosure ",
            Convention::Thin => "@convention(thin) ",
            Convention::EscapingBlock => "@escaping ",
            Convention::C | Convention::Block => "",
        })?;
        let name = match convention {
            Convention::C => "c",
            Convention::Block | Convention::EscapingBlock => "block",
            _ => "",
        };
        if !name.is_empty() {
            let tree = self.tree;
            match tree
                .child_of(id, Kind::ImplText)
                .map(|text| tree.text_of(text))
            {
                Some(text) => {
                    self.put(&format!("@convention({name}, mangledCType: \"{text}\") "))?
                }
                None => self.put(&format!("@convention({name}) "))?,
            }
        }
        for kind in [
            Kind::Isolation(Isolation::Any),
            Kind::Isolation(Isolation::GlobalActor),
            Kind::Differentiable,
            Kind::Isolation(Isolation::Caller),
            Kind::Sendable,
        ] {
            if let Some(attribute) = self.tree.child_of(id, kind) {
                self.print(attribute)?;
            }
        }
        let arguments = self.tree.child_of(id, Kind::Arguments)?;
        self.print_arguments(labels, arguments)
    }

    pub(super) fn print_arguments(&mut self, labels: Option<Id>, arguments: Id) -> Option<()> {
        let tree = self.tree;
        let types = self.child(self.child(arguments, 0)?, 0)?;
        if tree.kind(types) != Kind::Tuple {
            return self.put("(_:)");
        }
        let labels = labels
            .map(|labels| tree.children(labels))
            .unwrap_or_default();
        self.put("(")?;
        for (index, element) in tree.children(types).iter().enumerate() {
            let label = match labels {
                [] => tree.child_of(*element, Kind::TupleName),
                labels => labels
                    .get(index)
                    .copied()
                    .filter(|label| tree.kind(*label) == Kind::Identifier),
            };
            self.put(label.map_or("_", |label| tree.text_of(label)))?;
            self.put(":")?;
        }
        self.put(")")
    }

    pub(super) fn print_type_mangling(&mut self, id: Id) -> Option<()> {
        let first = self.child(id, 0)?;
        if self.tree.kind(first) != Kind::LabelList {
            return self.print(first);
        }
        let function = self.child(self.child(id, 1)?, 0)?;
        self.print_function_type(Some(first), function)
    }

    pub(super) fn print_parameter(&mut self, id: Id) -> Option<()> {
        let tree = self.tree;
        let children = tree.children(id);
        self.print(*children.first()?)?;
        self.put(" ")?;
        if matches!(children.len(), 3 | 4) {
            self.print_all(&children[1..children.len() - 1], "")?;
        }
        self.print(*children.last()?)
    }

    pub(super) fn print_implementation(&mut self, id: Id) -> Option<()> {
        let tree = self.tree;
        let children = tree.children(id);
        let substitution = |words| {
            children
                .iter()
                .copied()
                .find(|child| tree.kind(*child) == Kind::ImplSubstitution(words))
        };
        let is_parameter = |child: &Id| tree.kind(*child) == Kind::ImplParameter;
        let is_result = |child: &Id| matches!(tree.kind(*child), Kind::ImplResult(_));
        let pattern = substitution("@substituted ");
        for child in children {
            match tree.kind(*child) {
                Kind::ImplParameter
                | Kind::ImplResult(_)
                | Kind::ImplSubstitution(_)
                | Kind::Sending => (),
                _ => {
                    self.print(*child)?;
                    self.put(" ")?;
                }
            }
        }
        if let Some(pattern) = pattern {
            self.put("@substituted ")?;
            self.print_child(pattern, 0)?;
            self.put(" ")?;
        }
        let parameters: Vec<Id> = children.iter().copied().filter(is_parameter).collect();
        let results: Vec<Id> = children.iter().copied().filter(is_result).collect();
        self.put("(")?;
        self.print_all(&parameters, ", ")?;
        self.put(") -> ")?;
        if tree.child_of(id, Kind::Sending).is_some() {
            self.put("sending ")?;
        }
        self.put("(")?;
        self.print_all(&results, ", ")?;
        self.put(")")?;
        for (substitution, index) in [(pattern, 1), (substitution(""), 0)] {
            if let Some(substitution) = substitution {
                self.put(" for <")?;
                self.print_children(self.child(substitution, index)?, "")?;
                self.put(">")?;
            }
        }
        Some(())
    }
}
