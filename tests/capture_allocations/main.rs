//! Captures allocate nothing: every allocation of this program is counted, Rust's and libc's own.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod counting;
mod counts;
mod crash;
mod nothing;
#[path = "../support/mod.rs"]
mod support;

use support::deadline;
