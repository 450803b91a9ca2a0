//! Apple's older crash reports: text for people, line by line.

use std::collections::BTreeMap;

use super::draft::{Draft, frame};
use super::fields::{Fields, keep_frames};
use super::lines::{Line, image_line, stack_line};
use super::text::LabelledText;
use super::{Layout, LineNumbers, starts_a_line, values};
use crate::report::{DamageKind, EventKind, Image, Reading, Thread, Value};

/// Returns true if the text looks like one: two of its labels at the beginning of lines.
pub(super) fn is_one(front: &[u8]) -> bool {
    #[rustfmt::skip]
    const LABELS: [&[u8]; 11] = [
        b"Incident Identifier:", b"CrashReporter Key:", b"Process:", b"Identifier:",
        b"Exception Type:", b"Code Type:", b"OS Version:", b"Report Version:", b"Date/Time:",
        b"Thread 0", b"Binary Images:",
    ];
    let lines = front.split(|c| *c == b'\n');
    let labelled = lines.filter(|line| LABELS.iter().any(|label| starts_a_line(line, label)));
    labelled.take(2).count() == 2
}

/// `lines` are those of the text where it was found.
pub(super) fn read(text: &str, header: Fields, lines: LineNumbers<'_>) -> Reading {
    let mut draft = Draft::default();
    let mut crash = CrashText::default();
    for (line, number) in text.lines().zip(1..) {
        crash.line(line, number);
    }
    let mut page = std::mem::take(&mut crash.page);
    page.note_unread(&mut draft, lines, "among frames");
    let had_images = !crash.images.is_empty();
    crash.stacks(&mut draft);
    page.head(&mut draft, header);
    page.crash(&mut draft);
    if !had_images {
        draft.damage(
            DamageKind::Cut,
            lines.file.len(),
            "the list `Binary Images:` is missing: without its UUIDs no debug file can be told for certain",
        );
    }
    page.finish(draft, Layout::CrashText)
}

/// The part of the text that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum TextState {
    #[default]
    Head,
    Thread,
    Exception,
    Registers,
    Images,
    Other,
}

#[derive(Default)]
struct CrashText {
    page: LabelledText,
    threads: Vec<Thread>,
    current: Option<usize>,
    state: TextState,
    exception: Thread,
    /// True if the line above is of a function that was inlined.
    inlined: bool,
    /// Fields of the lines of each thread, by its index in `threads`; of the exception, without one.
    left: BTreeMap<Option<usize>, Vec<(usize, Fields)>>,
    /// Index in `threads` of each thread number.
    by_number: BTreeMap<u64, usize>,
    /// Images that are listed.
    images: Vec<Image>,
    /// True behind the title of the first list.
    has_list: bool,
    /// Images as frames tell of them: by base, the name and the highest address seen in it.
    bases: BTreeMap<u64, (String, u64)>,
}

