//! What test programs share: children with roles, deadlines, reports to compare with. Each program uses a part.
#![allow(dead_code)]

pub mod any_report;
#[cfg(target_os = "linux")]
pub mod capture;
#[cfg(feature = "symbolicate")]
pub mod child;
pub mod deadline;
pub mod library;
pub mod report;
#[cfg(target_os = "linux")]
pub mod seccomp;
pub mod simulated;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod small_stack;
#[cfg(target_os = "linux")]
pub mod stall;
#[cfg(all(feature = "symbolicate", target_os = "linux"))]
pub mod symbolicate;
