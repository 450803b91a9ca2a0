//! Fatal signals: install, read what arrived, put back the previous handler, and die as the process would have.
//!
//! Signal-safe, but for `install`.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};

#[cfg(target_os = "linux")]
pub use super::os::send_to as send;
use super::os::{entry, is_sent, is_without_address, kernel_action, send_again};
pub use super::os::{send_to_self, set_kernel_default};
use super::{ScarceStack, errno, process_id, set_errno};

/// The highest signal number that a handler can be kept for.
const MAX_SIGNAL: usize = 64;

/// The handler of each signal before us; null where none was kept. What is stored here is never freed nor changed: a
/// handler may look at it while another install stores the next one.
static PREVIOUS: [AtomicPtr<libc::sigaction>; MAX_SIGNAL + 1] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_SIGNAL + 1];

/// The type of a signal handler. A runtime's may raise an exception, which goes through ours.
type PlainHandler = extern "C-unwind" fn(i32, *mut libc::siginfo_t, *mut c_void);

/// Our handler: it gets what the kernel gave, and the stack that it was started on where that is scarce.
pub type Handler = fn(i32, *mut libc::siginfo_t, *mut c_void, Option<ScarceStack>);

/// Our handler, from the first [`install`] on.
static HANDLER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Calls our handler.
pub(super) fn dispatch(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    scarce: Option<ScarceStack>,
) {
    let handler = HANDLER.load(Ordering::Acquire);
    // SAFETY: `install` has stored it before the first signal came.
    let handler = unsafe { std::mem::transmute::<*mut (), Handler>(handler) };
    handler(signal, info, context, scarce);
}

/// Installs `handler` for each of `signals`, on the alternate stack, and keeps the previous handlers.
///
/// Where one fails, those before it are put back and the error names the signal.
pub fn install(signals: &[i32], handler: Handler) -> Result<(), (i32, io::Error)> {
    HANDLER.store(handler as *mut (), Ordering::Release);
    entry::prepare();
    for (index, &signal) in signals.iter().enumerate() {
        if let Err(error) = install_one(signal) {
            for &done in signals.iter().take(index) {
                restore(done);
            }
            return Err((signal, io::Error::from_raw_os_error(error)));
        }
    }
    Ok(())
}

fn install_one(signal: i32) -> Result<(), i32> {
    let place = slot(signal).ok_or(libc::EINVAL)?;
    let before = exchange(signal, None)?;
    // Our handler may be there already, because another one has put it back. The action that we kept earlier then stays.
    let is_kept = before.sa_sigaction == entry::address()
        || previous_action(signal).is_some_and(|kept| is_same(kept, &before));
    if !is_kept {
        place.store(Box::into_raw(Box::new(before)), Ordering::Release);
    }
    reinstall(signal)
}

fn is_same(one: &libc::sigaction, other: &libc::sigaction) -> bool {
    if !is_handler(one) {
        // glibc gives it a flag once it has been put back.
        return one.sa_sigaction == other.sa_sigaction;
    }
    // The kernel fills in the signals that there are, and libc leaves what it finds in the rest of the set.
    let is_member = |action: &libc::sigaction, signal| {
        // SAFETY: the set is a whole one.
        unsafe { libc::sigismember(&action.sa_mask, signal) }
    };
    one.sa_sigaction == other.sa_sigaction
        && one.sa_flags == other.sa_flags
        && (1..=MAX_SIGNAL as i32).all(|signal| is_member(one, signal) == is_member(other, signal))
}

/// Puts our handler in place, whatever is there. The error is an `errno`.
pub fn reinstall(signal: i32) -> Result<(), i32> {
    let before = previous_action(signal).filter(|before| is_handler(before));
    // A call that the signal interrupts is made again, or fails, as without us.
    let restart = before.map_or(0, |before| before.sa_flags & libc::SA_RESTART);
    // NODEFER: a crash inside our own handler must come to us, not end the process unseen.
    let flags = libc::SA_ONSTACK | libc::SA_NODEFER | restart;
    // Everything that is not a fault waits until the report is written.
    let mut action = action(entry::address(), flags, &FAULTS);
    // The previous SIGSYS handler runs before we make any system call. So the kernel must set that handler's mask for us.
    if let Some(before) = before.filter(|_| signal == libc::SIGSYS) {
        action.sa_mask = without(before.sa_mask, &FAULTS);
    }
    exchange(signal, Some(&action)).map(drop)
}

