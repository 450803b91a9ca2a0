//! Random registers, stacks and unwind sections: walks end, read only what they were given, and
//! over well-formed synthetic frames give exactly the chain that was laid out.

use proptest::prelude::*;
use wedjat::unwind::{
    Arch, Found, Images, LoadedImage, Registers, Section, StackCopy, Unwinder, WalkEnd,
};

const BASE: u64 = 0x5500_0000_0000;
const STACK: u64 = 0x7ffc_0000_0000;

/// `.eh_frame` for functions of 256 bytes each, from svma 0x10000 on: each has pushed rbp if it
/// keeps a frame pointer, and has so many words of its own. Written by hand from the format's
/// description (Linux Standard Base Core 5.0, 10.6).
fn eh_frame(functions: &[(bool, u8)], at: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut entry = |id: u32, body: &[u8]| {
        let mut padded = body.to_vec();
        while !(padded.len() + 8).is_multiple_of(8) {
            padded.push(0);
        }
        bytes.extend((padded.len() as u32 + 4).to_le_bytes());
        let id = if id == 0 { 0 } else { bytes.len() as u32 };
        bytes.extend(id.to_le_bytes());
        bytes.extend(&padded);
    };
    // CIE: version 1, "zR", code 1, data -8, RA 16, pcrel sdata4; CFA rsp + 8, RA at CFA - 8.
    entry(
        0,
        &[1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1],
    );
    let mut offset = 24u64;
    for (index, (frame_pointer, words)) in functions.iter().enumerate() {
        let start = 0x10000 + 256 * index as u64;
        let mut body = Vec::new();
        // The pc-relative start lies 8 bytes behind the entry's own.
        body.extend((start.wrapping_sub(at + offset + 8) as i32).to_le_bytes());
        body.extend(256u32.to_le_bytes());
        body.push(0);
        let cfa = 8 * (u64::from(*words) + 1 + u64::from(*frame_pointer));
        if *frame_pointer {
            // CFA rbp + 16, rbp at CFA - 16.
            body.extend([0x0c, 6, 16, 0x86, 2]);
        } else {
            body.push(0x0e);
            let mut rest = cfa;
            while rest > 0x7f {
                body.push(rest as u8 & 0x7f | 0x80);
                rest >>= 7;
            }
            body.push(rest as u8);
        }
        if index == functions.len() - 1 {
            // The outermost function's return address is undefined.
            body.extend([0x07, 16]);
        }
        while !(body.len() + 8).is_multiple_of(8) {
            body.push(0);
        }
        entry(1, &body);
        offset += 8 + body.len() as u64;
    }
    bytes.extend([0; 4]);
    bytes
}

fn image(section: Vec<u8>) -> Images {
    let image = LoadedImage::new("synthetic", BASE, 0, 0x100_0000)
        .with_arch(Arch::X86_64)
        .with_eh_frame(Section::new(0x80_0000, section), None);
    Images::new(vec![image])
}

proptest! {
    #[test]
    fn a_laid_out_chain_is_walked_exactly(
        functions in prop::collection::vec((any::<bool>(), 0u8..200), 1..40),
        junk in any::<u64>(),
    ) {
        let images = image(eh_frame(&functions, 0x80_0000));
        // Lay the frames out, innermost first.
        let mut words = Vec::new();
        let mut chain = Vec::new();
        let mut rbp_slots = Vec::new();
        for (index, (frame_pointer, own)) in functions.iter().enumerate() {
            chain.push(BASE + 0x10000 + 256 * index as u64 + 50);
            words.extend((0..*own).map(|_| junk));
            if *frame_pointer {
                rbp_slots.push(words.len());
                words.push(junk);
            }
            words.push(BASE + 0x10000 + 256 * (index as u64 + 1) + 50);
        }
        let address = |slot: usize| STACK + 8 * slot as u64;
        let rbp = rbp_slots.first().map_or(junk, |slot| address(*slot));
        for pair in rbp_slots.windows(2) {
            words[pair[0]] = address(pair[1]);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let registers = Registers::x86_64(chain[0], STACK, rbp);
        let mut unwinder = Unwinder::new();
        // Once cold, once from the cache.
        for _ in 0..2 {
            let mut walk = unwinder.walk(&registers, &images, StackCopy::new(STACK, &bytes));
            let frames: Vec<_> = walk.by_ref().collect();
            prop_assert_eq!(frames.iter().map(|frame| frame.pc).collect::<Vec<_>>(), chain.clone());
            prop_assert_eq!(walk.end(), Some(WalkEnd::Root));
            prop_assert!(frames[1..].iter().all(|frame| frame.found == Found::UnwindInfo));
        }
        // A copy cut short gives a true part, and says so.
        let cut = bytes.len() / 2;
        let mut walk = unwinder.walk(&registers, &images, StackCopy::new(STACK, &bytes[..cut]));
        let frames: Vec<_> = walk.by_ref().map(|frame| frame.pc).collect();
        prop_assert!(chain.starts_with(&frames));
        prop_assert!(matches!(walk.end(), Some(WalkEnd::Truncated | WalkEnd::Root)));
    }

    #[test]
    fn anything_at_all_ends(
        functions in prop::collection::vec((any::<bool>(), 0u8..200), 1..8),
        broken in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        registers in prop::array::uniform32(any::<u64>()),
        near in any::<bool>(),
        stack in prop::collection::vec(any::<u8>(), 0..2000),
        arm64 in any::<bool>(),
    ) {
        let mut section = eh_frame(&functions, 0x80_0000);
        for (index, byte) in &broken {
            let at = index.index(section.len());
            section[at] = *byte;
        }
        let images = image(section);
        let arch = if arm64 { Arch::Arm64 } else { Arch::X86_64 };
        let mut file = Registers::new(arch);
        for (number, value) in registers.into_iter().enumerate() {
            file.set(number, value);
        }
        if near {
            file = if arm64 {
                Registers::arm64(BASE + 0x10020, STACK, STACK + 64, BASE + 0x10120)
            } else {
                Registers::x86_64(BASE + 0x10020, STACK, STACK + 64)
            };
        }
        let mut unwinder = Unwinder::new();
        let mut walk = unwinder.walk(&file, &images, StackCopy::new(STACK, &stack));
        let count = walk.by_ref().count();
        prop_assert!(walk.end().is_some());
        prop_assert!(count <= 66 * (stack.len() + 2));
    }
}
