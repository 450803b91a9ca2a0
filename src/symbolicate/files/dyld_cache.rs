//! dyld's shared cache, in which Apple's systems keep their libraries: each image as a Mach-O file of its
//! own that has its headers, its symbols and the starts of its functions, and no code.
//!
//! Layouts: `dyld_cache_format.h` of dyld. Local symbols stand apart from the images, in the cache itself
//! or in a file `.symbols` next to it; in an image's own table they are called `<redacted>`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use object::LittleEndian as Little;
use object::macho::{DyldCacheHeader, LinkeditDataCommand, MachHeader64, Nlist64, SymtabCommand};
use object::read::macho::{DyldCache, MachHeader, Nlist, SymbolTable};

use super::bytes::SharedBytes;
use super::object_file::{self, ObjectFile};
use crate::functions::MAX_SYMBOLS;
use crate::symbolicate::{Error, id_text};

/// `dyld_cache_image_text_info`: UUID, address (`u64`), size of `__TEXT` (`u32`), offset of the path (`u32`).
const TEXT_INFO: usize = 32;
/// Offset of the end of `imagesTextCount`: headers are at least as long since iOS 10.
const TEXT_INFOS_SINCE: u32 = 0x98;
/// Offset of `symbolFileUUID`: caches whose header is longer have 64-bit entries of local symbols.
const WIDE_ENTRIES: u32 = 0x190;
/// `nlist_64`
const NLIST: usize = 16;
/// Symbols that take more than this are damage: the largest library's take a tenth of it.
const MAX_SYMBOL_BYTES: usize = 1 << 28;

/// The architecture of a cache, and the UUIDs of its images; none in a further file of one.
///
/// # Errors
/// If it is damaged, or a further file of it is not there.
pub(crate) fn list(path: &Path, data: &[u8]) -> Result<(String, Vec<Vec<u8>>), Error> {
    let header = header(path, data)?;
    let arch = String::from_utf8_lossy(header.magic.get(7..).unwrap_or_default());
    let arch = match arch.trim_matches([' ', '\0']) {
        "x86_64h" => "x86_64",
        arch => arch,
    };
    for part in further(path, data)? {
        if !part.is_file() {
            let what = format!("a part of it is not there: {}", part.display());
            return Err(Error::bad_file(path, what));
        }
    }
    let ids = images(header, data).map(|(id, _)| id.to_vec()).collect();
    Ok((arch.to_owned(), ids))
}

/// The image with this UUID, if the cache has it.
///
/// # Errors
/// If the cache, or a further file of it, is not there or damaged.
pub(crate) fn image(
    path: &Path,
    bytes: &SharedBytes,
    id: &[u8],
) -> Result<Option<ObjectFile>, Error> {
    let data: &[u8] = bytes;
    let header = header(path, data)?;
    let Some((_, address)) = images(header, data).find(|(known, _)| *known == id) else {
        return Ok(None);
    };
    let further = further(path, data)?;
    let maps = further.iter().map(|path| SharedBytes::map(path));
    let maps: Vec<SharedBytes> = maps.collect::<Result<_, _>>()?;
    let files: Vec<&[u8]> = maps.iter().map(|bytes| &**bytes).collect();
    let cache = DyldCache::<Little>::parse(data, &files).map_err(|e| damaged(path, e))?;
    let has_symbols = |path: &PathBuf| path.extension().is_some_and(|end| end == "symbols");
    let apart = files
        .last()
        .filter(|_| further.last().is_some_and(has_symbols));
    let Some(taken) = taken_out(&cache, address, apart.unwrap_or(&data)) else {
        let what = format!("its image {} cannot be read", id_text(id));
        return Err(damaged(path, what));
    };
    let objects = object_file::open_bytes(path, SharedBytes::from(taken))?;
    Ok(objects.into_iter().find(|object| object.id == id))
}

fn damaged(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::bad_file(path, format_args!("damaged dyld shared cache: {why}"))
}

/// The further files of a cache.
fn further(path: &Path, data: &[u8]) -> Result<Vec<PathBuf>, Error> {
    let suffixes = DyldCache::<Little>::subcache_suffixes(data).map_err(|e| damaged(path, e))?;
    let paths = suffixes.into_iter().map(|suffix| {
        let mut name = OsString::from(path);
        name.push(suffix);
        PathBuf::from(name)
    });
    Ok(paths.collect())
}

fn header<'a>(path: &Path, data: &'a [u8]) -> Result<&'a DyldCacheHeader<Little>, Error> {
    let header = DyldCacheHeader::<Little>::parse(data).map_err(|e| damaged(path, e))?;
    header.parse_magic().map_err(|e| damaged(path, e))?;
    Ok(header)
}

/// The UUIDs and link-time addresses of the images.
fn images<'a>(
    header: &DyldCacheHeader<Little>,
    data: &'a [u8],
) -> impl Iterator<Item = (&'a [u8], u64)> {
    let start = usize::try_from(header.images_text_offset.get(Little)).ok();
    let is_there = header.mapping_offset.get(Little) >= TEXT_INFOS_SINCE;
    let start = start.filter(|_| is_there);
    let infos = start.and_then(|start| data.get(start..)).unwrap_or(&[]);
    let count = usize::try_from(header.images_text_count.get(Little)).unwrap_or(usize::MAX);
    let infos = infos.chunks_exact(TEXT_INFO).take(count);
    infos.filter_map(|info| Some((info.get(..16)?, number(info, 16)?)))
}

