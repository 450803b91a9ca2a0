//! Tells return addresses, which stand behind a call, from other words.

use crate::capture::images::Images;
use crate::capture::registers::Arch;

/// Returns true if an address is in known code and, if its instructions are known, behind a call.
pub(super) fn is_behind_call(images: &Images, arch: Arch, address: u64) -> bool {
    let before = address.wrapping_sub(1);
    let Some(image) = images.find(before).and_then(|index| images.get(index)) else {
        return false;
    };
    if !image.is_code(before) {
        return false;
    }
    match arch {
        Arch::X86_64 => {
            let at = |back: u64| image.instructions(address.wrapping_sub(back), 2);
            if at(1).is_none() {
                return true;
            }
            ends_in_call(&at)
        }
        Arch::Arm64 => {
            let Some(code) = image.instructions(address.wrapping_sub(4), 4) else {
                return true;
            };
            let word = code.try_into().map(u32::from_le_bytes).unwrap_or(0);
            // bl; blr and its authenticating kin (Arm ARM, C4.1).
            word >> 26 == 0x25 || word & 0xfebf_f000 == 0xd63f_0000 & 0xfebf_f000
        }
    }
}

/// Returns the target of the direct x86_64 call (`e8 rel32`) that ends at an address. Signal-safe.
pub(super) fn called_before(images: &Images, address: u64) -> Option<u64> {
    let call = address.checked_sub(5)?;
    let image = images.get(images.find(call)?)?;
    let [0xe8, a, b, c, d] = *image.instructions(call, 5)? else {
        return None;
    };
    let by = i32::from_le_bytes([a, b, c, d]);
    image
        .is_code(call)
        .then(|| address.wrapping_add_signed(by.into()))
}

/// Returns true if an x86_64 call ends there: `at(back)` gives the two bytes that lie so far before. It is `e8 rel32`,
/// or `ff /2` with its operand's length (Intel SDM volume 2, CALL and table 2-2).
fn ends_in_call<'a>(at: &dyn Fn(u64) -> Option<&'a [u8]>) -> bool {
    if at(5).is_some_and(|code| code.first() == Some(&0xe8)) {
        return true;
    }
    [2u64, 3, 4, 6, 7, 8].into_iter().any(|length| {
        let Some([0xff, modrm, ..]) = at(length) else {
            return false;
        };
        let (mode, rm) = (modrm >> 6, modrm & 7);
        let sib = u64::from(mode != 3 && rm == 4);
        let displacement = match (mode, rm) {
            (0, 5) | (2, _) => 4,
            (1, _) => 1,
            _ => 0,
        };
        // Without a base, `[index * scale + disp32]`, it is 7 bytes.
        let fits = length == 2 + sib + displacement || (mode == 0 && sib == 1 && length == 7);
        modrm & 0x38 == 0x10 && fits
    })
}
