//! A flame graph of a report's samples, of plain boxes: the outermost frame on top, as wide as its share.

use std::fmt::Write as _;

use super::markup::escape;
use crate::symbolicate::blame::is_own;
use crate::symbolicate::format::Style;
use crate::symbolicate::format::stacks::{outermost, weighed};
use crate::symbolicate::frame::Symbolicated;

/// Boxes that are narrower than this share are left out.
const NARROW: f64 = 0.002;
/// Boxes on top of each other: browsers nest no deeper than some hundreds.
const DEEP: usize = 200;

#[derive(Default)]
struct FlameNode {
    name: String,
    own: bool,
    weight: u64,
    below: Vec<FlameNode>,
}

pub(super) fn flame(page: &mut String, style: &Style, of: &Symbolicated) {
    if of.samples.is_empty() {
        return;
    }
    let mut root = FlameNode::default();
    for weighed in weighed(of) {
        root.weight = root.weight.saturating_add(weighed.count);
        let mut node = &mut root;
        for (name, frame, physical) in outermost(of, weighed.stack, style).take(DEEP) {
            let known = node.below.iter().position(|below| below.name == name);
            let at = known.unwrap_or_else(|| {
                let own = is_own(of, physical, frame);
                node.below.push(FlameNode {
                    name,
                    own,
                    ..FlameNode::default()
                });
                node.below.len() - 1
            });
            node = &mut node.below[at];
            node.weight = node.weight.saturating_add(weighed.count);
        }
    }
    page.push_str("<h2>Flame graph <small>of the samples, outermost frame first</small></h2>\n<div class=\"flame\">\n");
    boxes(page, &root, root.weight.max(1));
    page.push_str("</div>\n");
}

/// Draws the callees of a node, side by side.
fn boxes(page: &mut String, node: &FlameNode, total: u64) {
    let share = |weight: u64, of: u64| weight as f64 / of.max(1) as f64;
    let wide = node
        .below
        .iter()
        .filter(|below| share(below.weight, total) >= NARROW);
    for below in wide {
        let name = escape(&below.name);
        let class = if below.own { " class=\"own\"" } else { "" };
        let _ = write!(
            page,
            "<div style=\"width:{:.2}%\"><b{class} title=\"{name}: {} of {total} samples ({:.0} %)\">{name}</b>",
            100.0 * share(below.weight, node.weight),
            below.weight,
            100.0 * share(below.weight, total),
        );
        if !below.below.is_empty() {
            page.push_str("<div class=\"row\">");
            boxes(page, below, total);
            page.push_str("</div>");
        }
        page.push_str("</div>");
    }
}
