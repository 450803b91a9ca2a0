//! The short form of a row straight from the bytes of an entry, for entries as compilers make them.
//!
//! A walk whose rules are not known yet spends nearly all of its time here. What is not of the usual
//! shape (another encoding of addresses, an expression for a register that counts, a CIE that is not
//! understood) is left to gimli, by saying nothing.
//!
//! Source: Linux Standard Base Core 5.0, 10.6.1 (entries); DWARF 5, 6.4.2 (instructions), 7.24 (their
//! codes).

use super::short::{self, Saved};
use crate::capture::registers::Arch;
use crate::capture::rule::{Packed, Rule};

/// What a row says of the three things that a short rule needs. It is small, so that it stays in
/// registers.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Its register, or [`NONE`], and what is added to it.
    cfa: (u32, i32),
    return_address: i32,
    fp: i32,
}

/// The CFA is an expression, or not said.
const NONE: u32 = u32::MAX;
/// In place of a distance from the CFA: not saved.
const NOWHERE: i32 = i32::MIN;
/// In place of a distance from the CFA: gone.
const LOST: i32 = i32::MIN + 1;

#[inline]
fn saved(at: i32) -> Saved {
    match at {
        NOWHERE => Saved::Nowhere,
        LOST => Saved::Lost,
        at => Saved::At(i64::from(at)),
    }
}

/// What a CIE says: how to read the instructions of its entries, and the row that they begin with.
#[derive(Debug, Clone, Copy)]
struct Common {
    code_align: u32,
    data_align: i32,
    return_address: u32,
    fp: u32,
    initial: Row,
}

/// CIEs that were read last: the entries of an image share a few.
#[derive(Debug)]
pub(crate) struct Commons {
    keys: [u64; 4],
    read: [Common; 4],
    next: usize,
}

/// The key of no CIE: none stands at the very end of 4 GiB.
const EMPTY: u64 = u64::MAX;

impl Commons {
    pub(crate) fn new() -> Commons {
        Commons {
            keys: [EMPTY; 4],
            read: [Common::EMPTY; 4],
            next: 0,
        }
    }

    /// The images have changed. Signal-safe.
    pub(crate) fn forget(&mut self) {
        self.keys = [EMPTY; 4];
    }

    /// The CIE that stands at an offset in the section of an image.
    #[inline]
    fn get(&mut self, section: &[u8], image: u32, offset: usize, arch: Arch) -> Option<&Common> {
        let offset = u32::try_from(offset).ok()?;
        let key = (arch as u64) << 63 | u64::from(image) << 32 | u64::from(offset);
        match self.keys.iter().position(|of| *of == key) {
            Some(at) => self.read.get(at),
            None => self.read(section, key, offset, arch),
        }
    }

    #[cold]
    fn read(&mut self, section: &[u8], key: u64, offset: u32, arch: Arch) -> Option<&Common> {
        let common = Common::read(section, offset as usize, arch)?;
        let at = self.next % self.keys.len();
        self.next = at + 1;
        *self.keys.get_mut(at)? = key;
        let slot = self.read.get_mut(at)?;
        *slot = common;
        Some(slot)
    }
}

/// The rule at a stated address, from the entry at `offset` of the section of an image, which lies at
/// `section_svma`; `None` where gimli is to be asked. Signal-safe.
#[inline]
pub(super) fn rule(
    (section, section_svma, image): (&[u8], u64, u32),
    offset: usize,
    svma: u64,
    arch: Arch,
    commons: &mut Commons,
) -> Option<Packed> {
    let mut entry = entry(section, offset)?;
    let pointer = u32(&mut entry)? as usize;
    // The pointer counts back from itself; 0 is a CIE's identifier.
    let common = (offset + 4).checked_sub(pointer).filter(|_| pointer != 0)?;
    let common = commons.get(section, image, common, arch)?;
    let begin = section_svma
        .wrapping_add(offset as u64 + 8)
        .wrapping_add_signed(i64::from(u32(&mut entry)? as i32));
    let place = svma.wrapping_sub(begin);
    if place >= u64::from(u32(&mut entry)?) {
        return None;
    }
    let augmentation = uleb(&mut entry)?;
    skip(&mut entry, augmentation)?;
    let row = common.run::<false>(entry, place)?;
    let cfa = Some(row.cfa).filter(|(register, _)| *register != NONE);
    let cfa = cfa.map(|(register, offset)| (u64::from(register), i64::from(offset)));
    let rule = short::of_row(cfa, saved(row.return_address), saved(row.fp), arch);
    Some(rule.unwrap_or(Rule::Full).packed())
}

