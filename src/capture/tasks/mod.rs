//! Async contexts: who awaits a function, as Swift's async functions keep it in memory.
//!
//! Contexts are on the heap, and change once the thread runs. A stop copies none of them: a page that is slow to come would
//! keep the thread. They are read when it has been let go and its stack is walked, then read again and compared ([`chains`]).
//!
//! Source: Swift's ABI, include/swift/ABI/Task.h (`AsyncContext`).

mod chains;
mod follow;

use super::registers::Arch;
pub(crate) use chains::{FoundChains, ReleasedThread};

/// The bit that an async function sets in the frame pointer that it saves.
pub(crate) const EXTENDED_BIT: u64 = 1 << 60;

/// The lowest bit that no address has.
const ADDRESS_BITS: u32 = 48;

/// A frame of a walk whose function has an async context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsyncFrame {
    /// The context was saved below the frame pointer.
    Saved {
        /// Address of the extended frame pointer. The context is in the word below.
        slot: u64,
        context: u64,
        /// The stack pointer at the call that the function has made; `slot` where it was stopped itself.
        sp: u64,
    },
    /// The context is in the register by which it is passed.
    InRegister,
    /// The context is not known.
    Unknown,
}

/// Returns the frame pointer without the bit of an extended frame, if that is all that it has above the bits of an address.
#[inline(always)]
pub(crate) fn plain_fp(fp: u64) -> Option<u64> {
    (fp >> ADDRESS_BITS == EXTENDED_BIT >> ADDRESS_BITS).then_some(fp & !EXTENDED_BIT)
}

/// The bits of an address of this machine.
const ADDRESS: u64 = Arch::NATIVE.address_mask();

/// Index of the register in which a function of this machine is given its context: `r14`, `x22`.
pub(crate) const REGISTER: usize = Arch::NATIVE.select(14, 22);

/// Returns true if a word, without pointer authentication's bits, may be the address of a context.
pub(crate) fn is_context(word: u64) -> bool {
    word.is_multiple_of(8) && (PAGE..1 << ADDRESS_BITS).contains(&word)
}

/// The first page is never mapped.
const PAGE: u64 = 4096;
