//! A copy of the context, taken into memory that was reserved before.

use super::cell::Cell;
use super::record::Read;
use super::{BREADCRUMBS, Context, KEYS, MARKS, VITALS};
use std::time::Duration;

use crate::report::{AppContextView, ValueView};

/// A copy of a [`Context`]. Made once; read into as often as needed, without allocating.
#[derive(Debug)]
pub(crate) struct Snapshot {
    keys: Box<[Read]>,
    gauges: Box<[Read]>,
    breadcrumbs: Box<[Read]>,
    marks: Box<[Read]>,
}

impl Snapshot {
    /// Reserves and touches the memory.
    pub fn new() -> Snapshot {
        let room = |count: usize| vec![Read::EMPTY; count].into_boxed_slice();
        Snapshot {
            keys: room(KEYS),
            gauges: room(VITALS),
            breadcrumbs: room(BREADCRUMBS),
            marks: room(MARKS),
        }
    }

    /// Signal-safe.
    pub(super) fn fill(&mut self, context: &Context) {
        copy(&mut self.keys, context.keys.cells());
        copy(&mut self.gauges, context.gauges.cells());
        copy(&mut self.breadcrumbs, context.breadcrumbs.iter());
        copy(&mut self.marks, context.marks.iter());
        // Oldest first: by ticket, as two may have the same time. In place, without allocating.
        sort(&mut self.breadcrumbs, |read| read.second);
        sort(&mut self.marks, |read| read.number);
    }

    /// Returns true if the app has set nothing.
    pub fn is_empty(&self) -> bool {
        let all = [&self.keys, &self.gauges, &self.breadcrumbs, &self.marks];
        all.iter().all(|reads| written(reads).next().is_none())
    }

    /// Keys and their values.
    pub fn keys(&self) -> impl Iterator<Item = (&str, ValueView<'_>)> + Clone {
        written(&self.keys).filter_map(|read| Some((read.name(), read.value()?)))
    }

    /// Gauges by name.
    pub fn gauges(&self) -> impl Iterator<Item = (&str, f64)> + Clone {
        written(&self.gauges).map(|read| (read.name(), f64::from_bits(read.number)))
    }

    /// Breadcrumbs, oldest first: time (monotonic clock) and text.
    pub fn breadcrumbs(&self) -> impl Iterator<Item = (Duration, &str)> + Clone {
        written(&self.breadcrumbs).map(|read| (Duration::from_nanos(read.number), read.line()))
    }

    /// Marks, by their start: name, start (monotonic clock), length (`None` while it lasts).
    pub fn marks(&self) -> impl Iterator<Item = (&str, Duration, Option<Duration>)> + Clone {
        written(&self.marks).map(|read| {
            let lasted = (read.second & 1 == 0).then_some(Duration::from_nanos(read.second >> 1));
            (read.name(), Duration::from_nanos(read.number), lasted)
        })
    }

    /// Calls `with` with the report's section `context`. Signal-safe.
    pub(crate) fn with_view<R>(&self, with: impl FnOnce(&AppContextView<'_>) -> R) -> R {
        let mut keys = [("", ValueView::Nil); KEYS];
        let mut gauges = [("", 0.0); VITALS];
        let mut marks = [("", Duration::ZERO, None); MARKS];
        let mut breadcrumbs = [(Duration::ZERO, ""); BREADCRUMBS];
        with(&AppContextView {
            keys: filled(&mut keys, self.keys()),
            gauges: filled(&mut gauges, self.gauges()),
            marks: filled(&mut marks, self.marks()),
            breadcrumbs: filled(&mut breadcrumbs, self.breadcrumbs()),
        })
    }
}

/// As many of `items` as `room` has place for.
fn filled<T>(room: &mut [T], items: impl Iterator<Item = T>) -> &[T] {
    let slots = room.iter_mut().zip(items);
    let count = slots.map(|(slot, item)| *slot = item).count();
    room.get(..count).unwrap_or_default()
}

fn written(reads: &[Read]) -> impl Iterator<Item = &Read> + Clone {
    reads.iter().filter(|read| read.kind != 0)
}

/// Sorts by `key`, with the empty records last. It is given as a pointer, so that the sort is compiled once.
fn sort(reads: &mut [Read], key: fn(&Read) -> u64) {
    reads.sort_unstable_by_key(|read| (read.kind == 0, key(read)));
}

fn copy<'a, const N: usize>(into: &mut [Read], cells: impl Iterator<Item = &'a Cell<N>>) {
    for (read, cell) in into.iter_mut().zip(cells) {
        match cell.read() {
            Some(words) => read.fill(&words),
            None => read.kind = 0,
        }
    }
}
