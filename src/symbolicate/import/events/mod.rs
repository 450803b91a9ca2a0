//! Reports that other recorders write for their services.

pub mod envelope;
pub mod kscrash;
pub mod plcrash;
pub mod sentry;
