//! Compares framehop's results for plain entries with the rows that gimli builds of them.

use super::*;
use crate::capture::engine::Scratch;
use crate::capture::rule::{Base, Rule};

/// Random numbers, the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }
}

/// The address of these tests' sections, and the range of their one function.
const SECTION: u64 = 0x80_0000;
const FUNCTION: u64 = 0x1_0000;
const LENGTH: u64 = 256;

/// A CIE with these instructions and an entry with those, for the function above.
fn section(common: &[u8], own: &[u8], arch: Arch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut push = |id: &dyn Fn(u32) -> u32, body: &[u8]| {
        let mut body = body.to_vec();
        body.resize((body.len() + 8).next_multiple_of(8) - 8, 0);
        bytes.extend((body.len() as u32 + 4).to_le_bytes());
        bytes.extend(id(bytes.len() as u32).to_le_bytes());
        bytes.extend(body);
        bytes.len() as u64
    };
    // Version 1, "zR", code in 1, data in -8, the return address' column, pcrel sdata4.
    let head = [
        1,
        b'z',
        b'R',
        0,
        1,
        0x78,
        arch.return_address() as u8,
        1,
        0x1b,
    ];
    let at = push(&|_| 0, &[&head, common].concat());
    let start = FUNCTION.wrapping_sub(SECTION + at + 8) as i32;
    let head = [start.to_le_bytes(), (LENGTH as i32).to_le_bytes()].concat();
    push(&|at| at, &[&head, &[0][..], own].concat());
    bytes.extend([0; 4]);
    bytes
}

fn cfi(bytes: Vec<u8>) -> Option<Cfi> {
    let section = Section {
        svma: SECTION,
        bytes: bytes.into(),
    };
    Cfi::new(section, None, &[])
}

/// The first instructions of a CIE: CFA = sp + 8 and the return address below it, or CFA = sp.
fn entered(arch: Arch) -> Vec<u8> {
    match arch {
        Arch::X86_64 => vec![0x0c, 7, 8, 0x90, 1],
        Arch::Arm64 => vec![0x0c, 31, 0],
    }
}

/// Any instruction that an entry may have, most of them as compilers use them.
fn any_instruction(random: &mut Random, arch: Arch) -> Vec<u8> {
    let (sp, fp, ra) = (
        arch.sp() as u8,
        arch.fp() as u8,
        arch.return_address() as u8,
    );
    let register = [sp, fp, ra, 0, 1, 3, 12, 19][random.below(8) as usize];
    let offset = [0, 8, 16, 32, 48, 64, 112, 12][random.below(8) as usize];
    let slot = random.below(8) as u8;
    match random.below(14) {
        0..=2 => vec![0x40 | random.below(32) as u8],
        3 => vec![0x0c, [sp, fp][random.below(2) as usize], offset],
        4 => vec![0x0d, [sp, fp][random.below(2) as usize]],
        5 | 6 => vec![0x0e, offset],
        7 => vec![0x80 | fp, slot],
        8 => vec![0x80 | ra, slot],
        9 => vec![0x80 | register, slot],
        10 => vec![0xc0 | register],
        11 => vec![[0x0a, 0x0b][random.below(2) as usize]],
        12 => vec![[0x07, 0x08][random.below(2) as usize], register],
        // An expression; all registers; what no version of DWARF has.
        _ => [
            &[0x0f, 2, 0x70 + sp, 8][..],
            &[0x16, fp, 1, 0x50],
            &[0x2d],
            &[0x3f],
        ][random.below(4) as usize]
            .to_vec(),
    }
}

#[test]
fn a_rule_of_framehops_is_that_of_the_row() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut context, mut scratch) = (RowContext::new_in(), Scratch::new());
    for arch in [Arch::X86_64, Arch::Arm64] {
        let (mut all, mut learned) = (0u32, 0u32);
        for _ in 0..4_000 {
            let count = random.below(9);
            let own: Vec<u8> = (0..count)
                .flat_map(|_| any_instruction(&mut random, arch))
                .collect();
            let mut common = entered(arch);
            if random.below(4) == 0 {
                common.extend(any_instruction(&mut random, arch));
            }
            let bytes = section(&common, &own, arch);
            let cfi = cfi(bytes.clone()).expect("one entry");
            for _ in 0..4 {
                let at = FUNCTION + random.below(LENGTH + 16);
                all += 1;
                let row = cfi.find(at, &mut context).map(|found| rule(&found, arch));
                let found = cfi.rule(at, arch, &mut context, &mut scratch);
                assert_eq!(found.map(|found| found.rule()), row, "{at:#x} {bytes:02x?}");
                learned +=
                    u32::from(found.is_some_and(|found| found.source() == RuleSource::Framehop));
            }
        }
        assert!(learned * 10 > all, "{arch:?}: {learned} of {all}");
    }
}

