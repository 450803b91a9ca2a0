//! Walking a stack: from registers to the chain of callers. Signal-safe, all of this module, once an [`Unwinder`] is
//! made.

mod extended;
mod frame;
mod frame_layout;
mod guess;
mod look_ahead;
mod macho;
mod restore;
mod resume;
mod return_in_register;
mod row;
mod rule_lookup;
mod state;

use std::ops::Range;

use extended::LeftFrame;
use guess::CodeOutcome;
use state::WalkState;

use super::cfi::{RowContext, RowError};
use super::engine::Scratch;
use super::flow::Follower;
use super::images::Images;
use super::loaded_image::{LoadedImage, recheck_all};
use super::memory::{Memory, Missing};
use super::registers::{Arch, Registers};
use super::rule::{Base, KnownRule, Rule, RuleCache, RuleSource, RuleWord};
use super::tasks::{AsyncFrame, plain_fp};
use crate::report::model::{Found, RawFrame, WalkEnd};

/// Most frames of a walk: a stack of 8 MiB has no more.
const MAX_FRAMES: u32 = 1 << 20;

/// Walks stacks; keeps what it learns about addresses for the next walk.
///
/// Signal-safe once made: walking never allocates, locks or panics, whatever the registers, the
/// stack and the images hold. One unwinder is for one thread at a time.
///
/// ```
/// use wedjat::unwind::{Images, LoadedImage, Registers, StackCopy, Unwinder};
///
/// // An image without unwind information, so that the walk needs a frame pointer.
/// let images = Images::new(vec![LoadedImage::new("app", 0x5000_0000, 0, 0x1000)]);
/// // At 0x1000: the caller's frame pointer (none) and the return address.
/// let stack: Vec<u8> = [0u64, 0x5000_0456].iter().flat_map(|word| word.to_le_bytes()).collect();
/// let registers = Registers::x86_64(0x5000_0123, 0x1000, 0x1000);
///
/// let mut unwinder = Unwinder::new();
/// let mut walk = unwinder.walk(&registers, &images, StackCopy::new(0x1000, &stack));
/// let frames: Vec<u64> = walk.by_ref().map(|frame| frame.pc).collect();
/// assert_eq!(frames, [0x5000_0123, 0x5000_0456]);
/// assert!(walk.end().is_some());
/// ```
#[derive(Debug)]
pub struct Unwinder {
    cache: RuleCache,
    context: Box<RowContext>,
    scratch: Scratch,
    follower: Follower,
}

impl Default for Unwinder {
    fn default() -> Unwinder {
        Unwinder::new()
    }
}

impl Unwinder {
    /// Allocates all that it will ever need: 474 KiB.
    pub fn new() -> Unwinder {
        Unwinder {
            cache: RuleCache::new(),
            context: Box::new(RowContext::new_in()),
            scratch: Scratch::new(),
            follower: Follower::new(),
        }
    }

    /// Begins a walk at the given registers. Signal-safe.
    pub fn walk<'a, M: Memory>(
        &'a mut self,
        registers: &'a Registers,
        images: &'a Images,
        memory: M,
    ) -> Walk<'a, M> {
        self.walk_from((registers, true), images, memory)
    }

    /// Begins a walk at a frame that has made a call: pc is where that call returns to.
    /// Signal-safe.
    pub fn walk_from_call<'a, M: Memory>(
        &'a mut self,
        registers: &'a Registers,
        images: &'a Images,
        memory: M,
    ) -> Walk<'a, M> {
        self.walk_from((registers, false), images, memory)
    }

    /// As [`Unwinder::walk`], where of the registers only pc, sp and those of the bits in `known` are
    /// known: each step is by a whole row. Where that needs another register, the CFA is counted from the stack pointer
    /// by the function's own instructions (x86_64); a frame that this does not make certain is a guess, and
    /// `Walk::lacked` is true from then on. Signal-safe.
    #[doc(hidden)]
    pub fn walk_known<'a, M: Memory>(
        &'a mut self,
        registers: &'a Registers,
        known: u64,
        images: &'a Images,
        memory: M,
    ) -> Walk<'a, M> {
        let arch = registers.arch();
        let mut walk = self.walk_from((registers, true), images, memory);
        walk.state.known = known | 1 << arch.sp() | 1 << arch.pc();
        walk.rule_kind = RuleKind::Full;
        walk
    }

    fn walk_from<'a, M: Memory>(
        &'a mut self,
        (registers, at_pc): (&'a Registers, bool),
        images: &'a Images,
        memory: M,
    ) -> Walk<'a, M> {
        self.cache.use_generation(images.generation());
        recheck_all();
        Walk {
            unwinder: self,
            images,
            memory,
            arch: registers.arch(),
            pointer_mask: match registers.arch() {
                Arch::X86_64 => u64::MAX,
                Arch::Arm64 => images.strip(u64::MAX),
            },
            here: KnownRule::new(RuleWord::new(Rule::Nothing, RuleSource::Guess), None),
            last_image: (0..0, None),
            initial: registers,
            at_pc,
            state: WalkState::new(registers, at_pc),
            rule_kind: RuleKind::Short,
            restarts: 0,
            to_replay: 0,
            lacked: false,
            links: 0,
            budget: frame_layout::MAX_INSTRUCTIONS,
            yielded: 0,
            short_budget: 0,
            task: None,
            ended: None,
        }
    }
}

