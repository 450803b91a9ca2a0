//! DWARF call frame information: from an address to the row by which to leave its function.
//!
//! Source: DWARF 5, section 6.4; Linux Standard Base Core 5.0, 10.6 (`.eh_frame`,
//! `.eh_frame_hdr`). Parsing is gimli's.

mod evaluate;
mod facts;
mod index;
mod plain;

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use gimli::{
    BaseAddresses, CallFrameInstruction, EhFrame, EhFrameOffset, Encoding, EndianSlice,
    FrameDescriptionEntry, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindSection, UnwindTableRow, Vendor,
};

pub(crate) use self::evaluate::{RowError, RowOutcome, preserved};
pub(crate) use self::facts::rule;
#[cfg(target_os = "linux")]
pub(crate) use self::index::eh_frame_of;
use self::index::{FdePlace, Index};
use super::engine::Scratch;
use super::registers::Arch;
use super::rule::{RuleSource, RuleWord};
use super::section::Section;

type CfiSlice<'a> = EndianSlice<'a, LittleEndian>;
type FdeEntry<'a> = FrameDescriptionEntry<CfiSlice<'a>>;

/// Room for a row's rules without allocating: every general register of either architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleStorage;

impl UnwindContextStorage<usize> for RuleStorage {
    type Rules = [(Register, RegisterRule<usize>); 40];
    type Stack = [UnwindTableRow<usize, RuleStorage>; 6];
}

/// The memory in which rows are built.
pub(crate) type RowContext = UnwindContext<usize, RuleStorage>;

/// An image's call frame information, indexed.
#[derive(Debug)]
pub(crate) struct Cfi {
    /// `.eh_frame`, and what follows it.
    pub(super) section: Section,
    bases: BaseAddresses,
    index: Index,
    /// Length of the function of each plain entry, in bytes, perhaps with [`ONE_ROW`]; or [`UNKNOWN`] or [`UNUSUAL`].
    plain: Box<[AtomicU32]>,
}

/// The length of an entry that was not examined yet, and of one that is not plain.
const UNKNOWN: u32 = 0;
const UNUSUAL: u32 = u32::MAX;
/// Set in the length of an entry that has one row, unless its code is known to leave the stack pointer where it is.
const ONE_ROW: u32 = 1 << 31;

