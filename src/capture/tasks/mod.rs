//! Async contexts: who awaits a function, as Swift's async functions keep it in memory.
//!
//! Source: Swift's ABI, include/swift/ABI/Task.h (`AsyncContext`).

/// The bit that an async function sets in the frame pointer that it saves.
const MARK: u64 = 1 << 60;

/// The lowest bit that no address has.
const ADDRESS_BITS: u32 = 48;

/// A frame of a walk whose function has an async context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsyncFrame {
    /// The address of the marked frame pointer; the context is in the word below.
    Saved(u64),
    /// The context is in the register by which it is passed.
    InRegister,
    /// The context is not known.
    Unknown,
}

/// Returns the frame pointer without the mark, if the mark is all that it has above the bits of an address.
#[inline(always)]
pub(crate) fn without_mark(fp: u64) -> Option<u64> {
    (fp >> ADDRESS_BITS == MARK >> ADDRESS_BITS).then_some(fp & !MARK)
}

/// Returns true if a word, without pointer authentication's bits, may be the address of a context.
pub(crate) fn is_context(word: u64) -> bool {
    word.is_multiple_of(8) && (PAGE..1 << ADDRESS_BITS).contains(&word)
}

/// The first page is never mapped.
const PAGE: u64 = 4096;
