//! The images that dyld has loaded, read from their headers in memory (mach-o/loader.h).

use std::ffi::{CStr, c_char, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{crash_info, memory};
use crate::platform::forked::OnceFlag;
use object::LittleEndian;
use object::macho;
use object::read::macho::{MachHeader, Section as _, Segment as _};

/// The layout of this platform's programs and libraries.
pub type NativeFile<'data> = object::read::macho::MachOFile64<'data, object::LittleEndian>;

/// Names of the executable that hold even if it has been renamed or removed: this system has no such name.
pub const OWN_FILE: [&str; 0] = [];

/// Facts of one image, read from the image itself.
#[derive(Debug, Clone)]
pub struct ImageInfo {
    /// Its path.
    pub name: String,
    /// Difference that dyld added to the addresses that the file states.
    pub slide: u64,
    /// UUID; empty without one.
    pub id: Vec<u8>,
    /// The svmas of its segments. Of an image in the shared cache those of `__TEXT`
    /// alone: its other segments lie elsewhere, between those of others.
    pub svma: Range<u64>,
    /// The svmas that hold instructions.
    pub code: Vec<Range<u64>>,
    /// `__TEXT,__eh_frame`, by svma.
    pub eh_frame: Option<Range<u64>>,
    /// `__TEXT,__unwind_info`, by svma.
    pub unwind_info: Option<Range<u64>>,
    /// The data of `LC_FUNCTION_STARTS`; empty without one, and if `text` is `None`.
    pub function_starts: Vec<u8>,
    /// `__TEXT` as it lies in memory; `None` if it is known already or may go away at any time.
    pub text: Option<TextSegment>,
    /// True for the executable.
    pub main: bool,
    /// True if it lies in the shared cache, and not in a file of its own.
    pub cached: bool,
}

/// An image's `__TEXT` in memory, which is never written to; the image stays loaded meanwhile.
#[derive(Debug, Clone)]
pub struct TextSegment {
    /// Address that its file states (svma).
    pub svma: u64,
    /// Its contents.
    pub bytes: Arc<Retained>,
}

/// Bytes of an image that dyld keeps for us.
#[derive(Debug)]
pub struct Retained {
    bytes: &'static [u8],
    /// From `dlopen`; null for images that are never unloaded.
    handle: *mut c_void,
}

// SAFETY: the bytes are read-only memory of the process; `dlclose` may be called on any thread.
unsafe impl Send for Retained {}
// SAFETY: as above.
unsafe impl Sync for Retained {}

impl AsRef<[u8]> for Retained {
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: a handle of our own, closed once.
            unsafe { libc::dlclose(self.handle) };
        }
    }
}

/// Longest path, with its end (sys/syslimits.h).
const PATH_MAX: usize = 1024;
/// Largest size of load commands that is believed: those of frameworks take some 10 KiB.
const MAX_COMMAND_BYTES: usize = 1 << 20;
/// `MH_DYLIB_IN_CACHE` (mach-o/loader.h): in the shared cache, never unloaded.
const IN_CACHE: u32 = 0x8000_0000;

unsafe extern "C" {
    // mach-o/dyld.h
    fn _dyld_image_count() -> u32;
    fn _dyld_get_image_header(index: u32) -> *const u8;
    fn _dyld_get_image_vmaddr_slide(index: u32) -> isize;
    fn _dyld_get_image_name(index: u32) -> *const c_char;
    fn _dyld_register_func_for_add_image(function: extern "C" fn(*const u8, isize));
    fn _dyld_register_func_for_remove_image(function: extern "C" fn(*const u8, isize));
}

static ADDED: AtomicU64 = AtomicU64::new(0);
static REMOVED: AtomicU64 = AtomicU64::new(0);

/// What is loaded at one moment.
#[derive(Debug)]
pub struct Listing {
    /// The images.
    pub images: Vec<ImageInfo>,
    /// How many others the loader has removed by then.
    pub removed: u64,
}

