//! Apple's text of hangs and spins (`.hang`, `.spin`, `.diag`; also behind the header line of an
//! `.ips`): a tree of sampled stacks for each thread of each process, the one in question first.
//!
//! ```text
//! Event:            hang                      (not where somebody called `spindump PID`)
//! Duration:         4.20s
//! Steps:            20 (100ms sampling interval)
//!
//! Process:          kiosk [77]
//!   Thread 0x1a2b    DispatchQueue "com.apple.main-thread"(1)    20 samples (1-20)    priority 46
//!   20  start + 1903 (dyld + 99140) [0x1a0018344] 1-20
//!     15  main + 32 (kiosk + 1372) [0x104c3c55c] 1-15
//!      *3  ??? (kernel + 4321) [0xfffffe0007a0] 3-5
//!   Binary Images:
//!            0x104c3c000 -        0x104c43fff  com.example.kiosk 2.1 (77) <82D13D98-…>  /Applications/…
//! ```
//!
//! Reports of much CPU, many writes or wake-ups (`cpu_resource`, `diskwrites_resource`) have their stacks
//! elsewhere: the heaviest one, outermost first, and a tree for each process.
//!
//! ```text
//! Heaviest stack for the target process:
//!   43  start + 1903 (dyld + 99140) [0x1a0018344]
//!   30  main + 32 (kiosk + 1372) [0x104c3c55c]
//!
//! Powerstats for:   kiosk [77]
//! Power Source:     43 samples on Battery, 0 samples on AC
//!   43  start + 1903 (dyld + 99140) [0x1a0018344]
//!     30  main + 32 (kiosk + 1372) [0x104c3c55c]
//! ```

use std::borrow::Cow;

use super::crash_text::{image_line, is_address};
use super::draft::{Draft, frame};
use super::fields::Fields;
use super::labels::Labels;
use super::samples::{Node, put_heaviest, stacks};
use super::{Layout, LineNumbers, values};
use crate::report::{DamageKind, EventKind, Reading, Thread, Value, limits};

/// Returns true if the text looks like one.
pub(super) fn is_one(text: &[u8]) -> bool {
    let front = &text[..text.len().min(1 << 16)];
    let has = |label: &[u8]| {
        front
            .split(|c| *c == b'\n')
            .any(|line| line.trim_ascii_start().starts_with(label))
    };
    has(b"Steps:") && has(b"Data Source:")
        || has(b"Event:") && (has(b"Steps:") || has(b"Heaviest stack for") || has(b"Data Source:"))
}

/// `lines` are those of the text where it was found.
pub(super) fn read(text: &[u8], mut header: Fields, lines: LineNumbers<'_>) -> Reading {
    let text: Cow<'_, str> = String::from_utf8_lossy(text);
    let mut page = Spindump::default();
    for (line, number) in text.lines().zip(1..) {
        page.line(line, number);
    }
    page.close();
    let mut draft = Draft::default();
    for (number, offset) in lines.places(std::mem::take(&mut page.unread)) {
        let message =
            format!("line {number} stands in a tree of stacks but is not a frame: it is left out");
        draft.damage(DamageKind::Section, offset, &message);
    }
    page.labels.head(&mut draft, &mut header);
    page.event(&mut draft);
    for line in &page.images {
        if let Some(mut image) = image_line(line) {
            if image.name.is_empty() {
                image.name = "???".into();
            }
            draft.image(image);
        }
    }
    draft.index_images();
    for (mut thread, nodes) in page.threads {
        let samples = stacks(&nodes, page.interval);
        // The heaviest stack of all comes as one.
        if thread.frames.is_empty() {
            put_heaviest(&mut thread, &samples);
        }
        // A stall's samples are those of the thread that hung; of load, those of all threads.
        if (thread.main && draft.report.samples.is_empty()) || page.is_load {
            draft.samples(samples);
        }
        draft.thread(thread);
    }
    let left = Fields::of_text(page.labels.into_pairs(), page.rest, header);
    draft.finish(Layout::Spindump, left)
}

#[derive(Default)]
struct Spindump {
    labels: Labels,
    threads: Vec<(Thread, Vec<Node>)>,
    /// The nodes that the next line may stand below: its column, its index.
    open: Vec<(usize, usize)>,
    images: Vec<String>,
    rest: Vec<String>,
    kept: usize,
    /// Nanoseconds between two samples.
    interval: u64,
    /// `Process:` lines seen: stacks of the first alone are read.
    processes: u64,
    in_images: bool,
    in_thread: bool,
    /// In the list of the heaviest stack's frames.
    in_heaviest: bool,
    /// True for a report of load: with the heaviest stack, and trees of processes.
    is_load: bool,
    /// Numbers of lines that should be frames.
    unread: Vec<usize>,
}

