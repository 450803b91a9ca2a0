//! Ids that nobody else has.

/// 16 random bytes. Signal-safe: one system call.
pub fn id() -> [u8; 16] {
    let mut id = [0u8; 16];
    let errno = super::errno();
    // SAFETY: the pointer and length are those of a live array.
    let failed = unsafe { libc::getentropy(id.as_mut_ptr().cast(), id.len()) } != 0;
    if failed {
        super::set_errno(errno);
        let high = super::clock::realtime().rotate_left(17) ^ u64::from(super::process_id());
        let low = super::clock::monotonic().rotate_left(31) ^ &raw const id as u64;
        id = ((u128::from(high) << 64) | u128::from(low)).to_be_bytes();
    }
    id
}
