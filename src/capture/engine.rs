//! Rules learned from framehop.
//!
//! framehop keeps the rules that it unwinds by to itself. It is made to leave a frame whose registers
//! are sentinels, over a stack whose words are sentinels: what it reads, and what it puts where, is the rule.
//! Where it knows none it goes by the frame pointer and does not say so; so it is only given addresses
//! whose entry was looked at before: those that [`super::cfi`] and [`super::compact`] call plain. Of call
//! frame information that look has found the entry, so that framehop is shown a search table of that one alone.

mod section_window;
#[cfg(test)]
mod tests;

use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{
    ExplicitModuleSectionInfo, FrameAddress, Module, MustNotAllocateDuringUnwind as Policy,
    Unwinder,
};

use self::section_window::{SectionWindow, ShownBytes};
use super::registers::Arch;
use super::rule::{Base, Rule, RuleSource, RuleWord};
use super::section::Section;

/// framehop's data of one module, at svmas. Never changed once made, so that the set of
/// images that holds it is published whole.
pub(crate) struct Engine {
    base: u64,
    x86_64: UnwinderX86_64<ShownBytes, Policy>,
    arm64: UnwinderAarch64<ShownBytes, Policy>,
}

/// Memory that framehop needs to unwind without allocating, for one unwinder.
pub(crate) struct Scratch {
    caches: Caches,
    /// Whatever call frame information is shown to it.
    entries: Engine,
    shown: SectionWindow,
}

struct Caches {
    x86_64: CacheX86_64<Policy>,
    arm64: CacheAarch64<Policy>,
}

/// The registers of the frame that is left, and the first of the words that it reads. Each is further
/// from the next than any rule reaches.
const LR: u64 = 0x2000_0000_0000;
const SP: u64 = 0x4000_0000_0000;
const FP: u64 = 0x6000_0000_0000;
const WORD: u64 = 0x7000_0000_0000;

/// Count of places in framehop's cache: addresses that differ by a multiple of it share a place. It is private to framehop:
/// `Cargo.toml` names that one release.
const SLOTS: u64 = 509;

/// The address at which framehop sees the shown call frame information, and the base of its code, which may lie 2 GiB
/// to either side.
const SHOWN: u64 = 1 << 40;
const SHOWN_BASE: u64 = SHOWN - (1 << 31);

impl Engine {
    /// The engine of an image that has the svma `base`, by its `__unwind_info`; `text` holds its instructions, as far
    /// as they are known. Not signal-safe.
    pub(crate) fn new(base: u64, unwind_info: &Section, text: Option<&Section>) -> Engine {
        let range = |text: &Section| text.svma..text.svma.saturating_add(text.bytes.len() as u64);
        Engine::of(ExplicitModuleSectionInfo {
            base_svma: base,
            text_svma: text.map(range),
            text: text.map(|text| ShownBytes::Own(text.bytes.clone())),
            unwind_info: Some(ShownBytes::Own(unwind_info.bytes.clone())),
            ..ExplicitModuleSectionInfo::default()
        })
    }

    fn of(sections: ExplicitModuleSectionInfo<ShownBytes>) -> Engine {
        let base = sections.base_svma;
        let all = base..base.saturating_add(u64::from(u32::MAX));
        let module = Module::new(String::new(), all, base, sections);
        let mut x86_64 = UnwinderX86_64::new();
        let mut arm64 = UnwinderAarch64::new();
        x86_64.add_module(module.clone());
        arm64.add_module(module);
        Engine {
            base,
            x86_64,
            arm64,
        }
    }

    /// The rule of a call at an address (svma) whose entry is plain; `None` where it has no short form.
    /// Signal-safe.
    pub(crate) fn rule_of_call(
        &self,
        svma: u64,
        arch: Arch,
        scratch: &mut Scratch,
    ) -> Option<RuleWord> {
        if svma.checked_sub(self.base)? >= u64::from(u32::MAX) {
            return None;
        }
        scratch.evict(svma, arch);
        let address = FrameAddress::from_return_address(svma.checked_add(1)?)?;
        self.rule(address, arch, &mut scratch.caches, Reads::default())
    }

