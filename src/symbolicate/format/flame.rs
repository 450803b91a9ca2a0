//! Stacks merged into a tree of boxes, the outermost frame first. Frames in which programs start and runtimes call are one
//! box.

use rustc_hash::FxHashMap;

use super::Style;
use super::stacks::outermost;
use crate::symbolicate::blame::{Owner, owner};
use crate::symbolicate::frame::{Stack, Symbolicated};

/// Boxes on top of each other: browsers nest no deeper than some hundreds.
const DEEP: usize = 200;
/// Frames of a runtime in a row that are one box.
const RUN: usize = 2;

/// Whose code a box is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoxKind {
    App,
    Library,
    System,
}

impl BoxKind {
    /// Its class in a style sheet, and its words in a legend.
    pub fn words(self) -> (&'static str, &'static str) {
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

/// Frames of one function in a row that are two boxes: the first call, and the others.
const RECURSION: usize = 3;

/// Names a stack. Frames of the language and the system with the app's further in are one: its `start-up`, or a `runtime`
/// that calls the app back.
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
        let is_runtime = *kind == BoxKind::System && run.len() >= RUN && last > Some(at);
        match (is_runtime, at) {
            (true, 0) => named.push(("start-up".to_owned(), *kind)),
            (true, _) => named.push(("runtime".to_owned(), *kind)),
            (false, _) => named.extend_from_slice(run),
        }
        rest = behind;
    }
    without_recursion(named)
}

/// Puts the further calls of a function by itself into one box: the same for every depth.
fn without_recursion(stack: NamedStack) -> NamedStack {
    let runs = stack.chunk_by(|a, b| a == b);
    let boxes = runs.flat_map(|run| {
        let (name, kind) = &run[0];
        let again = (format!("{name}, recursion"), *kind);
        match run.len() < RECURSION {
            true => run.to_vec(),
            false => vec![run[0].clone(), again],
        }
    });
    boxes.collect()
}

/// A box, and those of its callees.
#[derive(Debug, Default)]
pub(super) struct FlameNode {
    pub name: String,
    pub kind: Option<BoxKind>,
    pub weight: u64,
    pub below: Vec<FlameNode>,
    /// Places in `below`, by name.
    places: FxHashMap<String, usize>,
}

impl FlameNode {
    /// Counts a stack so many times.
    pub fn add(&mut self, stack: &NamedStack, count: u64) {
        self.weight = self.weight.saturating_add(count);
        let mut node = self;
        for (name, kind) in stack.iter().take(DEEP) {
            let below = &mut node.below;
            let at = *node.places.entry(name.clone()).or_insert_with_key(|name| {
                below.push(FlameNode {
                    name: name.clone(),
                    kind: Some(*kind),
                    ..FlameNode::default()
                });
                below.len() - 1
            });
            node = &mut below[at];
            node.weight = node.weight.saturating_add(count);
        }
    }

    /// The class of its box.
    pub fn class(&self) -> &'static str {
        self.kind.map_or("sys", |kind| kind.words().0)
    }

    /// Its share of `total`.
    pub fn share(&self, total: u64) -> f64 {
        self.weight as f64 / total.max(1) as f64
    }

    /// Count of the boxes on top of each other below this one.
    pub fn depth(&self) -> usize {
        let below = self.below.iter().map(|node| 1 + node.depth());
        below.max().unwrap_or(0)
    }
}