/// The little-endian number at `at`.
fn number(data: &[u8], at: usize) -> Option<u64> {
    let bytes = data.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// The image at `address` as a file of its own; `locals` is the file that has the local symbols.
fn taken_out(cache: &DyldCache<'_, Little>, address: u64, locals: &[u8]) -> Option<Vec<u8>> {
    let (data, at) = cache.data_and_offset_for_address(address)?;
    let header = MachHeader64::<Little>::parse(data, at).ok()?;
    let mut offset = size_of::<MachHeader64<Little>>();
    let len = offset + header.sizeofcmds.get(Little) as usize;
    let start = usize::try_from(at).ok()?;
    let mut taken = data.get(start..start.checked_add(len)?)?.to_vec();
    // Offsets of what is in `__LINKEDIT` are those in the file that has this segment.
    let mut linkedit: &[u8] = &[];
    let (mut starts, mut own, mut symtab) = (None, SymbolTable::default(), None);
    let mut commands = header.load_commands(Little, data, at).ok()?;
    while let Some(command) = commands.next().ok()? {
        if let Some((segment, _)) = command.segment_64().ok()? {
            if segment.segname.starts_with(b"__LINKEDIT\0") {
                let vmaddr = segment.vmaddr.get(Little);
                linkedit = cache.data_and_offset_for_address(vmaddr)?.0;
            }
            // `fileoff` and `filesize`: nothing of it is there.
            put_numbers(&mut taken, offset + 40, &[0; 4]);
        } else if let Some(table) = command.symtab().ok()? {
            own = table.symbols(Little, linkedit).ok()?;
            symtab = Some(offset);
        } else if command.cmd() == object::macho::LC_FUNCTION_STARTS {
            let table: &LinkeditDataCommand<Little> = command.data().ok()?;
            starts = Some((offset, table.data(Little, linkedit).ok()?));
        }
        offset += command.cmdsize() as usize;
    }
    if let Some((command, starts)) = starts {
        let numbers = [taken.len(), starts.len()];
        put_numbers(&mut taken, command + 8, &numbers);
        taken.extend(starts);
        taken.resize(taken.len().next_multiple_of(8), 0);
    }
    if let Some(command) = symtab {
        let base = cache.mappings().next()?.address();
        let apart = local_symbols(locals, address.wrapping_sub(base)).unwrap_or_default();
        let (nlists, names) = join_tables(&[own, apart])?;
        let behind = taken.len() + nlists.len();
        let numbers = [taken.len(), nlists.len() / NLIST, behind, names.len()];
        put_numbers(&mut taken, command + 8, &numbers);
        taken.extend(nlists);
        taken.extend(names);
    }
    Some(taken)
}

/// Overwrites 32-bit numbers at `at`.
fn put_numbers(bytes: &mut [u8], at: usize, numbers: &[usize]) {
    let places = bytes.get_mut(at..).unwrap_or_default();
    for (place, &number) in places.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&(number as u32).to_le_bytes());
    }
}

type DyldTable<'a> = SymbolTable<'a, MachHeader64<Little>>;

/// The local symbols of the image that begins so many bytes after the start of the cache.
fn local_symbols(data: &[u8], image: u64) -> Option<DyldTable<'_>> {
    let header = DyldCacheHeader::<Little>::parse(data).ok()?;
    let start = header.local_symbols_offset.get(Little);
    let info = data.get(usize::try_from(start).ok()?..)?;
    // `dyld_cache_local_symbols_info`: offsets are those after its start.
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    };
    let [nlists, _, strings, strings_len, entries, count] =
        [0, 4, 8, 12, 16, 20].map(|at| word(info, at));
    let is_wide = header.mapping_offset.get(Little) >= WIDE_ENTRIES;
    let size = if is_wide { 16 } else { 12 };
    let entries = info.get(entries? as usize..)?.chunks_exact(size);
    let entry = entries.take(count? as usize).find(|entry| {
        let offset = if is_wide {
            number(entry, 0)
        } else {
            word(entry, 0).map(u64::from)
        };
        offset == Some(image)
    })?;
    let (first, count) = (word(entry, size - 8)?, word(entry, size - 4)?);
    let offset = |behind: u64| u32::try_from(start.checked_add(behind)?).ok();
    let nlists = u64::from(nlists?) + u64::from(first) * NLIST as u64;
    let command = SymtabCommand::<Little> {
        cmd: object::U32::new(Little, object::macho::LC_SYMTAB),
        cmdsize: object::U32::new(Little, size_of::<SymtabCommand<Little>>() as u32),
        symoff: object::U32::new(Little, offset(nlists)?),
        nsyms: object::U32::new(Little, count),
        stroff: object::U32::new(Little, offset(strings?.into())?),
        strsize: object::U32::new(Little, strings_len?),
    };
    command.symbols(Little, data).ok()
}

/// Joins the definitions of these tables into one table and its names.
fn join_tables(tables: &[DyldTable<'_>]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut nlists, mut names) = (Vec::new(), vec![0]);
    for table in tables {
        for symbol in table.iter().take(MAX_SYMBOLS) {
            let Ok(name) = symbol.name(Little, table.strings()) else {
                continue;
            };
            if !symbol.is_definition() || name == b"<redacted>" {
                continue;
            }
            let mut own = Nlist64::clone(symbol);
            own.n_strx.set(Little, names.len() as u32);
            nlists.extend(object::pod::bytes_of(&own));
            names.extend(name);
            names.push(0);
            if nlists.len() + names.len() > MAX_SYMBOL_BYTES {
                return None;
            }
        }
    }
    Some((nlists, names))
}
