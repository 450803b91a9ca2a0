//! The machine context that the kernel hands to a signal handler, and the state that it gives of a
//! suspended thread.
//!
//! Register files are numbered as in [`crate::platform::registers`].
//!
//! Signal-safe throughout.

pub use crate::platform::registers::{REGISTERS, current_registers};

/// Bits of an address that a pointer of user code has (`MACH_VM_MAX_ADDRESS` of arm64 is 2^47): what
/// lies above is a signature (arm64e) or a tag.
#[cfg(target_arch = "aarch64")]
const ADDRESS: u64 = (1 << 47) - 1;

/// A code address without its signature.
pub(super) fn address(signed: u64) -> u64 {
    #[cfg(target_arch = "aarch64")]
    return signed & ADDRESS;
    #[cfg(not(target_arch = "aarch64"))]
    signed
}

/// Words of 64 bits in a thread state (mach/arm/_structs.h, mach/i386/_structs.h).
pub(super) const STATE_WORDS: usize = if cfg!(target_arch = "aarch64") {
    34
} else {
    21
};

/// The flavour of `thread_get_state`: `ARM_THREAD_STATE64`, `x86_THREAD_STATE64`.
const STATE_FLAVOR: i32 = if cfg!(target_arch = "aarch64") { 6 } else { 4 };

/// Address range of the alternate stack that was set when the handler was entered: empty, as it is not known here.
///
/// # Safety
/// - As for [`registers`].
pub unsafe fn alternate_stack(_context: *const libc::ucontext_t) -> std::ops::Range<u64> {
    0..0
}

/// The registers of an interrupted thread.
///
/// # Safety
/// - `context` is the third argument of a handler that was installed with `SA_SIGINFO`, and that
///   handler has not returned.
pub unsafe fn registers(context: *const libc::ucontext_t) -> [u64; REGISTERS] {
    // SAFETY: the caller vouches for the context; the thread state lies behind the exception state
    // of 16 bytes on both architectures (sys/_types/_mcontext.h), and has so many words.
    let state = unsafe {
        let machine = (*context).uc_mcontext.cast::<u64>();
        &*machine.add(2).cast::<[u64; STATE_WORDS]>()
    };
    from_state(state)
}

/// Has the thread go on at `pc` with the stack pointer `sp`, once the handler returns.
///
/// # Safety
/// - `context` is the third argument of a handler that was installed with `SA_SIGINFO`, and that
///   handler has not returned.
/// - The code there expects that.
pub unsafe fn resume_at(context: *mut libc::ucontext_t, pc: usize, sp: usize) {
    let (at_sp, at_pc) = if cfg!(target_arch = "aarch64") {
        (31, 32)
    } else {
        (7, 16)
    };
    // SAFETY: as in `registers`.
    unsafe {
        let state = (*context).uc_mcontext.cast::<u64>().add(2);
        state.add(at_sp).write(sp as u64);
        state.add(at_pc).write(pc as u64);
    }
}

/// The calling thread's control block, as Linux's thread pointer: no two threads have the same one at a time.
#[inline]
pub fn thread_pointer() -> u64 {
    // SAFETY: no arguments, always succeeds.
    unsafe { libc::pthread_self() as u64 }
}

/// The registers of the thread whose port has this name; `None` where the kernel does not give them.
pub(super) fn of_thread(port: u32) -> Option<[u64; REGISTERS]> {
    let mut state = [0u64; STATE_WORDS];
    let mut count = (2 * STATE_WORDS) as u32;
    // SAFETY: the kernel writes at most `count` words of 32 bits, the size of `state`; of a name that is
    // gone it writes none.
    let code = unsafe {
        mach2::thread_act::thread_get_state(
            port,
            STATE_FLAVOR,
            state.as_mut_ptr().cast(),
            &mut count,
        )
    };
    (code == mach2::kern_return::KERN_SUCCESS).then(|| from_state(&state))
}

/// From a thread state in the kernel's order.
#[cfg(target_arch = "aarch64")]
fn from_state(state: &[u64; STATE_WORDS]) -> [u64; REGISTERS] {
    let mut file = *state;
    let [.., fp, lr, _sp, pc, cpsr] = &mut file;
    for address in [fp, lr, pc] {
        *address &= ADDRESS;
    }
    // cpsr is the lower half of the last word.
    *cpsr &= 0xffff_ffff;
    file
}

/// From a thread state in the kernel's order.
#[cfg(target_arch = "x86_64")]
fn from_state(state: &[u64; STATE_WORDS]) -> [u64; REGISTERS] {
    // rax, rbx, rcx, rdx, rdi, rsi, rbp, rsp, r8 .. r15, rip, rflags, cs, fs, gs
    const NUMBER: [usize; 18] = [0, 3, 2, 1, 5, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17];
    let mut file = [0; REGISTERS];
    for (value, number) in state.iter().zip(NUMBER) {
        if let Some(register) = file.get_mut(number) {
            *register = *value;
        }
    }
    file
}
