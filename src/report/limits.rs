//! The format's limits, in one place; `docs/report-format.md` states them.
//!
//! A writer keeps to them, a reader enforces them. They bound what a hostile file can make a reader
//! do; no honest report comes near.

/// Levels to which arrays and maps may nest within a section; the section itself is level 1.
pub const DEPTH: usize = 32;

/// Bytes of one section.
pub const SECTION_BYTES: usize = 16 << 20;

/// Bytes of one report in a stream.
pub const REPORT_BYTES: usize = 64 << 20;

/// Bytes outside reports after which the reader of a stream stops.
pub const GARBAGE_BYTES: usize = 16 << 20;

/// Sections of one report.
pub const SECTIONS: u64 = 1 << 20;

/// Frames of one thread or sample.
pub const FRAMES: usize = 1 << 16;

/// Keys of one map that the format defines.
pub const FIELDS: usize = 1 << 12;

/// Bytes of a text that the format defines.
pub const TEXT_BYTES: usize = 1 << 20;

/// Damages listed one by one; what comes after is counted.
pub const DAMAGES: usize = 256;

/// Bytes of an image of which the size is not known.
pub(crate) const IMAGE_BYTES: u64 = 256 << 20;

/// Bytes of a text as the recorder puts it; longer ones are cut, and counted in `dropped`.
pub const WRITTEN_TEXT_BYTES: usize = 16 << 10;

/// Time that `install` spends on closing reports and reading records that earlier launches left; the rest is left to a
/// thread of the monitor's, and records to the next launch.
pub(crate) const INSTALL_TIME: std::time::Duration = std::time::Duration::from_millis(2);

/// Bytes of a report that `install` closes itself: damage of the worst kind takes some 20 ms a MiB. Sixteen times as
/// much of a launch's record is read, with the report after it.
pub(crate) const INSTALL_BYTES: u64 = 64 << 10;
