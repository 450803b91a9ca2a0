//! Apple's compact unwind information: from an address to the rule by which its function is left.
//!
//! Source: mach-o/compact_unwind_encoding.h. It is valid in a function's body alone: neither in its
//! prologue nor in its epilogue, nor at early returns (see [`super::flow`]).

use std::sync::atomic::{AtomicU8, Ordering};

use super::engine::{Engine, Scratch};
use super::registers::Arch;
use super::rule::{Base, FrameRule, Rule, RuleSource, RuleWord};
use super::section::Section;

/// `UNWIND_SECTION_VERSION`, and the kinds of second-level pages.
const VERSION: u32 = 1;
const REGULAR: u32 = 2;
const COMPRESSED: u32 = 3;

/// The section of an image, and what framehop knows of it.
#[derive(Debug)]
pub(crate) struct CompactTable {
    /// `__unwind_info`.
    pub(super) section: Section,
    image: u64,
    engine: Engine,
    /// State of each page: unknown until it is examined. Only for a sound page does framehop find the same entry and
    /// not panic.
    pages: Box<[AtomicU8]>,
}

const UNKNOWN: u8 = 0;
const SOUND: u8 = 1;
const DAMAGED: u8 = 2;

/// An entry's page and its encoding.
struct CompactEntry {
    page: SecondLevelPage,
    encoding: u32,
}

/// A second-level page.
#[derive(Clone, Copy)]
struct SecondLevelPage {
    number: usize,
    /// First address of its first function, and of the next page's; offsets from the image's base.
    start: u32,
    end: u32,
    at: usize,
}

/// The words of a section, by offset.
#[derive(Clone, Copy)]
struct SectionWords<'s>(&'s [u8]);

impl SectionWords<'_> {
    fn u32_at(self, at: usize) -> Option<u32> {
        let word = self.0.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    }

    fn u16_at(self, at: usize) -> Option<usize> {
        let half = self.0.get(at..at.checked_add(2)?)?;
        Some(usize::from(u16::from_le_bytes(half.try_into().ok()?)))
    }

    /// The first-level index: where it stands, and how many entries it has, of which the last has where
    /// the functions end.
    fn index(self) -> Option<(usize, usize)> {
        if self.u32_at(0)? != VERSION {
            return None;
        }
        Some((self.u32_at(20)? as usize, self.u32_at(24)? as usize))
    }

    fn page(self, number: usize) -> Option<SecondLevelPage> {
        let (index, count) = self.index()?;
        let entry = index.checked_add(number.checked_mul(12)?)?;
        if number.checked_add(1)? >= count {
            return None;
        }
        Some(SecondLevelPage {
            number,
            start: self.u32_at(entry)?,
            end: self.u32_at(entry.checked_add(12)?)?,
            at: self.u32_at(entry.checked_add(4)?)? as usize,
        })
    }

    /// Count of the entries of a page.
    fn entries(self, page: SecondLevelPage) -> Option<usize> {
        self.u16_at(page.at.checked_add(6)?)
    }

    /// An entry of a page: where its function begins, from the image's beginning, and its encoding.
    fn entry(self, page: SecondLevelPage, number: usize) -> Option<(u32, u32)> {
        let entries = page.at.checked_add(self.u16_at(page.at.checked_add(4)?)?)?;
        match self.u32_at(page.at)? {
            REGULAR => {
                let entry = entries.checked_add(number.checked_mul(8)?)?;
                Some((self.u32_at(entry)?, self.u32_at(entry.checked_add(4)?)?))
            }
            COMPRESSED => {
                let (common, common_count) = (self.u32_at(4)? as usize, self.u32_at(8)? as usize);
                let entry = self.u32_at(entries.checked_add(number.checked_mul(4)?)?)?;
                let which = (entry >> 24) as usize;
                let encoding = match which.checked_sub(common_count) {
                    None => self.u32_at(common.checked_add(which.checked_mul(4)?)?)?,
                    Some(own) if own < self.u16_at(page.at.checked_add(10)?)? => {
                        let all = page.at.checked_add(self.u16_at(page.at.checked_add(8)?)?)?;
                        self.u32_at(all.checked_add(own.checked_mul(4)?)?)?
                    }
                    Some(_) => return None,
                };
                let start = page.start.checked_add(entry & 0xff_ffff)?;
                Some((start, encoding))
            }
            _ => None,
        }
    }

    /// Returns true if the first-level index is in order.
    fn is_in_order(self) -> bool {
        let Some((_, count)) = self.index() else {
            return false;
        };
        let mut pages = (0..count.saturating_sub(1)).map(|number| self.page(number));
        pages.all(|page| page.is_some_and(|page| page.start < page.end))
    }

    /// Returns true if the entries of a page are in order, have encodings, and lie within the page's bounds in the
    /// index.
    fn is_sound(self, page: SecondLevelPage) -> Option<bool> {
        let mut last = None;
        for number in 0..self.entries(page)? {
            let (start, _) = self.entry(page, number)?;
            let in_order = last.is_none_or(|last| last < start);
            if !in_order || start < page.start || start >= page.end {
                return Some(false);
            }
            last = Some(start);
        }
        Some(true)
    }

    /// The entry for an address, counted from the image's beginning.
    fn find(self, offset: u32) -> Option<CompactEntry> {
        let (_, count) = self.index()?;
        let start = |number| Some(self.page(number)?.start);
        let page = last_at_or_before(count.checked_sub(1)?, offset, &start)?;
        let page = self.page(page)?;
        if offset >= page.end {
            return None;
        }
        let start = |number| Some(self.entry(page, number)?.0);
        let entry = last_at_or_before(self.entries(page)?, offset, &start)?;
        let (_, encoding) = self.entry(page, entry)?;
        Some(CompactEntry { page, encoding })
    }
}

