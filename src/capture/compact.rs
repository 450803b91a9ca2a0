//! Apple's compact unwind information: from an address to how its function's callers are found.
//!
//! Source: mach-o/compact_unwind_encoding.h. What it says holds in a function's body alone: neither
//! in its prologue nor in its epilogue, nor on early ways out (see [`super::flow`]).

use super::images::Section;
use super::registers::Arch;
use super::rule::{Base, Rule};

/// What the section says of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compact {
    /// In the body, this rule holds.
    Body(Rule),
    /// See `__eh_frame`.
    Dwarf,
    /// Nothing.
    Nothing,
}

/// `UNWIND_SECTION_VERSION`, and the kinds of second-level pages.
const VERSION: u32 = 1;
const REGULAR: u32 = 2;
const COMPRESSED: u32 = 3;

/// Where the entry for an address ends up: the start of its range (svma) and its encoding.
fn encoding(section: &Section, image: u64, svma: u64) -> Option<(u64, u32)> {
    let bytes: &[u8] = &section.bytes;
    let word = |at: usize| -> Option<u32> {
        let word = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    };
    let half = |at: usize| -> Option<usize> {
        let half = bytes.get(at..at.checked_add(2)?)?;
        Some(usize::from(u16::from_le_bytes(half.try_into().ok()?)))
    };
    if word(0)? != VERSION {
        return None;
    }
    let offset = u32::try_from(svma.checked_sub(image)?).ok()?;
    let (common, common_count) = (word(4)? as usize, word(8)? as usize);
    let (index, count) = (word(20)? as usize, word(24)? as usize);
    // The last entry says where the functions end.
    let first = |at: usize| word(index.checked_add(at.checked_mul(12)?)?);
    let page = last_at_or_before(count, offset, &first)?;
    if page.checked_add(1)? >= count {
        return None;
    }
    let start = first(page)?;
    let at = word(index + page * 12 + 4)? as usize;
    let (entries, entry_count) = (at.checked_add(half(at.checked_add(4)?)?)?, half(at + 6)?);
    match word(at)? {
        REGULAR => {
            let entry = last_at_or_before(entry_count, offset, &|n| word(entries + n * 8))?;
            let start = word(entries + entry * 8)?;
            Some((
                image.wrapping_add(start.into()),
                word(entries + entry * 8 + 4)?,
            ))
        }
        COMPRESSED => {
            let own = at.checked_add(half(at + 8)?)?;
            let inside = offset.checked_sub(start)?;
            let entry = last_at_or_before(entry_count, inside, &|n| {
                Some(word(entries + n * 4)? & 0xff_ffff)
            })?;
            let entry = word(entries + entry * 4)?;
            let which = (entry >> 24) as usize;
            let encoding = match which.checked_sub(common_count) {
                None => word(common.checked_add(which * 4)?)?,
                Some(own_index) => word(own + own_index * 4)?,
            };
            let start = u64::from(start) + u64::from(entry & 0xff_ffff);
            Some((image.wrapping_add(start), encoding))
        }
        _ => None,
    }
}

/// Where entries of the section begin (svma), in order, and whether each is of one function alone: linkers
/// fold neighbours with the same encoding, but not those with a landing pad, those that are left to
/// `__eh_frame`, and those whose size stands in an instruction.
pub(crate) fn entries(section: &Section, image: u64, arch: Arch) -> Vec<(u64, bool)> {
    /// `UNWIND_HAS_LSDA`
    const LANDING_PAD: u32 = 0x4000_0000;
    let word = |at: usize| -> Option<u32> {
        let word = section.bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    };
    let half = |at: usize| word(at).map(|word| word as usize & 0xffff);
    let page = |at: usize| -> Option<Vec<u32>> {
        let (start, page) = (word(at)?, word(at.checked_add(4)?)? as usize);
        let first = page.checked_add(half(page.checked_add(4)?)?)?;
        let (size, mask, from) = match word(page)? {
            REGULAR => (8, u32::MAX, 0),
            COMPRESSED => (4, 0xff_ffff, start),
            _ => return None,
        };
        let each = 0..half(page.checked_add(6)?)?;
        let entry = |n: usize| Some(from.wrapping_add(word(first.checked_add(n * size)?)? & mask));
        Some(each.map_while(entry).collect())
    };
    let (Some(index), Some(count)) = (word(20), word(24)) else {
        return Vec::new();
    };
    let pages = (0..count as usize).map_while(|n| {
        let at = (index as usize).checked_add(n.checked_mul(12)?)?;
        word(at).map(|_| at)
    });
    let offsets = pages.filter_map(page).flatten();
    let mut found: Vec<(u64, bool)> = offsets
        .map(|offset| {
            let start = image.wrapping_add(offset.into());
            let encoding = encoding(section, image, start).map_or(0, |(_, encoding)| encoding);
            let alone = match (arch, encoding >> 24 & 0x0f) {
                (Arch::Arm64, 3) | (Arch::X86_64, 3 | 4) => true,
                _ => encoding & LANDING_PAD != 0,
            };
            (start, alone)
        })
        .collect();
    found.sort_unstable();
    found.dedup_by_key(|entry| entry.0);
    found
}

