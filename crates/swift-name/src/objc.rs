//! Names of types in the Objective-C runtime: classes (`_TtC4main3App`) and protocols (`_TtP4main5Paint_`).

use super::identifier;
use super::kind::{Kind, Nominal};
use super::tree::{Id, Tree};

/// The levels that a name is read to.
const MAX_DEPTH: usize = 128;

/// A reader of one name.
struct Reader<'a> {
    rest: &'a str,
    tree: Tree,
    /// Modules and types that later parts of the name repeat by number.
    substitutions: Vec<Id>,
}

/// The tree of the mangled text after `_Tt`.
pub(super) fn parse(input: &str) -> Option<(Tree, Id)> {
    let mut reader = Reader {
        rest: input,
        tree: Tree::new(input.len()),
        substitutions: Vec::new(),
    };
    let root = match reader.take()? {
        b'C' => reader.declared(Nominal::Class, MAX_DEPTH)?,
        b'P' => reader.protocols()?,
        _ => return None,
    };
    let is_whole = reader.rest.is_empty() && !reader.tree.is_exhausted();
    is_whole.then_some((reader.tree, root))
}

impl Reader<'_> {
    fn take(&mut self) -> Option<u8> {
        let byte = *self.rest.as_bytes().first()?;
        self.rest = self.rest.get(1..)?;
        Some(byte)
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn natural(&mut self) -> Option<usize> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        digits.parse().ok()
    }

    fn protocols(&mut self) -> Option<Id> {
        let mut protocols = Vec::new();
        while !self.eat("_") {
            let protocol = self.declared(Nominal::Protocol, MAX_DEPTH)?;
            protocols.push(self.tree.node(Kind::Type, &[protocol])?);
        }
        let list = self.tree.node(Kind::TypeList, &protocols)?;
        self.tree.node(Kind::ProtocolList, &[list])
    }

    /// A type by its context and its name.
    fn declared(&mut self, nominal: Nominal, levels: usize) -> Option<Id> {
        let context = self.context(levels.checked_sub(1)?)?;
        let name = if self.eat("P") {
            let discriminator = self.identifier(Kind::Identifier)?;
            let name = self.identifier(Kind::Identifier)?;
            self.tree.node(Kind::PrivateName, &[discriminator, name])?
        } else {
            self.identifier(Kind::Identifier)?
        };
        let declared = self.tree.node(Kind::Nominal(nominal), &[context, name])?;
        self.substitutions.push(declared);
        Some(declared)
    }

    /// A module, or a type that contains others.
    fn context(&mut self, levels: usize) -> Option<Id> {
        for (code, nominal) in [
            ("C", Nominal::Class),
            ("V", Nominal::Structure),
            ("O", Nominal::Enum),
        ] {
            if self.eat(code) {
                return self.declared(nominal, levels);
            }
        }
        if self.eat("So") {
            return self.tree.word(Kind::Module, "__C");
        }
        if self.eat("s") {
            return self.tree.word(Kind::Module, "Swift");
        }
        if self.eat("S") {
            let index = if self.eat("_") {
                0
            } else {
                let number = self.natural()?;
                self.eat("_").then_some(number.checked_add(1)?)?
            };
            return self.substitutions.get(index).copied();
        }
        let module = self.identifier(Kind::Module)?;
        self.substitutions.push(module);
        Some(module)
    }

    fn identifier(&mut self, kind: Kind) -> Option<Id> {
        let is_encoded = self.eat("X");
        let length = self.natural()?;
        let slice = self.rest.get(..length).filter(|slice| !slice.is_empty())?;
        self.rest = &self.rest[length..];
        if is_encoded {
            return self.tree.text(kind, &identifier::decode(slice)?);
        }
        self.tree.text(kind, slice)
    }
}
