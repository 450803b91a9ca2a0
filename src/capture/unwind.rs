//! Walking a stack: from registers to the chain of callers.

use super::cfi::{self, Context, Fault, Left};
use super::images::Images;
use super::memory::{Memory, Missing};
use super::registers::{Arch, Registers};
use super::rule::{Known, Rule, RuleCache, Usual};
use crate::report::model::{Found, RawFrame, WalkEnd};

/// How many frames a walk has at most: a stack of 8 MiB has no more.
const MAX_FRAMES: u32 = 1 << 20;

/// How many times a walk may come to a lower stack pointer, as it does where a coroutine, a grown
/// stack or a handler on an alternate stack was entered.
const MAX_SWITCHES: u32 = 64;

/// Walks stacks; keeps what it learns about addresses for the next walk.
///
/// Signal-safe once made: walking never allocates, locks or panics, whatever the registers, the
/// stack and the images hold. One unwinder is for one thread at a time.
///
/// ```
/// use wedjat::unwind::{Images, LoadedImage, Registers, StackCopy, Unwinder};
///
/// // An image without unwind information, so that the walk needs a frame pointer.
/// let images = Images::new(vec![LoadedImage::new("app", 0x5000_0000, 0, 0x1000)]);
/// // At 0x1000: the caller's frame pointer (none) and the return address.
/// let stack: Vec<u8> = [0u64, 0x5000_0456].iter().flat_map(|word| word.to_le_bytes()).collect();
/// let registers = Registers::x86_64(0x5000_0123, 0x1000, 0x1000);
///
/// let mut unwinder = Unwinder::new();
/// let mut walk = unwinder.walk(&registers, &images, StackCopy::new(0x1000, &stack));
/// let frames: Vec<u64> = walk.by_ref().map(|frame| frame.pc).collect();
/// assert_eq!(frames, [0x5000_0123, 0x5000_0456]);
/// assert!(walk.end().is_some());
/// ```
#[derive(Debug)]
pub struct Unwinder {
    cache: RuleCache,
    context: Box<Context>,
}

impl Default for Unwinder {
    fn default() -> Unwinder {
        Unwinder::new()
    }
}

impl Unwinder {
    /// Allocates all that it will ever need: 150 KiB.
    pub fn new() -> Unwinder {
        Unwinder {
            cache: RuleCache::new(),
            context: Box::new(Context::new_in()),
        }
    }

    /// Begins a walk at the given registers. Signal-safe.
    pub fn walk<'a, M: Memory>(
        &'a mut self,
        registers: &Registers,
        images: &'a Images,
        memory: M,
    ) -> Walk<'a, M> {
        self.walk_from(State::new(registers, true), images, memory)
    }

    /// Begins a walk at a frame that has made a call: pc is where that call returns to.
    /// Signal-safe.
    pub fn walk_from_call<'a, M: Memory>(
        &'a mut self,
        registers: &Registers,
        images: &'a Images,
        memory: M,
    ) -> Walk<'a, M> {
        self.walk_from(State::new(registers, false), images, memory)
    }

    fn walk_from<'a, M: Memory>(
        &'a mut self,
        start: State,
        images: &'a Images,
        memory: M,
    ) -> Walk<'a, M> {
        self.cache.use_generation(images.generation());
        Walk {
            unwinder: self,
            images,
            memory,
            arch: start.registers.arch(),
            here: Known::new(Rule::Nothing, None),
            initial: start.registers,
            exact: start.exact,
            state: start,
            full: false,
            given: 0,
            ended: None,
        }
    }
}

/// The frames of one stack, innermost first. Signal-safe.
#[derive(Debug)]
pub struct Walk<'a, M> {
    unwinder: &'a mut Unwinder,
    images: &'a Images,
    memory: M,
    arch: Arch,
    initial: Registers,
    exact: bool,
    state: State,
    /// The rule and the image of the frame that was given last.
    here: Known,
    /// Whether every preserved register is followed, not only the two that most frames need.
    full: bool,
    given: u32,
    ended: Option<WalkEnd>,
}

/// Where a walk stands.
#[derive(Debug, Clone)]
struct State {
    pc: u64,
    sp: u64,
    fp: u64,
    /// All registers, but for the three above, which are kept up to date apart.
    registers: Registers,
    /// Bits of the registers whose values are known.
    known: u64,
    found: Found,
    /// Whether pc is that of an instruction about to run, rather than a return address.
    exact: bool,
    switches: u32,
}

