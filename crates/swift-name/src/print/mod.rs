//! The simplified form: what Xcode, lldb and Apple's crash texts show.

mod entity;
mod functions;
mod types;

use super::kind::{Kind, Phrase};
use super::tree::{Id, Tree};

/// The longest text that a name is printed as. No name of Swift's own libraries needs a tenth of it.
const MAX_OUTPUT: usize = 16 * 1024;

/// The levels to which nodes are printed.
const MAX_DEPTH: usize = 384;

/// Nodes printed: a name can repeat parts that print nothing.
const MAX_STEPS: usize = 1 << 16;

/// A writer of the text of one name. Each step returns `None` once the text is too long or too deep.
pub(super) struct Printer<'t> {
    tree: &'t Tree,
    out: String,
    depth: usize,
    steps: usize,
    is_specialized: bool,
}

/// The text of a node.
pub(super) fn text(tree: &Tree, id: Id) -> Option<String> {
    let mut printer = Printer {
        tree,
        out: String::new(),
        depth: 0,
        steps: 0,
        is_specialized: false,
    };
    printer.print(id)?;
    Some(printer.out)
}

impl Printer<'_> {
    fn put(&mut self, text: &str) -> Option<()> {
        if self.out.len() + text.len() > MAX_OUTPUT {
            return None;
        }
        self.out.push_str(text);
        Some(())
    }

    fn put_number(&mut self, number: i64) -> Option<()> {
        self.put(&number.to_string())
    }

    fn put_own_text(&mut self, id: Id) -> Option<()> {
        let tree = self.tree;
        self.put(tree.text_of(id))
    }

    fn child(&self, id: Id, index: usize) -> Option<Id> {
        self.tree.child(id, index)
    }

    fn print(&mut self, id: Id) -> Option<()> {
        self.print_as(id, false).map(|_| ())
    }

    fn print_child(&mut self, id: Id, index: usize) -> Option<()> {
        let child = self.child(id, index)?;
        self.print(child)
    }

    /// Prints a node; before a `.` and the name of what it contains, returns a context that must come after the
    /// name.
    fn print_as(&mut self, id: Id, is_prefix: bool) -> Option<Option<Id>> {
        self.depth += 1;
        self.steps += 1;
        if self.depth > MAX_DEPTH || self.steps > MAX_STEPS {
            return None;
        }
        let after = match self.print_entity_kind(id, is_prefix)? {
            Some(after) => after,
            None => {
                self.print_other(id)?;
                None
            }
        };
        self.depth -= 1;
        Some(after)
    }

    fn print_all(&mut self, nodes: &[Id], separator: &str) -> Option<()> {
        for (index, node) in nodes.iter().enumerate() {
            if index > 0 {
                self.put(separator)?;
            }
            self.print(*node)?;
        }
        Some(())
    }

    fn print_children(&mut self, id: Id, separator: &str) -> Option<()> {
        let tree = self.tree;
        self.print_all(tree.children(id), separator)
    }

    fn print_phrase(&mut self, id: Id, phrase: Phrase) -> Option<()> {
        let tree = self.tree;
        let children = tree.children(id);
        for index in 0..phrase.len().max(children.len()) {
            if let Some(words) = phrase.get(index) {
                self.put(words)?;
            }
            if let Some(child) = children.get(index) {
                self.print(*child)?;
            }
        }
        Some(())
    }

    fn print_other(&mut self, id: Id) -> Option<()> {
        match self.tree.kind(id) {
            Kind::Global | Kind::TypeList | Kind::Result => self.print_children(id, ""),
            Kind::Suffix
            | Kind::LabelList
            | Kind::AnonymousContext
            | Kind::Module
            | Kind::AsyncPart => Some(()),
            Kind::Identifier
            | Kind::Builtin
            | Kind::BuiltinTuple
            | Kind::ImplText
            | Kind::AutoDiffMode => self.put_own_text(id),
            Kind::Number | Kind::Integer => self.put_number(self.tree.number_of(id)?),
            Kind::UnknownIndex => match self.tree.number_of(id) {
                Some(number) => self.put(&format!("#{number} ")),
                None => Some(()),
            },
            Kind::Operator(place) => {
                self.put_own_text(id)?;
                self.put(place)
            }
            Kind::PrivateName => match self.child(id, 1) {
                Some(name) => self.print(name),
                None => Some(()),
            },
            Kind::LocalName => {
                self.print_child(id, 1)?;
                let number = self.tree.number_of(self.child(id, 0)?)?;
                self.put(&format!(" #{}", number + 1))
            }
            Kind::RelatedName => {
                self.put("related decl '")?;
                self.print_child(id, 0)?;
                self.put("' for ")?;
                self.print_child(id, 1)
            }
            Kind::Symbol(phrase)
            | Kind::Thunk(_, phrase)
            | Kind::Requirement(phrase)
            | Kind::Words(_, phrase) => self.print_phrase(id, phrase),
            Kind::Conformance(_, phrase) | Kind::ConformanceRef(phrase) => {
                self.print_phrase(id, phrase)
            }
            Kind::ProtocolWitness => {
                self.print_phrase(id, &["protocol witness for ", " in conformance "])
            }
            Kind::Joined(before, between, after) => {
                self.put(before)?;
                self.print_children(id, between)?;
                self.put(after)
            }
            Kind::AutoDiff(prefix) => {
                self.put(prefix)?;
                self.print_child(id, 1)?;
                self.put(" of ")?;
                self.print_child(id, 0)
            }
            Kind::AutoDiffSubset => {
                self.print_phrase(id, &["autodiff subset parameters thunk for ", " from "])
            }
            Kind::IndexSubset => self.print_subset(id),
            Kind::KeyPath(words) => {
                self.put(words)?;
                let tree = self.tree;
                let (declaration, types) = tree.children(id).split_first()?;
                self.print(*declaration)?;
                self.put(" : ")?;
                self.print_all(types, "")
            }
            Kind::KeyPathIndex(words) => {
                self.put(words)?;
                self.print_children(id, "")
            }
            Kind::TypeMangling => self.print_type_mangling(id),
            Kind::Attribute(words) => self.put(words),
            Kind::Outlined(words) => {
                let number = self.tree.number_of(id)?;
                self.put(&format!("{words}{number} of "))
            }
            Kind::BridgedMethod => {
                self.put("outlined bridged method (")?;
                self.put_own_text(id)?;
                self.put(") of ")
            }
            Kind::Specialization => {
                let is_first = !std::mem::replace(&mut self.is_specialized, true);
                if is_first {
                    self.put("specialized ")
                } else {
                    Some(())
                }
            }
            Kind::PartialApply => {
                self.put("partial apply")?;
                if self.tree.children(id).is_empty() {
                    return Some(());
                }
                self.put(" for ")?;
                self.print_children(id, "")
            }
            Kind::ConformanceOfType => self.print_conformance(id),
            Kind::Retroactive => self.print_phrase(id, &["retroactive @ "]),
            Kind::MacroLocation => {
                self.print_phrase(id, &["module ", " file ", " line ", " column "])
            }
            Kind::EmptyList => self.put(" empty-list "),
            Kind::FirstElement => self.put(" first-element-marker "),
            Kind::Variadic => self.put(" variadic-marker "),
            _ => self.print_type(id),
        }
    }

    fn print_conformance(&mut self, id: Id) -> Option<()> {
        if self.tree.children(id).len() < 4 {
            return self.print_child(id, 0);
        }
        self.put("property behavior storage of ")?;
        self.print_child(id, 2)?;
        self.put(" in ")?;
        self.print_child(id, 0)?;
        self.put(" : ")?;
        self.print_child(id, 1)
    }

    /// The indices of a set's members.
    fn print_subset(&mut self, id: Id) -> Option<()> {
        let letters = self.tree.text_of(id).bytes().enumerate();
        let members: Vec<String> = letters
            .filter(|(_, letter)| *letter == b'S')
            .map(|(index, _)| index.to_string())
            .collect();
        self.put(&format!("{{{}}}", members.join(", ")))
    }
}
