//! A copy that leaves the caches out: what is written is for another core to read.

/// Copies `length` bytes. Signal-safe.
///
/// The capturing thread has read the copy before this one on its own core, so that each cache line of it
/// must be taken back before it can be written as usual: up to 60 ns a line between two cores that
/// share no cache, for one line after the other. Stores that pass the caches by (`movntdq`, Intel SDM
/// volume 1, 10.4.6.2) wait for none of that (`cargo bench --bench stop`). They are weakly ordered: the
/// fence at the end comes before what shows the other thread that the copy is there.
///
/// # Safety
/// - `from` is readable and `to` writable for `length` bytes, and they do not overlap.
/// - `to` is a multiple of 16.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    let streamed = if cfg!(target_arch = "x86_64") {
        length & !63
    } else {
        // `stnp` of arm64 is a hint that its cores leave unused.
        0
    };
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        for at in (0..streamed).step_by(64) {
            // SAFETY: a whole line within both, and `to` is aligned, as the caller vouches for; SSE2 is
            // part of x86-64.
            unsafe {
                let (from, to) = (from.add(at).cast(), to.add(at).cast());
                let line = [
                    _mm_loadu_si128(from),
                    _mm_loadu_si128(from.add(1)),
                    _mm_loadu_si128(from.add(2)),
                    _mm_loadu_si128(from.add(3)),
                ];
                _mm_stream_si128(to, line[0]);
                _mm_stream_si128(to.add(1), line[1]);
                _mm_stream_si128(to.add(2), line[2]);
                _mm_stream_si128(to.add(3), line[3]);
            }
        }
        // SAFETY: orders memory, and touches none.
        unsafe { _mm_sfence() };
    }
    let left = length.wrapping_sub(streamed);
    // SAFETY: the rest of both, see above.
    unsafe {
        std::ptr::copy_nonoverlapping(from.add(streamed), to.add(streamed), left);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_length_is_copied_whole_and_nothing_beyond() {
        #[repr(align(16))]
        struct Aligned([u8; 400]);
        let from: Vec<u8> = (0..400).map(|at| at as u8 ^ 0x5a).collect();
        for length in 0..=300 {
            for shift in 0..3 {
                let mut to = Aligned([0xee; 400]);
                // SAFETY: both hold 400 bytes, and `to` is aligned.
                unsafe { super::copy(from[shift..].as_ptr(), to.0.as_mut_ptr(), length) };
                assert_eq!(to.0[..length], from[shift..shift + length]);
                assert!(to.0[length..].iter().all(|byte| *byte == 0xee));
            }
        }
    }
}
