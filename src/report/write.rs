//! Sections into a fixed buffer and from there, each in one write, into a sink; never allocates.
// Signal-safe: nothing here can panic.
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

use std::fmt;

use super::checksum::crc32;
use super::model::EndView;
pub use super::model::{
    AppContextView, AppView, CaptureView, CpuView, EventView, HeadView, ImageView, LossView,
    MemoryUseView, NearMemoryView, OsView, RawChain, RawChains, RawFrame, SampleView, SignalView,
    StallEndView, ThreadView, ThresholdsView, VitalsView, WatchedView,
};
use super::wire::section::{Rules, WriteSection};

/// A destination for the bytes of a report: a file descriptor, or a `Vec<u8>` in tests.
pub trait Sink {
    /// Takes all of `bytes`, one whole section, or fails.
    ///
    /// An implementation that is used from a signal handler must be signal-safe.
    fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError>;
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        (**self).write(bytes)
    }
}

impl Sink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// The reason why a sink did not take the bytes of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkError {
    /// The platform's error number (`errno`); 0 if there was no system error.
    pub errno: i32,
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the report could not be written (error {})", self.errno)
    }
}

impl std::error::Error for SinkError {}

words! {
    /// The process that closes a report.
    pub enum ClosedBy {
        /// The process that wrote it.
        Writer = "writer",
        /// A later launch, which found it cut.
        NextLaunch = "next_launch",
    }
}

/// Writes a report, section by section.
///
/// Each section is composed in the buffer and written by one [`Sink::write`]. Entries of a section that do not fit
/// into the buffer are dropped, the least useful first. The section's key `dropped` counts them. 64 KiB hold about 4000 frames.
///
/// After an error of the sink every later call returns that error: what the sink holds is unknown.
///
/// Signal-safe, as far as the sink is.
///
/// ```
/// use wedjat::report::*;
/// let mut buffer = [0; 4096];
/// let mut file: Vec<u8> = Vec::new();
/// let mut report = ReportWriter::new(&mut buffer, &mut file);
/// report.section(&HeadView { app: AppView { name: "MyApp", ..Default::default() }, pid: 7, ..Default::default() })?;
/// report.section(&EventView { kind: EventKind::Stall, ..Default::default() })?;
/// let frames = [wedjat::new!(RawFrame { pc: 0x1_0000_4000, found: Found::Context, image: 0 })];
/// report.section(&ThreadView { id: 7, main: true, frames: &frames, ..Default::default() })?;
/// report.section(&ImageView { name: "/usr/bin/myapp", id: &[1; 16], base: 0x1_0000_0000, ..Default::default() })?;
/// report.finish(ClosedBy::Writer)?;
/// # Ok::<(), SinkError>(())
/// ```
#[derive(Debug)]
pub struct ReportWriter<'b, S> {
    buffer: &'b mut [u8],
    sink: S,
    crc: u32,
    sections: u64,
    bytes: u64,
    failed: Option<SinkError>,
}

impl<'b, S: Sink> ReportWriter<'b, S> {
    /// A writer of a new report. The buffer should hold at least 4 KiB.
    #[cfg(feature = "__internals")]
    pub fn new(buffer: &'b mut [u8], sink: S) -> ReportWriter<'b, S> {
        ReportWriter::resume(buffer, sink, 0, 0)
    }

    /// A writer that carries on where another left off: `crc` is the CRC-32 of all bytes that the sink
    /// holds, `sections` the count of the sections in them.
    pub fn resume(buffer: &'b mut [u8], sink: S, crc: u32, sections: u64) -> ReportWriter<'b, S> {
        ReportWriter {
            buffer,
            sink,
            crc,
            sections,
            bytes: 0,
            failed: None,
        }
    }

    /// CRC-32 of all bytes so far.
    pub fn crc(&self) -> u32 {
        self.crc
    }

    /// Count of sections so far.
    pub fn sections(&self) -> u64 {
        self.sections
    }

    /// Bytes that this writer has written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The sink that the bytes go to.
    #[cfg(feature = "__internals")]
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Writes one section; `head` is the first one. Frames index images in the order in which these are written.
    pub fn section(&mut self, section: &impl WriteSection) -> Result<(), SinkError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let len = section.encode(self.buffer, Rules::RECORDER).len;
        let bytes = self.buffer.get(..len).unwrap_or_default();
        if bytes.is_empty() {
            // A buffer too small for `[kind, {}]`: nothing to write, nothing to count.
            return Ok(());
        }
        if let Err(error) = self.sink.write(bytes) {
            self.failed = Some(error);
            return Err(error);
        }
        self.crc = crc32(self.crc, bytes);
        self.sections = self.sections.saturating_add(1);
        self.bytes = self.bytes.saturating_add(len as u64);
        Ok(())
    }

    /// Writes `end`, and returns the sink.
    pub fn finish(mut self, closed_by: ClosedBy) -> Result<S, SinkError> {
        let (crc, sections) = (self.crc, self.sections.saturating_add(1));
        let closed_by = closed_by.as_str();
        self.section(&EndView {
            crc32: crc,
            sections,
            closed_by,
        })?;
        Ok(self.sink)
    }
}
