//! Captures allocate nothing: every allocation of this program is counted, Rust's and libc's own.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

#[path = "../capture_support/counting.rs"]
mod counting;
#[path = "../deadline/mod.rs"]
mod deadline;
#[path = "../capture_support/mod.rs"]
mod support;

mod crash;
mod nothing;
