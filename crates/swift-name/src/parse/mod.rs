//! The grammar of Swift 4 to 6: postfix operators over a stack of nodes.

mod entities;
mod functions;
mod generics;
mod implementation;
mod names;
mod records;
mod specializations;
mod thunks;
mod types;

use super::kind::{Kind, Nominal, Phrase};
use super::tree::{Id, Tree};

/// A reader of one name.
pub(super) struct Parser<'a> {
    input: &'a str,
    at: usize,
    tree: Tree,
    stack: Vec<Id>,
    /// Types and identifiers that later parts of the name repeat by a letter.
    substitutions: Vec<Id>,
    /// Words of identifiers that later identifiers repeat by a letter.
    words: Vec<&'a str>,
    /// Argument labels are in the tuple's type, as in Swift 4.0.
    labels_in_types: bool,
}

/// The tree of the mangled text after the prefix.
pub(super) fn parse(input: &str, labels_in_types: bool) -> Option<(Tree, Id)> {
    let mut parser = Parser {
        input,
        at: 0,
        tree: Tree::new(input.len()),
        stack: Vec::new(),
        substitutions: Vec::new(),
        words: Vec::new(),
        labels_in_types,
    };
    while parser.at < input.len() {
        let node = parser.operator()?;
        parser.push(node)?;
    }
    let root = parser.global()?;
    (!parser.tree.is_exhausted()).then_some((parser.tree, root))
}