impl State {
    fn new(registers: &Registers, exact: bool) -> State {
        let found = if exact {
            Found::Context
        } else {
            Found::UnwindInfo
        };
        State {
            pc: registers.pc(),
            sp: registers.sp(),
            fp: registers.fp(),
            registers: *registers,
            known: u64::MAX,
            found,
            exact,
            switches: 0,
        }
    }

    /// All registers, the three that are kept apart among them.
    fn all(&self) -> Registers {
        let mut registers = self.registers;
        registers.set_frame(self.pc, self.sp, self.fp);
        registers
    }

    /// Takes over all registers.
    fn set_all(&mut self, registers: Registers) {
        (self.pc, self.sp, self.fp) = (registers.pc(), registers.sp(), registers.fp());
        self.registers = registers;
    }

    /// The address that tables are searched for: that of the call, not of what follows it.
    #[inline]
    fn lookup(&self) -> u64 {
        if self.exact {
            self.pc
        } else {
            self.pc.wrapping_sub(1)
        }
    }
}

impl<M: Memory> Iterator for Walk<'_, M> {
    type Item = RawFrame;

    #[inline]
    fn next(&mut self) -> Option<RawFrame> {
        if self.ended.is_some() {
            return None;
        }
        if self.given > 0
            && let Err(end) = self.step()
        {
            self.ended = Some(end);
            return None;
        }
        if self.given >= MAX_FRAMES {
            self.ended = Some(WalkEnd::Limit);
            return None;
        }
        self.given += 1;
        self.here = self.rule_here();
        let image = self.here.image().unwrap_or(RawFrame::NO_IMAGE);
        Some(RawFrame {
            pc: self.state.pc,
            found: self.state.found,
            image,
        })
    }
}