impl CompactTable {
    /// The table of an image whose base is the svma `image`; `text` holds its instructions, as far as they are known.
    pub(crate) fn new(section: Section, image: u64, text: Option<&Section>) -> CompactTable {
        let words = SectionWords(&section.bytes);
        let count = if words.is_in_order() {
            words.index().map_or(0, |(_, count)| count)
        } else {
            0
        };
        let engine = Engine::new(image, &section, text);
        let pages = (0..count).map(|_| AtomicU8::new(UNKNOWN)).collect();
        CompactTable {
            section,
            image,
            engine,
            pages,
        }
    }

    /// The rule that holds in the body of the function at an address (svma), if the section has it. Signal-safe.
    pub(crate) fn find(&self, svma: u64, arch: Arch, scratch: &mut Scratch) -> Option<RuleWord> {
        let offset = u32::try_from(svma.checked_sub(self.image)?).ok()?;
        let words = SectionWords(&self.section.bytes);
        let CompactEntry { page, encoding } = words.find(offset)?;
        let by_fp = match (arch, encoding >> 24 & 0x0f) {
            // UNWIND_ARM64_MODE_FRAME; UNWIND_X86_64_MODE_RBP_FRAME
            (Arch::Arm64, 4) | (Arch::X86_64, 1) => true,
            // UNWIND_ARM64_MODE_FRAMELESS: of a leaf, so that lr is its caller's still. framehop knows
            // that it makes no call, and goes by the frame pointer.
            (Arch::Arm64, 2) => {
                let size = i64::from(encoding >> 12 & 0xfff) << 4;
                let rule = Rule::frame(Base::Sp, size, None, None)?;
                return Some(RuleWord::new(rule, RuleSource::Row));
            }
            // UNWIND_X86_64_MODE_STACK_IMMD and _IND
            (Arch::X86_64, 2 | 3) => false,
            // Nothing, or an entry of `__eh_frame`.
            _ => return None,
        };
        if !self.is_sound(words, page) {
            return None;
        }
        let rule = self.engine.rule_of_call(svma, arch, scratch)?;
        // A rule by the frame pointer may also be framehop's answer for an entry that it does not know.
        let is_own = |frame: FrameRule| (frame.base == Base::Fp) == by_fp;
        rule.frame_rule().is_some_and(is_own).then_some(rule)
    }

    /// Each page is looked at once.
    fn is_sound(&self, words: SectionWords<'_>, page: SecondLevelPage) -> bool {
        let Some(known) = self.pages.get(page.number) else {
            return false;
        };
        match known.load(Ordering::Relaxed) {
            UNKNOWN => {
                let sound = words.is_sound(page) == Some(true);
                known.store(if sound { SOUND } else { DAMAGED }, Ordering::Relaxed);
                sound
            }
            known => known == SOUND,
        }
    }

    /// Returns the first address (svma) of each entry, in order, and true if the entry is of one function alone:
    /// linkers fold neighbours with the same encoding, except those with a landing pad, those that are left to
    /// `__eh_frame`, and those whose size stands in an instruction.
    pub(crate) fn entries(&self, arch: Arch) -> Vec<(u64, bool)> {
        /// `UNWIND_HAS_LSDA`
        const LANDING_PAD: u32 = 0x4000_0000;
        let words = SectionWords(&self.section.bytes);
        let pages = (0..).map_while(|number| words.page(number));
        let entries = pages.flat_map(|page| {
            let each = 0..words.entries(page).unwrap_or(0);
            each.map_while(move |number| words.entry(page, number))
        });
        let mut found: Vec<(u64, bool)> = entries
            .map(|(start, encoding)| {
                let alone = match (arch, encoding >> 24 & 0x0f) {
                    (Arch::Arm64, 3) | (Arch::X86_64, 3 | 4) => true,
                    _ => encoding & LANDING_PAD != 0,
                };
                (self.image.wrapping_add(start.into()), alone)
            })
            .collect();
        found.sort_unstable();
        found.dedup_by_key(|entry| entry.0);
        found
    }
}

/// The last of `count` sorted values that is not above `wanted`.
fn last_at_or_before(
    count: usize,
    wanted: u32,
    value: &dyn Fn(usize) -> Option<u32>,
) -> Option<usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = usize::midpoint(low, high);
        if value(middle)? <= wanted {
            low = middle.saturating_add(1);
        } else {
            high = middle;
        }
    }
    low.checked_sub(1)
}
