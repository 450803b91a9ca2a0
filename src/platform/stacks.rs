//! Stacks for signal handlers: a thread's alternate one, and our own on which a report is written.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;

#[cfg(not(target_os = "tvos"))]
use libc::sigaltstack;

/// Nothing: tvOS has no alternate signal stacks, and handlers stay on the stack that they find.
///
/// Source: the header, `sigaltstack` of <signal.h>: `__TVOS_PROHIBITED`.
#[cfg(target_os = "tvos")]
unsafe fn sigaltstack(_new: *const libc::stack_t, _before: *mut libc::stack_t) -> libc::c_int {
    -1
}

/// Size of the alternate stacks that threads are given, bytes: the kernel's frame, which may have 11 KiB, and room to get to the
/// stack on which reports are written and to call a previous handler.
pub const ALTERNATE: usize = 64 << 10;

/// Gives the calling thread an alternate signal stack of [`ALTERNATE`] bytes, with a guard page below, if it has none or a
/// smaller one. The memory stays, since the thread may use it until it ends, unless the calling thread takes it back. The upper
/// `touched` bytes are resident at once.
pub fn ensure_alternate_stack(touched: usize) -> io::Result<GivenStack> {
    if cfg!(target_os = "tvos") {
        return Ok(GivenStack(None));
    }
    let before = exchange(None).map_err(io::Error::from_raw_os_error)?;
    let enough = before.ss_flags & libc::SS_DISABLE == 0 && before.ss_size >= ALTERNATE;
    // One that is in use cannot be changed.
    if enough || before.ss_flags & libc::SS_ONSTACK != 0 {
        return Ok(GivenStack(None));
    }
    let given = of_memory(map_stack(ALTERNATE, touched)?, ALTERNATE);
    exchange(Some(&given)).map_err(io::Error::from_raw_os_error)?;
    Ok(GivenStack(Some((given, before))))
}

/// The alternate stack that [`ensure_alternate_stack`] has given to the calling thread, if it has, and the one before.
pub struct GivenStack(Option<(libc::stack_t, libc::stack_t)>);

impl GivenStack {
    /// Restores the previous stack and unmaps this one. Call it on the thread that it was given to.
    pub fn take_back(self) {
        let Some((given, before)) = self.0 else {
            return;
        };
        let is_unused = exchange(None)
            .is_ok_and(|now| now.ss_sp != given.ss_sp || exchange(Some(&before)).is_ok());
        if is_unused {
            // SAFETY: mapped by `map_stack`, and no thread's stack any more: a handler that runs on it does not get here.
            unsafe { unmap_stack(given.ss_sp.cast(), given.ss_size) };
        }
    }
}

/// Sets the alternate stack of the calling thread, if there is a new one; returns the one before, or an `errno`. Signal-safe.
fn exchange(new: Option<&libc::stack_t>) -> Result<libc::stack_t, i32> {
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    let mut before = MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: the structures outlive the call, which fills in the one before when it returns 0. The memory of a stack
    // that is set here stays until another one is set.
    unsafe {
        match sigaltstack(new, before.as_mut_ptr()) {
            0 => Ok(before.assume_init()),
            _ => Err(super::errno()),
        }
    }
}

fn of_memory(start: *mut u8, size: usize) -> libc::stack_t {
    libc::stack_t {
        ss_sp: start.cast(),
        ss_flags: 0,
        ss_size: size,
    }
}

/// Makes this memory the calling thread's alternate stack; the thread is not on the one that it has. Signal-safe.
#[cfg(target_os = "linux")]
pub(super) fn use_for_signals(start: *mut u8, size: usize) {
    let _ = exchange(Some(&of_memory(start, size)));
}

/// Runs `work` (on another stack) with `stack` as the alternate signal stack. If `work` never returns, it stays so.
/// Signal-safe.
///
/// Source: sigaltstack(2): it may be changed while the stack pointer is not on it. On Apple platforms it cannot be changed
/// within a handler, and need not: a signal then runs on the current stack.
pub fn with_stack_for_signals(stack: &CrashStack, work: impl FnOnce()) {
    let now = of_memory(stack.top.wrapping_sub(stack.size), stack.size);
    let before = exchange(Some(&now));
    work();
    if let Ok(before) = before {
        let _ = exchange(Some(&before));
    }
}

/// Maps `size` bytes of stack with a guard page below, the upper `touched` bytes of it touched;
/// gives the lowest usable byte.
pub(super) fn map_stack(size: usize, touched: usize) -> io::Result<*mut u8> {
    // SAFETY: a new private mapping, one page larger than wanted; its first page is then made
    // the guard, and the rest is written within its bounds.
    unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let all = libc::mmap(
            std::ptr::null_mut(),
            size.saturating_add(page),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANON,
            -1,
            0,
        );
        if all == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if libc::mprotect(all, page, libc::PROT_NONE) != 0 {
            return Err(io::Error::last_os_error());
        }
        let usable = all.cast::<u8>().add(page);
        // Touched now, so that a crash after memory ran out does not need a page for its report.
        for offset in (size.saturating_sub(touched)..size).step_by(page.max(1)) {
            usable.add(offset).write_volatile(0);
        }
        Ok(usable)
    }
}

/// Gives back what [`map_stack`] has mapped, its guard page too.
///
/// # Safety
/// - `start` is what `map_stack` returned for `size`, and nothing uses that memory any more.
unsafe fn unmap_stack(start: *mut u8, size: usize) {
    // SAFETY: a page and so many bytes were mapped together; the caller vouches for the rest.
    unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        libc::munmap(start.sub(page).cast(), size.saturating_add(page));
    }
}

/// A stack of our own, on which the crash report is written: the alternate stack that a thread
/// happens to have (8 KiB from Rust's runtime) is only used to get here.
#[derive(Debug)]
pub struct CrashStack {
    top: *mut u8,
    size: usize,
}

// SAFETY: the memory is owned by this value alone and never unmapped; `run`'s contract lets one
// thread at a time use it.
unsafe impl Send for CrashStack {}
// SAFETY: as above.
unsafe impl Sync for CrashStack {}

impl CrashStack {
    /// Maps `size` bytes (a multiple of the page size), the upper quarter touched, with a guard page below. Of 512 KiB a report
    /// takes 20 in a release build, 68 in one without optimization.
    pub fn new(size: usize) -> io::Result<CrashStack> {
        let bottom = map_stack(size, size / 4)?;
        // SAFETY: one past the end of the mapping that was just made.
        let top = unsafe { bottom.add(size) };
        Ok(CrashStack { top, size })
    }

    /// Runs `body(argument)` on this stack.
    ///
    /// Signal-safe, as far as `body` is.
    ///
    /// # Safety
    /// - No other thread runs on this stack.
    /// - `body` does not unwind.
    pub unsafe fn run(&self, body: extern "C" fn(*mut c_void), argument: *mut c_void) {
        // SAFETY: `top` is 16-aligned (end of a page), as both ABIs want it at a call; the old
        // stack pointer is kept in a callee-saved register that is declared as written.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            std::arch::asm!(
                "mov r12, rsp",
                "mov rsp, {top}",
                "call {body}",
                "mov rsp, r12",
                top = in(reg) self.top,
                body = in(reg) body,
                in("rdi") argument,
                out("r12") _,
                clobber_abi("C"),
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::asm!(
                "mov x20, sp",
                "mov sp, {top}",
                "blr {body}",
                "mov sp, x20",
                top = in(reg) self.top,
                body = in(reg) body,
                in("x0") argument,
                out("x20") _,
                clobber_abi("C"),
            );
        }
    }
}
