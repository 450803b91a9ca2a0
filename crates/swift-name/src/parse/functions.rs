//! Function types, their annotations, and argument labels.

use super::super::kind::{Convention, Isolation, Kind};
use super::super::tree::Id;
use super::Parser;

impl Parser<'_> {
    pub(super) fn type_annotation(&mut self) -> Option<Id> {
        match self.take()? {
            b'a' => self.tree.leaf(Kind::Async),
            b'A' => self.tree.leaf(Kind::Isolation(Isolation::Any)),
            b'b' => self.tree.leaf(Kind::Sendable),
            b'c' => {
                let actor = self.pop_inner_type()?;
                self.tree
                    .node(Kind::Isolation(Isolation::GlobalActor), &[actor])
            }
            b'C' => self.tree.leaf(Kind::Isolation(Isolation::Caller)),
            b'i' => self.type_in_words(&["isolated "]),
            b'j' => {
                let words = differentiable(self.take()?)?;
                self.tree.word(Kind::Differentiable, words)
            }
            b'k' => self.type_in_words(&["@noDerivative "]),
            b'K' => {
                self.pop_inner_type()?;
                self.tree.leaf(Kind::Throws)
            }
            b't' => self.type_in_words(&["_const "]),
            b'g' => self.type_in_words(&["@const "]),
            b'T' => self.tree.leaf(Kind::Sending),
            b'u' => self.type_in_words(&["sending "]),
            _ => None,
        }
    }

    /// A function's type, from its annotations, arguments and result on the stack.
    pub(super) fn function_type(&mut self, kind: Kind, has_c_type: bool) -> Option<Id> {
        let mut children = Vec::new();
        if has_c_type {
            let text = self.counted_text()?;
            children.push(self.tree.text(Kind::ImplText, text)?);
        }
        children.extend(self.pop_kind(Kind::Sending));
        children.extend(self.pop_if(|kind| matches!(kind, Kind::Isolation(_))));
        children.extend(self.pop_kind(Kind::Differentiable));
        children.extend(self.pop_kind(Kind::Throws));
        children.extend(self.pop_kind(Kind::Sendable));
        children.extend(self.pop_kind(Kind::Async));
        children.push(self.pop_parameters(Kind::Arguments)?);
        children.push(self.pop_parameters(Kind::Result)?);
        self.typed(kind, &children)
    }

    fn pop_parameters(&mut self, kind: Kind) -> Option<Id> {
        let types = match self.pop_kind(Kind::EmptyList) {
            Some(_) => self.typed(Kind::Tuple, &[])?,
            None => self.pop_type()?,
        };
        self.tree.node(kind, &[types])
    }

    /// The argument labels of a function of a type; `None` for one without arguments, and what is no function.
    pub(super) fn pop_labels(&mut self, function: Option<Id>) -> Option<Id> {
        if !self.labels_in_types && self.pop_kind(Kind::EmptyList).is_some() {
            return self.tree.leaf(Kind::LabelList);
        }
        let arguments = self.arguments_of(function?)?;
        let is_tuple = self.tree.kind(arguments) == Kind::Tuple;
        let count = if is_tuple {
            self.tree.children(arguments).len()
        } else {
            1
        };
        if count == 0 {
            return None;
        }
        let labels = if !self.labels_in_types {
            self.pop_label_nodes(count)?
        } else if is_tuple {
            self.labels_of(arguments)?
        } else {
            Vec::new()
        };
        let is_label = |label: &Id| self.tree.kind(*label) == Kind::Identifier;
        if labels.iter().any(is_label) {
            self.tree.node(Kind::LabelList, &labels)
        } else {
            self.tree.leaf(Kind::LabelList)
        }
    }

    /// The arguments of a function's type: a tuple, or the one type.
    fn arguments_of(&self, function: Id) -> Option<Id> {
        if self.tree.kind(function) != Kind::Type {
            return None;
        }
        let mut function = self.tree.child(function, 0)?;
        if self.tree.kind(function) == Kind::DependentGeneric {
            function = self.tree.child(self.tree.child(function, 1)?, 0)?;
        }
        matches!(
            self.tree.kind(function),
            Kind::FunctionType(Convention::Plain | Convention::NoEscape)
        )
        .then_some(())?;
        let arguments = self.tree.child_of(function, Kind::Arguments)?;
        self.tree.child(self.tree.child(arguments, 0)?, 0)
    }

    fn pop_label_nodes(&mut self, count: usize) -> Option<Vec<Id>> {
        let mut labels = Vec::new();
        for _ in 0..count {
            let label = self.pop()?;
            if !matches!(self.tree.kind(label), Kind::Identifier | Kind::FirstElement) {
                return None;
            }
            labels.push(label);
        }
        labels.reverse();
        Some(labels)
    }

    fn labels_of(&mut self, tuple: Id) -> Option<Vec<Id>> {
        let mut labels = Vec::new();
        for element in self.tree.children(tuple).to_vec() {
            labels.push(match self.tree.child_of(element, Kind::TupleName) {
                Some(name) => self.tree.renamed(name, Kind::Identifier)?,
                None => self.tree.leaf(Kind::FirstElement)?,
            });
        }
        Some(labels)
    }

    pub(super) fn dependent_generic_type(&mut self) -> Option<Id> {
        let signature = self.pop_signature()?;
        let inner = self.pop_type()?;
        self.typed(Kind::DependentGeneric, &[signature, inner])
    }

    pub(super) fn type_mangling(&mut self) -> Option<Id> {
        let subject = self.pop_type()?;
        match self.pop_labels(Some(subject)) {
            Some(labels) => self.tree.node(Kind::TypeMangling, &[labels, subject]),
            None => self.tree.node(Kind::TypeMangling, &[subject]),
        }
    }
}

/// The attribute of a differentiable function of a letter.
pub(super) fn differentiable(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'f' => "@differentiable(_forward)",
        b'r' => "@differentiable(reverse)",
        b'd' => "@differentiable",
        b'l' => "@differentiable(_linear)",
        _ => return None,
    })
}
