//! Apple's trees of sampled stacks in text: those of `sample`, and of hangs and spins (`.hang`, `.spin`, `.diag`; also
//! after the header line of an `.ips`), the process in question first.
//!
//! `sample` draws one tree for each thread, with `+`, `!`, `:` and `|`:
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
//!
//! Those of hangs and spins are indented:
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

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::labelled_text::{LabelledText, NO_FRAME};
use super::tree_lines::{
    call_graph_node, call_graph_thread, counted, looks_like_a_node, spindump_node, spindump_thread,
    waits_for,
};
use crate::report::{EventKind, Image, Reading, StallClass, Thread, Value};
use crate::symbolicate::import::plain_text::{Line, LineNumbers, Role};
use crate::symbolicate::import::stack_lines::image_line;
use crate::symbolicate::import::{
    JsonFields, Layout, ReportBuilder, SampleNode, SampleTree, values,
};
use crate::symbolicate::names::symbol_text;

/// What a line says of a call graph of `sample`: its first line has one below.
pub fn sample_role(lines: &[Line], at: usize) -> Option<Role> {
    const FIRST: &str = "Analysis of sampling ";
    let is_first = lines[at].trim_start().starts_with(FIRST);
    let mut below = lines.iter().skip(at + 1).take(200);
    let has_graph = is_first && below.any(|line| line.trim() == "Call graph:");
    has_graph.then_some(Role::Header(FIRST))
}

/// What a line says of a hang, a spin, or load: a label of its head, or the title of a tree. The part of one process, cut
/// out of a spindump, has no head.
pub fn spindump_role(lines: &[Line], at: usize) -> Option<Role> {
    const HEAD: [&str; 5] = ["Date/Time", "Command", "Event", "Steps", "Data Source"];
    const TREES: [&str; 3] = ["Thread 0x", "Heaviest stack for ", "Powerstats for:"];
    let line = lines[at].trim();
    let mut below = lines.iter().skip(at + 1).map(|line| line.trim());
    if TREES.iter().any(|title| line.starts_with(title)) {
        let is_tree = below.take(12).any(|line| spindump_node(line).is_some());
        return is_tree.then_some(Role::Body);
    }
    let label = line.split_once(':')?.0;
    let label = *HEAD.iter().find(|head| **head == label)?;
    let is_interval = |line: &str| line.starts_with("Steps:") && line.contains("sampling interval");
    let head = below.by_ref().take(60);
    let mut head = head.take_while(|line| !line.starts_with("Date/Time:"));
    if is_interval(line) || head.any(is_interval) {
        return Some(Role::Header(label));
    }
    (label != HEAD[0]).then_some(Role::Label(label))
}

/// Reads one of either layout; `lines` are those of the text where it was found.
pub fn read(text: &str, header: JsonFields, lines: LineNumbers<'_>, layout: Layout) -> Reading {
    let (mut tree, mut builder) = (CallTree::default(), ReportBuilder::default());
    let is_sample = layout == Layout::Sample;
    for (line, number) in text.lines().zip(1..) {
        if is_sample {
            tree.sample_line(line, number)
        } else {
            tree.spindump_line(line, number)
        }
    }
    tree.page.note_unread(&mut builder, lines);
    tree.page.head(&mut builder, header);
    // Samples of a call graph have no times, only counts.
    let mut interval = 0;
    if is_sample {
        builder.event().kind = EventKind::Live
    } else {
        interval = tree.event(&mut builder)
    }
    for mut image in tree.images {
        if image.name.is_empty() && !is_sample {
            image.name = "???".into();
        }
        builder.image(image);
    }
    builder.index_images();
    let any_main = tree.threads.iter().any(|(thread, _)| thread.main);
    for (index, (mut thread, mut nodes)) in tree.threads.into_iter().enumerate() {
        thread.main |= !any_main && index == 0;
        if thread.main {
            let waits = tree.waits.iter().filter(|((id, _), _)| *id == thread.id);
            let longest = waits.max_by_key(|(_, count)| **count);
            let event = builder.event();
            let is_new = event.reason.is_none() && !tree.is_load;
            if let Some(((_, reason), _)) = longest.filter(|_| is_new) {
                event.reason = Some(reason.clone());
                event.class = Some(StallClass::Blocked).filter(|_| event.kind == EventKind::Stall);
            }
        }
        place_nodes(&mut builder, &mut nodes);
        let mut stacks = SampleTree::new(nodes);
        stacks.heaviest(&mut thread);
        // A stall's samples are those of the thread that hung; of load, those of all trees.
        let is_tree = thread.name.as_deref() != Some(HEAVIEST);
        if is_tree && (tree.is_load || thread.main && builder.report.samples.is_empty()) {
            builder.samples(&stacks, interval);
        }
        builder.thread(thread);
    }
    tree.page.finish(builder, layout)
}

