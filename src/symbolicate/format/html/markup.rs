//! Text from strangers as text of a page.

use crate::symbolicate::format::plain;

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
    fn nothing_a_browser_would_obey_is_left() {
        assert_eq!(
            escape("<script>'a' & \"b\"\u{202e}</script>"),
            "&lt;script&gt;&#39;a&#39; &amp; &quot;b&quot;\\u{202e}&lt;/script&gt;"
        );
    }
}
