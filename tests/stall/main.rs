//! Stalls, found and not invented, on simulated and on real clocks. A module a subject, so that the crate is linked once:
//! `cargo test --test stall locks::` runs one of them.

#[path = "../support/mod.rs"]
mod support;

#[cfg(target_os = "linux")]
mod blocked;
#[cfg(target_os = "linux")]
mod changes;
#[cfg(target_os = "linux")]
mod crowded;
#[cfg(target_os = "linux")]
mod false_alarms;
mod fleet;
#[cfg(target_os = "linux")]
mod leaving;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod locks;
#[cfg(target_os = "linux")]
mod main_queue;
#[cfg(target_os = "linux")]
mod members;
mod nested;
#[cfg(target_os = "linux")]
mod pause;
#[cfg(target_os = "linux")]
mod ping;
mod pinged;
#[cfg(target_os = "linux")]
mod plugins;
#[cfg(target_os = "linux")]
mod stopped;
#[cfg(target_os = "linux")]
mod threads;
mod timelines;
#[cfg(target_os = "linux")]
mod watchdog;
