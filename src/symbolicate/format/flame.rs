//! Merges stacks into the tree of a flame graph, the outermost frame first. Start-up code, runtimes and recursion are
//! folded.

use rustc_hash::FxHashMap;

use super::Style;
use super::stacks::outermost;
use crate::symbolicate::blame::{Owner, owner};
use crate::symbolicate::frame::{Stack, Symbolicated};

/// Most boxes on top of each other: browsers nest no deeper than some hundreds.
const MAX_DEPTH: usize = 200;
/// The fewest frames of a runtime in a row that are one box.
const MIN_RUNTIME: usize = 2;

/// Whose code a box is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoxKind {
    App,
    Library,
    System,
}

impl BoxKind {
    /// Its class in a style sheet, and its words in a legend.
    pub fn class_and_label(self) -> (&'static str, &'static str) {
        match self {
            BoxKind::App => ("own", "the app"),
            BoxKind::Library => ("lib", "libraries"),
            BoxKind::System => ("sys", "the language and the system"),
        }
    }

    pub const ALL: [BoxKind; 3] = [BoxKind::App, BoxKind::Library, BoxKind::System];
}

/// A stack as a picture has it, outermost first.
pub(super) type NamedStack = Vec<(String, BoxKind)>;

/// The fewest repeats of a cycle that are folded. The first repeat is shown. One box stands for the others.
const MIN_REPEATS: usize = 3;
/// Most functions of a cycle.
const MAX_CYCLE: usize = 8;

/// Names a stack. A run of system frames with app frames further in becomes one box. It is named `start-up` if it is
/// outermost, else `runtime`.
pub(super) fn named_stack(of: &Symbolicated, stack: &Stack, style: &Style) -> NamedStack {
    let frames = outermost(of, stack, style);
    let frames: NamedStack = frames
        .map(|(name, frame, physical)| {
            let kind = match owner(of, physical, frame) {
                Owner::App => BoxKind::App,
                Owner::Library => BoxKind::Library,
                _ => BoxKind::System,
            };
            (name, kind)
        })
        .collect();
    let last = frames.iter().rposition(|(_, kind)| *kind == BoxKind::App);
    let mut named = NamedStack::new();
    let mut rest = &frames[..];
    while let Some((_, kind)) = rest.first() {
        let same = rest.iter().take_while(|(_, other)| other == kind).count();
        let (run, behind) = rest.split_at(same);
        let at = frames.len() - rest.len();
        let is_runtime = *kind == BoxKind::System && run.len() >= MIN_RUNTIME && last > Some(at);
        match (is_runtime, at) {
            (true, 0) => named.push(("start-up".to_owned(), *kind)),
            (true, _) => named.push(("runtime".to_owned(), *kind)),
            (false, _) => named.extend_from_slice(run),
        }
        rest = behind;
    }
    without_recursion(&named)
}

/// Folds recursion: the repeats of a cycle after the first become one box, the same for every depth.
fn without_recursion(stack: &[(String, BoxKind)]) -> NamedStack {
    let mut boxes = NamedStack::new();
    let mut rest = stack;
    while let Some(first) = rest.first() {
        let rounds = |length: usize| {
            let all = rest.chunks_exact(length);
            all.take_while(|round| *round == &rest[..length]).count()
        };
        let lengths = 1..=MAX_CYCLE.min(rest.len());
        let Some(length) = { lengths }.find(|length| rounds(*length) >= MIN_REPEATS) else {
            boxes.push(first.clone());
            rest = &rest[1..];
            continue;
        };
        let round = &rest[..length];
        let names: Vec<&str> = round.iter().map(|(name, _)| name.as_str()).collect();
        boxes.extend_from_slice(round);
        boxes.push((format!("{}, recursion", names.join(", ")), first.1));
        rest = &rest[length * rounds(length)..];
    }
    boxes
}

/// A box, and those of its callees.
#[derive(Debug, Default)]
pub(super) struct FlameNode {
    pub name: String,
    pub kind: Option<BoxKind>,
    pub weight: u64,
    pub callees: Vec<FlameNode>,
    /// Indices in `callees`, by name.
    index: FxHashMap<String, usize>,
}

impl FlameNode {
    /// Counts a stack so many times.
    pub fn add(&mut self, stack: &NamedStack, count: u64) {
        self.weight = self.weight.saturating_add(count);
        let mut node = self;
        for (name, kind) in stack.iter().take(MAX_DEPTH) {
            let callees = &mut node.callees;
            let at = *node.index.entry(name.clone()).or_insert_with_key(|name| {
                callees.push(FlameNode {
                    name: name.clone(),
                    kind: Some(*kind),
                    ..FlameNode::default()
                });
                callees.len() - 1
            });
            node = &mut callees[at];
            node.weight = node.weight.saturating_add(count);
        }
    }

    /// The class of its box.
    pub fn class(&self) -> &'static str {
        self.kind.map_or("sys", |kind| kind.class_and_label().0)
    }

    /// Its share of `total`.
    pub fn share(&self, total: u64) -> f64 {
        self.weight as f64 / total.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_a_recursion_are_one_box() {
        let folded = |names: &str| {
            let stack = names.split(' ').map(|name| (name.to_owned(), BoxKind::App));
            let boxes = without_recursion(&stack.collect::<NamedStack>());
            let names: Vec<String> = boxes.into_iter().map(|(name, _)| name).collect();
            names.join(" | ")
        };
        assert_eq!(folded("main a b b c"), "main | a | b | b | c");
        assert_eq!(folded("main a a a a"), "main | a | a, recursion");
        let (deep, deeper) = ("main a b a b a b a c", "main a b a b a b a b a b a c");
        assert_eq!(folded(deep), "main | a | b | a, b, recursion | a | c");
        assert_eq!(folded(deep), folded(deeper));
        assert_eq!(folded("main a b a b"), "main | a | b | a | b");
    }
}
