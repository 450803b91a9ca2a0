//! Memory of this process: reads that cannot fault, and memory reserved beforehand.
//!
//! Signal-safe, but for `main_stack`.

use std::ops::Range;

use mach2::kern_return::KERN_SUCCESS;

use super::task;
pub use crate::platform::mapping::{FileMap, Reserved};

/// Copies from an address of this process, as far as it can be read. Returns how many bytes were copied, from the
/// first on. Signal-safe; a bad address is never a fault.
pub fn read(address: u64, into: &mut [u8]) -> usize {
    // SAFETY: the destination is ours and of the length given.
    unsafe { read_raw(address, into.as_mut_ptr(), into.len()) }
}

/// Returns true if the memory at an address can be read.
pub fn is_there(address: u64) -> bool {
    read(address, &mut [0]) == 1
}

/// As [`read`], into memory that need not be initialised.
///
/// # Safety
/// - `into` is valid for writes of `length` bytes.
pub unsafe fn read_raw(address: u64, into: *mut u8, length: usize) -> usize {
    let mut done = 0usize;
    // The kernel reads all or nothing: so region by region, as far as each goes.
    while done < length {
        let at = address.wrapping_add(done as u64);
        let Some(range) = mapping_of(at) else {
            break;
        };
        let rest = usize::try_from(range.end.wrapping_sub(at)).unwrap_or(usize::MAX);
        let part = rest.min(length.saturating_sub(done));
        let mut copied = 0;
        // SAFETY: the caller vouches for the destination, `part` bytes of it from `done` on; the
        // kernel checks the source.
        let code = unsafe {
            mach2::vm::mach_vm_read_overwrite(
                task::own(),
                at,
                part as u64,
                into.add(done) as u64,
                &mut copied,
            )
        };
        if code != KERN_SUCCESS {
            break;
        }
        done = done.saturating_add(part);
    }
    done
}

/// Returns the address range of the main thread's stack. Not for handlers.
pub fn main_stack() -> Option<Range<u64>> {
    let main = crate::platform::Thread::main();
    // SAFETY: the port is the main thread's, which lasts as long as the process; so does what the
    // pthread library knows of it.
    let (end, size) = unsafe {
        let thread = libc::pthread_from_mach_thread_np(main.tid() as u32);
        if thread == 0 {
            return None;
        }
        (
            libc::pthread_get_stackaddr_np(thread) as u64,
            libc::pthread_get_stacksize_np(thread) as u64,
        )
    };
    Some(end.saturating_sub(size)..end)
}

/// The readable mapping that an address lies in. Signal-safe: one call into the kernel, which
/// takes the lock of this task's map for its own short time.
pub fn mapping_of(address: u64) -> Option<Range<u64>> {
    let mut start = address;
    let mut size = 0;
    let mut facts = mach2::vm_region::vm_region_basic_info_64::default();
    let mut count = mach2::vm_region::vm_region_basic_info_64::count();
    let mut object = 0;
    // SAFETY: all results are ours and live across the call; `count` is the size of `facts`.
    let code = unsafe {
        mach2::vm::mach_vm_region(
            task::own(),
            &mut start,
            &mut size,
            mach2::vm_region::VM_REGION_BASIC_INFO_64,
            (&raw mut facts).cast(),
            &mut count,
            &mut object,
        )
    };
    let readable = facts.protection & mach2::vm_prot::VM_PROT_READ != 0;
    // The kernel gives the next one where the address lies in none.
    (code == KERN_SUCCESS && start <= address && readable)
        .then(|| start..start.saturating_add(size))
}
