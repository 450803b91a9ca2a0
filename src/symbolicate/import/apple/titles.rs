//! The sections of Apple's crash text, and the titles and labels by which they are recognized.

/// The section that a line is in.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum TextSection {
    /// Labels.
    #[default]
    Labels,
    /// After `Application Specific Information:`: the lines that libraries left for the report.
    Message,
    /// After `Termination Reason:` and `Dyld Error Message:`: what the system says of the end.
    Reason,
    Thread,
    /// The stack of an exception: the last one, or one that a library left, by its number.
    Exception(ExceptionStack),
    Registers,
    Images,
    /// A section whose lines are kept as they are.
    Other,
}

/// The stack of an exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExceptionStack {
    /// `Last Exception Backtrace:`
    Last,
    /// `Application Specific Backtrace 0:`
    Specific(u64),
}

/// Labels of the head and of the lines about the exception: those that begin a report in the order of Apple's writers, then
/// the others. Lines of a message may look like labels, but have none of these.
#[rustfmt::skip]
pub(super) const LABELS: [&str; 51] = [
    "Incident Identifier", "CrashReporter Key", "Crash Reporter Key", "Hardware Model", "Process", "Path", "Identifier",
    "Version", "AppStoreTools", "AppVariant", "Code Type", "Role", "Parent Process", "Coalition", "Responsible", "User ID",
    "Date/Time", "Launch Time", "OS Version", "Release Type", "Report Version", "Exception Type", "Exception Subtype",
    "Exception Codes",
    "Build Info", "App Item ID", "App External ID", "Beta", "Beta Identifier", "Architecture", "Responsible Process",
    "Baseband Version", "Bridge OS Version", "Anonymous UUID", "Sleep/Wake UUID", "Time Awake Since Boot", "Time Since Wake",
    "System Integrity Protection", "Notes", "Crashed Thread", "Triggered by Thread", "Highlighted by Thread",
    "Highlighted Thread", "Attributed Thread", "Terminating Process", "VM Region Info", "Kernel Triage", "Legacy",
    "PlugIn Path", "PlugIn Identifier", "Share With App Devs",
];
const SEQUENCE: usize = 24;
const LABEL_PREFIXES: [&str; 3] = ["Exception ", "Termination ", "Application Specific "];

/// The place of a line's label in the order, and its value.
pub(super) fn ordered_label(line: &str) -> Option<(usize, &str)> {
    let (key, value) = line.split_once(':')?;
    let at = LABELS[..SEQUENCE].iter().position(|known| *known == key)?;
    Some((at, value.trim()))
}

/// Returns the label and the value of a line; `None` unless the label is one of Apple's.
pub(super) fn known_label(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let key = key.trim();
    let is_known =
        LABELS.contains(&key) || LABEL_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    (is_known && key.len() < 40).then(|| (key, value.trim()))
}

/// Returns the section that a title begins; `None` for lines that are no title. [`thread_title`] reads those of
/// threads.
pub(super) fn title(line: &str) -> Option<TextSection> {
    const SPECIFIC: &str = "Application Specific Backtrace ";
    if let Some(number) = line.strip_prefix(SPECIFIC) {
        let number = number.trim_end_matches(':').parse().ok()?;
        return Some(TextSection::Exception(ExceptionStack::Specific(number)));
    }
    if is_images_title(line) {
        return Some(TextSection::Images);
    }
    #[rustfmt::skip]
    const OTHER_TITLES: [&str; 9] = [
        "Application Specific Signatures:", "Application Specific Diagnostics:", "Error Formulating Crash Report:",
        "External Modification Summary:", "VM Region Summary:", "Kernel Triage:", "Filtered syslog:",
        "Global Trace Buffer (reverse chronological seconds):", "Full Report",
    ];
    Some(match line {
        "Application Specific Information:" => TextSection::Message,
        "Dyld Error Message:" => TextSection::Reason,
        "Last Exception Backtrace:" => TextSection::Exception(ExceptionStack::Last),
        "EOF" => TextSection::Other,
        _ => OTHER_TITLES.contains(&line).then_some(TextSection::Other)?,
    })
}

