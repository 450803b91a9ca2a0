//! Groups reports of the same stall, by the heaviest stack of each, normalised.
//!
//! A stack is normalised so that builds, compilers and depths of recursion don't separate two reports of
//! one fault ([`RECIPE`], `docs/measured/groups.md`):
//!
//! - inlined functions count as the frames they are in the source, so that builds which inline
//!   differently agree;
//! - only the app's own frames count, by the path of their source; without any, its libraries'
//!   frames count, and without those all frames;
//! - names are as the source code has them: without generic arguments and parameters, numbers of
//!   closures, hashes, and suffixes of clones;
//! - repeated runs of frames (recursion) count once.
//!
//! The stack of a stall with samples is what was on it for most of the samples. Any other report has
//! the stack of the thread in question. A frame without a name counts by its image. If no frame has a
//! name, the offset counts too, which is the same in one build alone. Pass the debug files to group
//! across builds.

mod copies;
mod member;
mod stack;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) use self::copies::{Identity, SeenIds, identity};
pub(crate) use self::member::{APP_KEY, UNKNOWN};
pub use self::member::{Label, Member, RECIPE, key_text};
pub(crate) use self::stack::key_names;
pub use self::stack::{normalised, thread_in_question};
use super::frame::Symbolicated;
use super::memo::Memo;

/// Groups kept at a time: when there are more, the rarer half is dropped and only counted.
const MAX_GROUPS: usize = 1 << 16;
/// Versions, devices and systems counted one by one; further ones are counted together, as [`OTHERS`].
const MAX_COUNTED: usize = 256;
/// The name under which further versions, devices and systems count.
pub(crate) const OTHERS: &str = "others";
pub(crate) const NANOS_OF_A_DAY: u64 = 86_400_000_000_000;
/// Days of which a group counts its reports.
pub const DAYS: usize = 366;
/// Ended launches that are remembered at a time. With one more, all are forgotten.
const MAX_LAUNCHES: usize = 7 << 16;

/// Groups being counted, in memory that does not grow with the number of reports.
#[derive(Debug, Default)]
pub struct Groups {
    groups: FxHashMap<u128, Group>,
    /// Names in the stacks of examples, each once: most groups have most of theirs in common with others.
    names: FxHashSet<Arc<str>>,
    reports: u64,
    dropped: u64,
    /// Launches with any report, by version.
    pub(crate) versions: BTreeMap<String, Launches>,
    seen: SeenIds,
    /// The report by which each launch ended, and its group. Of several reports the least counts: that of no open stall,
    /// then the longest stall.
    ends: Memo<u64, (bool, Reverse<Duration>, u128), MAX_LAUNCHES>,
}

/// Reports of the same fault.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Group {
    /// Of kind and stack: the same on every machine, for every order of the reports.
    pub key: u128,
    /// The report with the longest duration; the first report, where none has a duration. Kind and stack are those of all.
    pub example: Member,
    /// Number of reports.
    pub count: u64,
    /// Number of launches that ended by them: crashes, and stalls that were never seen to end. A launch ends once, of one
    /// cause: of a crash, panic or exception before a stall, and of the longest stall before others.
    pub ended: u64,
    /// Sum of the stalls' durations.
    pub total: Duration,
    /// The longest.
    pub worst: Duration,
    /// True if a stall among them was never seen to end: it counts to its last sample, and lasted longer.
    pub at_least: bool,
    /// Time of the first report, in nanoseconds since the epoch; `None` where no report has one.
    pub first: Option<u64>,
    /// Time of the last.
    pub last: Option<u64>,
    /// Reports by the value of each label: `versions`, `devices`, `systems` (`iOS 17.4`), `endings`; `classes` and `reasons` of
    /// stalls; and the app's keys, such as `key screen`.
    pub labels: BTreeMap<Label, BTreeMap<String, u64>>,
    /// Reports by day since the epoch: the last [`DAYS`] on which there were any.
    pub days: BTreeMap<u64, u64>,
    /// Launches with such reports, by version: the names of [`Groups::versions`].
    pub(crate) versions: BTreeMap<String, Launches>,
}

