//! User names: found in paths, and removed there and elsewhere in the report.

use std::collections::BTreeSet;

use super::walk::each_text;
use crate::report::model::Report;

/// The text in place of a user's name.
const REDACTED_USER: &str = "(user)";

/// The names of users that a report's paths hold, in lower case.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserNames(Vec<String>);

impl UserNames {
    /// Collects the names in the paths of `report`.
    pub(super) fn of(report: &mut Report) -> UserNames {
        let mut names = BTreeSet::new();
        each_text(report, &mut |text| {
            for (start, end) in user_spans(text) {
                if !is_on_the_web(text, start) {
                    let name = lower(&text[start..end]);
                    names.extend(name.split_whitespace().next().map(str::to_owned));
                    names.insert(name);
                }
            }
        });
        // Names that are words would take too much with them.
        names.retain(|name| name.chars().count() > 2 && !COMMON.contains(&name.as_str()));
        UserNames(names.into_iter().take(MAX_LONE_NAMES).collect())
    }

    /// Puts `(user)` in their place, and in that of any user's name in a path.
    pub(crate) fn remove_from(&self, text: &mut String) {
        replace(text, &user_spans(text));
        let lower = lower(text);
        let alone = self.0.iter().flat_map(|name| word_spans(&lower, name));
        let mut alone: Vec<_> = alone.collect();
        // Of two that begin together the longer one.
        alone.sort_unstable_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
        replace(text, &alone);
    }
}

/// More names than this are not looked for where they stand alone.
const MAX_LONE_NAMES: usize = 64;

/// Names of accounts that many machines share.
const COMMON: &[&str] = &[
    "root", "user", "admin", "shared", "runner", "ubuntu", "(user)",
];

/// Punctuation after a word in a text.
const PUNCTUATION: &[char] = &['.', '!', ')', ']', '}'];

/// Separators of paths: as they are, and as JSON and URLs write them. Letter case does not count.
const SEPARATORS: &[&str] = &[
    "/", "\\u002f", "\\u005c", "\\", "%2f", "%5c", "%252f", "%255c",
];

/// Folders that hold the users' own.
const HOMES: &[&str] = &[
    "users",
    "homes",
    "home",
    "documents and settings",
    "documents%20and%20settings",
];

/// Returns the byte ranges of user names in `text`, in order: after `/Users/`, `/home/`, `\Users\` and their like, and after
/// `~`. A separator may be repeated, escaped, or followed by `.` and another one.
fn user_spans(text: &str) -> Vec<(usize, usize)> {
    let (mut spans, mut at) = (Vec::new(), 0);
    let begins = |byte: &u8| matches!(byte, b'/' | b'\\' | b'%' | b'~');
    while let Some(found) = text.as_bytes()[at..].iter().position(begins) {
        at += found;
        let name = match after_separators(text, at) {
            behind if behind > at => {
                at = behind;
                after_home(text, at)
            }
            _ => {
                at += 1;
                after_tilde(text, at - 1)
            }
        };
        let Some(mut start) = name else { continue };
        // `/home/alice/../bob` has two.
        while let Some(end) = name_end(text, start) {
            spans.push((start, end));
            at = end;
            let next = after_word(text, after_separators(text, end), "..");
            match next.map(|up| (up, after_separators(text, up))) {
                Some((up, next)) if next > up => start = next,
                _ => break,
            }
        }
    }
    let is_new = |&(start, _): &(usize, usize)| !text[start..].starts_with(REDACTED_USER);
    spans.retain(is_new);
    spans
}

/// The end of the separators at `at`, and of the `.` between them; `at` if there are none.
fn after_separators(text: &str, at: usize) -> usize {
    let one = |at| SEPARATORS.iter().find_map(|one| after_word(text, at, one));
    let (mut end, mut next) = (at, one(at));
    while let Some(behind) = next {
        end = behind;
        next = one(end).or_else(|| one(after_word(text, end, ".")?));
    }
    end
}

/// The end of `word`, which is in lower case, if the text at `at` begins with it in any letter case.
fn after_word(text: &str, at: usize, word: &str) -> Option<usize> {
    let end = at + word.len();
    let found = text.as_bytes().get(at..end)?;
    found.eq_ignore_ascii_case(word.as_bytes()).then_some(end)
}

