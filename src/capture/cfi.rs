//! DWARF call frame information: from an address to the row that says how to leave its function.
//!
//! Source: DWARF 5, section 6.4; Linux Standard Base Core 5.0, 10.6 (`.eh_frame`,
//! `.eh_frame_hdr`). Parsing is gimli's.

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameOffset, Encoding, EndianSlice, Evaluation,
    EvaluationResult, EvaluationStorage, LittleEndian, Location, Piece, Reader, Register,
    RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection, UnwindTableRow, Value,
};

use super::images::Section;
use super::memory::{Memory, Missing};
use super::registers::{Arch, Registers};
use super::rule::{Base, Rule};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Room for a row's rules without allocating: every general register of either architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fixed;

impl UnwindContextStorage<usize> for Fixed {
    type Rules = [(Register, RegisterRule<usize>); 40];
    type Stack = [UnwindTableRow<usize, Fixed>; 6];
}

impl<R: Reader> EvaluationStorage<R> for Fixed {
    type Stack = [Value; 32];
    type ExpressionStack = [(R, R); 4];
    type Result = [Piece<R>; 1];
}

/// What gimli works in while it builds a row.
pub(crate) type Context = UnwindContext<usize, Fixed>;

/// An image's call frame information, indexed.
#[derive(Debug)]
pub(crate) struct Cfi {
    section: Section,
    bases: BaseAddresses,
    index: Index,
}

/// Where the entry for an address stands.
#[derive(Debug)]
enum Index {
    /// The binary search table of `.eh_frame_hdr`: pairs of (start, entry), 32-bit offsets from
    /// the header's own address.
    Header {
        header: Section,
        table: Range<usize>,
    },
    /// Made here: (start, offset of the entry), sorted.
    Built(Vec<(u64, u32)>),
}

/// The row for an address.
pub(crate) struct Found<'c> {
    pub(crate) row: &'c UnwindTableRow<usize, Fixed>,
    encoding: Encoding,
    /// Whether the function is a signal trampoline.
    pub(crate) signal: bool,
}

impl Cfi {
    /// Indexes a section; `None` where it holds nothing that can be used.
    pub(crate) fn new(
        section: Section,
        header: Option<Section>,
        code: &[Range<u64>],
    ) -> Option<Cfi> {
        let mut bases = BaseAddresses::default().set_eh_frame(section.svma);
        if let Some(text) = code.first() {
            bases = bases.set_text(text.start);
        }
        let index = match header.and_then(header_table) {
            Some((header, table)) => Index::Header { header, table },
            None => Index::Built(build_index(&section, &bases)),
        };
        match &index {
            Index::Built(entries) if entries.is_empty() => None,
            _ => Some(Cfi {
                section,
                bases,
                index,
            }),
        }
    }

