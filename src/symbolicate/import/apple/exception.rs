//! The exception and the termination reason of an Apple report. Both `.ips` and text reports have them.

use crate::report::{Event, EventKind, Value};
use crate::symbolicate::import::{JsonFields, ReportBuilder, texts_of, values};
use crate::symbolicate::keys::ENDED_BY;

/// What a report of Apple's says of its event, in either layout.
#[derive(Default)]
pub(super) struct ExceptionFacts {
    /// `EXC_CRASH`, or nothing.
    pub name: String,
    pub subtype: Option<String>,
    /// The report says that nothing ended.
    pub is_nonfatal: bool,
    /// Somebody asked for the report.
    pub is_simulated: bool,
    pub signal: Option<String>,
    /// What is beside the signal.
    pub signal_note: Option<String>,
    /// The codes, and the words for them: `KERN_INVALID_ADDRESS at 0x10`.
    pub codes: Vec<u64>,
    pub words: Option<String>,
    pub reason: Option<String>,
    /// The messages, the one that says most first.
    pub messages: Vec<String>,
}

/// Sets the event by what the report says.
pub(super) fn set_event(builder: &mut ReportBuilder, mut facts: ExceptionFacts) {
    let nothing_ended = facts.is_nonfatal || facts.is_simulated;
    set_kind(builder.event(), &facts);
    add_signal_remark(&mut facts.reason, facts.signal_note);
    let event = builder.event();
    set_reason(event, facts.reason);
    let mut messages = facts.messages.iter();
    let thrown = messages.find_map(|message| thrown_name(message));
    let name = Some(&*facts.name).filter(|name| !name.is_empty());
    event.name = thrown.or(name).map(str::to_owned);
    let mut messages = facts.messages.into_iter();
    event.message = messages.next().or(event.message.take());
    let others = messages.map(|text| ("application_message".into(), Value::Text(text)));
    event.extra.extend(others);
    let words = facts.words.as_deref();
    // Of a report that somebody asked for nothing was signalled.
    let signal = facts.signal.filter(|_| !facts.is_simulated);
    if let Some(signal) = builder.signal(None, signal, name.filter(|_| !nothing_ended)) {
        signal.code = facts.codes.first().map_or(0, |code| *code as i64);
        signal.code_name = words.and_then(code_name);
        signal.address = fault_address(&facts.name, words, &facts.codes);
    }
    let subtype = facts.subtype.map(Value::Text);
    let subtype = subtype.map(|text| ("subtype".to_owned(), text));
    builder.event().extra.extend(subtype);
}

/// Sets kind and fatality of the event.
fn set_kind(event: &mut Event, facts: &ExceptionFacts) {
    let subtype = facts.subtype.as_deref().unwrap_or("");
    let subtype = subtype.trim().to_ascii_uppercase();
    let is_limit = facts.name == "EXC_RESOURCE";
    let of = |word: &str| is_limit && subtype.starts_with(word);
    event.fatal = !facts.is_nonfatal && !facts.is_simulated;
    event.kind = match () {
        () if of("MEMORY") => EventKind::Memory,
        () if of("CPU") => EventKind::Cpu,
        () if !event.fatal || is_limit => EventKind::Other,
        () => EventKind::Crash,
    };
    if event.kind == EventKind::Other {
        let word = match () {
            () if facts.is_simulated => "simulated report".to_owned(),
            () if is_limit && !subtype.is_empty() => format!("limit of {}", subtype.to_lowercase()),
            () => "note".to_owned(),
        };
        event.extra.push(("type".into(), Value::Text(word)));
    }
}

