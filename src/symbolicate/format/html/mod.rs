//! One page for a report, or for all of them together, with the groups that hurt users most: it needs no network, follows
//! the reader's choice of light or dark, and runs no script but the one that searches a flame graph.

mod daily_histogram;
mod flame;
mod many;
mod report;
mod stack;
mod timeline;

use std::cmp::Reverse;
use std::io;

use rustc_hash::FxHashMap;

use super::history::ChosenGroups;
use super::plain::escape;
use super::{Parts, Style, facts};
use crate::symbolicate::frame::Symbolicated;
use crate::symbolicate::group::{Groups, Member};

/// Groups that a page of several reports shows.
const MAX_GROUPS: usize = 10;

/// Reports that a page shows in whole.
const MAX_REPORTS: usize = 100;

/// The page being put together.
#[derive(Debug, Default)]
pub struct Html {
    /// Only so many groups are wanted, each with its example.
    top: Option<usize>,
    /// This group alone is wanted.
    chosen: Option<ChosenGroups>,
    groups: Groups,
    examples: Examples,
}

/// One report's place in the page.
#[derive(Debug)]
pub struct ReportPage {
    member: Member,
    title: String,
    /// The report in whole.
    body: String,
    /// Its heaviest stack, with source.
    stack: String,
}

/// Reports in whole, in memory that does not grow with their number.
#[derive(Debug, Default)]
struct Examples {
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
    fn add(&mut self, page: ReportPage, groups: &Groups) {
        let key = page.member.key;
        let has_room = self.of_groups.len() < MAX_REPORTS;
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
        self.others.truncate(MAX_REPORTS - self.of_groups.len());
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
    fn only(&self) -> Option<&ReportPage> {
        self.of_groups.values().next()
    }

    /// The example of a group.
    fn of_group(&self, key: u128) -> Option<&ReportPage> {
        self.of_groups.get(&key)
    }

    /// Reports beside the examples.
    fn others(&self) -> &[ReportPage] {
        &self.others
    }
}

impl Html {
    /// A page of the `top` groups that cost most, or of the group whose key begins with these hexadecimal digits; else of all
    /// reports.
    pub fn new(top: Option<usize>, group: Option<String>) -> Html {
        Html {
            top,
            chosen: group.map(ChosenGroups::new),
            ..Html::default()
        }
    }
}

impl Parts for Html {
    type Part = ReportPage;

    fn part(style: &Style, origin: &str, report: &Symbolicated) -> ReportPage {
        let member = Member::new(origin, report);
        ReportPage {
            title: report::title(report, &member),
            body: report::body(style, origin, report, &member),
            stack: report::heaviest_stack(style, report),
            member,
        }
    }

    fn add(&mut self, part: ReportPage, _out: &mut dyn io::Write) -> io::Result<()> {
        let before = self.groups.reports();
        self.groups.add_member(part.member.clone());
        let chosen = self.chosen.as_mut();
        if self.groups.reports() > before && chosen.is_none_or(|of| of.add(&part.member)) {
            self.examples.add(part, &self.groups);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        match (self.examples.only(), self.groups.reports()) {
            (Some(only), 1) if self.top.is_none() && self.chosen.is_none() => {
                begin(out, &only.title)?;
                out.write_all(only.body.as_bytes())?;
            }
            (_, count) => {
                begin(out, &facts::count(count, "report"))?;
                many::write(out, self)?;
            }
        }
        let version = env!("CARGO_PKG_VERSION");
        writeln!(
            out,
            "<footer>wedjat {version}</footer>\n</main>\n</body>\n</html>"
        )?;
        out.flush()
    }
}

/// Nothing may be loaded, and nothing run but `search.js`, whatever names strangers gave their functions.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
     script-src 'sha256-CaGQPmbm2fvFS0Tko+UqOK2ni6VZcEjoVZr6i9vmkuo='";

fn begin(out: &mut dyn io::Write, title: &str) -> io::Result<()> {
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n",
        escape(title),
        include_str!("page.css"),
    )
}
