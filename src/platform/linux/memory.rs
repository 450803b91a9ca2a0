//! Memory of this process: reads that cannot fault, mapped files, and memory reserved beforehand.
//!
//! Signal-safe, but for `main_stack`.

use std::ops::Range;

use super::proc_files::MEMORY;
use super::system_call::{SET_BYTES, system_call};
use super::threads::Thread;
use crate::platform::descriptors::find_line;
pub use crate::platform::mapping::{FileMap, Reserved};

/// Copies from an address of this process, as far as it can be read. Returns how many bytes were copied, from the
/// first on. Signal-safe; a bad address is never a fault.
///
/// Source: process_vm_readv(2), and where that is denied `/proc/self/mem`. The kernel copies page by page and reports
/// how far it came. It is given the calling thread's id. That of the process is its first thread's, which has no memory
/// any more once it has ended.
pub fn read(address: u64, into: &mut [u8]) -> usize {
    // SAFETY: the destination is ours and of the length given.
    unsafe { read_raw(address, into.as_mut_ptr(), into.len()) }
}

/// Returns true if this process may read its memory in this way at all: a sandbox may deny it.
pub fn may_read() -> bool {
    let control = 0u8;
    read((&raw const control) as u64, &mut [0]) == 1
}

/// Returns true if the memory at an address can be read: false if the file that was mapped has been truncated. Cheaper
/// than [`read`], by a factor of some five.
///
/// Source: rt_sigprocmask(2), kernel/signal.c: the set is copied from the process' memory (EFAULT) before an invalid
/// `how` is refused (EINVAL); nothing is changed.
pub fn is_there(address: u64) -> bool {
    const NO_HOW: libc::c_int = -1;
    // A whole word, which lies on one page. No set at all is no error.
    let word = address as usize & !(SET_BYTES - 1);
    let arguments = [NO_HOW as usize, word, 0, SET_BYTES, 0, 0];
    // SAFETY: the kernel checks the address, and changes nothing for this `how`.
    let result = unsafe { system_call(libc::SYS_rt_sigprocmask, arguments) };
    word != 0 && result.wrapping_neg() != libc::EFAULT as isize
}

/// As [`read`], into memory that need not be initialised.
///
/// # Safety
/// - `into` is valid for writes of `length` bytes.
pub unsafe fn read_raw(address: u64, into: *mut u8, length: usize) -> usize {
    let local = libc::iovec {
        iov_base: into.cast(),
        iov_len: length,
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: length,
    };
    let [local, remote] = [&raw const local as usize, &raw const remote as usize];
    let thread = Thread::current().tid() as usize;
    let arguments = [thread, local, 1, remote, 1, 0];
    // SAFETY: the caller vouches for the destination; the kernel checks the source.
    let mut copied = unsafe { system_call(libc::SYS_process_vm_readv, arguments) };
    // A sandbox denies the call to all, for what it could do to other processes.
    if [libc::EPERM, libc::EACCES, libc::ENOSYS].contains(&(copied.wrapping_neg() as i32))
        && let Some(file) = MEMORY.get()
    {
        let arguments = [file as usize, into as usize, length, address as usize, 0, 0];
        // SAFETY: as above.
        copied = unsafe { system_call(libc::SYS_pread64, arguments) };
    }
    usize::try_from(copied).unwrap_or(0)
}

/// Returns the range from the lowest address that the main thread's stack may reach to its end: nothing else is ever
/// mapped between. Not for handlers.
///
/// Source: proc(5), `[stack]` in `/proc/PID/maps`; the kernel keeps at least 128 MiB or the stack's
/// limit free below it (`mmap_base` in arch/x86/mm/mmap.c and mm/util.c).
pub fn main_stack() -> Option<Range<u64>> {
    let end = MAPS.iter().find_map(|path| {
        find_line(format_args!("{path}"), |line| {
            let (_, end) = line.split(' ').next()?.split_once('-')?;
            let is_it = line.ends_with("[stack]");
            is_it.then(|| u64::from_str_radix(end, 16).ok()).flatten()
        })
    })?;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` lives across the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } == 0;
    let room = if known { limit.rlim_cur } else { 8 << 20 };
    Some(end.saturating_sub(room.clamp(1 << 16, 128 << 20))..end)
}

/// Lists of this process' mappings. The first list is empty once the first thread has ended.
/// (The second one comes after it since emulators of user space know the first name alone.)
const MAPS: [&str; 2] = ["/proc/self/maps", "/proc/thread-self/maps"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_stops_where_the_memory_does() {
        let pages = Reserved::touched(3 * 4096, 3 * 4096).unwrap();
        let start = pages.as_ptr() as u64;
        // SAFETY: the last of our three pages; nothing points into it.
        assert_eq!(0, unsafe { libc::munmap((start + 8192) as *mut _, 4096) });
        let mut into = [1u8; 12288];
        assert_eq!(read(start + 100, &mut into), 8192 - 100);
        assert_eq!(into[0], 0);
        assert_eq!(into[8192 - 100], 1);
        assert_eq!(read(0, &mut into), 0);
        assert_eq!(read(u64::MAX - 4, &mut into), 0);
        std::mem::forget(pages);
    }

    #[test]
    fn the_main_stack_ends_behind_the_name_of_the_program() {
        // The kernel puts the name at the stack's very end (fs/exec.c, create_elf_tables).
        // SAFETY: reads only.
        let name = unsafe { libc::getauxval(libc::AT_EXECFN) };
        let bounds = main_stack().unwrap();
        assert!(bounds.contains(&name) && bounds.end - name < 4096 + 16);
    }

    #[test]
    fn memory_behind_the_end_of_a_file_is_not_there() {
        use std::os::fd::AsRawFd;
        const PAGE: usize = 65536;
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * PAGE as u64).unwrap();
        // SAFETY: a fresh mapping.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        } as u64;
        let (first, last) = (map, map + 2 * PAGE as u64 - 1);
        assert!(is_there(first) && is_there(last));
        file.set_len(PAGE as u64).unwrap();
        assert!(is_there(first) && !is_there(last));
        // SAFETY: ours.
        unsafe { libc::munmap(map as *mut _, 2 * PAGE) };
        assert!(!is_there(1) && !is_there(u64::MAX));
    }
}