/// Gives nodes whose image no list has the one that their line names.
fn place_nodes(builder: &mut ReportBuilder, nodes: &mut [SampleNode]) {
    for node in nodes {
        let Some((name, base)) = node.image.take() else {
            continue;
        };
        let is_name = symbol_text::function(&name, None).is_some() && name != "kernel";
        if is_name && builder.image_at(node.frame.pc).is_none() {
            node.frame.image = Some(builder.unlisted_image(&name, base, node.frame.pc));
        }
    }
}

/// Name of the thread that has the heaviest stack of all.
const HEAVIEST: &str = "Heaviest stack";

/// The part of the text that is being read.
#[derive(Clone, Copy, PartialEq, Default)]
enum TreeSection {
    #[default]
    Other,
    Graph,
    Thread,
    /// The list of the heaviest stack's frames.
    Heaviest,
    Images,
}

#[derive(Default)]
struct CallTree {
    page: LabelledText,
    threads: Vec<(Thread, Vec<SampleNode>)>,
    /// The nodes that the next line may be below: its column, its index.
    open: Vec<(usize, usize)>,
    images: Vec<Image>,
    /// The labels `PID` and `Command`, as the first line that asks for them found them.
    target: OnceCell<[Option<String>; 2]>,
    section: TreeSection,
    /// `Process:` lines seen: stacks of the first alone are read.
    processes: u64,
    /// What threads wait for, by their ids, with counts of samples.
    waits: BTreeMap<(u64, String), u64>,
    /// True for a report of load: with the heaviest stack, and trees of processes.
    is_load: bool,
}

impl CallTree {
    fn sample_line(&mut self, line: &str, number: usize) {
        let trimmed = line.trim();
        let image = image_line(trimmed);
        let is_image = image.is_some();
        self.images.extend(image);
        if trimmed == "Call graph:" {
            self.section = TreeSection::Graph;
        } else if self.section == TreeSection::Graph {
            let is_title = |title| trimmed.starts_with(title);
            match counted(line) {
                _ if trimmed.is_empty() => {}
                _ if is_title("Total number in stack") || is_title("Binary Images") => {
                    self.section = TreeSection::Other;
                }
                Some((_, _, what)) if what.starts_with("Thread_") => {
                    self.begin(call_graph_thread(&what["Thread_".len()..]));
                }
                found => match found
                    .and_then(|(at, count, what)| Some((at, call_graph_node(count, what)?)))
                {
                    Some((column, node)) => self.add_node(column, node),
                    None => self.page.unread.push((number, NO_FRAME)),
                },
            }
        } else if !trimmed.is_empty() && !is_image {
            self.keep_label(line);
        }
    }

    fn spindump_line(&mut self, line: &str, number: usize) {
        let trimmed = line.trim();
        let is_in_stacks = matches!(self.section, TreeSection::Thread | TreeSection::Heaviest);
        if trimmed.is_empty() {
            return;
        }
        if trimmed == "Heaviest stack for the target process:" {
            self.begin_load(HEAVIEST);
            self.section = TreeSection::Heaviest;
            return;
        }
        if let Some(of) = line.strip_prefix("Powerstats for:") {
            self.processes += u64::from(!self.is_target(of));
            if self.processes == 0 {
                self.begin_load(&format!("Powerstats of {}", of.trim()));
            } else {
                self.end_images();
            }
            return;
        }
        if line.starts_with("Process:") {
            self.processes += 1;
            self.end_images();
        }
        let is_images = trimmed == "Binary Images:";
        let image = image_line(trimmed).filter(|_| self.section == TreeSection::Images);
        // Other processes' stacks say nothing of this one; the list of images may be all processes'.
        let is_others = self.processes > u64::from(!self.is_load);
        let thread = trimmed.strip_prefix("Thread 0x");
        if is_others && !(self.is_load && (is_images || image.is_some())) {
            return;
        }
        if let Some((count, reason)) = waits_for(trimmed, |of| self.is_target(of))
            && let Some((thread, _)) = self.threads.last()
        {
            *self.waits.entry((thread.id, reason)).or_default() += count;
        }
        if is_images {
            self.section = TreeSection::Images;
        } else if image.is_some() {
            self.images.extend(image);
        } else if let Some(rest) = thread
            && self.processes == 1
        {
            self.begin(spindump_thread(rest));
            self.section = TreeSection::Thread;
        } else if is_in_stacks && let Some((mut column, mut node)) = spindump_node(line) {
            // A list is a tree of one branch, which comes outermost first.
            if self.section == TreeSection::Heaviest {
                column = self.open.len();
                node.count = 1;
            }
            self.add_node(column, node);
        } else if is_in_stacks && looks_like_a_node(trimmed) {
            self.page.unread.push((number, NO_FRAME));
        } else {
            self.keep_label(line);
        }
    }