/// The ending of a stall that was never seen to end: the app was killed in it, or died otherwise.
pub const NO_END: &str = "never seen to end";

impl Group {
    /// Number of launches that have such reports; above some thousands an estimate, to 2 %.
    pub fn launches(&self) -> u64 {
        let mut all = Launches::default();
        let versions = self.versions.values();
        versions.for_each(|of| of.0.iter().for_each(|launch| all.add(*launch)));
        all.count().clamp(self.ended, self.count)
    }

    /// Returns the measure by which groups are ordered: the launches that it ended, then its total duration, then its count.
    pub(crate) fn cost(&self) -> (u64, Duration, u64) {
        (self.ended, self.total, self.count)
    }
}

impl Groups {
    /// Counts a report, and says which group it belongs to.
    pub fn add(&mut self, origin: &str, report: &Symbolicated) -> u128 {
        self.add_member(Member::new(origin, report))
    }

    /// Counts a report of which all that counts is known already, and says which group it belongs to. Of copies the first
    /// one counts.
    pub fn add_member(&mut self, mut member: Member) -> u128 {
        let key = member.key;
        if !self.seen.is_new(member.identity) {
            return key;
        }
        self.reports += 1;
        if !self.groups.contains_key(&key) && self.groups.len() >= MAX_GROUPS {
            self.drop_rare();
        }
        let launch = launch_hash(&member.launch, self.reports);
        let version = counted_as(&self.versions, member.label("versions")).to_owned();
        let end = (member.at_least, Reverse(member.duration), key);
        let known = self.ends.get(&launch).copied();
        let ends = member.ended && known.is_none_or(|known| end < known);
        if ends {
            self.ends.insert(launch, end);
            if let Some(other) = known.and_then(|(.., other)| self.groups.get_mut(&other)) {
                other.ended = other.ended.saturating_sub(1);
            }
        }
        let group = self.groups.entry(key).or_insert_with(|| Group {
            key,
            ..Group::default()
        });
        let is_example = group.count == 0 || member.duration > group.worst;
        group.count += 1;
        group.at_least |= member.at_least;
        group.first = group.first.into_iter().chain(member.time).min();
        group.last = group.last.max(member.time);
        let of_group = group.versions.entry(version.clone()).or_default();
        of_group.add(launch);
        self.versions.entry(version).or_default().add(launch);
        group.ended += u64::from(ends);
        for (label, value) in &member.labels {
            if group.labels.len() < MAX_COUNTED / 16 || group.labels.contains_key(label) {
                tally(group.labels.entry(label.clone()).or_default(), value);
            }
        }
        if let Some(time) = member.time {
            *group.days.entry(time / NANOS_OF_A_DAY).or_default() += 1;
        }
        if group.days.len() > DAYS {
            group.days.pop_first();
        }
        group.total = group.total.saturating_add(member.duration);
        if is_example {
            for name in &mut member.stack {
                self.names.insert(name.clone());
                *name = self.names.get(name).cloned().unwrap_or_default();
            }
            group.worst = member.duration;
            group.example = member;
        }
        key
    }

    /// Number of reports that were counted.
    pub fn reports(&self) -> u64 {
        self.reports
    }

    /// Number of reports that were not counted, since their id had come before.
    pub fn duplicates(&self) -> u64 {
        self.seen.copies
    }

    /// Number of reports with the id of an earlier one that are no copies of it.
    pub fn reused_ids(&self) -> u64 {
        self.seen.reused_ids
    }

