//! One page for a report, or for all of them together: it needs no network, no script, and follows the
//! reader's choice of light or dark.

mod groups;
mod pictures;
mod report;
mod stack;

use std::io;

use super::plain::escape;
use super::{Format, Style, facts};
use crate::symbolicate::frame::Symbolicated;
use crate::symbolicate::group::{Groups, Member};

/// Reports that a page shows one by one; of further ones it shows the groups.
const REPORTS: usize = 100;
/// Groups that a page of several reports shows.
const GROUPS: usize = 10;

/// The page being put together.
#[derive(Debug, Default)]
pub struct Html {
    /// Only so many groups are wanted, and no reports.
    top: Option<usize>,
    groups: Groups,
    reports: Vec<ReportPage>,
}

/// One report's place in the page.
#[derive(Debug)]
pub struct ReportPage {
    member: Member,
    title: String,
    body: String,
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
            member,
        }
    }

    fn add(&mut self, part: ReportPage, _out: &mut dyn io::Write) -> io::Result<()> {
        self.groups.count(part.member.clone());
        if self.top.is_none() && self.reports.len() < REPORTS {
            self.reports.push(part);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        match (&self.reports[..], self.top, self.groups.reports()) {
            ([only], None, 1) => {
                begin(out, &only.title)?;
                out.write_all(only.body.as_bytes())?;
            }
            (reports, top, count) => {
                begin(out, &facts::count(count, "report"))?;
                out.write_all(groups::body(&self.groups, top.unwrap_or(GROUPS)).as_bytes())?;
                for page in reports {
                    let title = escape(&page.title);
                    let origin = escape(&page.member.origin);
                    writeln!(
                        out,
                        "<details class=\"report\"><summary>{title} <small>{origin}</small></summary>"
                    )?;
                    out.write_all(page.body.as_bytes())?;
                    out.write_all(b"</details>\n")?;
                }
                let left = count.saturating_sub(reports.len() as u64);
                if top.is_none() && left > 0 {
                    writeln!(
                        out,
                        "<p class=\"note\">{left} more reports are counted above.</p>"
                    )?;
                }
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
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

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
