//! The symbolicator: names, files, formats, groups and other recorders' reports. A module a subject, so that the crate is
//! linked once: `cargo test --test symbolicate cache::` runs one of them.
#![cfg(feature = "symbolicate")]

#[path = "../support/mod.rs"]
mod support;

#[cfg(target_os = "linux")]
mod cache;
mod command;
mod copies;
#[cfg(all(feature = "debuginfod", target_os = "linux"))]
mod debuginfod;
#[cfg(all(feature = "debuginfod", target_os = "linux"))]
mod debuginfod_hostile;
#[cfg(target_os = "linux")]
mod elf;
#[cfg(unix)]
mod format_many;
#[cfg(feature = "parquet")]
mod format_parquet;
mod format_people;
mod format_pictures;
mod format_sentry;
#[cfg(target_os = "linux")]
mod found;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod group_fleet;
mod group_formats;
mod group_top;
#[cfg(target_os = "linux")]
mod hostile;
mod imported_kinds;
mod imported_reports;
mod imported_table;
#[cfg(target_os = "linux")]
mod keep_debug_files;
#[cfg(target_os = "linux")]
mod keeps_files;
#[cfg(target_os = "linux")]
mod library;
mod macho;
#[cfg(target_os = "linux")]
mod many_files;
mod messages;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod names;
#[cfg(target_os = "linux")]
mod packed_symbols;
#[cfg(target_os = "linux")]
mod places;
#[cfg(target_os = "linux")]
mod redact;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod shapes;
#[cfg(target_os = "linux")]
#[cfg(target_os = "linux")]
mod strangers;
mod system;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tail_calls;
#[cfg(target_os = "linux")]
mod terminal;
mod watched;

use support::deadline;
