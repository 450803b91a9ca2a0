//! Memory of this process: reads that cannot fault, and memory reserved beforehand.

use std::ops::Range;
use std::ptr::NonNull;

use mach2::kern_return::KERN_SUCCESS;

use super::task;
use crate::platform::{SystemError, descriptors};

/// Copies from an address of this process, as far as it can be read; the result is how many bytes
/// were copied, from the first on. Signal-safe; a bad address is never a fault.
pub fn read(address: u64, into: &mut [u8]) -> usize {
    // SAFETY: the destination is ours and of the length given.
    unsafe { read_raw(address, into.as_mut_ptr(), into.len()) }
}

/// Whether there is memory at an address that can be read. Signal-safe.
pub fn is_there(address: u64) -> bool {
    read(address, &mut [0]) == 1
}

/// As [`read`], into memory that need not be initialised. Signal-safe.
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
        let part = rest.min(length - done);
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
        done += part;
    }
    done
}

/// Where the main thread's stack lies. Not for handlers.
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

/// A file, mapped read-only; it stays readable after the file is renamed or removed.
#[derive(Debug)]
pub struct FileMap {
    start: *const u8,
    length: usize,
}

// SAFETY: a read-only mapping that this value alone owns.
unsafe impl Send for FileMap {}
// SAFETY: as above.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps the whole of a regular file. Not signal-safe.
    pub fn open(path: &std::ffi::CStr) -> Result<FileMap, SystemError> {
        let file = descriptors::open(path, libc::O_RDONLY);
        if file < 0 {
            return Err(SystemError::last("open"));
        }
        // SAFETY: an all-zero `stat` is a valid value of that plain struct.
        let mut facts: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `facts` lives across the call.
        let known = unsafe { libc::fstat(file, &mut facts) } == 0;
        let length = usize::try_from(facts.st_size).unwrap_or(0);
        let result = if !known || (facts.st_mode & libc::S_IFMT) != libc::S_IFREG || length == 0 {
            Err(SystemError::last("fstat"))
        } else {
            let (right, kind) = (libc::PROT_READ, libc::MAP_PRIVATE);
            // SAFETY: a new mapping.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), length, right, kind, file, 0) };
            if start == libc::MAP_FAILED {
                Err(SystemError::last("mmap"))
            } else {
                let start = start.cast_const().cast();
                Ok(FileMap { start, length })
            }
        };
        // SAFETY: opened above, closed once; the mapping does not need it.
        unsafe { libc::close(file) };
        result
    }
}

impl AsRef<[u8]> for FileMap {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped readable for its whole life.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: what `open` mapped, once.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.length) };
    }
}

/// Memory that was mapped and touched at creation, so that writing to it neither allocates nor
/// faults.
#[derive(Debug)]
pub struct Reserved {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to nobody else and has no thread affinity; what is written to it is
// synchronised by those who hold it.
unsafe impl Send for Reserved {}
// SAFETY: as above; shared access only reads the two fields.
unsafe impl Sync for Reserved {}

impl Reserved {
    /// At least this many bytes, all zero.
    pub fn new(length: usize) -> Result<Reserved, SystemError> {
        let length = length.max(1);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: a new mapping, placed by the kernel; it replaces none.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) };
        let Some(start) = NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED)
        else {
            return Err(SystemError::last("mmap"));
        };
        let reserved = Reserved { start, length };
        for page in (0..length).step_by(4096) {
            // SAFETY: within the mapping; volatile so that the touch is not optimised away.
            unsafe { reserved.start.as_ptr().add(page).write_volatile(0) };
        }
        Ok(reserved)
    }

    /// Its first byte, valid for reads and writes of [`Reserved::len`] bytes.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes, which it never has.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
