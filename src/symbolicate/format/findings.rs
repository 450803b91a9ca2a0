//! The answers to a report, made once for every format: title, blame, group, normalised stack, and an owner a frame.

use serde_json::{Map, Value as Json, json};

use super::stacks::heaviest;
use crate::report::EventKind;
use crate::report::time::nanos;
use crate::symbolicate::blame::{Blamed, blamed, owner};
use crate::symbolicate::frame::{Frame, PhysicalFrame, Symbolicated};
use crate::symbolicate::group::{Group, Member, RECIPE, key_text, thread_in_question};

/// The answers to one report.
#[derive(Debug)]
pub(super) struct Findings {
    /// `stall in till::parse`.
    pub title: String,
    /// The function of the frame to blame; of one without a name, its image.
    pub blame: Option<String>,
    /// Index of the thread that it is about.
    pub thread: Option<usize>,
    pub member: Member,
}

impl Findings {
    pub fn new(origin: &str, of: &Symbolicated) -> Findings {
        let member = Member::new(origin, of);
        Findings {
            title: title(member.kind, &member.stack),
            blame: to_blame(of).map(|found| found.name(of).to_owned()),
            thread: thread_in_question(&of.report),
            member,
        }
    }

    /// As keys of a JSON object.
    pub fn put_into(&self, object: &mut Map<String, Json>) {
        let member = &self.member;
        let duration = (!member.duration.is_zero()).then(|| nanos(member.duration));
        let facts = [
            ("title", json!(self.title)),
            ("blame", json!(self.blame)),
            ("group", json!(key_text(member.key))),
            ("group_recipe", json!(RECIPE)),
            ("stack", json!(member.stack)),
            ("thread", json!(self.thread)),
            ("ended", json!(member.ended)),
            ("ending", json!(member.ending)),
            ("duration", json!(duration)),
            ("at_least", json!(member.at_least)),
        ];
        object.extend(facts.map(|(key, value)| (key.to_owned(), value)));
    }
}

/// The title of a group, and of each of its reports.
pub(super) fn title(kind: EventKind, stack: &[String]) -> String {
    let name = stack.first().map_or("(no stack)", String::as_str);
    format!("{} in {name}", kind.as_str())
}

/// [`title`] of a group.
pub(super) fn what(group: &Group) -> String {
    title(group.kind, &group.stack)
}

/// The frame to blame: of the heaviest sample, else of the thread that the report is about.
pub(super) fn to_blame(of: &Symbolicated) -> Option<Blamed<'_>> {
    let thread = || of.threads.get(thread_in_question(&of.report)?);
    let sample = heaviest(of).and_then(|(index, ..)| of.samples.get(index));
    blamed(of, sample.or_else(thread)?)
}

/// Whose code a frame is, as a word.
pub(super) fn owner_word(
    of: &Symbolicated,
    physical: &PhysicalFrame,
    frame: Option<&Frame>,
) -> &'static str {
    owner(of, physical, frame).as_str()
}
