//! Memory mapped by this process: files, and memory reserved beforehand.

use std::ffi::CStr;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use super::ownership::FileStat;
use super::{SystemError, descriptors};

/// A file, mapped read-only; it stays readable after the file is renamed or removed.
#[derive(Debug)]
pub struct FileMap(Mapping);

impl FileMap {
    /// Maps the whole of a regular file. Not signal-safe.
    pub fn open(path: &CStr) -> Result<FileMap, SystemError> {
        let opened = descriptors::open_owned(path, libc::O_RDONLY);
        let file = descriptors::OpenFile::from(opened.map_err(|_| SystemError::last("open"))?);
        let facts = FileStat::of(file.as_raw_fd()).map_err(|_| SystemError::last("fstat"))?;
        // The kernel maps no file without bytes.
        let length = if facts.is_file { facts.length } else { 0 };
        let (access, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
        Mapping::map(length as usize, access, flags, file.as_raw_fd()).map(FileMap)
    }
}

impl AsRef<[u8]> for FileMap {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped readable for its whole life. (To truncate the file of a library that is
        // running breaks the library itself as much as this view of it.)
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.length) }
    }
}

/// Anonymous memory. What was touched at creation is resident: writing there neither allocates nor faults.
#[derive(Debug)]
pub struct Reserved(Mapping);

impl Reserved {
    /// Reserves at least `length` bytes, all zero, of which the first `touched` are resident from now on; the
    /// others become so when they are first written to, at the price of a page fault for each page.
    pub fn touched(length: usize, touched: usize) -> Result<Reserved, SystemError> {
        let memory = Mapping::map(
            length.max(1),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANON,
            -1,
        )?;
        let reserved = Reserved(memory);
        for page in (0..length.min(touched)).step_by(4096) {
            // SAFETY: within the mapping; volatile so that the touch is not optimised away.
            unsafe { reserved.0.start.as_ptr().add(page).write_volatile(0) };
        }
        Ok(reserved)
    }

    /// Reserves addresses for `length` bytes, all zero, of which none is resident before it is written to. The kernel
    /// keeps no huge pages there, of which one byte makes all resident.
    #[cfg(target_os = "linux")]
    pub fn sparse(length: usize) -> Result<Reserved, SystemError> {
        let reserved = Reserved::touched(length, 0)?;
        // SAFETY: a mapping of ours; the advice changes no contents. A kernel without huge pages refuses it.
        unsafe {
            libc::madvise(
                reserved.0.start.as_ptr().cast(),
                length,
                libc::MADV_NOHUGEPAGE,
            )
        };
        Ok(reserved)
    }

    /// Its first byte, valid for reads and writes of [`Reserved::length`] bytes.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.start.as_ptr()
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        self.0.length
    }
}

/// One mapping, unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping has no other owner and has no thread affinity; what is written to it is
// synchronised by its holders.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared access only reads the two fields.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn map(length: usize, access: i32, flags: i32, file: i32) -> Result<Mapping, SystemError> {
        // SAFETY: a new mapping, placed by the kernel; it replaces none.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, file, 0) };
        let start = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED);
        let start = start.ok_or_else(|| SystemError::last("mmap"))?;
        Ok(Mapping { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
