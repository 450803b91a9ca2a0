//! Rules of frames in Mach-O images, whose compact unwind holds at calls alone.

use super::{Unwinder, Walk};
use crate::capture::cfi;
use crate::capture::compact::Compact;
use crate::capture::flow::{self, Code, RuleConfidence};
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;
use crate::capture::rule::{Base, Rule, RuleSource};

impl Walk<'_, dyn Memory + '_> {
    /// The rule at an address (svma) where the state stands: tables say what holds at calls; where
    /// a thread was stopped elsewhere, and where tables are silent, the code decides.
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
        // A call of a piece of the prologue is made before the frame is there that tables speak of.
        let behind = match self.arch {
            Arch::Arm64 => image.instructions(self.state.pc, 4).unwrap_or_default(),
            Arch::X86_64 => &[],
        };
        let in_body = !self.state.exact && !flow::gives_link_back(behind);
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

    /// x86_64: the same, where no table knows the code. Assembly has labels within its functions, some of which
    /// are listed as functions: a way from the beginning of one before leads there, and not from the label, or
    /// from there more is taken down than was put up.
    fn rule_of_label(&mut self, image: &LoadedImage, code: Code<'_>, own: (Rule, bool)) -> Rule {
        /// Most labels that are tried.
        const LABELS: usize = 4;
        if own.1 && !self.unwinder.follower.takes_down_more(code) {
            return own.0;
        }
        let mut whole = code;
        for _ in 0..LABELS {
            let Some((before, both)) = image.with_before(whole) else {
                break;
            };
            let start = before.start;
            let row = self.row_at(image, start);
            if row.is_some() || self.compact_rule(image, start).is_some() {
                break;
            }
            whole = both;
            let (rule, followed) = self.rule_by_code(image, whole, None, None);
            if followed {
                return rule;
            }
        }
        own.0.guessed()
    }

    /// The rule that an entry of `__unwind_info` has for an address (svma).
    fn compact_rule(&mut self, image: &LoadedImage, svma: u64) -> Option<(Rule, RuleSource)> {
        match image.compact(svma, self.arch, &mut self.unwinder.scratch) {
            Compact::Body(rule, source) => Some((rule, source)),
            Compact::Dwarf | Compact::Nothing => None,
        }
    }

    /// The rule that call frame information has for an address (svma), and where it is from.
    fn rule_of_row(&mut self, image: &LoadedImage, svma: u64) -> Option<(Rule, RuleSource)> {
        let Unwinder {
            context, scratch, ..
        } = &mut *self.unwinder;
        let cfi = image.cfi.as_ref()?;
        let word = cfi.rule(svma, self.arch, context, scratch)?;
        Some((word.rule(), word.source()))
    }

    /// The rule where the state stands in a function's code, and whether a way from its beginning leads
    /// there. `row` is what call frame information holds, `body` what any table does.
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
            (Some((rule, RuleConfidence::Followed)), _) => return (rule, true),
            (Some((rule, RuleConfidence::Either)), _) => return (rule.guessed(), false),
            // Without a table either, the way there is not known.
            (Some((rule, _)), None) if body.is_none() => return (rule.guessed(), false),
            (Some((rule, _)), None) => return (rule, false),
            (Some((rule, RuleConfidence::Body)), Some(_)) if !rows => return (rule, false),
            (Some((rule, RuleConfidence::FromBody(block))), Some(row)) => {
                let from = self.row_at(image, block);
                if from == Some(row) {
                    return (rule, false);
                }
                // A table that has rows for the middle of epilogues knows better, but not one by
                // which the frame pointer is the frame's when it is the caller's already.
                let given_back = from
                    .filter(|_| is_by_fp(row))
                    .and_then(|from| flow::behind_epilogue(code, block, from, pc));
                if let Some(rule) = given_back.or((!rows).then_some(rule)) {
                    return (rule, false);
                }
            }
            _ => {}
        }
        (body.unwrap_or(Rule::Nothing), false)
    }

    /// Returns true if the rows of a function hold at its calls only, and not at each instruction: then they are wrong
    /// where it returns.
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

    /// Returns true if a row counts the CFA from a register that no call preserves: such a row is of that one
    /// instruction, as in a loop that moves sp down page by page.
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

    /// Returns true if the rule of the last frame given is not that of a row.
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

    /// Returns the second frame of a walk in an image whose code no table covers: at `pc`, with that stack pointer; the
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
        // Alone it takes down what it has not put up: nothing is certain.
        let alone = second(&code[12..], &[0x80, 0x02, 0], 0x100, 0x1018);
        assert_ne!(alone, caller);
        assert!(alone.is_none_or(|(_, found)| found != Found::UnwindInfo));
    }
}
