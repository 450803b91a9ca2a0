//! Mutated debug information: no line is lost in one engine that the other has.

use object::{Object as _, ObjectSection as _};

use super::*;
use crate::symbolicate::files::object_file;

/// Addresses with a line in one engine alone: straight from DWARF, and in the table.
#[derive(Debug, Default, PartialEq)]
struct Alone {
    direct: u64,
    table: u64,
}

/// A file with these bytes: which addresses have a line in one engine alone, and how many in both. `None` where
/// it is refused as a whole, or no table can be made of it.
fn compare(bytes: Vec<u8>) -> Option<(Alone, u64)> {
    let options = DebugFileOptions {
        jobs: 1,
        cache: None,
    };
    let objects = object_file::open_bytes("mutated".as_ref(), SharedBytes::from(bytes)).ok()?;
    let object = objects.into_iter().next()?;
    let code = object.code.clone();
    let debug_file = DebugFile::new(object, None, Arc::new(options));
    let file = debug_file.inner.clone();
    let sections = Arc::new(DwarfSections::load(&file.object)?);
    let table = convert(&file.object, &sections, file.symbols(), &file.stop)?;
    let table = FullTable::new(SharedBytes::from(table), file.object.base).unwrap();
    let (mut alone, mut both) = (Alone::default(), 0);
    let has_line = |answer: Option<Resolved>| answer.is_some_and(|of| of.frames[0].line.is_some());
    for address in code
        .iter()
        .flat_map(|&(start, end)| (start..end).step_by(16))
    {
        let direct = has_line(file.lookup_directly(address).0);
        match (direct, has_line(table.lookup(address))) {
            (true, false) => alone.direct += 1,
            (false, true) => alone.table += 1,
            (both_have, _) => both += u64::from(both_have),
        }
    }
    Some((alone, both))
}

/// `MUTATIONS=10000` tries so many.
#[test]
fn no_line_of_a_mutated_file_is_lost_in_one_engine() {
    let whole =
        std::fs::read("testdata/macho/arm64/kiosk.dSYM/Contents/Resources/DWARF/kiosk").unwrap();
    let ranges: Vec<(String, std::ops::Range<usize>)> = {
        let file = object::File::parse(&*whole).unwrap();
        let sections = file.sections().filter_map(|section| {
            let (start, size) = section.file_range()?;
            let range = start as usize..(start + size) as usize;
            Some((section.name().ok()?.to_owned(), range))
        });
        sections.collect()
    };
    let range = |name: &str| {
        let found = ranges.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("{ranges:?}")).1.clone()
    };
    let (plain, both) = compare(whole.clone()).unwrap();
    assert_eq!((plain, both > 100), (Alone::default(), true));
    let count = std::env::var("MUTATIONS").map_or(80, |count| count.parse().unwrap());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let mut refused = 0;
    let mut differ = Vec::new();
    for number in 0..count {
        let (name, most) = [
            ("__debug_line", 1),
            ("__debug_line", 4),
            ("__debug_info", 1),
            ("__debug_ranges", 1),
        ][number % 4];
        let (range, mut changed) = (range(name), whole.clone());
        let mut at = 0;
        for _ in 0..1 + next(most) {
            at = range.start + next(range.len());
            changed[at] = [0, 0xff, 0x7f, 0x80, next(256) as u8][next(5)];
        }
        match compare(changed) {
            Some((alone, _)) if alone != Alone::default() => {
                differ.push((number, name, at - range.start, alone));
            }
            Some(_) => {}
            None => refused += 1,
        }
    }
    assert_eq!(differ, [], "{refused} of {count} refused");
}
