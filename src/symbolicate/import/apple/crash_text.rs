//! Apple's older crash reports, text for people, line by line; and what Foundation prints of an exception.

use std::collections::BTreeMap;

use super::exception::thrown_name;
use super::labelled_text::{LabelledText, NO_FRAME};
use super::titles::{
    ExceptionStack, LABELS, TextSection, ThreadTitleKind, known_label, ordered_label, thread_title,
    title,
};
use crate::report::{DamageKind, EventKind, Image, Reading, Thread, Value};
use crate::symbolicate::import::plain_text::{Line as TextLine, LineNumbers, Role, text_below};
use crate::symbolicate::import::stack_lines::{Line, image_line, stack_line};
use crate::symbolicate::import::{JsonFields, Layout, ReportBuilder, numbered_thread, values};

/// What a line says of Apple's crash text: two labels in its order, a stack or a list under its title.
pub fn role(lines: &[TextLine], at: usize) -> Option<Role> {
    let line = lines[at].trim_end();
    if !line.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    let next = text_below(lines, at);
    if let Some((key, value)) = ordered_label(line) {
        let after = ordered_label(next).map_or(0, |(after, _)| after);
        let name = LABELS[key];
        if name == "Exception Type" && (value.starts_with("EXC_") || value.starts_with("SIG")) {
            let role = Some(Role::Header(name)).filter(|_| after > key);
            return role.or(Some(Role::Body));
        }
        let is_pair = after > key && after <= key + 5;
        if is_pair && has_exception(lines, at) {
            return Some(Role::Header(name));
        }
        return is_pair.then_some(Role::Label(name));
    }
    // Swift's own frames have no image in front.
    let has_image = |found: Line<'_>| !found.image.is_empty() && !found.image.starts_with('[');
    let is_stack = || stack_line(next).is_some_and(has_image);
    let is_body = match title(line) {
        Some(TextSection::Images) => image_line(next).is_some(),
        Some(TextSection::Exception(_)) => is_stack() || next.starts_with("(0x"),
        _ => thread_title(line).is_some_and(|title| title.is_known()) && is_stack(),
    };
    is_body.then_some(Role::Body)
}

/// Returns true if an exception follows before the stacks of another layout.
fn has_exception(lines: &[TextLine], at: usize) -> bool {
    const TITLES: [&str; 5] = [
        "Steps:",
        "Event:",
        "Data Source:",
        "Call graph:",
        "Analysis of sampling ",
    ];
    let below = lines.iter().skip(at + 1).take(100);
    let mut below = below.take_while(|line| !TITLES.iter().any(|other| line.starts_with(other)));
    below.any(|line| line.starts_with("Exception Type:"))
}

/// `lines` are those of the text where it was found.
pub fn read(text: &str, header: JsonFields, lines: LineNumbers<'_>) -> Reading {
    let mut builder = ReportBuilder::default();
    let mut crash = CrashText::default();
    let all: Vec<&str> = text.lines().collect();
    for (at, line) in all.iter().enumerate() {
        let next = all[at + 1..].iter().find(|next| !next.trim().is_empty());
        crash.line(line, at + 1, next.unwrap_or(&"").trim());
    }
    let mut page = std::mem::take(&mut crash.page);
    page.note_unread(&mut builder, lines);
    let had_images = !crash.images.is_empty();
    crash.stacks(&mut builder);
    page.head(&mut builder, header);
    page.crash(&mut builder);
    if !had_images {
        builder.damage(
            DamageKind::Cut,
            lines.place(usize::MAX).1,
            "the list `Binary Images:` is missing: without its UUIDs no debug file can be told for certain",
        );
    }
    page.finish(builder, Layout::CrashText)
}

/// Adds the stack of an exception that a report of another layout has as lines of this one. Where the report has its
/// own stack of it, this one is kept as a thread.
pub fn stack_in_words(builder: &mut ReportBuilder, text: &str, number: usize) {
    let mut crash = CrashText {
        section: TextSection::Exception(ExceptionStack::Specific(number as u64)),
        ..CrashText::default()
    };
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        crash.line(line, 0, "");
    }
    crash.stacks(builder);
}

const FIRST_THROW: &str = "*** First throw call stack:";
const TERMINATING: &str = "*** Terminating app due to uncaught exception ";

/// What a line says of the text that Foundation prints of an exception that nothing catches, as Xcode's console shows it: its
/// message comes once before its title.
pub fn first_throw_role(lines: &[TextLine], at: usize) -> Option<Role> {
    let line = &lines[at];
    if line.contains(TERMINATING) {
        return Some(Role::Label(TERMINATING));
    }
    let has_stack = line.trim() == FIRST_THROW && text_below(lines, at).starts_with('(');
    has_stack.then_some(Role::Stack)
}