impl Spindump {
    fn line(&mut self, line: &str, number: usize) {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            (self.in_thread, self.in_heaviest) = (false, false);
            return;
        }
        if trimmed == "Heaviest stack for the target process:" {
            self.load("Heaviest stack");
            self.in_heaviest = true;
            return;
        }
        if let Some(of) = line.strip_prefix("Powerstats for:") {
            self.processes += u64::from(!self.is_target(of));
            if self.processes == 0 {
                self.load(&format!("Powerstats of {}", of.trim()));
            }
            self.in_images = false;
            return;
        }
        if line.starts_with("Process:") {
            self.processes += 1;
            self.in_images = false;
        }
        if self.processes > u64::from(!self.is_load) {
            // Other processes' stacks say nothing of this one; the list of images may be all processes'.
            if self.is_load && trimmed == "Binary Images:" {
                self.in_images = true;
            } else if self.is_load && self.in_images && image_line(trimmed).is_some() {
                self.images.push(trimmed.to_owned());
            }
            return;
        }
        if trimmed == "Binary Images:" {
            (self.in_images, self.in_thread) = (true, false);
        } else if let Some(rest) = trimmed
            .strip_prefix("Thread 0x")
            .filter(|_| self.processes == 1)
        {
            self.thread(rest);
        } else if self.in_heaviest
            && let Some((_, node)) = node(line)
        {
            // Outermost first.
            if let Some((thread, _)) = self.threads.last_mut() {
                thread.frames.insert(0, node.frame);
            }
        } else if self.in_thread
            && let Some((column, node)) = node(line)
        {
            self.node(column, node);
        } else if (self.in_thread || self.in_heaviest) && looks_like_a_node(trimmed) {
            self.unread.push(number);
        } else if self.in_images && image_line(trimmed).is_some() {
            self.images.push(trimmed.to_owned());
        } else if self.threads.is_empty() && self.labels.push(line) {
            // Kept.
        } else if self.kept < limits::TEXT_BYTES {
            self.kept += line.len();
            self.rest.push(line.to_owned());
        }
    }

    /// `1a2b    DispatchQueue "com.apple.main-thread"(1)    20 samples (1-20)    priority 46 (base 46)`,
    /// or with `Thread name "…"`.
    fn thread(&mut self, rest: &str) {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let quoted = |label: &str| {
            let (_, behind) = rest.split_once(label)?;
            let (name, _) = behind.split_once('"')?;
            Some(name.to_owned())
        };
        let queue = quoted("DispatchQueue \"");
        let main = queue.as_deref() == Some("com.apple.main-thread");
        let thread = Thread {
            id: u64::from_str_radix(&rest[..digits], 16).unwrap_or(0),
            name: quoted("Thread name \"").or(queue),
            main,
            extra: vec![(
                "about".into(),
                Value::Text(rest[digits..].trim().to_owned()),
            )],
            ..Thread::default()
        };
        self.threads.push((thread, Vec::new()));
        self.open.clear();
        (self.in_thread, self.in_images) = (true, false);
    }

    /// Begins stacks of a report of load.
    fn load(&mut self, name: &str) {
        let thread = Thread {
            name: Some(name.to_owned()),
            main: self.threads.is_empty(),
            ..Thread::default()
        };
        self.threads.push((thread, Vec::new()));
        self.open.clear();
        self.is_load = true;
        (self.in_thread, self.in_images) = (true, false);
    }

    /// Returns true if `kiosk [77]` is the process that the report is about.
    fn is_target(&self, of: &str) -> bool {
        let (name, pid) = of.trim().rsplit_once(" [").unwrap_or((of.trim(), ""));
        match self.labels.get("PID").filter(|_| !pid.is_empty()) {
            Some(wanted) => pid.trim_end_matches(']') == wanted,
            None => self
                .labels
                .get("Command")
                .is_none_or(|wanted| wanted == name),
        }
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

    /// Marks the first thread as the main one if no thread is.
    fn close(&mut self) {
        if self.threads.iter().all(|(thread, _)| !thread.main)
            && let Some((first, _)) = self.threads.first_mut()
        {
            first.main = true;
        }
    }

    fn event(&mut self, draft: &mut Draft) {
        let labels = &mut self.labels;
        let what = labels.take("Event").unwrap_or_default();
        let duration = labels.take_one(&["Duration", "Duration Sampled"]);
        // `20 (100ms sampling interval)`
        let steps = labels.take("Steps").unwrap_or_default();
        let between = steps
            .split_once('(')
            .and_then(|(_, text)| text.split_whitespace().next());
        self.interval = between.and_then(values::duration).unwrap_or(0);
        let event = draft.event();
        event.kind = match what.as_str() {
            what if what.starts_with("cpu usage") => EventKind::Cpu,
            what if ["disk writes", "wakeups", "microstackshots"]
                .iter()
                .any(|kind| what.starts_with(kind)) =>
            {
                event
                    .extra
                    .push(("type".into(), Value::Text(what.to_owned())));
                EventKind::Other
            }
            // Somebody wanted to know what the process does.
            "" => EventKind::Live,
            _ => EventKind::Stall,
        };
        if !what.is_empty() {
            event.extra.push(("event".into(), Value::Text(what)));
        }
        // The limit, and by how much it was passed.
        event.message = labels.take_one(&["CPU", "Writes", "Wakeups"]);
        event.reason = labels.take("Action taken");
        let is_live = event.kind == EventKind::Live;
        let duration = duration.as_deref().and_then(values::duration);
        if let Some(nanoseconds) = duration.filter(|_| !is_live) {
            draft.lasted(nanoseconds);
        }
    }
}