impl<M: Memory> Walk<'_, M> {
    /// Why the walk ended; `None` while it has not.
    pub fn end(&self) -> Option<WalkEnd> {
        self.ended
    }

    /// The registers of the frame that was given last, as far as they are known.
    pub fn registers(&self) -> Registers {
        self.state.all()
    }

    /// Leaves the frame that the state stands at, by the rule that holds there.
    #[inline]
    fn step(&mut self) -> Result<(), WalkEnd> {
        match self.here.usual() {
            Some(usual) if !self.full => self.leave_by_frame(usual),
            _ => self.leave_otherwise(),
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_otherwise(&mut self) -> Result<(), WalkEnd> {
        let image = self.here.image();
        match self.here.rule() {
            Rule::Frame { .. } | Rule::Full => match self.leave_by_row(image) {
                Err(Fault::UnknownRegister) if !self.full => self.again_in_full(),
                Err(Fault::UnknownRegister | Fault::Bad) => Err(WalkEnd::NoUnwindInfo),
                Err(Fault::Missing(missing)) => Err(end_of(missing)),
                Ok(Some(end)) => Err(end),
                Ok(None) => Ok(()),
            },
            Rule::Root => Err(WalkEnd::Root),
            Rule::Signal => self.leave_by_signal_frame(),
            Rule::Nothing => self.leave_by_guess(image),
        }
    }

    /// The rule and the image of where the state stands.
    #[inline]
    fn rule_here(&mut self) -> Known {
        let address = self.state.lookup();
        match self.unwinder.cache.get(address) {
            Some(known) => known,
            None => self.find_rule(address),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_rule(&mut self, address: u64) -> Known {
        let index = self.images.find(address);
        let image = index.and_then(|index| self.images.get(index));
        let arch = self.arch;
        let context = &mut self.unwinder.context;
        let mut rule = Rule::Nothing;
        if let Some((image, cfi)) = image.and_then(|image| Some((image, image.cfi.as_ref()?))) {
            let svma = image.svma(address);
            if let Some(row) = cfi.find(svma, context) {
                rule = cfi::rule(&row, arch);
            } else if let Some(entry) = image.entry_at(svma)
                && cfi.find(entry, context).is_none()
            {
                rule = Rule::Root;
            }
        }
        let known = Known::new(rule, index);
        self.unwinder.cache.insert(address, known);
        known
    }

    #[inline]
    fn leave_by_frame(&mut self, rule: Usual) -> Result<(), WalkEnd> {
        let (sp, fp) = (self.state.sp, self.state.fp);
        let from = if rule.by_fp { fp } else { sp };
        let cfa = from.wrapping_add(u64::from(rule.cfa) * 8);
        let slot = |words: i16| cfa.wrapping_add_signed(i64::from(words) * 8);
        let return_address = match rule.ra() {
            Some(words) => self.memory.read(slot(words)).map_err(end_of)?,
            None if self.state.exact => self.state.registers.lr(),
            // The link register of a frame that has made a call is not its own.
            None => return Err(WalkEnd::NoUnwindInfo),
        };
        if let Some(words) = rule.fp() {
            match self.memory.read(slot(words)) {
                Ok(value) => self.state.fp = value,
                // Popped already: the register has the caller's value.
                Err(_) if self.state.exact && slot(words) < sp => {}
                Err(missing) => return Err(end_of(missing)),
            }
        }
        self.check_advance(cfa, rule.by_fp)?;
        self.arrive(return_address, cfa, Found::UnwindInfo)?;
        self.state.known = self.three();
        Ok(())
    }

    /// The bits of pc, sp and fp.
    #[inline]
    fn three(&self) -> u64 {
        1 << self.arch.sp() | 1 << self.arch.fp() | 1 << self.arch.pc()
    }

    /// Leaves by all of the row; `Some` where the walk ends in good order.
    #[cold]
    fn leave_by_row(&mut self, image: Option<u32>) -> Result<Option<WalkEnd>, Fault> {
        let address = self.state.lookup();
        let image = image
            .and_then(|index| self.images.get(index))
            .ok_or(Fault::Bad)?;
        let cfi = image.cfi.as_ref().ok_or(Fault::Bad)?;
        let row = cfi
            .find(image.svma(address), &mut self.unwinder.context)
            .ok_or(Fault::Bad)?;
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
    fn again_in_full(&mut self) -> Result<(), WalkEnd> {
        self.full = true;
        self.state = State::new(&self.initial, self.exact);
        for _ in 0..self.given {
            self.here = self.rule_here();
            self.step()?;
        }
        Ok(())
    }

    /// From the registers that the kernel has put on the stack of a handler.
    ///
    /// Source: `struct rt_sigframe` in arch/x86/include/asm/sigframe.h (the stack pointer is at
    /// its `ucontext` once the handler has returned) and arch/arm64/kernel/signal.c (the stack
    /// pointer is at its `siginfo`, 128 bytes before); asm/sigcontext.h for what is inside.
    #[cold]
    fn leave_by_signal_frame(&mut self) -> Result<(), WalkEnd> {
        const X86_64: [usize; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
        let arch = self.arch;
        let sp = self.state.sp;
        let mut registers = Registers::new(arch);
        let mut read = |offset: u64| self.memory.read(sp.wrapping_add(offset)).map_err(end_of);
        match arch {
            Arch::X86_64 => {
                for (number, at) in X86_64.into_iter().zip(0u64..) {
                    registers.set(number, read(40 + 8 * at)?);
                }
            }
            Arch::Arm64 => {
                for number in 0..33usize {
                    registers.set(number, read(312 + 8 * number as u64)?);
                }
            }
        }
        if registers.sp() <= sp {
            self.count_switch()?;
        }
        self.state.set_all(registers);
        self.state.known = u64::MAX;
        self.state.found = Found::Context;
        self.state.exact = true;
        Ok(())
    }

    /// Without unwind information: the return address where a call has just put it, or else a
    /// frame record; whichever leads behind a call in known code.
    #[cold]
    fn leave_by_guess(&mut self, image: Option<u32>) -> Result<(), WalkEnd> {
        let arch = self.arch;
        let (sp, fp) = (self.state.sp, self.state.fp);
        if self.is_signal_trampoline(image) {
            return self.leave_by_signal_frame();
        }
        if self.state.exact {
            let (target, new_sp) = match arch {
                Arch::X86_64 => (self.memory.read(sp).ok(), sp.wrapping_add(8)),
                Arch::Arm64 => (Some(self.images.strip(self.state.registers.lr())), sp),
            };
            if let Some(target) = target.filter(|target| self.is_behind_call(*target)) {
                self.arrive(target, new_sp, Found::LinkRegister)?;
                self.state.known &= cfi_preserved(arch);
                return Ok(());
            }
        }
        let aligned = fp != 0 && fp % 8 == 0 && fp >= sp;
        if !aligned {
            return Err(WalkEnd::NoUnwindInfo);
        }
        let target = self.memory.read(fp.wrapping_add(8)).map_err(end_of)?;
        let target = self.images.strip(target);
        let new_fp = self.memory.read(fp).map_err(end_of)?;
        if !self.is_behind_call(target) {
            return Err(WalkEnd::NoUnwindInfo);
        }
        self.arrive(target, fp.wrapping_add(16), Found::FramePointer)?;
        self.state.fp = new_fp;
        self.state.known = self.three();
        Ok(())
    }

    /// Whether the instructions at pc are those by which a handler returns to the kernel, where
    /// no unwind information says so: `mov $15, %rax; syscall` and `mov x8, #139; svc #0`.
    fn is_signal_trampoline(&self, image: Option<u32>) -> bool {
        let pc = self.state.pc;
        let code = image
            .and_then(|index| self.images.get(index))
            .and_then(|image| image.instructions(pc, 9));
        match (self.arch, code) {
            (Arch::X86_64, Some(code)) => code == b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05",
            (Arch::Arm64, Some(code)) => code.starts_with(b"\x68\x11\x80\xd2\x01\x00\x00\xd4"),
            _ => false,
        }
    }

    /// Whether an address is in known code and, where its instructions are known, behind a call.
    fn is_behind_call(&self, address: u64) -> bool {
        let before = address.wrapping_sub(1);
        let Some(image) = self
            .images
            .find(before)
            .and_then(|index| self.images.get(index))
        else {
            return false;
        };
        if !image.is_code(before) {
            return false;
        }
        match self.arch {
            Arch::X86_64 => {
                let at = |back: u64| image.instructions(address.wrapping_sub(back), 2);
                if at(1).is_none() {
                    return true;
                }
                ends_in_call(&at)
            }
            Arch::Arm64 => {
                let Some(code) = image.instructions(address.wrapping_sub(4), 4) else {
                    return true;
                };
                let word = code.try_into().map(u32::from_le_bytes).unwrap_or(0);
                // bl; blr and its authenticating kin (Arm ARM, C4.1).
                word >> 26 == 0x25 || word & 0xfebf_f000 == 0xd63f_0000 & 0xfebf_f000
            }
        }
    }

    /// Callers' stack pointers lie above their callees', but where stacks were switched.
    #[inline]
    fn check_advance(&mut self, cfa: u64, may_switch: bool) -> Result<(), WalkEnd> {
        let sp = self.state.sp;
        if cfa > sp || (cfa == sp && self.state.exact) {
            return Ok(());
        }
        if !may_switch || cfa == sp {
            return Err(WalkEnd::NoUnwindInfo);
        }
        self.count_switch()
    }

    #[cold]
    fn count_switch(&mut self) -> Result<(), WalkEnd> {
        self.state.switches += 1;
        if self.state.switches > MAX_SWITCHES {
            Err(WalkEnd::Limit)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn arrive(&mut self, return_address: u64, sp: u64, found: Found) -> Result<(), WalkEnd> {
        let pc = match self.arch {
            Arch::X86_64 => return_address,
            Arch::Arm64 => self.images.strip(return_address),
        };
        if pc == 0 {
            return Err(WalkEnd::Root);
        }
        self.state.pc = pc;
        self.state.sp = sp;
        self.state.found = found;
        self.state.exact = false;
        Ok(())
    }
}

/// What is still known behind a guess that the callee had not saved anything.
fn cfi_preserved(arch: Arch) -> u64 {
    cfi::preserved(arch) | 1 << arch.sp() | 1 << arch.pc()
}

fn end_of(missing: Missing) -> WalkEnd {
    match missing {
        Missing::Truncated => WalkEnd::Truncated,
        Missing::Unreadable => WalkEnd::Unreadable,
    }
}

/// Whether an x86_64 call ends where `at(back)`, the two bytes so far before, say: `e8 rel32`, or
/// `ff /2` with its operand's length (Intel SDM volume 2, CALL and table 2-2).
fn ends_in_call<'a>(at: &dyn Fn(u64) -> Option<&'a [u8]>) -> bool {
    if at(5).is_some_and(|code| code.first() == Some(&0xe8)) {
        return true;
    }
    [2u64, 3, 4, 6, 7, 8].into_iter().any(|length| {
        let Some([0xff, modrm, ..]) = at(length) else {
            return false;
        };
        let (mode, rm) = (modrm >> 6, modrm & 7);
        let sib = u64::from(mode != 3 && rm == 4);
        let displacement = match (mode, rm) {
            (0, 5) | (2, _) => 4,
            (1, _) => 1,
            _ => 0,
        };
        // Without a base, `[index * scale + disp32]`, it is 7 bytes.
        let fits = length == 2 + sib + displacement || (mode == 0 && sib == 1 && length == 7);
        modrm & 0x38 == 0x10 && fits
    })
}