    /// Ends a list of images.
    fn end_images(&mut self) {
        if self.section == TreeSection::Images {
            self.section = TreeSection::Other;
        }
    }

    fn keep_label(&mut self, line: &str) {
        if !(self.threads.is_empty() && self.page.label(line)) {
            self.page.keep(line);
        }
    }

    fn begin(&mut self, thread: Thread) {
        self.threads.push((thread, Vec::new()));
        self.open.clear();
    }

    /// Begins stacks of a report of load.
    fn begin_load(&mut self, name: &str) {
        self.begin(Thread {
            name: Some(name.to_owned()),
            main: self.threads.is_empty(),
            ..Thread::default()
        });
        self.is_load = true;
        self.section = TreeSection::Thread;
    }

    /// Returns true if `kiosk [77]` is the process that the report is about.
    fn is_target(&self, of: &str) -> bool {
        let (name, pid) = of.trim().rsplit_once(" [").unwrap_or((of.trim(), ""));
        let find = |label| self.page.labels.peek(label).map(str::to_owned);
        match self.target.get_or_init(|| ["PID", "Command"].map(find)) {
            [Some(wanted), _] if !pid.is_empty() => pid.trim_end_matches(']') == wanted,
            [_, command] => command.as_ref().is_none_or(|wanted| wanted == name),
        }
    }

    fn add_node(&mut self, column: usize, mut node: SampleNode) {
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

    /// Takes the event out of the labels of a spindump; nanoseconds between two samples.
    fn event(&mut self, builder: &mut ReportBuilder) -> u64 {
        let labels = &mut self.page.labels;
        let what = labels.text("Event").unwrap_or_default();
        let duration = labels.text("Duration|Duration Sampled");
        // `20 (100ms sampling interval)`
        let steps = labels.text("Steps").unwrap_or_default();
        let between = steps.split_once('(');
        let between = between.and_then(|(_, text)| text.split_whitespace().next());
        let event = builder.event();
        let mut extra = |key: &str| {
            let text = Value::Text(what.clone());
            event.extra.push((key.to_owned(), text));
        };
        let others = ["disk writes", "wakeups", "microstackshots"];
        event.kind = if what.starts_with("cpu usage") {
            EventKind::Cpu
        } else if others.iter().any(|kind| what.starts_with(kind)) {
            extra("type");
            EventKind::Other
        } else if what.is_empty() {
            // Somebody wanted to know what the process does.
            EventKind::Live
        } else {
            EventKind::Stall
        };
        if !what.is_empty() {
            extra("event");
        }
        // The limit, and by how much it was passed.
        event.message = labels.text("CPU|Writes|Wakeups|Note");
        let action = labels.text("Action taken");
        let action = action.filter(|action| action != "none");
        let lower = action.as_deref().unwrap_or("").to_ascii_lowercase();
        event.fatal = lower.contains("killed") || lower.contains("terminated");
        event.reason = action;
        let duration = duration.as_deref().and_then(values::duration);
        if let Some(nanoseconds) = duration
            && !what.is_empty()
        {
            builder.lasted(nanoseconds);
        }
        between.and_then(values::duration).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_call_graph_makes_it_panic(text in "(Analysis of sampling a|Call graph:|[ +!:|]{0,9}[0-9]{1,3} (Thread_[0-9é]{0,3}:?|[a-z?]{0,4}  \\(in a\\) \\+ 1  \\[0x[0-9a-f,]{0,4}\\]?)|0x[0-9a-f]{0,3} - 0x[0-9a-f]{0,3} [+a-zé<>() /]{0,9}|\n){0,20}") {
            let lines = LineNumbers { starts: &[0], above: 0 };
            let _ = read(&text, JsonFields::default(), lines, Layout::Sample);
        }

        #[test]
        fn no_spindump_makes_it_panic(text in "(Process: a \\[[0-9]{0,3}\\]|Thread 0x[0-9a-f]{0,3}( DispatchQueue \"[a-z]{0,3}\"?)?| {0,9}[0-9]{1,3} {1,2}[a-z?]{0,4}( \\+ 1)? ?(\\(a \\+ 1\\))? \\[0x[0-9a-f]{0,4}\\]( [0-9]-[0-9])?|Binary Images:|Steps: [0-9]{1,3} \\([0-9a-z é]{0,6}|0x[0-9a-f]{0,3} - 0x[0-9a-f]{0,3} [+a-zé<>() /]{0,9}|\n){0,20}") {
            let lines = LineNumbers { starts: &[0], above: 0 };
            let _ = read(&text, JsonFields::default(), lines, Layout::Spindump);
        }
    }
}
