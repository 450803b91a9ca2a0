//! Gauges, and the state that the app has set.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hold::{Breadcrumbs, Each, Hold, Iterators, Marks, Nothing, Owned, Owning, Pairs};
use crate::report::wire::fields::{Maybe, Nanos, breadcrumbs, extra, lenient, marks, pairs};

/// Gauges; those that are known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Vitals<H: Hold = Owned> {
    /// CPU use.
    /// *else unknown*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu<H>>,
    /// Memory.
    /// *else unknown*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory<H>>,
    /// Time since the process started.
    /// *else unknown; ns*
    #[serde(with = "Maybe::<Nanos>", skip_serializing_if = "Option::is_none")]
    pub uptime: Option<Duration>,
    /// Frames a second.
    /// *else unknown; 1/s*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub frame_rate: Option<f64>,
    /// From process start to the app's `launched` mark.
    /// *else unknown; ns*
    #[serde(with = "Maybe::<Nanos>", skip_serializing_if = "Option::is_none")]
    pub launch_time: Option<Duration>,
    /// `cold`, `warm`.
    /// *else unknown*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub launch_kind: Option<H::Text>,
    /// Battery level.
    /// *else unknown; 0 to 1*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub battery: Option<f64>,
    /// Thermal state.
    /// *else unknown*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub thermal: Option<H::Text>,
    /// Low-power mode.
    /// *else unknown*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub low_power: Option<bool>,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

/// CPU use.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Cpu<H: Hold = Owned> {
    /// This process without the watchdog.
    /// *else unknown; cores*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub process: Option<f64>,
    /// The watchdog thread.
    /// *else unknown; cores*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub watchdog: Option<f64>,
    /// The device.
    /// *else unknown; cores*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub device: Option<f64>,
    /// Number of cores.
    /// *else unknown; count*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub cores: Option<u64>,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

/// Memory, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Memory<H: Hold = Owned> {
    /// Resident size.
    /// *else unknown; bytes*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
    /// `phys_footprint` on Apple, `RssAnon` + `VmSwap` on Linux.
    /// *else unknown; bytes*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub footprint: Option<u64>,
    /// Highest resident size so far.
    /// *else unknown; bytes*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// Memory of the device.
    /// *else unknown; bytes*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub device_total: Option<u64>,
    /// Memory of the device that is free or easily freed.
    /// *else unknown; bytes*
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub device_free: Option<u64>,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

/// State that the app itself recorded.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Context<H: Hold = Owned> {
    /// Keys and values set by the app.
    /// *else none*
    #[serde(with = "pairs")]
    pub keys: H::Values,
    /// Gauges by name.
    /// *else none*
    #[serde(with = "pairs")]
    pub gauges: H::Floats,
    /// Timed marks: name, start (monotonic clock), duration (none while it lasts).
    /// *else none*
    #[serde(with = "marks")]
    pub marks: H::Marks,
    /// Breadcrumbs, oldest first: time (monotonic clock) and text.
    /// *else none*
    #[serde(with = "breadcrumbs")]
    pub breadcrumbs: H::Breadcrumbs,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

impl<K, B, G, M> Context<Iterators<Each<K>, Each<B>, Each<G>, Each<M>>>
where
    Each<K>: Pairs,
    Each<B>: Breadcrumbs,
    Each<G>: Pairs,
    Each<M>: Marks,
{
    /// A context that is written from iterators: of keys and values; of times (monotonic clock) and
    /// texts of breadcrumbs, oldest first; of gauges; of names, starts and durations of marks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use wedjat::report::{Context, ReportWriter, ValueView};
    /// let mut buffer = [0; 1024];
    /// let mut file: Vec<u8> = Vec::new();
    /// ReportWriter::new(&mut buffer, &mut file).context(&Context::of(
    ///     [("screen", ValueView::Text("Checkout"))].into_iter(),
    ///     [(Duration::from_micros(1), "tapped Buy")].into_iter(),
    ///     [("queue", 3.0)].into_iter(),
    ///     [("load", Duration::ZERO, Some(Duration::from_nanos(400)))].into_iter(),
    /// ))?;
    /// # Ok::<(), wedjat::report::SinkError>(())
    /// ```
    pub fn of(keys: K, breadcrumbs: B, gauges: G, marks: M) -> Self {
        Context {
            keys: Each(keys),
            gauges: Each(gauges),
            marks: Each(marks),
            breadcrumbs: Each(breadcrumbs),
            extra: Nothing,
        }
    }
}
