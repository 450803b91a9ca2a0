//! Damaged line programs: where to end a sequence, so that the rows before and behind the damage can be read.
//! gimli gives no row behind an error, addr2line then none of the unit.

use std::ops::Range;

use addr2line::gimli::{
    self, Dwarf, LineInstruction, LineProgramHeader, LineRow, Reader as _, Section as _, Unit,
};

use super::dwarf::R;

/// The instruction that ends a sequence: no shorter one does.
const END: [u8; 3] = [0, 1, gimli::DW_LNE_end_sequence.0];
/// Most instructions before the first address of a sequence.
const BEFORE_ADDRESS: usize = 64;

/// Returns the stretches of `.debug_line` in which the line program of a unit makes no sense, up to the end of the
/// sequence.
pub(crate) fn damage(dwarf: &Dwarf<R<'_>>, unit: &Unit<R<'_>>) -> Vec<Range<usize>> {
    let mut damage = Vec::new();
    let Some(mut program) = unit.line_program.clone() else {
        return damage;
    };
    let header = program.header().clone();
    let all = header.raw_program_buf();
    let base = all.offset_from(*dwarf.debug_line.reader());
    let mut row = LineRow::new(&header);
    // Offsets of the last instructions, of which those that end the program may have to give room.
    let mut begins = [0; END.len()];
    let (mut rest, mut is_open) = (all, false);
    while !rest.is_empty() {
        let at = rest.offset_from(all);
        begins.rotate_left(1);
        begins[END.len() - 1] = at;
        let instruction = next(&header, &mut rest);
        match instruction.and_then(|instruction| row.execute(instruction, &mut program)) {
            Ok(is_row) => is_open = (is_open || is_row) && !row.end_sequence(),
            Err(_) => {
                let behind = next_sequence(&header, all, at);
                let room = |at: &usize| behind - at >= END.len();
                let from = begins.into_iter().rev().find(room).unwrap_or(0);
                damage.push(base + from..base + behind);
                rest = all;
                if rest.skip(behind).is_err() {
                    break;
                }
                (is_open, begins) = (false, [behind; END.len()]);
                row = LineRow::new(&header);
            }
        }
        row.reset(&header);
    }
    if is_open {
        let room = |at: &usize| all.len() - at >= END.len();
        let from = begins.into_iter().rev().find(room).unwrap_or(0);
        damage.push(base + from..base + all.len());
    }
    damage
}

/// Returns the start of the next sequence behind a damage at `at`: behind an end of a sequence, and with its address;
/// the end of the program if no sequence follows.
fn next_sequence(header: &LineProgramHeader<R<'_>>, all: R<'_>, at: usize) -> usize {
    let ends = memchr::memmem::find_iter(&all.slice()[at..], &END);
    let mut behind = ends.map(|end| at + end + END.len());
    let begins = |behind: &usize| {
        let mut rest = all;
        rest.skip(*behind).is_ok()
            && (0..BEFORE_ADDRESS)
                .map_while(|_| next(header, &mut rest).ok())
                .find(|instruction| !matches!(instruction, LineInstruction::SetBasicBlock))
                .is_some_and(|first| matches!(first, LineInstruction::SetAddress(_)))
    };
    behind.find(begins).unwrap_or(all.len())
}

/// Reads the next instruction of a program; one that neither gives a row nor changes the address as one that
/// does no more than to begin a block.
fn next<'a>(
    header: &LineProgramHeader<R<'a>>,
    rest: &mut R<'a>,
) -> gimli::Result<LineInstruction<R<'a>>> {
    let opcode = rest.read_u8()?;
    if opcode == 0 {
        let length = rest.read_uleb128()?;
        let length = usize::try_from(length).map_err(|_| gimli::Error::UnsupportedOffset)?;
        let mut operand = rest.split(length)?;
        match gimli::DwLne(operand.read_u8()?) {
            gimli::DW_LNE_end_sequence => return Ok(LineInstruction::EndSequence),
            gimli::DW_LNE_set_address => {
                let address = operand.read_address(header.address_size())?;
                return Ok(LineInstruction::SetAddress(address));
            }
            gimli::DW_LNE_define_file if header.version() <= 4 => {
                operand.read_null_terminated_slice()?;
                (0..3).try_for_each(|_| operand.read_uleb128().map(drop))?;
            }
            gimli::DW_LNE_set_discriminator => drop(operand.read_uleb128()?),
            _ => {}
        }
        return Ok(LineInstruction::SetBasicBlock);
    }
    if opcode >= header.opcode_base() {
        return Ok(LineInstruction::Special(opcode));
    }
    let operands = match gimli::DwLns(opcode) {
        gimli::DW_LNS_copy => return Ok(LineInstruction::Copy),
        gimli::DW_LNS_advance_pc => return Ok(LineInstruction::AdvancePc(rest.read_uleb128()?)),
        gimli::DW_LNS_const_add_pc => return Ok(LineInstruction::ConstAddPc),
        gimli::DW_LNS_fixed_advance_pc => return Ok(LineInstruction::FixedAddPc(rest.read_u16()?)),
        gimli::DW_LNS_advance_line => {
            rest.read_sleb128()?;
            0
        }
        gimli::DW_LNS_set_file | gimli::DW_LNS_set_column | gimli::DW_LNS_set_isa => 1,
        gimli::DW_LNS_negate_stmt
        | gimli::DW_LNS_set_basic_block
        | gimli::DW_LNS_set_prologue_end
        | gimli::DW_LNS_set_epilogue_begin => 0,
        _ => {
            let mut lengths = *header.standard_opcode_lengths();
            lengths.skip(usize::from(opcode) - 1)?;
            lengths.read_u8()?
        }
    };
    (0..operands).try_for_each(|_| rest.read_uleb128().map(drop))?;
    Ok(LineInstruction::SetBasicBlock)
}
