//! Frames of async functions, as Swift has them: bit 60 in the saved frame pointer, the async context in the word below.

use std::ffi::c_void;

/// Async functions on a stack, one below the other, and the callers that await each.
pub struct Marked {
    frames: usize,
    /// From a caller to the one that awaits it: its parent, and the address at which it resumes.
    contexts: Vec<[usize; 2]>,
}

impl Marked {
    pub fn new(frames: usize, callers: usize) -> Marked {
        let mut contexts = vec![[0; 2]; callers];
        let base = contexts.as_ptr() as usize;
        for (index, context) in contexts.iter_mut().enumerate() {
            let is_last = index + 1 == callers;
            let parent = base + (index + 1) * size_of::<[usize; 2]>();
            *context = [if is_last { 0 } else { parent }, step as *const () as usize];
        }
        Marked { frames, contexts }
    }

    /// Callers of all frames.
    pub fn callers(&self) -> usize {
        self.frames * self.contexts.len()
    }

    /// Calls `then` below its frames. One more lies above them: the frame pointer that it saves may be any number, as its
    /// caller has none.
    pub fn below(&self, then: &mut dyn FnMut()) {
        nested(&mut Level {
            left: self.frames + usize::from(self.frames > 0),
            context: self.contexts.as_ptr().cast(),
            then,
        });
    }
}

struct Level<'t> {
    left: usize,
    context: *const c_void,
    then: &'t mut dyn FnMut(),
}

fn nested(level: &mut Level<'_>) {
    if level.left == 0 {
        return (level.then)();
    }
    level.left -= 1;
    let argument = std::ptr::from_mut(level).cast();
    // SAFETY: `step` is called with the pointer that is passed here, to a value that outlives the call.
    unsafe { wedjat_bench_async(level.context, step, argument) };
}

extern "C" fn step(level: *mut c_void) {
    // SAFETY: the pointer that `nested` has passed; nobody else uses the value during the call.
    nested(unsafe { &mut *level.cast() });
}

unsafe extern "C" {
    /// Calls a function from a frame that is marked, with this context.
    fn wedjat_bench_async(
        context: *const c_void,
        callee: extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".text",
    ".globl wedjat_bench_async",
    "wedjat_bench_async:",
    ".cfi_startproc",
    "bts rbp, 60",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "push rdi",
    "lea rbp, [rsp + 8]",
    ".cfi_def_cfa rbp, 16",
    "sub rsp, 8",
    "mov rdi, rdx",
    "call rsi",
    "add rsp, 16",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "btr rbp, 60",
    "ret",
    ".cfi_endproc",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".text",
    ".globl wedjat_bench_async",
    "wedjat_bench_async:",
    ".cfi_startproc",
    "orr x29, x29, #0x1000000000000000",
    "sub sp, sp, #32",
    ".cfi_def_cfa_offset 32",
    "stp x29, x30, [sp, #16]",
    "str x0, [sp, #8]",
    "add x29, sp, #16",
    ".cfi_def_cfa x29, 16",
    ".cfi_offset x30, -8",
    ".cfi_offset x29, -16",
    "mov x0, x2",
    "blr x1",
    ".cfi_def_cfa sp, 32",
    "ldp x29, x30, [sp, #16]",
    "and x29, x29, #0xefffffffffffffff",
    "add sp, sp, #32",
    ".cfi_def_cfa_offset 0",
    "ret",
    ".cfi_endproc",
);
