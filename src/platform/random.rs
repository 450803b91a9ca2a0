//! Ids that no other process has.

use super::clock;

/// 16 random bytes; where the system gives none (an old kernel, a filter), from clocks, process and
/// thread, which is enough to tell one report from another.
///
/// Signal-safe: one system call, and `errno` is kept.
pub fn id() -> [u8; 16] {
    let mut id = [0u8; 16];
    let errno = super::errno();
    let (start, length) = (id.as_mut_ptr().cast(), id.len());
    #[cfg(target_os = "linux")]
    // SAFETY: the pointer and length are those of a live array; GRND_NONBLOCK keeps it from waiting.
    let is_filled =
        unsafe { libc::getrandom(start, length, libc::GRND_NONBLOCK) } == length as isize;
    #[cfg(target_vendor = "apple")]
    // SAFETY: the pointer and length are those of a live array.
    let is_filled = unsafe { libc::getentropy(start, length) } == 0;
    if !is_filled {
        super::set_errno(errno);
        let high = clock::realtime().rotate_left(17) ^ u64::from(super::process_id());
        // Each thread has another stack.
        let low = clock::monotonic().rotate_left(31) ^ &raw const id as u64;
        id = ((u128::from(high) << 64) | u128::from(low)).to_be_bytes();
    }
    id
}
