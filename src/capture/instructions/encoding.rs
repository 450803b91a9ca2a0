//! Encodings of x86_64 instructions: length, opcode and operands.
//!
//! Source: Intel Software Developer's Manual volume 2, chapter 2 (prefixes, ModR/M, VEX, EVEX) and appendix A
//! (opcode maps).

/// One instruction's parts; registers as they are encoded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Encoding {
    pub(super) length: usize,
    /// 0 for the one-byte map, then 1 (0f), 2 (0f 38), 3 (0f 3a); 8 more for VEX and EVEX.
    pub(super) map: u8,
    pub(super) opcode: u8,
    /// The whole prefix, or 0; of VEX and EVEX, its bits for registers.
    pub(super) rex: u8,
    /// Mode, register and operand of ModRM; registers with REX's bits.
    pub(super) modrm: Option<(u8, u8, u8)>,
    /// The register that a memory operand is counted from.
    pub(super) base: Option<u8>,
    pub(super) displacement: i32,
    /// True if it is counted from rip.
    pub(super) by_rip: bool,
    /// True if its address is more than a sum: of a segment (`fs`, `gs`), or of 32 bits.
    pub(super) odd: bool,
    /// True for operands of 16 bits.
    pub(super) short: bool,
    pub(super) immediate: i64,
}

impl Encoding {
    /// Returns true for operands of 64 bits.
    pub(super) fn is_wide(&self) -> bool {
        self.rex & 8 != 0
    }
}

/// Decodes the instruction at the beginning of `code`; `None` if it is not valid or cut short.
pub(super) fn decode(code: &[u8]) -> Option<Encoding> {
    let mut i = Encoding::default();
    let mut at = 0;
    let byte = |at: usize| code.get(at).copied();
    let (mut operand16, mut address32) = (false, false);
    loop {
        match byte(at)? {
            0x66 => operand16 = true,
            0x67 => (address32, i.odd) = (true, true),
            0x64 | 0x65 => i.odd = true,
            0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 => {}
            _ => break,
        }
        at += 1;
    }
    if byte(at)? & 0xf0 == 0x40 {
        i.rex = byte(at)?;
        at += 1;
    }
    i.opcode = byte(at)?;
    at += 1;
    match i.opcode {
        0x0f => {
            i.map = 1;
            i.opcode = byte(at)?;
            at += 1;
            if let 0x38 | 0x3a = i.opcode {
                i.map = if i.opcode == 0x38 { 2 } else { 3 };
                i.opcode = byte(at)?;
                at += 1;
            }
        }
        0xc4 | 0xc5 | 0x62 => {
            let first = byte(at)?;
            let (map, skip) = match i.opcode {
                0xc5 => (1, 1),
                0xc4 => (first & 0x1f, 2),
                _ => (first & 0x07, 3),
            };
            // The registers' highest bits, inverted.
            i.rex = !first >> 5 & if i.opcode == 0xc5 { 4 } else { 7 };
            // EVEX counts small displacements in vectors.
            i.odd |= i.opcode == 0x62;
            at += skip;
            if map >= 8 {
                return None;
            }
            i.map = 8 | map;
            i.opcode = byte(at)?;
            at += 1;
        }
        _ => {}
    }
    let (has_modrm, immediate) = shape(i.map, i.opcode)?;
    let mut extra = 0;
    if has_modrm {
        let modrm = byte(at)?;
        at += 1;
        let (mode, register, mut rm) = (
            modrm >> 6,
            (i.rex & 4) << 1 | modrm >> 3 & 7,
            (i.rex & 1) << 3 | modrm & 7,
        );
        let mut displacement = match mode {
            1 => 1,
            2 => 4,
            _ => 0,
        };
        if mode != 3 && modrm & 7 == 4 {
            let sib = byte(at)?;
            at += 1;
            rm = (i.rex & 1) << 3 | sib & 7;
            if mode == 0 && sib & 7 == 5 {
                displacement = 4;
            }
            // An index other than rsp: the sum is not known.
            let index = (i.rex & 2) << 2 | sib >> 3 & 7;
            i.base = (index == 4 && !(mode == 0 && sib & 7 == 5)).then_some(rm);
        } else if mode == 0 && modrm & 7 == 5 {
            displacement = 4;
            i.by_rip = true;
        } else if mode != 3 {
            i.base = Some(rm);
        }
        i.displacement = match displacement {
            1 => i32::from(byte(at)? as i8),
            4 => i32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?),
            _ => 0,
        };
        at += displacement;
        i.modrm = Some((mode, register, rm));
        // test, the only one of its group with an immediate
        if i.map == 0 && matches!(i.opcode, 0xf6 | 0xf7) && register & 7 < 2 {
            extra = if i.opcode == 0xf6 { 1 } else { Z };
        }
    }
    let size = match immediate.max(extra) {
        Z if i.map == 0 && matches!(i.opcode, 0xb8..=0xbf) && i.is_wide() => 8,
        Z if operand16 && !i.is_wide() => 2,
        Z => 4,
        ADDRESS if address32 => 4,
        ADDRESS => 8,
        bytes => bytes,
    };
    let value = code.get(at..at.checked_add(size)?)?;
    i.immediate = match *value {
        [a] => i64::from(a as i8),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => 0,
    };
    i.length = at + size;
    i.short = operand16 && !i.is_wide();
    // No instruction is longer.
    Some(i).filter(|i| i.length <= 15)
}

