//! What does not change while the app runs: what stands in every report's head, and what the app wants of reports.

use crate::platform;

/// Threads in one report besides the one in question, at most, unless the app sets another number; the rest are
/// counted.
pub(crate) const MAX_THREADS: usize = 1024;

/// The app, the machine and this launch.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub app_name: String,
    pub app_version: String,
    pub os_name: &'static str,
    pub os_version: String,
    pub os_build: Option<String>,
    pub device: Option<String>,
    pub arch: &'static str,
    pub pid: u32,
    pub launch: [u8; 16],
    /// Whether reports have all images, rather than those that frames point into.
    pub all_images: bool,
    /// Whether frames get names from the images' own symbol tables, but in the report of a crash.
    pub names: bool,
    /// How many threads a report has besides the first, at most.
    pub threads: usize,
}

impl Facts {
    /// Reads what the system knows. Allocates.
    pub fn gather(app_name: &str, app_version: &str, launch: [u8; 16]) -> Facts {
        let system = platform::system::describe();
        Facts {
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