/// The start of a user's name where `at` is the start of a folder's name after a separator.
fn after_home(text: &str, at: usize) -> Option<usize> {
    let home = HOMES.iter().find_map(|home| after_word(text, at, home))?;
    let start = after_separators(text, home);
    (start > home).then_some(start)
}

/// The start of a user's name in `~alice/notes`.
fn after_tilde(text: &str, at: usize) -> Option<usize> {
    let name = text[at..].strip_prefix('~')?;
    let before = text[..at].chars().next_back();
    let begins = before.is_none_or(|c| c.is_whitespace() || "\"'`=:(<[,;".contains(c));
    let len = name.find(|c: char| !(c.is_alphanumeric() || "._-".contains(c)))?;
    let is_name = name.starts_with(char::is_alphabetic);
    let end = at + 1 + len;
    (begins && is_name && after_separators(text, end) > end).then_some(at + 1)
}

/// The end of the user's name that begins at `start`; `None` if it is empty, or leads up.
fn name_end(text: &str, start: usize) -> Option<usize> {
    let rest = &text[start..];
    let mut ends = rest.char_indices();
    let is_end = |&(at, c): &(usize, char)| {
        matches!(
            c,
            '/' | '\\'
                | '"'
                | '\''
                | '`'
                | ':'
                | '\n'
                | '\0'
                | '<'
                | '>'
                | '|'
                | '?'
                | '*'
                | '#'
                | '&'
                | ','
                | ';'
        ) || (c == '%' && after_separators(text, start + at) > start + at)
    };
    let end = ends.find(is_end).map_or(rest.len(), |(at, _)| at);
    let (mut name, end) = (&rest[..end], start + end);
    // Without a path after it, the name may be followed by other words, or by punctuation.
    if after_separators(text, end) == end || name.ends_with(char::is_whitespace) {
        let word = name.split(char::is_whitespace).next();
        name = word.unwrap_or_default().trim_end_matches(PUNCTUATION);
    }
    (!name.is_empty() && name != "..").then_some(start + name.len())
}

/// Bytes before a path in which the scheme of a URL is looked for.
const MAX_URL_BYTES: usize = 256;

/// Returns true if the path is that of a web address, whose `/users/` or `/home/` are pages: `profile` is no name to remove
/// everywhere.
fn is_on_the_web(text: &str, at: usize) -> bool {
    let before = &text[text.ceil_char_boundary(at.saturating_sub(MAX_URL_BYTES))..at];
    let is_end = |c: char| c.is_whitespace() || "\"'<>(".contains(c);
    let url = before.rsplit(is_end).next().unwrap_or_default();
    let mut schemes = url.match_indices("://").map(|(at, _)| &url[..at]);
    schemes.any(|scheme| !scheme.to_ascii_lowercase().ends_with("file"))
}

/// `text` in lower case, each letter in as many bytes as before.
fn lower(text: &str) -> String {
    let lower = |c: char| {
        let mut lower = c.to_lowercase();
        let first = lower
            .next()
            .filter(|first| first.len_utf8() == c.len_utf8());
        first.filter(|_| lower.next().is_none()).unwrap_or(c)
    };
    text.chars().map(lower).collect()
}

/// Returns the byte ranges of `word` in `text`, except within a longer word.
fn word_spans(text: &str, word: &str) -> Vec<(usize, usize)> {
    let joins = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(word)
        .map(|(start, _)| (start, start + word.len()))
        .filter(|&(start, end)| {
            !joins(text[..start].chars().next_back()) && !joins(text[end..].chars().next())
        })
        .collect()
}

/// Puts [`REDACTED_USER`] in place of each of `spans`, which are in order; of those that overlap the first one.
fn replace(text: &mut String, spans: &[(usize, usize)]) {
    if spans.is_empty() {
        return;
    }
    let mut replaced = String::with_capacity(text.len());
    let mut from = 0;
    for &(start, end) in spans {
        if start >= from {
            replaced.push_str(&text[from..start]);
            replaced.push_str(REDACTED_USER);
            from = end;
        }
    }
    replaced.push_str(&text[from..]);
    *text = replaced;
}
