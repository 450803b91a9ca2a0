//! Where the reports in a text begin: each layout is known by what only it has.

use super::Layout;
use super::apple::{call_tree, crash_text};
use super::events::crashlytics;
use super::plain_text::{FENCE, Line, Role};
use super::{core_dump, printed, swift};

/// Labels in front of a header that are of its report.
const MAX_LABELS_BEFORE: usize = 32;

/// The key of a stack among a report's headers.
const STACK: &str = "stack";

/// A report's lines.
#[derive(Debug)]
pub(super) struct Part {
    pub layout: Layout,
    /// Index of its first line; of a stack without a header the lines before are of it, too.
    pub from: usize,
    pub to: usize,
    headers: Vec<&'static str>,
    /// False while it has only labels.
    is_report: bool,
    /// True after a fence: what follows is of another text.
    is_closed: bool,
}

/// A line's role in one layout, by its index.
type RoleOf = fn(&[Line], usize) -> Option<Role>;

/// The layouts of texts, those whose labels others share last.
const DETECTORS: [(Layout, RoleOf); 9] = [
    (Layout::Ips, ips_header),
    (Layout::Sample, call_tree::sample_role),
    (Layout::Spindump, call_tree::spindump_role),
    (Layout::Crashlytics, crashlytics::role),
    (Layout::Swift, swift::role),
    (Layout::CoreDump, core_dump::role),
    (Layout::CrashText, crash_text::role),
    (Layout::FirstThrow, crash_text::first_throw_role),
    (Layout::Printed, printed::role),
];

/// Cuts a text into its reports.
pub(super) fn cut(lines: &[Line]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for at in 0..lines.len() {
        if lines[at] == FENCE
            && let Some(open) = parts.last_mut()
        {
            open.is_closed = true;
        }
        let mut texts = DETECTORS.iter();
        if let Some((layout, role)) =
            texts.find_map(|(layout, role)| Some((*layout, role(lines, at)?)))
            && parts.last_mut().is_none_or(|open| !open.take(layout, role))
        {
            parts.pop_if(|open| !open.is_report);
            // Lines in front of the first stack without a header are of it: labels, and the message of a death.
            let is_headed = !matches!(role, Role::Body | Role::Stack) && layout != Layout::Swift;
            let is_first = parts.is_empty() && !is_headed;
            let mut from = if is_first { 0 } else { at };
            let end = parts.last().map_or(0, |before| before.to);
            let end = end.max(at.saturating_sub(MAX_LABELS_BEFORE));
            while layout.is_page() && from > end && is_label(&lines[from - 1]) {
                from -= 1;
            }
            if let Some(before) = parts.last_mut() {
                before.to = before.to.min(from);
            }
            parts.push(Part::new(layout, role, from));
        }
        if let Some(open) = parts.last_mut().filter(|open| !open.is_closed) {
            open.to = at + 1;
        }
    }
    parts.retain(|part| part.is_report);
    parts
}

impl Part {
    fn new(layout: Layout, role: Role, from: usize) -> Part {
        let mut part = Part {
            layout,
            from,
            to: from,
            headers: Vec::new(),
            is_report: false,
            is_closed: false,
        };
        part.note(role);
        part
    }

    fn note(&mut self, role: Role) {
        match role {
            Role::Header(key) | Role::Label(key) => self.headers.push(key),
            Role::Stack => self.headers.push(STACK),
            Role::Body => {}
        }
        self.is_report |= !matches!(role, Role::Label(_));
        self.is_closed = false;
    }

    /// Returns true if a line with this role is of this report.
    fn take(&mut self, layout: Layout, role: Role) -> bool {
        let is_own = self.layout == layout;
        let has = match role {
            // Each death in a log is read by the one reader.
            _ if is_own && layout == Layout::Swift => true,
            Role::Header(key) | Role::Label(key) if is_own => !self.headers.contains(&key),
            Role::Body if is_own => !self.is_closed || !self.is_report,
            Role::Stack if is_own => !self.headers.contains(&STACK),
            Role::Header(_) => false,
            // A page has labels and stacks of other layouts in its messages.
            Role::Label(_) | Role::Body | Role::Stack => {
                self.is_report && !self.is_closed && self.layout.is_page()
            }
        };
        if has && is_own {
            self.note(role);
        }
        has
    }
}

/// Returns true for an empty line, and for a label with its value.
fn is_label(line: &str) -> bool {
    let key = line.split_once(": ").map_or("", |(key, _)| key);
    let is_key = key.len() < 40 && key.starts_with(|c: char| c.is_ascii_uppercase());
    line.trim().is_empty() || is_key
}

/// The line of JSON in front of an `.ips`; not that of a crash text's own copy.
fn ips_header(lines: &[Line], at: usize) -> Option<Role> {
    let line = lines[at].trim_start();
    if !line.starts_with('{') || !line.contains("\"bug_type\"") {
        return None;
    }
    let above = lines[..at].iter().rev().map(|line| line.trim()).take(8);
    let mut above = above.filter(|line| !line.is_empty() && !line.starts_with("---"));
    (above.next() != Some("Full Report")).then_some(Role::Header("bug_type"))
}