impl Parser<'_> {
    /// The whole: what stands before a function, then all that is left.
    fn global(&mut self) -> Option<Id> {
        let suffix = self.pop_kind(Kind::Suffix);
        let mut levels = vec![Vec::new()];
        while let Some(attribute) = self.pop_if(Kind::is_function_attribute) {
            let kind = self.tree.kind(attribute);
            levels.last_mut()?.push(attribute);
            if kind == Kind::PartialApply {
                levels.push(Vec::new());
            }
        }
        for node in std::mem::take(&mut self.stack) {
            let unwrapped = match self.tree.kind(node) {
                Kind::Type => self.tree.child(node, 0)?,
                _ => node,
            };
            levels.last_mut()?.push(unwrapped);
        }
        let mut inner = levels.pop()?;
        while let Some(mut outer) = levels.pop() {
            outer.pop();
            outer.push(self.tree.node(Kind::PartialApply, &inner)?);
            inner = outer;
        }
        inner.extend(suffix);
        if inner.is_empty() {
            return None;
        }
        self.tree.node(Kind::Global, &inner)
    }

    fn operator(&mut self) -> Option<Id> {
        match self.take()? {
            b'A' => self.substitution(),
            b'B' => self.builtin_type(),
            b'C' => self.nominal(Nominal::Class),
            b'D' => self.type_mangling(),
            b'E' => self.extension(),
            b'F' => self.plain_function(),
            b'G' => self.bound_generic_type(),
            b'H' => self.conformance_or_record(),
            b'I' => self.implementation_function_type(),
            b'K' => self.tree.leaf(Kind::Throws),
            b'L' => self.local_name(),
            b'M' => self.metadata(),
            b'N' => self.about_type(&["type metadata for "]),
            b'O' => self.nominal(Nominal::Enum),
            b'P' => self.nominal(Nominal::Protocol),
            b'Q' => self.archetype(),
            b'R' => self.requirement(),
            b'S' => self.standard_substitution(),
            b'T' => self.thunk_or_specialization(),
            b'V' => self.nominal(Nominal::Structure),
            b'W' => self.witness(),
            b'X' => self.special_type(),
            b'Y' => self.type_annotation(),
            b'Z' => {
                let entity = self.pop_if(Kind::is_entity)?;
                self.tree.node(Kind::Static, &[entity])
            }
            b'a' => self.nominal(Nominal::Alias),
            b'c' => self.function_type(Kind::FunctionType(super::kind::Convention::Plain), false),
            b'd' => self.tree.leaf(Kind::Variadic),
            b'f' => self.function_entity(),
            b'g' => self.retroactive_conformance(),
            b'h' => self.type_in_words(&["__shared "]),
            b'i' => self.subscript(),
            b'l' => self.signature(false),
            b'm' => {
                let inner = self.pop_type()?;
                self.typed(Kind::Metatype, &[inner])
            }
            b'n' => self.type_in_words(&["__owned "]),
            b'o' => self.operator_name(),
            b'p' => {
                let list = self.protocol_list()?;
                self.wrap(list)
            }
            b'q' => {
                let parameter = self.generic_parameter()?;
                self.wrap(parameter)
            }
            b'r' => self.signature(true),
            b's' => self.tree.word(Kind::Module, "Swift"),
            b't' => self.tuple(),
            b'u' => self.dependent_generic_type(),
            b'v' => self.variable(),
            b'w' => self.value_witness(),
            b'x' => {
                let parameter = self.parameter_at(0, 0)?;
                self.wrap(parameter)
            }
            b'y' => self.tree.leaf(Kind::EmptyList),
            b'z' => self.type_in_words(&["inout "]),
            b'_' => self.tree.leaf(Kind::FirstElement),
            b'.' => {
                self.at = self.input.len();
                self.tree.leaf(Kind::Suffix)
            }
            b'$' => self.integer_type(),
            b'0'..=b'9' => {
                self.at -= 1;
                self.identifier()
            }
            _ => None,
        }
    }

    fn peek(&self) -> u8 {
        self.input.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.input.as_bytes().get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && byte != 0;
        self.at += usize::from(found);
        found
    }

    fn eat_all(&mut self, text: &str) -> bool {
        let found = self.input.as_bytes()[self.at..].starts_with(text.as_bytes());
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.eat(byte).then_some(())
    }

    /// A number in digits.
    fn natural(&mut self) -> Option<i64> {
        let mut number = None;
        while self.peek().is_ascii_digit() {
            let digit = i32::from(self.peek() - b'0');
            self.at += 1;
            number = Some(number.unwrap_or(0i32).checked_mul(10)?.checked_add(digit)?);
        }
        number.map(i64::from)
    }

    /// `_` for 0, `N_` for N + 1.
    fn index(&mut self) -> Option<i64> {
        if self.eat(b'_') {
            return Some(0);
        }
        let number = self.natural()?;
        self.expect(b'_')?;
        Some(number + 1)
    }

    fn index_node(&mut self) -> Option<Id> {
        let index = self.index()?;
        self.tree.number(Kind::Number, index)
    }

    fn push(&mut self, id: Id) -> Option<()> {
        self.tree.spend(1)?;
        self.stack.push(id);
        Some(())
    }

    fn pop(&mut self) -> Option<Id> {
        self.stack.pop()
    }

    fn pop_if(&mut self, test: impl Fn(Kind) -> bool) -> Option<Id> {
        let top = *self.stack.last()?;
        test(self.tree.kind(top)).then(|| self.stack.pop())?
    }

    fn pop_kind(&mut self, kind: Kind) -> Option<Id> {
        self.pop_if(|top| top == kind)
    }

    fn pop_type(&mut self) -> Option<Id> {
        self.pop_kind(Kind::Type)
    }

    /// The node that the type on top of the stack wraps.
    fn pop_inner_type(&mut self) -> Option<Id> {
        let outer = self.pop_type()?;
        self.tree.child(outer, 0)
    }

    fn pop_signature(&mut self) -> Option<Id> {
        self.pop_kind(Kind::Signature)
    }

    /// Items down to the mark before the first one, in their order; none if the list is marked as empty.
    fn pop_list(&mut self, item: impl FnMut(&mut Self) -> Option<Id>) -> Option<Vec<Id>> {
        match self.pop_kind(Kind::EmptyList) {
            Some(_) => Some(Vec::new()),
            None => self.pop_items(item),
        }
    }

    /// As [`Self::pop_list`], of at least one item.
    fn pop_items(&mut self, mut item: impl FnMut(&mut Self) -> Option<Id>) -> Option<Vec<Id>> {
        let mut items = Vec::new();
        loop {
            let is_first = self.pop_kind(Kind::FirstElement).is_some();
            items.push(item(self)?);
            if is_first {
                items.reverse();
                return Some(items);
            }
        }
    }

    fn pop_module(&mut self) -> Option<Id> {
        match self.pop_kind(Kind::Identifier) {
            Some(name) => self.tree.renamed(name, Kind::Module),
            None => self.pop_kind(Kind::Module),
        }
    }

    fn pop_context(&mut self) -> Option<Id> {
        if let Some(module) = self.pop_module() {
            return Some(module);
        }
        match self.pop_type() {
            Some(outer) => {
                let inner = self.tree.child(outer, 0)?;
                self.tree.kind(inner).is_context().then_some(inner)
            }
            None => self.pop_if(Kind::is_context),
        }
    }

    fn pop_protocol(&mut self) -> Option<Id> {
        if let Some(protocol) = self.pop_type() {
            return self.tree.is_protocol(protocol).then_some(protocol);
        }
        let name = self.pop_if(Kind::is_name)?;
        let context = self.pop_context()?;
        self.typed(Kind::Nominal(Nominal::Protocol), &[context, name])
    }

    fn wrap(&mut self, inner: Id) -> Option<Id> {
        self.tree.node(Kind::Type, &[inner])
    }

    /// A node wrapped as a type.
    fn typed(&mut self, kind: Kind, children: &[Id]) -> Option<Id> {
        let inner = self.tree.node(kind, children)?;
        self.wrap(inner)
    }

    /// A type of words around what the type on top of the stack wraps.
    fn type_in_words(&mut self, words: Phrase) -> Option<Id> {
        let inner = self.pop_inner_type()?;
        self.typed(Kind::Words(false, words), &[inner])
    }

    /// A symbol about the type on top of the stack.
    fn about_type(&mut self, words: Phrase) -> Option<Id> {
        let subject = self.pop_type()?;
        self.tree.node(Kind::Symbol(words), &[subject])
    }

    fn symbol(&mut self, words: Phrase, children: &[Id]) -> Option<Id> {
        self.tree.node(Kind::Symbol(words), children)
    }

    /// Makes a node one that later parts of the name repeat by a letter.
    fn repeatable(&mut self, id: Id) -> Option<Id> {
        self.substitutions.push(id);
        Some(id)
    }
}
