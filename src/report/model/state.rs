//! Gauges, and what the app said of itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hold::{Breadcrumbs, Each, Hold, Iterators, Marks, Nothing, Owned, Owning, Pairs};
use crate::report::wire::fields::{breadcrumbs, extra, lenient, marks, pairs};
use crate::report::wire::times::duration;

/// Gauges; those that are known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Vitals<H: Hold = Owned> {
    /// CPU shares, 1.0 = one core.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu<H>>,
    /// Memory, bytes.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory<H>>,
    /// Since the process started.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub uptime: Option<Duration>,
    /// Frames a second.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub frame_rate: Option<f64>,
    /// From process start to the app's `launched` mark.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub launch_time: Option<Duration>,
    /// `cold` or `warm`.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub launch_kind: Option<H::Text>,
    /// Battery level, 0 to 1.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub battery: Option<f64>,
    /// Thermal state.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub thermal: Option<H::Text>,
    /// Low-power mode.
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
    /// Of this process, without the watchdog; cores busy on average (1.0 = one core).
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub process: Option<f64>,
    /// Of the watchdog thread.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub watchdog: Option<f64>,
    /// Of the device.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub device: Option<f64>,
    /// Number of cores.
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
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
    /// `phys_footprint` on Apple; `RssAnon` + `VmSwap` on Linux.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub footprint: Option<u64>,
    /// Highest resident size so far.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// Memory of the device.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub device_total: Option<u64>,
    /// Of it, free or easily freed.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub device_free: Option<u64>,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

/// What the app said of itself.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Context<H: Hold = Owned> {
    /// Keys and values set by the app.
    #[serde(with = "pairs")]
    pub keys: H::Values,
    /// Gauges by name.
    #[serde(with = "pairs")]
    pub gauges: H::Floats,
    /// Timed marks: name, start (monotonic clock), duration (`None` while it lasts).
    #[serde(with = "marks")]
    pub marks: H::Marks,
    /// Breadcrumbs, oldest first: time (monotonic clock) and text.
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
