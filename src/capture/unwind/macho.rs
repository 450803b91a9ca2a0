//! Unwind rules of frames in Mach-O images. Entries of compact unwind are valid at calls only.

use super::{Unwinder, Walk};
use crate::capture::cfi;
use crate::capture::compact::Compact;
use crate::capture::flow::{self, Code, RuleConfidence};
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;
use crate::capture::rule::{Base, Rule, RuleSource};

impl Walk<'_, dyn Memory + '_> {
    /// The rule of the present frame, at an address (svma). At calls the tables decide. The instructions decide where
    /// a thread was stopped elsewhere, and where no table has the address.
    #[cold]
    pub(super) fn rule_of_mach_o(&mut self, image: &LoadedImage, svma: u64) -> (Rule, RuleSource) {
        if image.is_signal_trampoline(svma, self.arch) {
            return (Rule::Signal, RuleSource::Signal);
        }
        let by_row = self.rule_of_row(image, svma);
        if let Some(rule @ (Rule::Signal | Rule::Root, _)) = by_row {
            return rule;
        }
        let body = by_row.or_else(|| self.compact_rule(image, svma));
        // A prologue may call a part of itself that was outlined. The frame that tables describe is not there yet at
        // that call.
        let next_code = match self.arch {
            Arch::Arm64 => image.instructions(self.state.pc, 4).unwrap_or_default(),
            Arch::X86_64 => &[],
        };
        let in_body = !self.state.exact && !flow::restores_link_register(next_code);
        if let Some(rule) = body
            && in_body
        {
            return rule;
        }
        let row = by_row.map(|(rule, _)| rule);
        if row == Some(Rule::Full) && self.is_by_scratch(image, svma) {
            return (Rule::Full, RuleSource::Row);
        }
        let Some(mut code) = image.function(svma, self.arch) else {
            return body.unwrap_or((Rule::Nothing, RuleSource::Guess));
        };
        let body = body.map(|(rule, _)| rule);
        // On x86_64 data may lie between functions, and is not distinguished from instructions.
        if body.is_none() && self.arch == Arch::Arm64 {
            code = image.whole_function(code);
        }
        let (mut rule, followed) = self.rule_by_code(image, code, row, body);
        if body.is_none() && self.arch == Arch::X86_64 {
            rule = self.rule_of_label(image, code, (rule, followed));
        }
        let rule = if image.is_uncertain(code.start) {
            rule.guessed()
        } else {
            rule
        };
        (rule, RuleSource::Instructions)
    }

    /// The rule at x86_64 code that no table has. Assembly has labels within its functions, and symbol tables list
    /// some of them as functions. The start of `code` may be such a label if no path from it leads to the address, or
    /// if its code pops more than it pushed. Then the rule is that of a path from the start of a function before it.
    fn rule_of_label(&mut self, image: &LoadedImage, code: Code<'_>, label: (Rule, bool)) -> Rule {
        /// Most functions before the label that are tried.
        const LABELS: usize = 4;
        let (rule, followed) = label;
        if followed && !self.unwinder.follower.pops_more_than_pushed(code) {
            return rule;
        }
        let mut whole = code;
        for _ in 0..LABELS {
            let Some((before, joined)) = image.with_before(whole) else {
                break;
            };
            let start = before.start;
            let row = self.row_at(image, start);
            if row.is_some() || self.compact_rule(image, start).is_some() {
                break;
            }
            whole = joined;
            let (rule, followed) = self.rule_by_code(image, whole, None, None);
            if followed {
                return rule;
            }
        }
        rule.guessed()
    }

    /// Returns the rule of the entry of `__unwind_info` for an address (svma).
    fn compact_rule(&mut self, image: &LoadedImage, svma: u64) -> Option<(Rule, RuleSource)> {
        match image.compact(svma, self.arch, &mut self.unwinder.scratch) {
            Compact::Body(rule, source) => Some((rule, source)),
            Compact::Dwarf | Compact::Nothing => None,
        }
    }

    /// Returns the rule of call frame information for an address (svma), and its source.
    fn rule_of_row(&mut self, image: &LoadedImage, svma: u64) -> Option<(Rule, RuleSource)> {
        let Unwinder {
            context, scratch, ..
        } = &mut *self.unwinder;
        let cfi = image.cfi.as_ref()?;
        let entry = cfi.rule(svma, self.arch, context, scratch)?;
        Some((entry.rule(), entry.source()))
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
        let (exact, pc) = (self.state.exact, image.svma(self.state.pc));
        let rows = row.is_some() && !self.is_of_calls_alone(image, code);
        let follower = &mut self.unwinder.follower;
        let followed = follower.rule(code, pc, !exact, body, rows);
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
                let after_restore = match from {
                    Some(from) if is_by_fp(row) => flow::after_epilogue(code, block, from, pc),
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
        self.rule_of_row(image, svma).map(|(rule, _)| rule)
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
    pub(super) fn is_without_row(&mut self, image: Option<u32>) -> bool {
        let images = self.images;
        let Some(image) = image.and_then(|index| images.get(index)) else {
            return true;
        };
        let svma = image.svma(self.state.lookup());
        image.is_mach_o() && self.row_at(image, svma) != Some(self.here.word.rule())
    }
}

fn is_by_fp(rule: Rule) -> bool {
    matches!(rule, Rule::Frame(frame) if frame.base == Base::Fp)
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
    fn a_label_of_assembly_that_is_listed_as_a_function_has_the_frame_that_jumps_to_it() {
        // From 0x100, with labels at 0x104, 0x10c and 0x114.
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
            assert_eq!(found, caller, "{pc:#x}");
        }
        // Without the code before it, the label pops what it did not push: the frame is not certain.
        let alone = second(&code[12..], &[0x80, 0x02, 0], 0x100, 0x1018);
        assert_ne!(alone, caller);
        assert!(alone.is_none_or(|(_, found)| found != Found::UnwindInfo));
    }
}
