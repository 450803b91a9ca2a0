//! The images that the loader has mapped into this process, and their unwind sections.
//!
//! Here the loader's lock is taken (dl_iterate_phdr(3)): never call this from a handler, nor on
//! behalf of a capture.

use std::ffi::{CStr, CString, OsStr};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::links::{Entry, Needed};
use super::memory::{self, FileMap};

/// An image as the loader lists it.
#[derive(Debug)]
pub struct ImageFacts {
    /// Its path; `[vdso]` for the kernel's own.
    pub name: String,
    /// Difference that the loader added to the addresses that the file states.
    pub slide: u64,
    /// Build id; empty without one.
    pub id: Vec<u8>,
    /// Address (avma) and bytes by which it differs from another image at its place: its build id. Without one, of an
    /// image that may be unloaded, the first page of its code.
    pub mark: Option<(u64, Vec<u8>)>,
    /// The svmas of its segments, from the first to the last byte.
    pub svma: Range<u64>,
    /// The svmas that hold instructions.
    pub code: Vec<Range<u64>>,
    /// The svma of `.eh_frame_hdr`, and how long that is.
    pub eh_frame_hdr: Option<Range<u64>>,
    /// How its contents are read.
    pub contents: Contents,
    /// Its file, mapped as long as this lives, where the section table is needed: the image has no `.eh_frame_hdr`.
    pub file: Option<FileMap>,
    /// True for the executable.
    pub main: bool,
    /// True where the kernel enters the process: in the executable and in its interpreter (AT_ENTRY and AT_BASE of
    /// getauxval(3)). Other images state an entry point at which nothing begins.
    pub entered: bool,
}

/// The readable segments of an image, by their svmas.
#[derive(Debug, Clone)]
pub enum Contents {
    /// It is held already.
    Held,
    /// In the image itself, which stays mapped as long as the process lives.
    Resident(Vec<(Range<u64>, Resident)>),
    /// In the image itself, which may be unmapped at any time: checked reads alone are safe.
    Unloadable(Vec<Range<u64>>),
    /// Copies.
    Copied(Vec<(Range<u64>, Arc<[u8]>)>),
}

/// Memory that nobody writes to and that stays mapped as long as the process lives.
#[derive(Debug, Clone)]
pub struct Resident {
    start: u64,
    length: usize,
}

impl AsRef<[u8]> for Resident {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `segments` made it of a read-only segment that the loader never unmaps. (To truncate the file of an
        // image that is running breaks the image itself as much as this view of it.)
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.length) }
    }
}

/// What is loaded at one moment.
#[derive(Debug)]
pub struct Listing {
    /// The images.
    pub images: Vec<ImageFacts>,
    /// How many others the loader has removed by then.
    pub removed: u64,
}

/// Lists what is loaded now. `known` gets the address of an image's first byte and its build id. Where it returns true,
/// the image is held already, and its contents come back empty.
pub fn list(known: &mut dyn FnMut(u64, &[u8]) -> bool) -> Listing {
    let mut state = LoaderListing {
        images: Vec::new(),
        needed: Needed::default(),
        removed: 0,
        known,
    };
    // SAFETY: the callback gets back the pointer given here, which lives across the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut state).cast()) };
    Listing {
        images: state.images,
        removed: state.removed,
    }
}

struct LoaderListing<'a> {
    images: Vec<ImageFacts>,
    needed: Needed,
    removed: u64,
    known: &'a mut dyn FnMut(u64, &[u8]) -> bool,
}

extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: `data` is the listing given to `dl_iterate_phdr`, which nothing else uses meanwhile.
    let listing = unsafe { &mut *data.cast::<LoaderListing>() };
    // SAFETY: the loader gives a valid entry whose headers stay mapped while it holds its lock,
    // which it does until this function returns.
    let info = unsafe { &*info };
    listing.removed = info.dlpi_subs;
    let headers = program_headers(info);
    let name = if info.dlpi_name.is_null() {
        c""
    } else {
        // SAFETY: the loader's own string, NUL-terminated.
        unsafe { CStr::from_ptr(info.dlpi_name) }
    };
    let image = read_image(name, info.dlpi_addr, &headers, listing);
    listing.images.extend(image);
    0
}

/// The program headers of an image, which lie in its first page; none where that is not there, because
/// the file was cut.
fn program_headers(info: &libc::dl_phdr_info) -> Vec<libc::Elf64_Phdr> {
    if info.dlpi_phdr.is_null() {
        return Vec::new();
    }
    // SAFETY: a valid entry's headers stay mapped while the loader holds its lock.
    unsafe { copy(info.dlpi_phdr as u64, usize::from(info.dlpi_phnum)) }.unwrap_or_default()
}

