//! Captures of threads, and walks over what is damaged or random. A module a subject, so that the crate is linked once:
//! `cargo test --test capture thread::` runs one of them. Tests that count allocations are `capture_allocations`.

#[path = "../support/mod.rs"]
mod support;

mod damaged;
#[cfg(target_os = "linux")]
mod jumps;
#[cfg(target_os = "linux")]
mod loaded;
#[cfg(target_os = "linux")]
mod masked;
mod random;
#[cfg(target_os = "linux")]
mod soak;
#[cfg(target_os = "linux")]
mod stacks;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod swift;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod syscalls;
#[cfg(target_os = "linux")]
mod thread;

#[cfg(target_os = "linux")]
use support::{deadline, library, seccomp};
