//! Text as a program wrote it: without colours, quotes, fences, indentation, what logs and mail put in front, no-break spaces,
//! and HTML's escapes.

use std::borrow::Cow;

/// A line of the text. A fence leaves [`FENCE`], so that lines keep their numbers.
pub(super) type Line<'a> = Cow<'a, str>;

/// The line that replaces a fence: empty for each reader, but the end of a report without a header.
pub(super) const FENCE: &str = "\u{c}";

/// What a line says of the report that it is in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Role {
    /// The header of a report, or a label of it that comes once: the second begins another report.
    Header(&'static str),
    /// Something that only this layout has within a report.
    Body,
    /// A stack of a layout whose reports have one.
    Stack,
    /// A label that other texts have, too: the report is one if it has something else.
    Label(&'static str),
}

/// The first line after `at` that is not empty, without spaces around.
pub(super) fn text_below<'a>(lines: &'a [Line], at: usize) -> &'a str {
    let mut below = lines.iter().skip(at + 1).take(8).map(|line| line.trim());
    below.find(|line| !line.is_empty()).unwrap_or("")
}

/// Longest prefix of a line.
const MAX_PREFIX: usize = 160;

/// The places of a report's lines in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineNumbers<'a> {
    /// Where each line begins, in bytes, from the report's first to the text's last.
    pub starts: &'a [usize],
    /// Count of lines of the file before the report.
    pub above: usize,
}

impl LineNumbers<'_> {
    /// The number in the file of a line of the report, and where it begins there. The first line's number is 1.
    pub fn place(&self, number: usize) -> (usize, usize) {
        let start = self.starts.get(number - 1).or(self.starts.last());
        let start = start.copied().unwrap_or(0);
        (self.above.saturating_add(number), start)
    }
}

/// The lines of a text, plain.
pub(super) fn plain_lines(text: &str) -> Vec<Line<'_>> {
    let is_html = text.contains("&lt;") && !text.contains(" <");
    let lines = text.split('\n').map(|line| unquoted(line, is_html));
    let mut lines: Vec<Line> = lines.collect();
    let mut prefix = String::new();
    let mut from = 0;
    for at in 0..lines.len() {
        if let Some(found) = prefix_at(&lines, at).filter(|found| *found != prefix) {
            // The lines before the first signature have its prefix.
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

/// A line without colours, and without the words of a quotation. A no-break space is a blank, and in
/// HTML an escaped character is itself.
fn unquoted(line: &str, is_html: bool) -> Line<'_> {
    const ESCAPES: [(&str, &str); 4] = [
        ("\u{a0}", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ];
    let line = line.strip_suffix('\r').unwrap_or(line);
    let mut line = without_colours(line);
    for (escape, character) in &ESCAPES[..if is_html { 4 } else { 1 }] {
        if line.contains(escape) {
            line = Cow::Owned(line.replace(escape, character));
        }
    }
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

/// Returns what is in front of a signature of a report in a line. Labels are words that other lines have, too: with these
/// the next line must have the same in front.
fn prefix_at(lines: &[Line], at: usize) -> Option<String> {
    #[rustfmt::skip]
    const SIGNATURES: [&str; 9] = [
        "*** Signal ", "*** Program crashed: ", "*** Swift ", "💣 ", "Current stack trace:",
        "*** First throw call stack:", "Analysis of sampling ", "# Crashlytics - ", "Stack trace of thread ",
    ];
    #[rustfmt::skip]
    const LABELS: [&str; 11] = [
        "Incident Identifier:", "CrashReporter Key:", "Hardware Model:", "Process:", "Date/Time:", "OS Version:",
        "Exception Type:", "Command:", "Thread 0", "Last Exception Backtrace:", "Binary Images:",
    ];
    let line = &lines[at];
    let first = |words: &[&str]| words.iter().filter_map(|word| line.find(word)).min();
    if let Some(at) = first(&SIGNATURES).filter(|at| *at <= MAX_PREFIX) {
        return Some(line[..at].to_owned());
    }
    let prefix = &line[..first(&LABELS).filter(|at| *at <= MAX_PREFIX)?];
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
    let is_prefix = is_alike && is_whole && line.is_char_boundary(len);
    if is_prefix { len } else { 0 }
}

/// Without the sequences by which terminals colour and clear lines: `ESC [ … letter`.
fn without_colours(line: &str) -> Line<'_> {
    if !line.contains('\x1b') {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((front, after)) = rest.split_once('\x1b') {
        plain.push_str(front);
        let code = after.strip_prefix('[');
        let code = code.map(|code| code.trim_start_matches(|c: char| !c.is_ascii_alphabetic()));
        rest = code.map_or(after, |code| code.get(1..).unwrap_or(""));
    }
    plain.push_str(rest);
    Cow::Owned(plain)
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
                "Process:\u{a0}\u{a0} a [1]\nPath: a &lt; b <c>",
                "Process:   a [1]\nPath: a &lt; b <c>",
            ),
            (
                "> Foo&lt;int&gt;::f(A &amp;&amp;) &lt;1a2b&gt;",
                "Foo<int>::f(A &&) <1a2b>",
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
