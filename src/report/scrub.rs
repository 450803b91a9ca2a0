//! Takes out of a report what says who its user is, and keeps what says where the time went.

use std::collections::BTreeSet;

use super::model::*;

/// What [`scrub`] removes, besides what it always removes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scrub {
    /// Patterns of context keys whose values are removed; `*` stands for any characters, case does
    /// not count.
    pub keys: Vec<String>,
}

impl Default for Scrub {
    /// The words under which secrets and names are commonly kept.
    fn default() -> Scrub {
        let keys = [
            "*user*",
            "*account*",
            "*mail*",
            "*phone*",
            "*address*",
            "*password*",
            "*passwd*",
            "*secret*",
            "*token*",
            "*auth*",
            "*cookie*",
            "*session*",
            "*credential*",
            "*api*key*",
            "*location*",
            "*latitude*",
            "*longitude*",
        ];
        Scrub {
            keys: keys.map(str::to_owned).to_vec(),
        }
    }
}

/// What stands in place of a value that was removed.
pub const REMOVED: &str = "(removed)";
/// What stands in place of a user's name.
const SOMEBODY: &str = "(user)";
/// Where the first image is moved.
const FIRST_BASE: u64 = 0x1_0000_0000;
/// Images are moved to multiples of this.
const ALIGNMENT: u64 = 0x10_0000;
/// The bits of an address that are the same in each launch: its place in the page.
const IN_PAGE: u64 = 0xfff;

/// Removes what tells a user or a machine from others:
///
/// - user names in paths (`/Users/…`, `/home/…`, `C:\Users\…`), in every text of the report, and the
///   same names where they stand alone;
/// - the values of keys of free form (the context's, and those that this version does not know) that fit
///   a pattern of `rules`, at any depth;
/// - raw bytes, which may be anything from memory, except ids and hashes of images;
/// - the randomised part of addresses: images are laid out anew, frames and registers within them
///   move along, so that the report can be symbolicated as before; of other addresses only the place
///   in the page is left, also where they stand in texts as `0x7ffd12345678`, and registers that point
///   into no image are removed.
///
/// Left are: app, system, device, times, ids of report, launch, process and threads, names of threads
/// and images, messages, breadcrumbs, and values of other context keys. Numbers among those that point
/// into an image are moved with it; what other numbers mean, nobody but the app knows.
///
/// ```
/// use wedjat::report::{Report, Scrub, Value, scrub};
/// let mut report = Report::default();
/// let mut event = wedjat::report::Event::default();
/// event.reason = Some("can't open /home/alice/notes.txt".to_owned());
/// report.event = Some(event);
/// scrub(&mut report, &Scrub::default());
/// let reason = report.event.unwrap().reason.unwrap();
/// assert_eq!(reason, "can't open /home/(user)/notes.txt");
/// ```
pub fn scrub(report: &mut Report, rules: &Scrub) {
    scrub_names(report, rules);
}

/// The names of users that a report's paths hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserNames(Vec<String>);

impl UserNames {
    /// Puts `(user)` in their place, and in that of any user's name in a path.
    pub(crate) fn remove_from(&self, text: &mut String) {
        replace(text, &user_spans(text));
        for name in &self.0 {
            replace(text, &word_spans(text, name));
        }
    }
}

/// [`scrub`], and the names that were removed.
pub(crate) fn scrub_names(report: &mut Report, rules: &Scrub) -> UserNames {
    let mut names = BTreeSet::new();
    each_text(report, &mut |text| {
        for (start, end) in user_spans(text) {
            names.insert(text[start..end].to_owned());
        }
    });
    // Names that are words would take too much with them.
    names.retain(|name| name.chars().count() > 2 && !COMMON.contains(&name.as_str()));
    let names = UserNames(names.into_iter().take(MOST_NAMES).collect());
    each_text(report, &mut |text| names.remove_from(text));
    let is_secret = |key: &str| rules.keys.iter().any(|pattern| fits(pattern, key));
    let remove = |value: &mut Value| *value = Value::Text(REMOVED.to_owned());
    each_extra(report, &mut |extra| {
        for (key, value) in extra {
            if is_secret(key) {
                remove(value);
            }
        }
    });
    each_value(report, &mut |value| match value {
        Value::Bytes(bytes) | Value::Extension(_, bytes) => bytes.clear(),
        Value::Map(pairs) => {
            for (key, value) in pairs {
                if matches!(key, Value::Text(key) if is_secret(key)) {
                    remove(value);
                }
            }
        }
        _ => {}
    });
    remove_slides(report);
    names
}

/// More names than this are not looked for where they stand alone.
const MOST_NAMES: usize = 64;

