//! Bytes for the tests of this room: code as text, and words.

use super::{Arch, LoadedImage, Section};

/// x86_64 code: instructions, with semicolons between them. `testdata/instructions/assemble` has assembled it.
pub(super) fn x86_64(text: &str) -> Vec<u8> {
    assembled("x86_64", text)
}

/// The same for arm64.
pub(super) fn arm64(text: &str) -> Vec<u8> {
    assembled("arm64", text)
}

/// The bytes that hexadecimal digits state.
pub(super) fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks_exact(2);
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16);
    digits.map(|digits| byte(digits).unwrap()).collect()
}

fn assembled(arch: &str, text: &str) -> Vec<u8> {
    let all = include_str!("../../testdata/instructions/assembled.tsv").lines();
    let found = all
        .filter_map(|line| {
            line.strip_prefix(arch)?
                .strip_prefix('\t')?
                .strip_prefix(text)
        })
        .find_map(|rest| rest.strip_prefix('\t'));
    let found = found.unwrap_or_else(|| panic!("run testdata/instructions/assemble for {text:?}"));
    bytes(found)
}

/// The bytes of words, as a stack holds them.
pub(super) fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// An image at `base` with code at an svma.
pub(super) fn image(arch: Arch, base: u64, svma: u64, code: Vec<u8>) -> LoadedImage {
    LoadedImage::new("app", base, 0, 0x1000)
        .with_arch(arch)
        .with_text(Section {
            svma,
            bytes: code.into(),
        })
}
