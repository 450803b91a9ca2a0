//! The unwinder for tool makers: registers, a stack and images, to the chain of callers.
//!
//! It unwinds x86_64 and arm64 stacks on any machine, and makes no platform call. It is signal-safe
//! once made.

pub use crate::capture::{
    Arch, Bytes, Images, LoadedImage, Memory, Missing, Registers, RuleSource, Section, StackCopy,
    Unwinder, Walk,
};
pub use crate::report::model::{Found, RawFrame, WalkEnd};