/// The last of `count` sorted values that is not above `wanted`.
fn last_at_or_before(
    count: usize,
    wanted: u32,
    value: &dyn Fn(usize) -> Option<u32>,
) -> Option<usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if value(middle)? <= wanted {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low.checked_sub(1)
}

/// What the section says of the function at an address (svma) of the image that is stated to begin
/// at `image`. `text` gives instruction bytes by svma. Signal-safe.
pub(crate) fn find<'t>(
    section: &Section,
    image: u64,
    svma: u64,
    arch: Arch,
    text: &dyn Fn(u64, usize) -> Option<&'t [u8]>,
) -> Compact {
    let Some((start, encoding)) = encoding(section, image, svma) else {
        return Compact::Nothing;
    };
    let rule = match (arch, encoding >> 24 & 0x0f) {
        (Arch::Arm64, 3) | (Arch::X86_64, 4) => return Compact::Dwarf,
        // UNWIND_ARM64_MODE_FRAME; UNWIND_X86_64_MODE_RBP_FRAME
        (Arch::Arm64, 4) | (Arch::X86_64, 1) => Rule::frame(Base::Fp, 16, Some(-8), Some(-16)),
        // UNWIND_ARM64_MODE_FRAMELESS: of a leaf, so that lr is its caller's still.
        (Arch::Arm64, 2) => {
            let size = i64::from(encoding >> 12 & 0xfff) * 16;
            Rule::frame(Base::Sp, size, None, None)
        }
        // UNWIND_X86_64_MODE_STACK_IMMD
        (Arch::X86_64, 2) => {
            let size = i64::from(encoding >> 16 & 0xff) * 8;
            Rule::frame(Base::Sp, size, Some(-8), saved_rbp(encoding))
        }
        // UNWIND_X86_64_MODE_STACK_IND: the size stands in the instruction `sub $size, %rsp`.
        (Arch::X86_64, 3) => {
            let at = start.wrapping_add(u64::from(encoding >> 16 & 0xff));
            let size = text(at, 4)
                .and_then(|bytes| bytes.try_into().ok())
                .map(u32::from_le_bytes);
            let adjust = i64::from(encoding >> 13 & 7) * 8;
            size.and_then(|size| {
                let size = i64::from(size) + adjust;
                Rule::frame(Base::Sp, size, Some(-8), saved_rbp(encoding))
            })
        }
        _ => None,
    };
    rule.map_or(Compact::Nothing, Compact::Body)
}

/// Where a function without a frame has put its caller's rbp, counted from the CFA: registers are
/// pushed right below the return address, and stand in the encoding as a permutation of six.
fn saved_rbp(encoding: u32) -> Option<i64> {
    const RBP: u8 = 6;
    let count = (encoding >> 10 & 7) as usize;
    let mut code = encoding & 0x3ff;
    if count > 6 {
        return None;
    }
    // Digits of a number whose places count 6 - 1, 6 - 2, ... possibilities (the header's
    // "permutation" of six registers taken `count` at a time).
    let mut digits = [0u32; 6];
    for place in (0..count).rev() {
        let base = 6 - place as u32;
        let digit = digits.get_mut(place)?;
        if place + 1 == 6 {
            *digit = 0;
            continue;
        }
        *digit = code % base;
        code /= base;
    }
    let mut left = [1u8, 2, 3, 4, 5, 6];
    for (place, digit) in digits.iter().take(count).enumerate() {
        let (at, register) = left
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, register)| *register != 0)
            .nth(*digit as usize)?;
        *left.get_mut(at)? = 0;
        if register == RBP {
            // The first in the list was pushed last: it lies lowest.
            return Some(-8 * (count - place) as i64 - 8);
        }
    }
    None
}
