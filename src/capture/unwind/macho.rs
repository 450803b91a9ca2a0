//! Unwind rules of frames in Mach-O images. Entries of compact unwind are valid at calls only.

use super::{Unwinder, Walk};
use crate::capture::cfi;
use crate::capture::flow::{self, Code, RuleConfidence};
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;
use crate::capture::rule::{Base, Rule, RuleSource, RuleWord};

impl Walk<'_, dyn Memory + '_> {
    /// The rule of the present frame, at an address (svma). At calls the tables decide. The instructions decide where
    /// a thread was stopped elsewhere, and where no table has the address.
    #[cold]
    pub(super) fn rule_of_mach_o(&mut self, image: &LoadedImage, svma: u64) -> RuleWord {
        if image.is_signal_trampoline(svma, self.arch) {
            return RuleWord::new(Rule::Signal, RuleSource::Signal);
        }
        let by_row = self.rule_of_row(image, svma);
        let row = by_row.map(RuleWord::rule);
        let body = by_row.or_else(|| self.compact_rule(image, svma));
        if let (Some(Rule::Signal | Rule::Root), Some(rule)) = (row, body) {
            return rule;
        }
        // A prologue may call a part of itself that was outlined. The frame that tables describe is not there yet at
        // that call.
        let next_code = match self.arch {
            Arch::Arm64 => image.instructions(self.state.pc, 4).unwrap_or_default(),
            Arch::X86_64 => &[],
        };
        let in_body = !self.state.at_pc && !flow::restores_link_register(next_code);
        if let Some(rule) = body
            && in_body
        {
            return rule;
        }
        if row == Some(Rule::WholeRow) && self.is_by_scratch(image, svma) {
            return RuleWord::new(Rule::WholeRow, RuleSource::Row);
        }
        let Some(mut code) = image.function(svma, self.arch) else {
            return body.unwrap_or(RuleWord::new(Rule::Nothing, RuleSource::Guess));
        };
        let body = body.map(RuleWord::rule);
        // On x86_64 data may lie between functions, and is not distinguished from instructions.
        if body.is_none() && self.arch == Arch::Arm64 {
            code = image.whole_function(code);
        }
        let (mut rule, followed) = self.rule_by_code(image, code, row, body);
        // Symbol tables list labels within functions of assembly as functions: the code then pops what it has not pushed,
        // or does not lead here. What lies ahead shows the caller.
        let no_table = body.is_none() && self.arch == Arch::X86_64;
        if no_table && (!followed || self.unwinder.follower.pops_more_than_pushed(code)) {
            rule = Rule::Nothing;
        }
        let rule = if image.is_uncertain(code.start) {
            rule.guessed()
        } else {
            rule
        };
        RuleWord::new(rule, RuleSource::Instructions)
    }

    /// Returns the rule of the entry of `__unwind_info` for an address (svma).
    fn compact_rule(&mut self, image: &LoadedImage, svma: u64) -> Option<RuleWord> {
        let compact = image.compact.as_ref()?;
        compact.find(svma, self.arch, &mut self.unwinder.scratch)
    }

    /// Returns the rule of call frame information for an address (svma).
    fn rule_of_row(&mut self, image: &LoadedImage, svma: u64) -> Option<RuleWord> {
        let Unwinder {
            context, scratch, ..
        } = &mut *self.unwinder;
        let cfi = image.cfi.as_ref()?;
        cfi.rule(svma, self.arch, context, scratch)
    }

    /// Returns the rule at pc by the instructions of its function, and true if a path from the function's start leads
    /// to pc. `row` is the rule of call frame information, `body` the rule of any table.
    fn rule_by_code(
        &mut self,
        image: &LoadedImage,
        code: Code<'_>,
        row: Option<Rule>,
        body: Option<Rule>,
    ) -> (Rule, bool) {
        let (at_pc, pc) = (self.state.at_pc, image.svma(self.state.pc));
        let rows = row.is_some() && !self.is_of_calls_alone(image, code);
        let follower = &mut self.unwinder.follower;
        let followed = follower.rule(code, pc, !at_pc, body, rows);
        match (followed, row) {
            (Some((rule, RuleConfidence::Followed(_))), _) => return (rule, true),
            (Some((rule, RuleConfidence::Either)), _) => return (rule.guessed(), false),
            // There is no table either: the path to pc is not known.
            (Some((rule, _)), None) if body.is_none() => return (rule.guessed(), false),
            (Some((rule, _)), None) => return (rule, false),
            (Some((rule, RuleConfidence::Body)), Some(_)) if !rows => return (rule, false),
            (Some((rule, RuleConfidence::FromBody(block))), Some(row)) => {
                let from = self.row_at(image, block);
                if from == Some(row) {
                    return (rule, false);
                }
                // A row for the middle of an epilogue is more exact than the code, unless it counts from a frame
                // pointer that is the caller's again.
                let after_restore = match (from, row) {
                    (Some(from), Rule::Frame(frame)) if frame.base == Base::Fp => {
                        flow::after_epilogue(code, block, from, pc)
                    }
                    _ => None,
                };
                if let Some(rule) = after_restore {
                    return (rule, false);
                }
                if !rows {
                    return (rule, false);
                }
            }
            _ => {}
        }
        (body.unwrap_or(Rule::Nothing), false)
    }

