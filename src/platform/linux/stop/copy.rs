//! The copy of a thread's stack, made by the thread itself in the handler.

use std::mem::offset_of;
use std::ops::Range;

use super::slot::{CaptureRequest, StackPart};
use super::stack::OWN_STACK;
use crate::platform::clock::monotonic as now;
use crate::platform::linux::{context, memory};

/// Bytes below the stack pointer that a leaf function may use without moving it (System V psABI
/// for x86-64, 3.2.2; the Arm ABI has none).
const RED_ZONE: u64 = if cfg!(target_arch = "x86_64") { 128 } else { 0 };

/// Bytes copied between two looks at the clock.
const CHUNK: usize = 64 << 10;

/// Copies the stack of the interrupted thread, which is the calling one, into `request`; where that
/// is an alternate stack on which a handler runs, also the stack which that handler interrupted.
/// Signal-safe.
///
/// # Safety
/// - `context` is what the kernel gave to the handler that calls this.
pub(super) unsafe fn stack(
    request: &mut CaptureRequest,
    start: u64,
    context: *const libc::ucontext_t,
) {
    request.parts = [StackPart::NONE; 2];
    request.cut = false;
    let sp = request.registers[if cfg!(target_arch = "x86_64") { 7 } else { 31 }];
    let marker = 0u8;
    let own = &raw const marker as u64;
    // On the same stack the kernel has put its signal frame below the red zone, so that this much
    // is there for certain; on another stack the page of sp is.
    let same = own < sp && sp.saturating_sub(own) < (64 << 10);
    // SAFETY: the caller vouches for the context.
    let alternate = unsafe { context::alternate_stack(context) };
    if !alternate.contains(&sp) {
        request.parts[0] = copy_own(request, 0, lowest(sp, same), start);
        return;
    }
    let base = lowest(sp, same);
    let wanted = alternate.end.saturating_sub(base) as usize;
    let length = wanted.min(request.room / 2);
    // SAFETY: the memory is the request's, `room` bytes of it.
    let bytes = unsafe { memory::read_raw(base, request.into, length) };
    request.cut = bytes == length && length < wanted;
    request.parts[0] = StackPart { at: 0, base, bytes };
    // SAFETY: so many bytes were just written there.
    let copied = unsafe { std::slice::from_raw_parts(request.into, bytes) };
    if let Some(sp) = interrupted(copied, &alternate) {
        request.parts[1] = copy_own(
            request,
            bytes.next_multiple_of(64),
            lowest(sp, false),
            start,
        );
    }
}

/// First address of the copy of a stack: at the red zone.
fn lowest(sp: u64, mapped: bool) -> u64 {
    let red = sp.saturating_sub(RED_ZONE);
    let red = if mapped { red } else { red.max(sp & !4095) };
    red & !7
}

/// Distance below the end of an alternate stack within which the kernel's frame is searched for, bytes: the state of
/// the vector registers lies between (11 KiB with AMX).
const FRAME_WITHIN: usize = 32 << 10;

