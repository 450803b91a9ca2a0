//! The shadow stack: which function called which, by the call, return and jump instructions as they execute
//! and by nothing that an unwinder looks at.
//!
//! A function that installs another frame's registers (`longjmp`, what brings an exception to its
//! landing pad) is its caller's callee until it has written over the caller's frame pointer, over
//! the return address, over the stack pointer, or over a return address further out. From then on
//! it belongs to where it jumps to, which only the jump itself shows: what was seen meanwhile is
//! held until then.

use crate::cpu::Registers;

/// Frames further away are on another stack.
const NEAR: u64 = 1 << 20;

/// How many instructions a stack pointer that is no longer the function's may wait for the jump.
const WAITS: u32 = 64;

/// One call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// Where it returns to.
    pub to: u64,
    /// The stack pointer that the caller has again after the return.
    pub sp: u64,
    /// The frame pointer that it was made with.
    fp: u64,
    /// It is a signal that came there.
    signal: Option<Signal>,
}

/// How a handler was entered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal {
    /// On another stack.
    pub alternate: bool,
    /// Where the kernel has put the program counter to go on at, which the handler may change.
    pub saved_pc: u64,
}

impl Call {
    fn is_elsewhere(&self) -> bool {
        self.signal.is_some_and(|signal| signal.alternate)
    }
}

/// What the instruction that is about to execute will do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Next {
    #[default]
    Nothing,
    Call(u64),
    Return,
    /// By a register or a word of memory.
    Jump,
    /// Loads the frame pointer, not from the stack pointer or itself.
    LoadFrame,
}

/// A stop whose true chain of callers is not known yet, and what unwinders gave for it.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its number among them.
    pub number: u64,
    /// Where.
    pub pc: u64,
    /// The kind of code, if that chain holds.
    pub kind: &'static str,
    /// The chain that holds if no context is being restored.
    pub callers: Vec<u64>,
    /// Each unwinder's chain, and whether it says that it ended early.
    pub found: Vec<(Vec<(u64, bool)>, bool)>,
}

/// A thread's calls, outermost first.
#[derive(Clone, Debug, Default)]
pub struct Shadow {
    /// The calls.
    pub calls: Vec<Call>,
    next: Next,
    /// The instruction that `next` is about.
    looked_at: u64,
    /// Instructions since the stack pointer left the function's own stack.
    away: u32,
    /// Whether the link register was the function's own return address when its present piece
    /// between two calls began.
    linked: bool,
    /// Whether in this piece the frame pointer has been loaded from elsewhere than the stack, or a
    /// return address further out has been written over.
    overwritten: bool,
    held: Vec<Held>,
    /// What was held, and the chain that has turned out to be true.
    pub settled: Vec<(Held, Vec<u64>)>,
}

impl Shadow {
    /// A thread whose first function returns nowhere.
    pub fn new() -> Shadow {
        Shadow::default()
    }

    /// The chain of return addresses, innermost first.
    pub fn callers(&self) -> Vec<u64> {
        self.calls.iter().rev().map(|call| call.to).collect()
    }

    /// Applies what the instruction before did. The registers are those of now. The CPU may stop
    /// between the look at an instruction and its execution, and come to it again: then it has
    /// done nothing yet.
    pub fn settle(&mut self, arm: bool, now: Registers) {
        let Registers { pc, sp, .. } = now;
        match std::mem::take(&mut self.next) {
            _ if pc == self.looked_at => {}
            Next::LoadFrame => self.overwritten = true,
            Next::Nothing if self.is_away(arm, sp) => {
                self.away += 1;
                if self.away > WAITS {
                    while self.is_away(arm, sp) {
                        self.calls.pop();
                    }
                    self.begin(arm, now);
                }
            }
            Next::Nothing => {}
            Next::Call(to) => {
                let sp = if arm { sp } else { sp + 8 };
                // Whoever was called from here before and left in a way that was not seen.
                if self.calls.last().is_some_and(|last| last.signal.is_none()) {
                    self.leave(sp);
                }
                let fp = now.fp;
                let signal = None;
                self.calls.push(Call { to, sp, fp, signal });
                self.begin(arm, now);
            }
            Next::Return => {
                let back = |call: &Call| call.to == pc && call.sp == sp;
                match self.calls.iter().rposition(back) {
                    Some(at) if at + 1 == self.calls.len() => {
                        self.calls.pop();
                        self.begin(arm, now);
                    }
                    found => {
                        // To a landing pad, or where setjmp returned to: whoever was called from
                        // that frame is gone.
                        match found {
                            Some(at) => self.calls.truncate(at),
                            None => self.leave(sp),
                        }
                        self.land(arm, now);
                    }
                }
            }
            Next::Jump if self.is_away(arm, sp) => {
                self.leave(sp);
                self.land(arm, now);
            }
            Next::Jump => {}
        }
    }

    /// Whether the stack pointer lies above the function's own stack: that of a frame further out,
    /// whose callees are no more. A callee's frame on another stack (a signal's) is left alone.
    fn is_away(&self, arm: bool, sp: u64) -> bool {
        let gone = u64::from(arm);
        let is_gone = |last: &Call| last.sp + gone <= sp && sp - last.sp < NEAR;
        self.calls
            .last()
            .is_some_and(|last| !last.is_elsewhere() && is_gone(last))
    }

