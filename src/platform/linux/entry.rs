//! The first instructions of our handlers, of fatal signals and of captures: they take nothing of the stack that the kernel
//! has put them on where little is left of it, and go on with a stack of ours.
//!
//! A thread's alternate stack may be as small as the kernel's own frame (2 KiB, and with AMX 11 KiB, of which nothing is
//! left then). A handler that needs more faults in the guard page below it, and the kernel starts it again at the top of
//! the same stack, for ever. Here the stack pointer is compared with where the alternate stack lies before anything is
//! pushed.
//!
//! A handler's stack has two parts: our handler runs on the upper one, and the lower one is the thread's alternate stack
//! meanwhile. The previous handler is called on the stack that the kernel has chosen, with as much room as without us.
//!
//! Signal-safe, but for [`prepare`].

use std::arch::naked_asm;
use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::stop;
use super::system_call::set_default;
use crate::platform::forked::OnceFlag;
use crate::platform::signals;
use crate::platform::stacks::{self, map_stack};

/// A handler that has less left of an alternate stack goes to one of ours, bytes: the previous handler may raise a signal
/// itself, whose frame is up to 11 KiB (AT_MINSIGSTKSZ with AMX).
pub(super) const MIN_FREE: usize = 32 << 10;
/// A handler runs with so much where all of ours are in use, bytes: enough to see that it is started for ever.
const MIN_STACK: usize = 2 << 10;
/// Threads that may be in such handlers at a time, or have jumped out of one.
const STACKS: usize = 64;
/// The part that our handler runs on, in debug builds too, bytes.
const OUTER: usize = 32 << 10;
/// The part for signals that come meanwhile, bytes.
const NESTED: usize = 64 << 10;
/// Bytes of the first stack that are touched at [`prepare`]: a crash after memory ran out needs no page for it.
const TOUCHED: usize = 48 << 10;

/// A stack for handlers.
#[repr(C)]
#[derive(Debug)]
pub struct HandlerStack {
    /// Address of the alternate stack on which its user has started, which is a name of that thread; 0 while it is free,
    /// and [`UNMAPPED`] before [`prepare`].
    user: AtomicUsize,
    /// Its upper end.
    top: AtomicUsize,
}

static STACK: [HandlerStack; STACKS] = [const {
    HandlerStack {
        user: AtomicUsize::new(UNMAPPED),
        top: AtomicUsize::new(0),
    }
}; STACKS];
const UNMAPPED: usize = usize::MAX;

/// Maps the stacks, once a process. Without memory for them a handler runs where the kernel has put it.
pub fn prepare() {
    static ONCE: OnceFlag = OnceFlag::new();
    if !ONCE.is_first_call() {
        return;
    }
    #[cfg(all(feature = "thread-stacks", target_env = "gnu"))]
    super::interpose::keep();
    for (index, stack) in STACK.iter().enumerate() {
        let touched = if index == 0 { TOUCHED } else { 0 };
        let Ok(bottom) = map_stack(OUTER + NESTED, touched) else {
            return;
        };
        let top = (bottom as usize).wrapping_add(OUTER + NESTED);
        stack.top.store(top, Ordering::Release);
        stack.user.store(0, Ordering::Release);
    }
}

/// Address of the function that the kernel calls for a signal of ours.
pub fn address() -> usize {
    entry as *const () as usize
}

/// Returns true if `address` lies in a stack for handlers.
pub fn is_on_handler_stack(address: usize) -> bool {
    STACK.iter().any(|stack| {
        let below = stack.top.load(Ordering::Relaxed).wrapping_sub(address);
        (1..=OUTER + NESTED).contains(&below)
    })
}

/// The stack that the kernel has started a handler on, where it is scarce, and ours on which the handler runs.
#[derive(Debug, Clone, Copy)]
pub struct ScarceStack {
    sp: usize,
    stack: &'static HandlerStack,
}

/// The lowest number of a real-time signal, as the kernel has it.
const REAL_TIME: i32 = 32;

