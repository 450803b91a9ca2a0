//! Tells a wait for a lock that another thread holds, by the system call in which a thread sleeps.
//!
//! A sleep for a disk needs no look: it is uninterruptible. In an interruptible one the registers of the
//! innermost frame have the number of the call, and its first argument.

use super::context::{self, REGISTERS};
use super::memory;

/// bsd/kern/syscalls.master: what `pthread_mutex_lock` and the write and read locks of `pthread_rwlock_t`
/// sleep in, and what `os_unfair_lock` does.
const PSYNCH_MUTEXWAIT: u64 = 301;
const PSYNCH_RW_RDLOCK: u64 = 306;
const PSYNCH_RW_WRLOCK: u64 = 307;
const ULOCK_WAIT: u64 = 515;
const ULOCK_WAIT2: u64 = 544;

/// bsd/sys/ulock.h: the low byte of the first argument is what is waited on. A lock whose word names
/// its owner is `UL_UNFAIR_LOCK`, in one process or among several.
const UL_OPCODE_MASK: u64 = 0xff;
const UL_UNFAIR_LOCK: u64 = 2;
const UL_UNFAIR_LOCK64_SHARED: u64 = 4;

/// Returns true if the thread whose port has this name waits for a lock that is held.
pub(super) fn for_lock(port: u32) -> bool {
    let Some(registers) = context::of_thread(port) else {
        return false;
    };
    let pc = registers[PC];
    // The number counts only behind the instruction that made the call; elsewhere it is of a call that is over.
    let mut behind = [0u8; INSTRUCTION.len()];
    let at = pc.wrapping_sub(INSTRUCTION.len() as u64);
    memory::read(at, &mut behind) == behind.len() && behind == INSTRUCTION && is_lock(&registers)
}

/// `svc #0x80`; the number is in x16, that of a Mach trap negative.
#[cfg(target_arch = "aarch64")]
const INSTRUCTION: [u8; 4] = 0xd400_1001_u32.to_le_bytes();
#[cfg(target_arch = "aarch64")]
const PC: usize = 32;

/// `syscall`; the number is in rax, its class (2 for Unix) above (osfmk/mach/i386/syscall_sw.h).
#[cfg(target_arch = "x86_64")]
const INSTRUCTION: [u8; 2] = [0x0f, 0x05];
#[cfg(target_arch = "x86_64")]
const PC: usize = 16;

/// Returns true if a call with these registers waits for a lock.
fn is_lock(registers: &[u64; REGISTERS]) -> bool {
    let (call, first) = if cfg!(target_arch = "aarch64") {
        (registers[16], registers[0])
    } else {
        const UNIX: u64 = 2 << 24;
        // rax and rdi, by their numbers in DWARF.
        (registers[0].wrapping_sub(UNIX), registers[5])
    };
    match call {
        PSYNCH_MUTEXWAIT | PSYNCH_RW_RDLOCK | PSYNCH_RW_WRLOCK => true,
        ULOCK_WAIT | ULOCK_WAIT2 => {
            [UL_UNFAIR_LOCK, UL_UNFAIR_LOCK64_SHARED].contains(&(first & UL_OPCODE_MASK))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_wait_for_a_held_lock_are_taken_for_one() {
        let classify = |call: u64, first: u64| {
            let mut registers = [0; REGISTERS];
            if cfg!(target_arch = "aarch64") {
                registers[16] = call;
                registers[0] = first;
            } else {
                registers[0] = 2 << 24 | call;
                registers[5] = first;
            }
            is_lock(&registers)
        };
        for (what, call, first, expected) in [
            ("psynch_mutexwait", 301, 0x1000, true),
            ("psynch_cvwait", 305, 0x1000, false),
            ("psynch_rw_wrlock", 307, 0x1000, true),
            ("os_unfair_lock", 515, 0x0101_0002, true),
            ("ulock_wait2 of one", 544, 2, true),
            ("a word that is compared", 515, 0x0100_0001, false),
            ("kevent", 363, 3, false),
            ("read", 3, 0, false),
            ("mach_msg", 31_u64.wrapping_neg(), 0, false),
        ] {
            assert_eq!(classify(call, first), expected, "{what}");
        }
    }
}