/// Names of accounts that many machines share.
const COMMON: &[&str] = &[
    "root", "user", "admin", "shared", "Shared", "runner", "ubuntu", "(user)",
];

/// Where user names stand in `text`: behind `/Users/`, `/home/` and `\Users\`.
fn user_spans(text: &str) -> Vec<(usize, usize)> {
    let mut spans = Vec::new();
    for marker in ["/Users/", "/home/", "\\Users\\"] {
        let mut from = 0;
        while let Some(found) = text.get(from..).and_then(|rest| rest.find(marker)) {
            let start = from + found + marker.len();
            let is_end = |c: char| matches!(c, '/' | '\\' | '"' | '\'' | ':' | '\n' | '\0');
            let rest = &text[start..];
            let end = start + rest.find(is_end).unwrap_or(rest.len());
            // Without a path behind it, the name may be followed by other words.
            let end = match text[start..end].find(char::is_whitespace) {
                Some(space) if !text[end..].starts_with(['/', '\\']) => start + space,
                _ => end,
            };
            if end > start {
                spans.push((start, end));
            }
            from = end;
        }
    }
    spans.sort_unstable();
    spans.dedup();
    spans
}

/// Where `word` stands in `text`, not within a longer word.
fn word_spans(text: &str, word: &str) -> Vec<(usize, usize)> {
    let joins = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(word)
        .map(|(start, _)| (start, start + word.len()))
        .filter(|&(start, end)| {
            !joins(text[..start].chars().next_back()) && !joins(text[end..].chars().next())
        })
        .collect()
}

/// Puts [`SOMEBODY`] in place of each of `spans`, which are in order and don't overlap.
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
            replaced.push_str(SOMEBODY);
            from = end;
        }
    }
    replaced.push_str(&text[from..]);
    *text = replaced;
}

