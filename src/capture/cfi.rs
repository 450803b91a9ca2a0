//! DWARF call frame information: from an address to the row that says how to leave its function.
//!
//! Source: DWARF 5, section 6.4; Linux Standard Base Core 5.0, 10.6 (`.eh_frame`,
//! `.eh_frame_hdr`). Parsing is gimli's.

mod evaluate;
mod index;
mod install;
mod short;

use std::ops::Range;

use gimli::{
    BaseAddresses, EhFrame, EhFrameOffset, Encoding, EndianSlice, EvaluationStorage, LittleEndian,
    Piece, Reader, Register, RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection,
    UnwindTableRow, Value,
};

pub(crate) use self::evaluate::{Fault, Left, preserved};
use self::index::Index;
#[cfg(target_os = "linux")]
pub(crate) use self::index::eh_frame_of;
pub(crate) use self::short::rule;
use super::images::Section;

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

/// The row for an address.
pub(crate) struct Found<'c> {
    pub(crate) row: &'c UnwindTableRow<usize, Fixed>,
    encoding: Encoding,
    /// Whether the function is a signal trampoline.
    pub(crate) signal: bool,
    /// Where its function begins (svma).
    pub(crate) start: u64,
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
        let index = Index::new(header, &section, &bases)?;
        Some(Cfi {
            section,
            bases,
            index,
        })
    }

    /// The row that holds at a stated address. Signal-safe.
    pub(crate) fn find<'c>(&self, svma: u64, context: &'c mut Context) -> Option<Found<'c>> {
        let offset = self.index.entry(svma, self.section.svma)?;
        let section = self.eh_frame();
        let entry = section
            .fde_from_offset(&self.bases, EhFrameOffset(offset), EhFrame::cie_from_offset)
            .ok()?;
        if !entry.contains(svma) {
            return None;
        }
        let signal = entry.is_signal_trampoline();
        let encoding = entry.cie().encoding();
        let start = entry.initial_address();
        let row = entry
            .unwind_info_for_address(&section, &self.bases, context, svma)
            .ok()?;
        Some(Found {
            row,
            encoding,
            signal,
            start,
        })
    }

    /// Whether the entry that begins at a stated address is that of a whole x86_64 function, whose
    /// first instruction has just been called: the cold part of one is not. Signal-safe.
    pub(crate) fn is_entry(&self, svma: u64, context: &mut Context) -> bool {
        let sp = usize::from(gimli::X86_64::RSP.0);
        self.find(svma, context)
            .is_some_and(|row| row.start == svma && row.cfa_register() == Some((sp, 8)))
    }

    fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.section.bytes, LittleEndian);
        section.set_address_size(8);
        section
    }
}
