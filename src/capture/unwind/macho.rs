//! What holds in a Mach-O image, whose tables say it of calls alone.

use super::Walk;
use crate::capture::cfi;
use crate::capture::compact::Compact;
use crate::capture::flow::Sure;
use crate::capture::images::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::rule::Rule;

impl<M: Memory> Walk<'_, M> {
    /// The rule at an address (svma) where the state stands: tables say what holds at calls; where
    /// a thread was stopped elsewhere, and where tables are silent, the code says it.
    #[cold]
    pub(super) fn rule_of_mach_o(&mut self, image: &LoadedImage, svma: u64) -> Rule {
        let row = self.row_at(image, svma);
        if let Some(rule @ (Rule::Signal | Rule::Root)) = row {
            return rule;
        }
        let body = row.or_else(|| match image.compact(svma, self.arch) {
            Compact::Body(rule) => Some(rule),
            Compact::Dwarf | Compact::Nothing => None,
        });
        let exact = self.state.exact;
        if let Some(rule) = body.filter(|_| !exact) {
            return rule;
        }
        if row == Some(Rule::Full) && self.is_by_scratch(image, svma) {
            return Rule::Full;
        }
        let pc = image.svma(self.state.pc);
        if let Some(code) = image.function(svma, self.arch)
            && let Some((rule, sure)) = {
                let follower = &mut self.unwinder.follower;
                follower.rule(code, pc, !exact, body, row.is_some())
            }
        {
            let follow = match sure {
                Sure::Followed => true,
                Sure::Body => row.is_none(),
                // A table that has rows for the middle of epilogues knows better.
                Sure::FromBody(block) => row.is_none() || self.row_at(image, block) == row,
            };
            if follow {
                return rule;
            }
        }
        body.unwrap_or(Rule::Nothing)
    }

    /// The rule that call frame information has for an address (svma).
    fn row_at(&mut self, image: &LoadedImage, svma: u64) -> Option<Rule> {
        let row = image.cfi.as_ref()?.find(svma, &mut self.unwinder.context)?;
        Some(cfi::rule(&row, self.arch))
    }

    /// Whether a row counts the CFA from a register that no call preserves: that is of the very
    /// instruction, such as those of a loop that moves sp down page by page.
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

    /// Whether the rule of the frame that was given last is not that of a row.
    pub(super) fn is_without_row(&mut self, image: Option<u32>) -> bool {
        let images = self.images;
        let Some(image) = image.and_then(|index| images.get(index)) else {
            return true;
        };
        let svma = image.svma(self.state.lookup());
        image.has_compact() && self.row_at(image, svma) != Some(self.here.rule())
    }
}