/// The line, and those after it, that say why: `FRONTBOARD 0x8BADF00D`, and the explanation. What else `termination`
/// has stays in it.
pub(super) fn termination_reason(termination: &mut JsonFields) -> Option<String> {
    let namespace = termination.text("namespace");
    let code = termination.unsigned("code").map(code_text);
    let indicator = termination.text("indicator");
    // The kernel's own handler of exceptions says nothing.
    let by = termination.text("byProc").filter(|by| by != "exc handler");
    // The indicator has both in words.
    let has_words = namespace.as_deref() == Some("SIGNAL") && indicator.is_some();
    let words = [namespace, code].into_iter().flatten();
    let words = words.filter(|_| !has_words);
    let first = Some(words.collect::<Vec<_>>().join(" ")).filter(|first| !first.is_empty());
    let parts = [first, indicator, by.map(|by| format!("by {by}"))];
    let first = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let mut lines = vec![first];
    for key in ["reasons", "details"] {
        lines.extend(termination.take(key).into_iter().flat_map(texts_of));
    }
    lines.retain(|line| !line.trim().is_empty());
    Some(lines.join("\n")).filter(|text| !text.is_empty())
}

/// A code as people know it: `0x8BADF00D`, `6`.
fn code_text(code: u64) -> String {
    match code {
        0..0x1_0000 => code.to_string(),
        code => format!("{code:#X}").replacen("0X", "0x", 1),
    }
}

/// The reason of a text, `FRONTBOARD 2343432205`, `Namespace DYLD, Code 1, Library missing`, with its code as people
/// know it.
pub(super) fn with_known_code(reason: &str) -> String {
    let end = reason.find('\n').unwrap_or(reason.len());
    let (first, rest) = reason.split_at(end);
    let mut words: Vec<&str> = first.split(' ').collect();
    let is_namespace =
        |word: &str| !word.is_empty() && word.bytes().all(|c| c.is_ascii_uppercase());
    let mut all = words.iter();
    let at = all.position(|word| *word == "Code" || is_namespace(word));
    let at = at.map_or(0, |at| {
        at + usize::from(words.get(at + 1) == Some(&"Code")) + 1
    });
    let word = words.get(at).copied().unwrap_or("");
    let code = word.trim_end_matches(',');
    let known = values::number(code).filter(|code| at > 0 && *code >= 0x1_0000);
    let known = known.map(|known| format!("{}{}", code_text(known), &word[code.len()..]));
    if let Some(known) = &known {
        words[at] = known;
    }
    format!("{}{rest}", words.join(" "))
}

/// Sets the event's reason, and notes the code in it.
pub(super) fn set_reason(event: &mut Event, reason: Option<String>) {
    if let Some(word) = reason.as_deref().and_then(word) {
        event.extra.push((ENDED_BY.into(), Value::Text(word)));
    }
    event.reason = reason;
}

/// A short word for what ended the app: `FRONTBOARD 0x8BADF00D`; `None` for plain signals and other reasons.
fn word(reason: &str) -> Option<String> {
    let first = reason.lines().next()?;
    let first = first.strip_prefix("Namespace ").unwrap_or(first);
    let first = first.replace(", Code ", " ");
    let mut words = first.split([' ', ',']).filter(|word| !word.is_empty());
    let (namespace, code) = (words.next()?, words.next()?);
    let is_word = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
    let is_namespace =
        namespace.len() > 2 && namespace != "SIGNAL" && namespace.bytes().all(is_word);
    let code = code.trim_matches(['[', ']']);
    let code = values::number(code).map(code_text)?;
    is_namespace.then(|| format!("{namespace} {code}"))
}

/// The signal of `SIGKILL (Code Signature Invalid)`, `SIGKILL - CODESIGNING`, `Code Signature Invalid`, and the note
/// beside it.
pub(super) fn signal_and_note(text: &str) -> (Option<String>, Option<String>) {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    let text = text.trim();
    let at = text.find("SIG");
    let at = at.filter(|at| *at == 0 || text[..*at].ends_with([' ', '(']));
    let (signal, rest) = match at {
        Some(at) => {
            let len = text[at..].find(|c| !is_part(c)).unwrap_or(text.len() - at);
            let rest = format!("{} {}", &text[..at], &text[at + len..]);
            (Some(text[at..at + len].to_owned()), rest)
        }
        None => (None, text.to_owned()),
    };
    let note = rest.trim_matches([' ', '(', ')', '-', ':']).to_owned();
    let is_killed = note.contains("Code Signature") || note == "CODESIGNING";
    let signal = signal.or_else(|| is_killed.then(|| "SIGKILL".to_owned()));
    (signal, Some(note).filter(|note| !note.is_empty()))
}