/// The stack pointer that the first handler on an alternate stack interrupted: in the outermost
/// signal frame of the copy, which ends where that stack ends. The frame is known by its `uc_stack`,
/// which holds where the alternate stack lies, and its `uc_link`, which is null.
///
/// Source: `struct ucontext` in include/uapi/asm-generic/ucontext.h and arch/x86; `__save_altstack`
/// in kernel/signal.c.
fn interrupted(copied: &[u8], alternate: &Range<u64>) -> Option<u64> {
    const LINK: usize = offset_of!(libc::ucontext_t, uc_link);
    const STACK: usize = offset_of!(libc::ucontext_t, uc_stack);
    const START: usize = STACK + offset_of!(libc::stack_t, ss_sp);
    const SIZE: usize = STACK + offset_of!(libc::stack_t, ss_size);
    const MACHINE: usize = offset_of!(libc::ucontext_t, uc_mcontext);
    #[cfg(target_arch = "x86_64")]
    const SP: usize = MACHINE + 8 * libc::REG_RSP as usize;
    #[cfg(target_arch = "aarch64")]
    const SP: usize = MACHINE + offset_of!(libc::mcontext_t, sp);
    let word = |at: usize| {
        let bytes = copied.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let last = copied.len().checked_sub(SP + 8)? & !7;
    let first = last.saturating_sub(FRAME_WITHIN);
    let size = alternate.end.saturating_sub(alternate.start);
    let frame = (first..=last).rev().step_by(8).find(|&at| {
        word(at.saturating_add(START)) == Some(alternate.start)
            && word(at.saturating_add(SIZE)) == Some(size)
            && word(at.saturating_add(LINK)) == Some(0)
    })?;
    word(frame.saturating_add(SP)).filter(|sp| !alternate.contains(sp))
}

/// Copies what lies from `base` to the end of its stack to where `at` bytes of the request's memory
/// are in use.
fn copy_own(request: &mut CaptureRequest, at: usize, base: u64, start: u64) -> StackPart {
    let room = request.room.saturating_sub(at);
    let into = request.into.wrapping_add(at);
    let mut part = StackPart { at, base, bytes: 0 };
    if !request.known.contains(&base) {
        // A thread's control block lies at the top of its stack (glibc and musl alike), so that on
        // its own stack nothing beyond is wanted; on another one, what the kernel can read is.
        let beyond = context::thread_pointer_or_zero().wrapping_sub(base);
        let wanted = if beyond < OWN_STACK {
            beyond as usize
        } else {
            room
        };
        let length = wanted.min(room);
        // SAFETY: the memory is the request's, `room` bytes of it are left.
        part.bytes = unsafe { memory::read_raw(base, into, length) };
        request.cut |= part.bytes == length && length < wanted;
        return part;
    }
    let wanted = request.known.end.saturating_sub(base) as usize;
    let length = wanted.min(room);
    request.cut |= length < wanted;
    while part.bytes < length {
        let chunk = CHUNK.min(length.saturating_sub(part.bytes));
        // SAFETY: the source lies between the stack pointer (less the red zone, see `lowest`) and the
        // end of the thread's own stack, all of it mapped and readable while this thread is on it, or
        // has left it for the alternate one; the destination begins at a multiple of 64 and has
        // `room` bytes. They are different mappings.
        unsafe {
            let from = (base as *const u8).add(part.bytes);
            copy_past_caches(from, into.add(part.bytes), chunk);
        }
        part.bytes = part.bytes.saturating_add(chunk);
        if part.bytes < length && now().saturating_sub(start) > request.budget {
            request.cut = true;
            break;
        }
    }
    part
}

/// Copies `length` bytes past the caches: what is written is for another core to read. Signal-safe.
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
unsafe fn copy_past_caches(from: *const u8, to: *mut u8, length: usize) {
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
    use super::*;

    const ALTERNATE: Range<u64> = 0x7000_0000..0x7000_4000;

    /// An alternate stack's bytes with signal frames in it: where each begins, and the stack pointer
    /// that it interrupted.
    fn stack_with(frames: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0x55; (ALTERNATE.end - ALTERNATE.start) as usize];
        for &(at, sp) in frames {
            // SAFETY: all zero is a valid value of this plain struct.
            let mut context: libc::ucontext_t = unsafe { std::mem::zeroed() };
            context.uc_stack.ss_sp = ALTERNATE.start as *mut _;
            context.uc_stack.ss_size = (ALTERNATE.end - ALTERNATE.start) as usize;
            #[cfg(target_arch = "x86_64")]
            {
                context.uc_mcontext.gregs[libc::REG_RSP as usize] = sp as i64;
            }
            #[cfg(target_arch = "aarch64")]
            {
                context.uc_mcontext.sp = sp;
            }
            let size = size_of::<libc::ucontext_t>();
            assert!(at + size <= bytes.len());
            // SAFETY: that many bytes of a plain struct go into as many of the vector.
            unsafe {
                let from = (&raw const context).cast::<u8>();
                std::ptr::copy_nonoverlapping(from, bytes[at..at + size].as_mut_ptr(), size);
            }
        }
        bytes
    }

    #[test]
    fn the_outermost_signal_frame_holds_what_was_interrupted() {
        let own = 0x1234_5670;
        assert_eq!(interrupted(&stack_with(&[]), &ALTERNATE), None);
        assert_eq!(interrupted(&[], &ALTERNATE), None);
        assert_eq!(
            interrupted(&stack_with(&[(8192, own)]), &ALTERNATE),
            Some(own)
        );
        // A second signal on the same stack: the frame nearer to the end counts.
        let nested = stack_with(&[(64, ALTERNATE.start + 9000), (10_000, own)]);
        assert_eq!(interrupted(&nested, &ALTERNATE), Some(own));
        // One that leads into the alternate stack leads nowhere.
        let itself = stack_with(&[(8192, ALTERNATE.start + 64)]);
        assert_eq!(interrupted(&itself, &ALTERNATE), None);
    }

    #[test]
    fn every_length_is_copied_whole_and_nothing_beyond() {
        #[repr(align(16))]
        struct Aligned([u8; 400]);
        let from: Vec<u8> = (0..400).map(|at| at as u8 ^ 0x5a).collect();
        for length in 0..=300 {
            for shift in 0..3 {
                let mut to = Aligned([0xee; 400]);
                // SAFETY: both hold 400 bytes, and `to` is aligned.
                unsafe { copy_past_caches(from[shift..].as_ptr(), to.0.as_mut_ptr(), length) };
                assert_eq!(to.0[..length], from[shift..shift + length]);
                assert!(to.0[length..].iter().all(|byte| *byte == 0xee));
            }
        }
    }
}
