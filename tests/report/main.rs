//! The report: what is written is what is read, whole or cut anywhere. A module a subject, so that the crate is linked once:
//! `cargo test --test report read::` runs one of them.

#[path = "../report_support/any_report.rs"]
mod any_report;
#[path = "../deadline/mod.rs"]
mod deadline;
#[path = "../report_support/mod.rs"]
mod report_support;

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
