//! The rule that holds where a walk stands: from the cache, or found anew. In ELF images, that of call frame information.
//!
//! Some entries say the same of all of their code, whatever it does to the stack pointer: runtimes with a stack of their
//! own (LuaJIT, GHC) enter it by assembly whose one row is right only after its prologue. Before, and in the epilogue, its
//! CFA may be anywhere, at times with a return address of known code.

use super::frame_layout::follows_call;
use super::guess::CodeOutcome;
use super::{Unwinder, Walk};
use crate::capture::flow::{self, Code};
use crate::capture::instructions::LONGEST;
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;
use crate::capture::rule::{Base, KnownRule, Rule, RuleSource, RuleWord};
use crate::report::model::WalkEnd;

/// Most bytes of the code ahead that are examined.
const MAX_AHEAD: usize = 96;

/// Most bytes ahead of an indirect jump that ends a `longjmp`, and from its function's beginning.
const MAX_BEFORE_JUMP: usize = 24;
const MAX_EXAMINED: usize = 1 << 16;

impl Walk<'_, dyn Memory + '_> {
    /// Sets the rule and the image of where the state stands.
    #[inline]
    pub(super) fn look_up_rule(&mut self) {
        let address = self.state.lookup();
        match self.unwinder.cache.caller(self.here, address) {
            Some(known) => self.here = known,
            None => self.here = self.find_rule(address),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_rule(&mut self, address: u64) -> KnownRule {
        // Most callers are of the same image.
        if !self.last_image.0.contains(&address) {
            self.last_image = match self.images.find_around(address) {
                Some((around, index)) => (around, Some(index)),
                None => (0..0, None),
            };
        }
        let index = self.last_image.1;
        let image = index.and_then(|index| self.images.get(index));
        let word = match image {
            Some(image) if image.is_mach_o() => self.rule_of_mach_o(image, image.svma(address)),
            Some(image) => {
                let found = self.rule_of_elf(image, image.svma(address));
                if self.state.at_pc {
                    self.verify_by_code(image, found)
                } else {
                    found
                }
            }
            None => RuleWord::new(Rule::Nothing, RuleSource::Guess),
        };
        let word = match image {
            Some(image) => self.rule_of_extended(image, word),
            None => word,
        };
        let known = KnownRule::new(word, index);
        self.unwinder.cache.insert(address, known);
        known
    }

    /// The rule at the instruction where the walk begins, as far as that instruction and those around it agree.
    fn verify_by_code(&mut self, image: &LoadedImage, found: RuleWord) -> RuleWord {
        let rule = found.rule();
        let returns = Rule::frame(Base::Sp, 8, Some(-8), None);
        match returns {
            Some(returns) if rule != Rule::Nothing && !is_entry(rule) && self.is_at_return() => {
                RuleWord::new(returns, RuleSource::Instructions)
            }
            _ if self.is_about_to_jump(image) => {
                RuleWord::new(Rule::RestoredContext, RuleSource::Instructions)
            }
            _ if self.is_constant_over_moves(image, rule) => {
                RuleWord::new(rule.guessed(), RuleSource::Instructions)
            }
            _ => found,
        }
    }

    /// Returns true at an x86_64 `ret` whose stack pointer leads behind a call: rows may count from before the last
    /// instruction, as those of return thunks do.
    fn is_at_return(&mut self) -> bool {
        let (pc, sp) = (self.state.pc, self.state.sp);
        let code = self
            .images
            .at(pc)
            .and_then(|image| image.instructions(pc, 1));
        self.arch == Arch::X86_64 && code == Some(b"\xc3") && self.has_return_address(sp)
    }

    /// Returns true if a word of the stack leads behind a call.
    fn has_return_address(&mut self, slot: u64) -> bool {
        let target = self.memory.read(slot);
        target.is_ok_and(|target| follows_call(self.images, self.arch, target))
    }

    /// Returns true if x86_64 code has taken another frame's stack pointer and is about to jump there, as that of
    /// GCC's `__builtin_longjmp` does.
    fn is_about_to_jump(&mut self, image: &LoadedImage) -> bool {
        let svma = image.svma(self.state.pc);
        let ahead = image.instructions(self.state.pc, MAX_BEFORE_JUMP);
        if !ahead.is_some_and(|ahead| flow::jumps(Code::of(self.arch, svma, ahead))) {
            return false;
        }
        let context = &mut self.unwinder.context;
        let part = image.cfi.as_ref().and_then(|cfi| cfi.find(svma, context));
        let Some(start) = part.map(|part| part.code.start) else {
            return false;
        };
        let length = usize::try_from(svma.wrapping_sub(start)).unwrap_or(usize::MAX);
        let code = (length < MAX_EXAMINED).then(|| image.instructions(image.avma(start), length));
        code.flatten()
            .is_some_and(|code| flow::loads_sp(Code::of(self.arch, start, code), svma))
    }

    pub(super) fn rule_of_elf(&mut self, image: &LoadedImage, svma: u64) -> RuleWord {
        let Unwinder {
            context, scratch, ..
        } = &mut *self.unwinder;
        let nothing = RuleWord::new(Rule::Nothing, RuleSource::Guess);
        let Some(cfi) = &image.cfi else {
            return nothing;
        };
        if let Some(rule) = cfi.rule(svma, self.arch, context, scratch) {
            return rule;
        }
        match image.entry_at(svma) {
            Some(entry) if cfi.find(entry, context).is_none() => {
                RuleWord::new(Rule::Root, RuleSource::Root)
            }
            _ => nothing,
        }
    }

    /// Returns true if the rule at the instruction where the walk begins is of such an entry (x86_64). At calls it may hold
    /// nevertheless.
    pub(super) fn is_constant_over_moves(&mut self, image: &LoadedImage, rule: Rule) -> bool {
        let by_sp = matches!(rule, Rule::Frame(frame) if frame.base == Base::Sp);
        if !by_sp || self.arch != Arch::X86_64 {
            return false;
        }
        let arch = self.arch;
        let code = |start: u64, length: usize| {
            let bytes = image.instructions(image.avma(start), length)?;
            Some(Code::of(arch, start, bytes))
        };
        let svma = image.svma(self.state.pc);
        let Some(cfi) = image.cfi.as_ref().filter(|cfi| !cfi.has_exact_rows(svma)) else {
            return false;
        };
        if let Some(part) = cfi.of_one_row(svma) {
            let length = usize::try_from(part.end.saturating_sub(part.start)).unwrap_or(0);
            let moves = code(part.start, length).is_some_and(flow::moves);
            if !moves {
                cfi.set_exact_rows(svma);
            }
            return moves
                && !self.is_as_entered(
                    code(part.start, length.saturating_add(LONGEST)),
                    svma,
                    rule,
                );
        }
        let Some(code) = code(svma, MAX_AHEAD) else {
            return false;
        };
        !flow::follows_sp(code, rule, &mut |svma| {
            let found = self.rule_of_elf(image, svma).rule();
            Some(found).filter(|found| *found != Rule::Nothing)
        })
    }

    /// Returns true if the row is that of a function's first instruction, nothing has moved the stack pointer on the way
    /// from there, and it leads behind a call: such is `swapcontext` up to where it takes the other stack.
    fn is_as_entered(&mut self, code: Option<Code<'_>>, svma: u64, rule: Rule) -> bool {
        let Some(code) = code.filter(|_| is_entry(rule)) else {
            return false;
        };
        let depth = self.unwinder.follower.depth(code, svma, false);
        let is_entry = depth.is_some_and(|depth| depth.followed && depth.sp == 8);
        is_entry && self.has_return_address(self.state.sp)
    }

    /// Steps by the code ahead, where that ends at a return address in known code. Returns true if it did.
    /// A guess at an instruction of Mach-O comes from the code itself.
    pub(super) fn steps_by_code(&mut self) -> Result<bool, WalkEnd> {
        let of_rows = self.image().is_some_and(|image| !image.is_mach_o());
        Ok(of_rows && self.state.at_pc && self.leave_by_code()? == CodeOutcome::Left)
    }
}

/// Returns true for a rule by which the stack pointer leads to the return address.
fn is_entry(rule: Rule) -> bool {
    matches!(rule, Rule::Frame(rule) if (rule.base, rule.cfa, rule.ra) == (Base::Sp, 1, Some(-1)))
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use crate::capture::tests::bytes_of;
    use crate::capture::{ImageTable, Registers, StackCopy, Unwinder};
    use crate::report::model::Found;

    // One row for all of it, as runtimes that enter their own stack have: it holds at `body` alone.
    std::arch::global_asm!(
        ".text",
        ".cfi_startproc",
        ".cfi_def_cfa rsp, 32",
        "wedjat_test_constant: push rbx",
        "sub rsp, 16",
        "wedjat_test_constant_body: nop",
        "add rsp, 16",
        "pop rbx",
        "wedjat_test_constant_returns: ret",
        ".cfi_endproc",
        ".cfi_startproc",
        "call wedjat_test_constant",
        "wedjat_test_constant_called: call wedjat_test_constant",
        "wedjat_test_constant_other: ret",
        ".cfi_endproc",
    );
    unsafe extern "C" {
        fn wedjat_test_constant();
        fn wedjat_test_constant_body();
        fn wedjat_test_constant_returns();
        fn wedjat_test_constant_called();
        fn wedjat_test_constant_other();
    }

    #[test]
    fn an_entry_that_is_the_same_before_and_behind_a_push_is_not_certain() {
        ImageTable::refresh();
        let images = ImageTable::enter();
        let called = wedjat_test_constant_called as *const () as u64;
        let other = wedjat_test_constant_other as *const () as u64;
        let at = |pc: unsafe extern "C" fn(), words: &[u64]| {
            let stack = bytes_of(words);
            let registers = Registers::x86_64(pc as *const () as u64, 0x1000, 0);
            let mut unwinder = Unwinder::new();
            let mut walk = unwinder.walk(&registers, images.set(), StackCopy::new(0x1000, &stack));
            walk.nth(1).map(|frame| (frame.pc, frame.found))
        };
        let guess = Some((called, Found::LeafReturnAddress));
        // The row leads to a return address too, that of a frame further out.
        let words = [called, 1, 2, other, 0, 0, 0, other];
        assert_eq!(at(wedjat_test_constant, &words), guess);
        // At a return the stack pointer itself leads there.
        let certain = Some((called, Found::UnwindInfo));
        assert_eq!(at(wedjat_test_constant_returns, &words), certain);
        let words = [1, 2, 3, called, 4, 5, other];
        assert_eq!(at(wedjat_test_constant_body, &words), guess);
    }
}
