//! One object in a file: a Mach-O image, a slice of a universal file, a dSYM's companion, or an ELF
//! file. Says what it holds and hands out its parts.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use lzma_rust2::XzReader;
use object::read::macho::FatArch;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};

use super::archives::unpacking;
use super::bytes::SharedBytes;
use crate::functions::{self, MAX_SYMBOLS};
use crate::report::{looks_like, text_hash};
use crate::symbolicate::Error;

/// Most times its packed size that a section may unpack to. Debug information packs to a third or a tenth.
const MAX_RATIO: u64 = 100;
/// Symbols that distributions leave in a stripped ELF file: an ELF file of its own, packed by xz (GDB's manual,
/// "MiniDebugInfo"). It has the functions that the table of dynamic symbols has not.
const PACKED_SYMBOLS: &str = ".gnu_debugdata";
/// Most bytes of the file that is packed; those of large programs have some ten million.
const MAX_PACKED: u64 = 1 << 30;
/// Most memory that unpacking may take, in KiB: `xz -9` asks for 64 MiB.
const MAX_XZ_KIB: u32 = 66 << 10;

/// The facts of a file that are known before any of its tables are read.
#[derive(Debug, Clone)]
pub(crate) struct ObjectFile {
    pub path: PathBuf,
    pub bytes: SharedBytes,
    /// `Mach-O` or `ELF`.
    pub format: &'static str,
    /// `arm64`, `arm64e`, `x86_64`, or the architecture's name in `object`.
    pub arch: String,
    /// UUID or build id; empty if it has none.
    pub id: Vec<u8>,
    /// Link-time address (svma) of what a report calls the image's base: `__TEXT`, or the first loaded
    /// segment.
    pub base: u64,
    /// The ranges of link-time addresses that hold code, in order of address.
    pub code: Vec<(u64, u64)>,
    pub has_dwarf: bool,
    pub has_symbols: bool,
    /// True if it is a stripped ELF file with [packed symbols](ObjectFile::packed_symbols).
    pub has_packed_symbols: bool,
    /// Size in bytes to which its compressed sections unpack.
    pub unpacked: u64,
    /// ELF: the file name and CRC-32 of a separate debug file.
    pub debuglink: Option<(String, u32)>,
    /// ELF: the path and build id of a dwz file.
    pub altlink: Option<(String, Vec<u8>)>,
}

/// The objects in a file: one, or as many as a universal file has slices.
pub(crate) fn open(path: &Path) -> Result<Vec<ObjectFile>, Error> {
    open_bytes(path, SharedBytes::map(path)?)
}

/// As [`open`], for bytes that are already there.
pub(crate) fn open_bytes(path: &Path, bytes: SharedBytes) -> Result<Vec<ObjectFile>, Error> {
    let data: &[u8] = &bytes;
    if !looks_like_object(data) {
        let unpack = unpacking(path, data)
            .map_or(String::new(), |command| format!("; unpack it: {command}"));
        let what = format_args!("neither Mach-O nor ELF: it {}{unpack}", begins_with(data));
        return Err(Error::bad_file(path, what));
    }
    let bad =
        |e: object::Error| Error::bad_file(path, format_args!("damaged {}: {e}", kind_word(data)));
    let mut objects = Vec::new();
    match object::FileKind::parse(data).map_err(bad)? {
        object::FileKind::MachOFat32 => {
            let fat = object::read::macho::MachOFatFile32::parse(data).map_err(bad)?;
            let mut slices = fat.arches().iter();
            slices.try_for_each(|arch| slice(path, &bytes, arch, &mut objects))?;
        }
        object::FileKind::MachOFat64 => {
            let fat = object::read::macho::MachOFatFile64::parse(data).map_err(bad)?;
            let mut slices = fat.arches().iter();
            slices.try_for_each(|arch| slice(path, &bytes, arch, &mut objects))?;
        }
        _ => objects.push(describe(path, bytes.clone())?),
    }
    Ok(objects)
}

/// Returns true if the first bytes are those of a Mach-O, universal or ELF file.
pub(crate) fn looks_like_object(data: &[u8]) -> bool {
    matches!(
        data.get(..4),
        Some(
            b"\x7fELF"
                | b"\xcf\xfa\xed\xfe"
                | b"\xce\xfa\xed\xfe"
                | b"\xfe\xed\xfa\xcf"
                | b"\xfe\xed\xfa\xce"
                | b"\xca\xfe\xba\xbf"
        )
    ) || (data.starts_with(b"\xca\xfe\xba\xbe")
        && data.get(4..8).is_some_and(|n| n < &[0, 0, 0, 40][..]))
    // Java classes share the magic, with a version number of 45 or more where the count of slices is
}

/// Returns true if these are the first bytes of a dyld shared cache, or of a further file of one.
pub(crate) fn is_shared_cache(data: &[u8]) -> bool {
    data.starts_with(b"dyld_v1 ")
}

