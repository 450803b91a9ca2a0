//! Facts that do not change while the app runs: the head of every report, and the app's options for reports.

use crate::platform;

/// Threads in one report besides the one in question, at most, unless the app sets another number; the rest are
/// counted.
pub(crate) const MAX_THREADS: usize = 1024;

/// The app, the machine and this launch.
#[derive(Debug, Clone)]
pub(crate) struct ProcessInfo {
    pub app_name: String,
    pub app_version: String,
    pub os_name: &'static str,
    pub os_version: String,
    pub os_build: Option<String>,
    pub device: Option<String>,
    pub arch: &'static str,
    pub pid: u32,
    pub launch: [u8; 16],
    /// True if reports have all images, rather than those that frames point into.
    pub all_images: bool,
    /// True if frames get names from the images' own symbol tables, except in the report of a crash.
    pub names: bool,
    /// Most threads of a report besides the first.
    pub threads: usize,
}

impl ProcessInfo {
    /// Reads what the system knows. Allocates.
    pub fn gather(app_name: &str, app_version: &str, launch: [u8; 16]) -> ProcessInfo {
        let system = platform::vitals::describe();
        ProcessInfo {
            app_name: app_name.to_owned(),
            app_version: app_version.to_owned(),
            os_name: system.name,
            os_version: system.version,
            os_build: system.build,
            device: system.device,
            arch: arch_name(std::env::consts::ARCH),
            pid: std::process::id(),
            launch,
            all_images: false,
            names: false,
            threads: MAX_THREADS,
        }
    }
}

/// The field's name of an architecture: `arm64` where Rust has `aarch64`.
pub(crate) fn arch_name(arch: &'static str) -> &'static str {
    if arch == "aarch64" { "arm64" } else { arch }
}
