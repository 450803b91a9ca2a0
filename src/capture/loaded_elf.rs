//! An image of this process on Linux, from what the loader says of it.

use std::ops::Range;
use std::sync::Arc;

use super::fingerprint::Fingerprint;
use super::loaded_image::LoadedImage;
use super::section::{Bytes, Section};
use crate::platform::code_copy::CodeCopy;
use crate::platform::images::{Contents, ImageInfo};
use crate::platform::memory;

/// Makes an image of what the loader has mapped. What stays mapped is read in place. Of an image that may be unloaded
/// its unwind sections are copied here, and its code as it is asked for.
pub(super) fn image_of(facts: ImageInfo) -> LoadedImage {
    let base = facts.slide.wrapping_add(facts.svma.start);
    let size = facts.svma.end.saturating_sub(facts.svma.start);
    let mut image = LoadedImage::new(facts.name, base, facts.svma.start, size)
        .with_id(facts.id)
        .with_code(facts.code.clone());
    image.main = facts.main;
    image.fingerprint = facts.stamp.map(|(at, bytes)| Fingerprint::new(at, &bytes));
    let segments = Segments {
        slide: facts.slide,
        contents: facts.contents,
    };
    // e_entry, where the file's header is mapped (gABI, ELF header).
    let header_entry = || {
        let header = segments.section_at(facts.svma.start, Some(64))?;
        let is_elf = header.bytes.starts_with(b"\x7fELF");
        let entry = header.bytes.get(24..32).filter(|_| is_elf)?;
        Some(u64::from_le_bytes(entry.try_into().ok()?))
    };
    if let Some(entry) = facts.entered.then(header_entry).flatten() {
        image = image.with_entry(entry);
    }
    for code in facts.code {
        let hash_lacks = image.id.is_empty() && image.text_hash.is_none();
        let whole = || segments.section_at(code.start, Some(length(&code)));
        let is_unloadable = matches!(segments.contents, Contents::Unloadable(_));
        if let Some(text) = (hash_lacks || !is_unloadable).then(whole).flatten() {
            if hash_lacks {
                image.text_hash = Some(crate::report::text_hash(&text.bytes));
            }
            if !is_unloadable {
                image = image.with_text(text);
            }
        }
        if is_unloadable
            && let Ok(size) = usize::try_from(length(&code))
            && let Ok(copy) = CodeCopy::new(facts.slide.wrapping_add(code.start), size)
        {
            image = image.with_code_copy(code.start, copy);
        }
    }
    let part = |range: Range<u64>| segments.section_at(range.start, Some(length(&range)));
    // The length of `.eh_frame` is not known; it ends in its segment, and each entry has a length.
    if let Some(header) = facts.eh_frame_hdr.and_then(part)
        && let Some(start) = super::cfi::eh_frame_of(&header)
        && let Some(eh_frame) = segments.section_at(start, None)
    {
        image = image.with_eh_frame(eh_frame, Some(header));
    } else if let Some(file) = &facts.file
        && let Some(range) = eh_frame_range(file.as_ref())
        && let Some(eh_frame) = part(range)
    {
        image = image.with_eh_frame(eh_frame, None);
    }
    match segments.contents {
        Contents::Resident(_) => image.with_mapped_sections(),
        // What was copied may be another image's by now: then none of it is used.
        Contents::Unloadable(_) if image.is_gone() => image.without_sections(),
        _ => image,
    }
}

/// Count of the addresses of a range.
fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// The segments of an image, of which sections are parts.
struct Segments {
    slide: u64,
    contents: Contents,
}

impl Segments {
    /// The bytes from an svma on, of at most `most`, up to the end of their segment.
    fn section_at(&self, svma: u64, most: Option<u64>) -> Option<Section> {
        let within = |segment: &Range<u64>| {
            if !segment.contains(&svma) {
                return None;
            }
            let rest = length(&(svma..segment.end));
            let size = most.map_or(rest, |most| most.min(rest));
            let start = usize::try_from(svma.checked_sub(segment.start)?).ok()?;
            Some(start..start.checked_add(usize::try_from(size).ok()?)?)
        };
        let bytes = match &self.contents {
            Contents::Held => None,
            Contents::Resident(all) => all.iter().find_map(|(segment, bytes)| {
                Bytes::new(Arc::new(bytes.clone())).slice(within(segment)?)
            }),
            Contents::Copied(all) => all.iter().find_map(|(segment, bytes)| {
                Bytes::new(Arc::new(bytes.clone())).slice(within(segment)?)
            }),
            Contents::Unloadable(all) => all.iter().find_map(|segment| {
                let range = within(segment)?;
                let mut bytes = vec![0; range.len()];
                let length = memory::read(self.slide.wrapping_add(svma), &mut bytes);
                (length == bytes.len()).then(|| bytes.into())
            }),
        };
        let bytes = bytes.filter(|bytes| !bytes.is_empty())?;
        Some(Section::new(svma, bytes))
    }
}

/// Most sections that are looked at.
const SECTIONS: usize = 4096;

/// The svmas of `.eh_frame` in a 64-bit file. `gcc -static` writes no search table for it, and no program header then.
fn eh_frame_range(file: &[u8]) -> Option<Range<u64>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = usize::try_from(u32_at(file, 40)?).ok()?;
    let (size, count, names) = (u16_at(file, 58)?, u16_at(file, 60)?, u16_at(file, 62)?);
    let section = |index: usize| {
        let at = table.checked_add(index.checked_mul(size)?)?;
        file.get(at..at.checked_add(64)?)
    };
    let names = usize::try_from(u32_at(section(names)?, 24)?).ok()?;
    (0..count.min(SECTIONS)).find_map(|index| {
        let section = section(index)?;
        let name = names.checked_add(u32_at(section, 0)? as u32 as usize)?;
        file.get(name..)?
            .starts_with(b".eh_frame\0")
            .then_some(())?;
        let start = u32_at(section, 16)?;
        Some(start..start.checked_add(u32_at(section, 32)?)?)
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSection};

    #[test]
    fn the_section_of_this_program_is_the_one_that_another_reader_finds() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        let parsed = object::File::parse(&*file).unwrap();
        let section = parsed.section_by_name(".eh_frame").unwrap();
        let (start, size) = (section.address(), section.size());
        assert_eq!(eh_frame_range(&file), Some(start..start + size));
        // Cut, or all of one value: no panic.
        for length in (0..file.len()).step_by(file.len() / 50) {
            eh_frame_range(&file[..length]);
        }
        let mut rubbish = vec![0xff; 4096];
        rubbish[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(eh_frame_range(&rubbish), None);
    }
}