/// Describes the first bytes, for messages to people.
pub(crate) fn begins_with(data: &[u8]) -> String {
    match looks_like(data) {
        _ if data.is_empty() => "is empty".into(),
        _ if is_shared_cache(data) => "is a dyld shared cache".into(),
        Some(what) => format!("looks like {}", what.split(':').next().unwrap_or(what)),
        None => {
            let head = data.iter().take(4).map(|byte| format!(" {byte:02x}"));
            format!("begins with the bytes{}", head.collect::<String>())
        }
    }
}

fn kind_word(data: &[u8]) -> &'static str {
    if data.starts_with(b"\x7fELF") {
        "ELF file"
    } else {
        "Mach-O file"
    }
}

fn slice(
    path: &Path,
    bytes: &SharedBytes,
    arch: &impl FatArch,
    objects: &mut Vec<ObjectFile>,
) -> Result<(), Error> {
    let (start, size) = arch.file_range();
    let end = usize::try_from(start.saturating_add(size)).ok();
    let range = usize::try_from(start).ok().zip(end);
    let part = range.and_then(|(start, end)| bytes.part(start..end));
    let part = part.ok_or_else(|| {
        let what = format!("the slice at offset {start} ({size} bytes) lies outside the file");
        Error::bad_file(path, what)
    })?;
    // A slice may be an archive of object files or something else that is no image.
    if looks_like_object(&part) {
        objects.push(describe(path, part)?);
    }
    Ok(())
}

fn describe(path: &Path, bytes: SharedBytes) -> Result<ObjectFile, Error> {
    let data: &[u8] = &bytes;
    let bad =
        |e: object::Error| Error::bad_file(path, format_args!("damaged {}: {e}", kind_word(data)));
    let file = object::File::parse(data).map_err(bad)?;
    let unpacked = check_compressed(path, &file, data.len())?;
    let mut segments = file.segments().filter(|s| s.size() > 0);
    let (format, id, base) = match file.format() {
        object::BinaryFormat::MachO => {
            let text = segments.find(|s| s.name() == Ok(Some("__TEXT")));
            let id = file.mach_uuid().map_err(bad)?.map(|uuid| uuid.to_vec());
            ("Mach-O", id, text.map_or(0, |s| s.address()))
        }
        _ => {
            let id = file.build_id().ok().flatten().map(|id| id.to_vec());
            ("ELF", id, segments.next().map_or(0, |s| s.address()))
        }
    };
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let debuglink = file.gnu_debuglink().ok().flatten();
    let altlink = file.gnu_debugaltlink().ok().flatten();
    let mut symbols = file
        .symbols()
        .chain(file.dynamic_symbols())
        .take(MAX_SYMBOLS);
    let has_packed_symbols = packed_symbols(&file).is_some();
    let code = functions::code(&file);
    // In an object file (`.o`) the addresses of all sections begin at 0. What `dwz` makes is of that kind, and has no code.
    let is_linked = file.kind() != object::ObjectKind::Relocatable || code.is_empty();
    Ok(ObjectFile {
        path: path.to_owned(),
        format,
        arch: arch_name(&file),
        id: id.unwrap_or_default(),
        base,
        code: if is_linked { code } else { Vec::new() },
        has_dwarf: is_linked && functions::has_dwarf(&file),
        unpacked,
        has_symbols: is_linked
            && (has_packed_symbols || symbols.any(|symbol| symbol.is_definition())),
        has_packed_symbols,
        debuglink: debuglink.map(|(name, crc)| (text(name), crc)),
        altlink: altlink.map(|(name, id)| (text(name), id.to_vec())),
        bytes: bytes.clone(),
    })
}

/// Most bytes that so many may unpack to.
fn most_unpacked(packed: u64) -> u64 {
    packed.saturating_mul(MAX_RATIO).saturating_add(1 << 20)
}

/// Refuses sections that claim to unpack to far more than debug information ever does: unpacking
/// them would use up the memory. All of them together, since several may lie over the same bytes.
fn check_compressed(path: &Path, file: &object::File<'_>, len: usize) -> Result<u64, Error> {
    let mut together = 0u64;
    for section in file.sections() {
        let Ok(range) = section.compressed_file_range() else {
            continue;
        };
        if range.format == object::CompressionFormat::None {
            continue;
        }
        let (packed, unpacked) = (range.compressed_size, range.uncompressed_size);
        together = together.saturating_add(unpacked);
        let what = if unpacked > most_unpacked(packed) {
            let name = section.name().unwrap_or("?");
            format!("section {name} claims to unpack from {packed} bytes to {unpacked}")
        } else if together > most_unpacked(len as u64) {
            format!(
                "its sections claim to unpack to {together} bytes and more, of {len} in the file"
            )
        } else {
            continue;
        };
        return Err(Error::bad_file(
            path,
            format_args!("{what}: more than {MAX_RATIO} times as much is taken for damage"),
        ));
    }
    Ok(together)
}

