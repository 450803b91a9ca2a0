//! Any registers, any stack, any unwind sections: a walk ends, and reads nothing outside them.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use wedjat::unwind::{
    Arch, Images, LoadedImage, Memory, Missing, Registers, Section, StackCopy, Unwinder,
};

#[derive(Arbitrary, Debug)]
struct Input {
    arm64: bool,
    registers: [u64; 34],
    base: u64,
    stack: Vec<u8>,
    images: Vec<Image>,
}

#[derive(Arbitrary, Debug)]
struct Image {
    base: u32,
    stated: u32,
    size: u32,
    eh_frame: Vec<u8>,
    header: Option<Vec<u8>>,
    text: Vec<u8>,
    entry: u32,
    unwind_info: Option<Vec<u8>>,
}

/// Counts what is read: a walk that does not end would read for ever.
struct Counted<'a>(StackCopy<'a>, u64);

impl Memory for Counted<'_> {
    fn read(&mut self, address: u64) -> Result<u64, Missing> {
        self.1 += 1;
        self.0.read(address)
    }
}

fuzz_target!(|input: Input| {
    let arch = if input.arm64 {
        Arch::Arm64
    } else {
        Arch::X86_64
    };
    let images = input.images.into_iter().take(4).map(|image| {
        let stated = u64::from(image.stated);
        let section = |bytes: Vec<u8>, at: u64| Section::new(stated.wrapping_add(at), bytes);
        let any = LoadedImage::new("any", u64::from(image.base), stated, u64::from(image.size))
            .with_arch(arch)
            .with_entry(u64::from(image.entry))
            .with_text(section(image.text, 0))
            .with_eh_frame(
                section(image.eh_frame, 0x1000),
                image.header.map(|header| section(header, 0x800)),
            );
        match image.unwind_info {
            Some(bytes) => any.with_unwind_info(section(bytes, 0x2000)),
            None => any,
        }
    });
    let images = Images::new(images.collect());
    let mut registers = Registers::new(arch);
    for (number, value) in input.registers.into_iter().enumerate() {
        registers.set(number, value);
    }
    let mut unwinder = Unwinder::new();
    for _ in 0..2 {
        let mut memory = Counted(StackCopy::new(input.base, &input.stack), 0);
        let mut walk = unwinder.walk(&registers, &images, &mut memory);
        let count = walk.by_ref().count() as u64;
        assert!(walk.end().is_some());
        // Upward through the stack, and at most 64 times back to its beginning.
        assert!(count <= 66 * (input.stack.len() as u64 + 2));
        assert!(memory.1 <= 1 << 26);
    }
});
