//! `stall_end`, `capture`, `loss` and `end`: what is said of the report itself.

use super::{optional_text, optional_unsigned};
use crate::report::encode::MapEncoder;

/// What `stall_end` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct StallEndView<'a> {
    /// From the stall's start, nanoseconds.
    pub duration: u64,
    /// `recovered`, `uninstalled`, `thread_ended`.
    pub how: &'a str,
}

impl StallEndView<'_> {
    pub(crate) const KIND: &'static str = "stall_end";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        m.unsigned("duration", self.duration);
        m.text("how", self.how);
    }
}

/// What `capture` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct CaptureView<'a> {
    /// The watched thread stood still so long, nanoseconds.
    pub stopped: Option<u64>,
    /// Unwinding took so long, nanoseconds.
    pub unwind: Option<u64>,
    /// Bytes of stack copied.
    pub bytes: Option<u64>,
    /// Samples taken.
    pub samples: Option<u64>,
    /// What was cut short, as `budget`, `stack limit`; `None` where nothing was.
    pub cut: Option<&'a str>,
    /// Threads that did not answer.
    pub unanswered: Option<u64>,
}

impl CaptureView<'_> {
    pub(crate) const KIND: &'static str = "capture";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        optional_unsigned(m, "stopped", self.stopped);
        optional_unsigned(m, "unwind", self.unwind);
        optional_unsigned(m, "bytes", self.bytes);
        optional_unsigned(m, "samples", self.samples);
        optional_unsigned(m, "unanswered", self.unanswered);
        optional_text(m, "cut", self.cut);
    }
}

/// What `loss` says: counts by reason.
#[derive(Debug, Clone, Copy, Default)]
pub struct LossView<'a> {
    /// Reason and count; reasons whose count is 0 are not written.
    pub counts: &'a [(&'a str, u64)],
}

impl LossView<'_> {
    pub(crate) const KIND: &'static str = "loss";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        for &(reason, count) in self.counts {
            if count > 0 {
                m.unsigned(reason, count);
            }
        }
    }
}

pub(crate) const END_KIND: &str = "end";

pub(crate) fn encode_end(m: &mut MapEncoder<'_, '_>, crc: u32, sections: u64, closed_by: &str) {
    m.unsigned("crc32", u64::from(crc));
    m.unsigned("sections", sections);
    m.text("closed_by", closed_by);
}
