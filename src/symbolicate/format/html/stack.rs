//! A stack on a page: the app's own frames in the light, runs of others folded, source code where there
//! is some.

use std::fmt::Write as _;

use crate::symbolicate::blame::{Blamed, Owner, frames_of, owner};
use crate::symbolicate::format::facts::count;
use crate::symbolicate::format::file_names::FileNames;
use crate::symbolicate::format::plain::escape;
use crate::symbolicate::format::stacks::{StackRow, chain_ends, rows};
use crate::symbolicate::format::{Excerpt, Style};
use crate::symbolicate::frame::{
    Awaiting, PhysicalFrame, SourceFrame, Stack, Symbolicated, image_file_name,
};

/// Frames of a stack that show their source code.
const MAX_WITH_SOURCE: usize = 8;
/// Lines before and behind that of a frame.
const LINES_AROUND: u32 = 4;
/// Frames in a row that are not the app's and are folded.
const MIN_FOLDED: usize = 3;

/// `with_source` says whether source code is to be shown, where the style has any.
pub(super) fn stack(
    page: &mut String,
    style: &Style,
    of: &Symbolicated,
    stack: &Stack,
    with_source: bool,
) {
    let (frames, behind) = rows(stack);
    let owner = |row: &StackRow<'_>| owner(of, row.blamed.physical, row.blamed.frame);
    let frames = frames.into_iter();
    let frames: Vec<_> = frames.map(|row| (owner(&row), row)).collect();
    if frames.is_empty() {
        page.push_str("<p class=\"note\">No frames.</p>\n");
        return;
    }
    let folds = style.verbose || frames.iter().all(|(owner, _)| *owner != Owner::App);
    let mut rows = Rows {
        page,
        style,
        of,
        files: FileNames::of(of),
        shown: if with_source { 0 } else { MAX_WITH_SOURCE },
    };
    rows.page.push_str("<div class=\"stack\">\n");
    for run in frames.chunk_by(|(a, _), (b, _)| (*a == Owner::App) == (*b == Owner::App)) {
        let is_folded = !folds && run[0].0 != Owner::App && run.len() >= MIN_FOLDED;
        if is_folded {
            let mut owners: Vec<&str> = run.iter().map(|(owner, _)| owner_label(*owner)).collect();
            owners.sort_unstable();
            owners.dedup();
            let (frames, owners) = (count(run.len() as u64, "frame"), owners.join(", "));
            let _ = writeln!(
                rows.page,
                "<details class=\"fold\"><summary>{frames}: {owners}</summary>"
            );
        }
        let mut again = 0;
        for (owner, row) in run {
            rows.row(row, *owner == Owner::App);
            if let Some(tasks) = row.awaiting {
                rows.awaiting(tasks);
            }
            if again > 0 {
                again -= 1;
                rows.page
                    .push_str(if again == 0 { "</details>\n" } else { "" });
            } else if !style.verbose
                && let more @ 1.. = row.again
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
    rows.gap(behind);
    rows.page.push_str("</div>\n");
}

fn owner_label(owner: Owner) -> &'static str {
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
    files: FileNames,
    /// Count of frames that have shown their source code.
    shown: usize,
}

impl Rows<'_> {
    fn gap(&mut self, missing: Option<u64>) {
        if let Some(count) = missing {
            let _ = writeln!(
                self.page,
                "<p class=\"note\">{count} frames are missing here</p>"
            );
        }
    }

    fn row(&mut self, row: &StackRow<'_>, own: bool) {
        self.gap(row.missing);
        let number = row.number.to_string();
        self.line(&number, row.blamed.physical, row.blamed.frame, own);
        let shows = own && self.shown < MAX_WITH_SOURCE;
        let excerpt = row.blamed.frame.filter(|_| shows);
        let excerpt = excerpt.and_then(|frame| Some((frame, self.excerpt(frame)?)));
        if let Some((frame, excerpt)) = excerpt {
            self.shown += 1;
            source(self.page, frame, &excerpt);
        }
    }

    /// The callers that await a function.
    fn awaiting(&mut self, tasks: &Awaiting) {
        if !tasks.callers.is_empty() {
            self.page.push_str("<p class=\"note\">awaited by</p>\n");
        }
        for Blamed { physical, frame } in tasks.callers.iter().flat_map(frames_of) {
            let own = owner(self.of, physical, frame) == Owner::App;
            self.line("~", physical, frame, own);
        }
        if let Some(why) = chain_ends(tasks) {
            let _ = writeln!(self.page, "<p class=\"note\">{why}</p>");
        }
    }

    fn excerpt(&self, frame: &SourceFrame) -> Option<Excerpt> {
        let sources = self.style.sources.as_ref()?;
        sources.excerpt(frame.file.as_deref()?, frame.line?, LINES_AROUND)
    }

    fn line(
        &mut self,
        number: &str,
        physical: &PhysicalFrame,
        frame: Option<&SourceFrame>,
        own: bool,
    ) {
        let image = self.of.image(physical);
        let name = match (frame.and_then(|frame| self.style.name(frame)), image) {
            (Some(name), _) => escape(name),
            (None, Some(image)) => {
                let offset = physical.pc.wrapping_sub(image.base);
                format!("{} + {offset:#x}", escape(image_file_name(&image.name)))
            }
            (None, None) => "???".to_owned(),
        };
        let tag = if frame.is_some_and(|frame| frame.inlined) {
            " <span class=\"tag\">inlined</span>"
        } else if physical.is_guess() {
            " <span class=\"tag\">guess</span>"
        } else {
            ""
        };
        let line = frame.and_then(|frame| frame.line);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let file = frame.and_then(|frame| frame.file.as_deref());
        let file = file.map_or(String::new(), |file| {
            let (path, name) = (escape(file), escape(self.files.visible_part(file)));
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

fn source(page: &mut String, frame: &SourceFrame, excerpt: &Excerpt) {
    page.push_str("<pre class=\"source\" tabindex=\"0\">");
    for (number, code) in (excerpt.first..).zip(&excerpt.lines) {
        let code = escape(code);
        let is_it = usize::from(Some(number) == frame.line);
        let (open, close) = [("", ""), ("<mark>", "</mark>")][is_it];
        let _ = writeln!(page, "{open}<i>{number:>5}</i>  {code}{close}");
    }
    page.push_str("</pre>\n");
}