#[test]
fn arm64_code_that_signs_its_return_address_has_rows() {
    // `aarch64-linux-gnu-gcc -O2 -mbranch-protection=pac-ret`: paciasp; stp x29, x30, [sp, #-32]!; …; ret.
    let own = [
        &[0x44, 0x2d][..],                   // advance 4, DW_CFA_AARCH64_negate_ra_state
        &[0x44, 0x0e, 32, 0x9d, 4, 0x9e, 3], // advance 4, CFA = sp + 32, x29 and x30 at its bottom
        &[0x60, 0xde, 0xdd, 0x0e, 0, 0x44, 0x2d],
    ];
    let section = section(&entered(Arch::Arm64), &own.concat(), Arch::Arm64);
    let cfi = cfi(section).expect("one entry");
    let (mut context, mut scratch) = (RowContext::new_in(), Scratch::new());
    let entered = Rule::frame(Base::Sp, 0, None, None);
    let body = Rule::frame(Base::Sp, 32, Some(-24), Some(-32));
    for (at, expected) in [
        (0, entered),
        (4, entered),
        (8, body),
        (36, body),
        (40, entered),
    ] {
        let found = cfi.rule(FUNCTION + at, Arch::Arm64, &mut context, &mut scratch);
        assert_eq!(found.map(|found| found.rule()), expected, "{at}");
    }
}

#[test]
fn an_address_is_looked_up_anew_in_each_image() {
    // All sections are shown to framehop at one place: what it has kept of one must not be taken for what holds
    // in another.
    let (mut context, mut scratch) = (RowContext::new_in(), Scratch::new());
    for load in 0..70_000u64 {
        let size = 16 + 8 * (load / 16_384) as u8;
        let bytes = section(&entered(Arch::X86_64), &[0x0e, size], Arch::X86_64);
        let cfi = cfi(bytes).expect("one entry");
        // Each place of its cache once in that many.
        if load % 64 == 0 {
            let at = FUNCTION + load / 64 % LENGTH;
            let found = cfi.rule(at, Arch::X86_64, &mut context, &mut scratch);
            let rule = Rule::frame(Base::Sp, size.into(), Some(-8), None).expect("short");
            assert_eq!(
                found,
                Some(RuleWord::new(rule, RuleSource::Framehop)),
                "{load}"
            );
        }
    }
}

#[test]
fn an_entry_of_one_row_is_in_doubt_until_its_code_is_known() {
    let (mut context, mut scratch) = (RowContext::new_in(), Scratch::new());
    let at = FUNCTION + 8;
    for (own, in_doubt) in [(&[][..], true), (&[0x41, 0x0e, 16], false)] {
        let bytes = section(&entered(Arch::X86_64), own, Arch::X86_64);
        let cfi = cfi(bytes).expect("one entry");
        let first = cfi.rule(at, Arch::X86_64, &mut context, &mut scratch);
        assert_ne!(cfi.has_exact_rows(at), in_doubt);
        cfi.set_exact_rows(at);
        assert!(cfi.has_exact_rows(at));
        let then = cfi.rule(at, Arch::X86_64, &mut context, &mut scratch);
        assert_eq!(
            (then, then.map(RuleWord::source)),
            (first, Some(RuleSource::Framehop))
        );
    }
}

#[test]
fn an_entry_that_does_not_count_from_itself_is_left_by_its_row() {
    // As `section` makes them, but that the function's address stands there as it is (absptr).
    let relative = section(&entered(Arch::X86_64), &[], Arch::X86_64);
    let at = relative.windows(2).position(|pair| pair == [1, 0x1b]);
    let at = at.expect("the form") + 1;
    let mut head = relative[..at + 1 + entered(Arch::X86_64).len()].to_vec();
    head[at] = 0;
    head.resize(head.len().next_multiple_of(8), 0);
    head[0] = head.len() as u8 - 4;
    let entry = head.len() as u32;
    let absolute = [
        head,
        28u32.to_le_bytes().to_vec(),
        (entry + 4).to_le_bytes().to_vec(),
        FUNCTION.to_le_bytes().to_vec(),
        LENGTH.to_le_bytes().to_vec(),
        vec![0; 12],
    ];
    let (mut context, mut scratch) = (RowContext::new_in(), Scratch::new());
    let rule = Rule::frame(Base::Sp, 8, Some(-8), None).expect("short");
    for (bytes, source) in [
        (relative, RuleSource::Framehop),
        (absolute.concat(), RuleSource::Row),
    ] {
        let cfi = cfi(bytes).expect("one entry");
        let found = cfi.rule(FUNCTION + 8, Arch::X86_64, &mut context, &mut scratch);
        assert_eq!(found, Some(RuleWord::new(rule, source)));
    }
}

#[cfg(target_os = "linux")]
mod of_this_process {
    use super::*;
    use crate::capture::{ImageTable, ImagesGuard};