impl CrashText {
    fn line(&mut self, line: &str, number: usize) {
        let trimmed = line.trim();
        let image = self.has_list.then(|| image_line(trimmed)).flatten();
        let is_image = image.is_some();
        self.images.extend(image);
        if trimmed.is_empty() {
            if matches!(self.state, TextState::Thread | TextState::Exception) {
                self.state = TextState::Other;
            }
            return;
        }
        if line.starts_with("Thread ") && self.thread_title(trimmed) {
            return;
        }
        if is_images_title(trimmed) {
            (self.state, self.has_list) = (TextState::Images, true);
            return;
        }
        const EXCEPTIONS: [&str; 3] = [
            "Last Exception Backtrace:",
            "Application Specific Backtrace 0:",
            "Application Specific Backtrace 1:",
        ];
        if EXCEPTIONS.contains(&trimmed) {
            self.state = TextState::Exception;
            return;
        }
        let state = self.state;
        match state {
            TextState::Thread | TextState::Exception => {
                if let Some(found) = stack_line(trimmed) {
                    self.frame(found);
                } else if self.state == TextState::Exception && trimmed.starts_with('(') {
                    self.bare_addresses(trimmed);
                } else {
                    // A frame has a number in front; other lines are remarks.
                    if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                        self.page.unread.push(number);
                    }
                    self.page.keep(line);
                }
            }
            TextState::Registers if self.registers(trimmed) => {}
            TextState::Images if is_image => {}
            TextState::Head | TextState::Other if self.page.label(line) => {}
            _ => self.page.keep(line),
        }
    }

    /// `Thread 0 name:  …`, `Thread 0 Crashed:: Dispatch queue: …`, `Thread 0:`,
    /// `Thread 0 crashed with ARM Thread State (64-bit):`.
    fn thread_title(&mut self, line: &str) -> bool {
        let Some(rest) = line.strip_prefix("Thread ") else {
            return false;
        };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(number) = rest[..digits].parse::<u64>() else {
            return false;
        };
        let rest = rest[digits..].trim_start();
        if let Some(name) = rest.strip_prefix("name:") {
            let at = self.fresh(number);
            self.threads[at].name = Some(name.trim().to_owned()).filter(|n| !n.is_empty());
            return true;
        }
        if rest.starts_with("crashed with") {
            self.current = Some(self.numbered(number));
            self.state = TextState::Registers;
            return true;
        }
        // `Attributed`: what a simulated crash is about; `Highlighted`: the same in some years' layouts.
        let marks = ["Crashed:", "Attributed:", "Highlighted:"];
        let marked = marks.iter().find_map(|mark| rest.strip_prefix(mark));
        let Some(rest) = marked.or_else(|| rest.strip_prefix(':')) else {
            return false;
        };
        let at = self.fresh(number);
        let thread = &mut self.threads[at];
        thread.crashed |= marked.is_some();
        let name = rest.trim_start_matches(':').trim();
        if !name.is_empty() && thread.name.is_none() {
            thread.name = Some(name.to_owned());
        }
        self.current = Some(at);
        self.state = TextState::Thread;
        true
    }

    /// The thread that begins here. A number that comes again, with a stack of its own, is another thread:
    /// a text may hold a crash, and a crash while that was written down.
    fn fresh(&mut self, number: u64) -> usize {
        let known = self.by_number.get(&number);
        let known = known.and_then(|at| self.threads.get(*at));
        if known.is_some_and(|thread| !thread.frames.is_empty()) {
            self.by_number.remove(&number);
        }
        self.numbered(number)
    }

    fn numbered(&mut self, number: u64) -> usize {
        if let Some(at) = self.by_number.get(&number) {
            return *at;
        }
        self.by_number.insert(number, self.threads.len());
        self.threads.push(Thread {
            id: number,
            main: number == 0,
            ..Thread::default()
        });
        self.threads.len() - 1
    }

    fn frame(&mut self, line: Line<'_>) {
        let found = frame(line.pc, None, line.name.map(str::to_owned));
        if let Some(base) = line.base.filter(|base| *base != 0 && line.image != "???") {
            let seen = self.bases.entry(base);
            let seen = seen.or_insert_with(|| (line.image.to_owned(), line.pc));
            seen.1 = seen.1.max(line.pc);
        }
        let inlined = std::mem::replace(&mut self.inlined, line.inlined);
        let current = self.current.filter(|_| self.state != TextState::Exception);
        let thread = match self.state {
            TextState::Exception => Some(&mut self.exception),
            _ => current.and_then(|at| self.threads.get_mut(at)),
        };
        let Some(thread) = thread else { return };
        let left = self.left.entry(current).or_default();
        // An inlined function's line repeats the address of the function that it was inlined into, under
        // another name; a function that calls itself repeats its name, too.
        let frames = thread.frames.len();
        match thread.frames.last_mut() {
            Some(last)
                if last.pc == line.pc
                    && found.name.is_some()
                    && (inlined || frames > 1 && last.name != found.name) =>
            {
                let name = std::mem::replace(&mut last.name, found.name);
                if let (Some(name), Some((_, fields))) = (name, left.last_mut()) {
                    fields.keep("inlined", Fields::one("symbol", Value::Text(name)));
                }
            }
            _ => thread.frames.push(found),
        }
        left.push((thread.frames.len() - 1, line.source));
    }

    /// `(0x18 0x19 …)`: return addresses alone.
    fn bare_addresses(&mut self, line: &str) {
        let words = line.trim_matches(['(', ')']).split_whitespace();
        let frames = words.filter_map(|word| Some(frame(values::number(word)?, None, None)));
        self.exception.frames.extend(frames);
    }

    /// `x0: 0x0000000000000001   x1: …`.
    fn registers(&mut self, line: &str) -> bool {
        let Some(thread) = self.current.and_then(|at| self.threads.get_mut(at)) else {
            return false;
        };
        let mut found = Vec::new();
        let mut words = line.split_whitespace();
        while let Some(name) = words.next() {
            let (Some(name), Some(value)) = (name.strip_suffix(':'), words.next()) else {
                break;
            };
            match values::number(value).filter(|_| value.starts_with("0x")) {
                Some(value) => found.push((name.to_owned(), value)),
                None => break,
            }
        }
        let any = !found.is_empty();
        thread.registers.extend(found);
        any
    }

    fn stacks(mut self, draft: &mut Draft) {
        for image in self.images {
            draft.image(image);
        }
        draft.index_images();
        // Images that only frames tell of have no UUID, and end where the text doesn't say.
        for (base, (name, highest)) in self.bases {
            if draft.image_at(base).is_none() {
                draft.image(Image {
                    name,
                    base,
                    size: (highest - base).saturating_add(1),
                    ..Image::default()
                });
            }
        }
        draft.index_images();
        for (at, mut thread) in self.threads.into_iter().enumerate() {
            keep_frames(&mut thread, self.left.remove(&Some(at)).unwrap_or_default());
            draft.thread(thread);
        }
        keep_frames(
            &mut self.exception,
            self.left.remove(&None).unwrap_or_default(),
        );
        if !self.exception.frames.is_empty() {
            draft.last_exception(self.exception);
            draft.event().kind = EventKind::Exception;
        }
    }
}

/// `Binary Images:`, or one of several lists: `Binary Images (dpkg):`.
fn is_images_title(line: &str) -> bool {
    line.strip_prefix("Binary Images")
        .is_some_and(|rest| rest == ":" || rest.starts_with(" (") && rest.ends_with("):"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(Thread [0-9]{0,3}( name| Crashed)?:|[0-9]{1,2} +[a-z?]{0,4} +0x[0-9a-f]{0,4} ?[+a-z0-9() ]{0,9}|Binary Images:|0x[0-9a-f]{0,3} - 0x[0-9a-f]{0,3} [+a-zé<>() /]{0,9}|\n|[A-Za-zé: (]{0,9}){0,20}") {
            let lines = LineNumbers::new(text.as_bytes(), text.as_bytes());
            let _ = read(&text, Fields::default(), lines);
        }
    }
}
