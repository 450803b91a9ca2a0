//! Generic parameters, signatures and requirements, associated types, and proofs of conformance.

use super::super::kind::{Conformance, Kind, Phrase};
use super::super::tree::Id;
use super::Parser;

/// The subject of a requirement.
enum Constrained {
    Parameter,
    Member,
    Path,
    OnStack,
}

impl Parser<'_> {
    pub(super) fn parameter_at(&mut self, depth: i64, index: i64) -> Option<Id> {
        let depth = self.tree.number(Kind::Number, depth)?;
        let index = self.tree.number(Kind::Number, index)?;
        self.tree.node(Kind::GenericParameter, &[depth, index])
    }

    pub(super) fn generic_parameter(&mut self) -> Option<Id> {
        if self.eat(b'd') {
            let depth = self.index()? + 1;
            let index = self.index()?;
            return self.parameter_at(depth, index);
        }
        if self.eat(b'z') {
            return self.parameter_at(0, 0);
        }
        if self.eat(b's') {
            return self.tree.leaf(Kind::SelfType);
        }
        let index = self.index()? + 1;
        self.parameter_at(0, index)
    }

    pub(super) fn member_of_parameter(&mut self, is_path: bool) -> Option<Id> {
        let parameter = self.generic_parameter()?;
        self.member(Some(parameter), is_path)
    }

    pub(super) fn member_of_first(&mut self, is_path: bool) -> Option<Id> {
        let parameter = self.parameter_at(0, 0)?;
        self.member(Some(parameter), is_path)
    }

    /// An associated type, or a path of them, of a parameter or of the type below on the stack.
    pub(super) fn member(&mut self, base: Option<Id>, is_path: bool) -> Option<Id> {
        let names = if is_path {
            self.pop_items(Self::pop_associated_name)?
        } else {
            vec![self.pop_associated_name()?]
        };
        let mut inner = match base {
            Some(base) => self.wrap(base)?,
            None => self.pop_type()?,
        };
        for name in names {
            inner = self.typed(Kind::DependentMember, &[inner, name])?;
        }
        self.repeatable(inner)
    }

    pub(super) fn pop_associated_name(&mut self) -> Option<Id> {
        let protocol = self.pop_type();
        protocol
            .is_none_or(|protocol| self.tree.is_protocol(protocol))
            .then_some(())?;
        let name = self.pop_kind(Kind::Identifier)?;
        match protocol {
            Some(protocol) => self.symbol(&["", "."], &[protocol, name]),
            None => self.symbol(&[], &[name]),
        }
    }

    pub(super) fn pop_associated_path(&mut self) -> Option<Id> {
        let names = self.pop_items(Self::pop_associated_name)?;
        self.tree.node(Kind::Joined("", ".", ""), &names)
    }

    pub(super) fn signature(&mut self, has_counts: bool) -> Option<Id> {
        let mut children = Vec::new();
        if has_counts {
            while !self.eat(b'l') {
                let count = if self.eat(b'z') { 0 } else { self.index()? + 1 };
                children.push(self.tree.number(Kind::ParameterCount, count)?);
            }
        } else {
            children.push(self.tree.number(Kind::ParameterCount, 1)?);
        }
        let counts = children.len();
        while let Some(requirement) = self.pop_if(Kind::is_requirement) {
            children.push(requirement);
        }
        children[counts..].reverse();
        self.tree.node(Kind::Signature, &children)
    }

    pub(super) fn requirement(&mut self) -> Option<Id> {
        use Constrained::{Member, OnStack, Parameter, Path};
        let letter = self.peek();
        let constrained = match letter {
            b'V' | b'v' | b'b' | b's' | b'l' | b'h' | b'i' => Parameter,
            b'c' | b't' | b'm' | b'p' => Member,
            b'C' | b'T' | b'M' | b'P' => Path,
            b'B' | b'S' | b'L' | b'Q' | b'I' => OnStack,
            _ => return self.parameter_requirement(),
        };
        self.at += 1;
        let inverse = if matches!(letter, b'i' | b'I') {
            Some(self.index()?)
        } else {
            None
        };
        let subject = match constrained {
            Parameter => {
                let parameter = self.generic_parameter()?;
                self.wrap(parameter)?
            }
            Member => self.member_of_parameter(false)?,
            Path => self.member_of_parameter(true)?,
            OnStack => self.pop_type()?,
        };
        if let Some(inverse) = inverse {
            return self.inverse_requirement(subject, inverse);
        }
        match letter {
            b'V' => {
                let value = self.pop_type()?;
                self.tree.node(Kind::ValueMarker, &[subject, value])
            }
            b'v' => self.tree.node(Kind::PackMarker, &[subject]),
            b'b' | b'c' | b'C' | b'B' => {
                let class = self.pop_type()?;
                self.tree
                    .node(Kind::Requirement(&["", ": "]), &[subject, class])
            }
            b's' | b't' | b'T' | b'S' => {
                let same = self.pop_type()?;
                self.tree
                    .node(Kind::Requirement(&["", " == "]), &[subject, same])
            }
            b'h' => {
                let same = self.pop_type()?;
                self.tree.node(
                    Kind::Requirement(&["", ".shape == ", ".shape"]),
                    &[subject, same],
                )
            }
            b'l' | b'm' | b'M' | b'L' => self.layout_requirement(subject),
            _ => self.protocol_requirement(subject),
        }
    }

    fn parameter_requirement(&mut self) -> Option<Id> {
        let parameter = self.generic_parameter()?;
        let subject = self.wrap(parameter)?;
        self.protocol_requirement(subject)
    }

    fn protocol_requirement(&mut self, subject: Id) -> Option<Id> {
        let protocol = self.pop_protocol()?;
        self.tree
            .node(Kind::Requirement(&["", ": "]), &[subject, protocol])
    }

    fn inverse_requirement(&mut self, subject: Id, bit: i64) -> Option<Id> {
        let name = match bit {
            0 => self.tree.word(Kind::ImplText, "Swift.Copyable")?,
            1 => self.tree.word(Kind::ImplText, "Swift.Escapable")?,
            bit => self
                .tree
                .text(Kind::ImplText, &format!("Swift.<bit {bit}>"))?,
        };
        self.tree
            .node(Kind::Requirement(&["", ": ~"]), &[subject, name])
    }

    fn layout_requirement(&mut self, subject: Id) -> Option<Id> {
        let (name, numbers) = match self.take()? {
            b'U' => ("_UnknownLayout", 0),
            b'R' => ("_RefCountedObject", 0),
            b'N' => ("_NativeRefCountedObject", 0),
            b'C' => ("AnyObject", 0),
            b'D' => ("_NativeClass", 0),
            b'T' => ("_Trivial", 0),
            b'B' => ("", 0),
            b'E' => ("_Trivial", 2),
            b'e' => ("_Trivial", 1),
            b'M' => ("_TrivialAtMost", 2),
            b'm' => ("_TrivialAtMost", 1),
            b'S' => ("", 1),
            _ => return None,
        };
        let mut children = vec![subject, self.tree.word(Kind::ImplText, name)?];
        for _ in 0..numbers {
            children.push(self.index_node()?);
        }
        let words: Phrase = match numbers {
            0 => &["", ": "],
            1 => &["", ": ", "(", ")"],
            _ => &["", ": ", "(", ", ", ")"],
        };
        self.tree.node(Kind::Requirement(words), &children)
    }

    fn pop_any_conformance(&mut self) -> Option<Id> {
        self.pop_if(|kind| matches!(kind, Kind::Conformance(..)))
    }

    fn pop_dependent_conformance(&mut self) -> Option<Id> {
        self.pop_if(|kind| matches!(kind, Kind::Conformance(Conformance::Dependent, _)))
    }

    fn pop_conformance_list(&mut self) -> Option<Id> {
        let list = self.pop_list(Self::pop_any_conformance)?;
        let kind = if list.is_empty() {
            Kind::TypeList
        } else {
            Kind::Joined("(", ", ", ")")
        };
        self.tree.node(kind, &list)
    }

    pub(super) fn conformance_or_record(&mut self) -> Option<Id> {
        match self.take()? {
            b'A' => {
                let index = self.conformance_index()?;
                let protocol = self.pop_protocol()?;
                let base = self.pop_type()?;
                let associated =
                    self.symbol(&["dependent associated conformance "], &[base, protocol])?;
                let nested = self.pop_dependent_conformance()?;
                self.dependent(
                    &["dependent associated protocol conformance ", "", " to "],
                    &[index, nested, associated],
                )
            }
            b'D' => {
                let index = self.conformance_index()?;
                let protocol = self.pop_protocol()?;
                let base = self.pop_type()?;
                self.dependent(
                    &["dependent root protocol conformance ", "", " to "],
                    &[index, base, protocol],
                )
            }
            b'I' => {
                let index = self.conformance_index()?;
                let protocol = self.pop_protocol()?;
                let nested = self.pop_dependent_conformance()?;
                self.dependent(
                    &["dependent inherited protocol conformance ", "", " to "],
                    &[index, nested, protocol],
                )
            }
            b'O' => {
                let opaque = self.pop_type()?;
                let nested = self.pop_dependent_conformance()?;
                let words: Phrase = &["opaque result conformance ", " of "];
                self.tree.node(
                    Kind::Conformance(Conformance::Opaque, words),
                    &[nested, opaque],
                )
            }
            b'C' => self.concrete_conformance(),
            b'X' => {
                let list = self.pop_conformance_list()?;
                let words: Phrase = &["pack protocol conformance "];
                self.tree
                    .node(Kind::Conformance(Conformance::Pack, words), &[list])
            }
            b'P' => self.conformance_ref(&["protocol conformance ref (type's module) "]),
            b'p' => self.conformance_ref(&["protocol conformance ref (protocol's module) "]),
            letter => self.runtime_record(letter),
        }
    }

    fn dependent(&mut self, words: Phrase, children: &[Id]) -> Option<Id> {
        self.tree
            .node(Kind::Conformance(Conformance::Dependent, words), children)
    }

    fn conformance_ref(&mut self, words: Phrase) -> Option<Id> {
        let protocol = self.pop_protocol()?;
        self.tree.node(Kind::ConformanceRef(words), &[protocol])
    }

    /// Index 0 is none, 1 an unknown one.
    fn conformance_index(&mut self) -> Option<Id> {
        match self.index()? {
            0 => None,
            1 => self.tree.leaf(Kind::UnknownIndex),
            index => self.tree.number(Kind::UnknownIndex, index - 2),
        }
    }

    fn concrete_conformance(&mut self) -> Option<Id> {
        let conditions = self.pop_conformance_list()?;
        let reference = match self.pop_if(|kind| matches!(kind, Kind::ConformanceRef(_))) {
            Some(reference) => reference,
            None => {
                let module = self.pop_module()?;
                let protocol = self.pop_protocol()?;
                let words: Phrase = &["protocol conformance ref (retroactive) "];
                self.symbol(words, &[protocol, module])?
            }
        };
        let subject = self.pop_type()?;
        let (words, children): (Phrase, &[Id]) = if self.tree.children(conditions).is_empty() {
            (
                &["concrete protocol conformance ", " to "],
                &[subject, reference],
            )
        } else {
            (
                &[
                    "concrete protocol conformance ",
                    " to ",
                    " with conditional requirements: ",
                ],
                &[subject, reference, conditions],
            )
        };
        self.tree
            .node(Kind::Conformance(Conformance::Concrete, words), children)
    }

    pub(super) fn retroactive_conformance(&mut self) -> Option<Id> {
        let index = self.index_node()?;
        let conformance = self.pop_any_conformance()?;
        self.tree.node(Kind::Retroactive, &[index, conformance])
    }

    /// `Some(None)` if there is none.
    pub(super) fn pop_retroactive_conformances(&mut self) -> Option<Option<Id>> {
        let mut list = Vec::new();
        while let Some(conformance) = self.pop_kind(Kind::Retroactive) {
            list.push(conformance);
        }
        list.reverse();
        if list.is_empty() {
            Some(None)
        } else {
            self.tree.node(Kind::TypeList, &list).map(Some)
        }
    }

    /// A type's conformance to a protocol, and the module that declares it.
    pub(super) fn pop_conformance(&mut self) -> Option<Id> {
        let signature = self.pop_signature();
        let module = self.pop_module()?;
        let protocol = self.pop_protocol()?;
        let mut name = None;
        let mut subject = self.pop_type();
        if subject.is_none() {
            name = self.pop_kind(Kind::Identifier);
            subject = self.pop_type();
        }
        let mut subject = subject?;
        if let Some(signature) = signature {
            subject = self.typed(Kind::DependentGeneric, &[signature, subject])?;
        }
        let children: Vec<Id> = [subject, protocol, module]
            .into_iter()
            .chain(name)
            .collect();
        self.tree.node(Kind::ConformanceOfType, &children)
    }
}
