//! Stacks as tools and libraries print them.

pub mod core_dump;
pub mod crashlytics;
pub mod first_throw;
pub mod printed;