/// Copies `count` values from this address; `None` if they cannot be read any more, because the file that they are
/// mapped from was truncated.
///
/// # Safety
/// - They are mapped readable, while this runs; any bits are a value.
unsafe fn copy<T: Copy>(at: u64, count: usize) -> Option<Vec<T>> {
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

/// Most bytes of code that a mark has.
const PAGE: u64 = 4096;

/// Called while the loader holds its lock: the image stays mapped.
fn read_image(
    name: &CStr,
    slide: u64,
    headers: &[libc::Elf64_Phdr],
    listing: &mut LoaderListing<'_>,
) -> Option<ImageFacts> {
    let main = listing.images.is_empty();
    let range =
        |header: &libc::Elf64_Phdr, size: u64| header.p_vaddr..header.p_vaddr.saturating_add(size);
    let loads = || {
        headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
    };
    let start = loads().map(|header| header.p_vaddr & !0xfff).min()?;
    let end = loads()
        .map(|header| range(header, header.p_memsz).end)
        .max()?;
    let code: Vec<_> = loads()
        .filter(|header| header.p_flags & libc::PF_X != 0)
        .map(|header| range(header, header.p_memsz))
        .collect();
    let eh_frame_hdr = headers
        .iter()
        .find(|header| header.p_type == libc::PT_GNU_EH_FRAME)
        .map(|header| range(header, header.p_memsz));
    // Ranges that are mapped readable, as far as they are there: the file may have been truncated.
    let in_memory = |svma: &Range<u64>| -> Option<Vec<u8>> {
        let inside = loads().any(|header| {
            let all = range(header, header.p_filesz);
            header.p_flags & libc::PF_R != 0 && all.start <= svma.start && svma.end <= all.end
        });
        let length = usize::try_from(svma.end.checked_sub(svma.start)?).ok()?;
        // SAFETY: within a readable segment that the loader has mapped and, while this runs, keeps mapped.
        inside.then(|| unsafe { copy(slide.wrapping_add(svma.start), length) })?
    };
    let id = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_NOTE)
        .find_map(|header| {
            let svma = range(header, header.p_filesz);
            let notes = in_memory(&svma)?;
            let id = build_id(&notes)?;
            let offset = (id.as_ptr() as u64).wrapping_sub(notes.as_ptr() as u64);
            let at = slide.wrapping_add(svma.start).wrapping_add(offset);
            Some((at, id.to_vec()))
        });
    let id_at = id.as_ref().map(|(at, _)| *at);
    let id = id.map(|(_, id)| id).unwrap_or_default();
    let own_name = name.to_bytes();
    let path = if own_name.is_empty() && main {
        let links = OWN_FILE.iter().map(std::fs::read_link);
        let path = links.flatten().next();
        path.map(|path| path.into_os_string())
    } else {
        Some(OsStr::from_bytes(own_name).to_os_string())
    };
    let path = path.unwrap_or_default();
    let virtual_image = !path.as_bytes().contains(&b'/');
    let name = if own_name.starts_with(b"linux-vdso") || own_name.starts_with(b"linux-gate") {
        String::from("[vdso]")
    } else {
        path.to_string_lossy().into_owned()
    };
    let base = slide.wrapping_add(start);
    // SAFETY: it reads what the kernel gave the process.
    let [entry, interpreter] =
        [libc::AT_ENTRY, libc::AT_BASE].map(|kind| unsafe { libc::getauxval(kind) });
    let entered = base == interpreter || (base..slide.wrapping_add(end)).contains(&entry);
    let stays = listing.needed.keeps(
        main || entered || virtual_image,
        own_name,
        slide,
        &dynamic_section(slide, headers),
    );
    let is_known = (listing.known)(base, &id);
    let is_wanted = |svma: &Range<u64>| {
        code.contains(svma)
            || eh_frame_hdr
                .as_ref()
                .is_some_and(|wanted| svma.contains(&wanted.start))
    };
    let contents = if is_known {
        Contents::Held
    } else if loads()
        .any(|header| header.p_flags & libc::PF_W != 0 && is_wanted(&range(header, header.p_memsz)))
        || !stays && !memory::may_read()
    {
        let wanted = loads().map(|header| range(header, header.p_filesz));
        let copied = wanted.filter_map(|svma| Some((svma.clone(), Arc::from(in_memory(&svma)?))));
        Contents::Copied(copied.collect())
    } else {
        segments(slide, headers, stays)
    };
    let mark = match &contents {
        _ if virtual_image => None,
        Contents::Unloadable(_) if id.is_empty() => code.first().and_then(|code| {
            let page = code.start..code.end.min(code.start.saturating_add(PAGE));
            Some((slide.wrapping_add(code.start), in_memory(&page)?))
        }),
        _ => id_at.map(|at| (at, id.clone())),
    };
    let lacks_table = eh_frame_hdr.is_none() && !is_known && !virtual_image;
    let file = lacks_table.then(|| map_file(&path, main, headers, &id));
    Some(ImageFacts {
        name,
        slide,
        id,
        mark,
        svma: start..end,
        code,
        eh_frame_hdr,
        contents,
        file: file.flatten(),
        main,
        entered,
    })
}

