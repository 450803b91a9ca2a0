//! Identifiers, operators and what repeats earlier parts of the name.

use super::super::identifier;
use super::super::kind::{Kind, Nominal};
use super::super::tree::Id;
use super::Parser;

/// The most words that a name can repeat.
const MAX_WORDS: usize = 26;

/// The most times that one letter repeats a node.
const MAX_REPEATS: i64 = 2048;

impl<'a> Parser<'a> {
    /// `length text`, with words of earlier identifiers by letters after `0`, or in Punycode after `00`.
    pub(super) fn identifier(&mut self) -> Option<Id> {
        if self.eat_all("00") {
            return self.encoded_identifier();
        }
        let mut takes_words = self.eat(b'0');
        let mut text = String::new();
        loop {
            while takes_words && self.peek().is_ascii_alphabetic() {
                let letter = self.take()?;
                takes_words = letter.is_ascii_lowercase();
                let word = self
                    .words
                    .get(usize::from(letter.to_ascii_lowercase() - b'a'))?;
                self.tree.spend(1 + word.len() / 8)?;
                text.push_str(word);
            }
            if self.eat(b'0') {
                break;
            }
            let slice = self.counted_text()?;
            self.remember_words(slice);
            text.push_str(slice);
            if !takes_words {
                break;
            }
        }
        let node = (!text.is_empty()).then(|| self.tree.text(Kind::Identifier, &text))??;
        self.repeatable(node)
    }

    fn encoded_identifier(&mut self) -> Option<Id> {
        let length = self.length()?;
        self.eat(b'_');
        let text = identifier::decode(self.slice(length)?)?;
        let node = (!text.is_empty()).then(|| self.tree.text(Kind::Identifier, &text))??;
        self.repeatable(node)
    }

    fn length(&mut self) -> Option<usize> {
        let length = usize::try_from(self.natural()?).ok()?;
        (length > 0).then_some(length)
    }

    fn slice(&mut self, length: usize) -> Option<&'a str> {
        let slice = self.input.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(slice)
    }

    /// Text after its length.
    pub(super) fn counted_text(&mut self) -> Option<&'a str> {
        let length = self.length()?;
        self.slice(length)
    }

    fn remember_words(&mut self, text: &'a str) {
        let room = MAX_WORDS - self.words.len();
        self.words.extend(identifier::words(text).take(room));
    }

    /// An identifier of letters, each for a character of an operator.
    pub(super) fn operator_name(&mut self) -> Option<Id> {
        let letters = self.pop_kind(Kind::Identifier)?;
        let text = identifier::operator(self.tree.text_of(letters))?;
        let place = match self.take()? {
            b'i' => " infix",
            b'p' => " prefix",
            b'P' => " postfix",
            _ => return None,
        };
        self.tree.text(Kind::Operator(place), &text)
    }

    pub(super) fn local_name(&mut self) -> Option<Id> {
        match self.peek() {
            b'L' => {
                self.at += 1;
                let discriminator = self.pop_kind(Kind::Identifier)?;
                let name = self.pop_if(Kind::is_name)?;
                self.tree.node(Kind::PrivateName, &[discriminator, name])
            }
            b'l' => {
                self.at += 1;
                let discriminator = self.pop_kind(Kind::Identifier)?;
                self.tree.node(Kind::PrivateName, &[discriminator])
            }
            b'a'..=b'j' | b'A'..=b'J' => {
                let letter = self.at;
                self.at += 1;
                let name = self.pop()?;
                let kind = self
                    .tree
                    .text(Kind::Identifier, &self.input[letter..=letter])?;
                self.tree.node(Kind::RelatedName, &[kind, name])
            }
            _ => {
                let discriminator = self.index_node()?;
                let name = self.pop_if(Kind::is_name)?;
                self.tree.node(Kind::LocalName, &[discriminator, name])
            }
        }
    }

    /// Repeats earlier nodes: letters, the last a capital one, each after how often; or an index.
    pub(super) fn substitution(&mut self) -> Option<Id> {
        let mut repeats = None;
        loop {
            match self.take()? {
                letter @ b'a'..=b'z' => {
                    let node = self.repeated(repeats.take(), letter - b'a')?;
                    self.push(node)?;
                }
                letter @ b'A'..=b'Z' => return self.repeated(repeats, letter - b'A'),
                b'_' => {
                    let index = repeats.map_or(26, |index: i64| index + 27);
                    return self
                        .substitutions
                        .get(usize::try_from(index).ok()?)
                        .copied();
                }
                _ => {
                    self.at -= 1;
                    repeats = Some(self.natural()?);
                }
            }
        }
    }

    fn repeated(&mut self, repeats: Option<i64>, index: u8) -> Option<Id> {
        let node = *self.substitutions.get(usize::from(index))?;
        self.push_repeated(node, repeats)
    }

    /// A node, after pushing it once less often than it is repeated.
    fn push_repeated(&mut self, node: Id, repeats: Option<i64>) -> Option<Id> {
        let repeats = repeats.unwrap_or(1);
        if repeats > MAX_REPEATS {
            return None;
        }
        for _ in 1..repeats {
            self.push(node)?;
        }
        Some(node)
    }

    pub(super) fn standard_substitution(&mut self) -> Option<Id> {
        match self.peek() {
            b'o' => {
                self.at += 1;
                self.tree.word(Kind::Module, "__C")
            }
            b'C' => {
                self.at += 1;
                self.tree.word(Kind::Module, "__C_Synthesized")
            }
            b'g' => {
                self.at += 1;
                let wrapped = self.pop_type()?;
                let optional = self.swift_type(Nominal::Enum, "Optional")?;
                let list = self.tree.node(Kind::TypeList, &[wrapped])?;
                let bound = self.typed(Kind::BoundGeneric(Nominal::Enum), &[optional, list])?;
                self.repeatable(bound)
            }
            digit => {
                let repeats = if digit.is_ascii_digit() {
                    Some(self.natural()?)
                } else {
                    None
                };
                let is_concurrent = self.eat(b'c');
                let letter = self.take()?;
                let (nominal, name) = if is_concurrent {
                    identifier::concurrency_type(letter)?
                } else {
                    identifier::standard_type(letter)?
                };
                let node = self.swift_type(nominal, name)?;
                self.push_repeated(node, repeats)
            }
        }
    }

    fn swift_type(&mut self, nominal: Nominal, name: &'static str) -> Option<Id> {
        let module = self.tree.word(Kind::Module, "Swift")?;
        let name = self.tree.word(Kind::Identifier, name)?;
        self.typed(Kind::Nominal(nominal), &[module, name])
    }

    pub(super) fn nominal(&mut self, nominal: Nominal) -> Option<Id> {
        let name = self.pop_if(Kind::is_name)?;
        let context = self.pop_context()?;
        let node = self.typed(Kind::Nominal(nominal), &[context, name])?;
        self.repeatable(node)
    }

    pub(super) fn extension(&mut self) -> Option<Id> {
        let signature = self.pop_signature();
        let module = self.pop_module()?;
        let extended = self.pop_inner_type()?;
        if !self.tree.kind(extended).is_nominal() {
            return None;
        }
        match signature {
            Some(signature) => self
                .tree
                .node(Kind::Extension, &[module, extended, signature]),
            None => self.tree.node(Kind::Extension, &[module, extended]),
        }
    }
}
