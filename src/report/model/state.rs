//! Gauges, and what the app said of itself.

use super::{Extra, Value};

/// Gauges; those that are known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Vitals {
    /// CPU shares, 1.0 = one core.
    pub cpu: Option<Cpu>,
    /// Memory, bytes.
    pub memory: Option<Memory>,
    /// Frames a second.
    pub frame_rate: Option<f64>,
    /// Since the process started, nanoseconds.
    pub uptime: Option<u64>,
    /// From process start to the app's `launched` mark, nanoseconds.
    pub launch_time: Option<u64>,
    /// `cold` or `warm`.
    pub launch_kind: Option<String>,
    /// Battery level, 0 to 1.
    pub battery: Option<f64>,
    /// Thermal state.
    pub thermal: Option<String>,
    /// Low-power mode.
    pub low_power: Option<bool>,
    /// Keys not known here.
    pub extra: Extra,
}

/// CPU use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cpu {
    /// Of this process, without the watchdog; cores busy on average (1.0 = one core).
    pub process: Option<f64>,
    /// Of the watchdog thread.
    pub watchdog: Option<f64>,
    /// Of the device.
    pub device: Option<f64>,
    /// Number of cores.
    pub cores: Option<u64>,
    /// Keys not known here.
    pub extra: Extra,
}

/// Memory, bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Memory {
    /// Resident size.
    pub resident: Option<u64>,
    /// `phys_footprint` on Apple; `RssAnon` + `VmSwap` on Linux.
    pub footprint: Option<u64>,
    /// Highest resident size so far.
    pub peak: Option<u64>,
    /// Memory of the device.
    pub device_total: Option<u64>,
    /// Of it, free or easily freed.
    pub device_free: Option<u64>,
    /// Keys not known here.
    pub extra: Extra,
}

/// What the app said of itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// Keys and values set by the app.
    pub keys: Vec<(String, Value)>,
    /// Breadcrumbs, oldest first: time (monotonic, nanoseconds) and text.
    pub breadcrumbs: Vec<(u64, String)>,
    /// Gauges by name.
    pub gauges: Vec<(String, f64)>,
    /// Timed marks: name, start (monotonic, nanoseconds), duration (`None` while it lasts).
    pub marks: Vec<(String, u64, Option<u64>)>,
    /// Keys not known here.
    pub extra: Extra,
}
