//! Declarations: functions, variables and their accessors, initializers, closures, macros.

use super::super::kind::{Convention, Kind};
use super::super::tree::Id;
use super::Parser;

impl Parser<'_> {
    pub(super) fn plain_function(&mut self) -> Option<Id> {
        let signature = self.pop_signature();
        let function = self.function_type(Kind::FunctionType(Convention::Plain), false)?;
        let labels = self.pop_labels(Some(function));
        let kind = match signature {
            Some(signature) => self.typed(Kind::DependentGeneric, &[signature, function])?,
            None => function,
        };
        let name = self.pop_if(Kind::is_name)?;
        let context = self.pop_context()?;
        self.declaration(Kind::Function, context, name, labels, kind)
    }

    fn declaration(
        &mut self,
        kind: Kind,
        context: Id,
        name: Id,
        labels: Option<Id>,
        of: Id,
    ) -> Option<Id> {
        match labels {
            Some(labels) => self.tree.node(kind, &[context, name, labels, of]),
            None => self.tree.node(kind, &[context, name, of]),
        }
    }

    /// A declaration of any type.
    fn entity(&mut self, kind: Kind) -> Option<Id> {
        let of = self.pop_type();
        let labels = self.pop_labels(of);
        let name = self.pop_if(Kind::is_name)?;
        let context = self.pop_context()?;
        self.declaration(kind, context, name, labels, of?)
    }

    pub(super) fn variable(&mut self) -> Option<Id> {
        let variable = self.entity(Kind::Variable)?;
        self.accessor(variable)
    }

    pub(super) fn subscript(&mut self) -> Option<Id> {
        let name = self.pop_kind(Kind::PrivateName);
        let of = self.pop_type();
        let labels = self.pop_labels(of);
        let context = self.pop_context()?;
        let children: Vec<Id> = [context]
            .into_iter()
            .chain(labels)
            .chain([of?])
            .chain(name)
            .collect();
        let subscript = self.tree.node(Kind::Subscript, &children)?;
        self.accessor(subscript)
    }

    /// The code that a letter names of a variable or subscript, or the declaration itself.
    fn accessor(&mut self, storage: Id) -> Option<Id> {
        let words = match self.take()? {
            b'p' => return Some(storage),
            b'm' => "materializeForSet",
            b's' => "setter",
            b'g' | b'G' => "getter",
            b'w' => "willset",
            b'W' => "didset",
            b'r' => "read",
            b'y' => "read2",
            b'M' => "modify",
            b'x' => "modify2",
            b'i' => "init",
            b'b' => "borrow",
            b'z' => "mutate",
            b'a' => match self.take()? {
                b'O' => "owningMutableAddressor",
                b'o' => "nativeOwningMutableAddressor",
                b'P' => "nativePinningMutableAddressor",
                b'u' => "unsafeMutableAddressor",
                _ => return None,
            },
            b'l' => match self.take()? {
                b'O' => "owningAddressor",
                b'o' => "nativeOwningAddressor",
                b'p' => "nativePinningAddressor",
                b'u' => "unsafeAddressor",
                _ => return None,
            },
            _ => return None,
        };
        self.tree.node(Kind::Accessor(words), &[storage])
    }

    pub(super) fn function_entity(&mut self) -> Option<Id> {
        match self.take()? {
            b'D' => self.of_context(Kind::Deallocator),
            b'd' => self.of_context(Kind::Destructor),
            b'Z' => self.of_context(Kind::IsolatedDeallocator),
            b'E' => self.of_context(Kind::ClassVariables("__ivar_destroyer")),
            b'e' => self.of_context(Kind::ClassVariables("__ivar_initializer")),
            b'i' => self.of_context(Kind::Initializer("variable initialization expression")),
            b'P' => self.of_context(Kind::Initializer("property wrapper backing initializer")),
            b'F' => self.of_context(Kind::Initializer("property wrapped field init accessor")),
            b'W' => self.of_context(Kind::Initializer(
                "property wrapper init from projected value",
            )),
            b'C' => self.constructor(Kind::Allocator),
            b'c' => self.constructor(Kind::Constructor),
            b'U' => self.closure(Kind::ExplicitClosure),
            b'u' => self.closure(Kind::ImplicitClosure),
            b'A' => {
                let index = self.index_node()?;
                let context = self.pop_context()?;
                self.tree.node(Kind::DefaultArgument, &[context, index])
            }
            b'm' => self.entity(Kind::Macro),
            b'M' => self.macro_expansion(),
            b'p' => self.entity(Kind::GenericParameterDeclaration),
            _ => None,
        }
    }

    fn of_context(&mut self, kind: Kind) -> Option<Id> {
        let context = self.pop_context()?;
        self.tree.node(kind, &[context])
    }

    fn constructor(&mut self, kind: Kind) -> Option<Id> {
        let name = self.pop_kind(Kind::PrivateName);
        let of = self.pop_type();
        let labels = self.pop_labels(of);
        let context = self.pop_context()?;
        let children: Vec<Id> = [context]
            .into_iter()
            .chain(labels)
            .chain([of?])
            .chain(name)
            .collect();
        self.tree.node(kind, &children)
    }

    fn closure(&mut self, kind: Kind) -> Option<Id> {
        let index = self.index_node()?;
        let of = self.pop_type()?;
        let context = self.pop_context()?;
        self.tree.node(kind, &[context, index, of])
    }

    fn macro_expansion(&mut self) -> Option<Id> {
        let kind = match self.take()? {
            b'a' => Kind::AttachedMacro("accessor"),
            b'r' => Kind::AttachedMacro("memberAttribute"),
            b'm' => Kind::AttachedMacro("member"),
            b'p' => Kind::AttachedMacro("peer"),
            b'c' => Kind::AttachedMacro("conformance"),
            b'e' => Kind::AttachedMacro("extension"),
            b'q' => Kind::AttachedMacro("preamble"),
            b'b' => Kind::AttachedMacro("body"),
            b'f' => Kind::FreestandingMacro,
            b'u' => Kind::MacroUniqueName,
            b'X' => return self.macro_location(),
            _ => return None,
        };
        let macro_name = self.pop_kind(Kind::Identifier)?;
        let private = match kind {
            Kind::FreestandingMacro => self.pop_kind(Kind::PrivateName),
            _ => None,
        };
        let attached = match kind {
            Kind::AttachedMacro(_) => self.pop_if(Kind::is_name),
            _ => None,
        };
        let context = match self.pop_if(Kind::is_macro_expansion) {
            Some(context) => context,
            None => self.pop_context()?,
        };
        let index = self.index_node()?;
        let children: Vec<Id> = [context]
            .into_iter()
            .chain(attached)
            .chain([macro_name, index])
            .chain(private)
            .collect();
        self.tree.node(kind, &children)
    }

    fn macro_location(&mut self) -> Option<Id> {
        let line = self.index_node()?;
        let column = self.index_node()?;
        let file = self.pop_kind(Kind::Identifier)?;
        let module = self.pop_kind(Kind::Identifier)?;
        self.tree
            .node(Kind::MacroLocation, &[module, file, line, column])
    }
}
