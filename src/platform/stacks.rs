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

/// Gives the calling thread an alternate signal stack of `size` bytes, with a guard page below, if
/// it has none or a smaller one; the memory stays, since the thread may use it until it ends, unless
/// the calling thread takes it back. The upper `touched` bytes are there at once.
pub fn ensure_alternate_stack(size: usize, touched: usize) -> io::Result<GivenStack> {
    if cfg!(target_os = "tvos") {
        return Ok(GivenStack(None));
    }
    let before = exchange(None)?;
    let enough = before.ss_flags & libc::SS_DISABLE == 0 && before.ss_size >= size;
    // One that is in use cannot be changed.
    if enough || before.ss_flags & libc::SS_ONSTACK != 0 {
        return Ok(GivenStack(None));
    }
    let given = of_memory(map_stack(size, touched)?, size);
    exchange(Some(&given))?;
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
        let is_there = exchange(None).is_ok_and(|now| now.ss_sp == given.ss_sp);
        if is_there && exchange(Some(&before)).is_ok() {
            // SAFETY: mapped by `map_stack`, and no thread's stack any more: a handler that runs on it does not get here.
            unsafe { unmap_stack(given.ss_sp.cast(), given.ss_size) };
        }
    }
}

/// Sets the alternate stack of the calling thread, if there is a new one; returns the one before. Signal-safe.
fn exchange(new: Option<&libc::stack_t>) -> io::Result<libc::stack_t> {
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    let mut before = MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: the structures outlive the call, which fills in the one before when it returns 0. The memory of a stack
    // that is set here stays until another one is set.
    unsafe {
        match sigaltstack(new, before.as_mut_ptr()) {
            0 => Ok(before.assume_init()),
            _ => Err(io::Error::last_os_error()),
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

#[cfg(all(feature = "thread-stacks", target_env = "gnu"))]
const NO_STACK: libc::stack_t = libc::stack_t {
    ss_sp: std::ptr::null_mut(),
    ss_flags: libc::SS_DISABLE,
    ss_size: 0,
};

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

/// Bytes of an alternate stack that a handler of ours needs, beside the kernel's frame: enough to get to
/// the stack on which reports are written, and to ask a previous handler.
#[cfg(all(feature = "thread-stacks", target_os = "linux"))]
const OUR_NEED: usize = 48 << 10;

/// The size of an [`AlternateStack`], bytes: the kernel's frame, whose size depends on the CPU
/// (AT_MINSIGSTKSZ of getauxval(3), 2 KiB where the kernel does not report it), and our need.
#[cfg(all(feature = "thread-stacks", target_os = "linux"))]
pub fn alternate_size() -> usize {
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: reads only.
    let frame = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    const PAGE: usize = 4096;
    let wanted = frame.max(2048).saturating_add(OUR_NEED);
    wanted.saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// An alternate stack for some thread, with a guard page below.
#[cfg(all(feature = "thread-stacks", target_os = "linux"))]
#[derive(Debug)]
pub struct AlternateStack {
    start: *mut u8,
}

#[cfg(all(feature = "thread-stacks", target_os = "linux"))]
impl AlternateStack {
    /// Maps it; the part that a handler needs first is touched.
    pub fn new() -> io::Result<AlternateStack> {
        let start = map_stack(alternate_size(), 16 << 10)?;
        Ok(AlternateStack { start })
    }

    /// Its lowest byte; it has [`alternate_size`].
    pub fn start(&self) -> *mut u8 {
        self.start
    }
}

/// With glibc, where a thread is given one as it starts.
#[cfg(all(feature = "thread-stacks", target_env = "gnu"))]
impl AlternateStack {
    /// Makes it the calling thread's, if that has none.
    pub fn give_to_this_thread(&self) -> bool {
        let stack = of_memory(self.start, alternate_size());
        exchange(None).is_ok_and(|now| now.ss_flags & libc::SS_DISABLE != 0)
            && exchange(Some(&stack)).is_ok()
    }

    /// Takes it from the calling thread, if it is still that thread's, and gives the memory back.
    pub fn take_from_this_thread(self) {
        if exchange(None).is_ok_and(|now| now.ss_sp == self.start.cast()) {
            let _ = exchange(Some(&NO_STACK));
        }
    }

    /// Without an owner, until [`AlternateStack::from_raw`].
    pub fn into_raw(self) -> *mut u8 {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// # Safety
    /// - `start` came from [`AlternateStack::into_raw`], once.
    pub unsafe fn from_raw(start: *mut u8) -> AlternateStack {
        AlternateStack { start }
    }
}

#[cfg(all(feature = "thread-stacks", target_os = "linux"))]
impl Drop for AlternateStack {
    fn drop(&mut self) {
        // SAFETY: mapped by `map_stack`, and no thread's stack any more.
        unsafe { unmap_stack(self.start, alternate_size()) };
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
        for offset in (size.saturating_sub(touched)..size).step_by(page) {
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
    /// Maps `size` bytes (a multiple of the page size), touched, with a guard page below.
    pub fn new(size: usize) -> io::Result<CrashStack> {
        let bottom = map_stack(size, size)?;
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
