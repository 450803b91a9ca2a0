//! One image as the loader has mapped it: its segments, its build id, and how its contents can be read.

use std::ops::Range;
use std::sync::Arc;

use super::links::Entry;
use super::memory;

/// The readable segments of an image, by their svmas.
#[derive(Debug, Clone)]
pub enum Contents {
    /// It is held already.
    Held,
    /// In the image itself, which stays mapped as long as the process lives.
    Resident(Vec<(Range<u64>, ResidentBytes)>),
    /// In the image itself, which may be unmapped at any time: checked reads alone are safe.
    Unloadable(Vec<Range<u64>>),
    /// Copies.
    Copied(Vec<(Range<u64>, Arc<[u8]>)>),
}

/// Memory that nobody writes to and that stays mapped as long as the process lives.
#[derive(Debug, Clone)]
pub struct ResidentBytes {
    start: u64,
    length: usize,
}

impl AsRef<[u8]> for ResidentBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `segments` made it of a read-only segment that the loader never unmaps. (To truncate the file of an
        // image that is running breaks the image itself as much as this view of it.)
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.length) }
    }
}

/// Most bytes of code in a fingerprint.
const PAGE: u64 = 4096;

/// An image as the loader has mapped it. Used while the loader holds its lock: the image stays mapped.
pub(super) struct MappedImage<'h> {
    pub(super) slide: u64,
    pub(super) headers: &'h [libc::Elf64_Phdr],
}

/// The svmas of a segment, as far as its file has them.
fn in_file(header: &libc::Elf64_Phdr) -> Range<u64> {
    header.p_vaddr..header.p_vaddr.saturating_add(header.p_filesz)
}

/// The svmas of a segment, all of them.
fn in_memory(header: &libc::Elf64_Phdr) -> Range<u64> {
    header.p_vaddr..header.p_vaddr.saturating_add(header.p_memsz)
}

impl MappedImage<'_> {
    /// The program headers of a type.
    fn of_type(&self, kind: u32) -> impl Iterator<Item = &libc::Elf64_Phdr> {
        self.headers
            .iter()
            .filter(move |header| header.p_type == kind)
    }

    fn loads(&self) -> impl Iterator<Item = &libc::Elf64_Phdr> {
        self.of_type(libc::PT_LOAD)
    }

    /// The svmas of the segments, from the first page to the last byte; `None` without any.
    pub(super) fn svma(&self) -> Option<Range<u64>> {
        let start = self.loads().map(|header| header.p_vaddr & !0xfff).min()?;
        let end = self.loads().map(|header| in_memory(header).end).max()?;
        Some(start..end)
    }

    /// The svmas that hold instructions.
    pub(super) fn code(&self) -> Vec<Range<u64>> {
        let code = self.loads();
        code.filter(|header| header.p_flags & libc::PF_X != 0)
            .map(in_memory)
            .collect()
    }

    /// The svma of `.eh_frame_hdr`.
    pub(super) fn eh_frame_hdr(&self) -> Option<Range<u64>> {
        self.of_type(libc::PT_GNU_EH_FRAME).next().map(in_memory)
    }

    /// Copies these svmas; `None` where they are not readable, or not there: the file may have been truncated.
    fn bytes(&self, svma: &Range<u64>) -> Option<Vec<u8>> {
        let inside = self.loads().any(|header| {
            let all = in_file(header);
            header.p_flags & libc::PF_R != 0 && all.start <= svma.start && svma.end <= all.end
        });
        let length = usize::try_from(svma.end.checked_sub(svma.start)?).ok()?;
        // SAFETY: within a readable segment that the loader has mapped and, while this runs, keeps mapped.
        inside.then(|| unsafe { copy(self.slide.wrapping_add(svma.start), length) })?
    }

    /// Its build id, and the address (avma) at which that is.
    pub(super) fn build_id(&self) -> Option<(u64, Vec<u8>)> {
        self.of_type(libc::PT_NOTE).find_map(|header| {
            let svma = in_file(header);
            let notes = self.bytes(&svma)?;
            let id = build_id(&notes)?;
            let offset = (id.as_ptr() as u64).wrapping_sub(notes.as_ptr() as u64);
            let at = self.slide.wrapping_add(svma.start).wrapping_add(offset);
            Some((at, id.to_vec()))
        })
    }

    /// The first page of its code, and the address (avma) at which that is.
    pub(super) fn first_code_page(&self) -> Option<(u64, Vec<u8>)> {
        let mut code = self.code();
        let code = code.first_mut()?;
        code.end = code.end.min(code.start.saturating_add(PAGE));
        Some((self.slide.wrapping_add(code.start), self.bytes(code)?))
    }

    /// Chooses how its contents are read. Code and unwind sections that the process may write to are copied; and those
    /// of an image that may go, where there are no checked reads.
    pub(super) fn contents(&self, stays: bool) -> Contents {
        let (code, eh_frame_hdr) = (self.code(), self.eh_frame_hdr());
        let is_wanted = |svma: Range<u64>| {
            let has_table = |table: &Range<u64>| svma.contains(&table.start);
            code.contains(&svma) || eh_frame_hdr.as_ref().is_some_and(has_table)
        };
        let mut writable = self
            .loads()
            .filter(|header| header.p_flags & libc::PF_W != 0);
        if writable.any(|header| is_wanted(in_memory(header))) || !stays && !memory::may_read() {
            let copied = self.loads().map(in_file).filter_map(|svma| {
                let bytes = self.bytes(&svma)?;
                Some((svma, Arc::from(bytes)))
            });
            return Contents::Copied(copied.collect());
        }
        self.segments(stays)
    }

    /// The segments that can be read and that nobody writes to. Those of an image that stays are referred to in place.
    fn segments(&self, stays: bool) -> Contents {
        let access = |header: &libc::Elf64_Phdr| header.p_flags & (libc::PF_R | libc::PF_W);
        let segments = self
            .loads()
            .filter(|header| access(header) == libc::PF_R)
            .map(in_file);
        if !stays {
            return Contents::Unloadable(segments.collect());
        }
        let resident = |svma: Range<u64>| {
            let start = self.slide.wrapping_add(svma.start);
            let length = usize::try_from(svma.end.checked_sub(svma.start)?).ok()?;
            Some((svma, ResidentBytes { start, length }))
        };
        Contents::Resident(segments.filter_map(resident).collect())
    }

    /// The entries of its dynamic section, as far as it is there.
    pub(super) fn dynamic_section(&self) -> Vec<Entry> {
        const SIZE: usize = size_of::<Entry>();
        let Some(header) = self.of_type(libc::PT_DYNAMIC).next() else {
            return Vec::new();
        };
        let count = usize::try_from(header.p_memsz).unwrap_or(0) / SIZE;
        // SAFETY: the loader keeps the segment mapped while it holds its lock; any bits are words.
        unsafe { copy(self.slide.wrapping_add(header.p_vaddr), count) }.unwrap_or_default()
    }
}

