//! Line programs: where damage is, and which lines are of functions that the linker folded into others.
//!
//! gimli returns no row after an error, addr2line then none of the unit: where a sequence is ended instead, the rows before
//! and after the damage can be read.
//!
//! Functions of one unit that lld folded into one (`--icf`) on ELF: it keeps the lines of all of them at the same
//! addresses, and the entry of one. The lines of the others are found here, so that nobody reads them.

use std::ops::Range;

use addr2line::gimli::{
    self, AttributeValue, Dwarf, LineInstruction, LineProgramHeader, LineRow, Reader as _,
    Section as _, Unit, UnitOffset, UnitRef,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::dwarf::{R, text};
use super::units::{is_in, set_address, set_addresses};

/// The instruction that ends a sequence: no shorter one does.
const END: [u8; 3] = [0, 1, gimli::DW_LNE_end_sequence.0];
/// Most instructions before the first address of a sequence.
const MAX_BEFORE_ADDRESS: usize = 64;

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
        let instruction = next_instruction(&header, &mut rest);
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
                is_open = false;
                begins = [behind; END.len()];
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

/// Bytes of the paths of a unit's files, each written out with its folders; not counted on from `most`.
pub(crate) fn path_bytes(dwarf: &Dwarf<R<'_>>, unit: &Unit<R<'_>>, most: usize) -> usize {
    let Some(program) = &unit.line_program else {
        return 0;
    };
    let header = program.header();
    let length = |text| dwarf.attr_string(unit, text).map_or(0, |text| text.len());
    let folders = header.include_directories().iter();
    let folders: Vec<usize> = folders.map(|&folder| length(folder)).collect();
    let base = unit.comp_dir.map_or(0, |base| base.len());
    // Folder 0 is the one compiled in; DWARF 5 lists it.
    let skipped = usize::from(header.version() <= 4);
    let mut bytes = 0usize;
    for file in header.file_names() {
        let folder = usize::try_from(file.directory_index()).unwrap_or(usize::MAX);
        let folder = folder.checked_sub(skipped).and_then(|at| folders.get(at));
        let path = base + folder.copied().unwrap_or(0) + length(file.path_name());
        bytes = bytes.saturating_add(path);
        if bytes >= most {
            break;
        }
    }
    bytes
}

/// Returns the start of the next sequence after a damage at `at`: after an end of a sequence, and with its address;
/// the end of the program if no sequence follows.
fn next_sequence(header: &LineProgramHeader<R<'_>>, all: R<'_>, at: usize) -> usize {
    let ends = memchr::memmem::find_iter(&all.slice()[at..], &END);
    let mut behind = ends.map(|end| at + end + END.len());
    let begins = |behind: &usize| {
        let mut rest = all;
        rest.skip(*behind).is_ok()
            && (0..MAX_BEFORE_ADDRESS)
                .map_while(|_| next_instruction(header, &mut rest).ok())
                .find(|instruction| !matches!(instruction, LineInstruction::SetBasicBlock))
                .is_some_and(|first| matches!(first, LineInstruction::SetAddress(_)))
    };
    behind.find(begins).unwrap_or(all.len())
}

/// Reads the next instruction of a program; one that neither emits a row nor changes the address as one that
/// does no more than to begin a block.
fn next_instruction<'a>(
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
            gimli::DW_LNE_set_discriminator => {
                operand.read_uleb128()?;
            }
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

/// Returns the offset in `.debug_line` and the size in bytes of each address at which such lines begin. `code` has the
/// ranges of addresses that hold code.
pub(crate) fn folded(dwarf: &Dwarf<R<'_>>, code: &[(u64, u64)]) -> Vec<(usize, u8)> {
    let mut found = Vec::new();
    let doubtful = programs(dwarf, code);
    let mut headers = dwarf.units();
    while !doubtful.is_empty()
        && let Ok(Some(header)) = headers.next()
    {
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        let program = unit.line_program.as_ref();
        if program.is_some_and(|program| doubtful.contains(&program.header().offset().0)) {
            of_unit(dwarf, &unit, code, &mut found);
        }
    }
    found
}

/// Returns the addresses at which lines of a unit begin twice or more, in order.
pub(crate) fn begun_twice(unit: &Unit<R<'_>>) -> Box<[u64]> {
    let Some(program) = &unit.line_program else {
        return Box::default();
    };
    let bytes = program.header().raw_program_buf();
    let size = unit.encoding().address_size;
    let set_address = set_address(size);
    let begins = set_addresses(bytes, &set_address, size);
    let mut begins: Vec<u64> = begins.map(|(_, address)| address).collect();
    begins.sort_unstable();
    let twice = begins.chunk_by(PartialEq::eq).filter(|same| same.len() > 1);
    twice.map(|same| same[0]).collect()
}

/// The programs in which lines begin twice at an address in the code.
fn programs(dwarf: &Dwarf<R<'_>>, code: &[(u64, u64)]) -> FxHashSet<usize> {
    let mut doubtful = FxHashSet::default();
    let Ok(Some(first)) = dwarf.units().next() else {
        return doubtful;
    };
    let section = *dwarf.debug_line.reader();
    let mut rest = section;
    let mut known = FxHashSet::default();
    while !rest.is_empty() {
        let at = rest.offset_from(section);
        let length = rest.read_initial_length().map(|(length, _)| length);
        let Ok(program) = length.and_then(|length| rest.split(length)) else {
            break;
        };
        known.clear();
        let size = first.address_size();
        let set_address = set_address(size);
        let mut begins = set_addresses(program, &set_address, size);
        if begins.any(|(_, address)| is_in(code, address) && !known.insert(address)) {
            doubtful.insert(at);
        }
    }
    doubtful
}

/// The source of a function, as its entry describes it.
#[derive(Default)]
pub(crate) struct Described {
    /// As the linker has it, where that is known.
    pub name: Option<String>,
    file: Option<u64>,
    /// Line of its declaration.
    line: Option<u64>,
}

fn of_unit(
    dwarf: &Dwarf<R<'_>>,
    unit: &Unit<R<'_>>,
    code: &[(u64, u64)],
    found: &mut Vec<(usize, u8)>,
) -> Option<()> {
    let program = unit.line_program.clone()?;
    let size = unit.encoding().address_size;
    let bytes = program.header().raw_program_buf();
    let base = bytes.offset_from(*dwarf.debug_line.reader());
    let mut operands: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for (at, address) in set_addresses(bytes, &set_address(size), size) {
        operands.entry(address).or_default().push(base + at);
    }
    operands.retain(|&address, all| all.len() > 1 && is_in(code, address));
    // The first row of each sequence, in the order of the program.
    let mut firsts: FxHashMap<u64, Vec<(u64, u64)>> = FxHashMap::default();
    let (mut rows, mut begins) = (program.rows(), true);
    while let Some((_, row)) = rows.next_row().ok()? {
        if begins && operands.contains_key(&row.address()) {
            let line = row.line().map_or(0, |line| line.get());
            let of_address = firsts.entry(row.address()).or_default();
            of_address.push((row.file_index(), line));
        }
        begins = row.end_sequence();
    }
    let declared = declarations(UnitRef::new(dwarf, unit), &operands)?;
    for (address, operands) in operands {
        let (Some(declared), Some(firsts)) = (declared.get(&address), firsts.get(&address)) else {
            continue;
        };
        let (Some(from), true) = (declared.line, firsts.len() == operands.len()) else {
            continue; // bytes that only look like an instruction are among them
        };
        let fits = |&(_, &(file, line)): &(usize, &(u64, u64))| {
            line >= from && declared.file.is_none_or(|of| of == file)
        };
        let own = firsts.iter().enumerate().filter(fits);
        if let Some((own, _)) = own.min_by_key(|(_, (_, line))| *line) {
            let others = operands.iter().enumerate();
            let others = others.filter(|(index, _)| *index != own);
            found.extend(others.map(|(_, &at)| (at, size)));
        }
    }
    Some(())
}

/// Finds the declarations of the functions that begin at these addresses.
fn declarations<T>(
    unit: UnitRef<'_, R<'_>>,
    wanted: &FxHashMap<u64, T>,
) -> Option<FxHashMap<u64, Described>> {
    let mut found = FxHashMap::default();
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs().ok()? {
        if entry.tag() != gimli::DW_TAG_subprogram {
            continue;
        }
        let low = entry.attr_value(gimli::DW_AT_low_pc);
        let low = low.and_then(|low| unit.attr_address(low).ok().flatten());
        if let Some(low) = low.filter(|low| wanted.contains_key(low)) {
            found.insert(low, described(unit, entry.offset()));
        }
    }
    Some(found)
}

/// Reads the source from the entry, or from those that it refers to.
pub(crate) fn described(unit: UnitRef<'_, R<'_>>, entry: UnitOffset) -> Described {
    let (mut linkage, mut name, mut file, mut line) = (None, None, None, None);
    let mut next = Some(entry);
    for _ in 0..4 {
        let Some(Ok(entry)) = next.take().map(|next| unit.entry(next)) else {
            break;
        };
        for attribute in entry.attrs() {
            let value = attribute.value();
            let text = || unit.attr_string(attribute.value()).ok();
            match (attribute.name(), &value) {
                (gimli::DW_AT_linkage_name, _) => linkage = linkage.or_else(text),
                (gimli::DW_AT_name, _) => name = name.or_else(text),
                (gimli::DW_AT_decl_file, AttributeValue::FileIndex(index)) => {
                    file = file.or(Some(*index));
                }
                (gimli::DW_AT_decl_line, _) => line = line.or(attribute.udata_value()),
                (
                    gimli::DW_AT_abstract_origin | gimli::DW_AT_specification,
                    AttributeValue::UnitRef(offset),
                ) => next = Some(*offset),
                _ => {}
            }
        }
    }
    let name = linkage.or(name);
    Described {
        name: name.map(|name| text(name.slice()).into_owned()),
        file,
        line,
    }
}