/// Puts a signal's note before the reason, where that does not have it.
fn add_signal_remark(reason: &mut Option<String>, note: Option<String>) {
    let Some(note) = note else { return };
    let letters = |text: &str| -> String {
        let letters = text.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect()
    };
    *reason = Some(match reason.take() {
        Some(reason) if letters(&reason).contains(&letters(&note)) => reason,
        Some(reason) => format!("{note}: {reason}"),
        None => note,
    });
}

/// `KERN_INVALID_ADDRESS` of `KERN_INVALID_ADDRESS at 0x0000000000000010`.
fn code_name(subtype: &str) -> Option<String> {
    let word = subtype.split_whitespace().next()?;
    let is_name = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
    (word.len() > 3 && word.bytes().all(is_name)).then(|| word.to_owned())
}

fn fault_address(name: &str, words: Option<&str>, codes: &[u64]) -> Option<u64> {
    let named = words.and_then(|text| text.split(" at ").nth(1));
    let named = named.and_then(|text| values::number(text.split_whitespace().next()?));
    named.or_else(|| codes.get(1).copied().filter(|_| name == "EXC_BAD_ACCESS"))
}

/// `NSRangeException` of `*** Terminating app due to uncaught exception 'NSRangeException', reason: '…'`.
pub fn thrown_name(message: &str) -> Option<&str> {
    let (_, behind) = message.split_once("uncaught exception ")?;
    let is_quote = |c: &char| matches!(c, '\'' | '"' | '`');
    let quote = behind.chars().next().filter(is_quote)?;
    let name = behind[1..].split([quote, '\'']).next()?;
    (!name.is_empty() && !name.contains('\n')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_spelled_as_people_know_them() {
        for (reason, expected, short) in [
            (
                "FRONTBOARD 2343432205 ",
                "FRONTBOARD 0x8BADF00D ",
                Some("FRONTBOARD 0x8BADF00D"),
            ),
            (
                "Namespace SPRINGBOARD, Code 0x8badf00d",
                "Namespace SPRINGBOARD, Code 0x8BADF00D",
                Some("SPRINGBOARD 0x8BADF00D"),
            ),
            (
                "Namespace DYLD, Code 1, Library missing\nLibrary not loaded: 99999999",
                "Namespace DYLD, Code 1, Library missing\nLibrary not loaded: 99999999",
                Some("DYLD 1"),
            ),
            (
                "DYLD, [0x1] Library missing",
                "DYLD, [0x1] Library missing",
                Some("DYLD 1"),
            ),
            (
                "Namespace SIGNAL, Code 6, Abort trap: 6",
                "Namespace SIGNAL, Code 6, Abort trap: 6",
                None,
            ),
            ("Segmentation fault: 11", "Segmentation fault: 11", None),
        ] {
            assert_eq!(with_known_code(reason), expected);
            assert_eq!(word(expected).as_deref(), short, "{reason}");
        }
    }

    #[test]
    fn a_signal_may_have_a_note() {
        for (text, signal, note) in [
            (
                "SIGKILL (Code Signature Invalid)",
                Some("SIGKILL"),
                Some("Code Signature Invalid"),
            ),
            (
                "SIGKILL - CODESIGNING",
                Some("SIGKILL"),
                Some("CODESIGNING"),
            ),
            (
                "Code Signature Invalid",
                Some("SIGKILL"),
                Some("Code Signature Invalid"),
            ),
            ("SIGABRT", Some("SIGABRT"), None),
            ("0x2", None, Some("0x2")),
        ] {
            let found = signal_and_note(text);
            assert_eq!(
                (found.0.as_deref(), found.1.as_deref()),
                (signal, note),
                "{text}"
            );
        }
    }
}
