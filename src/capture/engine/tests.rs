//! framehop's private cache: what `evict` must know of it.

use super::*;
use crate::capture::Arch;

/// `.eh_frame` at `AT` with one entry at `ENTRY`, whose code begins at `CODE`: the CFA is so many bytes above the stack pointer.
fn section(cfa: u8) -> Section {
    let begin = (CODE - (AT + ENTRY as u64 + 8)) as u32;
    let mut bytes = vec![
        0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0,
        0, 0x10, 0, 0, 0, 0x1c, 0, 0, 0,
    ];
    bytes.extend(begin.to_le_bytes());
    bytes.extend(0x1_0000u32.to_le_bytes());
    bytes.extend([0, 0x0e, cfa, 0]);
    Section::new(AT, bytes)
}

const AT: u64 = 0x10_0000;
const ENTRY: usize = 24;
const CODE: u64 = 0x20_0000;

#[test]
fn what_was_learned_at_an_address_is_forgotten_before_another_entry_is_shown_there() {
    let sections = [section(16), section(32)];
    let rule = |scratch: &mut Scratch, which: usize, svma| {
        scratch.rule_of_entry(&sections[which], ENTRY, svma, Arch::X86_64)
    };
    let fresh = [0, 1].map(|which| rule(&mut Scratch::new(), which, CODE));
    assert!(fresh[0].is_some() && fresh[1].is_some() && fresh[0] != fresh[1]);
    // Each place of the cache is used twice.
    let mut scratch = Scratch::new();
    for svma in CODE..CODE + 2 * SLOTS {
        for which in [0, 1] {
            let learned = rule(&mut scratch, which, svma);
            assert_eq!(
                learned, fresh[which],
                "framehop's cache has no longer {SLOTS} places by the remainder of the address: see `Scratch::evict`"
            );
        }
    }
}
