//! The grammar of Swift 3 and before: `_T` and prefix operators, read by descent.

mod entities;
mod functions;
mod globals;
mod types;

use super::identifier;
use super::kind::{Kind, Nominal};
use super::tree::{Id, Tree};

/// The levels that a name is read to.
const MAX_DEPTH: usize = 128;

/// A reader of one name.
struct Reader<'a> {
    rest: &'a str,
    tree: Tree,
    /// Modules, types and associated types that later parts of the name repeat by number.
    substitutions: Vec<Id>,
    depth: usize,
}

/// The tree of the mangled text after `_T`.
pub(super) fn parse(input: &str) -> Option<(Tree, Id)> {
    let tree = Tree::new(input.len());
    let mut reader = Reader {
        rest: input,
        tree,
        substitutions: Vec::new(),
        depth: 0,
    };
    let root = reader.top_level()?;
    (!reader.tree.is_exhausted()).then_some((reader.tree, root))
}

impl<'a> Reader<'a> {
    fn peek(&self) -> u8 {
        self.rest.as_bytes().first().copied().unwrap_or(0)
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.rest = self.rest.get(1..)?;
        Some(byte)
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, text: &str) -> Option<()> {
        self.eat(text).then_some(())
    }

    /// Reads a part one level deeper.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let part = read(self);
        self.depth -= 1;
        part
    }

    fn natural(&mut self) -> Option<i64> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        digits.parse().ok()
    }

    /// `_` for 0, `N_` for N + 1.
    fn index(&mut self) -> Option<i64> {
        if self.eat("_") {
            return Some(0);
        }
        let number = self.natural()?;
        self.expect("_")?;
        number.checked_add(1)
    }

    fn index_node(&mut self) -> Option<Id> {
        let index = self.index()?;
        self.tree.number(Kind::Number, index)
    }

    fn wrap(&mut self, inner: Id) -> Option<Id> {
        self.tree.node(Kind::Type, &[inner])
    }

    fn repeatable(&mut self, id: Id) -> Option<Id> {
        self.substitutions.push(id);
        Some(id)
    }

    fn swift_module(&mut self) -> Option<Id> {
        self.tree.word(Kind::Module, "Swift")
    }

    fn swift_type(&mut self, nominal: Nominal, name: &'static str) -> Option<Id> {
        let module = self.swift_module()?;
        let name = self.tree.word(Kind::Identifier, name)?;
        self.tree.node(Kind::Nominal(nominal), &[module, name])
    }

    /// The node that is repeated by what is after `S`.
    fn substitution(&mut self) -> Option<Id> {
        use Nominal::{Enum, Structure};
        let (nominal, name) = match self.peek() {
            b'o' => {
                self.take()?;
                return self.tree.word(Kind::Module, "__C");
            }
            b'C' => {
                self.take()?;
                return self.tree.word(Kind::Module, "__C_Synthesized");
            }
            b'a' => (Structure, "Array"),
            b'b' => (Structure, "Bool"),
            b'c' => (Structure, "UnicodeScalar"),
            b'd' => (Structure, "Double"),
            b'f' => (Structure, "Float"),
            b'i' => (Structure, "Int"),
            b'V' => (Structure, "UnsafeRawPointer"),
            b'v' => (Structure, "UnsafeMutableRawPointer"),
            b'P' => (Structure, "UnsafePointer"),
            b'p' => (Structure, "UnsafeMutablePointer"),
            b'q' => (Enum, "Optional"),
            b'Q' => (Enum, "ImplicitlyUnwrappedOptional"),
            b'R' => (Structure, "UnsafeBufferPointer"),
            b'r' => (Structure, "UnsafeMutableBufferPointer"),
            b'S' => (Structure, "String"),
            b'u' => (Structure, "UInt"),
            _ => {
                let index = usize::try_from(self.index()?).ok()?;
                return self.substitutions.get(index).copied();
            }
        };
        self.take()?;
        self.swift_type(nominal, name)
    }

    fn module(&mut self) -> Option<Id> {
        if self.eat("s") {
            return self.swift_module();
        }
        if self.eat("S") {
            let module = self.substitution()?;
            return (self.tree.kind(module) == Kind::Module).then_some(module);
        }
        let module = self.identifier(Some(Kind::Module))?;
        self.repeatable(module)
    }

    /// `L` and a number before a local name, `P` and its file before a private one.
    fn name(&mut self) -> Option<Id> {
        if self.eat("L") {
            let discriminator = self.index_node()?;
            let name = self.identifier(None)?;
            return self.tree.node(Kind::LocalName, &[discriminator, name]);
        }
        if self.eat("P") {
            let discriminator = self.identifier(None)?;
            let name = self.identifier(None)?;
            return self.tree.node(Kind::PrivateName, &[discriminator, name]);
        }
        self.identifier(None)
    }

    /// An identifier of a kind, or also an operator.
    fn identifier(&mut self, kind: Option<Kind>) -> Option<Id> {
        let is_encoded = self.eat("X");
        let mut place = None;
        if self.eat("o") {
            if kind.is_some() {
                return None;
            }
            place = Some(match self.take()? {
                b'p' => " prefix",
                b'P' => " postfix",
                b'i' => " infix",
                _ => return None,
            });
        }
        let length = usize::try_from(self.natural()?).ok()?;
        let slice = self.rest.get(..length).filter(|slice| !slice.is_empty())?;
        self.rest = &self.rest[length..];
        let mut text = if is_encoded {
            identifier::decode(slice)?
        } else {
            slice.to_owned()
        };
        if place.is_some() {
            text = identifier::operator(&text)?;
        }
        if text.is_empty() {
            return None;
        }
        let kind = place.map_or(kind.unwrap_or(Kind::Identifier), Kind::Operator);
        self.tree.text(kind, &text)
    }
}