impl Common {
    const EMPTY: Common = Common {
        code_align: 0,
        data_align: 0,
        return_address: 0,
        fp: 0,
        initial: Row {
            cfa: (NONE, 0),
            return_address: NOWHERE,
            fp: NOWHERE,
        },
    };

    fn read(section: &[u8], offset: usize, arch: Arch) -> Option<Common> {
        /// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`: what compilers use for position-independent code.
        const PCREL_SDATA4: u8 = 0x1b;
        let mut rest = entry(section, offset)?;
        if u32(&mut rest)? != 0 {
            return None;
        }
        let version = u8(&mut rest)?;
        let end = rest.iter().position(|letter| *letter == 0)?;
        let (letters, behind) = rest.split_at_checked(end)?;
        rest = behind.get(1..)?;
        let letters = letters.strip_prefix(b"z")?;
        let code_align = uleb(&mut rest)?;
        let data_align = sleb(&mut rest)?;
        let return_address = match version {
            1 => u32::from(u8(&mut rest)?),
            3 => uleb(&mut rest)?,
            _ => return None,
        };
        if return_address as usize != arch.return_address() {
            return None;
        }
        let size = uleb(&mut rest)? as usize;
        let (mut augmentation, instructions) = rest.split_at_checked(size)?;
        let mut encoding = None;
        for letter in letters {
            match letter {
                b'R' => encoding = Some(u8(&mut augmentation)?),
                b'L' => _ = u8(&mut augmentation)?,
                b'P' => match u8(&mut augmentation)? & 0x0f {
                    0x03 | 0x0b => skip(&mut augmentation, 4)?,
                    0x00 | 0x04 | 0x0c => skip(&mut augmentation, 8)?,
                    _ => return None,
                },
                // Among the others `S`: a signal's trampoline.
                _ => return None,
            }
        }
        if encoding != Some(PCREL_SDATA4) {
            return None;
        }
        let common = Common {
            code_align,
            data_align,
            return_address,
            fp: arch.fp() as u32,
            initial: Row {
                cfa: (NONE, 0),
                // x86-64 has no register for it.
                return_address: match arch {
                    Arch::X86_64 => LOST,
                    Arch::Arm64 => NOWHERE,
                },
                fp: NOWHERE,
            },
        };
        let initial = common.run::<true>(instructions, u64::MAX)?;
        Some(Common { initial, ..common })
    }

    /// Runs instructions up to the row for `target`, counted from the function's start; all of them where
    /// they are a CIE's own, which have no place.
    fn run<const COMMON: bool>(&self, code: &[u8], target: u64) -> Option<Row> {
        let mut code = code;
        let mut row = self.initial;
        // Compilers remember one row at a time; gimli has room for more.
        let mut remembered = row;
        let mut remembers = false;
        let mut location = 0u64;
        while let Some((&instruction, rest)) = code.split_first() {
            code = rest;
            let low = u32::from(instruction & 0x3f);
            let advance = match instruction {
                // DW_CFA_advance_loc
                0x40..=0x7f => low,
                // DW_CFA_offset
                0x80..=0xbf => {
                    let at = self.factored(uleb(&mut code)?)?;
                    self.save(&mut row, low, at)?;
                    continue;
                }
                // DW_CFA_nop
                0x00 => continue,
                // DW_CFA_def_cfa_offset
                0x0e => {
                    row.cfa.1 = i32::try_from(uleb(&mut code)?).ok()?;
                    // Of no register there is no offset.
                    if row.cfa.0 == NONE {
                        return None;
                    }
                    continue;
                }
                // DW_CFA_advance_loc1, 2, 4
                0x02 => u32::from(u8(&mut code)?),
                0x03 => u32::from(u16(&mut code)?),
                0x04 => u32(&mut code)?,
                // DW_CFA_restore
                0xc0..=0xff => {
                    self.restore::<COMMON>(&mut row, low)?;
                    continue;
                }
                // DW_CFA_offset_extended
                0x05 => {
                    let register = uleb(&mut code)?;
                    let at = self.factored(uleb(&mut code)?)?;
                    self.save(&mut row, register, at)?;
                    continue;
                }
                // DW_CFA_restore_extended
                0x06 => {
                    let register = uleb(&mut code)?;
                    self.restore::<COMMON>(&mut row, register)?;
                    continue;
                }
                // DW_CFA_undefined
                0x07 => {
                    let register = uleb(&mut code)?;
                    self.save(&mut row, register, LOST)?;
                    continue;
                }
                // DW_CFA_same_value
                0x08 => {
                    let register = uleb(&mut code)?;
                    self.save(&mut row, register, NOWHERE)?;
                    continue;
                }
                // DW_CFA_remember_state
                0x0a => {
                    if remembers {
                        return None;
                    }
                    (remembered, remembers) = (row, true);
                    continue;
                }
                // DW_CFA_restore_state
                0x0b => {
                    if !remembers {
                        return None;
                    }
                    (row, remembers) = (remembered, false);
                    continue;
                }
                // DW_CFA_def_cfa
                0x0c => {
                    let register = uleb(&mut code)?;
                    row.cfa = (register, i32::try_from(uleb(&mut code)?).ok()?);
                    continue;
                }
                // DW_CFA_def_cfa_register
                0x0d => {
                    let register = uleb(&mut code)?;
                    row.cfa.0 = Some(register).filter(|_| row.cfa.0 != NONE)?;
                    continue;
                }
                // DW_CFA_def_cfa_expression
                0x0f => {
                    let length = uleb(&mut code)?;
                    skip(&mut code, length)?;
                    row.cfa = (NONE, 0);
                    continue;
                }
                // DW_CFA_expression, DW_CFA_val_expression
                0x10 | 0x16 => {
                    let register = uleb(&mut code)?;
                    let length = uleb(&mut code)?;
                    skip(&mut code, length)?;
                    if self.counts(register) {
                        return None;
                    }
                    continue;
                }
                // DW_CFA_GNU_args_size
                0x2e => {
                    uleb(&mut code)?;
                    continue;
                }
                _ => return None,
            };
            location = location.saturating_add(u64::from(advance) * u64::from(self.code_align));
            if COMMON {
                return None;
            }
            if location > target {
                break;
            }
        }
        Some(row)
    }

