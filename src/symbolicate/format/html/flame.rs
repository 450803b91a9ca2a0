//! The flame graph of a report's samples on a page: plain boxes, the outermost frame on top. Each is a link that widens it.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher as _};

use crate::symbolicate::format::Style;
use crate::symbolicate::format::flame::{BoxKind, FlameNode, named_stack};
use crate::symbolicate::format::plain::escape;
use crate::symbolicate::format::stacks::weighed;
use crate::symbolicate::frame::Symbolicated;

/// Boxes that are narrower than this share are not drawn.
const MIN_SHARE: f64 = 0.002;
/// The script that searches it. The page's policy has its hash.
const SEARCH: &str = include_str!("search.js");

/// Draws the samples; nothing for a report without.
pub(super) fn flame(page: &mut String, style: &Style, origin: &str, of: &Symbolicated) {
    if of.samples.is_empty() {
        return;
    }
    let mut root = FlameNode::default();
    for weighed in weighed(of) {
        root.add(&named_stack(of, weighed.stack, style), weighed.count);
    }
    // Several reports may be on one page.
    let mut hasher = DefaultHasher::new();
    hasher.write(&of.report.head.id);
    hasher.write(origin.as_bytes());
    let mut boxes = Boxes {
        page,
        prefix: format!("f{:08x}", hasher.finish() as u32),
        count: 0,
        total: root.weight,
    };
    let prefix = boxes.prefix.clone();
    let _ = writeln!(
        boxes.page,
        "<h2>Flame graph <small>of the samples, outermost frame first</small></h2>\n\
         <p class=\"note\">A box widens when you choose it; <a href=\"#{prefix}\">the whole picture</a>.{}</p>\n\
         <div class=\"flame\" id=\"{prefix}\" data-samples=\"{}\">",
        legend(),
        boxes.total,
    );
    boxes.callees(&root);
    let _ = writeln!(page, "</div><script>{SEARCH}</script>");
}

fn legend() -> String {
    let keys = BoxKind::ALL.iter().map(|kind| {
        let (class, words) = kind.class_and_label();
        format!(" <span class=\"key {class}\">{words}</span>")
    });
    keys.collect()
}

struct Boxes<'a> {
    page: &'a mut String,
    /// Of the boxes' ids.
    prefix: String,
    count: usize,
    total: u64,
}

impl Boxes<'_> {
    /// Draws the callees of a node, side by side.
    fn callees(&mut self, node: &FlameNode) {
        let is_wide = |callee: &&FlameNode| callee.share(self.total) >= MIN_SHARE;
        let wide: Vec<&FlameNode> = node.callees.iter().filter(is_wide).collect();
        for callee in wide {
            let (name, class, weight) = (escape(&callee.name), callee.class(), callee.weight);
            let (prefix, number, total) = (&self.prefix, self.count, self.total);
            let _ = write!(
                self.page,
                "<div id=\"{prefix}-{number}\" style=\"width:{:.2}%\"><a class=\"{class}\" href=\"#{prefix}-{number}\" data-samples=\"{weight}\" \
                 title=\"{name}: {weight} of {total} samples ({:.0} %)\">{name}</a>",
                100.0 * callee.share(node.weight),
                100.0 * callee.share(total),
            );
            self.count += 1;
            if !callee.callees.is_empty() {
                self.page.push_str("<div class=\"row\">");
                self.callees(callee);
                self.page.push_str("</div>");
            }
            self.page.push_str("</div>");
        }
    }
}
