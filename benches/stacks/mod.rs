//! Stacks to unwind: as many frames as asked for, of many functions, as deep as asked for.
#![allow(dead_code, reason = "each bench uses some of it")]

#[cfg(target_os = "linux")]
pub mod marked;

use std::hint::black_box;

/// Calls `then` with so many frames of functions below that are not inlined, each with `PAD` bytes
/// of its own.
pub fn deep<const PAD: usize>(frames: usize, then: &mut dyn FnMut()) {
    level::<0, PAD>(frames.max(1) - 1, then);
}

#[inline(never)]
fn level<const N: usize, const PAD: usize>(left: usize, then: &mut dyn FnMut()) {
    let mut own = [0u8; PAD];
    black_box(&mut own);
    if left == 0 {
        then();
    } else {
        // Another function each time, so that no two neighbours share an address.
        let next: fn(usize, &mut dyn FnMut()) = match left % 8 {
            0 => level::<0, PAD>,
            1 => level::<1, PAD>,
            2 => level::<2, PAD>,
            3 => level::<3, PAD>,
            4 => level::<4, PAD>,
            5 => level::<5, PAD>,
            6 => level::<6, PAD>,
            _ => level::<7, PAD>,
        };
        black_box(next)(left - 1, then);
        black_box(N);
    }
    black_box(&mut own);
}
