//! The unwinder for tool makers: registers, a stack and images, to the chain of callers.
//!
//! It works on any machine for x86_64 and arm64 stacks alike, needs no platform call, and is
//! signal-safe once made.

pub use crate::capture::{
    Arch, Bytes, Images, LoadedImage, Memory, Missing, Registers, RuleSource, Section, StackCopy,
    Unwinder, Walk,
};
pub use crate::report::model::{Found, RawFrame, WalkEnd};
