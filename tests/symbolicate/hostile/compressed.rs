//! Compressed sections that claim to unpack to more than there can be.

use std::fs;

use super::{assembled, unit};
use crate::deadline::{most_memory, symbolicate};

#[test]
fn a_section_that_claims_to_unpack_without_end_is_an_error() {
    // A header as that of a compressed section: zlib, and how long it will be.
    let bomb = |unpacked: u64| {
        format!(
            "{}\n.section .debug_str,\"\",@progbits\n.long 1, 0\n.quad {unpacked}, 1\n.fill 1000, 1, 0x78",
            unit("", "")
        )
    };
    for (unpacked, is_reported) in [(1 << 42, true), (8 << 30, true), (4000, false)] {
        let workshop = assembled(&bomb(unpacked));
        let path = workshop.path("a.so");
        let mut bytes = fs::read(&path).unwrap();
        mark_compressed(&mut bytes, ".debug_str");
        fs::write(&path, bytes).unwrap();
        let ran = symbolicate([
            "--no-cache",
            "--debug",
            path.to_str().unwrap(),
            "--address",
            "10",
        ]);
        assert_eq!(
            ran.code,
            Some(if is_reported { 3 } else { 0 }),
            "{}",
            ran.err
        );
        assert_eq!(
            ran.err.contains("claims to unpack from 1000 bytes"),
            is_reported,
            "{}",
            ran.err
        );
    }
    assert!(most_memory() < 700 << 20, "{} bytes", most_memory());
}

/// Each of them within what its size allows, as several over the same bytes are.
#[test]
fn sections_that_together_claim_to_unpack_without_end_are_an_error() {
    for (count, is_reported) in [(40, true), (2, false)] {
        let names: Vec<String> = (0..count).map(|at| format!(".debug_x{at:02}")).collect();
        let section = |name: &String| {
            format!(
                "\n.section {name},\"\",@progbits\n.long 1, 0\n.quad 1000000, 1\n.fill 1000, 1, 0x78"
            )
        };
        let sections: String = names.iter().map(section).collect();
        let workshop = assembled(&(unit("", "") + &sections));
        let path = workshop.path("a.so");
        let mut bytes = fs::read(&path).unwrap();
        for name in &names {
            mark_compressed(&mut bytes, name);
        }
        fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        let ran = symbolicate(["--no-cache", "--debug", path, "--address", "10"]);
        let code = if is_reported { 3 } else { 0 };
        assert_eq!(ran.code, Some(code), "{}", ran.err);
        let words = "its sections claim to unpack to";
        assert_eq!(ran.err.contains(words), is_reported, "{}", ran.err);
    }
}

/// Sets SHF_COMPRESSED in the header of a section of an ELF file of 64 bits.
fn mark_compressed(bytes: &mut [u8], name: &str) {
    let number = |bytes: &[u8], at: usize, len: usize| {
        let mut wide = [0; 8];
        wide[..len].copy_from_slice(&bytes[at..at + len]);
        u64::from_le_bytes(wide) as usize
    };
    let (headers, count) = (number(bytes, 0x28, 8), number(bytes, 0x3c, 2));
    let names = headers + 64 * number(bytes, 0x3e, 2);
    let names = number(bytes, names + 0x18, 8);
    for header in (0..count).map(|index| headers + 64 * index) {
        let at = names + number(bytes, header, 4);
        if bytes[at..].starts_with(format!("{name}\0").as_bytes()) {
            bytes[header + 9] |= 0x08;
            return;
        }
    }
    panic!("no section {name}");
}
