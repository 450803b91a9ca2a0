//! Titles of reports and groups, as a developer would write them in an issue: what happened, where, and the message.

/// Characters of a message that a title has.
const MAX_MESSAGE: usize = 90;
/// Characters of a message that are compared.
const MAX_COMPARED: usize = 300;

/// The parts of a title.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TitleParts<'a> {
    /// The kind of event: `panic`.
    pub what: &'a str,
    /// The code by which the system ended the app.
    pub ended_by: Option<&'a str>,
    /// How long it lasted, in words.
    pub lasted: Option<&'a str>,
    /// The function; of one without a name, its image.
    pub function: Option<&'a str>,
    /// Its file and line: `act.rs:12`.
    pub place: Option<&'a str>,
    /// The message, [`shortened`].
    pub message: Option<&'a str>,
}

impl TitleParts<'_> {
    /// `panic in act (act.rs:12): no such price: 7`.
    pub fn text(&self) -> String {
        let part = |text: Option<&str>, front: &str, behind: &str| {
            text.map_or(String::new(), |text| format!("{front}{text}{behind}"))
        };
        [
            self.what.to_owned(),
            part(self.ended_by, " (", ")"),
            part(self.lasted, " of ", ""),
            part(self.function, " in ", ""),
            part(self.place, " (", ")"),
            part(self.message, ": ", ""),
        ]
        .concat()
    }
}

/// The first line of a message, cut between two words.
pub(crate) fn shortened(message: &str) -> Option<String> {
    let line = first_line(message)?;
    let Some((end, _)) = line.char_indices().nth(MAX_MESSAGE) else {
        return Some(line.to_owned());
    };
    let cut = &line[..end];
    let word = cut.rfind(char::is_whitespace).filter(|at| *at > end / 2);
    let cut = word.map_or(cut, |at| &cut[..at]);
    Some(format!("{} …", cut.trim_end()))
}

/// A message without what differs between two reports of one fault: numbers, addresses, quoted texts. Its first line; the
/// lines after it are data.
pub(crate) fn pattern(message: &str) -> Option<String> {
    let line = first_line(message)?;
    let line: String = line.chars().take(MAX_COMPARED).collect();
    let line = without_quoted(&line);
    let words = line.split_whitespace().filter_map(without_numbers);
    let words: Vec<String> = words.collect();
    Some(words.join(" ")).filter(|pattern| !pattern.is_empty())
}

fn first_line(message: &str) -> Option<&str> {
    let mut lines = message.lines().map(str::trim);
    lines.find(|line| !line.is_empty())
}

/// Takes out what is in quotes of any kind. An apostrophe within a word is none, and one that no other closes.
fn without_quoted(text: &str) -> String {
    let mut rest = String::new();
    let mut left = text;
    while let Some(c) = left.chars().next() {
        left = &left[c.len_utf8()..];
        let before = rest.chars().next_back();
        let is_in_word = c == '\'' && before.is_some_and(char::is_alphanumeric);
        let close = closing(c).filter(|_| !is_in_word);
        let length = close.and_then(|close| quoted(left, close));
        match length {
            Some(length) => {
                left = &left[length..];
                rest.push(' ');
            }
            None => rest.push(c),
        }
    }
    rest
}

fn closing(open: char) -> Option<char> {
    match open {
        '"' | '\'' | '`' => Some(open),
        '“' | '„' => Some('”'),
        '‘' => Some('’'),
        '«' => Some('»'),
        _ => None,
    }
}

/// Length of a quoted text, with its end; in it a backslash takes the meaning of the next character.
fn quoted(text: &str, close: char) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.char_indices().find(|(_, c)| {
        let is_end = *c == close && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    // `'` also ends `It's …`: as an end, no letter follows it.
    end.map(|(at, c)| at + c.len_utf8())
        .filter(|after| close != '\'' || !text[*after..].starts_with(char::is_alphanumeric))
}

/// A word without its numbers; `None` where nothing else is in it.
fn without_numbers(word: &str) -> Option<String> {
    // A UUID has groups without a digit, and short ones.
    let trimmed = word.trim_matches(|c: char| !c.is_alphanumeric());
    let digits = trimmed.replace('-', "");
    let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
    if is_hex && digits.len() >= 16 && digits.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let parts = word.split_inclusive(|c: char| !c.is_alphanumeric());
    let rest: String = parts.map(without_number).collect();
    rest.contains(char::is_alphabetic).then_some(rest)
}

/// A run of letters and digits, and the character after it, without a number: `0x1f`, `deadbeef07`, `12ms`, `sha256`.
fn without_number(part: &str) -> String {
    let run = part.trim_end_matches(|c: char| !c.is_alphanumeric());
    let has_digit = run.contains(|c: char| c.is_ascii_digit());
    let digits = run.trim_start_matches("0x").trim_start_matches("0X");
    let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
    if has_digit && is_hex && (digits.len() < run.len() || digits.len() >= 6) {
        return part[run.len()..].to_owned();
    }
    part.chars().filter(|c| !c.is_numeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_what_where_and_the_message() {
        let title = TitleParts {
            what: "panic",
            function: Some("act"),
            place: Some("act.rs:12"),
            message: Some("no price"),
            ..TitleParts::default()
        };
        assert_eq!(title.text(), "panic in act (act.rs:12): no price");
        assert_eq!(
            TitleParts {
                what: "cpu",
                ..TitleParts::default()
            }
            .text(),
            "cpu"
        );
    }

    #[test]
    fn a_message_is_cut_between_words() {
        assert_eq!(
            shortened("\n no price \nleft: 1").as_deref(),
            Some("no price")
        );
        assert_eq!(shortened(" \n"), None);
        let long = shortened(&"word ".repeat(40)).unwrap();
        assert!(
            long.ends_with("word …") && long.chars().count() <= MAX_MESSAGE + 2,
            "{long}"
        );
        let solid = shortened(&"ü".repeat(200)).unwrap();
        assert_eq!(solid.chars().count(), MAX_MESSAGE + 2);
    }

    #[test]
    fn numbers_addresses_and_quoted_texts_do_not_tell_messages_apart() {
        for (one, other) in [
            (
                "the len is 3 but the index is 7",
                "the len is 12 but the index is 99",
            ),
            ("bad pointer 0x7fff5fbff8a0", "bad pointer 0x10"),
            ("no user \"ann\" here", "no user \"bob \\\" smith\" here"),
            ("no file `a b.txt`: os error 2", "no file `c`: os error 13"),
            ("can't open 'a'", "can't open 'it is b'"),
            ("object 5f3c9a77e1 gone", "object 00ff12abc9 gone"),
            (
                "id 123e4567-e89b-12d3-a456-426614174000",
                "id 00000000-0000-0000-0000-000000000000",
            ),
            ("took 12ms, at -3.5", "took 400ms, at 17"),
            ("“ann” left", "“bob” left"),
            ("left != right\n left: 1", "left != right\n left: two"),
            ("price is 5", "price is -5"),
        ] {
            assert_eq!(pattern(one), pattern(other), "{one}");
        }
        for (one, other) in [
            ("no such price", "no such shop"),
            ("can't open it", "won't open it"),
            ("don't panic: it's late", "don't panic: it's early"),
            (
                "called `Option::unwrap()` on a `None` value",
                "called `Result::unwrap()` on an `Err` value: 5",
            ),
            ("face lost", "face found"),
        ] {
            assert_ne!(pattern(one), pattern(other), "{one}");
        }
        assert_eq!(pattern("12 0x7 'a'"), None);
    }
}
