//! Parses thunks, specializations and other operators that follow their function in a mangled name.

use super::super::kind::{Kind, Phrase, Thunk};
use super::super::tree::Id;
use super::Parser;

impl Parser<'_> {
    /// Parses the operators that begin with `T`, after the `T`.
    pub(super) fn thunk_or_specialization(&mut self) -> Option<Id> {
        let letter = self.take()?;
        match letter {
            b'T' => {
                self.expect(b'I')?;
                self.thunk_of(&["identity thunk of "])
            }
            b'c' => self.thunk_of(&["curry thunk of "]),
            b'j' => self.thunk_of(&["dispatch thunk of "]),
            b'q' => self.about_entity(&["method descriptor for "]),
            b'o' => self.tree.leaf(Kind::Attribute("@objc ")),
            b'O' => self.tree.leaf(Kind::Attribute("@nonobjc ")),
            b'D' => self.tree.leaf(Kind::Attribute("dynamic ")),
            b'd' => self.tree.leaf(Kind::Attribute("super ")),
            b'm' => self.tree.leaf(Kind::Attribute("merged ")),
            b'E' | b'F' | b'X' | b'x' | b'I' => self.tree.leaf(Kind::Attribute("")),
            b'a' | b'A' => self.tree.leaf(Kind::PartialApply),
            b'Y' | b'Q' => {
                let part = self.index_node()?;
                self.tree.node(Kind::AsyncPart, &[part])
            }
            b'C' => self.about_type(&["coroutine continuation prototype for "]),
            b'z' | b'Z' => self.completion_handler(letter),
            b'V' => {
                let base = self.pop_if(Kind::is_entity)?;
                let derived = self.pop_if(Kind::is_entity)?;
                self.tree.node(
                    Kind::Thunk(Thunk::Of, &["vtable thunk for ", " dispatching to "]),
                    &[base, derived],
                )
            }
            b'W' => {
                let requirement = self.pop_if(Kind::is_entity)?;
                let conformance = self.pop_conformance()?;
                self.tree
                    .node(Kind::ProtocolWitness, &[requirement, conformance])
            }
            b'S' => self.thunk_of(&["protocol self-conformance witness for "]),
            b'R' | b'r' => self.reabstraction(),
            b'y' => self.reabstraction_with_self(),
            b'U' => {
                let actor = self.pop_type()?;
                let inner = self.pop()?;
                let words: Phrase = &["", " with global actor constraint "];
                self.tree
                    .node(Kind::Thunk(Thunk::Reabstraction, words), &[inner, actor])
            }
            b'g' | b'G' | b'B' | b's' | b'i' => self.generic_specialization(),
            b't' => self.specialization_with_dropped_arguments(),
            b'p' | b'P' => self.partial_specialization(),
            b'f' => self.function_specialization(),
            b'K' | b'k' => self.key_path(letter),
            b'H' => self.key_path_index("key path index equality operator for "),
            b'h' => self.key_path_index("key path index hash operator for "),
            b'l' => {
                let name = self.pop_associated_name()?;
                self.symbol(&["associated type descriptor for "], &[name])
            }
            b'L' => {
                let protocol = self.pop_protocol()?;
                self.symbol(&["protocol requirements base descriptor for "], &[protocol])
            }
            b'M' => {
                let name = self.pop_associated_name()?;
                self.symbol(&["default associated type metadata accessor for "], &[name])
            }
            b'n' => {
                self.associated_conformance(&["associated conformance descriptor for ", ".", ": "])
            }
            b'N' => self.associated_conformance(&[
                "default associated conformance accessor for ",
                ".",
                ": ",
            ]),
            b'b' => {
                let requirement = self.pop_protocol()?;
                let protocol = self.pop_type()?;
                self.symbol(
                    &["base conformance descriptor for ", ": "],
                    &[protocol, requirement],
                )
            }
            b'v' => {
                let index = self.index()?;
                let words = if self.eat(b'r') {
                    "outlined read-only object #"
                } else {
                    "outlined variable #"
                };
                self.tree.number(Kind::Outlined(words), index)
            }
            b'e' => {
                let start = self.at;
                self.bridged_method()?;
                self.tree
                    .text(Kind::BridgedMethod, &self.input[start..self.at - 1])
            }
            b'u' => self
                .tree
                .leaf(Kind::Attribute("async function pointer to ")),
            b'J' => self.derivative_thunk(),
            b'w' => {
                let words = match self.take()? {
                    b'b' => "",
                    b'B' => "back deployment fallback for ",
                    b'c' => "coro function pointer to ",
                    b'd' => "default override of ",
                    b'S' => "#_hasSymbol query for ",
                    _ => return None,
                };
                self.tree.leaf(Kind::Attribute(words))
            }
            _ => None,
        }
    }

    fn thunk_of(&mut self, words: Phrase) -> Option<Id> {
        let entity = self.pop_if(Kind::is_entity)?;
        self.tree.node(Kind::Thunk(Thunk::Of, words), &[entity])
    }

    fn completion_handler(&mut self, letter: u8) -> Option<Id> {
        let flag = self.index()?;
        let signature = self.pop_signature();
        let result = self.pop_type()?;
        let block = self.pop_type()?;
        let on_error = match flag {
            0 => "",
            1 => " nonzero on error",
            2 => " zero on error",
            _ => " <invalid error flag>",
        };
        let on_error = self.tree.word(Kind::ImplText, on_error)?;
        let words: Phrase = match letter {
            b'z' => &[
                "@objc completion handler block implementation for ",
                "",
                " with result type ",
            ],
            _ => &[
                "checked @objc completion handler block implementation for ",
                "",
                " with result type ",
            ],
        };
        let signature = match signature {
            Some(signature) => signature,
            None => self.tree.word(Kind::ImplText, "")?,
        };
        self.tree.node(
            Kind::Thunk(Thunk::Reabstraction, words),
            &[signature, block, result, on_error],
        )
    }

    /// Keeps only the type that the thunk is for: the simplified form prints no more.
    fn reabstraction(&mut self) -> Option<Id> {
        self.pop_signature();
        let from = self.pop_type();
        let to = self.pop_type();
        let subject = to.or(from)?;
        self.tree.node(
            Kind::Thunk(Thunk::Reabstraction, &["thunk for "]),
            &[subject],
        )
    }

    fn reabstraction_with_self(&mut self) -> Option<Id> {
        let signature = self.pop_signature();
        let self_type = self.pop_type()?;
        let to = self.pop_type()?;
        let from = self.pop_type()?;
        match signature {
            Some(signature) => {
                let words: Phrase = &["reabstraction thunk ", " from ", " to ", " self "];
                self.tree.node(
                    Kind::Thunk(Thunk::Reabstraction, words),
                    &[signature, from, to, self_type],
                )
            }
            None => {
                let words: Phrase = &["reabstraction thunk from ", " to ", " self "];
                self.tree.node(
                    Kind::Thunk(Thunk::Reabstraction, words),
                    &[from, to, self_type],
                )
            }
        }
    }

    fn associated_conformance(&mut self, words: Phrase) -> Option<Id> {
        let requirement = self.pop_protocol()?;
        let path = self.pop_associated_path()?;
        let protocol = self.pop_type()?;
        self.symbol(words, &[protocol, path, requirement])
    }

    fn bridged_method(&mut self) -> Option<()> {
        if !matches!(self.take()?, b'o' | b'p' | b'a' | b'm') {
            return None;
        }
        while !self.eat(b'_') {
            if !matches!(self.take()?, b'n' | b'b' | b'g') {
                return None;
            }
        }
        Some(())
    }

    fn key_path(&mut self, letter: u8) -> Option<Id> {
        let words = if self.eat_all("mu") {
            "key path unapplied method "
        } else if self.eat_all("MA") {
            "key path applied method "
        } else if letter == b'K' {
            "key path getter for "
        } else {
            "key path setter for "
        };
        let is_serialized = self.eat(b'q');
        let mut types = vec![self.pop_type()?];
        while let Some(next) = self.pop_type() {
            types.push(next);
        }
        types.reverse();
        let signature = self.pop_signature();
        let declaration = self.pop()?;
        let mut children: Vec<Id> = [declaration]
            .into_iter()
            .chain(signature)
            .chain(types)
            .collect();
        if is_serialized {
            children.push(self.tree.word(Kind::ImplText, ", serialized")?);
        }
        self.tree.node(Kind::KeyPath(words), &children)
    }

    fn key_path_index(&mut self, words: &'static str) -> Option<Id> {
        self.eat(b'q');
        let signature = self.pop_signature();
        let mut types = Vec::new();
        while let Some(next) = self.pop() {
            if self.tree.kind(next) != Kind::Type {
                return None;
            }
            types.push(next);
        }
        if signature.is_none() && types.is_empty() {
            return None;
        }
        types.reverse();
        let list = self.tree.node(Kind::Joined("(", ", ", ")"), &types)?;
        let children: Vec<Id> = signature.into_iter().chain([list]).collect();
        self.tree.node(Kind::KeyPathIndex(words), &children)
    }
}
