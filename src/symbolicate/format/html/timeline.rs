//! The samples of a stall on a line of time, coloured by the app's innermost function.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::markup::escape;
use crate::symbolicate::format::units::duration;
use crate::symbolicate::frame::{Frame, Stack, Symbolicated, image_file_name};
use crate::symbolicate::group::{Member, is_own};

/// Functions with a colour of their own; the rest share one.
const COLOURS: usize = 7;
/// Samples drawn; further ones would be thinner than a pixel.
const DRAWN: usize = 2000;
const WIDTH: f64 = 1000.0;

pub(super) fn timeline(page: &mut String, of: &Symbolicated, member: &Member) {
    let samples = &of.report.samples;
    let Some(last) = samples.last() else {
        return;
    };
    let names: Vec<&str> = of
        .samples
        .iter()
        .map(|stack| innermost(of, stack))
        .collect();
    let mut weights: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, sample) in names.iter().zip(samples) {
        let weight = weights.entry(name).or_default();
        *weight = weight.saturating_add(sample.count.max(1));
    }
    let total = weights
        .values()
        .fold(0_u64, |sum, weight| sum.saturating_add(*weight));
    let mut heaviest: Vec<(&str, u64)> = weights.into_iter().collect();
    heaviest.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let colour = |name: &str| {
        let at = heaviest
            .iter()
            .take(COLOURS)
            .position(|(other, _)| *other == name);
        at.unwrap_or(COLOURS)
    };
    // Without an end the last sample is as long as those before it.
    let spacing = last.at / (samples.len() as u64).max(1);
    let end = member.duration.max(last.at.saturating_add(spacing)).max(1);
    let x = |at: u64| at as f64 / end as f64 * WIDTH;
    let _ = writeln!(
        page,
        "<h2>Samples <small>{total} in {}</small></h2>\n\
         <svg class=\"timeline\" viewBox=\"0 0 {WIDTH} 56\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Samples over time\">",
        duration(end)
    );
    for (index, (sample, name)) in samples.iter().zip(&names).enumerate().take(DRAWN) {
        let until = samples
            .get(index + 1)
            .map_or(end, |next| next.at.max(sample.at));
        let width = (x(until) - x(sample.at)).max(1.0);
        let state = sample
            .state
            .as_deref()
            .map_or(String::new(), |state| format!(", {state}"));
        let _ = writeln!(
            page,
            "<rect class=\"c{}\" x=\"{:.1}\" y=\"0\" width=\"{width:.1}\" height=\"56\"><title>{}: {}{} ({} ×)</title></rect>",
            colour(name),
            x(sample.at),
            duration(sample.at),
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
    page.push_str("<ul class=\"legend\">\n");
    for (name, weight) in heaviest.iter().take(COLOURS) {
        let share = 100.0 * *weight as f64 / total as f64;
        let _ = writeln!(
            page,
            "<li><svg viewBox=\"0 0 1 1\"><rect class=\"c{}\" width=\"1\" height=\"1\"/></svg> {} <small>{share:.0} %</small></li>",
            colour(name),
            escape(name)
        );
    }
    if heaviest.len() > COLOURS {
        let more = heaviest.len() - COLOURS;
        let _ = writeln!(
            page,
            "<li><svg viewBox=\"0 0 1 1\"><rect class=\"c{COLOURS}\" width=\"1\" height=\"1\"/></svg> {more} more</li>"
        );
    }
    page.push_str("</ul>\n");
}

/// The app's innermost function on the stack, else the innermost one, else where it lies.
fn innermost<'a>(of: &'a Symbolicated, stack: &'a Stack) -> &'a str {
    fn name(frames: &[Frame]) -> Option<&str> {
        frames.iter().find_map(|frame| frame.function.as_deref())
    }
    let own = stack.frames.iter().filter(|physical| is_own(of, physical));
    let mut own = own.filter_map(|physical| name(&physical.frames));
    let mut any = stack
        .frames
        .iter()
        .filter_map(|physical| name(&physical.frames));
    let mut images = stack
        .frames
        .iter()
        .filter_map(|physical| of.image(physical));
    let image = || images.next().map(|image| image_file_name(&image.name));
    own.next()
        .or_else(|| any.next())
        .or_else(image)
        .unwrap_or("???")
}
