//! Stacks that a test makes: alternate ones, and small ones for code to run on.

pub const SIZE: usize = 64 << 10;

pub fn map(size: usize) -> *mut u8 {
    // SAFETY: a new mapping.
    unsafe {
        let (rights, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let start = libc::mmap(std::ptr::null_mut(), size, rights, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        start.cast()
    }
}

/// Nobody may touch this memory any more.
pub fn protect(start: *mut u8, size: usize) {
    // SAFETY: the caller's memory.
    assert_eq!(0, unsafe {
        libc::mprotect(start.cast(), size, libc::PROT_NONE)
    });
}

/// Makes new memory of [`SIZE`] the calling thread's alternate stack.
pub fn use_alternate_stack() -> *mut u8 {
    let start = map(SIZE);
    set_alternate_stack(start, SIZE);
    start
}

/// Makes this memory the calling thread's alternate stack.
pub fn set_alternate_stack(start: *mut u8, size: usize) {
    let stack = libc::stack_t {
        ss_sp: start.cast(),
        ss_flags: 0,
        ss_size: size,
    };
    // SAFETY: memory that is not used otherwise.
    assert_eq!(0, unsafe {
        libc::sigaltstack(&stack, std::ptr::null_mut())
    });
}

/// Calls `body` on another stack.
pub fn on_stack(top: *mut u8, body: extern "C" fn()) {
    // SAFETY: the memory below `top` is the caller's, and the old stack pointer is kept in a register that is saved by calls.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {body}",
            "mov rsp, r12",
            top = in(reg) top,
            body = in(reg) body,
            out("r12") _,
            clobber_abi("C"),
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {body}",
            "mov sp, x20",
            top = in(reg) top,
            body = in(reg) body,
            out("x20") _,
            clobber_abi("C"),
        );
    }
}