    /// Each entry of each image of this process: libc, the loader, the vDSO and this program.
    fn entries(images: &ImagesGuard, mut check: impl FnMut(&Cfi, u64, usize)) {
        for image in images.images() {
            let Some(cfi) = &image.cfi else {
                continue;
            };
            let section = cfi.eh_frame();
            let mut entries = section.entries(&cfi.bases);
            while let Ok(Some(entry)) = entries.next() {
                let gimli::CieOrFde::Fde(partial) = entry else {
                    continue;
                };
                let entry = partial.parse(EhFrame::cie_from_offset).expect("parses");
                let (start, length) = (entry.initial_address(), entry.len());
                let step = (length / 20).max(1) as usize;
                for at in (0..length).step_by(step).chain([length.saturating_sub(1)]) {
                    check(cfi, start.wrapping_add(at), entry.offset());
                }
            }
        }
    }

    #[test]
    fn nearly_all_entries_are_plain_and_framehop_is_right_there() {
        ImageTable::refresh();
        let images = ImageTable::enter();
        let (mut context, mut scratch) = (RowContext::new_in(), Scratch::new());
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let (mut all, mut learned) = (0u32, 0u32);
        entries(&images, |cfi, svma, offset| {
            let place = cfi.index.entry(svma, cfi.section.svma);
            assert_eq!(place.map(|place| place.offset), Some(offset), "{svma:#x}");
            if random.below(8) != 0 {
                return; // of some 200,000
            }
            all += 1;
            let row = cfi.find_at(offset, svma, &mut context).expect("a row");
            let row = rule(&row, Arch::NATIVE);
            let found = cfi.rule(svma, Arch::NATIVE, &mut context, &mut scratch);
            let found = found.expect("a rule");
            assert_eq!(found.rule(), row, "{svma:#x}");
            learned += u32::from(found.source() == RuleSource::Framehop);
        });
        assert!(all > 10_000, "{all}");
        assert!(learned as f64 > 0.98 * all as f64, "{learned} of {all}");
    }

    /// Its begin is the signed -12, so that the addresses of its code would go on from 0 behind the last one.
    #[test]
    fn an_entry_whose_code_ends_before_it_begins_gives_no_rule() {
        let bytes = [
            0x14, 0, 0, 0, 0, 0, 0, 0, 1, 0x7a, 0x52, 0, 1, 0x78, 0x10, 1, 9, 0x0c, 7, 8, 0x90, 1,
            0, 0, 0x20, 0, 0, 0, 0x1c, 0, 0, 0, 0x74, 0xaf, 0xea, 0xff, 0x83, 0, 0, 0, 0, 0x41,
            0x0e, 0x10, 0x83, 2, 0x58, 0x0e, 0xa0, 0x20, 2, 0x63, 0x0a, 0x0e, 0x10, 0x41, 0x0e, 8,
            0x41, 0x0b,
        ];
        let (mut context, mut scratch) = (RowContext::new_in(), Scratch::new());
        let bytes = bytes.to_vec().into();
        let section = Section {
            svma: 0x10_0000,
            bytes,
        };
        let cfi = Cfi::new(section, None, &[]).expect("an entry");
        assert_eq!(
            cfi.rule(0x1000, Arch::X86_64, &mut context, &mut scratch),
            None
        );
        assert!(cfi.find(0x1000, &mut context).is_none());
    }

    #[test]
    fn a_changed_byte_leads_to_no_other_rule_than_the_row_does() {
        ImageTable::refresh();
        let images = ImageTable::enter();
        let (mut context, mut scratch) = (RowContext::new_in(), Scratch::new());
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let (mut learned, mut differ) = (0, 0);
        entries(&images, |cfi, svma, offset| {
            if random.below(64) != 0 {
                return;
            }
            // The entry and its CIE side by side, with a byte of them changed.
            let Some((entry, common)) = parts(&cfi.section.bytes, offset) else {
                return;
            };
            let at = common.len();
            let mut copy = [common, entry].concat();
            copy[at + 4..at + 8].copy_from_slice(&(at as u32 + 4).to_le_bytes());
            let changed = random.below(copy.len() as u64) as usize;
            copy[changed] = random.next() as u8;
            // The entry lies where it did, so that its function does.
            let section = Section {
                svma: cfi.section.svma + offset as u64 - at as u64,
                bytes: copy.clone().into(),
            };
            let Some(moved) = Cfi::new(section, None, &[]) else {
                return;
            };
            let found = moved.rule(svma, Arch::NATIVE, &mut context, &mut scratch);
            let found = found.filter(|found| found.source() == RuleSource::Framehop);
            if let Some(learnt) = found.map(RuleWord::rule) {
                learned += 1;
                let row = moved.find(svma, &mut context);
                let row = row.map(|found| rule(&found, Arch::NATIVE));
                if row != Some(learnt) {
                    differ += 1;
                    eprintln!("{learnt:?}, not {row:?}: {changed} of {copy:02x?}");
                }
            }
        });
        assert!(learned > 500, "{learned}");
        assert_eq!(differ, 0, "of {learned}");
    }

    /// An entry and its CIE, as bytes.
    fn parts(section: &[u8], offset: usize) -> Option<(&[u8], &[u8])> {
        let word = |at: usize| {
            let bytes = section.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
        };
        let whole = |at: usize| section.get(at..at + 4 + word(at)?);
        let common = offset + 4 - word(offset + 4)?;
        Some((whole(offset)?, whole(common)?))
    }
}
