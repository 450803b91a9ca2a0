//! Text as a program wrote it: without colours, quotes, fences, indentation, and what logs and mail put in front.

use std::borrow::Cow;

/// A line of the text. A fence leaves [`FENCE`], so that lines keep their numbers.
pub(super) type Line<'a> = Cow<'a, str>;

/// The line that replaces a fence: empty for each reader, but the end of a report without a header.
pub(super) const FENCE: &str = "\u{c}";

/// Longest prefix of a line.
const PREFIX: usize = 160;

/// The places of a text's lines in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineNumbers<'a> {
    pub file: &'a [u8],
    /// Count of lines of the file before the text.
    pub above: usize,
}

impl LineNumbers<'_> {
    /// The numbers in the file of lines of the text, and where they begin there, in bytes. The numbers given are in
    /// order, and the first line's is 1.
    pub fn places(&self, numbers: Vec<usize>) -> impl Iterator<Item = (usize, usize)> {
        let ends = self.file.iter().enumerate();
        let ends = ends.filter(|(_, byte)| **byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1));
        let mut starts = (1..).zip(starts);
        let mut last = (1, 0);
        numbers.into_iter().map(move |number| {
            let number = self.above + number;
            while last.0 < number {
                let Some(next) = starts.next() else { break };
                last = next;
            }
            (number, last.1)
        })
    }
}

/// The lines of a text, plain.
pub(super) fn plain_lines(text: &str) -> Vec<Line<'_>> {
    let mut lines: Vec<Line> = text.split('\n').map(unquoted).collect();
    let mut prefix = String::new();
    let mut from = 0;
    for at in 0..lines.len() {
        if let Some(found) = prefix_at(&lines, at).filter(|found| *found != prefix) {
            // The lines before the first mark have its prefix.
            if from > 0 || !prefix.is_empty() {
                strip(&mut lines[from..at], &prefix);
                from = at;
            }
            prefix = found;
        }
    }
    strip(&mut lines[from..], &prefix);
    lines
}

/// A line without colours, and without the marks of a quotation.
fn unquoted(line: &str) -> Line<'_> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let mut line = match line.contains('\x1b') {
        true => Cow::Owned(without_colours(line)),
        false => Cow::Borrowed(line),
    };
    while let Some(rest) = line.trim_start().strip_prefix('>')
        && (rest.is_empty() || rest.starts_with([' ', '>', '`']))
    {
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        line = Cow::Owned(rest.to_owned());
    }
    let start = line.trim_start();
    if start.starts_with("```") || start.starts_with("~~~") {
        return Cow::Borrowed(FENCE);
    }
    line
}

/// Returns what is in front of a mark of a report in a line. Some marks are words that other lines have, too: with these
/// the next line must have the same in front.
fn prefix_at(lines: &[Line], at: usize) -> Option<String> {
    #[rustfmt::skip]
    const MARKS: [&str; 9] = [
        "*** Signal ", "*** Program crashed: ", "*** Swift runtime failure: ", "💣 ", "Current stack trace:",
        "*** First throw call stack:", "Analysis of sampling ", "# Crashlytics - ", "Stack trace of thread ",
    ];
    #[rustfmt::skip]
    const LABELS: [&str; 11] = [
        "Incident Identifier:", "CrashReporter Key:", "Hardware Model:", "Process:", "Date/Time:", "OS Version:",
        "Exception Type:", "Command:", "Thread 0", "Last Exception Backtrace:", "Binary Images:",
    ];
    let line = &lines[at];
    let first = |marks: &[&str]| marks.iter().filter_map(|mark| line.find(mark)).min();
    if let Some(at) = first(&MARKS).filter(|at| *at <= PREFIX) {
        return Some(line[..at].to_owned());
    }
    let prefix = &line[..first(&LABELS).filter(|at| *at <= PREFIX)?];
    let mut below = lines[at + 1..].iter().take(8);
    let below = below.find(|line| !line.trim().is_empty())?;
    (prefix_len(below, prefix) == prefix.len()).then(|| prefix.to_owned())
}

fn strip(lines: &mut [Line], prefix: &str) {
    for line in lines.iter_mut().filter(|_| !prefix.is_empty()) {
        match prefix_len(line, prefix) {
            0 => {}
            len => *line = Cow::Owned(line[len..].to_owned()),
        }
    }
}

/// Length of the prefix of a line that is like another line's: times and numbers differ. Of an indentation, as much of it
/// as the line has.
fn prefix_len(line: &str, prefix: &str) -> usize {
    if prefix.trim().is_empty() {
        let pairs = line.bytes().zip(prefix.bytes());
        return pairs.take_while(|(a, b)| a == b).count();
    }
    // An empty line's prefix may have lost its last spaces.
    let len = prefix.len().min(line.len());
    let class = |c: u8| if c.is_ascii_digit() { b'0' } else { c };
    let mut pairs = line.bytes().zip(prefix.bytes());
    let is_alike = pairs.all(|(a, b)| class(a) == class(b));
    let is_whole = prefix.get(len..).is_some_and(|rest| rest.trim().is_empty());
    if is_alike && is_whole && line.is_char_boundary(len) {
        len
    } else {
        0
    }
}

/// Without the sequences by which terminals colour and clear lines: `ESC [ … letter`.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((front, after)) = rest.split_once('\x1b') {
        plain.push_str(front);
        rest = match after.strip_prefix('[') {
            Some(after) => {
                let end = after.find(|c: char| c.is_ascii_alphabetic());
                end.map_or("", |end| &after[end + 1..])
            }
            None => after,
        };
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_colours_quotes_and_fences_are_taken_off() {
        for (text, expected) in [
            (
                "12:00:01 kiosk[77]: starting\n12:00:01 kiosk[77]: *** Signal 4: Backtracing from 0x1... done ***\n\
                 12:00:02 kiosk[77]: Thread 0 crashed:\n12:00:02 kiosk[77]:",
                "starting\n*** Signal 4: Backtracing from 0x1... done ***\nThread 0 crashed:\n",
            ),
            (
                "\x1b[90m12:00 *** Program crashed: x\x1b[39m\n12:01 0 \x1b[34m[ra]\x1b[39m",
                "*** Program crashed: x\n0 [ra]",
            ),
            (
                "He wrote:\n> > ```\n> > Process: kiosk\n> >\n> > Path: /kiosk\n> > ```\nso",
                "He wrote:\n\u{c}\nProcess: kiosk\n\nPath: /kiosk\n\u{c}\nso",
            ),
            (
                "It died:\n    Process: kiosk\n    Path: /kiosk\n  a",
                "It died:\nProcess: kiosk\nPath: /kiosk\na",
            ),
            (
                "Parent Process: a [1]\nRole: b",
                "Parent Process: a [1]\nRole: b",
            ),
        ] {
            assert_eq!(plain_lines(text).join("\n"), expected);
        }
    }
}
