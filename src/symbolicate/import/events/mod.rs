//! Reports that other recorders write for their services.

pub mod crashlytics;
pub mod kscrash;
pub mod plcrash;
pub mod sentry;
