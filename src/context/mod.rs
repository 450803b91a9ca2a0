//! State that the app itself records: keys, breadcrumbs, gauges, timed marks. Its size is bounded, and writing takes
//! no lock. A capture and a crash handler can read it at any instant.
// Signal handlers read what the app writes here: nothing in the room can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod cell;
#[cfg(feature = "tracing")]
mod layer;
mod record;
mod slots;
mod snapshot;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use self::cell::Cell;
#[cfg(feature = "tracing")]
pub use self::layer::TracingLayer;
use self::record::{Record, hash};
use self::slots::Slots;
pub(crate) use self::snapshot::Snapshot;
use crate::platform::clock;
use crate::report::ValueView;

/// Keys at most; later ones are dropped, and counted.
pub const KEYS: usize = 64;
/// Breadcrumbs that are kept; the oldest make room.
pub const BREADCRUMBS: usize = 64;
/// Gauges at most.
pub const VITALS: usize = 64;
/// Timed marks that are kept; the oldest make room.
pub const MARKS: usize = 64;
/// Bytes of a name or key; longer ones are cut at a character.
pub const NAME: usize = 64;
/// Bytes of a text value or breadcrumb; longer ones are cut at a character.
pub const TEXT: usize = 240;

/// Words of a record with a text, and of one with two numbers.
const LINE: usize = 2 + (NAME + TEXT) / 8;
const PAIR: usize = 3 + NAME / 8;

/// State that the app records about itself, for the next report: see [`Monitor::context`](crate::Monitor::context). All
/// methods take `&self`, may be called from any thread, never wait for another and never allocate.
///
/// ```
/// # fn of(context: &wedjat::context::Context) {
/// context.set("screen", "Checkout");
/// context.set("items", 3);
/// context.breadcrumb("tapped Buy");
/// let load = context.mark("load prices");
/// context.gauge("queue", 3.5);
/// drop(load); // the mark's time ends here
/// # }
/// ```
pub struct Context {
    keys: Slots<KEYS, LINE>,
    gauges: Slots<VITALS, PAIR>,
    breadcrumbs: [Cell<LINE>; BREADCRUMBS],
    marks: [Cell<PAIR>; MARKS],
    next_breadcrumb: AtomicU64,
    next_mark: AtomicU64,
    dropped: AtomicU64,
}

/// The context of this process.
pub(crate) static CONTEXT: Context = Context::new();

impl Context {
    pub(crate) const fn new() -> Context {
        Context {
            keys: Slots::new(),
            gauges: Slots::new(),
            breadcrumbs: [const { Cell::new() }; BREADCRUMBS],
            marks: [const { Cell::new() }; MARKS],
            next_breadcrumb: AtomicU64::new(0),
            next_mark: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Sets a key: a text, a number or a `bool`. Returns false if the write was dropped: there are [`KEYS`] other
    /// keys, or another thread wrote this one at the same instant.
    pub fn set<'a>(&self, key: &str, value: impl Into<ValueView<'a>>) -> bool {
        let value = value.into();
        let write = |words: &mut [u64; LINE]| Record(words).set_value(key, value);
        self.count_dropped(self.keys.put(hash(key), write))
    }

    /// Removes a key, which makes room for another one. Returns false if another thread wrote this key at the same
    /// instant, so that it may still be set.
    pub fn remove(&self, key: &str) -> bool {
        self.count_dropped(self.keys.remove(hash(key)))
    }

    /// Sets a gauge: a number by name, such as the length of a queue. Returns false if the write was dropped, as
    /// [`Context::set`] does.
    pub fn gauge(&self, name: &str, value: f64) -> bool {
        let write = |words: &mut [u64; PAIR]| Record(words).set_pair(name, value.to_bits(), 0);
        self.count_dropped(self.gauges.put(hash(name), write))
    }

    /// Leaves a breadcrumb: one line about what just happened, with the time.
    pub fn breadcrumb(&self, text: &str) {
        let ticket = self.next_breadcrumb.fetch_add(1, Ordering::Relaxed);
        let [first, ..] = &self.breadcrumbs;
        let cell = self.breadcrumbs.get(ticket as usize % BREADCRUMBS);
        let cell = cell.unwrap_or(first);
        self.update(cell, |words| {
            Record(words).set_line(ticket, clock::monotonic(), text)
        });
    }

    /// Starts a timed mark, such as a network call or a page. It ends when the result is dropped.
    pub fn mark(&self, name: &str) -> Mark<'_> {
        let ticket = self.next_mark.fetch_add(1, Ordering::Relaxed);
        let start = clock::monotonic();
        let mark = Mark {
            context: self,
            ticket,
            start,
        };
        self.update(mark.cell(), |words| {
            Record(words).set_pair(name, start, open(ticket));
        });
        mark
    }

