//! Trees of frames (`callStackRootFrames`): flattened, and their paths, innermost frame first.

use crate::report::{Value, limits};

use super::super::fields::Fields;
use super::super::values;

/// A node of the tree, flattened: its parent stands before it.
pub(super) struct TreeNode {
    parent: Option<usize>,
    children: usize,
    /// Samples that ended here or deeper.
    count: u64,
    pub pc: u64,
    pub offset: Option<u64>,
    pub id: Vec<u8>,
    pub name: String,
    pub left: Fields,
}

/// The tree without recursion, and its frames without their `subFrames`.
pub(super) fn flatten(roots: Vec<Value>) -> Vec<TreeNode> {
    let mut nodes: Vec<TreeNode> = Vec::new();
    let mut open: Vec<(Option<usize>, Value)> =
        roots.into_iter().rev().map(|v| (None, v)).collect();
    while let Some((parent, value)) = open.pop() {
        let mut left = Fields::of(value);
        let below = left.list("subFrames");
        let at = nodes.len();
        nodes.push(TreeNode {
            parent,
            children: below.len(),
            count: left.unsigned("sampleCount").unwrap_or(1),
            pc: left.unsigned("address").unwrap_or(0),
            offset: left.unsigned("offsetIntoBinaryTextSegment"),
            id: values::id(&left.text("binaryUUID").unwrap_or_default()),
            name: left.text("binaryName").unwrap_or_default(),
            left,
        });
        open.extend(below.into_iter().rev().map(|v| (Some(at), v)));
    }
    nodes
}

/// Every path from the outer object to one without `subFrames`, innermost frame first, with the
/// samples that ended there. Bounded in sum, since a hostile tree could ask for their product.
pub(super) fn paths(nodes: &[TreeNode], innermost_first: bool) -> Vec<(Vec<usize>, u64)> {
    let mut below = vec![0u64; nodes.len()];
    for node in nodes {
        if let Some(parent) = node.parent {
            below[parent] = below[parent].saturating_add(node.count);
        }
    }
    let mut room = limits::FRAMES;
    let mut paths = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let own = node.count.saturating_sub(below[at]);
        if node.children > 0 && (own == 0 || innermost_first) {
            continue;
        }
        let mut path = Vec::new();
        let mut next = Some(at);
        while let Some(at) = next.filter(|_| path.len() < room) {
            path.push(at);
            next = nodes[at].parent;
        }
        room -= path.len();
        if innermost_first {
            path.reverse();
        }
        if !path.is_empty() {
            paths.push((path, if node.children > 0 { own } else { node.count }));
        }
    }
    paths
}

/// Returns true if the outermost object is the innermost frame.
///
/// A branching tree grows from its outermost frame. In a chain, the images at its ends tell: threads
/// begin in `dyld` or `libsystem_pthread`, and wait in `libsystem_kernel`. Else, stacks by thread are
/// innermost first, and sampled ones outermost first.
pub(super) fn is_innermost_first(nodes: &[TreeNode], per_thread: bool) -> bool {
    if nodes.iter().any(|node| node.children > 1) {
        return false;
    }
    let starts = |node: Option<&TreeNode>| {
        node.is_some_and(|node| {
            matches!(
                node.name.as_str(),
                "dyld" | "libdyld.dylib" | "libsystem_pthread.dylib"
            )
        })
    };
    let waits = |node: Option<&TreeNode>| node.is_some_and(|n| n.name == "libsystem_kernel.dylib");
    let (outer, inner) = (nodes.first(), nodes.last());
    if nodes.len() > 1 {
        if waits(outer) || (starts(inner) && !starts(outer)) {
            return true;
        }
        if waits(inner) || (starts(outer) && !starts(inner)) {
            return false;
        }
    }
    per_thread
}
