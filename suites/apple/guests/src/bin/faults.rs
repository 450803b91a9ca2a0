//! Faults of each kind, each met by a handler on the alternate stack that goes on behind the
//! faulting instruction: handlers that return, protections, masks.
use std::sync::atomic::{AtomicU64, Ordering};

static SEEN: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
static ADDRESS: AtomicU64 = AtomicU64::new(0);
static ON_STACK: AtomicU64 = AtomicU64::new(0);

#[repr(C)]
struct Action {
    handler: usize,
    mask: u32,
    flags: i32,
}
#[repr(C)]
struct Stack {
    base: *mut u8,
    size: usize,
    flags: i32,
}
unsafe extern "C" {
    fn sigaction(signal: i32, new: *const Action, old: *mut Action) -> i32;
    fn sigaltstack(new: *const Stack, old: *mut Stack) -> i32;
    fn mmap(at: *mut u8, size: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn mprotect(at: *mut u8, size: usize, prot: i32) -> i32;
    fn raise(signal: i32) -> i32;
    fn abort() -> !;
}

/// The instruction that faulted is stepped over: 4 bytes on arm64; on x86_64 each case says its own.
static LENGTH: AtomicU64 = AtomicU64::new(4);

extern "C" fn handler(signal: i32, info: *const u8, context: *mut u8) {
    SEEN[signal as usize].fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel's structures: si_addr at 24, uc_mcontext at 48, thread state at 16.
    unsafe {
        ADDRESS.store(*info.add(24).cast::<u64>(), Ordering::Relaxed);
        let here = 0u8;
        ON_STACK.store(&raw const here as u64, Ordering::Relaxed);
        let state = (*context.add(48).cast::<*mut u64>()).add(2);
        let pc = state.add(if cfg!(target_arch = "aarch64") {
            32
        } else {
            16
        });
        if signal != 30 {
            *pc += LENGTH.load(Ordering::Relaxed);
        }
    }
}

fn main() {
    // SAFETY: plain calls of the C library with memory that lives on.
    unsafe {
        let stack = mmap(std::ptr::null_mut(), 0x10000, 3, 0x1002, -1, 0);
        assert_eq!(
            sigaltstack(
                &Stack {
                    base: stack,
                    size: 0x10000,
                    flags: 0
                },
                std::ptr::null_mut()
            ),
            0
        );
        for signal in [4, 5, 10, 11, 30] {
            let action = Action {
                handler: handler as *const () as usize,
                mask: 0,
                flags: 0x41,
            };
            assert_eq!(sigaction(signal, &action, std::ptr::null_mut()), 0);
        }
        let guarded = mmap(std::ptr::null_mut(), 0x4000, 1, 0x1002, -1, 0);

        // A write to a page that may only be read; a read of nothing. x86_64: 3 bytes each.
        LENGTH.store(
            if cfg!(target_arch = "aarch64") { 4 } else { 3 },
            Ordering::Relaxed,
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("str xzr, [{0}, #16]", in(reg) guarded);
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(".byte 0x48, 0x89, 0x08", in("rax") guarded.add(16), in("rcx") 0u64);
        println!(
            "write to a read-only page: SIGBUS {} at +{}",
            SEEN[10].load(Ordering::Relaxed),
            ADDRESS.load(Ordering::Relaxed) - guarded as u64
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("ldr {1}, [{0}]", in(reg) 0x1238u64, out(reg) _);
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(".byte 0x48, 0x8b, 0x08", in("rax") 0x1238u64, out("rcx") _);
        println!(
            "read of nothing: SIGSEGV {} at {:#x}",
            SEEN[11].load(Ordering::Relaxed),
            ADDRESS.load(Ordering::Relaxed)
        );
        let on = ON_STACK.load(Ordering::Relaxed).wrapping_sub(stack as u64) < 0x10000;
        println!("on the alternate stack: {on}");
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("udf #0", "brk #1");
        #[cfg(target_arch = "x86_64")]
        {
            LENGTH.store(2, Ordering::Relaxed);
            std::arch::asm!("ud2");
            LENGTH.store(0, Ordering::Relaxed);
            std::arch::asm!("int3");
        }
        println!(
            "SIGILL {} SIGTRAP {}",
            SEEN[4].load(Ordering::Relaxed),
            SEEN[5].load(Ordering::Relaxed)
        );
        raise(30);
        println!("raised: {}", SEEN[30].load(Ordering::Relaxed));
        assert_eq!(mprotect(guarded, 0x4000, 3), 0);
        guarded.write(1);
        println!("writable now: {}", guarded.read());
        abort()
    }
}
