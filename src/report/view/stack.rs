//! `thread` and `sample`: stacks.

use super::frames::{Frames, GAP, encode_frames};
use super::optional::{flag, optional_text, optional_unsigned};
use crate::report::encode::{MapEncoder, unsigned_len};
use crate::report::model::{Omitted, RawFrame, WalkEnd};

/// What a `thread` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadView<'a> {
    /// The system's id of the thread.
    pub id: u64,
    /// Its name.
    pub name: Option<&'a str>,
    /// Whether it is the thread that was watched.
    pub main: bool,
    /// Whether it is the thread that crashed.
    pub crashed: bool,
    /// State, as `running`, `blocked`, `unresponsive`.
    pub state: Option<&'a str>,
    /// The system call it was in.
    pub syscall: Option<&'a str>,
    /// CPU time, nanoseconds.
    pub cpu: Option<u64>,
    /// Registers by name.
    pub registers: &'a [(&'a str, u64)],
    /// The stack, innermost frame first.
    pub frames: &'a [RawFrame],
    /// Why the walk stopped.
    pub end: Option<WalkEnd>,
    /// Frames that the capture itself left out.
    pub omitted: Option<Omitted>,
}

impl ThreadView<'_> {
    pub(crate) const KIND: &'static str = "thread";

    pub(crate) fn encode<F: Frames + ?Sized>(&self, m: &mut MapEncoder<'_, '_>, frames: &F) {
        let end = self.end.map(WalkEnd::as_str);
        self.encode_with(m, end, self.registers.iter().copied(), frames);
    }

    pub(crate) fn encode_with<'r, F: Frames + ?Sized>(
        &self,
        m: &mut MapEncoder<'_, '_>,
        end: Option<&str>,
        registers: impl Iterator<Item = (&'r str, u64)> + Clone,
        frames: &F,
    ) {
        m.hold(GAP);
        m.unsigned("id", self.id);
        flag(m, "main", self.main);
        flag(m, "crashed", self.crashed);
        optional_text(m, "name", self.name);
        optional_text(m, "state", self.state);
        optional_text(m, "syscall", self.syscall);
        optional_unsigned(m, "cpu", self.cpu);
        optional_text(m, "end", end);
        let bytes = registers.clone().fold(12, |sum: usize, (name, value)| {
            sum.saturating_add(name.len())
                .saturating_add(2)
                .saturating_add(unsigned_len(value))
        });
        if bytes > 12 {
            // Frames are worth more than registers.
            if bytes <= m.room() / 2 || frames.is_empty() {
                m.map("registers", |m| {
                    registers.for_each(|(name, value)| m.unsigned(name, value))
                });
            } else {
                m.drop_count(1);
            }
        }
        encode_frames(m, frames, self.omitted);
    }
}

/// What a `sample` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampleView<'a> {
    /// Since the stall's start, nanoseconds.
    pub at: u64,
    /// State of the thread.
    pub state: Option<&'a str>,
    /// How many samples in a row had this stack.
    pub count: u64,
    /// How many rootward frames are those of the sample before.
    pub keep: u64,
    /// The rest of the frames, innermost first.
    pub frames: &'a [RawFrame],
    /// Frames that the capture itself left out.
    pub omitted: Option<Omitted>,
    /// Why the walk stopped, where it stopped before the thread's first function.
    pub end: Option<WalkEnd>,
}

impl SampleView<'_> {
    pub(crate) const KIND: &'static str = "sample";

    pub(crate) fn encode<F: Frames + ?Sized>(&self, m: &mut MapEncoder<'_, '_>, frames: &F) {
        m.hold(GAP);
        m.unsigned("at", self.at);
        m.unsigned("count", self.count);
        m.unsigned("keep", self.keep);
        optional_text(m, "state", self.state);
        // A word that is not known is among the extra keys.
        let cut = self.end.filter(|end| *end != WalkEnd::Other);
        optional_text(m, "end", cut.map(WalkEnd::as_str));
        encode_frames(m, frames, self.omitted);
    }
}
