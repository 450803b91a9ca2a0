//! The summary of a parsed name: its module, and the function of which its code is a version or a part.

use super::kind::{Kind, Thunk};
use super::print;
use super::tree::{Id, Tree};

/// Most levels of a name's tree that are followed.
const MAX_DEPTH: usize = 384;

/// The kind of code that a name is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// A function, accessor or initializer.
    Function,
    /// A closure, and a closure within one.
    Closure,
    /// Code and data that the compiler makes, of no function: metadata, witness tables, outlined copies,
    /// reabstraction thunks.
    #[default]
    Glue,
}

/// The summary of a parsed name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The kind of the innermost function that the name leads to.
    pub role: Role,
    /// The module that the function was written in: for a method of an extension the extension's, for a protocol
    /// witness the conformance's.
    pub module: Option<String>,
    /// The function, in the simplified form. Specializations, merged versions, thunks and parts of an async function
    /// have the text of their function. Closures of one function have the same text.
    pub function: Option<String>,
    /// True if the compiler made a version for certain types or arguments.
    pub is_specialized: bool,
    /// True for code into which the compiler merged several functions: the name is of one of these.
    pub is_merged: bool,
    /// True for code that does nothing but lead to the function.
    pub is_thunk: bool,
    /// True for the part of an async function after an `await`.
    pub is_async_part: bool,
}

/// The summary of a whole name.
pub(super) fn summary(tree: &Tree, root: Id) -> Summary {
    let mut found = Summary::default();
    let Some(subject) = subject(tree, root, &mut found) else {
        return found;
    };
    found.role = role(tree, subject);
    found.module = module(tree, subject).map(str::to_owned);
    if found.role != Role::Glue {
        found.function = match tree.kind(subject) {
            Kind::ProtocolWitness => witness(tree, subject),
            _ => unnumbered(tree, subject),
        };
    }
    found
}

/// Returns the declaration that a name leads to, without the prefixes and thunks around it.
fn subject(tree: &Tree, root: Id, found: &mut Summary) -> Option<Id> {
    let mut id = root;
    for _ in 0..MAX_DEPTH {
        id = match tree.kind(id) {
            Kind::Global | Kind::PartialApply => {
                found.is_thunk |= tree.kind(id) == Kind::PartialApply;
                let children = tree.children(id);
                for child in children {
                    match tree.kind(*child) {
                        Kind::Specialization => found.is_specialized = true,
                        Kind::AsyncPart => found.is_async_part = true,
                        Kind::Attribute(words) => {
                            found.is_thunk |= words.starts_with('@');
                            found.is_merged |= words == "merged ";
                        }
                        // Data, though it has a function's name.
                        Kind::Outlined(_) | Kind::BridgedMethod => return None,
                        _ => (),
                    }
                }
                let is_subject = |id: &Id| {
                    let kind = tree.kind(*id);
                    kind != Kind::Suffix
                        && (kind == Kind::PartialApply || !kind.is_function_attribute())
                };
                children.iter().copied().rfind(is_subject)?
            }
            Kind::Thunk(Thunk::Of, _) => {
                found.is_thunk = true;
                tree.children(id).last().copied()?
            }
            Kind::ProtocolWitness => {
                found.is_thunk = true;
                return Some(id);
            }
            Kind::KeyPath(_) => {
                found.is_thunk = true;
                tree.child(id, 0)?
            }
            _ => return Some(id),
        };
    }
    None
}

