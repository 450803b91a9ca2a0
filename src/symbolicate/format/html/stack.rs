//! A stack on a page, the app's own frames in the light, with source code where there is some.

use std::fmt::Write as _;

use super::markup::escape;
use crate::symbolicate::format::{Excerpt, Style};
use crate::symbolicate::frame::{Frame, PhysicalFrame, Stack, Symbolicated, image_file_name};
use crate::symbolicate::group::is_own;

/// Frames of a stack that show their source code.
const SHOWN: usize = 8;
/// Lines before and behind that of a frame.
const AROUND: u32 = 4;

/// `with_source` says whether source code is to be shown, where the style has any.
pub(super) fn stack(
    page: &mut String,
    style: &Style,
    of: &Symbolicated,
    stack: &Stack,
    with_source: bool,
) {
    if stack.frames.is_empty() {
        page.push_str("<p class=\"note\">No frames.</p>\n");
        return;
    }
    let mut shown = if with_source { 0 } else { SHOWN };
    page.push_str("<div class=\"wide\"><table class=\"stack\">\n");
    let mut number = 0;
    let gap = |page: &mut String, index: usize| {
        if let Some(gap) = stack.omitted.filter(|gap| gap.at == index as u64) {
            let count = gap.count;
            let _ = writeln!(
                page,
                "<tr class=\"system\"><td></td><td colspan=\"4\">{count} frames are missing here</td></tr>"
            );
        }
    };
    for (index, physical) in stack.frames.iter().enumerate() {
        gap(page, index);
        let own = is_own(of, physical);
        let mut row = |frame: Option<&Frame>| {
            let excerpt = frame
                .filter(|_| own && shown < SHOWN)
                .and_then(|frame| excerpt(style, frame));
            shown += usize::from(excerpt.is_some());
            line(page, style, of, number, physical, frame, own);
            if let (Some(frame), Some(excerpt)) = (frame, excerpt) {
                source(page, frame, &excerpt);
            }
            number += 1;
        };
        if physical.frames.is_empty() {
            row(None);
        }
        physical.frames.iter().for_each(|frame| row(Some(frame)));
    }
    gap(page, stack.frames.len());
    page.push_str("</table></div>\n");
}

fn line(
    page: &mut String,
    style: &Style,
    of: &Symbolicated,
    number: usize,
    physical: &PhysicalFrame,
    frame: Option<&Frame>,
    own: bool,
) {
    let image = of.image(physical);
    let name = match (frame.and_then(|frame| style.name(frame)), image) {
        (Some(name), _) => escape(name),
        (None, Some(image)) => {
            let offset = physical.pc.wrapping_sub(image.base);
            format!("{} + {offset:#x}", escape(image_file_name(&image.name)))
        }
        (None, None) => "???".to_owned(),
    };
    let inlined = if frame.is_some_and(|frame| frame.inlined) {
        " <span class=\"tag\">inlined</span>"
    } else {
        ""
    };
    let file = frame
        .and_then(|frame| frame.file.as_deref())
        .map_or(String::new(), |file| {
            let line = frame
                .and_then(|frame| frame.line)
                .map_or(String::new(), |line| format!(":{line}"));
            format!(
                "<span title=\"{}\">{}{line}</span>",
                escape(file),
                escape(image_file_name(file))
            )
        });
    let image = image.map_or(String::new(), |image| escape(image_file_name(&image.name)));
    let class = if own { "own" } else { "system" };
    let _ = writeln!(
        page,
        "<tr class=\"{class}\"><td>{number}</td><td>{name}{inlined}</td><td>{file}</td><td>{image}</td>\
         <td><code>{:#x}</code></td></tr>",
        physical.pc
    );
}

fn excerpt(style: &Style, frame: &Frame) -> Option<Excerpt> {
    let sources = style.sources.as_ref()?;
    sources.excerpt(frame.file.as_deref()?, frame.line?, AROUND)
}

fn source(page: &mut String, frame: &Frame, excerpt: &Excerpt) {
    page.push_str("<tr class=\"source\"><td></td><td colspan=\"4\"><pre>");
    for (number, code) in (excerpt.first..).zip(&excerpt.lines) {
        let code = escape(&code.replace('\t', "    "));
        let (open, close) = if Some(number) == frame.line {
            ("<mark>", "</mark>")
        } else {
            ("", "")
        };
        let _ = writeln!(page, "{open}<i>{number:>5}</i>  {code}{close}");
    }
    page.push_str("</pre></td></tr>\n");
}
