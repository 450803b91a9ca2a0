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
    let mut unread = Unread(code);
    let sizes = i.read_prefixes(&mut unread)?;
    i.read_opcode(&mut unread)?;
    let (has_modrm, immediate) = operand_shape(i.map, i.opcode)?;
    if has_modrm {
        i.read_modrm(&mut unread)?;
    }
    i.short = sizes.operand16 && !i.is_wide();
    i.immediate = match *unread.take(i.immediate_size(immediate, sizes))? {
        [a] => i64::from(a as i8),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => 0,
    };
    i.length = code.len().wrapping_sub(unread.0.len());
    // No instruction is longer.
    Some(i).filter(|i| i.length <= 15)
}

/// The bytes of an instruction that are not read yet.
struct Unread<'c>(&'c [u8]);

impl<'c> Unread<'c> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, count: usize) -> Option<&'c [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// The sizes that prefixes set.
#[derive(Debug, Clone, Copy, Default)]
struct PrefixSizes {
    /// Operands of 16 bits, unless REX makes them wide.
    operand16: bool,
    /// Addresses of 32 bits.
    address32: bool,
}

impl Encoding {
    /// Reads the legacy prefixes, and REX.
    fn read_prefixes(&mut self, unread: &mut Unread<'_>) -> Option<PrefixSizes> {
        let mut sizes = PrefixSizes::default();
        loop {
            match unread.peek()? {
                0x66 => sizes.operand16 = true,
                0x67 => sizes.address32 = true,
                0x64 | 0x65 => self.odd = true,
                0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 => {}
                _ => break,
            }
            unread.byte()?;
        }
        self.odd |= sizes.address32;
        if unread.peek()? & 0xf0 == 0x40 {
            self.rex = unread.byte()?;
        }
        Some(sizes)
    }

    /// Reads the opcode with its escapes: `0f`, `0f 38`, `0f 3a`, VEX and EVEX.
    fn read_opcode(&mut self, unread: &mut Unread<'_>) -> Option<()> {
        self.opcode = unread.byte()?;
        match self.opcode {
            0x0f => {
                self.map = 1;
                self.opcode = unread.byte()?;
                if let 0x38 | 0x3a = self.opcode {
                    self.map = if self.opcode == 0x38 { 2 } else { 3 };
                    self.opcode = unread.byte()?;
                }
            }
            0xc4 | 0xc5 | 0x62 => {
                let first = unread.byte()?;
                let (map, more) = match self.opcode {
                    0xc5 => (1, 0),
                    0xc4 => (first & 0x1f, 1),
                    _ => (first & 0x07, 2),
                };
                if map >= 8 {
                    return None;
                }
                unread.take(more)?;
                // The registers' highest bits, inverted.
                self.rex = !first >> 5 & if self.opcode == 0xc5 { 4 } else { 7 };
                // EVEX counts small displacements in vectors.
                self.odd |= self.opcode == 0x62;
                self.map = 8 | map;
                self.opcode = unread.byte()?;
            }
            _ => {}
        }
        Some(())
    }

    /// Reads ModRM, and the SIB byte and displacement that it asks for.
    fn read_modrm(&mut self, unread: &mut Unread<'_>) -> Option<()> {
        let modrm = unread.byte()?;
        let mode = modrm >> 6;
        let register = (self.rex & 4) << 1 | modrm >> 3 & 7;
        let mut rm = (self.rex & 1) << 3 | modrm & 7;
        let mut displacement = match mode {
            1 => 1,
            2 => 4,
            _ => 0,
        };
        if mode != 3 && modrm & 7 == 4 {
            let sib = unread.byte()?;
            rm = (self.rex & 1) << 3 | sib & 7;
            let has_no_base = mode == 0 && sib & 7 == 5;
            if has_no_base {
                displacement = 4;
            }
            // An index other than rsp: the sum is not known.
            let index = (self.rex & 2) << 2 | sib >> 3 & 7;
            self.base = (index == 4 && !has_no_base).then_some(rm);
        } else if mode == 0 && modrm & 7 == 5 {
            displacement = 4;
            self.by_rip = true;
        } else if mode != 3 {
            self.base = Some(rm);
        }
        self.displacement = match *unread.take(displacement)? {
            [a] => i32::from(a as i8),
            [a, b, c, d] => i32::from_le_bytes([a, b, c, d]),
            _ => 0,
        };
        self.modrm = Some((mode, register, rm));
        Some(())
    }

    /// Size in bytes of the immediate, of which `shape` has stated `stated`.
    fn immediate_size(&self, stated: usize, sizes: PrefixSizes) -> usize {
        // test, the only one of its group with an immediate
        let of_test = match (self.map, self.opcode, self.modrm) {
            (0, 0xf6, Some((_, register, _))) if register & 7 < 2 => 1,
            (0, 0xf7, Some((_, register, _))) if register & 7 < 2 => Z,
            _ => 0,
        };
        match stated.max(of_test) {
            Z if self.map == 0 && matches!(self.opcode, 0xb8..=0xbf) && self.is_wide() => 8,
            Z if self.short => 2,
            Z => 4,
            ADDRESS if sizes.address32 => 4,
            ADDRESS => 8,
            bytes => bytes,
        }
    }
}

/// An immediate of 2 or 4 bytes, and an absolute address.
const Z: usize = 100;
const ADDRESS: usize = 101;

/// Returns true if an instruction has a ModRM byte, and the size of its immediate; `None` if the opcode is not known.
fn operand_shape(map: u8, opcode: u8) -> Option<(bool, usize)> {
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
