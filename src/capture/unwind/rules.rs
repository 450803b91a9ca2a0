//! The rule that holds where a walk stands: from the cache, or found anew.

use super::{Unwinder, Walk};
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::rule::{KnownRule, Rule, RuleSource};

impl<M: Memory> Walk<'_, M> {
    /// The rule and the image of where the state stands.
    #[inline]
    pub(super) fn rule_here(&mut self) -> KnownRule {
        let address = self.state.lookup();
        match self.unwinder.cache.caller(self.here, address) {
            Some(known) => known,
            None => self.find_rule(address),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_rule(&mut self, address: u64) -> KnownRule {
        // Most callers are of the same image.
        if !self.near.0.contains(&address) {
            self.near = match self.images.find_around(address) {
                Some((around, index)) => (around, Some(index)),
                None => (0..0, None),
            };
        }
        let index = self.near.1;
        let image = index.and_then(|index| self.images.get(index));
        let (rule, source) = match image {
            Some(image) if image.is_mach_o() => self.rule_of_mach_o(image, image.svma(address)),
            Some(image) => {
                let found = self.rule_of_elf(image, image.svma(address));
                match self.is_constant_over_moves(image, found.0) {
                    true => (found.0.guessed(), RuleSource::Instructions),
                    false => found,
                }
            }
            None => (Rule::Nothing, RuleSource::Guess),
        };
        let known = KnownRule::new(rule, index).from(source);
        self.unwinder.cache.insert(address, known);
        known
    }

    pub(super) fn rule_of_elf(&mut self, image: &LoadedImage, svma: u64) -> (Rule, RuleSource) {
        let Unwinder {
            context, scratch, ..
        } = &mut *self.unwinder;
        let nothing = (Rule::Nothing, RuleSource::Guess);
        let Some(cfi) = &image.cfi else {
            return nothing;
        };
        if let Some(rule) = cfi.rule(svma, self.arch, context, scratch) {
            return rule;
        }
        match image.entry_at(svma) {
            Some(entry) if cfi.find(entry, context).is_none() => (Rule::Root, RuleSource::Root),
            _ => nothing,
        }
    }
}