/// Returns true if the action calls a function.
pub fn is_handler(action: &libc::sigaction) -> bool {
    !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
}

/// An action by a function that takes three arguments: it masks all signals but `unblocked`.
pub fn action(handler: usize, flags: i32, unblocked: &[i32]) -> libc::sigaction {
    // SAFETY: the structure is zeroed, which is valid for it, and outlives the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | flags;
        libc::sigfillset(&mut action.sa_mask);
        action.sa_mask = without(action.sa_mask, unblocked);
        action
    }
}

fn without(mut set: libc::sigset_t, signals: &[i32]) -> libc::sigset_t {
    for &signal in signals {
        // SAFETY: the set is a whole one.
        unsafe { libc::sigdelset(&mut set, signal) };
    }
    set
}

/// Gives `signal` this action, where there is one, and returns the one before. The error is an `errno`;
/// the thread's stays.
#[inline(never)]
pub fn exchange(signal: i32, action: Option<&libc::sigaction>) -> Result<libc::sigaction, i32> {
    let saved_errno = errno();
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    let action = action.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the structures outlive the call, which fills in the one before when it returns 0. What handler is put in
    // place is up to those who call this: ours keep to the rules of handlers.
    let result = unsafe {
        match libc::sigaction(signal, action, before.as_mut_ptr()) {
            0 => Ok(before.assume_init()),
            _ => Err(errno()),
        }
    };
    set_errno(saved_errno);
    result
}

/// The signals that a fault or an abort raises: these are never masked by us.
pub const FAULTS: [i32; 7] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Faults whose instruction runs again when the handler returns, and raises them again.
pub const REFAULTING: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Puts back the handler of `signal` before [`install`], or the default action if none was kept.
/// Calling it again does the same again: several threads may be dying at once, and a child of
/// `vfork` shares this memory.
pub fn restore(signal: i32) {
    let kept = previous_action(signal).map(|action| exchange(signal, Some(action)));
    kept.map_or_else(|| set_default(signal), drop);
}

/// Gives `signal` its default action, through libc. On Linux [`set_kernel_default`] does without libc.
pub fn set_default(signal: i32) {
    // SAFETY: an all-zero action is SIG_DFL without flags.
    let default = unsafe { std::mem::zeroed() };
    let _ = exchange(signal, Some(&default));
}

/// Address of the handler of `signal` as it is now, and its flags; `None` where a sandbox denies the look. As libc has it:
/// ThreadSanitizer keeps the app's handlers from the kernel.
#[inline(never)]
pub fn action_now(signal: i32) -> Option<(usize, i32)> {
    let now = exchange(signal, None).ok()?;
    Some((now.sa_sigaction, now.sa_flags))
}

/// Restores the previous handler of each signal whose handler is still ours. A handler installed over ours stays. It may
/// still call ours, so the previous action stays kept.
pub fn restore_if_ours(signals: &[i32]) {
    for &signal in signals.iter().filter(|&&signal| is_in_place(signal)) {
        restore(signal);
    }
}

/// Returns the signals whose action is no longer our handler with the flags that it needs.
pub fn replaced(signals: &[i32]) -> Vec<i32> {
    let is_ours = |(now, flags)| now == entry::address() && flags & NEEDED == NEEDED;
    let is_replaced = |signal: &i32| !action_now(*signal).is_some_and(is_ours);
    signals.iter().copied().filter(is_replaced).collect()
}

/// Flags without which a handler gets no `siginfo_t`, or no alternate stack.
pub const NEEDED: i32 = libc::SA_SIGINFO | libc::SA_ONSTACK;

/// Returns true if our handler is in place without SA_SIGINFO: signal(2) has put back its address alone.
pub fn lacks_siginfo(signal: i32) -> bool {
    kernel_action(signal)
        .is_some_and(|(now, flags)| now == entry::address() && flags & libc::SA_SIGINFO == 0)
}

