//! The labels in front of Apple's text reports (`Process:   kiosk [77]`), and what they say of app, system and time.

use super::draft::Draft;
use super::fields::Fields;
use super::ips::joined;
use super::values;
use crate::report::time::wall;

/// Labels with their values, in the order of the text.
#[derive(Default)]
pub(super) struct Labels(Vec<(String, String)>);

impl Labels {
    /// Keeps the label of a line; whether it has one.
    pub(super) fn push(&mut self, line: &str) -> bool {
        let label = label(line).map(|(key, value)| (key.to_owned(), value.to_owned()));
        let has_one = label.is_some();
        self.0.extend(label);
        has_one
    }

    /// The value of the first such label; reports write one label as `Hardware Model` and `Hardware model`.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let mut labels = self.0.iter();
        let (_, value) = labels.find(|(k, _)| k.eq_ignore_ascii_case(key))?;
        Some(value)
    }

    /// Takes the first such label out.
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        let at = (self.0.iter()).position(|(k, _)| k.eq_ignore_ascii_case(key))?;
        Some(self.0.remove(at).1)
    }

    /// Takes the first of these labels that is there.
    pub(super) fn take_one(&mut self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| self.take(key))
    }

    /// Takes what they say of the app, the system and the time; `header` fills in, the line of JSON of an `.ips`.
    pub(super) fn head(&mut self, draft: &mut Draft, header: &mut Fields) {
        let head = &mut draft.report.head;
        let id = self.take("Incident Identifier");
        let id = id.or_else(|| header.text("incident_id"));
        head.id = values::report_id(&id.unwrap_or_default());
        let time = self.take("Date/Time");
        let time = time.or_else(|| header.text("timestamp"));
        head.time = wall(time.and_then(|time| values::time(&time)).unwrap_or(0));
        let process = self.take("Process").unwrap_or_default();
        let (name, pid) = process.rsplit_once(" [").unwrap_or((process.as_str(), ""));
        let name = Some(name.trim().to_owned()).filter(|name| !name.is_empty());
        let name = self.take("Command").or(name);
        let name = name.or_else(|| header.text("app_name"));
        head.app.name = name.unwrap_or_default();
        let pid = self.take("PID").unwrap_or_else(|| pid.to_owned());
        head.pid = pid.trim().trim_end_matches(']').parse().unwrap_or(0);
        let version = self.take("Version");
        head.app.version = version
            .unwrap_or_else(|| joined(header.text("app_version"), header.text("build_version")));
        let os = self.take("OS Version");
        let os = os.or_else(|| header.text("os_version"));
        head.os = values::os(&os.unwrap_or_default());
        head.device = self.take("Hardware Model");
        let arch = self.take_one(&["Code Type", "Architecture"]);
        head.arch = values::arch(&arch.unwrap_or_default());
    }

    /// As they are kept.
    pub(super) fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }
}

/// `Label:   value`.
fn label(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_label = key.len() < 40
        && !value.trim().is_empty()
        && value.starts_with(' ')
        && key.starts_with(|c: char| c.is_ascii_uppercase())
        && key
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || b" /()-_".contains(&c));
    is_label.then(|| (key.trim(), value.trim()))
}