/// The packed symbols of an ELF file without a symbol table.
fn packed_symbols<'data>(file: &object::File<'data>) -> Option<&'data [u8]> {
    let is_stripped = file.format() == object::BinaryFormat::Elf && file.symbol_table().is_none();
    let section = file
        .section_by_name(PACKED_SYMBOLS)
        .filter(|_| is_stripped)?;
    section.data().ok().filter(|data| !data.is_empty())
}

fn arch_name(file: &object::File<'_>) -> String {
    match (file.architecture(), file.sub_architecture()) {
        (object::Architecture::Aarch64, Some(object::SubArchitecture::Arm64E)) => "arm64e".into(),
        (object::Architecture::Aarch64, _) => "arm64".into(),
        (object::Architecture::Aarch64_Ilp32, _) => "arm64_32".into(),
        (object::Architecture::X86_64, _) => "x86_64".into(),
        (object::Architecture::I386, _) => "i386".into(),
        (object::Architecture::Arm, _) => "arm".into(),
        (other, _) => format!("{other:?}").to_lowercase(),
    }
}

impl ObjectFile {
    /// Parses the headers again: cheap, and keeps no borrow.
    pub(crate) fn parse(&self) -> Option<object::File<'_>> {
        object::File::parse(&*self.bytes).ok()
    }

    /// Returns the hash that a report has of an image whose file has no id: see [`text_hash`]. `None` for Mach-O, and
    /// for files without instructions.
    pub(crate) fn text_hash(&self) -> Option<[u8; 12]> {
        let file = self.parse()?;
        let runs = |flags| match flags {
            object::SegmentFlags::Elf { p_flags, .. } => p_flags.contains(object::elf::PF_X),
            _ => false,
        };
        let text = file.segments().find(|segment| runs(segment.flags()))?;
        let text = text.data().ok().filter(|text| !text.is_empty())?;
        Some(text_hash(text))
    }

    /// Returns the sections of code that are in the file, each with its link-time address: a debug file alone has none.
    pub(crate) fn instructions(&self) -> Vec<(u64, SharedBytes)> {
        let Some(file) = self.parse() else {
            return Vec::new();
        };
        let is_code = |start: u64| self.code.iter().any(|&(known, _)| known == start);
        let sections = file.sections().filter(|section| is_code(section.address()));
        let section = |section: object::Section<'_, '_>| {
            // A dSYM has the headers of such sections.
            let (start, size) = section.file_range().filter(|(start, _)| *start > 0)?;
            let (start, size) = (usize::try_from(start).ok()?, usize::try_from(size).ok()?);
            Some((
                section.address(),
                self.bytes.part(start..start.checked_add(size)?)?,
            ))
        };
        sections.filter_map(section).collect()
    }

    /// Unpacks the symbols that a stripped ELF file has packed in it: an object at the same addresses. `None` if they are
    /// damaged, or take more than `most` bytes.
    pub(crate) fn packed_symbols(&self, most: u64) -> Option<ObjectFile> {
        let packed = packed_symbols(&self.parse()?)?;
        let most = most_unpacked(packed.len() as u64).min(most).min(MAX_PACKED);
        let mut bytes = Vec::new();
        let reader = XzReader::new_mem_limit(packed, false, MAX_XZ_KIB);
        let mut reader = reader.take(most.saturating_add(1));
        reader.read_to_end(&mut bytes).ok()?;
        if bytes.len() as u64 > most {
            return None;
        }
        let all = open_bytes(&self.path, SharedBytes::from(bytes)).ok()?;
        let own = all.into_iter().find(|own| !own.is_mach_o())?;
        Some(ObjectFile {
            id: self.id.clone(),
            base: self.base,
            code: self.code.clone(),
            ..own
        })
    }

    pub(crate) fn is_mach_o(&self) -> bool {
        self.format == "Mach-O"
    }

    /// The end of the code section that holds `address`.
    pub(crate) fn code_end(&self, address: u64) -> Option<u64> {
        self.bounds().code_end(address)
    }

    /// The facts that bound its functions.
    pub(crate) fn bounds(&self) -> functions::ObjectFacts<'_> {
        functions::ObjectFacts {
            code: &self.code,
            base: self.base,
            has_dwarf: self.has_dwarf,
            is_mach_o: self.is_mach_o(),
        }
    }

    /// A section by its ELF name (`.debug_info` finds `__DWARF,__debug_info` too), decompressed.
    pub(crate) fn section(&self, name: &str) -> Option<SharedBytes> {
        let file = self.parse()?;
        let section = file.section_by_name(name)?;
        let data = section.uncompressed_data().ok()?;
        match data {
            std::borrow::Cow::Borrowed(data) => self.part_of(data),
            std::borrow::Cow::Owned(data) => Some(data.into()),
        }
    }

    /// A slice of this object's bytes as bytes that keep the file alive.
    fn part_of(&self, data: &[u8]) -> Option<SharedBytes> {
        let start = (data.as_ptr() as usize).checked_sub(self.bytes.as_ptr() as usize)?;
        self.bytes.part(start..start.checked_add(data.len())?)
    }
}
