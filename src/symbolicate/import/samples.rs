//! Sampled stacks that come as a tree of counts: from each path its own share.

use std::time::Duration;

use crate::report::{Frame, Sample, Thread, limits};

/// A node of the tree; its parent stands before it.
pub(super) struct Node {
    pub parent: Option<usize>,
    /// Samples that went through here.
    pub count: u64,
    pub frame: Frame,
    /// The first of its samples, where the report numbers them.
    pub first: Option<u64>,
}

/// The stacks that ended in each node, innermost frame first, and how often. In the order of time,
/// where the report numbers samples.
pub(super) fn stacks(nodes: &[Node], interval: u64) -> Vec<Sample> {
    let mut own: Vec<u64> = nodes.iter().map(|node| node.count).collect();
    for node in nodes {
        if let Some(parent) = node.parent {
            own[parent] = own[parent].saturating_sub(node.count);
        }
    }
    let mut room = limits::FRAMES;
    let mut samples = Vec::new();
    for (at, node) in nodes.iter().enumerate().filter(|(at, _)| own[*at] > 0) {
        let mut frames = Vec::new();
        let mut next = Some(at);
        while let Some(at) = next.filter(|_| frames.len() < room) {
            frames.push(nodes[at].frame.clone());
            next = nodes[at].parent;
        }
        room -= frames.len();
        if frames.is_empty() {
            break;
        }
        samples.push(Sample {
            at: Duration::from_nanos(node.first.unwrap_or(0).saturating_mul(interval)),
            count: own[at],
            frames,
            ..Sample::default()
        });
    }
    samples.sort_by_key(|sample| sample.at);
    samples
}

/// Gives a thread the stack that was seen most often.
pub(super) fn put_heaviest(thread: &mut Thread, samples: &[Sample]) {
    // Of those seen equally often, the first.
    let heaviest = samples.iter().rev().max_by_key(|sample| sample.count);
    if let Some(heaviest) = heaviest {
        thread.frames.clone_from(&heaviest.frames);
    }
}
