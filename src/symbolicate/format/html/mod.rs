//! One page for a report, or for all of them together, with the groups that hurt users most: it needs no network, no
//! script, and follows the reader's choice of light or dark.

mod counts;
mod examples;
mod flame;
mod many;
mod pictures;
mod report;
mod stack;

use std::io;

use self::examples::Examples;
use super::plain::escape;
use super::{Format, Style, facts};
use crate::symbolicate::frame::Symbolicated;
use crate::symbolicate::group::{Groups, Member};

/// Groups that a page of several reports shows.
const GROUPS: usize = 10;

/// The page being put together.
#[derive(Debug, Default)]
pub struct Html {
    /// Only so many groups are wanted, each with its example.
    top: Option<usize>,
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

impl Html {
    /// A page of the `n` groups that cost most.
    pub fn top(n: usize) -> Html {
        Html {
            top: Some(n),
            ..Html::default()
        }
    }
}

impl Format for Html {
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
        self.groups.count(part.member.clone());
        if self.groups.reports() > before {
            self.examples.add(part, &self.groups);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        match (self.examples.only(), self.top, self.groups.reports()) {
            (Some(only), None, 1) => {
                begin(out, &only.title)?;
                out.write_all(only.body.as_bytes())?;
            }
            (_, top, count) => {
                begin(out, &facts::count(count, "report"))?;
                many::write(out, &self.groups, &self.examples, top)?;
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

/// Nothing may be loaded and nothing run, whatever names strangers gave their functions.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

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