    fn rule(
        &self,
        address: FrameAddress,
        arch: Arch,
        caches: &mut Caches,
        mut reads: Reads,
    ) -> Option<RuleWord> {
        let mut read = |address| reads.read(address);
        let (caller, sp, fp) = match arch {
            Arch::X86_64 => {
                let mut registers = UnwindRegsX86_64::new(LR, SP, FP);
                let cache = &mut caches.x86_64;
                let caller = self
                    .x86_64
                    .unwind_frame(address, &mut registers, cache, &mut read);
                (caller, registers.sp(), registers.bp())
            }
            Arch::Arm64 => {
                let mut registers = UnwindRegsAarch64::new(LR, SP, FP);
                let cache = &mut caches.arm64;
                let caller = self
                    .arm64
                    .unwind_frame(address, &mut registers, cache, &mut read);
                (caller, registers.sp(), registers.fp())
            }
        };
        let Some(caller) = caller.ok()? else {
            // On arm64 it also takes a saved frame pointer of 0 for that, which no sentinel is.
            return Some(RuleWord::new(Rule::Root, RuleSource::Framehop));
        };
        let return_address = match caller {
            LR if arch == Arch::Arm64 => None,
            word => Some(reads.of(word)?.wrapping_sub(sp) as i64),
        };
        let saved = match fp {
            FP => None,
            word => Some(reads.of(word)?.wrapping_sub(sp) as i64),
        };
        let (base, from) = if sp >= FP {
            (Base::Fp, FP)
        } else {
            (Base::Sp, SP)
        };
        let cfa = sp.wrapping_sub(from) as i64;
        let rule = Rule::frame(base, cfa, return_address, saved)?;
        Some(RuleWord::new(rule, RuleSource::Framehop))
    }
}

impl Scratch {
    /// Reserves the memory. Not signal-safe.
    pub(crate) fn new() -> Scratch {
        let (shown, section, header) = SectionWindow::new();
        let at_section = Some(SHOWN..SHOWN.saturating_add(u64::from(u32::MAX)));
        let entries = Engine::of(ExplicitModuleSectionInfo {
            base_svma: SHOWN_BASE,
            eh_frame_svma: at_section.clone(),
            eh_frame: Some(section),
            eh_frame_hdr_svma: at_section,
            eh_frame_hdr: Some(header),
            ..ExplicitModuleSectionInfo::default()
        });
        Scratch {
            caches: Caches {
                x86_64: CacheX86_64::new_in(),
                arm64: CacheAarch64::new_in(),
            },
            entries,
            shown,
        }
    }

    /// The rule at an address (svma) by the entry at an offset of a section of call frame information, which is
    /// plain, covers the address, and states its own relative to where it stands; `None` where that rule has
    /// no short form. Signal-safe.
    pub(crate) fn rule_of_entry(
        &mut self,
        section: &Section,
        entry: usize,
        svma: u64,
        arch: Arch,
    ) -> Option<RuleWord> {
        // All sections are shown at one place, and the addresses that they speak of with them.
        let from_section = i32::try_from(svma.wrapping_sub(section.svma) as i64).ok()?;
        let address = SHOWN.wrapping_add_signed(from_section.into());
        let entry = i32::try_from(entry).ok()?;
        self.evict(address, arch);
        let address = FrameAddress::from_instruction_pointer(address);
        let (engine, caches) = (&self.entries, &mut self.caches);
        let find = || engine.rule(address, arch, caches, Reads::default());
        self.shown.during(&section.bytes, entry, find)
    }

    /// Evicts an address from framehop's cache, by a look-up of an address of no module that takes its place. The cache
    /// distinguishes the rules of one image from those of another by 16 bits that count how often modules came and
    /// went, and wrap around; and all that is shown has the same count. Signal-safe.
    fn evict(&mut self, address: u64, arch: Arch) {
        let other = match address % SLOTS {
            slot if slot == address => slot.wrapping_add(SLOTS),
            slot => slot,
        };
        let other = FrameAddress::from_instruction_pointer(other);
        // The result does not matter: the lookup is made for its effect on the cache.
        let _ = self
            .entries
            .rule(other, arch, &mut self.caches, Reads::NONE);
    }
}

/// Addresses of the stack words that were read: the first word has the value [`WORD`].
#[derive(Default)]
struct Reads {
    addresses: [u64; 4],
    count: usize,
}

impl Reads {
    /// Nothing can be read.
    const NONE: Reads = Reads {
        addresses: [0; 4],
        count: 4,
    };

    fn read(&mut self, address: u64) -> Result<u64, ()> {
        *self.addresses.get_mut(self.count).ok_or(())? = address;
        let word = WORD.wrapping_add(self.count as u64);
        self.count = self.count.wrapping_add(1);
        Ok(word)
    }

    /// Returns the address of the stack word that was read as `word`.
    fn of(&self, word: u64) -> Option<u64> {
        let which = usize::try_from(word.checked_sub(WORD)?).ok()?;
        let read = self.addresses.get(..self.count)?;
        read.get(which).copied()
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}
