//! What kind of code a stop is in, by what the image's tables say of it and whether they are right
//! there: told by other parsers than those of the unwinder that is judged, and by the shadow stack.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection};
use macho_unwind_info::UnwindInfo;
use macho_unwind_info::opcodes::{OpcodeArm64, OpcodeX86_64};

use crate::cpu;
use crate::loader::Image;
use crate::machine::Machine;

/// What tables say of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Table {
    Stub,
    /// Compact unwind: by the frame pointer.
    Frame,
    /// Compact unwind: by the stack pointer; the frame's bytes, where the entry itself says them.
    Frameless(Option<u64>),
    Dwarf,
    EhFrame,
    Nothing,
}

/// The name of stops that belong to the frame that is being jumped to.
pub const RESTORES: &str = "a context is being restored";

/// Tells kinds.
pub struct Kinds {
    arm: bool,
    images: Vec<Tables>,
    known: HashMap<u64, Table>,
}

struct Tables {
    text: Range<u64>,
    base: u64,
    stubs: Range<u64>,
    unwind_info: Option<Vec<u8>>,
    entries: Vec<Range<u64>>,
}

impl Kinds {
    /// Of the machine's images.
    pub fn new(m: &Machine) -> Kinds {
        Kinds {
            arm: m.arm,
            images: m.images.iter().map(tables).collect(),
            known: HashMap::new(),
        }
    }

    /// The kind of a stop whose innermost caller is `caller`.
    pub fn of(
        &mut self,
        r: &cpu::File,
        caller: Option<u64>,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> &'static str {
        let (arm, pc) = (self.arm, r.pc());
        let images = &self.images;
        let table = *self.known.entry(pc).or_insert_with(|| {
            let image = images.iter().find(|image| image.text.contains(&pc));
            image.map_or(Table::Nothing, |image| image.at(pc, arm))
        });
        let found = match table {
            Table::Frame => read(r.fp().wrapping_add(8)),
            Table::Frameless(_) if arm => Some(r.lr()),
            Table::Frameless(Some(size)) => read(r.sp().wrapping_add(size).wrapping_sub(8)),
            _ => None,
        };
        match (table, found == caller) {
            (Table::Stub, _) => "stubs",
            (Table::Frame, true) => "compact unwind, frame: where its entry holds",
            (Table::Frame, false) => "compact unwind, frame: prologue, epilogue, early return",
            (Table::Frameless(None), _) => "compact unwind, frameless, size in an instruction",
            (Table::Frameless(_), true) => "compact unwind, frameless: where its entry holds",
            (Table::Frameless(_), false) => "compact unwind, frameless: prologue, epilogue",
            (Table::Dwarf, _) => "compact unwind's DWARF escape",
            (Table::EhFrame, _) => "`__eh_frame` alone",
            (Table::Nothing, _) => "no table",
        }
    }
}

impl Tables {
    fn at(&self, pc: u64, arm: bool) -> Table {
        if self.stubs.contains(&pc) {
            return Table::Stub;
        }
        let info = self.unwind_info.as_deref().map(UnwindInfo::parse);
        let offset = u32::try_from(pc - self.base).unwrap_or(u32::MAX);
        let entry = info.and_then(|info| info.ok()?.lookup(offset).ok()?);
        let table = match (entry, arm) {
            (Some(entry), true) => match OpcodeArm64::parse(entry.opcode) {
                OpcodeArm64::FrameBased { .. } => Table::Frame,
                OpcodeArm64::Frameless {
                    stack_size_in_bytes: size,
                } => Table::Frameless(Some(size.into())),
                OpcodeArm64::Dwarf { .. } => Table::Dwarf,
                _ => Table::Nothing,
            },
            (Some(entry), false) => match OpcodeX86_64::parse(entry.opcode) {
                OpcodeX86_64::FrameBased { .. } => Table::Frame,
                OpcodeX86_64::FramelessImmediate {
                    stack_size_in_bytes: size,
                    ..
                } => Table::Frameless(Some(size.into())),
                OpcodeX86_64::FramelessIndirect { .. } => Table::Frameless(None),
                OpcodeX86_64::Dwarf { .. } => Table::Dwarf,
                _ => Table::Nothing,
            },
            (None, _) => Table::Nothing,
        };
        let is_listed = || self.entries.iter().any(|entry| entry.contains(&pc));
        if table == Table::Nothing && is_listed() {
            return Table::EhFrame;
        }
        table
    }
}

fn tables(image: &Image) -> Tables {
    let file = &image.file;
    let avma = |range: &Range<u64>| range.start + image.slide..range.end + image.slide;
    let section = |name: &str| file.section("__TEXT", name);
    let mut entries = vec![];
    if let Some(part) = section("__eh_frame") {
        let bytes = EndianSlice::new(file.data(part), LittleEndian);
        let mut frames = EhFrame::from(bytes);
        frames.set_address_size(8);
        let bases = BaseAddresses::default().set_eh_frame(part.svma.start);
        let mut list = frames.entries(&bases);
        while let Ok(Some(entry)) = list.next() {
            if let CieOrFde::Fde(partial) = entry
                && let Ok(entry) = partial.parse(EhFrame::cie_from_offset)
            {
                let start = entry.initial_address();
                entries.push(avma(&(start..start + entry.len())));
            }
        }
    }
    Tables {
        text: image.text(),
        base: image.base(),
        stubs: section("__stubs").map_or(0..0, |part| avma(&part.svma)),
        unwind_info: section("__unwind_info").map(|part| file.data(part).to_vec()),
        entries,
    }
}