    /// The row that holds at a stated address. Signal-safe.
    pub(crate) fn find<'c>(&self, svma: u64, context: &'c mut Context) -> Option<Found<'c>> {
        let offset = self.entry(svma)?;
        let section = self.eh_frame();
        let entry = section
            .fde_from_offset(&self.bases, EhFrameOffset(offset), EhFrame::cie_from_offset)
            .ok()?;
        if !entry.contains(svma) {
            return None;
        }
        let signal = entry.is_signal_trampoline();
        let encoding = entry.cie().encoding();
        let row = entry
            .unwind_info_for_address(&section, &self.bases, context, svma)
            .ok()?;
        Some(Found {
            row,
            encoding,
            signal,
        })
    }

    fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.section.bytes, LittleEndian);
        section.set_address_size(8);
        section
    }

    /// The offset of the last entry that begins at or before an address. Signal-safe.
    fn entry(&self, svma: u64) -> Option<usize> {
        match &self.index {
            Index::Built(entries) => {
                let after = entries.partition_point(|entry| entry.0 <= svma);
                entries
                    .get(after.checked_sub(1)?)
                    .map(|entry| entry.1 as usize)
            }
            Index::Header { header, table } => {
                let table = header.bytes.get(table.clone())?;
                let word = |at: usize| -> Option<i32> {
                    let bytes = table.get(at..at.checked_add(4)?)?;
                    Some(i32::from_le_bytes(bytes.try_into().ok()?))
                };
                let wanted = i32::try_from(svma.wrapping_sub(header.svma) as i64).ok()?;
                let (mut low, mut high) = (0, table.len() / 8);
                while low < high {
                    let middle = low + (high - low) / 2;
                    if word(middle * 8)? <= wanted {
                        low = middle + 1
                    } else {
                        high = middle
                    }
                }
                let entry = word(low.checked_sub(1)? * 8 + 4)?;
                let entry = header.svma.wrapping_add_signed(i64::from(entry));
                usize::try_from(entry.checked_sub(self.section.svma)?).ok()
            }
        }
    }

    /// Leaves the frame by evaluating all of a row. On success `registers` are the caller's and
    /// `known` says which of them are known. Signal-safe.
    pub(crate) fn evaluate<M: Memory>(
        &self,
        found: &Found<'_>,
        registers: &mut Registers,
        known: &mut u64,
        memory: &mut M,
    ) -> Result<Left, Fault> {
        let arch = registers.arch();
        let section = self.eh_frame();
        let before = *registers;
        let reader = Reading {
            registers: &before,
            known: *known,
            encoding: found.encoding,
        };
        let cfa = match found.row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                reader.register(*register)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => {
                let expression = expression.get(&section).map_err(|_| Fault::Bad)?;
                reader.evaluate(expression.0, None, memory)?
            }
        };
        let mut now = *known & preserved(arch);
        let mut return_address = match arch {
            Arch::X86_64 => None,
            // Not saved (yet): still in the link register.
            Arch::Arm64 => Some(before.lr()),
        };
        registers.set(arch.sp(), cfa);
        for (register, rule) in found.row.registers() {
            let number = usize::from(register.0);
            let value = match rule {
                RegisterRule::Undefined => None,
                RegisterRule::SameValue => match reader.register(*register) {
                    Ok(value) => Some(value),
                    Err(_) => continue,
                },
                RegisterRule::Offset(offset) => Some(
                    memory
                        .read(cfa.wrapping_add_signed(*offset))
                        .map_err(Fault::Missing)?,
                ),
                RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
                RegisterRule::Register(other) => Some(reader.register(*other)?),
                RegisterRule::Expression(expression) => {
                    let expression = expression.get(&section).map_err(|_| Fault::Bad)?;
                    let address = reader.evaluate(expression.0, Some(cfa), memory)?;
                    Some(memory.read(address).map_err(Fault::Missing)?)
                }
                RegisterRule::ValExpression(expression) => {
                    let expression = expression.get(&section).map_err(|_| Fault::Bad)?;
                    Some(reader.evaluate(expression.0, Some(cfa), memory)?)
                }
                RegisterRule::Constant(value) => Some(*value),
                _ => return Err(Fault::Bad),
            };
            if number == arch.return_address() {
                return_address = value;
                if value.is_none() {
                    return Ok(Left::Root);
                }
            }
            if number >= super::registers::COUNT || number == arch.pc() {
                continue;
            }
            match value {
                Some(value) => {
                    registers.set(number, value);
                    now |= 1 << number;
                }
                None => now &= !(1 << number),
            }
        }
        *known = now | 1 << arch.sp();
        let column = Register(arch.return_address() as u16);
        let in_register = matches!(found.row.register(column), Some(RegisterRule::Register(_)));
        Ok(match return_address {
            None => Left::Root,
            Some(address) if in_register => Left::Jump(address),
            Some(address) => Left::To(address),
        })
    }
}

/// Where a frame was left to.
pub(crate) enum Left {
    /// It has no caller.
    Root,
    /// This return address.
    To(u64),
    /// This address, which was in a register: the function is about to jump there, as `longjmp` is.
    Jump(u64),
}

/// Why a row could not be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It needs a register whose value is not known.
    UnknownRegister,
    /// It needs memory that cannot be read.
    Missing(Missing),
    /// It makes no sense.
    Bad,
}

/// The registers that calls preserve (System V psABI, AAPCS64), as bits.
pub(crate) const fn preserved(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => 1 << 3 | 1 << 6 | 0xf << 12,
        Arch::Arm64 => 0x7ff << 19,
    }
}

struct Reading<'r> {
    registers: &'r Registers,
    known: u64,
    encoding: Encoding,
}

