//! The lines of a text within the file that ends with it, and without the indentation that pasting put in front.

use std::borrow::Cow;

/// Finds the numbers of a text's lines in the file that ends with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineNumbers<'a> {
    pub file: &'a [u8],
    /// Count of lines of the file that end before the text.
    above: usize,
}

impl LineNumbers<'_> {
    pub fn new<'a>(file: &'a [u8], text: &[u8]) -> LineNumbers<'a> {
        let before = &file[..file.len().saturating_sub(text.len())];
        let above = before.iter().filter(|byte| **byte == b'\n').count();
        LineNumbers { file, above }
    }

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

/// Text without the spaces that all its lines begin with where it was pasted into another: as many as stand
/// before the first label. Lines keep their numbers.
pub(super) fn dedented(text: &[u8]) -> Cow<'_, [u8]> {
    #[rustfmt::skip]
    const LABELS: [&[u8]; 8] = [
        b"Incident Identifier:", b"CrashReporter Key:", b"Hardware Model:", b"Process:",
        b"Date/Time:", b"OS Version:", b"Exception Type:", b"Command:",
    ];
    let indent = |line: &[u8]| line.len() - line.trim_ascii_start().len();
    let is_label = |line: &&[u8]| {
        let line = line.trim_ascii_start();
        LABELS.iter().any(|label| line.starts_with(label))
    };
    let first = text.split(|c| *c == b'\n').find(is_label);
    let spaces = first.map_or(0, indent);
    if spaces == 0 {
        return Cow::Borrowed(text);
    }
    let lines = text.split(|c| *c == b'\n');
    let lines: Vec<&[u8]> = lines
        .map(|line| &line[spaces.min(indent(line))..])
        .collect();
    Cow::Owned(lines.join(&b'\n'))
}
