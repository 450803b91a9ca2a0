//! Leaving a frame by all of its row: every rule evaluated.

use gimli::{CfaRule, Encoding, Expression, Operation, Register, RegisterRule};

use super::{Cfi, CfiSlice, FoundRow};
use crate::capture::memory::{Memory, Missing};
use crate::capture::registers::{self, Arch, Registers};

impl Cfi {
    /// Leaves the frame by evaluating all of a row. On success `registers` are the caller's and
    /// `known` has which of them are known. Signal-safe.
    pub(crate) fn evaluate(
        &self,
        found: &FoundRow<'_>,
        registers: &mut Registers,
        known: &mut u64,
        memory: &mut dyn Memory,
    ) -> Result<RowOutcome, RowError> {
        let arch = registers.arch();
        let section = self.eh_frame();
        let before = *registers;
        let reader = FrameRegisters {
            registers: &before,
            known: *known,
            encoding: found.encoding,
        };
        let cfa = match found.row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                reader.register(*register)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => {
                let expression = expression.get(&section).map_err(|_| RowError::Bad)?;
                reader.evaluate(expression.0, None, memory)?
            }
        };
        let mut now = *known & preserved(arch);
        let mut return_address = match arch {
            Arch::X86_64 => None,
            // The return address is in the link register until a rule saves it.
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
                RegisterRule::Offset(offset) => {
                    match memory.read(cfa.wrapping_add_signed(*offset)) {
                        Ok(value) => Some(value),
                        // One that the way on does not need, from the buffer of a `longjmp` that lies
                        // anywhere.
                        Err(_) if number != arch.return_address() && number != arch.sp() => None,
                        Err(missing) => return Err(RowError::Missing(missing)),
                    }
                }
                RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
                RegisterRule::Register(other) => Some(reader.register(*other)?),
                RegisterRule::Expression(expression) => {
                    let expression = expression.get(&section).map_err(|_| RowError::Bad)?;
                    let address = reader.evaluate(expression.0, Some(cfa), memory)?;
                    Some(memory.read(address).map_err(RowError::Missing)?)
                }
                RegisterRule::ValExpression(expression) => {
                    let expression = expression.get(&section).map_err(|_| RowError::Bad)?;
                    Some(reader.evaluate(expression.0, Some(cfa), memory)?)
                }
                RegisterRule::Constant(value) => Some(*value),
                _ => return Err(RowError::Bad),
            };
            if number == arch.return_address() {
                return_address = value;
                if value.is_none() {
                    return Ok(RowOutcome::Root);
                }
            }
            if number >= registers::COUNT || number == arch.pc() {
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
            None => RowOutcome::Root,
            Some(address) if in_register => RowOutcome::Jump(address),
            Some(address) => RowOutcome::Return(address),
        })
    }
}

/// The caller of a frame, by its row.
pub(crate) enum RowOutcome {
    /// It has no caller.
    Root,
    /// This return address.
    Return(u64),
    /// This address, which was in a register: the function is about to jump there, as `longjmp` is.
    Jump(u64),
}

/// The reason why a row could not be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowError {
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

struct FrameRegisters<'r> {
    registers: &'r Registers,
    known: u64,
    encoding: Encoding,
}

impl FrameRegisters<'_> {
    fn register(&self, register: Register) -> Result<u64, RowError> {
        let number = usize::from(register.0);
        let is_known = number < registers::COUNT && self.known & (1 << number) != 0;
        if is_known {
            Ok(self.registers.get(number))
        } else {
            Err(RowError::UnknownRegister)
        }
    }

    /// Evaluates an expression. Those of call frame information have sums, masks and shifts of registers, numbers and words
    /// of memory, and the comparison of a procedure linkage table; a row with any other operation is not evaluated.
    fn evaluate(
        &self,
        expression: CfiSlice<'_>,
        initial: Option<u64>,
        memory: &mut dyn Memory,
    ) -> Result<u64, RowError> {
        let mut stack = ValueStack {
            values: [initial.unwrap_or(0); 16],
            depth: usize::from(initial.is_some()),
        };
        let mut operations = Expression(expression).operations(self.encoding);
        while let Some(operation) = operations.next().map_err(|_| RowError::Bad)? {
            let value = match operation {
                Operation::RegisterOffset {
                    register, offset, ..
                } => self.register(register)?.wrapping_add_signed(offset),
                Operation::UnsignedConstant { value } => value,
                Operation::SignedConstant { value } => value as u64,
                Operation::PlusConstant { value } => stack.pop()?.wrapping_add(value),
                Operation::Deref {
                    size: 8,
                    space: false,
                    ..
                } => memory.read(stack.pop()?).map_err(RowError::Missing)?,
                of_two => {
                    let (b, a) = (stack.pop()?, stack.pop()?);
                    match of_two {
                        Operation::Plus => a.wrapping_add(b),
                        Operation::And => a & b,
                        Operation::Shl if b < 64 => a.wrapping_shl(b as u32),
                        Operation::Ge => u64::from(a as i64 >= b as i64),
                        _ => return Err(RowError::Bad),
                    }
                }
            };
            stack.push(value)?;
        }
        stack.pop()
    }
}

/// The stack of an expression (DWARF 5, section 2.5).
struct ValueStack {
    values: [u64; 16],
    depth: usize,
}

impl ValueStack {
    fn push(&mut self, value: u64) -> Result<(), RowError> {
        *self.values.get_mut(self.depth).ok_or(RowError::Bad)? = value;
        self.depth = self.depth.wrapping_add(1);
        Ok(())
    }

    fn pop(&mut self) -> Result<u64, RowError> {
        self.depth = self.depth.checked_sub(1).ok_or(RowError::Bad)?;
        self.values.get(self.depth).copied().ok_or(RowError::Bad)
    }
}
