//! Rules learned from framehop.
//!
//! framehop keeps the rules that it unwinds by to itself. It is made to leave a frame whose registers
//! are marks, over a stack whose words are marks: what it reads, and what it puts where, is the rule.
//! Where it knows none it goes by the frame pointer and does not say so; so it is only given addresses
//! whose entry was looked at before: those that [`super::cfi`] and [`super::compact`] call plain.

use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{
    ExplicitModuleSectionInfo, FrameAddress, Module, MustNotAllocateDuringUnwind as Policy,
    Unwinder,
};

use super::registers::Arch;
use super::rule::{Base, Rule};
use super::section::Bytes;

/// What framehop knows of one image, at stated addresses. Never changed once made, so that the set of
/// images that holds it is published whole.
pub(crate) struct Engine {
    base: u64,
    x86_64: UnwinderX86_64<Bytes, Policy>,
    arm64: UnwinderAarch64<Bytes, Policy>,
}

/// What framehop needs to unwind without allocating, for one unwinder.
pub(crate) struct Scratch {
    x86_64: CacheX86_64<Policy>,
    arm64: CacheAarch64<Policy>,
    /// Without a module, see [`Scratch::evict`].
    empty_x86_64: UnwinderX86_64<Bytes, Policy>,
    empty_arm64: UnwinderAarch64<Bytes, Policy>,
}

/// Of which of an address' rules there is question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// That of the very instruction.
    Instruction,
    /// That of a call there, which compact unwind information speaks of.
    Call,
}

/// The registers of the frame that is left, and the first of the words that it reads. Each is further
/// from the next than any rule reaches.
const LR: u64 = 0x2000_0000_0000;
const SP: u64 = 0x4000_0000_0000;
const FP: u64 = 0x6000_0000_0000;
const WORD: u64 = 0x7000_0000_0000;

/// How many rules framehop's cache has room for: addresses that differ by this share a place.
const SLOTS: u64 = 509;

impl Engine {
    /// Of an image with these sections. Not signal-safe.
    pub(crate) fn new(sections: ExplicitModuleSectionInfo<Bytes>) -> Engine {
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

    /// The rule of an address (svma) whose entry is plain; `None` where it has no short form.
    /// Signal-safe.
    pub(crate) fn rule(
        &self,
        svma: u64,
        arch: Arch,
        at: At,
        scratch: &mut Scratch,
    ) -> Option<Rule> {
        let behind = svma.checked_add(1)?;
        if svma.checked_sub(self.base)? >= u64::from(u32::MAX) {
            return None;
        }
        let address = match at {
            At::Instruction => FrameAddress::from_instruction_pointer(svma),
            At::Call => FrameAddress::from_return_address(behind)?,
        };
        scratch.evict(svma, arch);
        let mut reads = Reads::default();
        let mut read = |address| reads.read(address);
        let (caller, sp, fp) = match arch {
            Arch::X86_64 => {
                let mut registers = UnwindRegsX86_64::new(LR, SP, FP);
                let cache = &mut scratch.x86_64;
                let caller = self
                    .x86_64
                    .unwind_frame(address, &mut registers, cache, &mut read);
                (caller, registers.sp(), registers.bp())
            }
            Arch::Arm64 => {
                let mut registers = UnwindRegsAarch64::new(LR, SP, FP);
                let cache = &mut scratch.arm64;
                let caller = self
                    .arm64
                    .unwind_frame(address, &mut registers, cache, &mut read);
                (caller, registers.sp(), registers.fp())
            }
        };
        let Some(caller) = caller.ok()? else {
            // On arm64 it also takes a saved frame pointer of 0 for that, which no mark is.
            return Some(Rule::Root);
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
        Rule::frame(base, sp.wrapping_sub(from) as i64, return_address, saved)
    }
}

impl Scratch {
    /// Not signal-safe.
    pub(crate) fn new() -> Scratch {
        Scratch {
            x86_64: CacheX86_64::new_in(),
            arm64: CacheAarch64::new_in(),
            empty_x86_64: UnwinderX86_64::new(),
            empty_arm64: UnwinderAarch64::new(),
        }
    }

    /// Has framehop's cache forget an address, by what takes its place. It distinguishes the rules of one image
    /// from those of another by 16 bits that count how often modules came and went, and come round.
    /// Signal-safe.
    fn evict(&mut self, svma: u64, arch: Arch) {
        let other = svma.checked_add(SLOTS).unwrap_or(svma % SLOTS);
        let address = FrameAddress::from_instruction_pointer(other);
        let mut read = |_| Ok(WORD);
        // What this leads to does not matter.
        match arch {
            Arch::X86_64 => {
                let mut registers = UnwindRegsX86_64::new(LR, SP, FP);
                let cache = &mut self.x86_64;
                let empty = &self.empty_x86_64;
                let _ = empty.unwind_frame(address, &mut registers, cache, &mut read);
            }
            Arch::Arm64 => {
                let mut registers = UnwindRegsAarch64::new(LR, SP, FP);
                let cache = &mut self.arm64;
                let empty = &self.empty_arm64;
                let _ = empty.unwind_frame(address, &mut registers, cache, &mut read);
            }
        }
    }
}

/// Where the words of the stack that were read lie: the first one is [`WORD`].
#[derive(Default)]
struct Reads {
    addresses: [u64; 4],
    count: usize,
}

impl Reads {
    fn read(&mut self, address: u64) -> Result<u64, ()> {
        *self.addresses.get_mut(self.count).ok_or(())? = address;
        self.count += 1;
        Ok(WORD + self.count as u64 - 1)
    }

    /// Where a word that was read lies.
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