/// Has a signal handled by its handler, once there is room.
unsafe extern "C-unwind" fn dispatch(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    sp: usize,
    stack: Option<&'static HandlerStack>,
) {
    let scarce = stack.map(|stack| ScarceStack { sp, stack });
    if let Some(scarce) = scarce
        && sp.wrapping_add(CONTEXT) == context as usize
    {
        scarce.free_left();
    }
    // SAFETY: the kernel gave the arguments for this signal; without SA_SIGINFO it may give no facts.
    unsafe {
        if signal >= REAL_TIME || signal == libc::SIGPROF {
            return stop::handle_capture(signal, info, context);
        }
        let is_refusal = signal == libc::SIGSEGV
            && !signals::lacks_siginfo(signal)
            && super::is_without_address((*info).si_code)
            && stop::refuse_request();
        if !is_refusal {
            signals::dispatch(signal, info, context, scarce);
        }
    }
}

/// Gives a fatal signal its default action, and drops any other one: there is no stack for its handler.
extern "C-unwind" fn give_up(signal: i32) {
    if signal < REAL_TIME && signal != libc::SIGPROF {
        set_default(signal);
    }
}

impl ScarceStack {
    /// Frees the other stacks of this alternate stack, whose top the kernel has started the handler at: their users have jumped
    /// out of their handlers.
    fn free_left(self) {
        let user = self.stack.user.load(Ordering::Relaxed);
        for other in &STACK {
            if !std::ptr::eq(other, self.stack) && other.user.load(Ordering::Relaxed) == user {
                other.user.store(0, Ordering::Release);
            }
        }
    }

    /// The stack pointer with which the handler was started.
    pub fn sp(self) -> usize {
        self.sp
    }

    /// Has signals of the calling thread come on a stack of ours from now on. The kernel puts the thread's own back where
    /// the handler returns; a thread whose previous handler jumps out keeps ours.
    pub fn leave_to_signals(self) {
        let top = self.stack.top.load(Ordering::Relaxed);
        stacks::use_for_signals(top.wrapping_sub(OUTER + NESTED) as *mut u8, NESTED);
    }

    /// Calls a handler on the stack that the kernel has chosen.
    ///
    /// # Safety
    /// - The kernel would call the same function with the same arguments.
    pub unsafe fn call(
        self,
        handler: usize,
        signal: i32,
        info: *mut libc::siginfo_t,
        context: *mut c_void,
    ) {
        // SAFETY: the caller vouches for the handler. What lies below `sp` is free, since our own frames lie elsewhere.
        unsafe { call_on(self.sp, handler, signal, info, context) };
    }
}

/// Calls `handler` with its three arguments on another stack, whose pointer is `sp`. An exception passes through.
#[unsafe(naked)]
unsafe extern "C-unwind" fn call_on(
    sp: usize,
    handler: usize,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        // The call puts its return address on it: it is aligned as the kernel has left it.
        "lea rsp, [rdi - 8]",
        "mov rax, rsi",
        "mov edi, edx",
        "mov rsi, rcx",
        "mov rdx, r8",
        "call rax",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "mov sp, x0",
        "mov x9, x1",
        "mov w0, w2",
        "mov x1, x3",
        "mov x2, x4",
        "blr x9",
        "mov sp, x29",
        ".cfi_def_cfa_register sp",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_endproc",
    );
}

/// The kernel's frame ends so many bytes above the stack pointer with which it calls a handler, where the context begins:
/// by that a handler knows that no other one has called it.
///
/// Source: `struct rt_sigframe` in arch/x86/include/asm/sigframe.h and arch/arm64/kernel/signal.c.
const CONTEXT: usize = if cfg!(target_arch = "x86_64") { 8 } else { 128 };
const ALTERNATE: usize = offset_of!(libc::ucontext_t, uc_stack) + offset_of!(libc::stack_t, ss_sp);
/// The size is 0 if there is no alternate stack.
const SIZE: usize = offset_of!(libc::ucontext_t, uc_stack) + offset_of!(libc::stack_t, ss_size);

