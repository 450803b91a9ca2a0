//! The nodes of a name, in one arena that grows with the name alone.

use super::kind::{Kind, Nominal};

/// Nodes, children and pushes that a name of any length may cost, and those for each of its bytes.
const FREE_STEPS: usize = 2048;
const STEPS_PER_BYTE: usize = 3;

/// Bytes of identifiers that a name of any length may spell out, and those for each of its bytes: a name repeats
/// words of its own by a letter.
const FREE_TEXT: usize = 4096;
const TEXT_PER_BYTE: usize = 4;

/// A node of a [`Tree`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Id(u32);

#[derive(Debug, Clone, Copy)]
enum Payload {
    Nothing,
    /// A range of the tree's text.
    Text(u32, u32),
    Word(&'static str),
    Number(i64),
}

#[derive(Debug, Clone)]
struct Node {
    kind: Kind,
    payload: Payload,
    first: u32,
    count: u32,
}

/// Nodes with their children and texts. What is made is never changed: nodes are shared.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    children: Vec<Id>,
    text: String,
    steps: usize,
    text_limit: usize,
    exhausted: bool,
}

impl Tree {
    /// An empty tree for a name of this many bytes.
    pub(super) fn new(length: usize) -> Self {
        Self {
            nodes: Vec::new(),
            children: Vec::new(),
            text: String::new(),
            steps: FREE_STEPS + STEPS_PER_BYTE * length,
            text_limit: FREE_TEXT + TEXT_PER_BYTE * length,
            exhausted: false,
        }
    }

    /// Takes steps off what the name may cost; `None` once they are used up, and ever after.
    pub(super) fn spend(&mut self, steps: usize) -> Option<()> {
        match self.steps.checked_sub(steps) {
            Some(left) if !self.exhausted => self.steps = left,
            _ => self.exhausted = true,
        }
        (!self.exhausted).then_some(())
    }

    /// Returns true if the name cost more than it may.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    fn add(&mut self, kind: Kind, payload: Payload, children: &[Id]) -> Option<Id> {
        self.spend(1 + children.len())?;
        let id = Id(u32::try_from(self.nodes.len()).ok()?);
        let first = u32::try_from(self.children.len()).ok()?;
        self.children.extend_from_slice(children);
        let count = u32::try_from(children.len()).ok()?;
        self.nodes.push(Node {
            kind,
            payload,
            first,
            count,
        });
        Some(id)
    }

    pub(super) fn node(&mut self, kind: Kind, children: &[Id]) -> Option<Id> {
        self.add(kind, Payload::Nothing, children)
    }

    pub(super) fn leaf(&mut self, kind: Kind) -> Option<Id> {
        self.node(kind, &[])
    }

    pub(super) fn number(&mut self, kind: Kind, number: i64) -> Option<Id> {
        self.add(kind, Payload::Number(number), &[])
    }

    pub(super) fn word(&mut self, kind: Kind, word: &'static str) -> Option<Id> {
        self.add(kind, Payload::Word(word), &[])
    }

    pub(super) fn text(&mut self, kind: Kind, text: &str) -> Option<Id> {
        let start = u32::try_from(self.text.len()).ok()?;
        let end = self.text.len() + text.len();
        if end > self.text_limit {
            self.exhausted = true;
            return None;
        }
        self.text.push_str(text);
        self.add(kind, Payload::Text(start, u32::try_from(end).ok()?), &[])
    }

    /// The same node as another kind.
    pub(super) fn renamed(&mut self, id: Id, kind: Kind) -> Option<Id> {
        self.spend(1)?;
        let node = self.nodes.get(id.0 as usize)?;
        let node = Node { kind, ..*node };
        let id = Id(u32::try_from(self.nodes.len()).ok()?);
        self.nodes.push(node);
        Some(id)
    }

    /// The same node with one child more.
    pub(super) fn with_child(&mut self, id: Id, child: Id) -> Option<Id> {
        let kind = self.kind(id);
        let mut children = self.children(id).to_vec();
        children.push(child);
        self.node(kind, &children)
    }

    pub(super) fn kind(&self, id: Id) -> Kind {
        self.nodes[id.0 as usize].kind
    }

    pub(super) fn children(&self, id: Id) -> &[Id] {
        let node = &self.nodes[id.0 as usize];
        let first = node.first as usize;
        &self.children[first..first + node.count as usize]
    }

    pub(super) fn child(&self, id: Id, index: usize) -> Option<Id> {
        self.children(id).get(index).copied()
    }

    /// The first child of a kind.
    pub(super) fn child_of(&self, id: Id, kind: Kind) -> Option<Id> {
        self.children(id)
            .iter()
            .copied()
            .find(|child| self.kind(*child) == kind)
    }

    /// A node's own text; empty if it has none.
    pub(super) fn text_of(&self, id: Id) -> &str {
        match self.nodes[id.0 as usize].payload {
            Payload::Text(start, end) => &self.text[start as usize..end as usize],
            Payload::Word(word) => word,
            Payload::Nothing | Payload::Number(_) => "",
        }
    }

    pub(super) fn number_of(&self, id: Id) -> Option<i64> {
        match self.nodes[id.0 as usize].payload {
            Payload::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns true for a protocol, or a type that is one.
    pub(super) fn is_protocol(&self, id: Id) -> bool {
        let inner = match self.kind(id) {
            Kind::Type => self.child(id, 0),
            _ => Some(id),
        };
        inner.is_some_and(|id| self.kind(id) == Kind::Nominal(Nominal::Protocol))
    }
}
