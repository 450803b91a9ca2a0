//! The parts that x86_64 instructions are made of: prefixes, numbers, operands.
//!
//! Source: Intel SDM volume 2, 2.1 and 2.2.

#[derive(Default)]
pub(super) struct Prefix {
    pub(super) operand: bool,
    pub(super) address: bool,
    pub(super) rex: u8,
}

impl Prefix {
    pub(super) fn wide(&self) -> bool {
        self.rex & 8 != 0
    }

    /// Bytes of an operand of 16 or 32 bits.
    pub(super) fn immediate(&self) -> usize {
        if self.operand && !self.wide() { 2 } else { 4 }
    }
}

pub(super) struct Reader<'c> {
    pub(super) code: &'c [u8],
    pub(super) at: usize,
}

impl Reader<'_> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = *self.code.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// A signed number of so many bytes (1, 2, 4, 8).
    pub(super) fn number(&mut self, bytes: usize) -> Option<i64> {
        let part = self.code.get(self.at..self.at.checked_add(bytes)?)?;
        self.at += bytes;
        let negative = part.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut value = if negative { -1i64 } else { 0 };
        for &byte in part.iter().rev() {
            value = value << 8 | i64::from(byte);
        }
        Some(value)
    }

    /// ModR/M with what belongs to it.
    pub(super) fn operand(&mut self, rex: u8) -> Option<Operand> {
        let modrm = self.byte()?;
        let (mode, rm) = (modrm >> 6, modrm & 7);
        let mut base = Some(rm | (rex & 1) << 3);
        let mut indexed = false;
        let mut displacement = match mode {
            1 => 1,
            2 => 4,
            _ => 0,
        };
        if mode != 3 && rm == 4 {
            let sib = self.byte()?;
            base = Some(sib & 7 | (rex & 1) << 3);
            indexed = sib >> 3 & 7 != 4 || rex & 2 != 0;
            if mode == 0 && sib & 7 == 5 {
                (base, displacement) = (None, 4);
            }
        } else if mode == 0 && rm == 5 {
            (base, displacement) = (None, 4);
        }
        let displacement = self.number(displacement)?;
        Some(Operand {
            register: modrm >> 3 & 7 | (rex & 4) << 1,
            field: modrm >> 3 & 7,
            direct: mode == 3,
            base: base.filter(|_| !indexed),
            displacement,
        })
    }
}

/// A decoded ModR/M: a register, and another one or memory.
pub(super) struct Operand {
    pub(super) register: u8,
    /// `register` without REX: the part of the opcode that groups have here.
    pub(super) field: u8,
    /// Whether the other one is a register too, `base`.
    pub(super) direct: bool,
    /// The only register that the address is made of, if it is.
    pub(super) base: Option<u8>,
    pub(super) displacement: i64,
}