/// Reads that text: the message, and frames in parentheses, or their addresses alone.
pub fn read_first_throw(text: &str) -> Reading {
    let mut builder = ReportBuilder::default();
    let (before, stack) = text.split_once(FIRST_THROW).unwrap_or(("", text));
    let end = stack.find("\n)").unwrap_or(stack.len());
    stack_in_words(&mut builder, stack[..end].trim_start_matches("\n(\n"), 0);
    if let Some(at) = before.find(TERMINATING) {
        // `2026-11-21 10:00:00.500 kiosk[77:1234] `
        let line = before[..at].lines().last().unwrap_or("");
        let process = line.trim().rsplit_once('[');
        if let Some((front, pid)) = process.filter(|_| before[..at].ends_with("] ")) {
            let head = &mut builder.report.head;
            head.app.name = front.rsplit(' ').next().unwrap_or("").to_owned();
            let pid = pid.split([':', ']']).next().unwrap_or("");
            head.pid = pid.parse().unwrap_or(0);
        }
        let message = before[at..].trim();
        builder.event().name = thrown_name(message).map(str::to_owned);
        builder.event().message = Some(message.to_owned());
    }
    let event = builder.event();
    (event.kind, event.fatal) = (EventKind::Exception, true);
    let after = stack[end..].trim_start_matches("\n)").trim();
    let left = JsonFields::one("text", Value::Text(after.to_owned()));
    builder.finish(Layout::FirstThrow, left)
}

#[derive(Default)]
struct CrashText {
    page: LabelledText,
    /// Threads, each with its frames.
    threads: Vec<(Thread, Vec<Value>)>,
    current: Option<usize>,
    section: TextSection,
    /// Frames of exceptions.
    thrown: BTreeMap<ExceptionStack, Vec<Value>>,
    /// Index in `threads` of each thread number.
    by_number: BTreeMap<u64, usize>,
    /// Images that are listed.
    images: Vec<Image>,
    /// True after the title of the first list.
    has_list: bool,
}

/// What is said of a line that should have been an image.
const NO_IMAGE: &str = "is cut before the image's id: the image is omitted";

/// What is said of a thread's title with words that are not known.
const UNKNOWN_STATE: &str =
    "is a thread's title with a state that is not known: the thread is read, the state is not";

impl CrashText {
    /// Reads a line; `next` is the one after it that is not empty. An empty line ends no section.
    fn line(&mut self, line: &str, number: usize, next: &str) {
        let trimmed = line.trim();
        let image = self.has_list.then(|| image_line(trimmed)).flatten();
        let is_image = image.is_some();
        self.images.extend(image);
        if trimmed.is_empty() {
            return;
        }
        if line.starts_with("Thread ") && self.thread_title(trimmed, number, next) {
            return;
        }
        if let Some(section) = title(trimmed) {
            self.has_list |= section == TextSection::Images;
            self.section = section;
            if section == TextSection::Other {
                self.page.keep(line);
            }
            return;
        }
        // A label comes once; what looks like it in a message is of the message.
        if self.section != TextSection::Images
            && let Some((key, _)) = known_label(trimmed)
            && self.page.labels.get(key).is_none()
        {
            self.section = TextSection::Labels;
        }
        match self.section {
            TextSection::Message => self.page.message.push(trimmed.to_owned()),
            TextSection::Reason => self.page.reason.push(trimmed.to_owned()),
            TextSection::Thread | TextSection::Exception(_) => self.stack_line(line, number),
            TextSection::Registers => {
                if !self.registers(trimmed) {
                    self.label(line)
                }
            }
            TextSection::Labels | TextSection::Other => self.label(line),
            TextSection::Images if is_image => {}
            TextSection::Images => {
                if trimmed.starts_with("0x") {
                    self.page.unread.push((number, NO_IMAGE));
                }
                self.page.keep(line);
            }
        }
    }

    fn label(&mut self, line: &str) {
        if let Some((key, value)) = known_label(line.trim()) {
            match key {
                "Application Specific Information" => {
                    self.section = TextSection::Message;
                    self.page.message.push(value.to_owned());
                    return;
                }
                "Termination Reason" | "Termination Description" => {
                    self.section = TextSection::Reason
                }
                _ => {}
            }
        }
        if !self.page.label(line) {
            self.page.keep(line);
        }
    }