/// The function that the kernel calls for each signal of ours. Calls [`dispatch`] on a free stack, with the stack pointer that it
/// was started with and the stack; or where it was started, with zeroes. Calls [`give_up`] if that stack is scarce and no other one
/// is free.
#[unsafe(naked)]
extern "C-unwind" fn entry(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        ".cfi_startproc",
        "test rdx, rdx",
        "jz 9f",
        // Bytes left of the alternate stack; a great number elsewhere.
        "mov r8, [rdx + {alternate}]",
        "mov r10, rsp",
        "sub r10, r8",
        "cmp r10, [rdx + {size}]",
        "jae 9f",
        "cmp r10, {scarce}",
        "jae 9f",
        "mov r9, [rip + {stacks}@GOTPCREL]",
        "mov ecx, {count}",
        "3:",
        "xor eax, eax",
        "lock cmpxchg [r9], r8",
        "je 5f",
        "add r9, {stride}",
        "dec ecx",
        "jnz 3b",
        "cmp r10, {least}",
        "jae 9f",
        "jmp {give_up}",
        "5:",
        "mov rax, [r9 + {top}]",
        "sub rax, 32",
        "mov [rax], rbp",
        "mov [rax + 8], rsp",
        "mov [rax + 16], r9",
        "mov rbp, rax",
        "mov rsp, rax",
        // CFA: *(rbp + 8) + 8; rbp: at rbp.
        ".cfi_remember_state",
        ".cfi_escape 0x0f, 5, 0x76, 8, 0x06, 0x23, 8",
        ".cfi_escape 0x10, 6, 2, 0x76, 0",
        "mov rcx, [rbp + 8]",
        "mov r8, r9",
        "call {dispatch}",
        "mov r9, [rbp + 16]",
        "mov rsp, [rbp + 8]",
        "mov rbp, [rbp]",
        ".cfi_restore_state",
        "mov qword ptr [r9], 0",
        "ret",
        "9:",
        "xor ecx, ecx",
        "xor r8d, r8d",
        "jmp {dispatch}",
        ".cfi_endproc",
        dispatch = sym dispatch,
        give_up = sym give_up,
        stacks = sym STACK,
        alternate = const ALTERNATE,
        size = const SIZE,
        scarce = const MIN_FREE,
        least = const MIN_STACK,
        count = const STACKS,
        stride = const size_of::<HandlerStack>(),
        top = const offset_of!(HandlerStack, top),
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        ".cfi_startproc",
        "cbz x2, 9f",
        // Bytes left of the alternate stack; a great number elsewhere.
        "ldr x10, [x2, #{alternate}]",
        "mov x9, sp",
        "sub x9, x9, x10",
        "ldr x11, [x2, #{size}]",
        "cmp x9, x11",
        "b.hs 9f",
        "mov w11, #{scarce}",
        "cmp x9, x11",
        "b.hs 9f",
        "adrp x12, :got:{stacks}",
        "ldr x12, [x12, :got_lo12:{stacks}]",
        "mov w13, #{count}",
        "3:",
        "ldaxr x14, [x12]",
        "cbnz x14, 4f",
        "stlxr w15, x10, [x12]",
        "cbnz w15, 3b",
        "b 5f",
        "4:",
        "clrex",
        "add x12, x12, #{stride}",
        "subs w13, w13, #1",
        "b.ne 3b",
        "mov w11, #{least}",
        "cmp x9, x11",
        "b.hs 9f",
        "b {give_up}",
        "5:",
        "ldr x14, [x12, #{top}]",
        "sub x14, x14, #32",
        "mov x15, sp",
        "stp x29, x30, [x14]",
        "stp x15, x12, [x14, #16]",
        "mov x29, x14",
        "mov sp, x14",
        // CFA: *(x29 + 16); x29: at x29; x30: at x29 + 8.
        ".cfi_remember_state",
        ".cfi_escape 0x0f, 3, 0x8d, 16, 0x06",
        ".cfi_escape 0x10, 29, 2, 0x8d, 0",
        ".cfi_escape 0x10, 30, 2, 0x8d, 8",
        "mov x3, x15",
        "mov x4, x12",
        "bl {dispatch}",
        "ldp x15, x12, [x29, #16]",
        "ldp x29, x30, [x29]",
        "mov sp, x15",
        ".cfi_restore_state",
        "stlr xzr, [x12]",
        "ret",
        "9:",
        "mov x3, xzr",
        "mov x4, xzr",
        "b {dispatch}",
        ".cfi_endproc",
        dispatch = sym dispatch,
        give_up = sym give_up,
        stacks = sym STACK,
        alternate = const ALTERNATE,
        size = const SIZE,
        scarce = const MIN_FREE,
        least = const MIN_STACK,
        count = const STACKS,
        stride = const size_of::<HandlerStack>(),
        top = const offset_of!(HandlerStack, top),
    );
}
