//! Leaving a frame whose registers are another's in part: to where its code is about to jump.

use super::Walk;
use crate::capture::flow;
use crate::capture::memory::Memory;
use crate::report::model::{Found, WalkEnd};

impl<M: Memory> Walk<'_, M> {
    /// Leaves the frame to the one that the code at pc restores: the next frame is the one that it will go on in, at
    /// the very instruction. If that is not known the walk ends.
    #[cold]
    pub(super) fn leave_by_jump_target(&mut self, image: Option<u32>) -> Result<(), WalkEnd> {
        let images = self.images;
        let image = image.and_then(|index| images.get(index));
        let image = image.ok_or(WalkEnd::NoUnwindInfo)?;
        let svma = image.svma(self.state.pc);
        let before = self.state.all();
        let jump_target = image.function(svma, self.arch).and_then(|code| {
            let known = (&before, self.state.known);
            flow::jump_target(code, svma, known, &mut self.memory)
        });
        let (registers, known) = jump_target.ok_or(WalkEnd::NoUnwindInfo)?;
        let (pc, sp) = (registers.pc(), registers.sp());
        let pc = images.strip(pc);
        let is_code = images
            .find(pc)
            .and_then(|index| images.get(index))
            .is_some_and(|image| image.is_code(pc));
        if !is_code {
            return Err(WalkEnd::NoUnwindInfo);
        }
        if sp < self.state.sp {
            self.count_switch()?;
        }
        self.state.set_all(registers);
        self.state.pc = pc;
        self.state.known = known;
        self.state.uncertain = 0;
        self.state.found = Found::Context;
        self.state.exact = true;
        Ok(())
    }
}