/// Lists what is loaded now. `known` returns whether an image with its first byte at this address and
/// with this UUID is held already: then its contents come back empty. Takes dyld's lock; not for
/// captures.
pub fn list(known: &mut dyn FnMut(u64, &[u8]) -> bool) -> Listing {
    // Before: one that is removed meanwhile counts as one that no listing has.
    let (_, removed) = loader_counts();
    // SAFETY: no arguments; an index that is no longer there gives null below.
    let count = unsafe { _dyld_image_count() };
    let images = (0..count).filter_map(|index| image(index, known)).collect();
    Listing { images, removed }
}

/// Returns the address of the function by which the kernel calls signal handlers (avma).
pub fn signal_trampoline() -> Option<u64> {
    super::symbol(c"_sigtramp").map(|at| at as u64)
}

/// Returns the counts of the images that dyld has added and removed so far; they change whenever [`list`] would. The
/// first call registers with dyld.
pub fn loader_counts() -> (u64, u64) {
    // No `Once`: a child of `fork` must find none that a thread of its parent is in.
    static REGISTERED: OnceFlag = OnceFlag::new();
    extern "C" fn added(header: *const u8, _slide: isize) {
        crash_info::added(header);
        ADDED.fetch_add(1, Ordering::Relaxed);
    }
    extern "C" fn removed(header: *const u8, _slide: isize) {
        crash_info::removed(header);
        REMOVED.fetch_add(1, Ordering::Relaxed);
    }
    // dyld keeps the functions for good; they touch statics alone.
    if REGISTERED.is_first_call() {
        // SAFETY: functions of the type that dyld calls, which live as long as the process.
        unsafe {
            _dyld_register_func_for_add_image(added);
            _dyld_register_func_for_remove_image(removed);
        }
    }
    (
        ADDED.load(Ordering::Relaxed),
        REMOVED.load(Ordering::Relaxed),
    )
}

fn image(index: u32, known: &mut dyn FnMut(u64, &[u8]) -> bool) -> Option<ImageInfo> {
    // SAFETY: dyld answers null for an index without an image.
    let (name, first) = unsafe { (_dyld_get_image_name(index), _dyld_get_image_header(index)) };
    // Another thread may unload it before it is held below: checked reads alone.
    let mut text = [0; PATH_MAX];
    let read = memory::read(name as u64, &mut text);
    let name = CStr::from_bytes_until_nul(text.get(..read)?).ok()?;
    // SAFETY: a C string; RTLD_NOLOAD loads nothing.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    // The list may have moved before that.
    // SAFETY: as above.
    let (header, slide) = unsafe {
        let moved = _dyld_get_image_header(index);
        (moved, _dyld_get_image_vmaddr_slide(index) as u64)
    };
    let mut retained = Retained { bytes: &[], handle };
    if header != first {
        return None;
    }
    let Parsed {
        mut facts,
        text,
        starts,
    } = parse(&commands(header as u64)?)?;
    facts.name = name.to_string_lossy().into_owned();
    facts.slide = slide;
    let known = known(slide.wrapping_add(facts.svma.start), &facts.id);
    let stays = !retained.handle.is_null() || facts.cached || facts.main;
    if stays && !known {
        let length = usize::try_from(text.end.saturating_sub(text.start)).ok()?;
        // SAFETY: `__TEXT` begins at the header; dyld has mapped it readable, it is held as above,
        // and nothing writes to it.
        retained.bytes = unsafe { std::slice::from_raw_parts(header, length) };
        let length = usize::try_from(starts.end.wrapping_sub(starts.start)).ok()?;
        if length > 0 {
            // A part of `__LINKEDIT`, where its load command has it; its file may have been cut meanwhile.
            let mut table = vec![0; length];
            if memory::read(starts.start.wrapping_add(slide), &mut table) == length {
                facts.function_starts = table;
            }
        }
        facts.text = Some(TextSegment {
            svma: text.start,
            bytes: Arc::new(retained),
        });
    }
    Some(facts)
}

