//! Types: builtin ones, generic arguments, archetypes, and the special ones after `X`.

use super::super::kind::{Convention, Kind, Nominal};
use super::super::tree::Id;
use super::Parser;

/// The levels that generic arguments reach into contexts of contexts.
const MAX_CONTEXTS: usize = 128;

impl Parser<'_> {
    fn builtin(&mut self, name: &str) -> Option<Id> {
        let inner = self.tree.text(Kind::Builtin, name)?;
        self.wrap(inner)
    }

    fn builtin_size(&mut self) -> Option<i64> {
        let size = self.index()? - 1;
        (size > 0 && size <= 4096).then_some(size)
    }

    pub(super) fn builtin_type(&mut self) -> Option<Id> {
        let name = match self.take()? {
            b'A' => "Builtin.ImplicitActor",
            b'b' => "Builtin.BridgeObject",
            b'B' => "Builtin.UnsafeValueBuffer",
            b'c' => "Builtin.RawUnsafeContinuation",
            b'D' => "Builtin.DefaultActorStorage",
            b'd' => "Builtin.NonDefaultDistributedActorStorage",
            b'e' => "Builtin.Executor",
            b'I' => "Builtin.IntLiteral",
            b'j' => "Builtin.Job",
            b'O' => "Builtin.UnknownObject",
            b'o' => "Builtin.NativeObject",
            b'P' => "Builtin.PackIndex",
            b'p' => "Builtin.RawPointer",
            b't' => "Builtin.SILToken",
            b'w' => "Builtin.Word",
            b'f' => {
                let size = self.builtin_size()?;
                return self.builtin(&format!("Builtin.FPIEEE{size}"));
            }
            b'i' => {
                let size = self.builtin_size()?;
                return self.builtin(&format!("Builtin.Int{size}"));
            }
            b'v' => return self.builtin_vector(),
            b'V' => {
                let element = self.pop_type()?;
                let size = self.pop_type()?;
                return self.typed(
                    Kind::Words(true, &["Builtin.FixedArray<", ", ", ">"]),
                    &[size, element],
                );
            }
            b'T' => {
                let inner = self.tree.word(Kind::BuiltinTuple, "Builtin.TheTupleType")?;
                return self.wrap(inner);
            }
            _ => return None,
        };
        let inner = self.tree.word(Kind::Builtin, name)?;
        self.wrap(inner)
    }

    fn builtin_vector(&mut self) -> Option<Id> {
        let elements = self.builtin_size()?;
        let element = self.pop_inner_type()?;
        if self.tree.kind(element) != Kind::Builtin {
            return None;
        }
        let name = format!(
            "Builtin.Vec{elements}x{}",
            self.tree.text_of(element).strip_prefix("Builtin.")?
        );
        self.builtin(&name)
    }

    pub(super) fn integer_type(&mut self) -> Option<Id> {
        let is_negative = self.eat(b'n');
        let number = self.index()?;
        let inner = self
            .tree
            .number(Kind::Integer, if is_negative { -number } else { number })?;
        self.wrap(inner)
    }

    pub(super) fn tuple(&mut self) -> Option<Id> {
        let elements = self.pop_list(|parser| {
            let variadic = parser.pop_kind(Kind::Variadic);
            let name = match parser.pop_kind(Kind::Identifier) {
                Some(name) => Some(parser.tree.renamed(name, Kind::TupleName)?),
                None => None,
            };
            let inner = parser.pop_type()?;
            let children: Vec<Id> = variadic.into_iter().chain(name).chain([inner]).collect();
            parser.tree.node(Kind::TupleElement, &children)
        })?;
        self.typed(Kind::Tuple, &elements)
    }

    pub(super) fn pop_type_list(&mut self) -> Option<Id> {
        let types = self.pop_list(Self::pop_type)?;
        self.tree.node(Kind::TypeList, &types)
    }

    /// Lists of generic arguments, the innermost first, and how they conform to what elsewhere says.
    pub(super) fn pop_generic_arguments(&mut self) -> Option<(Vec<Id>, Option<Id>)> {
        let conformances = self.pop_retroactive_conformances()?;
        let mut lists = Vec::new();
        loop {
            let mut types = Vec::new();
            while let Some(argument) = self.pop_type() {
                types.push(argument);
            }
            types.reverse();
            lists.push(self.tree.node(Kind::TypeList, &types)?);
            if self.pop_kind(Kind::EmptyList).is_some() {
                return Some((lists, conformances));
            }
            self.pop_kind(Kind::FirstElement)?;
        }
    }

    pub(super) fn bound_generic_type(&mut self) -> Option<Id> {
        let (lists, conformances) = self.pop_generic_arguments()?;
        let nominal = self.pop_inner_type()?;
        if !self.tree.kind(nominal).is_nominal() {
            return None;
        }
        let mut bound = self.bind(nominal, &lists, 0)?;
        if let Some(conformances) = conformances {
            bound = self.tree.with_child(bound, conformances)?;
        }
        let outer = self.wrap(bound)?;
        self.repeatable(outer)
    }

    /// Gives a type and what it is within their generic arguments.
    fn bind(&mut self, nominal: Id, lists: &[Id], depth: usize) -> Option<Id> {
        if depth >= MAX_CONTEXTS {
            return None;
        }
        let (&arguments, outer) = lists.split_first()?;
        let kind = self.tree.kind(nominal);
        let takes = takes_arguments(kind);
        let rest = if takes { outer } else { lists };
        let mut nominal = nominal;
        let context = self.tree.child(nominal, 0)?;
        if !rest.is_empty() {
            let parent = self.bind_context(context, rest, depth)?;
            let mut children = self.tree.children(nominal).to_vec();
            children[0] = parent;
            nominal = self.tree.node(kind, &children)?;
        }
        if !takes || self.tree.children(arguments).is_empty() {
            return Some(nominal);
        }
        match kind {
            Kind::Nominal(kind) => {
                let inner = self.wrap(nominal)?;
                self.tree
                    .node(Kind::BoundGeneric(kind), &[inner, arguments])
            }
            Kind::Function | Kind::Constructor => self
                .tree
                .node(Kind::BoundGenericFunction, &[nominal, arguments]),
            _ => None,
        }
    }

    fn bind_context(&mut self, context: Id, lists: &[Id], depth: usize) -> Option<Id> {
        if self.tree.kind(context) != Kind::Extension {
            return self.bind(context, lists, depth + 1);
        }
        let mut children = self.tree.children(context).to_vec();
        let extended = *children.get(1)?;
        children[1] = self.bind(extended, lists, depth + 1)?;
        self.tree.node(Kind::Extension, &children)
    }

    pub(super) fn special_type(&mut self) -> Option<Id> {
        let letter = self.take()?;
        match letter {
            b'E' => self.function_type(Kind::FunctionType(Convention::NoEscape), false),
            b'A' | b'K' => self.function_type(Kind::FunctionType(Convention::AutoClosure), false),
            b'f' => self.function_type(Kind::FunctionType(Convention::Thin), false),
            b'U' => self.function_type(Kind::FunctionType(Convention::Uncurried), false),
            b'L' => self.function_type(Kind::FunctionType(Convention::EscapingBlock), false),
            b'B' => self.function_type(Kind::FunctionType(Convention::Block), false),
            b'C' => self.function_type(Kind::FunctionType(Convention::C), false),
            b'z' => match self.take()? {
                b'B' => self.function_type(Kind::FunctionType(Convention::Block), true),
                b'C' => self.function_type(Kind::FunctionType(Convention::C), true),
                _ => None,
            },
            b'g' | b'G' => {
                let subject = self.pop_type()?;
                if letter == b'G' {
                    self.pop_signature();
                }
                self.symbol(&["existential shape for "], &[subject])
            }
            b'o' => self.outer_type_in_words(&["unowned "]),
            b'u' => self.outer_type_in_words(&["unowned(unsafe) "]),
            b'w' => self.outer_type_in_words(&["weak "]),
            b'b' => {
                let inner = self.pop_type()?;
                self.typed(Kind::Words(true, &["@box "]), &[inner])
            }
            b'D' => {
                let inner = self.pop_type()?;
                self.typed(Kind::SelfType, &[inner])
            }
            b'M' => self.represented_metatype(Kind::Metatype),
            b'm' => self.represented_metatype(Kind::ExistentialMetatype),
            b'P' => self.constrained_existential(),
            b'p' => {
                let inner = self.pop_type()?;
                self.typed(Kind::ExistentialMetatype, &[inner])
            }
            b'c' => {
                let superclass = self.pop_type()?;
                let protocols = self.protocol_list()?;
                self.typed(Kind::ProtocolsWithClass, &[protocols, superclass])
            }
            b'l' => {
                let protocols = self.protocol_list()?;
                self.typed(Kind::ProtocolsWithAnyObject, &[protocols])
            }
            b'X' => self.box_type(true),
            b'x' => self.box_type(false),
            b'Y' => self.nominal(Nominal::Other),
            b'Z' => {
                let types = self.pop_type_list()?;
                let name = self.pop_kind(Kind::Identifier)?;
                let parent = self.pop_context()?;
                self.tree
                    .node(Kind::AnonymousContext, &[parent, name, types])
            }
            b'e' => self.typed(Kind::Words(true, &["<ERROR TYPE>"]), &[]),
            b'S' => self.sugared_type(),
            _ => None,
        }
    }

    fn outer_type_in_words(&mut self, words: super::Phrase) -> Option<Id> {
        let inner = self.pop_type()?;
        self.typed(Kind::Words(false, words), &[inner])
    }

    fn sugared_type(&mut self) -> Option<Id> {
        let letter = self.take()?;
        let inner = self.pop_type()?;
        match letter {
            b'q' => self.typed(Kind::Optional, &[inner]),
            b'a' => self.typed(Kind::Words(true, &["[", "]"]), &[inner]),
            b'p' => self.typed(Kind::Words(true, &["(", ")"]), &[inner]),
            b'A' => {
                let count = self.pop_type()?;
                self.typed(Kind::Words(true, &["[", " of ", "]"]), &[count, inner])
            }
            b'D' => {
                let key = self.pop_type()?;
                self.typed(Kind::Words(true, &["[", " : ", "]"]), &[key, inner])
            }
            _ => None,
        }
    }

    fn represented_metatype(&mut self, kind: Kind) -> Option<Id> {
        let words = match self.take()? {
            b't' => "@thin",
            b'T' => "@thick",
            b'o' => "@objc_metatype",
            _ => return None,
        };
        let representation = self.tree.word(Kind::ImplText, words)?;
        let inner = self.pop_type()?;
        self.typed(kind, &[representation, inner])
    }

    fn constrained_existential(&mut self) -> Option<Id> {
        let requirements = self.pop_items(|parser| parser.pop_if(Kind::is_requirement))?;
        let list = self.tree.node(Kind::Joined("", ", ", ""), &requirements)?;
        let base = self.pop_type()?;
        self.typed(Kind::Words(false, &["any ", "<", ">"]), &[base, list])
    }

    fn box_type(&mut self, is_generic: bool) -> Option<Id> {
        let generics = if is_generic {
            let signature = self.pop_signature()?;
            Some([signature, self.pop_type_list()?])
        } else {
            None
        };
        let mut fields = self.pop_list(Self::pop_type)?;
        for field in &mut fields {
            let inner = self.tree.child(*field, 0)?;
            *field = match self.tree.kind(inner) {
                Kind::Words(false, &["inout "]) => {
                    let field = self.tree.child(inner, 0)?;
                    self.tree.node(Kind::Words(false, &["var "]), &[field])?
                }
                _ => self.tree.node(Kind::Words(false, &["let "]), &[inner])?,
            };
        }
        let layout = self.tree.node(Kind::BoxLayout, &fields)?;
        let children: Vec<Id> = [layout]
            .into_iter()
            .chain(generics.into_iter().flatten())
            .collect();
        self.typed(Kind::BoxWithLayout, &children)
    }

    pub(super) fn protocol_list(&mut self) -> Option<Id> {
        let protocols = self.pop_list(Self::pop_protocol)?;
        let list = self.tree.node(Kind::TypeList, &protocols)?;
        self.tree.node(Kind::ProtocolList, &[list])
    }

    fn pack(&mut self, words: [&'static str; 3]) -> Option<Id> {
        let types = self.pop_list(Self::pop_type)?;
        self.typed(Kind::Joined(words[0], words[1], words[2]), &types)
    }

    pub(super) fn archetype(&mut self) -> Option<Id> {
        match self.take()? {
            b'a' => {
                let name = self.pop_kind(Kind::Identifier)?;
                let base = self.pop_inner_type()?;
                let node = self.typed(Kind::AssociatedRef, &[base, name])?;
                self.repeatable(node)
            }
            b'O' => {
                let context = self.pop_context()?;
                self.tree.node(Kind::OpaqueReturnOf, &[context])
            }
            b'o' => self.opaque_type(),
            b'r' => self.typed(Kind::Words(false, &["some"]), &[]),
            b'R' => {
                self.index()?;
                self.typed(Kind::Words(false, &["some"]), &[])
            }
            b'x' => self.member(None, false),
            b'X' => self.member(None, true),
            b'y' => self.member_of_parameter(false),
            b'Y' => self.member_of_parameter(true),
            b'z' => self.member_of_first(false),
            b'Z' => self.member_of_first(true),
            b'p' => {
                let _count = self.pop_inner_type()?;
                self.type_in_words(&["repeat "])
            }
            b'e' => {
                let inner = self.pop_inner_type()?;
                let level = self.index()?;
                let level = self.tree.number(Kind::Number, level)?;
                self.typed(
                    Kind::Words(false, &["/* level: ", " */ each "]),
                    &[level, inner],
                )
            }
            b'P' => self.pack(["Pack{", ", ", "}"]),
            b'S' => match self.take()? {
                b'd' => self.pack(["@direct Pack{", ", ", "}"]),
                b'i' => self.pack(["@indirect Pack{", ", ", "}"]),
                _ => None,
            },
            _ => None,
        }
    }

    fn opaque_type(&mut self) -> Option<Id> {
        let index = self.index()?;
        self.pop_generic_arguments()?;
        let name = self.pop()?;
        let index = self.tree.number(Kind::Number, index)?;
        let node = self.typed(Kind::Words(false, &["", "."]), &[name, index])?;
        self.repeatable(node)
    }
}

/// Returns true for what can be generic itself.
fn takes_arguments(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::Variable
            | Kind::Subscript
            | Kind::ImplicitClosure
            | Kind::ExplicitClosure
            | Kind::DefaultArgument
            | Kind::Initializer(_)
            | Kind::Static
    )
}
