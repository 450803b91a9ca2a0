//! The images that the loader has mapped into this process, and their unwind sections.
//!
//! Here the loader's lock is taken (dl_iterate_phdr(3)): never call this from a handler, nor on
//! behalf of a capture.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::links::Needed;
use super::mapped_image::{MappedImage, build_id, copy};
use super::memory::FileMap;

pub use super::mapped_image::Contents;

/// An image as the loader lists it.
#[derive(Debug)]
pub struct ImageInfo {
    /// Its path; `[vdso]` for the kernel's own.
    pub name: String,
    /// Difference that the loader added to the addresses that the file states.
    pub slide: u64,
    /// Build id; empty without one.
    pub id: Vec<u8>,
    /// Address (avma) and bytes by which it differs from another image at its place: its build id. Without one, of an
    /// image that may be unloaded, the first page of its code.
    pub stamp: Option<(u64, Vec<u8>)>,
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

/// What is loaded at one moment.
#[derive(Debug)]
pub struct Listing {
    /// The images.
    pub images: Vec<ImageInfo>,
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
    images: Vec<ImageInfo>,
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

/// The path of an image's file, by the loader's name for it; the executable has none.
fn path_of(name: &[u8], main: bool) -> OsString {
    if !name.is_empty() || !main {
        return OsStr::from_bytes(name).to_os_string();
    }
    let links = OWN_FILE.iter().map(std::fs::read_link);
    let path = links.flatten().next();
    path.map(PathBuf::into_os_string).unwrap_or_default()
}

/// Returns true if the kernel enters the process in an image at these addresses (avma).
fn is_entered(avma: Range<u64>) -> bool {
    // SAFETY: it reads what the kernel gave the process.
    let [entry, interpreter] =
        [libc::AT_ENTRY, libc::AT_BASE].map(|kind| unsafe { libc::getauxval(kind) });
    avma.start == interpreter || avma.contains(&entry)
}

/// Called while the loader holds its lock: the image stays mapped.
fn read_image(
    name: &CStr,
    slide: u64,
    headers: &[libc::Elf64_Phdr],
    listing: &mut LoaderListing<'_>,
) -> Option<ImageInfo> {
    let image = MappedImage { slide, headers };
    let name = name.to_bytes();
    let main = listing.images.is_empty();
    let svma = image.svma()?;
    let eh_frame_hdr = image.eh_frame_hdr();
    let (id_at, id) = image.build_id().unzip();
    let id = id.unwrap_or_default();
    let path = path_of(name, main);
    let is_virtual = !path.as_bytes().contains(&b'/');
    let base = slide.wrapping_add(svma.start);
    let entered = is_entered(base..slide.wrapping_add(svma.end));
    let stays = listing.needed.keeps(
        main || entered || is_virtual,
        name,
        slide,
        &image.dynamic_section(),
    );
    let is_known = (listing.known)(base, &id);
    let contents = if is_known {
        Contents::Held
    } else {
        image.contents(stays)
    };
    let stamp = match &contents {
        _ if is_virtual => None,
        Contents::Unloadable(_) if id.is_empty() => image.first_code_page(),
        _ => id_at.map(|at| (at, id.clone())),
    };
    let lacks_table = eh_frame_hdr.is_none() && !is_known && !is_virtual;
    let file = lacks_table.then(|| map_file(&path, main, headers, &id));
    Some(ImageInfo {
        name: if name.starts_with(b"linux-vdso") || name.starts_with(b"linux-gate") {
            String::from("[vdso]")
        } else {
            path.to_string_lossy().into_owned()
        },
        slide,
        id,
        stamp,
        svma,
        code: image.code(),
        eh_frame_hdr,
        contents,
        file: file.flatten(),
        main,
        entered,
    })
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
}
