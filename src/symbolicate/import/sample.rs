//! The call graph that Apple's `sample` writes: for each thread a tree of stacks, drawn with `+`, `!`, `:` and `|`.
//!
//! ```text
//! Analysis of sampling kiosk (pid 77) every 1 millisecond
//! Process:         kiosk [77]
//!
//! Call graph:
//!     80 Thread_1234   DispatchQueue_1: com.apple.main-thread  (serial)
//!     + 80 start  (in dyld) + 1903  [0x1a0018344]
//!     +   60 main  (in kiosk) + 32  [0x104c3c55c]
//!     +   ! 60 kiosk_fault  (in kiosk) + 4  [0x104c3c554]  kiosk.c:7
//!     +   20 usleep  (in libsystem_c.dylib) + 8  [0x1d0000010]
//!
//! Total number in stack (recursive counted multiple, when >=5):
//! ```

use super::crash_text::image_line;
use super::draft::{Draft, frame};
use super::fields::Fields;
use super::labels::Labels;
use super::samples::{Node, put_heaviest, stacks};
use super::{Layout, LineNumbers, values};
use crate::report::{DamageKind, EventKind, Reading, Thread, Value, limits};

/// Returns true if the text looks like one.
pub(super) fn is_one(text: &[u8]) -> bool {
    let front = &text[..text.len().min(1 << 16)];
    let has = |label: &[u8]| memchr::memmem::find(front, label).is_some();
    has(b"Analysis of sampling ") && has(b"Call graph:")
}

/// Reads one; `lines` are those of the text where it was found.
pub(super) fn read(text: &[u8], mut header: Fields, lines: LineNumbers<'_>) -> Reading {
    let text = String::from_utf8_lossy(text);
    let mut draft = Draft::default();
    let mut page = Page::default();
    for (line, number) in text.lines().zip(1..) {
        page.line(line, number);
    }
    for (number, offset) in lines.places(std::mem::take(&mut page.unread)) {
        let message =
            format!("line {number} stands in the call graph but is not a frame: it is left out");
        draft.damage(DamageKind::Section, offset, &message);
    }
    page.labels.head(&mut draft, &mut header);
    draft.event().kind = EventKind::Live;
    text.lines()
        .filter_map(|line| image_line(line.trim()))
        .for_each(|image| {
            draft.image(image);
        });
    draft.index_images();
    let any_main = page.threads.iter().any(|(thread, _)| thread.main);
    for (index, (mut thread, nodes)) in page.threads.into_iter().enumerate() {
        thread.main |= !any_main && index == 0;
        // Samples have no times, only counts.
        let samples = stacks(&nodes, 0);
        put_heaviest(&mut thread, &samples);
        if thread.main && draft.report.samples.is_empty() {
            draft.samples(samples);
        }
        draft.thread(thread);
    }
    let left = Fields::of_text(page.labels.into_pairs(), page.rest, header);
    draft.finish(Layout::Sample, left)
}

#[derive(Default)]
struct Page {
    labels: Labels,
    threads: Vec<(Thread, Vec<Node>)>,
    /// The nodes that the next line may stand below: its column, its index.
    open: Vec<(usize, usize)>,
    in_graph: bool,
    rest: Vec<String>,
    kept: usize,
    /// Numbers of lines that should be frames.
    unread: Vec<usize>,
}

impl Page {
    fn line(&mut self, line: &str, number: usize) {
        let trimmed = line.trim();
        if trimmed == "Call graph:" {
            self.in_graph = true;
        } else if self.in_graph {
            match counted(line) {
                _ if trimmed.is_empty() || trimmed.starts_with("Total number in stack") => {
                    self.in_graph = false;
                }
                Some((_, _, what)) if what.starts_with("Thread_") => self.thread(what),
                Some((column, count, what)) => match node(count, what) {
                    Some(node) => self.node(column, node),
                    None => self.unread.push(number),
                },
                None => self.unread.push(number),
            }
        } else if trimmed.is_empty() || image_line(trimmed).is_some() {
            // Nothing to keep.
        } else if self.threads.is_empty() && self.labels.push(line) {
            // Kept.
        } else if self.kept < limits::TEXT_BYTES {
            self.kept += line.len();
            self.rest.push(line.to_owned());
        }
    }

