//! JSON that a terminal can show: what it would obey is written as `\u001b`, which is the same text.

use std::io;

use super::plain::is_command;

/// Passes JSON on to a writer. In JSON, characters other than ASCII stand in strings alone, and any of
/// them may be written by its number.
pub(crate) struct PlainJson<W>(pub W);

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
                write!(self.0, "\\u{:04x}", u32::from(c))?;
                from = at + c.len_utf8();
            }
        }
        self.0.write_all(&bytes[from..])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
