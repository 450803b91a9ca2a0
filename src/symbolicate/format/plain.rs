//! Text from strangers, made safe for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` without anything that a terminal would obey. Control characters, line ends, marks that turn
/// the direction of writing, and what is not a character (XML cannot write it) become `\u{1b}`.
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

/// Returns true if a terminal (or a text layout) would obey `c` rather than show it.
pub(crate) fn is_command(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
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
}
