//! Runs work that may fault, or that pthread_cancel(3) must not end. The handler of a fault skips the rest of the work, and the
//! thread goes on after it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::context;

/// Place after the innermost work that runs now.
#[derive(Debug)]
pub struct ResumePoint {
    /// pc and sp there; zeros where there is no such work.
    resume_pc_sp: [AtomicUsize; 2],
}

impl ResumePoint {
    pub const fn new() -> ResumePoint {
        ResumePoint {
            resume_pc_sp: [const { AtomicUsize::new(0) }; 2],
        }
    }

    /// Runs `work`, on one thread at a time; within it, perhaps again. `false` where [`ResumePoint::resume_after_work`]
    /// has cut it off: what it holds is not dropped then.
    ///
    /// Signal-safe, as far as `work` is.
    pub fn run(&self, mut work: &mut dyn FnMut()) -> bool {
        let words = self.resume_pc_sp.each_ref();
        let before = words.map(|word| word.load(Ordering::Relaxed));
        let argument = (&raw mut work).cast::<c_void>();
        let resume_pc_sp = self.resume_pc_sp.as_ptr();
        let is_whole: usize;
        // SAFETY: `body` gets what it takes, and cannot unwind. Where it does not return, the handler's context goes on
        // at 2 with the stack pointer that is stored here, in a frame that is still there: the registers that calls
        // preserve are on the stack, or declared as written.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            std::arch::asm!(
                "push rbx",
                "push rbp",
                "lea rax, [rip + 2f]",
                "mov [rdx], rax",
                "mov [rdx + 8], rsp",
                "call {body}",
                "mov eax, 1",
                "jmp 3f",
                "2:",
                "cld",
                "xor eax, eax",
                "3:",
                "pop rbp",
                "pop rbx",
                body = sym body,
                in("rdi") argument,
                in("rdx") resume_pc_sp,
                lateout("rax") is_whole,
                out("r12") _, out("r13") _, out("r14") _, out("r15") _,
                clobber_abi("C"),
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::asm!(
                "stp x19, x29, [sp, #-16]!",
                "adr x9, 2f",
                "mov x10, sp",
                "stp x9, x10, [x1]",
                "bl {body}",
                "mov x0, #1",
                "b 3f",
                "2:",
                "mov x0, #0",
                "3:",
                "ldp x19, x29, [sp], #16",
                body = sym body,
                inlateout("x0") argument => is_whole,
                in("x1") resume_pc_sp,
                out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
                out("x25") _, out("x26") _, out("x27") _, out("x28") _,
                out("v8") _, out("v9") _, out("v10") _, out("v11") _,
                out("v12") _, out("v13") _, out("v14") _, out("v15") _,
                clobber_abi("C"),
            );
        }
        for (word, before) in self.resume_pc_sp.iter().zip(before) {
            word.store(before, Ordering::Relaxed);
        }
        is_whole == 1
    }

    /// Has the handler return to after the work that runs; `false` where there is none. Signal-safe.
    ///
    /// # Safety
    /// - `context` is what the kernel gave the handler that calls this, on the thread that is in [`ResumePoint::run`].
    pub unsafe fn resume_after_work(&self, context: *mut c_void) -> bool {
        let [pc, sp] = self
            .resume_pc_sp
            .each_ref()
            .map(|word| word.load(Ordering::Relaxed));
        if pc != 0 {
            // SAFETY: the caller vouches for the context; the frame of `run` lies above `sp`.
            unsafe { context::resume_at(context.cast(), pc, sp) };
        }
        pc != 0
    }
}

/// While it lives, pthread_cancel(3) does not end the calling thread: at the next call that waits, that would unwind frames which
/// may not be unwound, a signal handler's among them.
#[derive(Debug)]
pub struct Uncancelled(c_int);

impl Uncancelled {
    /// Signal-safe: it changes a word of the thread's (glibc: nptl/pthread_setcancelstate.c; Apple: src/pthread_cancelable.c of
    /// libpthread).
    pub fn begin() -> Uncancelled {
        let mut before = 0;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, Some(&mut before));
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        pthread_setcancelstate(self.0, None);
    }
}

/// Source: <pthread.h> of glibc, musl and Apple.
const PTHREAD_CANCEL_DISABLE: c_int = cfg!(target_os = "linux") as c_int;

unsafe extern "C" {
    safe fn pthread_setcancelstate(state: c_int, before: Option<&mut c_int>) -> c_int;
}

extern "C" fn body(argument: *mut c_void) {
    // SAFETY: `ResumePoint::run` passes a pointer to such a reference that outlives this run.
    let work = unsafe { &mut *argument.cast::<&mut dyn FnMut()>() };
    work();
}
