//! The frame that Darwin's kernel puts on an alternate stack for a signal, found in a copy of that stack.

use std::ops::Range;

/// The stack pointer of another stack that a signal interrupted, by the signal's frame in the bytes of an alternate
/// stack, which lies at `base`; from `first` on, where nothing was found before.
///
/// The kernel's `ucontext_t` is known by `uc_onstack`, which is 0 where no alternate stack was in use before, by
/// `uc_link`, which is null, and by its last two words, the size of the `mcontext_t` and its address, which is right
/// behind. The interrupted stack pointer of a signal that was handled on the same stack is above it, within these
/// bytes or soon behind. Signal-safe.
///
/// Source: sys/_types/_ucontext64.h, mach/arm/_structs.h and mach/i386/_structs.h; `sendsig` in
/// bsd/dev/arm/unix_signal.c and bsd/dev/i386/unix_signal.c of xnu.
pub fn interrupted(copied: &[u8], first: usize, base: u64) -> Option<u64> {
    const LINK: usize = 32;
    const SIZE: usize = 40;
    const MACHINE: usize = 48;
    const UCONTEXT: usize = 56;
    const SIZES: Range<u64> = 512..8193;
    /// Distance behind the bytes up to which the same stack is taken to go on, bytes.
    const SOON: u64 = 64 << 10;
    /// Longest distance from the `ucontext_t` to its `mcontext_t`, bytes.
    const BEHIND: u64 = 256;
    /// The stack pointer in a `mcontext_t`: behind the exception state.
    const SP: u64 = 16 + 8 * if cfg!(target_arch = "x86_64") { 7 } else { 31 };
    /// Length of a frame from its `ucontext_t` to the stack pointer, at the most, bytes.
    const LENGTH: usize = UCONTEXT + BEHIND as usize + SP as usize + 8;
    let word = |at: usize| {
        let bytes = copied.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    // A frame may lie across what was there before.
    let first = first.saturating_sub(LENGTH) & !7;
    let end = base
        .saturating_add(copied.len() as u64)
        .saturating_add(SOON);
    (first..copied.len()).step_by(8).find_map(|at| {
        let machine = word(at.saturating_add(MACHINE))?;
        let lies = machine.wrapping_sub(base.wrapping_add(at as u64));
        let is_one = (UCONTEXT as u64..BEHIND).contains(&lies)
            && SIZES.contains(&word(at.saturating_add(SIZE))?)
            && word(at.saturating_add(LINK))? == 0
            && word(at)? as u32 == 0;
        if !is_one {
            return None;
        }
        let sp = word(usize::try_from(machine.wrapping_add(SP).wrapping_sub(base)).ok()?)?;
        (!(base..end).contains(&sp)).then_some(sp)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x1_0400_0000;

    /// Puts a signal's frame there: a `ucontext_t` and, behind it, a `mcontext_t` with this stack pointer.
    fn put(stack: &mut [u8], at: usize, on_stack: u32, sp: u64) {
        let machine = at + 64;
        let mut set =
            |at: usize, value: u64| stack[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        (0..8).for_each(|word| set(at + 8 * word, 0));
        set(at, on_stack.into());
        set(at + 40, 816);
        set(at + 48, BASE + machine as u64);
        let number = if cfg!(target_arch = "x86_64") { 7 } else { 31 };
        set(machine + 16 + 8 * number, sp);
    }

    fn stack() -> Vec<u8> {
        (0..64u32 << 10).map(|at| (at * 7 + 3) as u8).collect()
    }

    #[test]
    fn the_stack_that_a_handler_interrupted_is_known_by_the_kernels_frame() {
        let own = 0x1_6fdf_e000;
        let mut bytes = stack();
        assert_eq!(interrupted(&bytes, 0, BASE), None);
        assert_eq!(interrupted(&[], 0, BASE), None);
        put(&mut bytes, 0xf000, 0, own);
        assert_eq!(interrupted(&bytes, 0, BASE), Some(own));
        // Only what is new is looked at, and a frame that began in what was there before.
        assert_eq!(interrupted(&bytes, 0xf040, BASE), Some(own));
        assert_eq!(interrupted(&bytes, 0xf800, BASE), None);
        // A frame of which not all is there yet.
        assert_eq!(interrupted(&bytes[..0xf080], 0, BASE), None);
    }

    #[test]
    fn a_signal_within_a_handler_does_not_end_the_search() {
        let own = 0x1_6fdf_e000;
        let mut bytes = stack();
        put(&mut bytes, 0x1000, 1, BASE + 0x2000);
        put(&mut bytes, 0x3000, 0, BASE + 0x4000);
        assert_eq!(interrupted(&bytes, 0, BASE), None, "all on the same stack");
        put(&mut bytes, 0xf000, 0, own);
        assert_eq!(interrupted(&bytes, 0, BASE), Some(own));
        // One whose registers do not lie behind it is a copy of a frame.
        let mut copied = stack();
        put(&mut copied, 0x2000, 0, own);
        let frame = copied[0x2000..0x3000].to_vec();
        let mut bytes = stack();
        bytes[0x5000..0x6000].copy_from_slice(&frame);
        assert_eq!(interrupted(&bytes, 0, BASE), None);
    }
}
