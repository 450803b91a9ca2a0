//! Types and generic signatures.

use super::super::kind::{Convention, Kind, Nominal, Phrase};
use super::super::tree::Id;
use super::Reader;

impl Reader<'_> {
    /// A type, wrapped.
    pub(super) fn any_type(&mut self) -> Option<Id> {
        let inner = self.inner_type()?;
        self.wrap(inner)
    }

    fn inner_type(&mut self) -> Option<Id> {
        self.deeper(|reader| match reader.take()? {
            b'B' => reader.builtin_type(),
            b'a' => reader.declared(Nominal::Alias),
            b'b' => reader.function_type(Convention::Block),
            b'c' => reader.function_type(Convention::C),
            b'D' => {
                let inner = reader.any_type()?;
                reader.tree.node(Kind::SelfType, &[inner])
            }
            b'E' => {
                reader.expect("RR")?;
                reader.tree.leaf(Kind::Words(true, &["<ERROR TYPE>"]))
            }
            b'F' => reader.function_type(Convention::Plain),
            b'f' => reader.function_type(Convention::Uncurried),
            b'K' => reader.function_type(Convention::AutoClosure),
            b'G' => reader.bound_generic_type(),
            b'X' => reader.special_type(),
            b'M' => {
                let inner = reader.any_type()?;
                reader.tree.node(Kind::Metatype, &[inner])
            }
            b'P' if reader.eat("M") => {
                let inner = reader.any_type()?;
                reader.tree.node(Kind::ExistentialMetatype, &[inner])
            }
            b'P' => reader.protocol_list(),
            b'Q' => reader.archetype_or_opaque(),
            b'q' => reader.dependent_type(),
            b'x' => reader.parameter(0, 0),
            b'w' => reader.member_of_parameter(),
            b'W' => reader.path_of_parameter(),
            b'R' => {
                let inner = reader.inner_type()?;
                reader.tree.node(Kind::Words(false, &["inout "]), &[inner])
            }
            b'k' => {
                let inner = reader.inner_type()?;
                reader
                    .tree
                    .node(Kind::Words(false, &["@noDerivative "]), &[inner])
            }
            b'S' => reader.substitution(),
            b'T' => reader.tuple(false),
            b't' => reader.tuple(true),
            b'u' => {
                let signature = reader.signature()?;
                let inner = reader.any_type()?;
                reader
                    .tree
                    .node(Kind::DependentGeneric, &[signature, inner])
            }
            b'C' => reader.declared(Nominal::Class),
            b'V' => reader.declared(Nominal::Structure),
            b'O' => reader.declared(Nominal::Enum),
            _ => None,
        })
    }

    fn builtin_type(&mut self) -> Option<Id> {
        let name = match self.take()? {
            b'b' => "Builtin.BridgeObject",
            b'B' => "Builtin.UnsafeValueBuffer",
            b'O' => "Builtin.UnknownObject",
            b'o' => "Builtin.NativeObject",
            b'p' => "Builtin.RawPointer",
            b't' => "Builtin.SILToken",
            b'w' => "Builtin.Word",
            letter @ (b'f' | b'i') => {
                let name = format!("Builtin.{}", self.sized(letter)?);
                return self.tree.text(Kind::Builtin, &name);
            }
            b'v' => {
                let elements = self.natural()?;
                self.expect("B")?;
                let element = match self.take()? {
                    b'p' => "RawPointer".to_owned(),
                    letter => self.sized(letter)?,
                };
                return self
                    .tree
                    .text(Kind::Builtin, &format!("Builtin.Vec{elements}x{element}"));
            }
            _ => return None,
        };
        self.tree.word(Kind::Builtin, name)
    }

    fn sized(&mut self, letter: u8) -> Option<String> {
        let size = self.natural()?;
        self.expect("_")?;
        match letter {
            b'f' => Some(format!("FPIEEE{size}")),
            b'i' => Some(format!("Int{size}")),
            _ => None,
        }
    }

    fn in_words(&mut self, words: Phrase) -> Option<Id> {
        let inner = self.any_type()?;
        self.tree.node(Kind::Words(false, words), &[inner])
    }

    fn special_type(&mut self) -> Option<Id> {
        match self.take()? {
            b'b' => {
                let inner = self.any_type()?;
                self.tree.node(Kind::Words(true, &["@box "]), &[inner])
            }
            b'B' => self.box_type(),
            b'M' => self.represented(Kind::Metatype),
            b'P' if self.eat("M") => self.represented(Kind::ExistentialMetatype),
            b'P' => self.protocol_list(),
            b'f' => self.function_type(Convention::Thin),
            b'o' => self.in_words(&["unowned "]),
            b'u' => self.in_words(&["unowned(unsafe) "]),
            b'w' => self.in_words(&["weak "]),
            b'F' => self.implementation(),
            _ => None,
        }
    }

    fn represented(&mut self, kind: Kind) -> Option<Id> {
        let words = match self.take()? {
            b't' => "@thin",
            b'T' => "@thick",
            b'o' => "@objc_metatype",
            _ => return None,
        };
        let representation = self.tree.word(Kind::ImplText, words)?;
        let inner = self.any_type()?;
        self.tree.node(kind, &[representation, inner])
    }

    fn box_type(&mut self) -> Option<Id> {
        let signature = if self.eat("G") {
            Some(self.signature()?)
        } else {
            None
        };
        let mut fields = Vec::new();
        while !self.eat("_") {
            let words: Phrase = match self.take()? {
                b'm' => &["var "],
                b'i' => &["let "],
                _ => return None,
            };
            fields.push(self.in_words(words)?);
        }
        let layout = self.tree.node(Kind::BoxLayout, &fields)?;
        let Some(signature) = signature else {
            return self.tree.node(Kind::BoxWithLayout, &[layout]);
        };
        let mut arguments = Vec::new();
        while !self.eat("_") {
            arguments.push(self.any_type()?);
        }
        let arguments = self.tree.node(Kind::TypeList, &arguments)?;
        self.tree
            .node(Kind::BoxWithLayout, &[layout, signature, arguments])
    }

    fn protocol_list(&mut self) -> Option<Id> {
        let mut protocols = Vec::new();
        while !self.eat("_") {
            protocols.push(self.protocol()?);
        }
        let list = self.tree.node(Kind::TypeList, &protocols)?;
        self.tree.node(Kind::ProtocolList, &[list])
    }

    fn archetype_or_opaque(&mut self) -> Option<Id> {
        if self.eat("u") {
            return self.tree.leaf(Kind::Words(false, &["some"]));
        }
        if self.eat("U") {
            self.index()?;
            return self.tree.leaf(Kind::Words(false, &["some"]));
        }
        self.archetype()
    }

    fn archetype(&mut self) -> Option<Id> {
        let root = match self.take()? {
            b'Q' => self.deeper(Self::archetype)?,
            b'S' => self.substitution()?,
            b's' => self.swift_module()?,
            _ => return None,
        };
        let name = self.identifier(None)?;
        let associated = self.tree.node(Kind::AssociatedRef, &[root, name])?;
        self.repeatable(associated)
    }

    fn tuple(&mut self, is_variadic: bool) -> Option<Id> {
        let mut elements = Vec::new();
        while !self.eat("_") {
            let mut parts = Vec::new();
            if self.peek().is_ascii_digit() || self.peek() == b'o' {
                parts.push(self.identifier(Some(Kind::TupleName))?);
            }
            parts.push(self.any_type()?);
            if is_variadic && self.peek() == b'_' {
                parts.push(self.tree.leaf(Kind::Variadic)?);
            }
            elements.push(self.tree.node(Kind::TupleElement, &parts)?);
        }
        self.tree.node(Kind::Tuple, &elements)
    }

    pub(super) fn bound_generic_type(&mut self) -> Option<Id> {
        let nominal = self.nominal_type()?;
        self.bind(nominal)
    }

    /// Gives a type its generic arguments, after those of the type that it is within.
    fn bind(&mut self, nominal: Id) -> Option<Id> {
        self.deeper(|reader| {
            let mut nominal = nominal;
            let parent = reader.tree.child(nominal, 0)?;
            if !matches!(
                reader.tree.kind(parent),
                Kind::Module | Kind::Function | Kind::Extension
            ) {
                let parent = reader.bind(parent)?;
                let mut children = reader.tree.children(nominal).to_vec();
                children[0] = parent;
                nominal = reader.tree.node(reader.tree.kind(nominal), &children)?;
            }
            let mut arguments = Vec::new();
            while !reader.eat("_") {
                arguments.push(reader.any_type()?);
            }
            if arguments.is_empty() {
                return Some(nominal);
            }
            let kind = match reader.tree.kind(nominal) {
                Kind::Nominal(kind @ (Nominal::Class | Nominal::Structure | Nominal::Enum)) => kind,
                _ => return None,
            };
            let inner = reader.wrap(nominal)?;
            let arguments = reader.tree.node(Kind::TypeList, &arguments)?;
            reader
                .tree
                .node(Kind::BoundGeneric(kind), &[inner, arguments])
        })
    }

    fn parameter(&mut self, depth: i64, index: i64) -> Option<Id> {
        let depth = self.tree.number(Kind::Number, depth)?;
        let index = self.tree.number(Kind::Number, index)?;
        self.tree.node(Kind::GenericParameter, &[depth, index])
    }

    fn generic_parameter(&mut self) -> Option<Id> {
        if self.eat("d") {
            let depth = self.index()?.checked_add(1)?;
            let index = self.index()?;
            return self.parameter(depth, index);
        }
        if self.eat("x") {
            return self.parameter(0, 0);
        }
        let index = self.index()?.checked_add(1)?;
        self.parameter(0, index)
    }

    fn dependent_type(&mut self) -> Option<Id> {
        if matches!(self.peek(), b'd' | b'_' | b'0'..=b'9') {
            return self.generic_parameter();
        }
        let base = self.any_type()?;
        self.member(base)
    }

    /// An associated type of a type.
    fn member(&mut self, base: Id) -> Option<Id> {
        let name = if self.eat("S") {
            let name = self.substitution()?;
            matches!(self.tree.kind(name), Kind::Symbol(_)).then_some(name)?
        } else {
            let protocol = if self.eat("P") {
                Some(self.protocol()?)
            } else {
                None
            };
            let name = self.identifier(None)?;
            let name = match protocol {
                Some(protocol) => self
                    .tree
                    .node(Kind::Symbol(&["", "."]), &[protocol, name])?,
                None => self.tree.node(Kind::Symbol(&[]), &[name])?,
            };
            self.repeatable(name)?
        };
        self.tree.node(Kind::DependentMember, &[base, name])
    }

    fn member_of_parameter(&mut self) -> Option<Id> {
        let parameter = self.generic_parameter()?;
        let base = self.wrap(parameter)?;
        self.member(base)
    }

    fn path_of_parameter(&mut self) -> Option<Id> {
        let mut base = self.generic_parameter()?;
        while !self.eat("_") {
            let inner = self.wrap(base)?;
            base = self.member(inner)?;
        }
        Some(base)
    }

    /// The parameters of a generic declaration; its requirements are read and not kept.
    pub(super) fn signature(&mut self) -> Option<Id> {
        let mut counts = Vec::new();
        while !matches!(self.peek(), b'R' | b'r') {
            let count = if self.eat("z") {
                0
            } else {
                self.index()?.checked_add(1)?
            };
            counts.push(self.tree.number(Kind::ParameterCount, count)?);
        }
        if counts.is_empty() {
            counts.push(self.tree.number(Kind::ParameterCount, 1)?);
        }
        if self.take()? == b'R' {
            while !self.eat("r") {
                self.requirement()?;
            }
        }
        self.tree.node(Kind::Signature, &counts)
    }

    fn requirement(&mut self) -> Option<()> {
        if self.eat("w") {
            self.member_of_parameter()?;
        } else if self.eat("W") {
            self.path_of_parameter()?;
        } else {
            self.generic_parameter()?;
        }
        if self.eat("z") {
            self.any_type()?;
            return Some(());
        }
        if self.eat("l") {
            return self.layout();
        }
        match self.peek() {
            b'C' => self.any_type().map(drop),
            b'S' => {
                self.take()?;
                let found = self.substitution()?;
                match self.tree.kind(found) {
                    Kind::Nominal(Nominal::Protocol | Nominal::Class) => Some(()),
                    Kind::Module => self.declared_in(found, Nominal::Protocol).map(drop),
                    _ => None,
                }
            }
            _ => self.protocol().map(drop),
        }
    }

    fn layout(&mut self) -> Option<()> {
        match self.take()? {
            b'U' | b'R' | b'N' | b'T' => (),
            b'e' | b'm' => {
                self.natural()?;
            }
            b'E' | b'M' => {
                self.natural()?;
                self.expect("_")?;
                self.natural()?;
            }
            _ => return None,
        }
        Some(())
    }
}
