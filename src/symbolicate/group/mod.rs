//! Which reports are the same stall: by the heaviest stack of each, normalised.
//!
//! A stack is normalised so that builds, compilers and depths of recursion don't tell two reports of
//! one fault apart ([`RECIPE`], `docs/groups.md`):
//!
//! - inlined functions count as the frames they are in the source, so that builds which inline
//!   differently agree;
//! - only the app's own frames count, by where they were compiled from; where there are none, those of
//!   its libraries; where there are none of these either, all;
//! - names are as the source code has them: without generic arguments and parameters, numbers of
//!   closures, hashes, and marks of clones;
//! - repeated runs of frames (recursion) stand once.
//!
//! Of a stall with samples, the stack is what was on it for most of the samples; of anything else, that
//! of the thread in question. A frame without a name counts by its image; where no frame has a name, by
//! its offset in it, too, which holds for one build alone: for groups across builds, give the debug files.

mod names;
mod stack;

use std::collections::BTreeMap;
use std::time::Duration;

use rustc_hash::FxHashMap;

pub(crate) use self::names::within;
pub use self::stack::{normalised, thread_in_question};
use super::frame::Symbolicated;
use crate::report::EventKind;

/// Groups kept at a time: when there are more, the rarer half is dropped and only counted.
const GROUPS: usize = 1 << 16;
/// Versions and devices counted one by one in a group; further ones are counted together.
const KINDS: usize = 64;

/// Groups being counted, in memory that does not grow with the number of reports.
#[derive(Debug, Default)]
pub struct Groups {
    groups: FxHashMap<u128, Group>,
    reports: u64,
    dropped: u64,
}

/// Reports of the same fault.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Group {
    /// Of kind and stack: the same on every machine, for every order of the reports.
    pub key: u128,
    /// What happened.
    pub kind: EventKind,
    /// The normalised stack, innermost first.
    pub stack: Vec<String>,
    /// How many reports.
    pub count: u64,
    /// Sum of the stalls' durations.
    pub total: Duration,
    /// The longest.
    pub worst: Duration,
    /// Where the report with the longest came from; the first, where none has a duration.
    pub example: String,
    /// Reports by version of the app.
    pub versions: BTreeMap<String, u64>,
    /// Reports by device.
    pub devices: BTreeMap<String, u64>,
}

/// What of a report counts in its group. Made on any thread; cheap to keep.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Member {
    /// The group's [`key`](Group::key).
    pub key: u128,
    /// What happened.
    pub kind: EventKind,
    /// The [`normalised`] stack, innermost first.
    pub stack: Vec<String>,
    /// Where the report comes from.
    pub origin: String,
    /// How long the stall took; zero where that is unknown, or for no stall.
    pub duration: Duration,
    /// Version of the app.
    pub version: String,
    /// The device.
    pub device: String,
}

impl Member {
    /// What of this report counts. `origin` says where it comes from.
    pub fn new(origin: &str, symbolicated: &Symbolicated) -> Member {
        let report = &symbolicated.report;
        let event = report.event.as_ref();
        let kind = event.map_or(EventKind::Other, |event| event.kind);
        let stack = normalised(symbolicated);
        let device = report.head.device.as_deref();
        Member {
            key: key_of(kind, &app_word(&report.head.app.name), &stack),
            kind,
            stack,
            origin: origin.to_owned(),
            duration: report
                .stall_end
                .as_ref()
                .map_or(Duration::ZERO, |end| end.duration),
            version: report.head.app.version.clone(),
            device: device.unwrap_or("unknown").to_owned(),
        }
    }
}

impl Groups {
    /// None yet.
    pub fn new() -> Groups {
        Groups::default()
    }

    /// Counts a report, and says which group it belongs to.
    pub fn add(&mut self, origin: &str, report: &Symbolicated) -> u128 {
        self.count(Member::new(origin, report))
    }

    /// Counts a report of which all that counts is known already, and says which group it belongs to.
    pub fn count(&mut self, member: Member) -> u128 {
        self.reports += 1;
        let key = member.key;
        if !self.groups.contains_key(&key) && self.groups.len() >= GROUPS {
            self.drop_rare();
        }
        let group = self.groups.entry(key).or_insert_with(|| Group {
            key,
            kind: member.kind,
            stack: member.stack,
            count: 0,
            total: Duration::ZERO,
            worst: Duration::ZERO,
            example: member.origin.clone(),
            versions: BTreeMap::new(),
            devices: BTreeMap::new(),
        });
        group.count += 1;
        group.total = group.total.saturating_add(member.duration);
        if member.duration > group.worst {
            group.worst = member.duration;
            group.example = member.origin;
        }
        tally(&mut group.versions, member.version);
        tally(&mut group.devices, member.device);
        key
    }

    /// How many reports were counted.
    pub fn reports(&self) -> u64 {
        self.reports
    }

    /// How many of them were in groups too rare to be kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The `n` groups that cost most: by total duration, then by count.
    pub fn top(&self, n: usize) -> Vec<&Group> {
        let mut groups: Vec<&Group> = self.groups.values().collect();
        groups.sort_unstable_by(|a, b| (b.total, b.count, a.key).cmp(&(a.total, a.count, b.key)));
        groups.truncate(n);
        groups
    }

    fn drop_rare(&mut self) {
        let mut counts: Vec<(u64, u128)> = self.groups.values().map(|g| (g.count, g.key)).collect();
        let half = counts.len() / 2;
        counts.select_nth_unstable(half);
        for (count, key) in &counts[..half] {
            self.dropped += count;
            self.groups.remove(key);
        }
    }
}

fn tally(counts: &mut BTreeMap<String, u64>, what: String) {
    if let Some(count) = counts.get_mut(&what) {
        *count += 1;
    } else if counts.len() < KINDS {
        counts.insert(what, 1);
    } else {
        *counts.entry("others".to_owned()).or_default() += 1;
    }
}

/// A group's key as every output has it: 32 hexadecimal digits.
pub fn key_text(key: u128) -> String {
    format!("{key:032x}")
}

/// Version of the recipe by which keys are made. Keys of different recipes are never the same.
pub const RECIPE: u32 = 3;

/// The app's name as every recorder writes it: `com.example.My-Kiosk`, `My Kiosk` and `mykiosk` are one.
fn app_word(name: &str) -> String {
    let is_bundle = name.split('.').count() > 2 && !name.contains(' ');
    let last = name.rsplit('.').next().filter(|_| is_bundle);
    let letters = last.unwrap_or(name).chars();
    let letters = letters.filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// FNV-1a of 128 bits: for a hash that must never change, simple enough to be written in any language.
fn key_of(kind: EventKind, app: &str, stack: &[String]) -> u128 {
    let recipe = RECIPE.to_string();
    let front = [recipe.as_str(), kind.as_str(), app];
    let words = front.into_iter().chain(stack.iter().map(String::as_str));
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in words.flat_map(|word| word.bytes().chain([0])) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    hash
}
