//! Leaving a frame by all of its row, every preserved register among it.

use super::{State, Walk};
use crate::capture::cfi::{Fault, Left};
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;
use crate::report::model::{Found, WalkEnd};

impl<M: Memory> Walk<'_, M> {
    /// Leaves by all of the row; `Some` where the walk ends in good order.
    #[cold]
    pub(super) fn leave_by_row(&mut self, image: Option<u32>) -> Result<Option<WalkEnd>, Fault> {
        let address = self.state.lookup();
        let image = image
            .and_then(|index| self.images.get(index))
            .ok_or(Fault::Bad)?;
        let cfi = image.cfi.as_ref().ok_or(Fault::Bad)?;
        let row = cfi
            .find(image.svma(address), &mut self.unwinder.context)
            .ok_or(Fault::Bad)?;
        let column = self.arch.return_address();
        let in_register = row.row.register(gimli::Register(column as u16)).is_none();
        let lacks = self.state.known & (1 << column) == 0;
        if self.arch == Arch::Arm64 && self.state.exact && in_register && lacks {
            return Err(Fault::UnknownRegister);
        }
        let mut registers = self.state.all();
        let mut known = self.state.known;
        let left = cfi.evaluate(&row, &mut registers, &mut known, &mut self.memory)?;
        let (return_address, found) = match left {
            Left::Root => return Ok(Some(WalkEnd::Root)),
            Left::To(address) => (address, Found::UnwindInfo),
            Left::Jump(address) => (address, Found::LinkRegister),
        };
        let cfa = registers.sp();
        if let Err(end) = self.check_advance(cfa, true) {
            return Ok(Some(end));
        }
        self.state.set_all(registers);
        self.state.known = known;
        let arrived = self.arrive(return_address, cfa, found);
        self.state.known |= 1 << registers.arch().pc();
        Ok(arrived.err())
    }

    /// Walks again from the start with every register, to where it stands.
    #[cold]
    pub(super) fn again_in_full(&mut self) -> Result<(), WalkEnd> {
        self.full = true;
        self.state = State::new(&self.initial, self.exact);
        for _ in 0..self.given {
            self.here = self.rule_here();
            self.step()?;
        }
        Ok(())
    }
}