/// Returns true if our handler is in place.
pub fn is_in_place(signal: i32) -> bool {
    disposition(signal) == Some(entry::address())
}

/// Returns true if another handler than ours, of the app's own, is in place.
#[cfg(target_vendor = "apple")]
pub fn is_replaced(signal: i32) -> bool {
    disposition(signal)
        .is_some_and(|now| ![libc::SIG_DFL, libc::SIG_IGN, entry::address()].contains(&now))
}

/// Returns true if `signal` has the default action.
pub fn is_default(signal: i32) -> bool {
    disposition(signal).is_none_or(|now| now == libc::SIG_DFL)
}

/// Returns true if a filter of seccomp(2) has trapped a system call.
///
/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
pub unsafe fn is_trapped_call(signal: i32, info: *const libc::siginfo_t) -> bool {
    const SYS_SECCOMP: i32 = 1;
    // SAFETY: the caller vouches for `info`.
    cfg!(target_os = "linux") && signal == libc::SIGSYS && unsafe { (*info).si_code } == SYS_SECCOMP
}

fn slot(signal: i32) -> Option<&'static AtomicPtr<libc::sigaction>> {
    PREVIOUS.get(usize::try_from(signal).ok()?)
}

/// The disposition of a signal before [`install`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Previous {
    /// By none: the process dies of it.
    Default,
    /// By none: it is ignored, unless it is a fault.
    Ignored,
    /// A handler.
    Handler,
}

/// The disposition of `signal` before [`install`].
pub fn previous(signal: i32) -> Previous {
    match previous_action(signal).map(|action| action.sa_sigaction) {
        None | Some(libc::SIG_DFL) => Previous::Default,
        Some(libc::SIG_IGN) => Previous::Ignored,
        Some(_) => Previous::Handler,
    }
}

fn previous_action(signal: i32) -> Option<&'static libc::sigaction> {
    // SAFETY: null, or what `install` has stored, which is never freed.
    unsafe { slot(signal)?.load(Ordering::Acquire).as_ref() }
}

/// Returns true if the kernel would block `signal` while it runs the previous handler of `first`. A blocked fault ends the
/// process.
pub fn is_masked_by_previous(first: i32, signal: i32) -> bool {
    previous_action(first).is_some_and(|before| {
        // SAFETY: the set is a whole one.
        let is_member = unsafe { libc::sigismember(&before.sa_mask, signal) } == 1;
        is_member || first == signal && before.sa_flags & libc::SA_NODEFER == 0
    })
}

/// Calls the previous handler as the kernel would have, but with faults unblocked. It may jump out: it has the mask that
/// it expects. A handler for one time (`SA_RESETHAND`) is first replaced by the default action.
///
/// Returns true if the previous handler returned and did not change the action of `signal`: the process goes on. Returns
/// false if it changed the action (mostly to the default), if it was for one time and the fault comes again, or if there
/// was no handler: the process dies of the signal.
///
/// If our handler was started on a scarce stack, the previous handler is called on that stack. It has as much room as
/// without us.
///
/// Signal-safe, as far as that handler is.
///
/// # Safety
/// - `info` and `context` are what the kernel gave the handler that calls this, for `signal`.
pub unsafe fn call_previous(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    scarce: Option<ScarceStack>,
) -> bool {
    let Some(action) = previous_action(signal).filter(|action| is_handler(action)) else {
        return false;
    };
    // One that returns from a fault finds the default action when that comes again.
    let is_last = action.sa_flags & libc::SA_RESETHAND != 0;
    if is_last {
        set_default(signal);
    }
    let now = disposition(signal);
    // SAFETY: the kernel would call the same function with the same arguments; which of the two types it has depends on
    // SA_SIGINFO (sigaction(2)).
    unsafe {
        let mask = exchange_mask(libc::SIG_SETMASK, &mask_of(signal, action, context));
        call(action, signal, info, context, scarce);
        exchange_mask(libc::SIG_SETMASK, &mask);
    }
    // SAFETY: the caller vouches for `info`.
    let dies = is_last && unsafe { refaults_on_return(signal, info) };
    !dies && disposition(signal) == now
}

