//! A handler of SIGBUS as a runtime sets it after the monitor: it gives access to a page of its own, and leaves
//! any other fault to the handler before.
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static PAGE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static BEFORE: AtomicUsize = AtomicUsize::new(0);
const SIZE: usize = 0x4000;

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let page = PAGE.load(Ordering::SeqCst);
    // SAFETY: what the kernel gave; the handler before takes the same.
    unsafe {
        if ((*info).si_addr() as usize).wrapping_sub(page as usize) < SIZE {
            libc::mprotect(page, SIZE, libc::PROT_READ | libc::PROT_WRITE);
        } else {
            let before = BEFORE.load(Ordering::SeqCst);
            std::mem::transmute::<usize, Handler>(before)(signal, info, context);
        }
    }
}

/// Sets it.
pub fn begin() {
    // SAFETY: a new mapping that stays, and a handler of the type that SA_SIGINFO says.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        let page = libc::mmap(std::ptr::null_mut(), SIZE, libc::PROT_NONE, flags, -1, 0);
        PAGE.store(page, Ordering::SeqCst);
        let [mut action, mut before]: [libc::sigaction; 2] = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGBUS, &action, &mut before), 0);
        BEFORE.store(before.sa_sigaction, Ordering::SeqCst);
    }
}

/// Writes to the page, which faults the first time.
pub fn write() {
    // SAFETY: a mapping of ours, which the handler makes writable.
    unsafe { PAGE.load(Ordering::SeqCst).cast::<u64>().write_volatile(1) };
}
