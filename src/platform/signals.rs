//! Fatal signals: install, read what arrived, put back who was there, and die as one would have.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use super::errno;
use super::os::send;

/// The highest signal number that a handler can be kept for.
const MAX_SIGNAL: usize = 64;

/// Who handled a signal before us.
struct Before {
    kept: AtomicBool,
    action: UnsafeCell<MaybeUninit<libc::sigaction>>,
}

// SAFETY: `action` is written only by `install` (which runs once at a time, under the monitor's
// claim, and before `kept` is released) and read only after `kept` was acquired.
unsafe impl Sync for Before {}

static BEFORE: [Before; MAX_SIGNAL + 1] = [const {
    Before {
        kept: AtomicBool::new(false),
        action: UnsafeCell::new(MaybeUninit::uninit()),
    }
}; MAX_SIGNAL + 1];

/// What a signal handler is given.
pub type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

/// Installs `handler` for each of `signals`, on the alternate stack, and keeps who was there.
///
/// Where one fails, those before it are put back and the error names the signal.
pub fn install(signals: &[i32], handler: Handler) -> Result<(), (i32, io::Error)> {
    for (index, &signal) in signals.iter().enumerate() {
        if let Err(error) = install_one(signal, handler) {
            for &done in signals.iter().take(index) {
                restore(done);
            }
            return Err((signal, error));
        }
    }
    Ok(())
}

fn install_one(signal: i32, handler: Handler) -> io::Result<()> {
    let before = slot(signal).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: the structures are zeroed, which is valid for them, and outlive the calls; the slot
    // is not read by anybody until `kept` is set below.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        // NODEFER: a crash inside our own handler must come to us, not end the process unseen.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // Everything that is not a fault waits until the report is written.
        libc::sigfillset(&mut action.sa_mask);
        for fault in FAULTS {
            libc::sigdelset(&mut action.sa_mask, fault);
        }
        if libc::sigaction(
            signal,
            std::ptr::null(),
            (*before.action.get()).as_mut_ptr(),
        ) != 0
        {
            return Err(io::Error::from_raw_os_error(errno()));
        }
        before.kept.store(true, Ordering::Release);
        if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
            before.kept.store(false, Ordering::Release);
            return Err(io::Error::from_raw_os_error(errno()));
        }
    }
    Ok(())
}

/// The signals that a fault or an abort raises: these are never masked while we write.
const FAULTS: [i32; 7] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Puts back who handled `signal` before [`install`], or the default action if nobody was kept.
/// Calling it again does the same again: several threads may be dying at once, and a child of
/// `vfork` shares this memory.
///
/// Signal-safe.
pub fn restore(signal: i32) {
    let kept = slot(signal).filter(|before| before.kept.load(Ordering::Acquire));
    match kept {
        // SAFETY: `kept` was set, so `install` has filled the action in, and nobody writes it now.
        Some(before) => unsafe {
            libc::sigaction(
                signal,
                (*before.action.get()).as_ptr(),
                std::ptr::null_mut(),
            );
        },
        None => set_default(signal),
    }
}

/// Gives `signal` its default action.
///
/// Signal-safe.
pub fn set_default(signal: i32) {
    // SAFETY: an all-zero action is SIG_DFL without flags, and outlives the call.
    unsafe {
        let action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Puts back who handled each signal for which somebody was kept.
///
/// Signal-safe.
pub fn restore_all() {
    for signal in 1..=MAX_SIGNAL as i32 {
        if slot(signal).is_some_and(|before| before.kept.load(Ordering::Acquire)) {
            restore(signal);
        }
    }
}

/// Puts back who handled `signal` before, but only if `handler` is still the one in place: a
/// handler that somebody installed over ours stays, and who was there before us is still kept for
/// it. Gives whether ours was still there.
pub fn restore_if_ours(signal: i32, handler: Handler) -> bool {
    let ours = is_in_place(signal, handler);
    if ours {
        restore(signal);
        if let Some(before) = slot(signal) {
            before.kept.store(false, Ordering::Release);
        }
    }
    ours
}

/// Whether `handler` is what is called now when `signal` comes.
///
/// Signal-safe.
pub fn is_in_place(signal: i32, handler: Handler) -> bool {
    disposition(signal).is_some_and(|now| now.sa_sigaction == handler as usize)
}

fn slot(signal: i32) -> Option<&'static Before> {
    BEFORE.get(usize::try_from(signal).ok()?)
}

/// Makes the process die of `signal` (or hands it to whoever was there before), as if we had never
/// been in the way: call it last in a handler, after [`restore`], and then return.
///
/// A fault comes again by itself when the handler returns. What was sent by `kill`, `raise` or
/// `abort`, and SIGTRAP and SIGSYS (whose pc lies behind the instruction), would not:
/// - where the default action is back, the signal is queued again for this thread with the same
///   facts, and stays blocked until the handler has returned, so that a core dump shows the code
///   that was hit and not us;
/// - a handler that is back is called from here. One that gives up its place for the default action
///   and returns (as Rust's own for SIGSEGV and SIGBUS, which waits for the fault to come again)
///   wants the process to die of it, so it does.
///
/// Signal-safe.
///
/// # Safety
/// - `info` and `context` are what the kernel gave the handler that calls this, for `signal`.
pub unsafe fn deliver_again(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the caller vouches for `info`.
    let code = unsafe { (*info).si_code };
    let is_fault = matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL
    ) && code > 0;
    if is_fault {
        return;
    }
    let now = disposition(signal);
    if let Some(action) = now
        && !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
    {
        // SAFETY: the kernel would call the same function with the same arguments; which of the two
        // types it has is what SA_SIGINFO says (sigaction(2)).
        unsafe {
            if action.sa_flags & libc::SA_SIGINFO != 0 {
                std::mem::transmute::<usize, Handler>(action.sa_sigaction)(signal, info, context);
            } else {
                std::mem::transmute::<usize, extern "C" fn(i32)>(action.sa_sigaction)(signal);
            }
        }
        if disposition(signal).is_none_or(|then| then.sa_sigaction != libc::SIG_DFL) {
            return;
        }
    }
    // SAFETY: plain system calls on this process and thread; the set is initialised by sigemptyset
    // before use, and `info` is valid by the caller's word.
    unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        send::again(signal, info);
    }
}

