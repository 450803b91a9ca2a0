//! Declarations and what they are within.

use super::super::kind::{Kind, Nominal};
use super::super::tree::Id;
use super::Reader;

impl Reader<'_> {
    pub(super) fn context(&mut self) -> Option<Id> {
        self.deeper(|reader| match reader.peek() {
            b'E' | b'e' => reader.extension(),
            b'S' => {
                reader.take()?;
                reader.substitution()
            }
            b's' => {
                reader.take()?;
                reader.swift_module()
            }
            b'G' => {
                reader.take()?;
                reader.bound_generic_type()
            }
            b'F' | b'I' | b'v' | b'P' | b'Z' | b'C' | b'V' | b'O' => reader.entity(),
            _ => reader.module(),
        })
    }

    fn extension(&mut self) -> Option<Id> {
        let is_constrained = self.take()? == b'e';
        let module = self.module()?;
        let signature = if is_constrained {
            Some(self.signature()?)
        } else {
            None
        };
        let extended = self.context()?;
        let children: Vec<Id> = [module, extended].into_iter().chain(signature).collect();
        self.tree.node(Kind::Extension, &children)
    }

    pub(super) fn nominal_type(&mut self) -> Option<Id> {
        match self.take()? {
            b'S' => self.substitution(),
            b'V' => self.declared(Nominal::Structure),
            b'O' => self.declared(Nominal::Enum),
            b'C' => self.declared(Nominal::Class),
            b'P' => self.declared(Nominal::Protocol),
            _ => None,
        }
    }

    pub(super) fn declared(&mut self, nominal: Nominal) -> Option<Id> {
        let context = self.context()?;
        self.declared_in(context, nominal)
    }

    pub(super) fn declared_in(&mut self, context: Id, nominal: Nominal) -> Option<Id> {
        let name = self.name()?;
        let declared = self.tree.node(Kind::Nominal(nominal), &[context, name])?;
        self.repeatable(declared)
    }

    pub(super) fn protocol(&mut self) -> Option<Id> {
        let protocol = self.protocol_unwrapped()?;
        self.wrap(protocol)
    }

    fn protocol_unwrapped(&mut self) -> Option<Id> {
        if self.eat("S") {
            let found = self.substitution()?;
            return match self.tree.kind(found) {
                Kind::Nominal(Nominal::Protocol) => Some(found),
                Kind::Module => self.declared_in(found, Nominal::Protocol),
                _ => None,
            };
        }
        if self.eat("s") {
            let module = self.swift_module()?;
            return self.declared_in(module, Nominal::Protocol);
        }
        self.declared(Nominal::Protocol)
    }

    pub(super) fn conformance(&mut self) -> Option<Id> {
        let subject = self.any_type()?;
        let protocol = self.protocol()?;
        let context = self.context()?;
        self.tree
            .node(Kind::ConformanceOfType, &[subject, protocol, context])
    }

    pub(super) fn entity(&mut self) -> Option<Id> {
        self.deeper(|reader| {
            let is_static = reader.eat("Z");
            let kind = match reader.peek() {
                b'F' => Kind::Function,
                b'v' => Kind::Variable,
                b'I' => Kind::Initializer("variable initialization expression"),
                b'i' => Kind::Subscript,
                _ => return reader.nominal_type(),
            };
            reader.take()?;
            let context = reader.context()?;
            let entity = reader.entity_in(context, kind)?;
            if is_static {
                reader.tree.node(Kind::Static, &[entity])
            } else {
                Some(entity)
            }
        })
    }

    fn entity_in(&mut self, context: Id, kind: Kind) -> Option<Id> {
        if let Some(kind) = self.without_type() {
            return self.tree.node(kind, &[context]);
        }
        if let Some(words) = self.accessor() {
            let storage = self.storage(context)?;
            return self.tree.node(Kind::Accessor(words), &[storage]);
        }
        let (kind, name) = match self.peek() {
            b'C' | b'c' => (
                if self.take()? == b'C' {
                    Kind::Allocator
                } else {
                    Kind::Constructor
                },
                None,
            ),
            b'U' | b'u' => {
                let kind = if self.take()? == b'U' {
                    Kind::ExplicitClosure
                } else {
                    Kind::ImplicitClosure
                };
                (kind, Some(self.index_node()?))
            }
            b'A' if matches!(kind, Kind::Initializer(_)) => {
                self.take()?;
                let index = self.index_node()?;
                return self.tree.node(Kind::DefaultArgument, &[context, index]);
            }
            b'i' if matches!(kind, Kind::Initializer(_)) => {
                self.take()?;
                return self.tree.node(kind, &[context]);
            }
            _ if matches!(kind, Kind::Initializer(_)) => return None,
            _ => (kind, Some(self.name()?)),
        };
        let of = self.any_type()?;
        let children: Vec<Id> = [context].into_iter().chain(name).chain([of]).collect();
        self.tree.node(kind, &children)
    }

    fn without_type(&mut self) -> Option<Kind> {
        let kind = match self.peek() {
            b'D' => Kind::Deallocator,
            b'd' => Kind::Destructor,
            b'e' => Kind::ClassVariables("__ivar_initializer"),
            b'E' => Kind::ClassVariables("__ivar_destroyer"),
            _ => return None,
        };
        self.take()?;
        Some(kind)
    }

    fn accessor(&mut self) -> Option<&'static str> {
        let accessors = [
            ("aO", "owningMutableAddressor"),
            ("ao", "nativeOwningMutableAddressor"),
            ("ap", "nativePinningMutableAddressor"),
            ("au", "unsafeMutableAddressor"),
            ("lO", "owningAddressor"),
            ("lo", "nativeOwningAddressor"),
            ("lp", "nativePinningAddressor"),
            ("lu", "unsafeAddressor"),
            ("g", "getter"),
            ("G", "getter"),
            ("s", "setter"),
            ("m", "materializeForSet"),
            ("w", "willset"),
            ("W", "didset"),
            ("r", "read"),
            ("M", "modify"),
        ];
        accessors
            .into_iter()
            .find(|(code, _)| self.eat(code))
            .map(|(_, words)| words)
    }

    /// The variable or subscript of an accessor.
    fn storage(&mut self, context: Id) -> Option<Id> {
        let name = self.name()?;
        let is_subscript =
            |id: Id| self.tree.kind(id) == Kind::Identifier && self.tree.text_of(id) == "subscript";
        let private = match self.tree.kind(name) {
            Kind::PrivateName => self.tree.child(name, 1).filter(|name| is_subscript(*name)),
            _ => None,
        };
        if is_subscript(name) {
            let of = self.any_type()?;
            return self.tree.node(Kind::Subscript, &[context, of]);
        }
        let of = self.any_type()?;
        if private.is_none() {
            return self.tree.node(Kind::Variable, &[context, name, of]);
        }
        let discriminator = self.tree.child(name, 0)?;
        let name = self.tree.node(Kind::PrivateName, &[discriminator])?;
        self.tree.node(Kind::Subscript, &[context, of, name])
    }
}
