//! The picture of a report's samples over time on a page, coloured by the app's innermost function.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::report::time::nanos;
use crate::report::{Report, Sample};
use crate::symbolicate::blame::blamed;
use crate::symbolicate::format::facts::{app_state, began, duration};
use crate::symbolicate::format::plain::escape;
use crate::symbolicate::format::stacks::end_of_samples;
use crate::symbolicate::frame::Symbolicated;

/// Functions with a colour of their own; the rest share one.
const MAX_COLOURS: usize = 7;
/// Samples drawn; further ones would be thinner than a pixel.
const MAX_SAMPLES: usize = 2000;
const WIDTH: f64 = 1000.0;

pub(super) fn timeline(page: &mut String, of: &Symbolicated) {
    let samples = &of.report.samples;
    // Of samples that have no times there is no line of time.
    let untimed = samples.len() > 1 && samples.iter().all(|sample| sample.at.is_zero());
    if samples.is_empty() || untimed {
        return;
    }
    let name = |stack| blamed(of, stack).map_or("???", |blamed| blamed.name(of));
    let names: Vec<&str> = of.samples.iter().map(name).collect();
    let mut weights: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, sample) in names.iter().zip(samples) {
        let weight = weights.entry(name).or_default();
        *weight = weight.saturating_add(sample.count.max(1));
    }
    let total = weights.values().copied().fold(0, u64::saturating_add);
    let mut heaviest: Vec<(&str, u64)> = weights.into_iter().collect();
    heaviest.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let colour = |name: &str| {
        let mut coloured = heaviest.iter().take(MAX_COLOURS);
        let at = coloured.position(|(other, _)| *other == name);
        at.unwrap_or(MAX_COLOURS)
    };
    let end = end_of_samples(of).max(1);
    let x = |at: u64| at as f64 / end as f64 * WIDTH;
    let _ = writeln!(
        page,
        "<h2>Samples <small>{total} in {}</small></h2>\n\
         <svg class=\"timeline\" viewBox=\"0 0 {WIDTH} 56\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Samples over time\">",
        duration(end)
    );
    let at = |sample: &Sample| nanos(sample.at);
    for (index, (sample, name)) in samples.iter().zip(&names).enumerate().take(MAX_SAMPLES) {
        let next = samples.get(index + 1);
        let until = next.map_or(end, |next| at(next).max(at(sample)));
        let width = (x(until) - x(at(sample))).max(1.0);
        let state = sample.state_word();
        let state = state.map_or(String::new(), |state| format!(", {state}"));
        let _ = writeln!(
            page,
            "<rect class=\"c{}\" x=\"{:.1}\" y=\"0\" width=\"{width:.1}\" height=\"56\"><title>{}: {}{} ({} ×)</title></rect>",
            colour(name),
            x(at(sample)),
            duration(at(sample)),
            escape(name),
            escape(&state),
            sample.count.max(1),
        );
    }
    let _ = writeln!(
        page,
        "</svg>\n<p class=\"axis\"><span>0</span><span>{}</span></p>",
        duration(end)
    );
    marks(page, &of.report, end);
    page.push_str("<ul class=\"legend\">\n");
    for (name, weight) in heaviest.iter().take(MAX_COLOURS) {
        let share = 100.0 * *weight as f64 / total as f64;
        let _ = writeln!(
            page,
            "<li><svg viewBox=\"0 0 1 1\"><rect class=\"c{}\" width=\"1\" height=\"1\"/></svg> {} <small>{share:.0} %</small></li>",
            colour(name),
            escape(name)
        );
    }
    if heaviest.len() > MAX_COLOURS {
        let more = heaviest.len() - MAX_COLOURS;
        let _ = writeln!(
            page,
            "<li><svg viewBox=\"0 0 1 1\"><rect class=\"c{MAX_COLOURS}\" width=\"1\" height=\"1\"/></svg> {more} more</li>"
        );
    }
    page.push_str("</ul>\n");
}

/// The app's timed marks that were under way, each a bar below the samples, and its breadcrumbs as ticks.
fn marks(page: &mut String, report: &Report, end: u64) {
    let began = began(report);
    let app = app_state(report);
    let share = |at: u64| 100.0 * at.saturating_sub(began).min(end) as f64 / end as f64;
    let until = began.saturating_add(end);
    let mut lines = String::new();
    let marks = app.marks.iter().map(|mark| ("mark", mark));
    let crumbs = app.breadcrumbs.iter().map(|crumb| ("tick", crumb));
    for (class, moment) in marks.chain(crumbs) {
        let stop = moment.end(u64::MAX);
        if moment.start > until || stop < began {
            continue;
        }
        let (from, to) = (share(moment.start), share(stop));
        let _ = writeln!(
            lines,
            "<li><span class=\"{class}\" style=\"margin-left:{:.2}%;width:{:.2}%\"></span>{} <small>{}</small></li>",
            from.min(99.5),
            (to - from).max(0.5),
            escape(&moment.text()),
            moment.when,
        );
    }
    if !lines.is_empty() {
        let _ = writeln!(
            page,
            "<ul class=\"marks\" aria-label=\"Marks and breadcrumbs\">\n{lines}</ul>"
        );
    }
}