    /// Number of reports in groups too rare to be kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Number of groups.
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// The `n` groups that hurt users most: by the launches that they ended, then by total duration, then by count.
    pub fn top(&self, n: usize) -> Vec<&Group> {
        let mut groups: Vec<&Group> = self.groups.values().collect();
        groups.sort_unstable_by(|a, b| b.cost().cmp(&a.cost()).then(a.key.cmp(&b.key)));
        groups.truncate(n);
        groups
    }

    /// The group of this key.
    pub(crate) fn get(&self, key: u128) -> Option<&Group> {
        self.groups.get(&key)
    }

    fn drop_rare(&mut self) {
        let mut counts: Vec<(u64, u128)> = self.groups.values().map(|g| (g.count, g.key)).collect();
        let half = counts.len() / 2;
        counts.select_nth_unstable(half);
        self.names.clear();
        for (count, key) in &counts[..half] {
            self.dropped += count;
            self.groups.remove(key);
        }
    }
}

fn tally(counts: &mut BTreeMap<String, u64>, what: &str) {
    let what = counted_as(counts, what).to_owned();
    *counts.entry(what).or_default() += 1;
}

fn counted_as<'a, T>(counts: &BTreeMap<String, T>, what: &'a str) -> &'a str {
    let has_place = counts.len() < MAX_COUNTED || counts.contains_key(what);
    if has_place { what } else { OTHERS }
}

/// Hashes of launches kept.
const MAX_HASHES: usize = 1 << 12;

/// The smallest hashes of the launches seen. All of them while there are few; then their density says how many there are.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Launches(BTreeSet<u64>);

/// Returns the hash of a launch's id, the same in each run. A launch without an id is another than all before, by the `number`
/// of its report.
fn launch_hash(id: &[u8; 16], number: u64) -> u64 {
    let number = if *id == [0; 16] { number } else { 0 };
    BuildHasherDefault::<DefaultHasher>::default().hash_one((id, number))
}

impl Launches {
    fn add(&mut self, launch: u64) {
        self.0.insert(launch);
        if self.0.len() > MAX_HASHES {
            self.0.pop_last();
        }
    }

    /// Number of the launches; above some thousands an estimate, to 2 %.
    pub fn count(&self) -> u64 {
        match self.0.last() {
            Some(largest) if self.0.len() == MAX_HASHES => {
                let share = *largest as f64 / u64::MAX as f64;
                ((MAX_HASHES - 1) as f64 / share).round() as u64
            }
            _ => self.0.len() as u64,
        }
    }

    /// Takes a random sample: all launches while there are few. Returns how many of it are among `some` of these launches, and
    /// its size.
    pub fn sample(&self, some: Option<&Launches>) -> (u64, u64) {
        let some = some.map_or(0, |some| some.0.intersection(&self.0).count());
        (some as u64, self.0.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_counted_and_many_are_estimated() {
        for many in [1_u128, 100, 4_000, 100_000] {
            let mut launches = Launches::default();
            for id in (1..=many).chain(1..=many.min(50)) {
                launches.add(launch_hash(&id.to_be_bytes(), 0));
            }
            let (many, found) = (many as f64, launches.count() as f64);
            assert!(
                (found - many).abs() <= if many > 4_000.0 { many / 20.0 } else { 0.0 },
                "{found} of {many}"
            );
        }
        let (mut all, mut some) = (Launches::default(), Launches::default());
        for number in 1..=100_000 {
            let launch = launch_hash(&[0; 16], number);
            all.add(launch);
            if number % 4 == 0 {
                some.add(launch);
            }
        }
        let (own, size) = all.sample(Some(&some));
        assert_eq!(
            (size, all.sample(None)),
            (MAX_HASHES as u64, (0, MAX_HASHES as u64))
        );
        assert!(
            (own as f64 / size as f64 - 0.25).abs() < 0.03,
            "{own} of {size}"
        );
        let mut without_ids = Launches::default();
        (1..=7).for_each(|number| without_ids.add(launch_hash(&[0; 16], number)));
        assert_eq!(without_ids.count(), 7);
    }
}