/// The frames of one stack, innermost first. Signal-safe.
#[derive(Debug)]
pub struct Walk<'a, M: ?Sized> {
    unwinder: &'a mut Unwinder,
    images: &'a Images,
    arch: Arch,
    /// Bits of a return address that are not pointer authentication's.
    pointer_mask: u64,
    initial: &'a Registers,
    at_pc: bool,
    state: WalkState,
    /// The rule and the image of the frame that was given last.
    here: KnownRule,
    /// The image that was looked for last, and addresses that are all in it.
    last_image: (Range<u64>, Option<u32>),
    rule_kind: RuleKind,
    /// Count of restarts to follow every register.
    restarts: u32,
    /// Count of frames still to leave until the walk is back at the place of its restart.
    to_replay: u32,
    /// True if a register's value was not known, and nothing else made the frame certain.
    pub(crate) lacked: bool,
    /// Bits of the registers by which frames were left whose return address was in one.
    links: u32,
    /// Count of instructions that may still be examined.
    budget: u32,
    /// Count of the frames that were given, and of those of `short_budget`.
    yielded: u32,
    /// Count of the frames to come, at most, for which a short rule is enough; 0 if the next one may need more.
    short_budget: u32,
    /// The frame before the one that was given last, if it is of an async function.
    pub(super) task: Option<AsyncFrame>,
    ended: Option<WalkEnd>,
    /// The last field: what is not on the usual way takes it as [`dyn Memory`](Memory), and is compiled once.
    memory: M,
}

/// How frames are left that have a short rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleKind {
    /// The short rule: of the registers that calls preserve only the frame pointer is followed.
    Short,
    /// The same, except for a frame whose frame pointer may be another frame's, see [`Walk::leave_by_row`].
    Uncertain,
    /// The row: every preserved register is followed.
    Full,
}

impl<M: Memory> Iterator for Walk<'_, M> {
    type Item = RawFrame;

    #[inline]
    fn next(&mut self) -> Option<RawFrame> {
        if self.short_budget > 0
            && let Some(frame) = self.leave_quickly()
        {
            return Some(frame);
        }
        let walk: &mut Walk<'_, dyn Memory + '_> = self;
        walk.next_frame()
    }
}

impl<'a> Walk<'a, dyn Memory + '_> {
    /// The image of the frame that the state stands at, if its sections can be read.
    fn image(&self) -> Option<&'a LoadedImage> {
        self.images.get(self.here.image()?)
    }
}

impl<M: ?Sized> Walk<'_, M> {
    /// The reason why the walk ended; `None` while it has not.
    pub fn end(&self) -> Option<WalkEnd> {
        self.ended
    }

    /// Returns the source of the rule that led from the last returned frame to its caller; `None` before the first frame.
    pub fn rule_source(&self) -> Option<RuleSource> {
        (self.yielded > 0).then(|| match self.here.word.source() {
            RuleSource::Framehop if self.takes_row() => RuleSource::Row,
            source => source,
        })
    }

    /// Returns the registers of the frame that was returned last, as far as they are known.
    pub fn registers(&self) -> Registers {
        self.state.all()
    }

    /// The frame that the state stands at.
    #[inline(always)]
    fn frame(&self) -> RawFrame {
        RawFrame {
            pc: self.state.pc,
            found: self.state.found,
            image: self.here.image().unwrap_or(RawFrame::NO_IMAGE),
        }
    }

    /// Returns true if a frame that has a short rule is left by its row nevertheless.
    fn takes_row(&self) -> bool {
        match (self.rule_kind, self.here.word.frame_rule()) {
            (RuleKind::Full, _) => true,
            (RuleKind::Uncertain, Some(usual)) => {
                let cfa = self.state.cfa(usual);
                usual.base == Base::Fp && self.state.uncertain & 1 << self.arch.fp() != 0
                    || self.state.called.is_some_and(|(called, _)| called == cfa)
            }
            _ => false,
        }
    }
}

