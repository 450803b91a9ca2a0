//! The kinds of nodes of a parsed name.

/// Text before, between and after a node's children, in this order.
pub(super) type Phrase = &'static [&'static str];

/// A nominal type, or an alias of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Nominal {
    Class,
    Structure,
    Enum,
    Protocol,
    Alias,
    Other,
}

/// A proof that a type conforms to a protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Conformance {
    Concrete,
    Pack,
    Dependent,
    Opaque,
}

/// The convention of a function type; decides the attribute before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Convention {
    Plain,
    NoEscape,
    Uncurried,
    AutoClosure,
    Thin,
    C,
    Block,
    EscapingBlock,
}

/// The isolation of a function type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Isolation {
    Any,
    Caller,
    GlobalActor,
}

/// Code that the compiler makes and that leads to a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Thunk {
    /// It has the name of the function that it leads to.
    Of,
    /// Arguments are converted; no name says to which function it leads.
    Reabstraction,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Global,
    Suffix,
    /// Wraps a type; operators find types on the stack by it.
    Type,
    TypeList,
    LabelList,
    EmptyList,
    FirstElement,
    Variadic,

    Identifier,
    Module,
    Number,
    UnknownIndex,
    /// An operator's text; the word is its place.
    Operator(&'static str),
    PrivateName,
    LocalName,
    RelatedName,

    Nominal(Nominal),
    BoundGeneric(Nominal),
    BoundGenericFunction,
    Extension,
    AnonymousContext,
    BuiltinTuple,
    OpaqueReturnOf,

    Function,
    Variable,
    Subscript,
    Static,
    Macro,
    GenericParameterDeclaration,
    Accessor(&'static str),
    Allocator,
    Constructor,
    Destructor,
    Deallocator,
    IsolatedDeallocator,
    /// A function without a type that the compiler makes for a class's variables.
    ClassVariables(&'static str),
    /// The code of an initial value, `… of` a variable.
    Initializer(&'static str),
    DefaultArgument,
    ExplicitClosure,
    ImplicitClosure,
    AttachedMacro(&'static str),
    FreestandingMacro,
    MacroUniqueName,
    MacroLocation,

    /// A phrase about a symbol that is no function a developer wrote.
    Symbol(Phrase),
    /// As `Symbol`, of a list whose words do not depend on the number of children.
    Joined(&'static str, &'static str, &'static str),
    /// A phrase that leads to a function: that of the last child.
    Thunk(Thunk, Phrase),
    /// Children: the requirement, the conformance.
    ProtocolWitness,
    AutoDiff(&'static str),
    AutoDiffMode,
    AutoDiffSubset,
    IndexSubset,
    /// Code of a property that a key path names; the first child is it.
    KeyPath(&'static str),
    /// The same of a key path's indices.
    KeyPathIndex(&'static str),
    TypeMangling,

    /// Words before a function's name.
    Attribute(&'static str),
    Outlined(&'static str),
    BridgedMethod,
    Specialization,
    PartialApply,
    AsyncPart,

    FunctionType(Convention),
    Sending,
    Isolation(Isolation),
    Differentiable,
    Throws,
    Sendable,
    Async,
    Arguments,
    Result,

    ImplFunction,
    ImplText,
    ImplParameter,
    ImplResult(&'static str),
    ImplSubstitution(&'static str),

    Tuple,
    TupleElement,
    TupleName,
    Optional,
    /// A type in words; the flag: needs no parentheses before `?`.
    Words(bool, Phrase),
    Builtin,
    Integer,
    Metatype,
    ExistentialMetatype,
    ProtocolList,
    ProtocolsWithClass,
    ProtocolsWithAnyObject,
    SelfType,
    GenericParameter,
    DependentGeneric,
    DependentMember,
    AssociatedRef,
    Signature,
    ParameterCount,
    Requirement(Phrase),
    PackMarker,
    ValueMarker,
    BoxLayout,
    BoxWithLayout,

    Conformance(Conformance, Phrase),
    ConformanceRef(Phrase),
    ConformanceOfType,
    Retroactive,
}

impl Kind {
    /// Returns true for the name of a declaration.
    pub(super) fn is_name(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Identifier | LocalName | PrivateName | RelatedName | Operator(_)
        )
    }

    /// Returns true for what a declaration can be within.
    pub(super) fn is_context(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Allocator
                | AnonymousContext
                | Nominal(_)
                | Constructor
                | Deallocator
                | DefaultArgument
                | Destructor
                | Accessor(_)
                | ExplicitClosure
                | ImplicitClosure
                | Extension
                | Function
                | ClassVariables(_)
                | Initializer(_)
                | IsolatedDeallocator
                | Module
                | Static
                | Subscript
                | Variable
                | OpaqueReturnOf
                | AutoDiff("")
                | BuiltinTuple
        )
    }

    /// Returns true for what thunks and the like can be about.
    pub(super) fn is_entity(self) -> bool {
        self == Kind::Type || self.is_context()
    }

    pub(super) fn is_nominal(self) -> bool {
        matches!(self, Kind::Nominal(_) | Kind::BuiltinTuple)
    }

    pub(super) fn is_requirement(self) -> bool {
        use Kind::*;
        matches!(self, Requirement(_) | PackMarker | ValueMarker)
    }

    /// Returns true for what is mangled after a function and printed before it.
    pub(super) fn is_function_attribute(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Attribute(_) | Outlined(_) | BridgedMethod | Specialization | PartialApply | AsyncPart
        )
    }

    pub(super) fn is_macro_expansion(self) -> bool {
        use Kind::*;
        match self {
            AttachedMacro(role) => role != "body" && role != "preamble",
            FreestandingMacro | MacroLocation => true,
            _ => false,
        }
    }
}