    /// Count of the writes that were dropped, because there was no room or because two threads wrote to one place at
    /// the same instant.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Copies the present state into `snapshot`. Signal-safe.
    pub(crate) fn read(&self, snapshot: &mut Snapshot) {
        snapshot.fill(self);
    }

    fn update<const N: usize>(&self, cell: &Cell<N>, write: impl FnOnce(&mut [u64; N])) {
        self.count_dropped(cell.update(|words| {
            write(words);
            true
        }));
    }

    /// Counts what was not done.
    fn count_dropped(&self, is_done: bool) -> bool {
        if !is_done {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_done
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("dropped", &self.dropped())
            .finish_non_exhaustive()
    }
}

/// A timed mark that lasts until it is dropped.
#[derive(Debug)]
#[must_use = "the mark's time ends when this is dropped"]
pub struct Mark<'a> {
    context: &'a Context,
    ticket: u64,
    start: u64,
}

impl Mark<'_> {
    fn cell(&self) -> &Cell<PAIR> {
        let [first, ..] = &self.context.marks;
        let cell = self.context.marks.get(self.ticket as usize % MARKS);
        cell.unwrap_or(first)
    }
}

#[cfg(feature = "ffi")]
impl Mark<'_> {
    /// Returns the ticket and start without ending the mark, for callers in C that cannot keep it.
    pub(crate) fn into_parts(self) -> (u64, u64) {
        let parts = (self.ticket, self.start);
        std::mem::forget(self);
        parts
    }
}

#[cfg(feature = "ffi")]
impl Context {
    /// Returns the mark of which [`Mark::into_parts`] returned the parts.
    pub(crate) fn mark_from_parts(&self, ticket: u64, start: u64) -> Mark<'_> {
        Mark {
            context: self,
            ticket,
            start,
        }
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        let lasted = clock::monotonic().saturating_sub(self.start);
        // Changes nothing if a newer mark has taken the slot.
        self.cell()
            .update(|words| Record(words).close(open(self.ticket), closed(lasted)));
    }
}

/// A mark's second number: odd, with its ticket, while it lasts; even, with its length, after.
const fn open(ticket: u64) -> u64 {
    (ticket << 1) | 1
}

