//! A stack on a page: the app's own frames in the light, runs of others folded, source code where there
//! is some.

use std::fmt::Write as _;

use crate::symbolicate::blame::{Blamed, Owner, each, owner};
use crate::symbolicate::format::facts::count;
use crate::symbolicate::format::plain::escape;
use crate::symbolicate::format::stacks::repeated;
use crate::symbolicate::format::{Excerpt, Style};
use crate::symbolicate::frame::{Frame, Stack, Symbolicated, image_file_name};

/// Frames of a stack that show their source code.
const SHOWN: usize = 8;
/// Lines before and behind that of a frame.
const AROUND: u32 = 4;
/// Frames in a row that are not the app's and are folded.
const FOLD: usize = 3;

/// `with_source` says whether source code is to be shown, where the style has any.
pub(super) fn stack(
    page: &mut String,
    style: &Style,
    of: &Symbolicated,
    stack: &Stack,
    with_source: bool,
) {
    let frames: Vec<(Blamed<'_>, Owner)> = each(stack)
        .map(|frame| (frame, owner(of, frame.physical, frame.frame)))
        .collect();
    if frames.is_empty() {
        page.push_str("<p class=\"note\">No frames.</p>\n");
        return;
    }
    let folds = style.verbose || frames.iter().all(|(_, owner)| *owner != Owner::App);
    let mut rows = Rows {
        page,
        style,
        of,
        stack,
        shown: if with_source { 0 } else { SHOWN },
    };
    rows.page.push_str("<div class=\"stack\">\n");
    let mut number = 0;
    for run in frames.chunk_by(|(_, a), (_, b)| (*a == Owner::App) == (*b == Owner::App)) {
        let is_folded = !folds && run[0].1 != Owner::App && run.len() >= FOLD;
        if is_folded {
            let mut owners: Vec<&str> = run.iter().map(|(_, owner)| words(*owner)).collect();
            owners.sort_unstable();
            owners.dedup();
            let (frames, owners) = (count(run.len() as u64, "frame"), owners.join(", "));
            let _ = writeln!(
                rows.page,
                "<details class=\"fold\"><summary>{frames}: {owners}</summary>"
            );
        }
        let mut again = 0;
        for (frame, owner) in run {
            let index = rows.row(number, frame, *owner == Owner::App);
            number += 1;
            if again > 0 {
                again -= 1;
                rows.page
                    .push_str(if again == 0 { "</details>\n" } else { "" });
            } else if !style.verbose
                && let more @ 1.. = index.map_or(0, |index| repeated(stack, index))
            {
                again = more;
                let times = count(more as u64, "time");
                let _ = writeln!(
                    rows.page,
                    "<details class=\"fold\"><summary>the same {times} more</summary>"
                );
            }
        }
        if is_folded {
            rows.page.push_str("</details>\n");
        }
    }
    rows.gap(stack.frames.len());
    rows.page.push_str("</div>\n");
}

fn words(owner: Owner) -> &'static str {
    match owner {
        Owner::App => "the app",
        Owner::Library => "libraries",
        Owner::Language => "the language's library",
        Owner::Recorder => "the recorder",
        Owner::System => "the system",
    }
}

/// Rows being written.
struct Rows<'a> {
    page: &'a mut String,
    style: &'a Style,
    of: &'a Symbolicated,
    stack: &'a Stack,
    /// Count of frames that have shown their source code.
    shown: usize,
}

impl Rows<'_> {
    fn gap(&mut self, index: usize) {
        if let Some(gap) = self.stack.omitted.filter(|gap| gap.at == index as u64) {
            let count = gap.count;
            let _ = writeln!(
                self.page,
                "<p class=\"note\">{count} frames are missing here</p>"
            );
        }
    }

    /// Writes a row; the index of its frame in the stack.
    fn row(&mut self, number: usize, frame: &Blamed<'_>, own: bool) -> Option<usize> {
        let mut frames = self.stack.frames.iter();
        let physical = frames.position(|at| std::ptr::eq(at, frame.physical));
        let first = frame.physical.frames.first();
        let is_first = frame.frame.zip(first);
        let is_first = is_first.is_none_or(|(one, first)| std::ptr::eq(one, first));
        if let Some(index) = physical.filter(|_| is_first) {
            self.gap(index);
        }
        self.line(number, frame, own);
        let shows = own && self.shown < SHOWN;
        let excerpt = frame.frame.filter(|_| shows);
        let excerpt = excerpt.and_then(|frame| Some((frame, self.excerpt(frame)?)));
        if let Some((frame, excerpt)) = excerpt {
            self.shown += 1;
            source(self.page, frame, &excerpt);
        }
        physical
    }

    fn excerpt(&self, frame: &Frame) -> Option<Excerpt> {
        let sources = self.style.sources.as_ref()?;
        sources.excerpt(frame.file.as_deref()?, frame.line?, AROUND)
    }

    fn line(&mut self, number: usize, blamed: &Blamed<'_>, own: bool) {
        let (physical, frame) = (blamed.physical, blamed.frame);
        let image = self.of.image(physical);
        let name = match (frame.and_then(|frame| self.style.name(frame)), image) {
            (Some(name), _) => escape(name),
            (None, Some(image)) => {
                let offset = physical.pc.wrapping_sub(image.base);
                format!("{} + {offset:#x}", escape(image_file_name(&image.name)))
            }
            (None, None) => "???".to_owned(),
        };
        let tag = match frame.is_some_and(|frame| frame.inlined) {
            true => " <span class=\"tag\">inlined</span>",
            false if physical.is_guess() => " <span class=\"tag\">guess</span>",
            false => "",
        };
        let line = frame.and_then(|frame| frame.line);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let file = frame.and_then(|frame| frame.file.as_deref());
        let file = file.map_or(String::new(), |file| {
            let (path, name) = (escape(file), escape(image_file_name(file)));
            format!("<span title=\"{path}\">{name}{line}</span>")
        });
        let image = image.map_or(String::new(), |image| escape(image_file_name(&image.name)));
        let class = if own { "frame own" } else { "frame" };
        let _ = writeln!(
            self.page,
            "<div class=\"{class}\"><i>{number}</i><b>{name}{tag}</b><span class=\"file\">{file}</span>\
             <span class=\"image\">{image}</span><code>{:#x}</code></div>",
            physical.pc
        );
    }
}

fn source(page: &mut String, frame: &Frame, excerpt: &Excerpt) {
    page.push_str("<pre class=\"source\">");
    for (number, code) in (excerpt.first..).zip(&excerpt.lines) {
        let code = escape(&code.replace('\t', "    "));
        let (open, close) = match Some(number) == frame.line {
            true => ("<mark>", "</mark>"),
            false => ("", ""),
        };
        let _ = writeln!(page, "{open}<i>{number:>5}</i>  {code}{close}");
    }
    page.push_str("</pre>\n");
}
