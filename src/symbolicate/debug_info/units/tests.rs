//! Tests of the addresses that units claim, and of units whose other half is in another file.

use super::*;
use crate::symbolicate::debug_info::checked_units;
use crate::symbolicate::debug_info::dwarf::DwarfSections;
use crate::symbolicate::debug_info::dwarf::assembled::{sized, unit, view};
use crate::symbolicate::files::object_file;
use addr2line::{Context, LookupResult};

/// This very program: some of its units state ranges, some have empty lists, some declare alone.
#[test]
fn a_unit_claims_each_address_that_addr2line_knows() {
    let path = std::env::current_exe().unwrap();
    let object = &object_file::open(&path).unwrap()[0];
    let sections = DwarfSections::load(object).expect("tests are built with debug information");
    let context = Context::from_dwarf(sections.view_all(None, |_| true).unwrap()).unwrap();
    let mut units = Units::new(&sections.view(None), &object.code);
    let (mut known, mut unknown) = (0, 0);
    for &(start, end) in &object.code {
        let step = ((end - start) / 300).max(1) as usize;
        for address in (start..end).step_by(step) {
            let claimed = !units.at(address, || sections.view(None)).is_empty();
            let LookupResult::Output(frames) = context.find_frames(address) else {
                panic!("split DWARF");
            };
            let is_known = frames.unwrap().next().unwrap().is_some();
            assert!(claimed || !is_known, "{address:#x}");
            known += usize::from(is_known);
            unknown += usize::from(!claimed);
        }
    }
    assert!(known > 100, "{known}");
    assert!(unknown > 0, "the start-up code of C has no DWARF");
}

/// The rows of one sequence in `begin..end`, DWARF 4.
fn lines(begin: u64, end: u64) -> Vec<u8> {
    let header = [
        &[1, 1, 1, 0xfb, 14, 13][..],
        &[0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1],
        &[0, 0],
    ]
    .concat();
    let mut body = vec![4, 0, header.len() as u8, 0, 0, 0];
    body.extend(header);
    body.extend([0, 9, gimli::DW_LNE_set_address.0]);
    body.extend(begin.to_le_bytes());
    body.extend([gimli::DW_LNS_copy.0, gimli::DW_LNS_advance_pc.0]);
    let len = end - begin;
    body.extend([len as u8 | 0x80, (len >> 7) as u8 | 0x80, (len >> 14) as u8]);
    body.extend([0, 1, gimli::DW_LNE_end_sequence.0]);
    sized(&body)
}

/// Three units that state no addresses, their roots' abbreviation first in its table or near its end.
#[test]
fn units_without_ranges_are_where_their_lines_are() {
    for others in [0, 1, 100, 5000u32] {
        let mut abbreviations = Vec::new();
        for code in 2..others + 2 {
            let code = [code as u8 | 0x80, (code >> 7) as u8];
            abbreviations.extend(code);
            abbreviations.extend([0x34, 0, 0x03, 0x08, 0, 0]);
        }
        abbreviations.extend([1, 0x11, 0, 0x10, 0x17, 0, 0, 0]);
        let (mut info, mut program) = (Vec::new(), Vec::new());
        let mut offsets = Vec::new();
        for (begin, end) in [(0x1000, 0x1010), (0, 0x1800), (0x4000, 0x4010)] {
            offsets.push(info.len());
            let at = program.len() as u32;
            info.extend(unit(&[&[1][..], &at.to_le_bytes()].concat()));
            program.extend(lines(begin, end));
        }
        let parts = [
            (gimli::SectionId::DebugAbbrev, &abbreviations[..]),
            (gimli::SectionId::DebugInfo, &info),
            (gimli::SectionId::DebugLine, &program),
        ];
        let view = || view(&parts);
        let mut units = Units::new(&view(), &[(0x1000, 0x2000)]);
        // A unit that the linker removed claims no address alone, however long it was.
        assert!(units.at(0x1700, view).is_empty(), "{others}");
        // addr2line reads it where another claims the address, so that it is checked as well.
        let mut both = units.at(0x1008, view);
        both.sort_unstable();
        assert_eq!(both, offsets[..2], "{others}");
        assert!(units.at(0x1900, view).is_empty(), "{others}");
        let context = Context::from_dwarf(view()).unwrap();
        assert!(
            context
                .find_dwarf_and_unit(0x1008)
                .skip_all_loads()
                .is_some()
        );
    }
}

/// A unit with an id of another file, as modules and split DWARF have it.
#[test]
fn a_unit_of_a_module_is_no_half_of_one_with_code() {
    // Roots with the id of GNU's, without code and with it.
    let abbreviations = [
        &[1, 0x11, 0][..],
        &[0xb1, 0x42, 0x07, 0xb0, 0x42, 0x08, 0, 0],
        &[2, 0x11, 0, 0xb1, 0x42, 0x07, 0xb0, 0x42, 0x08],
        &[0x11, 0x01, 0x12, 0x07, 0, 0],
        &[3, 0x11, 0, 0x11, 0x01, 0x12, 0x07, 0, 0, 0],
    ]
    .concat();
    let named = |code: u8, name: &[u8], range: &[u64]| {
        let range = range.iter().flat_map(|word| word.to_le_bytes());
        let root = [&[code][..], &7u64.to_le_bytes(), name, &[0]].concat();
        unit(&root.into_iter().chain(range).collect::<Vec<u8>>())
    };
    let own = [0x1000u64, 0x10].map(u64::to_le_bytes).concat();
    let own = unit(&[&[3][..], &own].concat());
    for (other, is_partial) in [
        (named(1, b"Dispatch-3A.pcm", &[]), false),
        (named(1, b"", &[]), false),
        (named(2, b"a.dwo", &[0x1100, 0x10]), true),
        (named(2, b"thrown-away.dwo", &[0x1100, 0]), false),
    ] {
        let info = [&own[..], &other].concat();
        let parts = [
            (gimli::SectionId::DebugAbbrev, &abbreviations[..]),
            (gimli::SectionId::DebugInfo, &info),
        ];
        let mut units = Units::new(&view(&parts), &[(0x1000, 0x2000)]);
        assert_eq!(units.is_partial, is_partial);
        assert_eq!(units.at(0x1008, || view(&parts)), [0]);
    }
}

/// Units without entries are not read. That is no damage.
#[test]
fn empty_units_are_no_damage() {
    let abbreviations = [3, 0x11, 0, 0x11, 0x01, 0x12, 0x07, 0, 0, 0];
    let own = [0x1000u64, 0x10].map(u64::to_le_bytes).concat();
    let own = unit(&[&[3][..], &own].concat());
    for (other, is_cut) in [
        (&[][..], false),
        (&[0][..], false),
        (&[0; 9], false),
        (&[7], true),
    ] {
        let info = [unit(other), own.clone(), unit(other)].concat();
        let parts = [
            (gimli::SectionId::DebugAbbrev, &abbreviations[..]),
            (gimli::SectionId::DebugInfo, &info),
        ];
        let mut units = Units::new(&view(&parts), &[(0x1000, 0x2000)]);
        assert_eq!(units.is_cut, is_cut, "{other:?}");
        assert_eq!(
            checked_units::all_sound(&view(&parts)).is_some(),
            !is_cut,
            "{other:?}"
        );
        assert_eq!(units.at(0x1008, || view(&parts)).len(), 1, "{other:?}");
    }
}