/// Reads a header and its load commands. Where no handle holds the image, it may go meanwhile.
fn commands(header: u64) -> Option<Vec<u8>> {
    const LENGTH: usize = size_of::<macho::MachHeader64<LittleEndian>>();
    const SIZE_OF_COMMANDS: u64 = 20;
    let mut size = [0; 4];
    if memory::read(header.wrapping_add(SIZE_OF_COMMANDS), &mut size) < size.len() {
        return None;
    }
    let size = u32::from_le_bytes(size) as usize;
    if size > MAX_COMMAND_BYTES {
        return None;
    }
    let mut bytes = vec![0; LENGTH.saturating_add(size)];
    (memory::read(header, &mut bytes) == bytes.len()).then_some(bytes)
}

/// A header's facts, as far as it states them.
struct Parsed {
    facts: ImageInfo,
    text: Range<u64>,
    /// The table of function starts, by svma.
    starts: Range<u64>,
}

/// Reads the load commands of a 64-bit image.
fn parse(commands: &[u8]) -> Option<Parsed> {
    const CODE: u32 = macho::S_ATTR_PURE_INSTRUCTIONS.0 | macho::S_ATTR_SOME_INSTRUCTIONS.0;
    let endian = LittleEndian;
    let header = macho::MachHeader64::<LittleEndian>::parse(commands, 0).ok()?;
    let mut facts = ImageInfo {
        name: String::new(),
        slide: 0,
        id: Vec::new(),
        svma: 0..0,
        code: Vec::new(),
        eh_frame: None,
        unwind_info: None,
        function_starts: Vec::new(),
        text: None,
        main: header.filetype(endian) == macho::MH_EXECUTE,
        cached: header.flags(endian).0 & IN_CACHE != 0,
    };
    let mut text = 0..0;
    let mut end = 0;
    // The table by its place in the file, and where that part of the file lies.
    let mut starts = 0..0;
    let mut link_edit = None;
    let mut rest = header.load_commands(endian, commands, 0).ok()?;
    while let Ok(Some(command)) = rest.next() {
        if let Ok(Some(uuid)) = command.uuid() {
            facts.id = uuid.uuid.to_vec();
        }
        if command.cmd() == macho::LC_FUNCTION_STARTS
            && let Ok(table) = command.data::<macho::LinkeditDataCommand<LittleEndian>>()
        {
            let start = u64::from(table.dataoff.get(endian));
            starts = start..start.saturating_add(table.datasize.get(endian).into());
        }
        let Ok(Some((segment, data))) = command.segment_64() else {
            continue;
        };
        let start = segment.vmaddr(endian);
        let svma = start..start.saturating_add(segment.vmsize(endian));
        match segment.name() {
            b"__PAGEZERO" => {}
            b"__LINKEDIT" => {
                let file = segment.fileoff(endian);
                let size = segment.filesize(endian);
                link_edit = Some((file..file.saturating_add(size), start));
            }
            b"__TEXT" => text = svma.clone(),
            _ => end = svma.end.max(end),
        }
        for section in segment.sections(endian, data).ok()? {
            let start = section.addr(endian);
            let svma = start..start.saturating_add(section.size(endian));
            if section.flags(endian).0 & CODE != 0 {
                facts.code.push(svma.clone());
            }
            match (section.segment_name(), section.name()) {
                (b"__TEXT", b"__eh_frame") => facts.eh_frame = Some(svma),
                (b"__TEXT", b"__unwind_info") => facts.unwind_info = Some(svma),
                _ => {}
            }
        }
    }
    if text.is_empty() {
        return None;
    }
    let starts = match link_edit {
        Some((file, at)) if file.start <= starts.start && starts.end <= file.end => {
            let start = at.wrapping_add(starts.start.saturating_sub(file.start));
            start..start.wrapping_add(starts.end.saturating_sub(starts.start))
        }
        _ => 0..0,
    };
    let end = if facts.cached {
        text.end
    } else {
        end.max(text.end)
    };
    facts.svma = text.start..end;
    Some(Parsed {
        facts,
        text,
        starts,
    })
}
