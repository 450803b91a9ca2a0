//! User names: found in paths, and removed there and elsewhere in the report.

use std::collections::BTreeSet;

use super::walk::each_text;
use crate::report::model::Report;

/// The text in place of a user's name.
const REDACTED_USER: &str = "(user)";

/// The names of users that a report's paths hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserNames(Vec<String>);

impl UserNames {
    /// Collects the names in the paths of `report`.
    pub(super) fn of(report: &mut Report) -> UserNames {
        let mut names = BTreeSet::new();
        each_text(report, &mut |text| {
            for (start, end) in user_spans(text) {
                names.insert(text[start..end].to_owned());
            }
        });
        // Names that are words would take too much with them.
        names.retain(|name| name.chars().count() > 2 && !COMMON.contains(&name.as_str()));
        UserNames(names.into_iter().take(MOST_NAMES).collect())
    }

    /// Puts `(user)` in their place, and in that of any user's name in a path.
    pub(crate) fn remove_from(&self, text: &mut String) {
        replace(text, &user_spans(text));
        for name in &self.0 {
            replace(text, &word_spans(text, name));
        }
    }
}

/// More names than this are not looked for where they stand alone.
const MOST_NAMES: usize = 64;

/// Names of accounts that many machines share.
const COMMON: &[&str] = &[
    "root", "user", "admin", "shared", "Shared", "runner", "ubuntu",
];

/// Marks that stand behind a word in a text.
const MARKS: &[char] = &[',', '.', ';', '!', '?', ')', ']', '}', '>'];

/// Returns the byte ranges of user names in `text`: behind `/Users/`, `/home/` and `\Users\`.
fn user_spans(text: &str) -> Vec<(usize, usize)> {
    let mut spans = Vec::new();
    for marker in ["/Users/", "/home/", "\\Users\\"] {
        let mut from = 0;
        while let Some(found) = text.get(from..).and_then(|rest| rest.find(marker)) {
            let start = from + found + marker.len();
            let is_end = |c: char| matches!(c, '/' | '\\' | '"' | '\'' | ':' | '\n' | '\0');
            let rest = &text[start..];
            let (mut name, behind) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
            // Without a path behind it, the name may be followed by other words, or by a mark.
            if !behind.starts_with(['/', '\\']) || name.ends_with(char::is_whitespace) {
                let word = name.split(char::is_whitespace).next();
                name = word.unwrap_or_default().trim_end_matches(MARKS);
            }
            let end = start + name.len();
            if end > start && !rest.starts_with(REDACTED_USER) {
                spans.push((start, end));
            }
            from = end;
        }
    }
    spans.sort_unstable();
    spans.dedup();
    spans
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

/// Puts [`REDACTED_USER`] in place of each of `spans`, which are in order and don't overlap.
fn replace(text: &mut String, spans: &[(usize, usize)]) {
    if spans.is_empty() {
        return;
    }
    let mut replaced = String::with_capacity(text.len());
    let mut from = 0;
    for &(start, end) in spans {
        // Spans of two markers may overlap.
        if start >= from {
            replaced.push_str(&text[from..start]);
            replaced.push_str(REDACTED_USER);
            from = end;
        }
    }
    replaced.push_str(&text[from..]);
    *text = replaced;
}