const fn closed(lasted: u64) -> u64 {
    lasted << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(context: &Context) -> Snapshot {
        let mut snapshot = Snapshot::new();
        context.read(&mut snapshot);
        snapshot
    }

    #[test]
    fn what_was_set_last_is_read() {
        static CONTEXT: Context = Context::new();
        CONTEXT.set("screen", "Cart");
        CONTEXT.set("screen", "Checkout");
        CONTEXT.set("signed in", true);
        CONTEXT.set("items", 3u32);
        CONTEXT.set("balance", -5i64);
        CONTEXT.set("ratio", 0.5);
        CONTEXT.set("path", &String::from_utf8_lossy(b"/home/ann"));
        CONTEXT.set("gone", "x");
        CONTEXT.remove("gone");
        let snapshot = read(&CONTEXT);
        let keys: Vec<_> = snapshot.keys().collect();
        // In the order in which the app first set them.
        let expected = [
            ("screen", ValueView::Text("Checkout")),
            ("signed in", ValueView::Bool(true)),
            ("items", ValueView::Unsigned(3)),
            ("balance", ValueView::Signed(-5)),
            ("ratio", ValueView::Float(0.5)),
            ("path", ValueView::Text("/home/ann")),
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn the_newest_breadcrumbs_are_kept_oldest_first() {
        static CONTEXT: Context = Context::new();
        for step in 0..BREADCRUMBS + 10 {
            CONTEXT.breadcrumb(&format!("step {step}"));
        }
        let snapshot = read(&CONTEXT);
        let texts: Vec<_> = snapshot
            .breadcrumbs()
            .map(|(_, text)| text.to_owned())
            .collect();
        let expected: Vec<_> = (10..BREADCRUMBS + 10)
            .map(|step| format!("step {step}"))
            .collect();
        assert_eq!(texts, expected);
        let times: Vec<_> = snapshot.breadcrumbs().map(|(time, _)| time).collect();
        assert!(times.is_sorted() && !times[0].is_zero());
    }

    #[test]
    fn marks_last_until_they_are_dropped() {
        static CONTEXT: Context = Context::new();
        let page = CONTEXT.mark("page");
        drop(CONTEXT.mark("request"));
        let snapshot = read(&CONTEXT);
        let marks: Vec<_> = snapshot.marks().collect();
        assert_eq!((marks[0].0, marks[0].2), ("page", None));
        assert!(marks[1].0 == "request" && marks[1].2.is_some());
        for _ in 0..MARKS {
            drop(CONTEXT.mark("later"));
        }
        drop(page);
        assert!(
            read(&CONTEXT)
                .marks()
                .all(|(name, _, lasted)| name == "later" && lasted.is_some())
        );
    }

    #[test]
    fn long_texts_are_cut_at_a_character_and_too_many_keys_counted() {
        static CONTEXT: Context = Context::new();
        CONTEXT.set("key", "ä".repeat(500).as_str());
        let snapshot = read(&CONTEXT);
        assert_eq!(
            snapshot.keys().next().unwrap().1,
            ValueView::Text(&"ä".repeat(TEXT / 2))
        );
        for key in 0..2 * KEYS {
            let is_kept = CONTEXT.set(&format!("key {key}"), key as u64);
            assert_eq!(is_kept, key < KEYS - 1, "{key}");
        }
        assert!(CONTEXT.set("key 0", "a key that was set before"));
        assert_eq!(read(&CONTEXT).keys().count(), KEYS);
        assert_eq!(CONTEXT.dropped() as usize, KEYS + 1);
        assert!(CONTEXT.remove("key"));
        assert!(
            CONTEXT.set("another key", true),
            "a removed one has made room"
        );
        assert!(!CONTEXT.set("key", "back"));
    }

    /// A key for each document that is open, of many more than there is room for.
    #[test]
    fn keys_come_and_go_for_as_long_as_the_app_runs() {
        static CONTEXT: Context = Context::new();
        CONTEXT.set("screen", "Editor");
        for document in 0..20 * KEYS {
            let key = |document| format!("document {document}");
            assert!(CONTEXT.set(&key(document), document));
            if document > 2 {
                assert!(CONTEXT.remove(&key(document - 3)));
            }
        }
        let snapshot = read(&CONTEXT);
        let mut keys: Vec<_> = snapshot.keys().map(|(key, _)| key).collect();
        keys.sort_unstable();
        let last = 20 * KEYS - 1;
        let open = (last - 2..=last).map(|document| format!("document {document}"));
        assert_eq!(keys, [open.collect(), vec!["screen".to_owned()]].concat());
        assert_eq!(CONTEXT.dropped(), 0);
    }

    #[test]
    fn names_of_all_kinds_have_the_same_room() {
        static CONTEXT: Context = Context::new();
        let name = |end: &str| "p".repeat(NAME - end.len()) + end;
        for end in ["read", "write"] {
            CONTEXT.gauge(&name(end), 1.0);
            drop(CONTEXT.mark(&name(end)));
        }
        let snapshot = read(&CONTEXT);
        let names: Vec<_> = snapshot.gauges().map(|gauge| gauge.0).collect();
        assert_eq!(names, [name("read"), name("write")]);
        let names: Vec<_> = snapshot.marks().map(|mark| mark.0).collect();
        assert_eq!(names, [name("read"), name("write")]);
    }

    #[test]
    fn many_threads_write_while_one_reads() {
        static CONTEXT: Context = Context::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..2_000u64 {
                        CONTEXT.set(&format!("thread {thread}"), round);
                        CONTEXT.breadcrumb(&format!("{thread} {thread} {thread}"));
                        CONTEXT.gauge("shared", round as f64);
                        drop(CONTEXT.mark("work"));
                    }
                });
            }
            for _ in 0..200 {
                let snapshot = read(&CONTEXT);
                for (_, text) in snapshot.breadcrumbs() {
                    let words: Vec<_> = text.split(' ').collect();
                    assert!(words.len() == 3 && words.iter().all(|&word| word == words[0]));
                }
            }
        });
        let snapshot = read(&CONTEXT);
        assert_eq!(snapshot.keys().count(), 4);
        assert!(
            snapshot
                .keys()
                .all(|(_, value)| value == ValueView::Unsigned(1_999))
        );
    }
}
