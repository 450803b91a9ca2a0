//! The truth: where each call will return to, as seen from the calls, returns, signals and stack
//! pointers of a program, one instruction at a time. No unwinder has a part in it.

/// What stands on the shadow stack.
#[derive(Clone, Copy, Debug)]
enum Entry {
    /// A call pushed this return address here.
    Call { slot: u64, target: u64 },
    /// A signal interrupted the program at this pc; `slot` is where the handler's return address
    /// lies, and `sp` was the stack pointer.
    Signal {
        slot: u64,
        restorer: u64,
        pc: u64,
        sp: u64,
    },
}

#[derive(Default, Clone)]
pub struct Shadow {
    entries: Vec<Entry>,
    /// What stands on stacks that were left for others: those of coroutines.
    parked: Vec<Vec<Entry>>,
    /// On the stack that a function goes on with in the place of the one that it was called on, as that which
    /// enters Lisp does.
    moved: Option<u64>,
}

impl Shadow {
    /// A call was made: it pushed `target` at `slot`.
    pub fn call(&mut self, slot: u64, target: u64) {
        self.entries.push(Entry::Call { slot, target });
    }

    /// A handler was entered.
    pub fn signal(&mut self, slot: u64, restorer: u64, pc: u64, sp: u64) {
        self.entries.push(Entry::Signal {
            slot,
            restorer,
            pc,
            sp,
        });
    }

    /// The program stands at this stack pointer now: what lies below it on the same stack is gone.
    /// Returns whether anything was, or another stack was taken. On a stack that was not seen before, of a coroutine
    /// that begins, the word that it returns to counts as put there by a call; where that is 0, the function itself has
    /// taken another stack and goes on. `word` reads memory.
    pub fn at(&mut self, sp: u64, word: impl Fn(u64) -> u64) -> bool {
        let before = self.entries.len();
        // A handler that is left by a jump shows by the interrupted stack pointer's being passed.
        while let Some((index, interrupted)) = self.handler() {
            if sp < interrupted || !same_stack(interrupted, sp) {
                break;
            }
            self.entries.truncate(index);
        }
        while let Some(Entry::Call { slot, .. }) = self.entries.last() {
            if *slot >= sp || !same_stack(*slot, sp) {
                break;
            }
            self.entries.pop();
        }
        let gone = self.entries.len() < before;
        self.switch(sp, word) || gone
    }

    /// To the stack that the stack pointer is on, without a call or a signal; returns whether that is another one.
    fn switch(&mut self, sp: u64, word: impl Fn(u64) -> u64) -> bool {
        let is_on = |entries: &[Entry]| match entries.last() {
            Some(Entry::Call { slot, .. } | Entry::Signal { slot, .. }) => same_stack(*slot, sp),
            None => false,
        };
        // Above its first call the program's own stack is empty.
        if is_on(&self.entries) || self.entries.is_empty() {
            return false;
        }
        let seen = self.parked.iter().position(|entries| is_on(entries));
        let new = match (seen, word(sp)) {
            (Some(index), _) => self.parked.swap_remove(index),
            (None, _) if self.moved.is_some_and(|moved| same_stack(moved, sp)) => {
                return false;
            }
            (None, 0) => {
                self.moved = Some(sp);
                return false;
            }
            (None, target) => vec![Entry::Call { slot: sp, target }],
        };
        self.parked.push(std::mem::replace(&mut self.entries, new));
        true
    }

    /// The true chain of a function that has left its stack behind and is about to jump to
    /// `landing`: the rest is that of the frame that it lands in.
    pub fn chain_of_jump(&self, pc: u64, landing: u64, into: &mut Vec<u64>) {
        self.chain(landing, u64::MAX, None, into);
        into.insert(0, pc);
    }

    /// The innermost handler: its index, and the stack pointer that it interrupted.
    fn handler(&self) -> Option<(usize, u64)> {
        self.entries
            .iter()
            .enumerate()
            .rev()
            .find_map(|(index, entry)| match entry {
                Entry::Signal { sp, .. } => Some((index, *sp)),
                Entry::Call { .. } => None,
            })
    }

    /// The trampoline's system call has put everything back.
    pub fn returned_from_signal(&mut self) {
        if let Some((index, _)) = self.handler() {
            self.entries.truncate(index);
        }
    }

    /// The true chain at `pc`. `about_to_return` is what a return instruction at `pc` would go to,
    /// with where that lies: it counts even where no call put it there.
    pub fn chain(&self, pc: u64, sp: u64, about_to_return: Option<u64>, into: &mut Vec<u64>) {
        into.clear();
        into.push(pc);
        let mut rest = self.entries.as_slice();
        if let Some(target) = about_to_return {
            let known = match rest.last() {
                Some(Entry::Call { slot, .. } | Entry::Signal { slot, .. }) => *slot == sp,
                None => false,
            };
            if !known {
                into.push(target);
            }
        }
        while let Some((last, before)) = rest.split_last() {
            match last {
                Entry::Call { target, .. } => into.push(*target),
                Entry::Signal {
                    slot, restorer, pc, ..
                } => {
                    // In the trampoline itself the return address is popped.
                    if sp <= *slot || into.len() > 1 || !same_stack(*slot, sp) {
                        into.push(*restorer);
                    }
                    into.push(*pc);
                }
            }
            rest = before;
        }
    }
}

/// Two addresses that are taken to lie on one stack.
fn same_stack(a: u64, b: u64) -> bool {
    a.abs_diff(b) < 1 << 20
}
