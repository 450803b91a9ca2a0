//! Counts what passes a closure.

#[inline(never)]
pub fn count(beans: &[u32], passes: impl Fn(u32) -> bool) -> u64 {
    beans.iter().copied().filter(|&bean| passes(bean)).count() as u64
}