/// What happens now when `signal` comes. Signal-safe.
fn disposition(signal: i32) -> Option<libc::sigaction> {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the structure outlives the call, which fills it in when it returns 0.
    unsafe {
        (libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0)
            .then(|| now.assume_init())
    }
}

/// The facts of a signal, from the kernel's `siginfo_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalFacts {
    /// Its number.
    pub number: i32,
    /// `si_code`.
    pub code: i32,
    /// The fault address, where the CPU gave one.
    pub address: Option<u64>,
    /// Who sent it, where a process did.
    pub sender: Option<u32>,
}

/// Reads the facts of a signal.
///
/// Signal-safe.
///
/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
pub unsafe fn facts(signal: i32, info: *const libc::siginfo_t) -> SignalFacts {
    // SAFETY: the caller vouches for `info`; which union field is set follows from signal and code,
    // as sigaction(2) says.
    unsafe {
        let code = (*info).si_code;
        let sent = send::is_sent(code);
        let has_address = FAULTS.contains(&signal) && !sent && !send::is_without_address(code);
        SignalFacts {
            number: signal,
            code,
            address: has_address.then(|| (*info).si_addr() as u64),
            sender: sent.then(|| (*info).si_pid() as u32),
        }
    }
}

/// Gives the calling thread an alternate signal stack of `size` bytes, with a guard page below, if
/// it has none; the memory is never given back, since the thread may use it until it ends.
pub fn ensure_alternate_stack(size: usize) -> io::Result<()> {
    // SAFETY: the structures outlive the calls; the mapping is new, of the size given, and leaked.
    unsafe {
        let mut now = MaybeUninit::<libc::stack_t>::uninit();
        if libc::sigaltstack(std::ptr::null(), now.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        if now.assume_init_ref().ss_flags & libc::SS_DISABLE == 0 {
            return Ok(());
        }
        let memory = map_stack(size)?;
        let stack = libc::stack_t {
            ss_sp: memory.cast(),
            ss_flags: 0,
            ss_size: size,
        };
        if libc::sigaltstack(&stack, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Maps `size` bytes of touched stack with a guard page below; gives the lowest usable byte.
fn map_stack(size: usize) -> io::Result<*mut u8> {
    // SAFETY: a new private mapping, one page larger than asked for; its first page is then made
    // the guard, and the rest is written within its bounds.
    unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let all = libc::mmap(
            std::ptr::null_mut(),
            size + page,
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
        // Touched now, so that a crash for want of memory does not need a page for its report.
        for offset in (0..size).step_by(page) {
            usable.add(offset).write_volatile(0);
        }
        Ok(usable)
    }
}

/// A stack of our own, on which the crash report is written: the alternate stack that a thread
/// happens to have (8 KiB from Rust's runtime) is only used to get here.
#[derive(Debug)]
pub struct CrashStack {
    top: *mut u8,
}

// SAFETY: the memory is owned by this value alone and never unmapped; `run`'s contract lets one
// thread at a time use it.
unsafe impl Send for CrashStack {}
// SAFETY: as above.
unsafe impl Sync for CrashStack {}

impl CrashStack {
    /// Maps `size` bytes (a multiple of the page size), touched, with a guard page below.
    pub fn new(size: usize) -> io::Result<CrashStack> {
        let bottom = map_stack(size)?;
        // SAFETY: one past the end of the mapping that was just made.
        let top = unsafe { bottom.add(size) };
        Ok(CrashStack { top })
    }

    /// Runs `body(argument)` on this stack.
    ///
    /// Signal-safe, as far as `body` is.
    ///
    /// # Safety
    /// - Nobody else runs on this stack.
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

/// Sleeps for `nanoseconds`, or until a signal comes.
///
/// Signal-safe.
pub fn pause(nanoseconds: i64) {
    let time = libc::timespec {
        tv_sec: nanoseconds / 1_000_000_000,
        tv_nsec: nanoseconds % 1_000_000_000,
    };
    // SAFETY: the structure outlives the call.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

/// Sends `signal` to the calling thread, unblocked, so that it acts at once.
///
/// Signal-safe.
pub fn raise_here(signal: i32) {
    // SAFETY: plain system calls on this thread; the set is initialised before use.
    unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
    send::to_self(signal);
}
