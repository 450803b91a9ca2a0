//! Chooses the reports that a page of many shows in whole: one of each group, then others as they come.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::ReportPage;
use crate::symbolicate::group::Groups;

/// Reports that a page shows in whole.
const REPORTS: usize = 100;

/// Reports in whole, in memory that does not grow with their number.
#[derive(Debug, Default)]
pub(super) struct Examples {
    /// One report of each of the groups that hurt users most, by the group's key.
    of_groups: FxHashMap<u128, ReportPage>,
    /// Further ones.
    others: Vec<ReportPage>,
}

impl Examples {
    /// Takes a report that its group has counted. The group's example is the report that lasted longest.
    ///
    /// A group may lose its example to a costlier group. It gets an example again with its next report, if it is no longer
    /// the cheapest. So each of the costliest groups has one in the end.
    pub fn add(&mut self, page: ReportPage, groups: &Groups) {
        let key = page.member.key;
        let has_room = self.of_groups.len() < REPORTS;
        match self.of_groups.get_mut(&key) {
            Some(example) if page.member.duration > example.member.duration => {
                let other = std::mem::replace(example, page);
                self.others.push(other);
            }
            Some(_) => self.others.push(page),
            None if has_room => {
                self.of_groups.insert(key, page);
            }
            None => self.replace_least(page, groups),
        }
        self.others.truncate(REPORTS - self.of_groups.len());
    }

    fn replace_least(&mut self, page: ReportPage, groups: &Groups) {
        let cost = |key: u128| (groups.get(key).map(|group| group.cost()), Reverse(key));
        let least = self.of_groups.keys().copied().min_by_key(|key| cost(*key));
        if let Some(least) = least.filter(|least| cost(*least) < cost(page.member.key)) {
            self.of_groups.remove(&least);
            self.of_groups.insert(page.member.key, page);
        }
    }

    /// The report, where there is one alone.
    pub fn only(&self) -> Option<&ReportPage> {
        self.of_groups.values().next()
    }

    /// The example of a group.
    pub fn of_group(&self, key: u128) -> Option<&ReportPage> {
        self.of_groups.get(&key)
    }

    /// Reports beside the examples.
    pub fn others(&self) -> &[ReportPage] {
        &self.others
    }
}
