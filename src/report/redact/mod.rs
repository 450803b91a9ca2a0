//! Removes from a report what identifies its user, and keeps what shows where the time went.

mod addresses;
mod hexadecimal;
mod names;
mod walk;

use super::model::*;
use addresses::remove_slides;
pub(crate) use names::UserNames;
use walk::{each_extra, each_text, each_value};

/// Options of [`redact`]: data to remove besides what is always removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redact {
    /// Patterns of context keys whose values are removed; `*` matches any characters. Case is ignored.
    pub keys: Vec<String>,
}

impl Default for Redact {
    /// The words under which secrets and names are commonly kept.
    fn default() -> Redact {
        let keys = [
            // Who it is,
            "*user*",
            "*account*",
            "*login*",
            "*mail*",
            "*phone*",
            "*address*",
            "*first*name*",
            "*last*name*",
            "*full*name*",
            "*nick*name*",
            "*surname*",
            "*birth*",
            "*passport*",
            "*contact*",
            "ssn",
            // secrets,
            "*password*",
            "*passwd*",
            "*pwd*",
            "*pass*phrase*",
            "*pass*code*",
            "pin",
            "*pin*code*",
            "otp",
            "*secret*",
            "*token*",
            "*jwt*",
            "*bearer*",
            "*auth*",
            "*cookie*",
            "*session*",
            "*csrf*",
            "*credential*",
            "*api*key*",
            "*access*key*",
            "*private*key*",
            "*priv*key*",
            "*ssh*key*",
            "*encryption*key*",
            "*signing*key*",
            "*card*number*",
            "*credit*card*",
            "*iban*",
            "cvv",
            "cvc",
            // where it is, and on which device.
            "*location*",
            "*latitude*",
            "*longitude*",
            "*gps*",
            "*post*code*",
            "*zip*code*",
            "*street*",
            "ip",
            "*ip*addr*",
            "*ssid*",
            "*host*name*",
            "*device*name*",
            "*computer*name*",
            "*serial*number*",
            "*imei*",
            "*idfa*",
            "*idfv*",
            "*advertising*",
        ];
        Redact {
            keys: keys.map(str::to_owned).to_vec(),
        }
    }
}

/// The text in place of a value that was removed.
pub const REMOVED: &str = "(removed)";

/// Removes what identifies a user or a machine:
///
/// - user names in paths (`/Users/…`, `/home/…`, `C:\Users\…`, `~…/`; in any letter case, escaped as in JSON or a URL), in
///   every text of the report, and the same names as separate words;
/// - the values of keys of free form (the context's, and those that this version does not know) that match
///   a pattern of `rules`, at any depth;
/// - raw bytes, which may be anything from memory, except ids and hashes of images, and all of the
///   memory near a crash;
/// - the randomised part of addresses. Images get new addresses, and frames and registers within them
///   move along, so the report can still be symbolicated. Other addresses keep only their place in the
///   page, also in texts such as `0x7ffd12345678` or `7ffd12345678`. Registers that point into no image are removed.
///
/// These stay: app, system, device, times, ids of report, launch, process and threads, names of threads
/// and images, messages, breadcrumbs, and values of other context keys. Numbers among them that point
/// into an image move with it. Only the app knows the meaning of other numbers.
///
/// ```
/// use wedjat::report::{Report, Redact, Value, redact};
/// let mut report = Report::default();
/// let mut event = wedjat::report::Event::default();
/// event.reason = Some("can't open /home/alice/notes.txt".to_owned());
/// report.event = Some(event);
/// redact(&mut report, &Redact::default());
/// let reason = report.event.unwrap().reason.unwrap();
/// assert_eq!(reason, "can't open /home/(user)/notes.txt");
/// ```
pub fn redact(report: &mut Report, rules: &Redact) {
    redact_names(report, rules);
}

/// [`redact`], and the names that were removed.
pub(crate) fn redact_names(report: &mut Report, rules: &Redact) -> UserNames {
    let names = UserNames::of(report);
    report.memory.clear();
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

/// Returns true if `key` matches `pattern`, in which `*` stands for any characters; case does not matter.
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
