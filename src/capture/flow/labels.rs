//! Listed functions of arm64 that are not functions: labels within functions, and the way back
//! from a piece of a prologue.

use super::functions::is_padding;
use super::{Code, FrameState, Successor, arm64, follow};

/// Returns true if this arm64 instruction moves the link register back from the register in which it was kept during a
/// call of a piece of the prologue. Signal-safe.
pub(crate) fn gives_link_back(code: &[u8]) -> bool {
    let word = code.get(..4).and_then(|bytes| bytes.try_into().ok());
    word.is_some_and(|word| arm64::is_link_back(u32::from_le_bytes(word)))
}

/// Returns true if the arm64 code before a function's first instruction runs on into it: then that instruction is a
/// label within `before`, which ends where `code` begins. Signal-safe.
pub(crate) fn falls_in(before: Code<'_>) -> bool {
    let mut ignored = FrameState::entered(before.arch);
    let end = before.range().end;
    let last = end.saturating_sub(PADDING).max(before.start);
    let mut goes_on = false;
    for at in (last..end).step_by(4) {
        let Some(bytes) = before.at(at) else {
            return false;
        };
        let next = follow(before.arch, bytes, at, &mut ignored);
        goes_on = match next {
            // A function may end in a call that does not return.
            Some((_, Successor::Behind | Successor::Branch(_))) => {
                goes_on || !is_padding(before.arch, bytes)
            }
            _ => false,
        };
    }
    goes_on
}

/// Most bytes of padding between functions.
const PADDING: u64 = 64;
