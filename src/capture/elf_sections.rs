//! The section table of an ELF file, for what no program header states.
//!
//! Source: the generic ABI, "ELF Header" and "Sections".

use std::ops::Range;

/// Most sections that are looked at.
const SECTIONS: usize = 4096;

/// The svmas of `.eh_frame` in a 64-bit file. `gcc -static` writes no search table for it, and no program header then.
pub(super) fn eh_frame(file: &[u8]) -> Option<Range<u64>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = usize::try_from(word(file, 40)?).ok()?;
    let (size, count, names) = (half(file, 58)?, half(file, 60)?, half(file, 62)?);
    let section = |index: usize| {
        let at = table.checked_add(index.checked_mul(size)?)?;
        file.get(at..at.checked_add(64)?)
    };
    let names = usize::try_from(word(section(names)?, 24)?).ok()?;
    (0..count.min(SECTIONS)).find_map(|index| {
        let section = section(index)?;
        let name = names.checked_add(word(section, 0)? as u32 as usize)?;
        file.get(name..)?
            .starts_with(b".eh_frame\0")
            .then_some(())?;
        let start = word(section, 16)?;
        Some(start..start.checked_add(word(section, 32)?)?)
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
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
        assert_eq!(eh_frame(&file), Some(start..start + size));
        // Cut, or all of one value: no panic.
        for length in (0..file.len()).step_by(file.len() / 50) {
            eh_frame(&file[..length]);
        }
        let mut rubbish = vec![0xff; 4096];
        rubbish[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(eh_frame(&rubbish), None);
    }
}