/// `  15  main + 32 (kiosk.c:26 in kiosk + 1372) [0x104c3c55c] 1-15`, and the column of its count. Frames of the
/// kernel, behind a `*`, are left out.
fn node(line: &str) -> Option<(usize, Node)> {
    let start = line.trim_start();
    let column = line.len() - start.len();
    let digits = start.bytes().take_while(u8::is_ascii_digit).count();
    let count: u64 = start[..digits].parse().ok()?;
    let what = start[digits..]
        .strip_prefix("  ")
        .or_else(|| start[digits..].strip_prefix(' '))?;
    let (what, behind) = what.rsplit_once(" [")?;
    let (address, range) = behind.split_once(']')?;
    let pc = values::number(address).filter(|_| is_address(address))?;
    let name = what.split(" (").next().unwrap_or(what);
    let name = name
        .rsplit_once(" + ")
        .map_or(name, |(name, _)| name)
        .trim();
    let first = range
        .trim()
        .split(['-', ','])
        .next()
        .and_then(|n| n.parse::<u64>().ok());
    Some((
        column,
        Node {
            parent: None,
            count,
            frame: frame(pc, None, Some(name.to_owned())),
            first: first.map(|first| first.saturating_sub(1)),
        },
    ))
}

/// A count and a name, as frames of a tree have them; kernel frames, behind a `*`, don't count.
fn looks_like_a_node(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && line[digits..].starts_with(' ') && line.contains(" (") && line.contains(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_a_tree() {
        let (column, found) =
            node("    15  main + 32 (kiosk.c:26 in kiosk + 1372) [0x104c3c55c] 3-15").unwrap();
        assert_eq!((column, found.count, found.first), (4, 15, Some(2)));
        assert_eq!(
            (found.frame.pc, found.frame.name.as_deref()),
            (0x104c3c55c, Some("main"))
        );
        let (_, found) = node("  2  ??? (kiosk + 1372) [0x104c3c55c]").unwrap();
        assert_eq!((found.frame.name, found.first), (None, None));
        assert!(node("   *3  ??? (kernel + 4321) [0xfffffe0007a0] 3-5").is_none());
        assert!(node("  Thread 0x1a2b").is_none());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(Process: a \\[[0-9]{0,3}\\]|Thread 0x[0-9a-f]{0,3}( DispatchQueue \"[a-z]{0,3}\"?)?| {0,9}[0-9]{1,3} {1,2}[a-z?]{0,4}( \\+ 1)? ?(\\(a \\+ 1\\))? \\[0x[0-9a-f]{0,4}\\]( [0-9]-[0-9])?|Binary Images:|Steps: [0-9]{1,3} \\([0-9a-z é]{0,6}|0x[0-9a-f]{0,3} - 0x[0-9a-f]{0,3} [+a-zé<>() /]{0,9}|\n){0,20}") {
            let lines = LineNumbers::new(text.as_bytes(), text.as_bytes());
            let _ = read(text.as_bytes(), Fields::default(), lines);
        }
    }
}
