//! What is said of the report itself: how it ended, what it cost, what was lost.

use super::{Extra, Value};

/// The end of a stall.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StallEnd {
    /// From its start, nanoseconds.
    pub duration: u64,
    /// `recovered`, `uninstalled`, `thread_ended`.
    pub how: String,
    /// Keys not known here.
    pub extra: Extra,
}

/// What a capture cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Capture {
    /// The watched thread stood still so long, nanoseconds.
    pub stopped: Option<u64>,
    /// Unwinding took so long, nanoseconds.
    pub unwind: Option<u64>,
    /// Bytes of stack copied.
    pub bytes: Option<u64>,
    /// Samples taken.
    pub samples: Option<u64>,
    /// Whether something was cut short, and what.
    pub cut: Option<Value>,
    /// Threads that did not answer.
    pub unanswered: Option<u64>,
    /// Keys not known here.
    pub extra: Extra,
}

/// What was not reported since launch: counts by reason.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loss {
    /// `quota`, `back_off`, `background`, `late`, `debugger`, `sleep`, and what later versions add.
    pub counts: Vec<(String, u64)>,
    /// Keys whose value is no count.
    pub extra: Extra,
}

/// The last section.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct End {
    /// CRC-32 (IEEE, as zlib's) over all bytes before the first byte of this section.
    pub crc32: u32,
    /// Count of sections, this one included.
    pub sections: u64,
    /// `writer` or `next_launch`.
    pub closed_by: String,
    /// Keys not known here.
    pub extra: Extra,
}
