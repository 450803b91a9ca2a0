//! Text from strangers, made safe for a terminal, in JSON, and on a page.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

/// `text` without anything that a terminal would obey. Control characters, line ends, marks that turn
/// the direction of writing, characters without width, and what is not a character (XML cannot write it) become `\u{1b}`.
pub fn plain(text: &str) -> Cow<'_, str> {
    // Nearly all text is printable ASCII; without an early end this runs many bytes at a time.
    let odd = |odd: bool, byte: u8| odd | !(0x20..0x7f).contains(&byte);
    if !text.bytes().fold(false, odd) || !text.chars().any(is_command) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_command(c) {
            let _ = write!(safe, "\\u{{{:x}}}", c as u32);
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Returns true if a terminal (or a text layout) would obey `c` rather than show it, or shows nothing in its place, so that
/// two different names look the same: Unicode's `Default_Ignorable_Code_Point`, controls, line ends, other direction.
pub(crate) fn is_command(c: char) -> bool {
    #[rustfmt::skip]
    const RANGES: [(char, char); 19] = [
        ('\u{ad}', '\u{ad}'), ('\u{34f}', '\u{34f}'), ('\u{61c}', '\u{61c}'), ('\u{115f}', '\u{1160}'),
        ('\u{17b4}', '\u{17b5}'), ('\u{180b}', '\u{180f}'), ('\u{200b}', '\u{200f}'), ('\u{2028}', '\u{202e}'),
        ('\u{2060}', '\u{206f}'), ('\u{2800}', '\u{2800}'), ('\u{3164}', '\u{3164}'), ('\u{fe00}', '\u{fe0f}'),
        ('\u{feff}', '\u{feff}'), ('\u{ffa0}', '\u{ffa0}'), ('\u{fff0}', '\u{fffb}'), ('\u{fffe}', '\u{ffff}'),
        ('\u{1bca0}', '\u{1bca3}'), ('\u{1d173}', '\u{1d17a}'), ('\u{e0000}', '\u{e0fff}'),
    ];
    c.is_control() || c >= RANGES[0].0 && RANGES.iter().any(|(from, to)| (from..=to).contains(&&c))
}

/// Passes JSON on to a writer. In JSON, characters other than ASCII stand in strings alone, and any of
/// them may be written by its number.
pub(crate) struct PlainJson<W>(pub W);

impl PlainJson<Vec<u8>> {
    /// Returns JSON as bytes, and what follows it. JSON of values, whose keys are all texts, never fails.
    pub fn bytes(json: &impl serde::Serialize, end: &[u8]) -> Vec<u8> {
        let mut out = PlainJson(Vec::new());
        let _ = serde_json::to_writer(&mut out, json);
        [&out.0, end].concat()
    }
}

impl<W: io::Write> io::Write for PlainJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    /// `bytes` hold whole characters: serde_json gives strings out in runs of them.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.iter().all(|&byte| byte < 0x7f) {
            return self.0.write_all(bytes);
        }
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        let mut from = 0;
        for (at, c) in text.char_indices() {
            // Control characters below are escaped already; line ends between values are ours.
            if c >= '\x7f' && is_command(c) {
                self.0.write_all(&bytes[from..at])?;
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(self.0, "\\u{unit:04x}")?;
                }
                from = at + c.len_utf8();
            }
        }
        self.0.write_all(&bytes[from..])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// `text` with nothing in it that a browser or a terminal would obey; fit for attributes, too.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    for c in plain(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_would_obey_is_left() {
        assert_eq!(plain("main.rs"), "main.rs");
        assert_eq!(plain("größe\t"), "größe\\u{9}");
        assert_eq!(plain("\x1b[2Jgone"), "\\u{1b}[2Jgone");
        assert_eq!(plain("a\u{202e}b\nc\u{9b}d"), "a\\u{202e}b\\u{a}c\\u{9b}d");
    }

    /// Names that look like `main` and are others.
    #[test]
    fn characters_without_width_are_shown_by_their_number() {
        let invisible = [
            '\u{ad}',
            '\u{34f}',
            '\u{115f}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{2060}',
            '\u{2064}',
            '\u{206a}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{fff9}',
            '\u{ffa0}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{e01ef}',
        ];
        for c in invisible {
            let name = format!("ma{c}in");
            let number = u32::from(c);
            assert_eq!(plain(&name), format!("ma\\u{{{number:x}}}in"));
            assert_eq!(escape(&name), format!("ma\\u{{{number:x}}}in"));
            let mut json = Vec::new();
            serde_json::to_writer(PlainJson(&mut json), &name).unwrap();
            assert!(json.is_ascii(), "{number:x}");
            assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), name);
        }
    }

    #[test]
    fn it_is_the_same_text_without_what_a_terminal_obeys() {
        let text = "größe \x1b[2J \u{9b}2J \u{7f} \u{202e}evil\u{feff} 𝄞";
        let mut json = Vec::new();
        serde_json::to_writer(PlainJson(&mut json), text).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert!(!json.chars().any(is_command), "{json:?}");
        assert!(json.contains("größe") && json.contains("𝄞"), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn nothing_a_browser_would_obey_is_left() {
        assert_eq!(
            escape("<script>'a' & \"b\"\u{202e}</script>"),
            "&lt;script&gt;&#39;a&#39; &amp; &quot;b&quot;\\u{202e}&lt;/script&gt;"
        );
    }
}
