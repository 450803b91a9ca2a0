//! The report: what is written is what is read, whole or cut anywhere. A module a subject, so that the crate is linked once:
//! `cargo test --test report read::` runs one of them.

#[path = "../support/mod.rs"]
mod support;

mod format;
mod properties;
mod python;
mod read;
mod redact;
mod redact_texts;
mod samples;
mod size;
mod stream;
mod write;
