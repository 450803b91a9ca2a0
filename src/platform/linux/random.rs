//! Ids that nobody else has.

use super::clock;

/// 16 random bytes; where the system gives none (an old kernel, a filter), from clocks, process and
/// thread, which is enough to tell one report from another.
///
/// Signal-safe.
pub fn id() -> [u8; 16] {
    let mut id = [0u8; 16];
    // SAFETY: the pointer and length are those of a live array; GRND_NONBLOCK keeps it from waiting.
    let got = unsafe { libc::getrandom(id.as_mut_ptr().cast(), id.len(), libc::GRND_NONBLOCK) };
    if got != id.len() as isize {
        // SAFETY: system calls without arguments.
        let (process, thread) = unsafe {
            (
                libc::getpid() as u64,
                libc::syscall(libc::SYS_gettid) as u64,
            )
        };
        let high = clock::realtime().rotate_left(17) ^ process;
        let low = clock::monotonic().rotate_left(31) ^ (thread << 32);
        id = ((u128::from(high) << 64) | u128::from(low)).to_be_bytes();
    }
    id
}