/// Returns true for the title of a list of images: `Binary Images:`, also without the colon, or `Binary Images
/// (dpkg):`.
fn is_images_title(line: &str) -> bool {
    let rest = line.strip_prefix("Binary Images").unwrap_or(" ");
    let rest = rest.trim_end_matches(':');
    rest.is_empty() || rest.starts_with(" (") && rest.ends_with(')')
}

/// The title of a thread's lines.
#[derive(Debug, PartialEq)]
pub(super) struct ThreadTitle<'a> {
    pub number: u64,
    pub kind: ThreadTitleKind<'a>,
}

#[derive(Debug, PartialEq)]
pub(super) enum ThreadTitleKind<'a> {
    /// `Thread 0 name:  Dispatch queue: com.apple.main-thread`
    Name(&'a str),
    /// `Thread 0 crashed with ARM Thread State (64-bit):`
    Registers,
    /// `Thread 0 Crashed:: Dispatch queue: …`: frames.
    Frames {
        /// True if the report is about this thread.
        is_about: bool,
        name: &'a str,
        /// Words between the number and the colon that are not known.
        unknown: &'a str,
    },
}

impl ThreadTitle<'_> {
    /// Returns true for a title of which each word is known.
    pub fn is_known(&self) -> bool {
        !matches!(self.kind, ThreadTitleKind::Frames { unknown, .. } if !unknown.is_empty())
    }
}

/// Reads the title of a thread.
pub(super) fn thread_title(line: &str) -> Option<ThreadTitle<'_>> {
    let rest = line.strip_prefix("Thread ")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number = rest[..digits].parse::<u64>().ok()?;
    let rest = rest[digits..].trim_start();
    let kind = match (rest.strip_prefix("name:"), rest.split_once(':')) {
        (Some(name), _) => ThreadTitleKind::Name(name.trim()),
        _ if rest.to_ascii_lowercase().starts_with("crashed with") => ThreadTitleKind::Registers,
        (_, Some((state, name))) => {
            // `Attributed`: what a simulated crash is about; `Highlighted`: the same in some years' layouts.
            const STATES: [&str; 4] = ["Crashed", "Attributed", "Highlighted", "Triggered"];
            let known = STATES.iter().find(|known| state.starts_with(**known));
            let unknown = known.map_or(state, |known| &state[known.len()..]).trim();
            // A sentence is no title.
            if unknown.len() > 40 {
                return None;
            }
            ThreadTitleKind::Frames {
                is_about: known.is_some(),
                name: name.trim_start_matches(':').trim(),
                unknown,
            }
        }
        _ => return None,
    };
    Some(ThreadTitle { number, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_message_is_no_label() {
        assert_eq!(
            known_label("Exception Type:  EXC_CRASH (SIGABRT)"),
            Some(("Exception Type", "EXC_CRASH (SIGABRT)"))
        );
        for line in [
            "Reason: tried: '/usr/lib/Drawer' (no such file)",
            "Referenced from: /Applications/kiosk.app/kiosk",
            "ProcessVisibility: Foreground>",
            "Fatal error: Index out of range",
        ] {
            assert_eq!(known_label(line), None, "{line}");
        }
    }

    #[test]
    fn titles_of_threads() {
        let frames = |is_about, name, unknown| ThreadTitleKind::Frames {
            is_about,
            name,
            unknown,
        };
        for (line, kind) in [
            ("Thread 3:", frames(false, "", "")),
            ("Thread 3 Crashed:", frames(true, "", "")),
            (
                "Thread 3 Crashed:: Dispatch queue: till",
                frames(true, "Dispatch queue: till", ""),
            ),
            ("Thread 3 Attributed:", frames(true, "", "")),
            ("Thread 3 Highlighted: till", frames(true, "till", "")),
            ("Thread 3 Stopped:", frames(false, "", "Stopped")),
            ("Thread 3 Crashed (main):", frames(true, "", "(main)")),
            ("Thread 3 name:  till", ThreadTitleKind::Name("till")),
            (
                "Thread 3 crashed with X86 Thread State (64-bit):",
                ThreadTitleKind::Registers,
            ),
        ] {
            let title = thread_title(line).unwrap();
            assert_eq!((title.number, title.kind), (3, kind), "{line}");
        }
        assert_eq!(thread_title("Thread 3 has ended"), None);
        assert_eq!(thread_title("Threads: 3"), None);
    }
}