/// Whether `key` is as `pattern` says, in which `*` stands for any characters.
fn fits(pattern: &str, key: &str) -> bool {
    let (pattern, key) = (pattern.to_lowercase(), key.to_lowercase());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = key.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(found) => rest = &rest[found + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Lays the images out anew, and moves the addresses within them along.
fn remove_slides(report: &mut Report) {
    let old: Vec<(u64, u64)> = report
        .images
        .iter()
        .map(|image| (image.base, image.size))
        .collect();
    let mut next = FIRST_BASE;
    for image in &mut report.images {
        image.base = next;
        let step = image.size.saturating_add(2 * ALIGNMENT) & !(ALIGNMENT - 1);
        next = next.checked_add(step).unwrap_or(FIRST_BASE);
    }
    let new: Vec<u64> = report.images.iter().map(|image| image.base).collect();
    let within = |image: usize, address: u64| {
        let &(base, size) = old.get(image)?;
        let offset = address.checked_sub(base)?;
        // A return address may stand right behind the image's last byte.
        (offset <= size).then(|| new[image].wrapping_add(offset))
    };
    let mut by_base: Vec<usize> = (0..old.len()).collect();
    by_base.sort_by_key(|&image| old[image].0);
    let anywhere = |address: u64| {
        // Images don't overlap; one may begin right where another ends.
        let behind = by_base.partition_point(|&image| old[image].0 <= address);
        let nearest = by_base[..behind].iter().rev().take(4);
        nearest.copied().find_map(|image| within(image, address))
    };
    each_value(report, &mut |value| {
        if let Value::Unsigned(number) = value {
            *number = anywhere(*number).unwrap_or(*number);
        }
    });
    each_text(report, &mut |text| {
        replace_addresses(text, |address| {
            anywhere(address).unwrap_or(address & IN_PAGE)
        });
    });
    let threads = report.threads.iter_mut().map(|thread| &mut thread.frames);
    let samples = report.samples.iter_mut().map(|sample| &mut sample.frames);
    for frame in threads.chain(samples).flatten() {
        let moved = frame
            .image
            .and_then(|image| within(image as usize, frame.pc));
        frame.pc = moved.unwrap_or(frame.pc & IN_PAGE);
    }
    for thread in &mut report.threads {
        thread
            .registers
            .retain_mut(|(_, value)| match anywhere(*value) {
                Some(moved) => {
                    *value = moved;
                    true
                }
                None => false,
            });
    }
    if let Some(address) = report
        .event
        .iter_mut()
        .flat_map(|event| &mut event.signal)
        .next()
    {
        // An address near zero is a null pointer's field: the same in each launch.
        address.address = address.address.map(|address| match address {
            0..0x1_0000 => address,
            _ => anywhere(address).unwrap_or(address & IN_PAGE),
        });
    }
}

/// Replaces the addresses that `text` names: hexadecimal numbers with `0x` of 32 bits and more. Shorter
/// ones are codes and flags.
fn replace_addresses(text: &mut String, moved: impl Fn(u64) -> u64) {
    let mut pieces = text.split("0x");
    let mut replaced = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        replaced.push_str("0x");
        let is_digit = |c: char| c.is_ascii_hexdigit();
        let digits = piece.len() - piece.trim_start_matches(is_digit).len();
        match u64::from_str_radix(&piece[..digits], 16) {
            Ok(address @ 0x1_0000_0000..) => {
                replaced.push_str(&format!("{:x}{}", moved(address), &piece[digits..]));
            }
            _ => replaced.push_str(piece),
        }
    }
    *text = replaced;
}

/// Calls `each` on every text that comes from the app, the system or the user.
fn each_text(report: &mut Report, each: &mut dyn FnMut(&mut String)) {
    let head = &mut report.head;
    for text in [
        &mut head.app.name,
        &mut head.app.version,
        &mut head.os.name,
        &mut head.os.version,
    ] {
        each(text);
    }
    head.os
        .build
        .iter_mut()
        .chain(&mut head.device)
        .for_each(&mut *each);
    if let Some(event) = &mut report.event {
        let texts = [
            &mut event.reason,
            &mut event.name,
            &mut event.message,
            &mut event.location,
            &mut event.class,
        ];
        texts.into_iter().flatten().for_each(&mut *each);
    }
    for thread in &mut report.threads {
        [&mut thread.name, &mut thread.state, &mut thread.syscall]
            .into_iter()
            .flatten()
            .for_each(&mut *each);
        thread
            .frames
            .iter_mut()
            .filter_map(|frame| frame.name.as_mut())
            .for_each(&mut *each);
    }
    for sample in &mut report.samples {
        sample
            .frames
            .iter_mut()
            .filter_map(|frame| frame.name.as_mut())
            .for_each(&mut *each);
    }
    report
        .images
        .iter_mut()
        .for_each(|image| each(&mut image.name));
    if let Some(context) = &mut report.context {
        context.keys.iter_mut().for_each(|(key, _)| each(key));
        context
            .breadcrumbs
            .iter_mut()
            .for_each(|(_, text)| each(text));
        context.gauges.iter_mut().for_each(|(name, _)| each(name));
        context.marks.iter_mut().for_each(|(name, ..)| each(name));
    }
    each_value(report, &mut |value| {
        if let Value::Text(text) = value {
            each(text);
        }
    });
}

/// Calls `each` on every list of keys and values of free form.
fn each_extra(report: &mut Report, each: &mut dyn FnMut(&mut Extra)) {
    let mut extras: Vec<&mut Extra> = vec![
        &mut report.head.extra,
        &mut report.head.app.extra,
        &mut report.head.os.extra,
    ];
    if let Some(event) = &mut report.event {
        extras.push(&mut event.extra);
        extras.extend(event.signal.iter_mut().map(|found| &mut found.extra));
        extras.extend(event.thresholds.iter_mut().map(|found| &mut found.extra));
    }
    extras.extend(report.threads.iter_mut().map(|found| &mut found.extra));
    extras.extend(report.images.iter_mut().map(|found| &mut found.extra));
    extras.extend(report.samples.iter_mut().map(|found| &mut found.extra));
    if let Some(vitals) = &mut report.vitals {
        extras.push(&mut vitals.extra);
        extras.extend(vitals.cpu.iter_mut().map(|found| &mut found.extra));
        extras.extend(vitals.memory.iter_mut().map(|found| &mut found.extra));
    }
    if let Some(context) = &mut report.context {
        extras.push(&mut context.keys);
        extras.push(&mut context.extra);
    }
    extras.extend(report.stall_end.iter_mut().map(|found| &mut found.extra));
    if let Some(capture) = &mut report.capture {
        extras.push(&mut capture.extra);
    }
    extras.extend(report.loss.iter_mut().map(|found| &mut found.extra));
    extras.extend(report.end.iter_mut().map(|found| &mut found.extra));
    extras.into_iter().for_each(each);
}

/// Calls `each` on every value of free form, and on those within it.
fn each_value(report: &mut Report, each: &mut dyn FnMut(&mut Value)) {
    each_extra(report, &mut |extra| {
        extra.iter_mut().for_each(|(_, value)| within(value, each));
    });
    let cut = report
        .capture
        .iter_mut()
        .flat_map(|capture| &mut capture.cut);
    cut.for_each(|value| within(value, each));
    report
        .unknown
        .iter_mut()
        .for_each(|(_, value)| within(value, each));
}

fn within(value: &mut Value, each: &mut dyn FnMut(&mut Value)) {
    each(value);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| within(item, each)),
        Value::Map(pairs) => pairs.iter_mut().for_each(|(key, item)| {
            within(key, each);
            within(item, each);
        }),
        _ => {}
    }
}
