//! Which app, which system, which process, when.

use super::Extra;

/// The first section of every report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Head {
    /// Version of the format; 1 here.
    pub version: u64,
    /// Identifies this report.
    pub id: [u8; 16],
    /// Identifies the launch (the run of the process) that wrote it.
    pub launch: [u8; 16],
    /// Wall clock when the report was begun, nanoseconds since the Unix epoch.
    pub time: u64,
    /// Monotonic clock at the same moment, nanoseconds.
    pub clock: u64,
    /// The app's name and version.
    pub app: App,
    /// The operating system.
    pub os: Os,
    /// Device model, as `MacBookPro18,3`; on Linux the machine's product name where known.
    pub device: Option<String>,
    /// `arm64` or `x86_64`, the field's names.
    pub arch: String,
    /// Process id.
    pub pid: u64,
    /// Keys not known here.
    pub extra: Extra,
}

/// The app that was recorded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct App {
    /// As given to `Monitor::builder`.
    pub name: String,
    /// As given to `Monitor::builder`.
    pub version: String,
    /// Keys not known here.
    pub extra: Extra,
}

/// The operating system it ran on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Os {
    /// `Linux`, `macOS`, `iOS`.
    pub name: String,
    /// `6.1.0`, `14.5`.
    pub version: String,
    /// Build, as `23F79`; on Linux the kernel's version string.
    pub build: Option<String>,
    /// Keys not known here.
    pub extra: Extra,
}