/// An immediate of 2 or 4 bytes, and an absolute address.
const Z: usize = 100;
const ADDRESS: usize = 101;

/// Returns true if an instruction has a ModRM byte, and the size of its immediate; `None` if the opcode is not known.
fn shape(map: u8, opcode: u8) -> Option<(bool, usize)> {
    Some(match (map & 7, opcode) {
        (0, 0x00..=0x3f) => match opcode & 7 {
            0..=3 => (true, 0),
            4 => (false, 1),
            5 => (false, Z),
            _ => return None,
        },
        (0, 0x50..=0x5f) => (false, 0),
        (0, 0x63) => (true, 0),
        (0, 0x68) => (false, Z),
        (0, 0x69) => (true, Z),
        (0, 0x6a) => (false, 1),
        (0, 0x6b) => (true, 1),
        (0, 0x6c..=0x6f) => (false, 0),
        (0, 0x70..=0x7f) => (false, 1),
        (0, 0x80 | 0x83) => (true, 1),
        (0, 0x81) => (true, Z),
        (0, 0x84..=0x8f) => (true, 0),
        (0, 0x90..=0x99 | 0x9b..=0x9f) => (false, 0),
        (0, 0xa0..=0xa3) => (false, ADDRESS),
        (0, 0xa8) => (false, 1),
        (0, 0xa9) => (false, Z),
        (0, 0xa4..=0xa7 | 0xaa..=0xaf) => (false, 0),
        (0, 0xb0..=0xb7) => (false, 1),
        (0, 0xb8..=0xbf) => (false, Z),
        (0, 0xc0 | 0xc1) => (true, 1),
        (0, 0xc2 | 0xca) => (false, 2),
        (0, 0xc3 | 0xc9 | 0xcb | 0xcc | 0xcf) => (false, 0),
        (0, 0xc6) => (true, 1),
        (0, 0xc7) => (true, Z),
        (0, 0xc8) => (false, 3),
        (0, 0xcd) => (false, 1),
        (0, 0xd0..=0xd3 | 0xd8..=0xdf) => (true, 0),
        (0, 0xd7) => (false, 0),
        (0, 0xe0..=0xe7 | 0xeb) => (false, 1),
        // Never shortened by an operand prefix.
        (0, 0xe8 | 0xe9) => (false, 4),
        (0, 0xec..=0xef | 0xf1 | 0xf4 | 0xf5 | 0xf8..=0xfd) => (false, 0),
        (0, 0xf6 | 0xf7 | 0xfe | 0xff) => (true, 0),
        (0, _) => return None,
        (1, 0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x37 | 0x77) => (false, 0),
        (1, 0x80..=0x8f) if map < 8 => (false, 4),
        (1, 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf) if map < 8 => (false, 0),
        (1, 0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6) => (true, 1),
        (1, 0x04 | 0x0a | 0x0c | 0x24..=0x27 | 0x39 | 0x3b..=0x3f | 0x7a | 0x7b | 0xa6 | 0xa7)
            if map < 8 =>
        {
            return None;
        }
        (1, _) => (true, 0),
        (3, _) => (true, 1),
        (2 | 5 | 6, _) => (true, 0),
        _ => return None,
    })
}