/// Calls the previous handler of a system call that was trapped, as the kernel would have. Makes no system call. Returns
/// false without such a handler.
///
/// # Safety
/// - As for [`call_previous`].
pub unsafe fn call_previous_sigsys(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    scarce: Option<ScarceStack>,
) -> bool {
    let before = previous_action(signal).filter(|before| is_handler(before));
    // SAFETY: the caller vouches for what arrived.
    before.inspect(|before| unsafe { call(before, signal, info, context, scarce) });
    before.is_some()
}

/// # Safety
/// - The kernel would call the handler of `action` with these arguments.
unsafe fn call(
    action: &libc::sigaction,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    scarce: Option<ScarceStack>,
) {
    let handler = action.sa_sigaction;
    // SAFETY: the caller vouches for the function. One without SA_SIGINFO takes the first argument alone, as a C function
    // that is given more does (sigaction(2)).
    unsafe {
        match scarce {
            Some(scarce) => scarce.call(handler, signal, info, context),
            None => std::mem::transmute::<usize, PlainHandler>(handler)(signal, info, context),
        }
    }
}

/// The mask with which the kernel calls the handler of `action`, but with faults unblocked.
///
/// # Safety
/// - `context` is what the kernel gave a handler for `signal`.
unsafe fn mask_of(signal: i32, action: &libc::sigaction, context: *const c_void) -> libc::sigset_t {
    let mut mask = action.sa_mask;
    let is_deferred = action.sa_flags & libc::SA_NODEFER == 0;
    // SAFETY: the caller vouches for the context, whose set has all of the kernel's signals and may have no more memory.
    unsafe {
        let before = &raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        for number in 1..=MAX_SIGNAL as i32 {
            if is_deferred && number == signal || libc::sigismember(before, number) == 1 {
                libc::sigaddset(&mut mask, number);
            }
        }
    }
    without(mask, &FAULTS)
}

/// Returns true if a signal is a fault that its instruction raises again when the handler returns. These do not come
/// again: a signal sent by `kill`, `raise` or `abort`; SIGTRAP and SIGSYS, whose pc is past the instruction; and a fault
/// that Linux reports late.
///
/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
pub unsafe fn refaults_on_return(signal: i32, info: *const libc::siginfo_t) -> bool {
    // SAFETY: the caller vouches for `info`.
    REFAULTING.contains(&signal) && !unsafe { is_sent_or_late(signal, info) }
}

/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
unsafe fn is_sent_or_late(signal: i32, info: *const libc::siginfo_t) -> bool {
    // SAFETY: the caller vouches for `info`.
    let code = unsafe { (*info).si_code };
    // BUS_MCEERR_AO, memory that failed and that no instruction used; SEGV_MTEAERR (sigaction(2)).
    let is_late = cfg!(target_os = "linux")
        && matches!((signal, code), (libc::SIGBUS, 5) | (libc::SIGSEGV, 8));
    is_sent(code) || is_late
}

/// Returns true if this process is the first one of its namespace (pid_namespaces(7)). The kernel drops a signal to this
/// process if its action is the default one. A signal raised by an instruction is not dropped.
pub fn is_first_process() -> bool {
    cfg!(target_os = "linux") && process_id() == 1
}

/// Returns true if a signal with this `siginfo_t` is dropped if its action is the default one.
///
/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
pub unsafe fn is_dropped(signal: i32, info: *const libc::siginfo_t) -> bool {
    // SAFETY: the caller vouches for `info`.
    is_first_process() && unsafe { is_sent_or_late(signal, info) }
}

