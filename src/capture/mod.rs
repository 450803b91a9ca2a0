//! Signal-safe capture: from a stopped thread to its registers, a copy of its stack, and its frames.
// Signal-safe code is in each of these modules: none may panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod capturer;
mod cfi;
mod compact;
mod engine;
mod fingerprint;
mod flow;
mod identity;
mod images;
mod instructions;
#[cfg(target_os = "linux")]
mod loaded_elf;
mod loaded_image;
mod memory;
mod registers;
mod rule;
mod section;
mod stack;
mod starts;
mod table;
mod tasks;
#[cfg(test)]
mod tests;
mod unwind;

pub use capturer::{CaptureLimits, Captured, Capturer};
pub use images::Images;
pub use loaded_image::LoadedImage;
pub use memory::{Memory, Missing, StackCopy};
pub use registers::{Arch, Registers};
pub use rule::RuleSource;
pub use section::{Bytes, Section};
pub use table::{ImageTable, ImagesGuard};
pub use unwind::{Unwinder, Walk};

/// Stack that any capture needs at most, bytes: handlers that capture in
/// place need an alternate stack of this size beyond what the kernel puts there
/// (`getauxval(AT_MINSIGSTKSZ)`). The most that was measured is 57,376 bytes, built without optimisation, with no
/// rule known before and a signal's frame on the way.
#[cfg(feature = "__internals")]
pub const STACK_NEED: usize = 64 << 10;