    fn stack_line(&mut self, line: &str, number: usize) {
        let trimmed = line.trim();
        if let Some(found) = stack_line(trimmed) {
            self.frame(found);
        } else if matches!(self.section, TextSection::Exception(_)) && trimmed.starts_with('(') {
            // `(0x18 0x19 …)`: return addresses alone.
            let words = trimmed.trim_matches(['(', ')']).split_whitespace();
            for pc in words.filter_map(values::number) {
                self.frame(Line {
                    pc,
                    ..Line::default()
                });
            }
        } else {
            // A frame has a number in front; other lines are remarks.
            if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                self.page.unread.push((number, NO_FRAME));
            }
            self.page.keep(line);
        }
    }

    fn thread_title(&mut self, line: &str, number: usize, next: &str) -> bool {
        let Some(title) = thread_title(line) else {
            return false;
        };
        // A message may have such a line.
        let is_followed = stack_line(next).is_some() || next.starts_with("Thread ");
        if self.section == TextSection::Message && !is_followed {
            return false;
        }
        match title.kind {
            // `Thread 0 instruction stream:`: something else about the thread.
            _ if !is_followed && !title.is_known() => {
                self.section = TextSection::Other;
                self.page.keep(line);
            }
            ThreadTitleKind::Name(name) => {
                let at = self.begin_thread(title.number);
                self.threads[at].0.name = Some(name.to_owned()).filter(|n| !n.is_empty());
                self.section = TextSection::Labels;
            }
            ThreadTitleKind::Registers => {
                self.current = Some(self.find_thread(title.number));
                self.section = TextSection::Registers;
            }
            ThreadTitleKind::Frames {
                is_about,
                name,
                unknown,
            } => {
                if !unknown.is_empty() {
                    self.page.unread.push((number, UNKNOWN_STATE));
                }
                let at = self.begin_thread(title.number);
                let (thread, _) = &mut self.threads[at];
                thread.crashed |= is_about;
                if !name.is_empty() && thread.name.is_none() {
                    thread.name = Some(name.to_owned());
                }
                self.current = Some(at);
                self.section = TextSection::Thread;
            }
        }
        true
    }

    /// The thread that begins here. A number that comes again, with a stack of its own, is another thread:
    /// a text may hold a crash, and a crash while that was written down.
    fn begin_thread(&mut self, number: u64) -> usize {
        let has_frames = |at: &usize| !self.threads[*at].1.is_empty();
        if self.by_number.get(&number).is_some_and(has_frames) {
            self.by_number.remove(&number);
        }
        self.find_thread(number)
    }

    fn find_thread(&mut self, number: u64) -> usize {
        if let Some(at) = self.by_number.get(&number) {
            return *at;
        }
        self.by_number.insert(number, self.threads.len());
        self.threads.push((numbered_thread(number), Vec::new()));
        self.threads.len() - 1
    }

    fn frame(&mut self, line: Line<'_>) {
        let frames = match (self.section, self.current) {
            (TextSection::Exception(of), _) => self.thrown.entry(of).or_default(),
            (_, Some(at)) => &mut self.threads[at].1,
            _ => return,
        };
        frames.push(line.fields().into_raw());
    }

    /// `x0: 0x0000000000000001   x1: …`.
    fn registers(&mut self, line: &str) -> bool {
        let Some((thread, _)) = self.current.and_then(|at| self.threads.get_mut(at)) else {
            return false;
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let register = |pair: &[&str]| match pair {
            [name, value] if value.starts_with("0x") => {
                Some((name.strip_suffix(':')?.to_owned(), values::number(value)?))
            }
            _ => None,
        };
        let known = thread.registers.len();
        thread.registers.extend(words.chunks(2).map_while(register));
        thread.registers.len() > known
    }

    fn stacks(self, builder: &mut ReportBuilder) {
        for image in self.images {
            builder.image(image);
        }
        builder.index_images();
        for (mut thread, frames) in self.threads {
            builder.put_frames(&mut thread, frames);
            builder.thread(thread);
        }
        // The stack of the exception that nothing caught, and others, unless they say the same.
        let mut known = builder.thrown_stacks();
        for (of, frames) in self.thrown {
            let mut thread = Thread::default();
            builder.put_frames(&mut thread, frames);
            let pcs: Vec<u64> = thread.frames.iter().map(|frame| frame.pc).collect();
            if pcs.is_empty() || known.contains(&pcs) {
                continue;
            }
            if known.is_empty() {
                builder.last_exception(thread);
                builder.event().kind = EventKind::Exception;
            } else {
                let number = match of {
                    ExceptionStack::Specific(number) => number,
                    ExceptionStack::Last => 0,
                };
                thread.name = Some(format!("Application Specific Backtrace {number}"));
                builder.called(thread);
            }
            known.push(pcs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(Thread [0-9]{0,3}( name| Crashed)?:|[0-9]{1,2} +[a-z?]{0,4} +0x[0-9a-f]{0,4} ?[+a-z0-9() ]{0,9}|Binary Images:|Termination Reason: [A-Z]{1,3}|Application Specific (Information|Backtrace 0):|0x[0-9a-f]{0,3} - 0x[0-9a-f]{0,3} [+a-zé<>() /]{0,9}|\n|[A-Za-zé: (]{0,9}){0,20}") {
            let lines = LineNumbers { starts: &[0], above: 0 };
            let _ = read(&text, JsonFields::default(), lines);
        }
    }
}