/// The row for an address.
pub(crate) struct FoundRow<'c> {
    pub(crate) row: &'c UnwindTableRow<usize, RuleStorage>,
    encoding: Encoding,
    /// True if the function is a signal trampoline.
    pub(crate) signal: bool,
    /// The code of its function (svma).
    pub(crate) code: Range<u64>,
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
        let plain = (0..index.len()).map(|_| AtomicU32::new(UNKNOWN)).collect();
        Some(Cfi {
            section,
            bases,
            index,
            plain,
        })
    }

    /// The rule that holds at an svma, and where it is from; `None` where no entry covers it.
    /// Signal-safe.
    pub(crate) fn rule(
        &self,
        svma: u64,
        arch: Arch,
        context: &mut RowContext,
        scratch: &mut Scratch,
    ) -> Option<RuleWord> {
        let place = self.index.entry(svma, self.section.svma)?;
        if svma.wrapping_sub(place.start) < self.plain_length(place, arch)
            && let Some(rule) = scratch.rule_of_entry(&self.section, place.offset, svma, arch)
        {
            return Some(rule);
        }
        let found = self.find_at(place.offset, svma, context)?;
        Some(RuleWord::new(rule(&found, arch), RuleSource::Row))
    }

    /// Returns the length of an entry's function in bytes; 0 if that entry is not plain. Each entry is examined once;
    /// the result is the same for every caller, since an image has one architecture.
    fn plain_length(&self, place: FdePlace, arch: Arch) -> u64 {
        let Some(known) = self.plain.get(place.number) else {
            return 0;
        };
        let mut length = known.load(Ordering::Relaxed);
        if length == UNKNOWN {
            length = self.measure_plain(place, arch).unwrap_or(UNUSUAL);
            known.store(length, Ordering::Relaxed);
        }
        match length {
            UNUSUAL => 0,
            length => u64::from(length & !ONE_ROW),
        }
    }

    #[cold]
    fn measure_plain(&self, place: FdePlace, arch: Arch) -> Option<u32> {
        let section = self.eh_frame();
        let entry = self.entry(&section, place.offset)?;
        // framehop sees the section at another place.
        let relative = entry.cie().fde_address_encoding();
        let relative = relative.is_some_and(|form| form.application() == gimli::DW_EH_PE_pcrel);
        let as_indexed = relative && entry.initial_address() == place.start;
        // No code may lie behind the last address: gimli finds none there, and framehop goes on from 0.
        entry.initial_address().checked_add(entry.len())?;
        let length = u32::try_from(entry.len()).ok()?;
        let one_row = self.is_plain(&section, &entry, arch)?;
        (as_indexed && length != UNKNOWN && length < ONE_ROW).then_some(if one_row {
            length | ONE_ROW
        } else {
            length
        })
    }

    /// The row that holds at an svma. Signal-safe.
    pub(crate) fn find<'c>(&self, svma: u64, context: &'c mut RowContext) -> Option<FoundRow<'c>> {
        let place = self.index.entry(svma, self.section.svma)?;
        self.find_at(place.offset, svma, context)
    }

    fn find_at<'c>(
        &self,
        offset: usize,
        svma: u64,
        context: &'c mut RowContext,
    ) -> Option<FoundRow<'c>> {
        let section = self.eh_frame();
        let entry = self.entry(&section, offset)?;
        if !entry.contains(svma) {
            return None;
        }
        let signal = entry.is_signal_trampoline();
        let encoding = entry.cie().encoding();
        let code = entry.initial_address()..entry.end_address();
        let row = entry
            .unwind_info_for_address(&section, &self.bases, context, svma)
            .ok()?;
        Some(FoundRow {
            row,
            encoding,
            signal,
            code,
        })
    }

    /// Returns true if the rows of the entry for an svma, whose [rule](Cfi::rule) is known, hold at each instruction and not
    /// at calls alone: it is plain and has several. Signal-safe.
    pub(crate) fn has_exact_rows(&self, svma: u64) -> bool {
        let known = self.state_of(svma).map(|kept| kept.load(Ordering::Relaxed));
        known.is_some_and(|known| known & ONE_ROW == 0)
    }

    /// Keeps in mind that the one row of the entry for an svma holds for all of its code. Signal-safe.
    pub(crate) fn set_exact_rows(&self, svma: u64) {
        if let Some(kept) = self.state_of(svma)
            && kept.load(Ordering::Relaxed) != UNUSUAL
        {
            kept.fetch_and(!ONE_ROW, Ordering::Relaxed);
        }
    }

    /// What is known of the entry for an svma.
    fn state_of(&self, svma: u64) -> Option<&AtomicU32> {
        let place = self.index.entry(svma, self.section.svma)?;
        self.plain.get(place.number)
    }

    /// The code of the entry for an svma, if the entry has one row for all of it. Signal-safe.
    pub(crate) fn of_one_row(&self, svma: u64) -> Option<Range<u64>> {
        let place = self.index.entry(svma, self.section.svma)?;
        let section = self.eh_frame();
        let entry = self.entry(&section, place.offset)?;
        let mut code = entry.instructions(&section, &self.bases);
        while let Some(code) = code.next().ok()? {
            if matches!(code, CallFrameInstruction::AdvanceLoc { .. }) {
                return None;
            }
        }
        let start = entry.initial_address();
        Some(start..start.saturating_add(entry.len()))
    }

    /// Returns true if the entry that begins at an svma is that of a whole x86_64 function, whose first instruction has
    /// just been called; the cold part of a function is not. Signal-safe.
    pub(crate) fn is_entry(&self, svma: u64, context: &mut RowContext) -> bool {
        let sp = usize::from(gimli::X86_64::RSP.0);
        self.find(svma, context)
            .is_some_and(|row| row.code.start == svma && row.cfa_register() == Some((sp, 8)))
    }

    /// Returns the first addresses (svma) of its functions, in order. Not signal-safe.
    pub(crate) fn starts(&self) -> Vec<u64> {
        self.index.starts()
    }

    /// The entry at an offset of the section.
    #[inline(never)]
    fn entry<'s>(&self, section: &EhFrame<CfiSlice<'s>>, offset: usize) -> Option<FdeEntry<'s>> {
        let entry =
            section.fde_from_offset(&self.bases, EhFrameOffset(offset), EhFrame::cie_from_offset);
        entry.ok()
    }

    fn eh_frame(&self) -> EhFrame<CfiSlice<'_>> {
        let mut section = EhFrame::new(&self.section.bytes, LittleEndian);
        section.set_address_size(8);
        // arm64's own instructions: other architectures have none of that number.
        section.set_vendor(Vendor::AArch64);
        section
    }
}

#[cfg(test)]
mod tests;
