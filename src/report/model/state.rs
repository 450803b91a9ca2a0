//! Gauges, the state that the app has set, and what a report says of itself: the end of the stall, the cost of the
//! capture, losses, and the end of the file.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::event::word;
use super::{Extra, StallClass, Value, ValueView};
use crate::report::wire::fields::{
    As, Maybe, Nanos, breadcrumbs, extra, flag, gauges, lenient, marks, pairs,
};

section! {
    /// Gauges; those that are known.
    #[derive(Default)]
    Vitals, VitalsView<'a> {
        /// CPU use over the last seconds.
        /// *else unknown*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        cpu: Option<Cpu> as Option<CpuView>,
        /// Memory.
        /// *else unknown*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        memory: Option<MemoryUse> as Option<MemoryUseView>,
        /// Time since the process started.
        /// *else unknown; ns*
        #[serde(with = "Maybe::<Nanos>", skip_serializing_if = "Option::is_none")]
        uptime: Option<Duration>,
        /// Frames a second.
        /// *else unknown; 1/s*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        frame_rate: Option<f64>,
        /// From process start to the app's `launched` mark.
        /// *else unknown; ns*
        #[serde(with = "Maybe::<Nanos>", skip_serializing_if = "Option::is_none")]
        launch_time: Option<Duration>,
        /// `cold` (a page came from disk), `warm`.
        /// *else unknown*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        launch_kind: Option<String> as Option<&'a str>,
        /// Battery level, on Linux alone.
        /// *else unknown; 0 to 1*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        battery: Option<f64>,
        /// Thermal state: `nominal`, `fair`, `serious`, `critical`.
        /// *else unknown*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        thermal: Option<String> as Option<&'a str>,
        /// Low-power mode.
        /// *else unknown*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        low_power: Option<bool>,
    }
}

section! {
    /// CPU use.
    #[derive(Default)]
    Cpu, CpuView {
        /// This process without the watchdog.
        /// *else unknown; cores*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        process: Option<f64>,
        /// The watchdog thread.
        /// *else unknown; cores*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        watchdog: Option<f64>,
        /// The device.
        /// *else unknown; cores*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        device: Option<f64>,
        /// Number of cores.
        /// *else unknown; count*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        cores: Option<u64>,
    }
}

section! {
    /// Memory, bytes.
    #[derive(Default)]
    MemoryUse, MemoryUseView {
        /// Resident size.
        /// *else unknown; bytes*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        resident: Option<u64>,
        /// `phys_footprint` on Apple, `RssAnon` + `VmSwap` on Linux.
        /// *else unknown; bytes*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        footprint: Option<u64>,
        /// Highest resident size so far.
        /// *else unknown; bytes*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        peak: Option<u64>,
        /// Memory of the device.
        /// *else unknown; bytes*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        device_total: Option<u64>,
        /// Memory of the device that is free or easily freed.
        /// *else unknown; bytes*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        device_free: Option<u64>,
    }
}

section! {
    /// State that the app itself recorded.
    #[derive(Default)]
    AppContext, AppContextView<'a> {
        /// Keys and values set by the app.
        /// *else none*
        #[serde(with = "pairs")]
        keys: Vec<(String, Value)> as &'a [(&'a str, ValueView<'a>)],
        /// Gauges by name.
        /// *else none*
        #[serde(with = "gauges")]
        gauges: Vec<(String, f64)> as &'a [(&'a str, f64)],
        /// Timed marks: name, start (monotonic clock), duration (none while it lasts).
        /// *else none*
        #[serde(with = "marks")]
        marks: Vec<(String, Duration, Option<Duration>)> as &'a [(&'a str, Duration, Option<Duration>)],
        /// Breadcrumbs, oldest first: time (monotonic clock) and text.
        /// *else none*
        #[serde(with = "breadcrumbs")]
        breadcrumbs: Vec<(Duration, String)> as &'a [(Duration, &'a str)],
    }
}

words! {
    /// The outcome of a stall.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum StallOutcome {
        /// The thread beats again.
        Recovered = "recovered",
        /// The monitor was uninstalled while it lasted.
        Uninstalled = "uninstalled",
        /// The thread ended in the middle of it.
        ThreadEnded = "thread_ended",
        /// The report was written before its end, which no one awaits.
        Reported = "reported",
        /// The process was killed in it, as another tool's report says.
        Killed = "killed",
        /// Another tool's report does not say.
        Unknown = "unknown",
        /// An outcome that this version does not know; [`StallEnd::how_word`] returns its name.
        #[default]
        #[serde(other)]
        Other = "other",
    }
}

impl StallEnd {
    /// Returns the report's word for how the stall ended. It may be one that this version does not know.
    pub fn how_word(&self) -> &str {
        word(self.how.as_str(), &self.extra, "how")
    }
}