    /// `Thread_1234   DispatchQueue_1: com.apple.main-thread  (serial)`, `Thread_1234: worker`.
    fn thread(&mut self, what: &str) {
        let rest = &what["Thread_".len()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let about = rest[digits..].trim();
        let name = about.split_once(": ").map_or(about, |(_, name)| name);
        let name = name.split("  (").next().unwrap_or(name);
        let name = name.trim_start_matches(':').trim().to_owned();
        let thread = Thread {
            id: rest[..digits].parse().unwrap_or(0),
            main: name == "com.apple.main-thread",
            name: Some(name).filter(|name| !name.is_empty()),
            extra: vec![("about".into(), Value::Text(about.to_owned()))],
            ..Thread::default()
        };
        self.threads.push((thread, Vec::new()));
        self.open.clear();
    }

    fn node(&mut self, column: usize, mut node: Node) {
        let Some((_, nodes)) = self.threads.last_mut() else {
            return;
        };
        while self.open.last().is_some_and(|(above, _)| *above >= column) {
            self.open.pop();
        }
        node.parent = self.open.last().map(|(_, at)| *at);
        self.open.push((column, nodes.len()));
        nodes.push(node);
    }
}

/// The column of a line's count, the count, and what it counts.
fn counted(line: &str) -> Option<(usize, u64, &str)> {
    let start = line.trim_start_matches([' ', '+', '!', ':', '|']);
    let digits = start.bytes().take_while(u8::is_ascii_digit).count();
    let what = start[digits..].strip_prefix(' ')?;
    Some((
        line.len() - start.len(),
        start[..digits].parse().ok()?,
        what.trim(),
    ))
}

/// `main  (in kiosk) + 32  [0x104c3c55c]  kiosk.c:7`; of several addresses in one function, the first.
fn node(count: u64, what: &str) -> Option<Node> {
    let (front, behind) = what.rsplit_once(" [0x")?;
    let digits = behind.split([']', ',']).next()?;
    let pc = values::number(&format!("0x{digits}"))?;
    let name = front.split("  (in ").next().unwrap_or(front).trim();
    Some(Node {
        parent: None,
        count,
        frame: frame(pc, None, Some(name.to_owned())),
        first: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_a_call_graph() {
        let (column, count, what) = counted(
            "    + ! : | 15 -[Till sum:]  (in kiosk) + 32,40  [0x104c3c55c,0x104c3c564]  till.m:7",
        )
        .unwrap();
        assert_eq!((column, count), (12, 15));
        let found = node(count, what).unwrap().frame;
        assert_eq!(
            (found.pc, found.name.as_deref()),
            (0x104c3c55c, Some("-[Till sum:]"))
        );
        let (_, count, what) =
            counted("  2 ???  (in kiosk)  load address 0x104c3c000 + 0x55c  [0x104c3c55c]")
                .unwrap();
        assert_eq!(node(count, what).unwrap().frame.name, None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(Analysis of sampling a|Call graph:|[ +!:|]{0,9}[0-9]{1,3} (Thread_[0-9é]{0,3}:?|[a-z?]{0,4}  \\(in a\\) \\+ 1  \\[0x[0-9a-f,]{0,4}\\]?)|0x[0-9a-f]{0,3} - 0x[0-9a-f]{0,3} [+a-zé<>() /]{0,9}|\n){0,20}") {
            let lines = LineNumbers::new(text.as_bytes(), text.as_bytes());
            let _ = read(text.as_bytes(), Fields::default(), lines);
        }
    }
}