fn role(tree: &Tree, id: Id) -> Role {
    let id = match tree.kind(id) {
        Kind::Static | Kind::ProtocolWitness => tree.child(id, 0).unwrap_or(id),
        _ => id,
    };
    match tree.kind(id) {
        Kind::ExplicitClosure | Kind::ImplicitClosure => Role::Closure,
        Kind::Function
        | Kind::Static
        | Kind::Subscript
        | Kind::Variable
        | Kind::Accessor(_)
        | Kind::Allocator
        | Kind::Constructor
        | Kind::Destructor
        | Kind::Deallocator
        | Kind::IsolatedDeallocator
        | Kind::ClassVariables(_)
        | Kind::Initializer(_)
        | Kind::DefaultArgument
        | Kind::Macro
        | Kind::AttachedMacro(_)
        | Kind::FreestandingMacro
        | Kind::BoundGenericFunction => Role::Function,
        _ => Role::Glue,
    }
}

/// Returns the text of a function; that of a closure without its number.
fn unnumbered(tree: &Tree, subject: Id) -> Option<String> {
    let mut id = subject;
    let mut text = String::new();
    for _ in 0..MAX_DEPTH {
        text.push_str(match tree.kind(id) {
            Kind::ExplicitClosure => "closure in ",
            Kind::ImplicitClosure => "implicit closure in ",
            _ => return Some(text + &print::text(tree, id)?),
        });
        id = tree.child(id, 0)?;
    }
    None
}

/// The module that a declaration is in.
fn module(tree: &Tree, subject: Id) -> Option<&str> {
    let mut id = subject;
    for _ in 0..MAX_DEPTH {
        id = match tree.kind(id) {
            Kind::Module => return Some(tree.text_of(id)),
            Kind::ProtocolWitness => tree.child(id, 1)?,
            Kind::ConformanceOfType => tree.child(id, 2)?,
            // The location of a macro has its module as text.
            Kind::MacroLocation => return tree.child(id, 0).map(|module| tree.text_of(module)),
            _ => tree.child(id, 0)?,
        };
    }
    None
}

/// Returns the function that most likely fulfils a requirement: that of the conforming type.
fn witness(tree: &Tree, id: Id) -> Option<String> {
    let requirement = tree.child(id, 0)?;
    let conformance = tree.child(id, 1)?;
    let text = print::text(tree, requirement)?;
    let protocol = print::text(
        tree,
        innermost(tree, requirement, |kind| matches!(kind, Kind::Nominal(_)))?,
    )?;
    let conforming = innermost(tree, tree.child(conformance, 0)?, |kind| {
        matches!(kind, Kind::Nominal(_))
    })?;
    let conforming = print::text(tree, conforming)?;
    Some(text.replacen(&format!("{protocol}."), &format!("{conforming}."), 1))
}

/// Returns the first node that `is_it` accepts, from `id` inwards.
fn innermost(tree: &Tree, id: Id, is_it: impl Fn(Kind) -> bool) -> Option<Id> {
    let mut id = id;
    for _ in 0..MAX_DEPTH {
        let kind = tree.kind(id);
        if is_it(kind) {
            return Some(id);
        }
        // Of a generic type the type is after its signature.
        id = tree.child(
            id,
            usize::from(matches!(kind, Kind::DependentGeneric | Kind::Extension)),
        )?;
    }
    None
}

/// The name of a declaration alone, without what it is within: `init`, `add`, `total`.
pub(super) fn base_name(tree: &Tree, root: Id) -> Option<&str> {
    let mut unused = Summary::default();
    let mut id = subject(tree, root, &mut unused)?;
    for _ in 0..MAX_DEPTH {
        id = match tree.kind(id) {
            Kind::Identifier | Kind::Operator(_) => return Some(tree.text_of(id)),
            Kind::PrivateName
            | Kind::LocalName
            | Kind::Function
            | Kind::Variable
            | Kind::Nominal(_) => tree.child(id, 1)?,
            Kind::Subscript => return Some("subscript"),
            Kind::Allocator | Kind::Constructor => return Some("init"),
            Kind::Destructor | Kind::Deallocator | Kind::IsolatedDeallocator => {
                return Some("deinit");
            }
            Kind::Static | Kind::Accessor(_) | Kind::ProtocolWitness => tree.child(id, 0)?,
            _ => return None,
        };
    }
    None
}