impl Reading<'_> {
    fn register(&self, register: Register) -> Result<u64, Fault> {
        let number = usize::from(register.0);
        let is_known = number < super::registers::COUNT && self.known & (1 << number) != 0;
        if is_known {
            Ok(self.registers.get(number))
        } else {
            Err(Fault::UnknownRegister)
        }
    }

    fn evaluate<M: Memory>(
        &self,
        expression: Slice<'_>,
        initial: Option<u64>,
        memory: &mut M,
    ) -> Result<u64, Fault> {
        let mut evaluation = Evaluation::<_, Fixed>::new_in(expression, self.encoding);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        evaluation.set_max_iterations(256);
        let mut result = evaluation.evaluate().map_err(|_| Fault::Bad)?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.register(register)?;
                    evaluation.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let word = memory.read(address).map_err(Fault::Missing)?;
                    let bits = u32::from(size.min(8)) * 8;
                    let value = word & u64::MAX.checked_shr(64 - bits).unwrap_or(0);
                    evaluation.resume_with_memory(Value::Generic(value))
                }
                _ => return Err(Fault::Bad),
            }
            .map_err(|_| Fault::Bad)?;
        }
        match evaluation.as_result().last().map(|piece| &piece.location) {
            Some(Location::Address { address }) => Ok(*address),
            _ => Err(Fault::Bad),
        }
    }
}

/// The short form of a row, where it has one. Signal-safe.
pub(crate) fn rule(found: &Found<'_>, arch: Arch) -> Rule {
    if found.signal {
        return Rule::Signal;
    }
    short(found.row, arch).unwrap_or(Rule::Full)
}

fn short(row: &UnwindTableRow<usize, Fixed>, arch: Arch) -> Option<Rule> {
    let return_address = match row.register(Register(arch.return_address() as u16)) {
        Some(RegisterRule::Undefined) => return Some(Rule::Root),
        None if arch == Arch::X86_64 => return Some(Rule::Root),
        None | Some(RegisterRule::SameValue) => None,
        Some(RegisterRule::Offset(offset)) => Some(offset),
        Some(_) => return None,
    };
    let fp = match row.register(Register(arch.fp() as u16)) {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => None,
        Some(RegisterRule::Offset(offset)) => Some(offset),
        Some(_) => return None,
    };
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
        return None;
    };
    let base = match usize::from(register.0) {
        number if number == arch.sp() => Base::Sp,
        number if number == arch.fp() => Base::Fp,
        _ => return None,
    };
    Rule::frame(base, *offset, return_address, fp)
}

/// The search table of a header, if it is of the shape that linkers make: a version of 1, the
/// count as 4 bytes, entries relative to the header in 4 signed bytes each.
fn header_table(header: Section) -> Option<(Section, Range<usize>)> {
    const SDATA4_DATAREL: u8 = 0x3b;
    const UDATA4: u8 = 0x03;
    let pointer_size = match header.bytes.get(1)? & 0x0f {
        0x03 | 0x0b => 4,
        0x04 | 0x0c => 8,
        _ => return None,
    };
    let known = header.bytes.first() == Some(&1)
        && header.bytes.get(2) == Some(&UDATA4)
        && header.bytes.get(3) == Some(&SDATA4_DATAREL);
    if !known {
        return None;
    }
    let at = 4 + pointer_size;
    let count = u32::from_le_bytes(header.bytes.get(at..at + 4)?.try_into().ok()?) as usize;
    let start = at + 4;
    let end = start.checked_add(count.checked_mul(8)?)?;
    let table = start..end.min(header.bytes.len());
    Some((header, table))
}

fn build_index(section: &Section, bases: &BaseAddresses) -> Vec<(u64, u32)> {
    let mut frames = EhFrame::new(&section.bytes, LittleEndian);
    frames.set_address_size(8);
    let mut index = Vec::new();
    let mut entries = frames.entries(bases);
    // What stands before a broken entry is kept.
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        if let Ok(entry) = partial.parse(EhFrame::cie_from_offset)
            && let Ok(offset) = u32::try_from(entry.offset())
        {
            index.push((entry.initial_address(), offset));
        }
    }
    index.sort_unstable();
    index
}

/// Where `.eh_frame` lies, as `.eh_frame_hdr` says.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only ELF has the header")
)]
pub(crate) fn eh_frame_of(header: &Section) -> Option<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(header.svma);
    let parsed = gimli::EhFrameHdr::new(&header.bytes, LittleEndian)
        .parse(&bases, 8)
        .ok()?;
    match parsed.eh_frame_ptr() {
        gimli::Pointer::Direct(address) => Some(address),
        gimli::Pointer::Indirect(_) => None,
    }
}
