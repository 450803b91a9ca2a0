//! The shadow stack: who called whom, told by the call and return instructions as they execute and
//! by nothing that an unwinder looks at.

/// Frames further away are on another stack.
const NEAR: u64 = 1 << 20;

/// One call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// Where it returns to.
    pub to: u64,
    /// The stack pointer that the caller has again after the return.
    pub sp: u64,
}

/// What the instruction that is about to execute will do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Next {
    #[default]
    Nothing,
    Call(u64),
    Return,
}

/// A thread's calls, outermost first.
#[derive(Clone, Debug, Default)]
pub struct Shadow {
    /// The calls.
    pub calls: Vec<Call>,
    next: Next,
    /// The instruction that `next` is about.
    looked_at: u64,
}

impl Shadow {
    /// A thread whose first function returns nowhere.
    pub fn new() -> Shadow {
        Shadow::default()
    }

    /// Applies what the instruction before did. `pc` and `sp` are those of now. The CPU may stop
    /// between the look at an instruction and its execution, and come to it again: then it has
    /// done nothing yet.
    pub fn settle(&mut self, arm: bool, pc: u64, sp: u64) {
        match std::mem::take(&mut self.next) {
            _ if pc == self.looked_at => {}
            Next::Nothing => {}
            Next::Call(to) => {
                let sp = if arm { sp } else { sp + 8 };
                // Whoever was called from here before and left by an exception.
                self.leave(|last| last.sp <= sp && sp - last.sp < NEAR);
                self.calls.push(Call { to, sp });
            }
            Next::Return => {
                let back = |call: &Call| call.to == pc && call.sp == sp;
                match self.calls.iter().rposition(back) {
                    Some(at) => self.calls.truncate(at),
                    // To a landing pad: whoever was called from that frame is gone.
                    None => self.leave(|last| last.sp <= sp && sp - last.sp < NEAR),
                }
            }
        }
        // Whoever left by longjmp or an exception is not there any more: its frame lies below the
        // stack pointer; on x86_64 so does the return address of the last call that is no more. A
        // callee's frame on another stack (a signal's) is left alone.
        let gone = u64::from(arm);
        self.leave(|last| last.sp + gone <= sp && sp - last.sp < NEAR);
    }

    fn leave(&mut self, gone: impl Fn(&Call) -> bool) {
        while self.calls.last().is_some_and(&gone) {
            self.calls.pop();
        }
    }

    /// Looks at the instruction at `pc`, about to execute.
    pub fn look(&mut self, arm: bool, pc: u64, code: &[u8]) {
        self.looked_at = pc;
        self.next = if arm {
            let word = u32::from_le_bytes([code[0], code[1], code[2], code[3]]);
            if word >> 26 == 0x25 || word & 0xffff_fc1f == 0xd63f_0000 {
                Next::Call(pc + 4)
            } else if word == 0xd65f_03c0 {
                Next::Return
            } else {
                Next::Nothing
            }
        } else {
            let prefix = usize::from(code[0] & 0xf0 == 0x40);
            let indirect = code.get(prefix) == Some(&0xff)
                && code.get(prefix + 1).is_some_and(|m| m >> 3 & 7 == 2);
            match code[0] {
                0xe8 => Next::Call(pc + code.len() as u64),
                0xc3 | 0xc2 => Next::Return,
                0xf3 if code.get(1) == Some(&0xc3) => Next::Return,
                _ if indirect => Next::Call(pc + code.len() as u64),
                _ => Next::Nothing,
            }
        };
    }

    /// The machine itself returns from a function that it plays.
    pub fn returned(&mut self) {
        self.forget_next();
        self.calls.pop();
    }

    /// The machine made a call (a signal handler's trampoline).
    pub fn forget_next(&mut self) {
        self.next = Next::Nothing;
        self.looked_at = 0;
    }
}