/// Makes the process die of `signal`, whose default action is in place, as if we had never been
/// in the way: call it last in a handler, and then return.
///
/// A fault comes again by itself. Anything else is queued again for this thread with the same
/// `siginfo_t`, and stays blocked until the handler has returned, so that a core dump shows the code that
/// was hit and not us. In the first process of a namespace, where that would be dropped, the instruction is run again.
///
/// # Safety
/// - `info` and `context` are what the kernel gave the handler that calls this, for `signal`.
pub unsafe fn deliver_again(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the caller vouches for both. The rest are plain system calls on this process and thread.
    unsafe {
        if refaults_on_return(signal, info) {
            return;
        }
        #[cfg(target_os = "linux")]
        if is_first_process() {
            if !super::context::step_back(signal, context.cast()) {
                // As a shell has it that saw a process die of the signal.
                libc::_exit(signal.saturating_add(128));
            }
            return;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = context;
        change_mask(libc::SIG_BLOCK, [signal]);
        send_again(signal, info);
    }
}

/// Blocks or unblocks signals (`how`, pthread_sigmask(3)) for the calling thread. Signal-safe.
pub fn change_mask(how: i32, signals: impl IntoIterator<Item = i32>) {
    exchange_mask(how, &set_of(signals));
}

pub(super) fn set_of(signals: impl IntoIterator<Item = i32>) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by sigemptyset before use.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Changes the calling thread's mask by a set (`how`, pthread_sigmask(3)), and returns the mask before. Signal-safe.
pub(super) fn exchange_mask(how: i32, set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the call cannot fail with a valid `how`, and fills in `before`.
    unsafe {
        libc::pthread_sigmask(how, set, before.as_mut_ptr());
        before.assume_init()
    }
}

/// The handler of `signal` as it is now; `None` where a sandbox denies the look.
pub fn disposition(signal: i32) -> Option<usize> {
    action_now(signal).map(|(now, _)| now)
}

/// A signal, as in the kernel's `siginfo_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalInfo {
    /// Its number.
    pub number: i32,
    /// `si_code`.
    pub code: i32,
    /// The fault address, where the CPU gave one.
    pub address: Option<u64>,
    /// The process that sent it, where one did.
    pub sender: Option<u32>,
}

/// Reads a signal's `siginfo_t`.
///
/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
pub unsafe fn read_siginfo(signal: i32, info: *const libc::siginfo_t) -> SignalInfo {
    // SAFETY: the caller vouches for `info`; which union field is set follows from signal and code,
    // see sigaction(2).
    unsafe {
        let code = (*info).si_code;
        let sent = is_sent(code);
        let has_address = FAULTS.contains(&signal) && !sent && !is_without_address(code);
        SignalInfo {
            number: signal,
            code,
            address: has_address.then(|| (*info).si_addr() as u64),
            sender: sent.then(|| (*info).si_pid() as u32),
        }
    }
}

/// Blocks all signals but faults, whatever the thread had blocked: the mask with which our handler writes a report. The
/// kernel restores the thread's own mask when the handler returns.
pub fn block_all_but_faults() {
    super::os::set_mask(&action(0, 0, &FAULTS).sa_mask);
}

/// Sets the mask of the code that a signal has interrupted.
///
/// # Safety
/// - `context` is what the kernel gave the handler that calls this.
#[cfg(target_os = "linux")]
pub unsafe fn set_interrupted_mask(context: *const c_void) {
    let mut mask = action(0, 0, &[]).sa_mask;
    // SAFETY: the caller vouches for the context, whose set has all of the kernel's signals and may have no more memory.
    unsafe {
        let before = &raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        (&raw mut mask)
            .cast::<u64>()
            .write(before.cast::<u64>().read());
    }
    super::os::set_mask(&mask);
}

/// Sleeps for `nanoseconds`, or until a signal comes. errno stays.
pub fn pause(nanoseconds: i64) {
    let time = libc::timespec {
        tv_sec: nanoseconds / 1_000_000_000,
        tv_nsec: nanoseconds % 1_000_000_000,
    };
    super::os::sleep(&time);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What a handler looks at stays as it is while a second install keeps another one.
    #[test]
    fn a_kept_action_outlives_the_next_install() {
        fn ours(_: i32, _: *mut libc::siginfo_t, _: *mut c_void, _: Option<ScarceStack>) {}
        let before = |action| {
            // SAFETY: ignored or default, of a signal that nothing here sends.
            unsafe { libc::signal(libc::SIGURG, action) };
            install(&[libc::SIGURG], ours).unwrap();
            previous_action(libc::SIGURG).unwrap()
        };
        let first = before(libc::SIG_IGN);
        let second = before(libc::SIG_DFL);
        assert_eq!(first.sa_sigaction, libc::SIG_IGN);
        assert_eq!(second.sa_sigaction, libc::SIG_DFL);
        restore(libc::SIGURG);
    }
}