section! {
    /// The end of a stall.
    #[derive(Default)]
    StallEnd, StallEndView<'a> {
        /// From the stall's start.
        /// *always; ns*
        #[serde(with = "As::<Nanos>")]
        duration: Duration,
        /// True if the stall may have lasted longer: its start was not seen, or it is not certain that all of its time counts.
        /// *else `false`*
        #[serde(with = "flag")]
        at_least: bool,
        /// `recovered`, `uninstalled`, `thread_ended`; of slow frames `reported`; in reports of other tools `reported`,
        /// `killed` or `unknown`.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        how: StallOutcome,
        /// As in `event`, of the whole stall.
        /// *else as in `event`*
        #[serde(deserialize_with = "lenient")]
        class: Option<StallClass>,
        /// As in `event`: the cause of most of the stall's time.
        /// *none if there is a `class`, else as in `event`*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        reason: Option<String> as Option<&'a str>,
    }
}

section! {
    /// Cost of a capture.
    #[derive(Default)]
    Capture, CaptureView {
        /// Time for which the watched thread was stopped.
        /// *else unknown; ns*
        #[serde(with = "Maybe::<Nanos>")]
        stopped: Option<Duration>,
        /// Time for unwinding.
        /// *else unknown; ns*
        #[serde(with = "Maybe::<Nanos>")]
        unwind: Option<Duration>,
        /// Stack copied.
        /// *else unknown; bytes*
        #[serde(deserialize_with = "lenient")]
        bytes: Option<u64>,
        /// Samples taken until this was written.
        /// *else unknown; count*
        #[serde(deserialize_with = "lenient")]
        samples: Option<u64>,
        /// Threads that did not answer.
        /// *else unknown; count*
        #[serde(deserialize_with = "lenient")]
        unanswered: Option<u64>,
        /// Reason for which the capture was cut short: `limit`, `quota`, `the disk took no more`, or what went wrong in which
        /// part of the writing, as `crashed while writing the event`.
        /// *else nothing was*
        #[serde(deserialize_with = "lenient")]
        cut: Option<CutReason>,
    }
}

words! {
    /// The reason for which a capture was cut short. *Crashed* is a fault in the writer of a crash report, *stuck* a part of it
    /// that did not end in time.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum CutReason {
        /// A limit of stack, threads or time.
        Limit = "limit",
        /// The report's share of the disk was used up.
        Quota = "quota",
        /// The disk was full.
        DiskFull = "the disk took no more",
        /// Crashed before the file was open.
        CrashedOpening = "crashed while opening the file",
        /// Crashed in the section `event`.
        CrashedInEvent = "crashed while writing the event",
        /// Crashed in the stack of the thread that crashed.
        CrashedUnwinding = "crashed while unwinding the crashed thread",
        /// Crashed in `vitals` or `context`.
        CrashedInVitals = "crashed while reading vitals and context",
        /// Crashed in the other threads.
        CrashedInThreads = "crashed while capturing the other threads",
        /// Crashed at the end of the file.
        CrashedClosing = "crashed while closing the report",
        /// Stuck before the file was open.
        StuckOpening = "stood still while opening the file",
        /// Stuck in the section `event`.
        StuckInEvent = "stood still while writing the event",
        /// Stuck in the stack of the thread that crashed.
        StuckUnwinding = "stood still while unwinding the crashed thread",
        /// Stuck in `vitals` or `context`.
        StuckInVitals = "stood still while reading vitals and context",
        /// Stuck in the other threads.
        StuckInThreads = "stood still while capturing the other threads",
        /// Stuck at the end of the file.
        StuckClosing = "stood still while closing the report",
        /// A reason that this version does not know; its name is in [`Capture::extra`] under `cut`.
        #[default]
        #[serde(other)]
        Other = "other",
    }
}

/// Counts of events that were not reported since launch, by reason.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Loss {
    /// `quota`, `back_off`, `unwritten`, `unanswered`, `unsent`, `background`, `late`, `debugger`, `sleep`, `modal`,
    /// `recorder`, `context`, and what later versions add.
    pub counts: Vec<(String, u64)>,
    /// Keys whose value is no count.
    pub extra: Extra,
}

/// [`Loss`] as a recorder writes it. Counts of 0 are omitted.
#[derive(Debug, Clone, Copy, Default)]
pub struct LossView<'a> {
    /// The reasons and their counts.
    pub counts: &'a [(&'a str, u64)],
}

/// The keys of the section are reasons, in one map.
impl Serialize for Loss {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = s.serialize_map(None)?;
        let mut counts = self.counts.iter();
        counts.try_for_each(|(reason, count)| map.serialize_entry(reason, count))?;
        let mut extra = self.extra.iter();
        extra.try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

impl Serialize for LossView<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let counts = self.counts.iter().filter(|(_, count)| *count > 0);
        s.collect_map(counts.copied())
    }
}

impl<'de> Deserialize<'de> for Loss {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Loss, D::Error> {
        let mut loss = Loss::default();
        for (key, value) in extra::deserialize(d)? {
            match value {
                Value::Unsigned(count) if key != "dropped" => loss.counts.push((key, count)),
                value => loss.extra.push((key, value)),
            }
        }
        Ok(loss)
    }
}

section! {
    /// The last section.
    #[derive(Default)]
    End, EndView<'a> {
        /// CRC-32 (IEEE, as zlib's) over all bytes of the report before this section.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        crc32: u32,
        /// Sections of the report, this one included.
        /// *always; count*
        #[serde(deserialize_with = "lenient")]
        sections: u64,
        /// `writer`, `next_launch`.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        closed_by: String as &'a str,
    }
}
