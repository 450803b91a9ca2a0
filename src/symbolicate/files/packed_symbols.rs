//! Symbols that distributions leave in a stripped ELF file: an ELF file of its own, packed by xz, in the section
//! `.gnu_debugdata` (GDB's manual, "MiniDebugInfo"). It has the functions that the table of dynamic symbols has not.

use std::io::Read;

use lzma_rust2::XzReader;

use super::bytes::SharedBytes;
use super::object_file::{self, ObjectFile};

/// Most bytes of the file that is packed; those of large programs have some ten million.
const MOST_BYTES: u64 = 1 << 30;
/// Most memory that unpacking may take, in KiB: `xz -9` asks for 64 MiB.
const MOST_MEMORY: u32 = 66 << 10;

/// Unpacks the symbols of `object`: an object at the same addresses. `None` if they are damaged, or take more than `most`
/// bytes.
pub(crate) fn unpacked(object: &ObjectFile, most: u64) -> Option<ObjectFile> {
    let packed = object.packed_symbols()?;
    let most = most.min(MOST_BYTES);
    let most = object_file::most_unpacked(packed.len() as u64).min(most);
    let mut bytes = Vec::new();
    let reader = XzReader::new_mem_limit(packed, false, MOST_MEMORY);
    let mut reader = reader.take(most.saturating_add(1));
    reader.read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > most {
        return None;
    }
    let all = object_file::open_bytes(&object.path, SharedBytes::from(bytes)).ok()?;
    let own = all.into_iter().find(|own| !own.is_mach_o())?;
    Some(ObjectFile {
        id: object.id.clone(),
        base: object.base,
        code: object.code.clone(),
        ..own
    })
}
