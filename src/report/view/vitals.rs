//! `vitals`: gauges of process and device.

use super::{optional_float, optional_text, optional_unsigned};
use crate::report::encode::MapEncoder;

/// What `vitals` says: those that are known.
#[derive(Debug, Clone, Copy, Default)]
pub struct VitalsView<'a> {
    /// CPU use.
    pub cpu: CpuView,
    /// Memory.
    pub memory: MemoryView,
    /// Frames a second.
    pub frame_rate: Option<f64>,
    /// Since the process started, nanoseconds.
    pub uptime: Option<u64>,
    /// From process start to the app's `launched` mark, nanoseconds.
    pub launch_time: Option<u64>,
    /// `cold` or `warm`.
    pub launch_kind: Option<&'a str>,
    /// Battery level, 0 to 1.
    pub battery: Option<f64>,
    /// Thermal state.
    pub thermal: Option<&'a str>,
    /// Low-power mode.
    pub low_power: Option<bool>,
}

/// CPU use; 1.0 = one core.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuView {
    /// Of this process, without the watchdog.
    pub process: Option<f64>,
    /// Of the watchdog thread.
    pub watchdog: Option<f64>,
    /// Of the device.
    pub device: Option<f64>,
    /// Number of cores.
    pub cores: Option<u64>,
}

/// Memory, bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryView {
    /// Resident size.
    pub resident: Option<u64>,
    /// Footprint.
    pub footprint: Option<u64>,
    /// Highest resident size so far.
    pub peak: Option<u64>,
    /// Memory of the device.
    pub device_total: Option<u64>,
    /// Of it, free or easily freed.
    pub device_free: Option<u64>,
}

impl VitalsView<'_> {
    pub(crate) const KIND: &'static str = "vitals";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        let c = &self.cpu;
        if c.process.is_some() || c.watchdog.is_some() || c.device.is_some() || c.cores.is_some() {
            m.map("cpu", |m| c.encode(m));
        }
        let y = &self.memory;
        if [
            y.resident,
            y.footprint,
            y.peak,
            y.device_total,
            y.device_free,
        ]
        .iter()
        .any(Option::is_some)
        {
            m.map("memory", |m| y.encode(m));
        }
        self.encode_rest(m);
    }

    /// All but the maps `cpu` and `memory`.
    pub(crate) fn encode_rest(&self, m: &mut MapEncoder<'_, '_>) {
        optional_unsigned(m, "uptime", self.uptime);
        optional_float(m, "frame_rate", self.frame_rate);
        optional_unsigned(m, "launch_time", self.launch_time);
        optional_text(m, "launch_kind", self.launch_kind);
        optional_float(m, "battery", self.battery);
        optional_text(m, "thermal", self.thermal);
        if let Some(low_power) = self.low_power {
            m.bool("low_power", low_power);
        }
    }
}

impl CpuView {
    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        optional_float(m, "process", self.process);
        optional_float(m, "watchdog", self.watchdog);
        optional_float(m, "device", self.device);
        optional_unsigned(m, "cores", self.cores);
    }
}

impl MemoryView {
    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        optional_unsigned(m, "resident", self.resident);
        optional_unsigned(m, "footprint", self.footprint);
        optional_unsigned(m, "peak", self.peak);
        optional_unsigned(m, "device_total", self.device_total);
        optional_unsigned(m, "device_free", self.device_free);
    }
}
