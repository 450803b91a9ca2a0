//! Specializations of functions, and derivatives.

use super::super::kind::{Kind, Phrase, Thunk};
use super::super::tree::Id;
use super::Parser;

/// The nodes that a specialized parameter takes off the stack.
#[derive(Clone, Copy)]
enum Taken {
    Closure,
    Identifier,
    Structure,
    KeyPath,
}

impl Parser<'_> {
    /// Flags and the pass of the compiler; true if the function's representation changed.
    fn specialization_flags(&mut self) -> Option<bool> {
        // Metatypes are removed, as compilers before 6.3 say.
        self.eat(b'm');
        self.eat(b'q');
        self.eat(b'a');
        let is_changed = self.eat(b'r');
        self.take()?.is_ascii_digit().then_some(is_changed)
    }

    pub(super) fn generic_specialization(&mut self) -> Option<Id> {
        self.specialization_flags()?;
        self.pop_type_list()?;
        self.tree.leaf(Kind::Specialization)
    }

    pub(super) fn specialization_with_dropped_arguments(&mut self) -> Option<Id> {
        loop {
            while self.peek().is_ascii_digit() {
                self.at += 1;
            }
            match self.take()? {
                b't' => (),
                b'g' | b'G' | b'B' => return self.generic_specialization(),
                _ => return None,
            }
        }
    }

    pub(super) fn partial_specialization(&mut self) -> Option<Id> {
        self.specialization_flags()?;
        self.pop_type()?;
        self.tree.leaf(Kind::Specialization)
    }

    pub(super) fn function_specialization(&mut self) -> Option<Id> {
        if self.specialization_flags()? {
            return self.tree.leaf(Kind::Specialization);
        }
        let mut taken = Vec::new();
        while !self.eat(b'_') {
            self.specialized_parameter(&mut taken)?;
        }
        if !self.eat(b'n') {
            self.specialized_parameter(&mut Vec::new())?;
        }
        for taken in taken.into_iter().rev() {
            self.pop_taken(taken)?;
        }
        self.tree.leaf(Kind::Specialization)
    }

    fn pop_taken(&mut self, taken: Taken) -> Option<()> {
        match taken {
            Taken::Closure => {
                while self.pop_type().is_some() {}
                self.pop_kind(Kind::Identifier)?;
            }
            Taken::Identifier => {
                self.pop_kind(Kind::Identifier)?;
            }
            Taken::Structure => {
                self.pop_type()?;
            }
            Taken::KeyPath => {
                self.pop_type()?;
                self.pop_type()?;
                self.pop_kind(Kind::Identifier)?;
            }
        }
        Some(())
    }

    fn specialized_parameter(&mut self, taken: &mut Vec<Taken>) -> Option<()> {
        let flags: &[u8] = match self.take()? {
            b'n' | b'x' | b'i' | b's' | b'r' => b"",
            b'c' => {
                taken.push(Taken::Closure);
                b""
            }
            b'C' => {
                self.natural()?;
                b""
            }
            b'p' => return self.propagated_constants(taken),
            b'e' => b"DGOX",
            b'd' => b"GOX",
            b'g' | b'o' => b"X",
            _ => return None,
        };
        for flag in flags {
            self.eat(*flag);
        }
        Some(())
    }

    fn propagated_constants(&mut self, taken: &mut Vec<Taken>) -> Option<()> {
        loop {
            match self.peek() {
                b'S' => taken.push(Taken::Structure),
                b'f' | b'g' => taken.push(Taken::Identifier),
                b'k' => taken.push(Taken::KeyPath),
                b's' => {
                    self.at += 1;
                    if !matches!(self.peek(), b'b' | b'w' | b'c') {
                        return None;
                    }
                    taken.push(Taken::Identifier);
                }
                b'i' | b'd' => {
                    self.at += 1;
                    if !self.peek().is_ascii_digit() {
                        return None;
                    }
                    while self.peek().is_ascii_digit() {
                        self.at += 1;
                    }
                    continue;
                }
                // What follows is part of the specialization.
                next => return (next != 0).then_some(()),
            }
            self.at += 1;
        }
    }

    pub(super) fn derivative_thunk(&mut self) -> Option<Id> {
        match self.peek() {
            b'S' => {
                self.at += 1;
                self.subset_thunk()
            }
            b'O' => {
                self.at += 1;
                self.self_reordering_thunk()
            }
            b'V' => {
                self.at += 1;
                self.derivative("vtable thunk for ")
            }
            _ => self.derivative(""),
        }
    }

    /// All nodes on the stack, in their order.
    fn pop_all(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.stack)
    }

    fn derivative_kind(&mut self) -> Option<Id> {
        let words = match self.take()? {
            b'f' => "forward-mode derivative",
            b'r' => "reverse-mode derivative",
            b'd' => "differential",
            b'p' => "pullback",
            _ => return None,
        };
        self.tree.word(Kind::AutoDiffMode, words)
    }

    /// A set of indices, `S` for a member, `U` for none.
    fn index_subset(&mut self) -> Option<Id> {
        let start = self.at;
        while matches!(self.peek(), b'S' | b'U') {
            self.at += 1;
        }
        let text = self
            .input
            .get(start..self.at)
            .filter(|text| !text.is_empty())?;
        self.tree.text(Kind::IndexSubset, text)
    }

    fn index_subset_before(&mut self, letter: u8) -> Option<Id> {
        let subset = self.index_subset()?;
        self.expect(letter)?;
        Some(subset)
    }

    fn derivative(&mut self, prefix: &'static str) -> Option<Id> {
        let mut original = self.pop_all();
        let kind = self.derivative_kind()?;
        self.index_subset_before(b'p')?;
        self.index_subset_before(b'r')?;
        if original
            .last()
            .is_some_and(|last| self.tree.kind(*last) == Kind::Signature)
        {
            original.pop();
        }
        let list = self.tree.node(Kind::TypeList, &original)?;
        self.tree.node(Kind::AutoDiff(prefix), &[list, kind])
    }

    fn subset_thunk(&mut self) -> Option<Id> {
        let mut from = self.pop_all();
        let kind = self.derivative_kind()?;
        self.index_subset_before(b'p')?;
        self.index_subset_before(b'r')?;
        self.index_subset_before(b'P')?;
        if from.len() > 1 {
            from.pop();
        }
        if from.is_empty() {
            return None;
        }
        let list = self.tree.node(Kind::TypeList, &from)?;
        self.tree.node(Kind::AutoDiffSubset, &[kind, list])
    }

    fn self_reordering_thunk(&mut self) -> Option<Id> {
        self.pop_signature();
        self.pop_type()?;
        let from = self.pop_type()?;
        self.derivative_kind()?;
        let words: Phrase = &["autodiff self-reordering reabstraction thunk for "];
        self.tree
            .node(Kind::Thunk(Thunk::Reabstraction, words), &[from])
    }

    pub(super) fn differentiability_witness(&mut self) -> Option<Id> {
        let signature = self.pop_signature();
        let original = self.pop_all();
        let words = match self.take()? {
            b'f' => "forward-mode",
            b'r' => "reverse-mode",
            b'd' => "normal",
            b'l' => "linear",
            _ => return None,
        };
        let mode = self.tree.word(Kind::ImplText, words)?;
        let parameters = self.index_subset_before(b'p')?;
        let results = self.index_subset_before(b'r')?;
        let list = self.tree.node(Kind::TypeList, &original)?;
        let words: &[&str; 5] = &[
            "",
            " differentiability witness for ",
            " with respect to parameters ",
            " and results ",
            " with ",
        ];
        let words: Phrase = if signature.is_some() {
            words
        } else {
            &words[..4]
        };
        let children: Vec<Id> = [mode, list, parameters, results]
            .into_iter()
            .chain(signature)
            .collect();
        self.symbol(words, &children)
    }
}