    #[inline]
    fn factored(&self, offset: u32) -> Option<i32> {
        let at = i32::try_from(offset).ok()?.checked_mul(self.data_align)?;
        Some(at).filter(|at| *at > LOST)
    }

    /// Whether a register is one of those that a short rule, or the lack of one, depends on: the
    /// first two tell a function that installs another frame's registers.
    fn counts(&self, register: u32) -> bool {
        register < 2 || register == self.fp || register == self.return_address
    }

    #[inline]
    fn save(&self, row: &mut Row, register: u32, at: i32) -> Option<()> {
        if register == self.fp {
            row.fp = at;
        } else if register == self.return_address {
            row.return_address = at;
        } else if register < 2 {
            return None;
        }
        Some(())
    }

    /// Back to what the CIE says; its own instructions have nothing to go back to.
    fn restore<const COMMON: bool>(&self, row: &mut Row, register: u32) -> Option<()> {
        if COMMON {
            return None;
        }
        if register == self.fp {
            row.fp = self.initial.fp;
        } else if register == self.return_address {
            row.return_address = self.initial.return_address;
        } else if register < 2 {
            return None;
        }
        Some(())
    }
}

/// The entry at an offset of a section: what stands behind its length, up to its end.
#[inline]
fn entry(section: &[u8], offset: usize) -> Option<&[u8]> {
    let mut rest = section.get(offset..)?;
    let length = u32(&mut rest)?;
    // 0 ends a section, and 0xffffffff is followed by a length of 64 bits.
    let usual = length != 0 && length < 0xffff_fff0;
    rest.get(..length as usize).filter(|_| usual)
}

#[inline]
fn u8(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

#[inline]
fn u16(bytes: &mut &[u8]) -> Option<u16> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u16::from_le_bytes(*first))
}

#[inline]
fn u32(bytes: &mut &[u8]) -> Option<u32> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*first))
}

#[inline]
fn skip(bytes: &mut &[u8], count: u32) -> Option<()> {
    *bytes = bytes.get(count as usize..)?;
    Some(())
}

/// A number in LEB128; `None` where it has more than 28 bits, which nothing in use needs.
#[inline(always)]
fn uleb(bytes: &mut &[u8]) -> Option<u32> {
    let first = u8(bytes)?;
    if first < 0x80 {
        return Some(u32::from(first));
    }
    longer(bytes, first)
}

#[cold]
fn longer(bytes: &mut &[u8], first: u8) -> Option<u32> {
    let mut value = u32::from(first & 0x7f);
    for shift in [7, 14, 21] {
        let byte = u8(bytes)?;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The same, signed; `None` where it has more than one byte.
fn sleb(bytes: &mut &[u8]) -> Option<i32> {
    let byte = u8(bytes)?;
    (byte < 0x80).then(|| i32::from((byte << 1) as i8 >> 1))
}