/// Copies `count` values from this address; `None` if they cannot be read any more, because the file that they are
/// mapped from was truncated.
///
/// # Safety
/// - They are mapped readable, while this runs; any bits are a value.
pub(super) unsafe fn copy<T: Copy>(at: u64, count: usize) -> Option<Vec<T>> {
    let mut values = Vec::<T>::with_capacity(count);
    let length = count.checked_mul(size_of::<T>())?;
    // SAFETY: there is room for so many, and all are filled in before they are counted; without checked
    // reads, the caller vouches for them.
    unsafe {
        if !memory::may_read() {
            return Some(std::slice::from_raw_parts(at as *const T, count).to_vec());
        }
        let into = values.as_mut_ptr().cast();
        (memory::read_raw(at, into, length) == length).then(|| values.set_len(count))?;
    }
    Some(values)
}

/// The build id in a note segment: the note "GNU" of type 3 (gABI, note section).
pub(super) fn build_id(notes: &[u8]) -> Option<&[u8]> {
    let mut rest = notes;
    loop {
        let word = |at: usize| {
            rest.get(at..)
                .and_then(|bytes| bytes.first_chunk())
                .map(|bytes| u32::from_le_bytes(*bytes) as usize)
        };
        let (name_size, size, kind) = (word(0)?, word(4)?, word(8)?);
        let padded = |size: usize| size.checked_add(3).map(|size| size & !3);
        let name_end = 12usize.checked_add(padded(name_size)?)?;
        let name = rest.get(12..12usize.checked_add(name_size)?)?;
        let description = rest.get(name_end..name_end.checked_add(size)?)?;
        if kind == 3 && name == b"GNU\0" {
            return Some(description);
        }
        rest = rest.get(name_end.checked_add(padded(size)?)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_found_behind_other_notes() {
        let mut notes = Vec::new();
        for (name, kind, text) in [
            (&b"Go\0\0"[..], 4u32, &b"odd"[..]),
            (b"GNU\0", 1, b"abcd"),
            (b"GNU\0", 3, b"the id"),
        ] {
            notes.extend((name.len() as u32).to_le_bytes());
            notes.extend((text.len() as u32).to_le_bytes());
            notes.extend(kind.to_le_bytes());
            notes.extend(name);
            notes.extend(text);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id(&notes), Some(&b"the id"[..]));
        for cut in 0..notes.len() - 2 {
            assert_eq!(build_id(&notes[..cut]), None);
        }
    }
}
