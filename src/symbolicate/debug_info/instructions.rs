//! Direct calls and jumps among the instructions of x86_64 and arm64.

use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::object_file::ObjectFile;

/// The instructions of one image.
pub(crate) struct Instructions {
    /// Sections of code, each with its link-time address.
    sections: Vec<(u64, SharedBytes)>,
    is_arm64: bool,
}

impl Instructions {
    /// Those of an object; `None` for a debug file without code, and for another architecture.
    pub(crate) fn of(object: &ObjectFile) -> Option<Instructions> {
        let is_arm64 = object.arch.starts_with("arm64") && object.arch != "arm64_32";
        let is_known = is_arm64 || object.arch == "x86_64";
        let sections = is_known.then(|| object.instructions());
        let sections = sections.filter(|sections| !sections.is_empty())?;
        Some(Instructions { sections, is_arm64 })
    }

    /// Bytes of code.
    pub(crate) fn size(&self) -> u64 {
        let sizes = self.sections.iter().map(|(_, bytes)| bytes.len() as u64);
        sizes.sum()
    }

    /// The bytes from `svma` to the end of the section that holds it.
    fn from(&self, svma: u64) -> Option<&[u8]> {
        self.sections.iter().find_map(|(start, bytes)| {
            let at = usize::try_from(svma.checked_sub(*start)?).ok()?;
            bytes.get(at..).filter(|rest| !rest.is_empty())
        })
    }

    /// The target of the direct call whose last byte lies at `svma`.
    pub(crate) fn call_at(&self, svma: u64) -> Option<u64> {
        if self.is_arm64 {
            let at = svma & !3;
            let word = word(self.from(at)?)?;
            return (word >> 26 == 0b10_0101).then(|| branch(at, word));
        }
        let at = svma.checked_sub(4)?;
        let (&opcode, rest) = self.from(at)?.split_first()?;
        (opcode == 0xe8).then_some(())?;
        Some(relative(at + 5, word(rest)?))
    }

    /// What may be direct jumps among the `length` bytes from `svma`, each with its target. On x86_64, where instructions
    /// begin anywhere, some are none: a caller asks for known targets.
    pub(crate) fn jumps(&self, svma: u64, length: usize) -> impl Iterator<Item = (u64, u64)> {
        let bytes = self.from(svma).unwrap_or_default();
        let (length, step) = (length.min(bytes.len()), if self.is_arm64 { 4 } else { 1 });
        (0..length).step_by(step).filter_map(move |offset| {
            let at = svma + offset as u64;
            Some((at, self.jump(at, &bytes[offset..])?))
        })
    }

    fn jump(&self, at: u64, bytes: &[u8]) -> Option<u64> {
        if self.is_arm64 {
            let word = word(bytes)?;
            return (word >> 26 == 0b00_0101).then(|| branch(at, word));
        }
        match bytes {
            [0xe9, rest @ ..] => Some(relative(at + 5, word(rest)?)),
            [0x0f, 0x80..=0x8f, rest @ ..] => Some(relative(at + 6, word(rest)?)),
            [0xeb, near, ..] => Some((at + 2).wrapping_add_signed(i64::from(*near as i8))),
            _ => None,
        }
    }
}

/// The first four bytes, the lowest one first.
fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// The target of a distance from the next instruction, as x86_64 has it.
fn relative(next: u64, distance: u32) -> u64 {
    next.wrapping_add_signed(i64::from(distance as i32))
}

/// The target of arm64's `b` and `bl`: 26 bits of a distance in instructions.
fn branch(at: u64, word: u32) -> u64 {
    at.wrapping_add_signed(i64::from((word << 6) as i32 >> 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8], is_arm64: bool) -> Instructions {
        Instructions {
            sections: vec![(0x1000, SharedBytes::from(bytes.to_vec()))],
            is_arm64,
        }
    }

    #[test]
    fn calls_and_jumps_of_x86_64() {
        // call 0x1005; call *%rax; jmp 0x1000; jne 0x1012; jmp 0x1009 (short)
        let code = [
            0xe8, 0, 0, 0, 0, 0xff, 0xd0, 0xe9, 0xf4, 0xff, 0xff, 0xff, 0x0f, 0x85, 0, 0, 0, 0,
            0xeb, 0xf5,
        ];
        let code = of(&code, false);
        assert_eq!(code.call_at(0x1004), Some(0x1005));
        assert_eq!(code.call_at(0x1006), None);
        assert_eq!(
            [0, 0xfff, 0x2000, u64::MAX].map(|at| code.call_at(at)),
            [None; 4]
        );
        let jumps: Vec<_> = code.jumps(0x1000, 0x100).collect();
        assert_eq!(
            jumps,
            [(0x1007, 0x1000), (0x100c, 0x1012), (0x1012, 0x1009)]
        );
        assert_eq!(code.jumps(0x1008, 5).count(), 1);
        assert_eq!(code.jumps(0x9000, 5).count(), 0);
    }

    #[test]
    fn calls_and_jumps_of_arm64() {
        let words = [0x9400_0002_u32, 0x97ff_ffff, 0x17ff_ffff, 0xd65f_03c0];
        let code = of(&words.map(u32::to_le_bytes).concat(), true);
        assert_eq!(code.call_at(0x1003), Some(0x1008));
        assert_eq!(code.call_at(0x1007), Some(0x1000));
        assert_eq!(code.call_at(0x100b), None);
        let jumps: Vec<_> = code.jumps(0x1000, 0x10).collect();
        assert_eq!(jumps, [(0x1008, 0x1004)]);
    }
}