/// The segments that can be read and that nobody writes to. Those of an image that stays are referred to in place.
fn segments(slide: u64, headers: &[libc::Elf64_Phdr], stays: bool) -> Contents {
    let is_read_only = |header: &&libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD && header.p_flags & (libc::PF_R | libc::PF_W) == libc::PF_R
    };
    let segments = headers
        .iter()
        .filter(is_read_only)
        .map(|header| header.p_vaddr..header.p_vaddr.saturating_add(header.p_filesz));
    if !stays {
        return Contents::Unloadable(segments.collect());
    }
    let resident = |svma: Range<u64>| {
        let start = slide.wrapping_add(svma.start);
        let length = usize::try_from(svma.end.checked_sub(svma.start)?).ok()?;
        Some((svma, Resident { start, length }))
    };
    Contents::Resident(segments.filter_map(resident).collect())
}

/// The entries of an image's dynamic section, as far as it is there.
fn dynamic_section(slide: u64, headers: &[libc::Elf64_Phdr]) -> Vec<Entry> {
    const SIZE: usize = size_of::<Entry>();
    let mut dynamic = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_DYNAMIC);
    let Some(header) = dynamic.next() else {
        return Vec::new();
    };
    let count = usize::try_from(header.p_memsz).unwrap_or(0) / SIZE;
    // SAFETY: the loader keeps the segment mapped while it holds its lock; any bits are words.
    unsafe { copy(slide.wrapping_add(header.p_vaddr), count) }.unwrap_or_default()
}

/// The layout of this platform's programs and libraries.
pub type NativeFile<'data> = object::read::elf::ElfFile64<'data, object::LittleEndian>;

/// The executable of this process, even where it has been renamed or removed. The first name leads nowhere once
/// the first thread has ended. (The second one comes after it since emulators of user space know the first name
/// alone.)
pub const OWN_FILE: [&str; 2] = ["/proc/self/exe", "/proc/thread-self/exe"];

/// Maps the image's file if it is the one that was loaded: the same build id, or, without any, the
/// same program headers.
fn map_file(path: &OsStr, main: bool, headers: &[libc::Elf64_Phdr], id: &[u8]) -> Option<FileMap> {
    let open = |path: &OsStr| FileMap::open(&CString::new(path.as_bytes()).ok()?).ok();
    let map = if main {
        OWN_FILE.iter().find_map(|path| open(OsStr::new(path)))
    } else {
        open(path)
    }?;
    let bytes: &[u8] = map.as_ref();
    let note = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_NOTE)
        .filter_map(|header| {
            let start = usize::try_from(header.p_offset).ok()?;
            bytes.get(start..start.checked_add(usize::try_from(header.p_filesz).ok()?)?)
        })
        .find_map(build_id);
    // e_phoff and the headers as they stand in the file (elf(5)).
    let offset = bytes
        .get(32..40)
        .and_then(|field| field.try_into().ok())
        .map(u64::from_le_bytes);
    // SAFETY: program headers are plain words, valid as bytes.
    let wanted =
        unsafe { std::slice::from_raw_parts(headers.as_ptr().cast::<u8>(), size_of_val(headers)) };
    let start = usize::try_from(offset?).ok()?;
    let same_headers = bytes.get(start..start.checked_add(wanted.len())?) == Some(wanted);
    let same = same_headers && note.unwrap_or_default() == id;
    same.then_some(map)
}

/// The build id in a note segment: the note "GNU" of type 3 (gABI, note section).
fn build_id(notes: &[u8]) -> Option<&[u8]> {
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
    fn the_executable_libc_and_the_vdso_are_listed() {
        let images = list(&mut |_, _| false).images;
        let main = images.iter().find(|image| image.main).unwrap();
        let here = the_executable_libc_and_the_vdso_are_listed as *const () as u64;
        let svma = here - main.slide;
        assert!(main.code.iter().any(|range| range.contains(&svma)));
        assert!(matches!(main.contents, Contents::Resident(_)));
        assert_eq!(
            std::fs::canonicalize(&main.name).unwrap(),
            std::env::current_exe().unwrap().canonicalize().unwrap()
        );
        let libc = images
            .iter()
            .find(|image| image.name.contains("libc.so"))
            .unwrap();
        assert!(!libc.id.is_empty());
        assert!(matches!(&libc.contents, Contents::Resident(parts) if !parts.is_empty()));
        let vdso = images.iter().find(|image| image.name == "[vdso]").unwrap();
        assert!(matches!(&vdso.contents, Contents::Resident(parts) if !parts.is_empty()));
        assert!(vdso.eh_frame_hdr.is_some());
    }

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
