//! `__unwind_info` with each of its bytes changed: walks end, and none panics.

use wedjat::unwind::{
    Arch, Found, Images, LoadedImage, Registers, RuleSource, Section, StackCopy, Unwinder,
};

const BASE: u64 = 0x1_0000_0000;
const STACK: u64 = 0x7000_0000;

/// Where the functions begin, and where the last one ends.
const FUNCTIONS: [u32; 5] = [0x1000, 0x1100, 0x1200, 0x2000, 0x2100];
const END: u32 = 0x3000;

/// A table by hand from its description (mach-o/compact_unwind_encoding.h): one encoding for all pages,
/// a compressed page with one encoding of its own, and a regular page.
fn unwind_info(encodings: [u32; 3]) -> Vec<u8> {
    let [common, own, regular] = encodings;
    let (index, first, second) = (28 + 4, 28 + 4 + 36, 28 + 4 + 36 + 12 + 12 + 4);
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let halves = |halves: &[u16]| halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    let parts: [Vec<u8>; 8] = [
        // Version; encodings, personalities and pages: where, and how many.
        words(&[1, 28, 1, 32, 0, index, 3]),
        words(&[common]),
        // Pages: their first function, where they stand, where their landing pads do.
        words(&[FUNCTIONS[0], first, 0, FUNCTIONS[3], second, 0, END, 0, 0]),
        words(&[3]),
        halves(&[12, 3, 24, 1]),
        words(&[0, 0x0100_0100, 0x200, own]),
        words(&[2]),
        [
            halves(&[8, 2]),
            words(&[FUNCTIONS[3], regular, FUNCTIONS[4], common]),
        ]
        .concat(),
    ];
    parts.concat()
}

/// Blocks of 16 bytes that end in a return.
fn code(arch: Arch) -> Vec<u8> {
    let (nop, ret): (&[u8], &[u8]) = match arch {
        Arch::X86_64 => (&[0x90], &[0xc3]),
        _ => (&[0x1f, 0x20, 0x03, 0xd5], &[0xc0, 0x03, 0x5f, 0xd6]),
    };
    [nop.repeat(16 / nop.len() - 1), ret.to_vec()]
        .concat()
        .repeat(0x200)
}

fn images(arch: Arch, table: Vec<u8>) -> Images {
    let image = LoadedImage::new("app", BASE, BASE, 0x4000)
        .with_arch(arch)
        .with_text(Section::new(BASE + 0x1000, code(arch)))
        .with_unwind_info(Section::new(BASE + 0x3000, table));
    Images::new(vec![image])
}

/// The encodings of each architecture: by the frame pointer, by the stack pointer (with a size of 32
/// bytes), and one that is wrong.
fn encodings(arch: Arch) -> [u32; 3] {
    match arch {
        Arch::X86_64 => [0x0100_0000, 0x0204_0000, 0x0300_0000],
        _ => [0x0400_0000, 0x0200_2000, 0x0f00_0000],
    }
}

/// The frames of a walk that stands behind a call at an address of the image.
fn walk(
    unwinder: &mut Unwinder,
    images: &Images,
    arch: Arch,
    at: u64,
) -> Vec<(u64, Found, Option<RuleSource>)> {
    // Frame records, one above the other, whose functions are all those of the image.
    let words: Vec<u64> = (0..64u64)
        .map(|word| match word % 4 {
            0 => STACK + 8 * (word + 4),
            _ => BASE + u64::from(FUNCTIONS[word as usize % 5]) + 0x10,
        })
        .collect();
    let stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let registers = match arch {
        Arch::X86_64 => Registers::x86_64(BASE + at, STACK, STACK),
        _ => Registers::arm64(BASE + at, STACK, STACK, 0),
    };
    let memory = StackCopy::new(STACK, &stack);
    let mut walk = unwinder.walk_from_call(&registers, images, memory);
    let mut frames = Vec::new();
    while let Some(frame) = walk.next() {
        frames.push((frame.pc, frame.found, walk.rule_source()));
    }
    assert!(walk.end().is_some() && frames.len() <= 65, "{frames:?}");
    frames
}

#[test]
fn a_sound_table_gives_what_framehop_gives() {
    for arch in [Arch::X86_64, Arch::Arm64] {
        let images = images(arch, unwind_info(encodings(arch)));
        let mut unwinder = Unwinder::new();
        let mut source = |at| walk(&mut unwinder, &images, arch, at)[0].2;
        for at in [0x1010, 0x1210, 0x2110] {
            assert_eq!(source(at), Some(RuleSource::Framehop), "{arch:?} {at:#x}");
        }
        let by_sp = match arch {
            Arch::X86_64 => RuleSource::Framehop,
            // Of a function that makes no call.
            _ => RuleSource::Row,
        };
        assert_eq!(source(0x1110), Some(by_sp), "{arch:?}");
    }
}

#[test]
fn no_changed_byte_makes_a_walk_on_x86_64_panic() {
    no_changed_byte_makes_a_walk_panic(Arch::X86_64);
}

#[test]
fn no_changed_byte_makes_a_walk_on_arm64_panic() {
    no_changed_byte_makes_a_walk_panic(Arch::Arm64);
}

fn no_changed_byte_makes_a_walk_panic(arch: Arch) {
    let table = unwind_info(encodings(arch));
    let mut unwinder = Unwinder::new();
    for at in 0..table.len() {
        for value in [
            0,
            1,
            2,
            3,
            4,
            0x0c,
            0x10,
            0x7f,
            0x80,
            0xff,
            table[at] ^ 0x10,
        ] {
            let mut changed = table.clone();
            changed[at] = value;
            let images = images(arch, changed);
            for address in [0, 0x0fff, 0x1010, 0x1110, 0x1210, 0x2010, 0x2110, 0x3010] {
                walk(&mut unwinder, &images, arch, address);
            }
        }
    }
    for length in 0..table.len() {
        let images = images(arch, table[..length].to_vec());
        walk(&mut unwinder, &images, arch, 0x1110);
    }
}