    /// Forgets the callees of the frame that the stack pointer belongs to, which goes on.
    fn leave(&mut self, sp: u64) {
        let is_gone = |last: &Call| !last.is_elsewhere() && last.sp <= sp && sp - last.sp < NEAR;
        while self.calls.last().is_some_and(is_gone) {
            self.calls.pop();
        }
    }

    /// A piece between two calls begins: nothing was being installed.
    fn begin(&mut self, arm: bool, now: Registers) {
        let held = self.held.drain(..);
        self.settled.extend(held.map(|held| {
            let callers = held.callers.clone();
            (held, callers)
        }));
        self.away = 0;
        self.overwritten = false;
        self.linked = arm && self.calls.last().is_some_and(|last| last.to == now.lr);
    }

    /// Another frame's registers have been installed: what was held belongs to that frame.
    fn land(&mut self, arm: bool, now: Registers) {
        let mut callers = self.callers();
        callers.insert(0, now.pc);
        let held = self.held.drain(..);
        self.settled
            .extend(held.map(|held| (held, callers.clone())));
        self.begin(arm, now);
    }

    /// Whether the running function's caller can no longer be known from what it left, so that a
    /// jump may be about to show that it has none: its frame pointer is neither the caller's nor
    /// one of the function's own stack, its return address has been written over, or its stack
    /// pointer is no longer its own.
    pub fn is_in_doubt(&self, arm: bool, now: Registers) -> bool {
        let Some(last) = self.calls.last() else {
            return false;
        };
        let own = now.sp..=last.sp;
        let foreign_fp = now.fp != last.fp && !own.contains(&now.fp);
        let foreign_lr = self.linked && now.lr != last.to;
        foreign_fp || foreign_lr || self.overwritten || self.is_away(arm, now.sp)
    }

    /// Keeps a stop until its true chain is known.
    pub fn hold(&mut self, stop: Held) {
        self.held.push(stop);
    }

    /// What is still held at the end, when nothing can jump any more.
    pub fn rest(&mut self) -> Vec<(Held, Vec<u64>)> {
        let now = Registers::default();
        self.begin(false, now);
        std::mem::take(&mut self.settled)
    }

    /// x86_64: the running function has written to this address. Right below where a caller's stack
    /// pointer will be again lie the return address and the frame pointer of what it has called.
    pub fn written(&mut self, at: u64) {
        let Some((last, others)) = self.calls.split_last() else {
            return;
        };
        let is_frame = |call: &Call| call.sp > at && call.sp - at <= 16;
        if at >= last.sp && others.iter().any(is_frame) {
            self.overwritten = true;
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
            } else if word & 0xffff_fc1f == 0xd61f_0000 {
                Next::Jump
            } else if loads_frame(word) {
                Next::LoadFrame
            } else {
                Next::Nothing
            }
        } else {
            let prefix = usize::from(code[0] & 0xf0 == 0x40);
            let by_operand = |kind: u8| {
                code.get(prefix) == Some(&0xff)
                    && code.get(prefix + 1).is_some_and(|m| m >> 3 & 7 == kind)
            };
            match code[0] {
                0xe8 => Next::Call(pc + code.len() as u64),
                0xc3 | 0xc2 => Next::Return,
                0xf3 if code.get(1) == Some(&0xc3) => Next::Return,
                _ if by_operand(2) => Next::Call(pc + code.len() as u64),
                _ if by_operand(4) => Next::Jump,
                // mov of 64 bits to rbp, from memory that neither rsp nor rbp points to
                0x48 | 0x49 if code[1] == 0x8b && code[2] >> 3 & 7 == 5 && code[2] < 0xc0 => {
                    match code[2] & 7 {
                        4 | 5 if code[0] == 0x48 => Next::Nothing,
                        _ => Next::LoadFrame,
                    }
                }
                _ => Next::Nothing,
            }
        };
    }

    /// The machine itself returns from a function that it emulates, to these registers.
    pub fn returned(&mut self, arm: bool, now: Registers) {
        self.forget_next();
        self.calls.pop();
        self.begin(arm, now);
    }

    /// A signal comes to the thread, which stood with these registers.
    pub fn interrupted(&mut self, arm: bool, now: Registers, signal: Signal) {
        self.settle(arm, now);
        self.forget_next();
        self.calls.push(Call {
            to: now.pc,
            sp: now.sp,
            fp: now.fp,
            signal: Some(signal),
        });
        self.begin(arm, now);
    }

    /// Takes over where handlers have changed what they return to.
    pub fn follow_handlers(&mut self, read: impl Fn(u64) -> Option<u64>) {
        for call in &mut self.calls {
            if let Some(pc) = call.signal.and_then(|signal| read(signal.saved_pc)) {
                call.to = pc;
            }
        }
    }

    /// The thread goes on where the last signal came.
    pub fn resumed(&mut self, arm: bool, now: Registers) {
        self.forget_next();
        if let Some(at) = self.calls.iter().rposition(|call| call.signal.is_some()) {
            self.calls.truncate(at);
        }
        self.begin(arm, now);
    }

    fn forget_next(&mut self) {
        self.next = Next::Nothing;
        self.looked_at = 0;
    }
}

/// Whether an arm64 instruction is `ldp` or `ldr` of x29, by another register than sp and x29.
fn loads_frame(word: u32) -> bool {
    let (first, second, base) = (word & 31, word >> 10 & 31, word >> 5 & 31);
    let pair = word & 0xfe40_0000 == 0xa840_0000 && (first == 29 || second == 29);
    let single = word & 0xffc0_0000 == 0xf940_0000 && first == 29;
    (pair || single) && base != 31 && base != 29
}