impl Walk<'_, dyn Memory + '_> {
    /// As [`Iterator::next`], whatever the frame is.
    #[inline(never)]
    fn next_frame(&mut self) -> Option<RawFrame> {
        self.yielded = self.yielded.saturating_sub(self.short_budget);
        self.short_budget = 0;
        if self.ended.is_some() {
            return None;
        }
        self.task = None;
        if self.yielded > 0
            && let Err(end) = self.step()
        {
            self.ended = Some(end);
            return None;
        }
        if self.yielded >= MAX_FRAMES {
            self.ended = Some(WalkEnd::Limit);
            return None;
        }
        self.yielded = self.yielded.saturating_add(1);
        self.look_up_rule();
        if self.yielded > 1
            && (self.yielded == 2 || self.here.word.frame_rule().is_none())
            && self.state.found == Found::UnwindInfo
            && !self.is_in_code()
        {
            self.lower_confidence();
        }
        let is_sure = self.state.found == Found::UnwindInfo && self.state.known == self.pc_sp_fp();
        if is_sure && self.rule_kind == RuleKind::Short && !self.state.at_pc {
            self.short_budget = MAX_FRAMES.saturating_sub(self.yielded);
            self.yielded = MAX_FRAMES;
        }
        Some(self.frame())
    }

    /// Leaves the frame that the state stands at, by the rule that holds there.
    #[inline(always)]
    fn step(&mut self) -> Result<(), WalkEnd> {
        let left = LeftFrame {
            sp: self.state.sp,
            fp: self.state.fp,
            at_pc: self.state.at_pc,
        };
        match self.here.word.frame_rule() {
            Some(usual) if self.rule_kind == RuleKind::Short => self.leave_by_frame(usual)?,
            _ => self.leave_otherwise()?,
        }
        if plain_fp(self.state.fp).is_some() {
            self.clear_extended_bit(left);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn leave_otherwise(&mut self) -> Result<(), WalkEnd> {
        match self.here.word.rule() {
            Rule::Frame(usual) if !self.takes_row() || self.differs_from_row() => {
                self.leave_by_frame(usual)?;
                self.state.uncertain &= match usual.fp {
                    Some(_) => 0,
                    None => 1 << self.arch.fp(),
                };
            }
            Rule::Frame(_) | Rule::WholeRow => match self.leave_by_row() {
                Err(RowError::UnknownRegister) if self.rule_kind != RuleKind::Full => {
                    self.restart_in_full()?
                }
                Err(RowError::UnknownRegister) => self.end_unknown()?,
                Err(RowError::Bad) => return Err(WalkEnd::NoUnwindInfo),
                Err(RowError::Missing(missing)) => return Err(end_of(missing)),
                Ok(Some(end)) => return Err(end),
                Ok(None) => {}
            },
            Rule::Guess(_) if self.steps_by_code()? => {}
            Rule::Guess(usual) => {
                self.leave_by_frame(usual).map_err(end_of_guess)?;
                self.state.found = match usual.base {
                    Base::Sp => Found::LeafReturnAddress,
                    Base::Fp => Found::FramePointer,
                };
                // It may not be the caller's either.
                self.state.known &= !(1 << self.arch.fp());
            }
            Rule::Root => return Err(WalkEnd::Root),
            Rule::Signal => self.leave_handler()?,
            Rule::LinkIn { register, cfa, fp } => self.leave_by_link(register, cfa, fp)?,
            Rule::RestoredContext => self.leave_by_jump_target()?,
            Rule::Nothing => self.leave_by_guess()?,
        }
        self.return_to_short_rules();
        Ok(())
    }

    /// Returns true if the state's address lies in an image's instructions.
    fn is_in_code(&self) -> bool {
        let images = self.images.list();
        let image = self
            .here
            .image()
            .and_then(|index| images.get(index as usize));
        image.is_some_and(|image| image.is_code(self.state.lookup()))
    }

    /// Unwind information led to where no image has code. It may be code that was made at run time, or the
    /// information may be wrong there, as it is of a naked function that pushes: if that is the first one,
    /// its own instructions lead to its caller. Neither is certain.
    #[cold]
    fn lower_confidence(&mut self) {
        if self.yielded == 2 && self.at_pc && self.rule_kind == RuleKind::Short {
            let before = std::mem::replace(&mut self.state, WalkState::new(self.initial, true));
            if self.leave_by_code() != Ok(CodeOutcome::Left) {
                self.state = before;
            }
            self.look_up_rule();
        }
        if self.state.found == Found::UnwindInfo {
            self.state.found = Found::LeafReturnAddress;
        }
    }

    fn end_unknown(&mut self) -> Result<(), WalkEnd> {
        self.lacked = true;
        Err(WalkEnd::NoUnwindInfo)
    }

    fn is_known(&self, register: usize) -> bool {
        self.state.known & (1 << register) != 0
    }
}

/// The reason why a guess leads no further: a 0 that it found does not make the frame the outermost one.
fn end_of_guess(end: WalkEnd) -> WalkEnd {
    match end {
        WalkEnd::Root => WalkEnd::NoUnwindInfo,
        end => end,
    }
}

fn end_of(missing: Missing) -> WalkEnd {
    match missing {
        Missing::Truncated => WalkEnd::Truncated,
        Missing::Unreadable => WalkEnd::Unreadable,
    }
}
