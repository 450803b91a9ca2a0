//! Lines of a log as the program wrote them: without colours, and without what a collector puts in front.

/// Takes colours and prefixes from lines, one after the other.
#[derive(Default)]
pub(super) struct LogLines {
    /// The text in front of the latest mark of a backtrace.
    prefix: String,
}

/// Longest prefix of a line.
const PREFIX: usize = 160;

impl LogLines {
    pub fn plain(&mut self, line: &str) -> String {
        let line = without_colours(line);
        let marks = [
            "*** Signal ",
            "*** Program crashed: ",
            "*** Swift runtime failure: ",
            "💣 ",
            "Current stack trace:",
        ];
        let at = marks.iter().filter_map(|mark| line.find(mark)).min();
        if let Some(at) = at.filter(|at| *at <= PREFIX) {
            self.prefix.clear();
            self.prefix.push_str(&line[..at]);
        }
        self.without_prefix(&line).to_owned()
    }

    /// A line without the prefix of the others.
    pub fn without_prefix<'a>(&self, line: &'a str) -> &'a str {
        &line[has_prefix(line, &self.prefix).unwrap_or(0)..]
    }
}

/// Length of the prefix of a line that is made as another one: times and numbers differ.
fn has_prefix(line: &str, prefix: &str) -> Option<usize> {
    // An empty line's prefix may have lost its last spaces.
    let len = prefix.len().min(line.len());
    let class = |c: u8| if c.is_ascii_digit() { b'0' } else { c };
    let pairs = line.bytes().zip(prefix.bytes());
    let is_alike = pairs.take(len).all(|(a, b)| class(a) == class(b));
    let is_whole = prefix.get(len..).is_some_and(|rest| rest.trim().is_empty());
    (is_alike && is_whole && line.is_char_boundary(len)).then_some(len)
}

/// Without the sequences by which terminals colour and clear lines: `ESC [ … letter`.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((front, behind)) = rest.split_once('\x1b') {
        plain.push_str(front);
        rest = match behind.strip_prefix('[') {
            Some(behind) => {
                let end = behind.find(|c: char| c.is_ascii_alphabetic());
                end.map_or("", |end| &behind[end + 1..])
            }
            None => behind,
        };
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_colours_are_taken_off() {
        let mut lines = LogLines::default();
        assert_eq!(
            lines.plain("12:00:01 kiosk[77]: starting"),
            "12:00:01 kiosk[77]: starting"
        );
        assert_eq!(
            lines.plain("12:00:01 kiosk[77]: *** Signal 4: Backtracing from 0x1... done ***"),
            "*** Signal 4: Backtracing from 0x1... done ***"
        );
        assert_eq!(
            lines.plain("12:00:02 kiosk[77]: Thread 0 crashed:"),
            "Thread 0 crashed:"
        );
        assert_eq!(lines.plain("12:00:02 kiosk[77]:"), "");
        assert_eq!(lines.plain("Thread 0 crashed:"), "Thread 0 crashed:");
        assert_eq!(
            lines.plain("\x1b[90m12:00:02 kiosk[77]: 0\x1b[39m \x1b[34m[ra]\x1b[39m"),
            "0 [ra]"
        );
    }
}