    /// Returns true if the rows of a function are valid at its calls only. Such rows are wrong at its return.
    fn is_of_calls_alone(&mut self, image: &LoadedImage, code: Code<'_>) -> bool {
        let returns = match self.arch {
            Arch::X86_64 => Rule::frame(Base::Sp, 8, Some(-8), None),
            Arch::Arm64 => Rule::frame(Base::Sp, 0, None, None),
        };
        flow::any_return(code, &mut |at| {
            self.row_at(image, at)
                .is_some_and(|row| Some(row) != returns)
        })
    }

    fn row_at(&mut self, image: &LoadedImage, svma: u64) -> Option<Rule> {
        self.rule_of_row(image, svma).map(RuleWord::rule)
    }

    /// Returns true if a row counts the CFA from a register that calls do not preserve. Such a row is valid at that
    /// instruction alone, such as in a loop that moves sp down page by page.
    fn is_by_scratch(&mut self, image: &LoadedImage, svma: u64) -> bool {
        let row = image
            .cfi
            .as_ref()
            .and_then(|cfi| cfi.find(svma, &mut self.unwinder.context));
        let register = row.and_then(|row| row.cfa_register());
        register.is_some_and(|(register, _)| {
            register != self.arch.sp() && cfi::preserved(self.arch) & (1 << register) == 0
        })
    }

    /// Returns true if the last frame was left by a rule that is not its row's.
    pub(super) fn differs_from_row(&mut self) -> bool {
        let Some(image) = self.image() else {
            return true;
        };
        let svma = image.svma(self.state.lookup());
        image.is_mach_o() && self.row_at(image, svma) != Some(self.here.word.rule())
    }
}

#[cfg(test)]
mod tests {
    use crate::capture::tests::{bytes_of, image, x86_64};
    use crate::capture::{Arch, Images, Registers, StackCopy, Unwinder};
    use crate::report::model::Found;

    const BASE: u64 = 0x5000_0000;
    const CALLER: u64 = BASE + 0x300;

    /// Walks from `pc` with the stack pointer `sp`, in an image without tables, and returns the second frame. The
    /// return address is at 0x1018.
    fn second(code: &[u8], starts: &[u8], pc: u64, sp: u64) -> Option<(u64, Found)> {
        let image = image(Arch::X86_64, BASE, 0x100, code.to_vec()).with_function_starts(starts);
        let images = Images::new(vec![image]);
        let stack = bytes_of(&[7, 7, 7, CALLER, 7, 7, 7]);
        let mut unwinder = Unwinder::new();
        let registers = Registers::x86_64(BASE + pc, sp, 8);
        let mut walk = unwinder.walk(&registers, &images, StackCopy::new(0x1000, &stack));
        walk.nth(1).map(|frame| (frame.pc, frame.found))
    }

    #[test]
    fn a_label_of_assembly_that_is_listed_as_a_function_is_left_by_a_guess() {
        // From 0x100, with labels at 0x104, 0x10c, which is listed, and 0x114.
        let code = x86_64(
            "sub $0x18,%rsp; 1: test %eax,%eax; je 2f; js 3f; jmp 1b; 2: nop; add $0x18,%rsp; ret; xchg %ax,%ax; \
             3: nop; add $0x18,%rsp; ret",
        );
        let caller = Some((CALLER, Found::UnwindInfo));
        let places = [
            (0x100, 0x1018),
            (0x104, 0x1000),
            (0x10c, 0x1000),
            (0x10d, 0x1000),
            (0x111, 0x1018),
            (0x114, 0x1000),
            (0x119, 0x1018),
        ];
        for (pc, sp) in places {
            let found = second(&code, &[0x80, 0x02, 0x0c, 0], pc, sp);
            let how = if pc < 0x10c {
                Found::UnwindInfo
            } else {
                Found::LeafReturnAddress
            };
            assert_eq!(found, Some((CALLER, how)), "{pc:#x}");
        }
        // Without the code before it, the label pops what it did not push: the frame is not certain.
        let alone = second(&code[12..], &[0x80, 0x02, 0], 0x100, 0x1018);
        assert_ne!(alone, caller);
        assert!(alone.is_none_or(|(_, found)| found != Found::UnwindInfo));
    }
}
