//! The name and version of this system, and the model of this machine.

use crate::platform::descriptors;
pub use crate::platform::surface::System;

/// Queries the kernel. Allocates.
pub fn describe() -> System {
    let first_line = |path: &str| {
        let text = descriptors::read_text(path).ok()?;
        let line = text
            .lines()
            .next()?
            .trim_matches(['\0', ' ', '\t'])
            .to_owned();
        (!line.is_empty()).then_some(line)
    };
    System {
        name: "Linux",
        version: first_line("/proc/sys/kernel/osrelease").unwrap_or_default(),
        build: first_line("/proc/sys/kernel/version"),
        device: first_line("/sys/class/dmi/id/product_name")
            .or_else(|| first_line("/proc/device-tree/model")),
    }
}
