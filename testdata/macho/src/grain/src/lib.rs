//! The Rust half of the fixture: generics, closures and inlining over several modules, without the
//! standard library, so that the fixture stays small.
#![no_std]

mod burr;
mod sieve;

use burr::{Burr, Coarse, Fine};

unsafe extern "C" {
    fn kiosk_fault(code: u64) -> !;
}

/// Grinds `n` beans, coarsely and then finely.
///
/// # Safety
/// `beans` points to `n` readable values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grain_grind(beans: *const u32, n: u64) -> u64 {
    // SAFETY: the caller's duty, see above.
    let beans = unsafe { core::slice::from_raw_parts(beans, n as usize) };
    let coarse = pass::<Coarse>(beans);
    let fine = pass::<Fine>(beans);
    sieve::count(beans, |bean| bean % 2 == 1 && u64::from(bean) < coarse + fine)
}

#[inline(never)]
fn pass<B: Burr>(beans: &[u32]) -> u64 {
    let mut sum = 0u64;
    for &bean in beans {
        sum = sum.rotate_left(5) ^ B::crush(bean);
    }
    sum
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: takes any code and does not return.
    unsafe { kiosk_fault(101) }
}
