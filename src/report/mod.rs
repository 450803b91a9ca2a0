//! The vocabulary that the recorder and the desk share; knows no platform.

pub mod model;

pub use model::*;
