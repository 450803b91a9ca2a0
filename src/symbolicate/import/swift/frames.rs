//! Single lines of Swift's backtraces: frames, registers, images, titles of threads.

use crate::report::{Found, Image};
use crate::symbolicate::import::stack_lines::{Line, source, stack_line};
use crate::symbolicate::import::{JsonFields, values};
use crate::symbolicate::names::symbol_text;

/// A row of a stack.
#[derive(Debug)]
pub(super) enum BacktraceRow {
    /// How it was found, and its fields: that of a function that was inlined has `inlined`.
    Frame(Found, JsonFields),
    /// Frames that are not printed; the count where it is.
    Omitted(Option<u64>),
}

/// `  1 [ra] [system] 0x00007f22538f961f NAME + 302 in IMAGE at FILE:LINE:COLUMN`; `first` is the address of a frame without
/// one.
pub(super) fn parse_row(line: &str, first: u64) -> Option<BacktraceRow> {
    let line = line.trim();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = line[digits..].trim_start();
    if let Some(rest) = rest.strip_prefix("...") {
        return Some(BacktraceRow::Omitted(number_within(rest)));
    }
    if digits == 0 || digits > 7 || !line[digits..].starts_with([' ', '\t']) {
        return None;
    }
    let (mut found, mut inlined) = (Found::Context, false);
    while let Some((label, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        match label {
            "ra" => found = Found::Unknown,
            "async" => found = Found::AsyncCaller,
            "inlined" => inlined = true,
            "system" | "thunk" | "pc" => {}
            _ => break,
        }
        rest = behind.trim_start();
    }
    let word = rest.split(' ').next().unwrap_or("");
    let address = values::number(word).filter(|_| symbol_text::is_address(word));
    let what = address.map_or(rest, |_| rest[word.len()..].trim());
    if address.is_none() && what.is_empty() {
        return None;
    }
    let is_first = line[..digits].bytes().all(|c| c == b'0') || inlined;
    let pc = address.or(is_first.then_some(first)).unwrap_or(0);
    let line = Line {
        pc,
        inlined,
        ..placed(what)
    };
    Some(BacktraceRow::Frame(found, line.fields()))
}

fn number_within(text: &str) -> Option<u64> {
    let mut words = text.split(|c: char| !c.is_ascii_digit());
    words.find(|word| !word.is_empty())?.parse().ok()
}

/// `NAME + 302 in IMAGE at FILE:LINE:COLUMN`.
fn placed(what: &str) -> Line<'_> {
    let at = what.find(" at /").or_else(|| what.find(" at <"));
    let (front, place) = match at.or_else(|| what.rfind(" at ")) {
        // Without a place, ` at ` may be of the name.
        Some(at) if what[..at].contains(" in ") => (&what[..at], &what[at + 4..]),
        _ => (what, ""),
    };
    // Names of closures have the same word.
    let (name, image) = front.rsplit_once(" in ").unwrap_or((front, ""));
    let (symbol, offset) = match name.rsplit_once(" + ") {
        Some((symbol, offset)) if offset.parse::<u64>().is_ok() => (symbol, offset.parse().ok()),
        _ => (name, None),
    };
    Line {
        image: image.trim(),
        symbol: Some(symbol.trim()),
        offset,
        source: source(place),
        ..Line::default()
    }
}

/// A frame of the runtime's own trace, all of which are return addresses:
/// `3    libswiftCore.so   0x00007f704f6f94f0 NAME + 303`. The address is that of the function, where that is known, else
/// the frame's own.
pub(super) fn runtime_row(line: &str) -> Option<JsonFields> {
    let mut found = stack_line(line.trim())?;
    if found.name().is_some() {
        found.pc = found.pc.wrapping_add(found.offset.unwrap_or(0));
    }
    Some(found.fields())
}

/// `Thread 0 "kiosk" crashed:`: number, name, and if it crashed.
pub(super) fn thread_title(line: &str) -> Option<(u64, Option<String>, bool)> {
    let title = line.trim().strip_prefix("Thread ")?.strip_suffix(':')?;
    let rest = title.strip_suffix(" crashed").unwrap_or(title);
    let (number, name) = rest.split_once(' ').unwrap_or((rest, ""));
    let name = name.trim().trim_matches('"').to_owned();
    let name = Some(name).filter(|name| !name.is_empty());
    Some((number.parse().ok()?, name, rest != title))
}

/// `rax 0x0000000000000010  16`, or several: `cs 0x0033  fs 0x0000`.
pub(super) fn registers(line: &str) -> Vec<(String, u64)> {
    let groups = line.trim().split("  ").map(str::trim);
    let pair = |group: &str| {
        let (name, rest) = group.split_once(' ')?;
        let word = rest.trim().split(' ').next()?;
        let is_name = name.len() < 8 && name.bytes().all(|c| c.is_ascii_alphanumeric());
        let value = values::number(word).filter(|_| is_name && symbol_text::is_address(word))?;
        Some((name.to_owned(), value))
    };
    groups.map_while(pair).collect()
}

/// `0x000055d676c73000–0x000055d676c83c58 BUILDID NAME PATH`.
pub(super) fn image(line: &str) -> Option<Image> {
    let (range, rest) = line.trim().split_once(' ')?;
    let ends = range.split_once('\u{2013}');
    let (base, end) = ends.or_else(|| range.split_once('-'))?;
    let (base, end) = (values::number(base)?, values::number(end)?);
    let (id, rest) = match rest.trim_start().strip_prefix('<') {
        // `<no build ID>`
        Some(rest) => rest.split_once('>')?,
        None => rest.trim_start().split_once(' ').unwrap_or((rest, "")),
    };
    let rest = rest.trim();
    let (name, path) = match rest.find(" /") {
        Some(at) => (rest[..at].trim(), rest[at..].trim()),
        None => (rest, rest),
    };
    symbol_text::function(name, None)?;
    Some(Image {
        name: path.to_owned(),
        id: values::id(id),
        base,
        size: end.checked_sub(base)?,
        ..Image::default()
    })
}
