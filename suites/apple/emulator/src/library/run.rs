//! One function's run: its calls, those that are skipped, the memory that it is given, and whether it comes
//! back.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

use unicorn_engine::{Context, HookType, MemType, Prot, Unicorn};

use super::caller::Caller;
use crate::cpu::{self, Stopped};
use crate::exact::Bench;
use crate::machine::Machine;

/// Instructions of a run that is to find out whether a function comes back, of one that is judged, and pages of memory that
/// it is given beyond its own.
const FIRST: u32 = 2_000;
const INSTRUCTIONS: u32 = 20_000;
const PAGES: usize = 64;
const PAGE: u64 = 0x1000;
/// How many times those are run that did not come back yet, as others turn out to.
const PASSES: usize = 4;
/// How many calls deep any are followed.
const DEPTH: usize = 16;

/// How a function is run.
#[derive(Clone, Copy)]
pub struct Round {
    /// How many calls deep it is followed into the library. Further in, calls of functions that are known to
    /// come back are skipped.
    pub depth: usize,
    /// Its arguments.
    pub argument: fn(u64) -> u64,
    /// What skipped calls return.
    pub result: u64,
}

/// Why the CPU has stopped.
#[derive(Clone, Copy, Default, PartialEq)]
enum Stop {
    /// By itself: it cannot go on.
    #[default]
    Fault,
    /// Before a call that is skipped: where it would return to.
    Skip(u64),
    /// At the entry of a function of another library, which was jumped to.
    Out,
    /// Where the function returns to.
    Back,
    /// The run is of no use.
    Lost,
}

/// What the instruction before did.
#[derive(Clone, Copy, Default)]
enum Before {
    #[default]
    Nothing,
    /// A call, with this stack pointer, that returns there.
    Call(u64, u64),
    Return,
    /// By a register or a word of memory.
    Jump,
}

#[derive(Default)]
struct State {
    arm: bool,
    depth: usize,
    /// The library's functions, and its stubs and what they lead to.
    code: Vec<Range<u64>>,
    stubs: Vec<Range<u64>>,
    never_return: HashSet<u64>,
    /// The library's functions that came back from a run of their own.
    comes_back: HashSet<u64>,
    /// Calls that have not returned, outermost first: where to, and the stack pointer then.
    calls: Vec<(u64, u64)>,
    /// The callers' frame records, as each call found them: where, and what is in it.
    records: Vec<Option<(u64, [u64; 2])>>,
    before: Before,
    most: u32,
    left: u32,
    stop: Stop,
    /// Counts the stops.
    bench: Option<Bench>,
    judges: bool,
    pages: Vec<u64>,
    /// Pages of the library's data that were written.
    written: Vec<u64>,
    data: Vec<Range<u64>>,
}

/// A library and its caller, about to run.
pub struct Runner {
    state: Rc<RefCell<State>>,
    caller: Caller,
    first: Context,
    /// The library's data, by address.
    data: Vec<(u64, Vec<u8>)>,
}

/// What a runner needs of its library, at the addresses where it lies.
pub struct Library {
    /// Its functions.
    pub code: Vec<Range<u64>>,
    /// Stubs of functions that are elsewhere.
    pub stubs: Vec<Range<u64>>,
    /// Stubs of those that never return.
    pub never_return: HashSet<u64>,
    /// Its data.
    pub data: Vec<Range<u64>>,
}

impl Runner {
    /// Of a machine with the library and the caller in it.
    pub fn new(m: &mut Machine, caller: Caller, library: Library, bench: Bench) -> Runner {
        let data = library.data.iter().map(|range| {
            let bytes = m.read(range.start, range.end - range.start);
            (range.start, bytes.unwrap_or_default())
        });
        let data = data.collect();
        for range in &library.data {
            let size = range.end - range.start;
            m.memory.protect(&mut m.uc, range.start, size, 1);
        }
        let hooked: Vec<_> = library.code.iter().chain(&library.stubs).cloned().collect();
        let state = Rc::new(RefCell::new(State {
            arm: m.arm,
            code: library.code,
            stubs: library.stubs,
            never_return: library.never_return,
            data: library.data,
            bench: Some(bench),
            ..State::default()
        }));
        for range in hooked {
            let state = state.clone();
            let each = move |uc: &mut Unicorn<'_, Stopped>, pc, size| {
                let mut state = state.borrow_mut();
                if let Some(stop) = state.step(uc, pc, size) {
                    state.stop = stop;
                    let _ = uc.emu_stop();
                }
            };
            m.uc.add_code_hook(range.start, range.end - 1, each)
                .expect("a code hook");
        }
        let back = caller.returns[0];
        let of_back = state.clone();
        m.uc.add_code_hook(back, back, move |uc, _, _| {
            of_back.borrow_mut().stop = Stop::Back;
            let _ = uc.emu_stop();
        })
        .expect("a code hook");
        let of_memory = state.clone();
        let failed =
            HookType::MEM_READ_UNMAPPED | HookType::MEM_WRITE_UNMAPPED | HookType::MEM_WRITE_PROT;
        m.uc.add_mem_hook(failed, 1, 0, move |uc, kind, at, size, _| {
            let last = at.wrapping_add(size.max(1) as u64 - 1);
            let pages = [at & !(PAGE - 1), last & !(PAGE - 1)];
            let mut state = of_memory.borrow_mut();
            let done = match kind {
                MemType::WRITE_PROT => pages.iter().any(|page| state.write(uc, *page)),
                _ => pages.iter().any(|page| state.give(uc, *page)),
            };
            uc.get_data_mut().fault = None;
            done
        })
        .expect("a memory hook");
        let mut first = m.uc.context_alloc().expect("memory for a context");
        m.uc.context_save(&mut first)
            .expect("a context of this CPU");
        Runner {
            state,
            caller,
            first,
            data,
        }
    }

    /// Finds out which of these functions come back from a run of their own: calls of others cannot be
    /// skipped, since what stands behind them may never run. `begin` learns which is next.
    pub fn learn(
        &mut self,
        m: &mut Machine,
        functions: &[u64],
        rounds: &[Round],
        begin: &dyn Fn(u64),
    ) {
        let mut unknown = functions.to_vec();
        self.state.borrow_mut().most = FIRST;
        for _ in 0..PASSES {
            let before = unknown.len();
            unknown.retain(|function| {
                begin(*function);
                let came_back = rounds.iter().any(|round| self.once(m, *function, *round));
                let mut state = self.state.borrow_mut();
                if came_back {
                    state.comes_back.insert(*function);
                }
                // One that runs for long does so again.
                !came_back && state.left > 0
            });
            if unknown.len() == before {
                break;
            }
        }
        self.state.borrow_mut().most = INSTRUCTIONS;
    }

    /// Whether it came back from a run that was to find that out.
    pub fn comes_back(&self, function: u64) -> bool {
        self.state.borrow().comes_back.contains(&function)
    }

    /// Runs a function; if it comes back as a function must, again, and counts the stops. Whether it did.
    pub fn run(&mut self, m: &mut Machine, function: u64, round: Round) -> bool {
        let came_back = self.once(m, function, round);
        if came_back {
            self.state.borrow_mut().judges = true;
            self.once(m, function, round);
            self.state.borrow_mut().judges = false;
        }
        came_back
    }

    /// What was counted.
    pub fn bench(&self) -> std::cell::RefMut<'_, Bench> {
        std::cell::RefMut::map(self.state.borrow_mut(), |state| {
            state.bench.as_mut().expect("it is there to the end")
        })
    }

    fn once(&self, m: &mut Machine, function: u64, round: Round) -> bool {
        let arm = m.arm;
        m.uc.context_restore(&self.first)
            .expect("a context of this CPU");
        self.caller.enter(&mut m.uc, function);
        for index in 0..if arm { 8 } else { 6 } {
            cpu::set_argument(&mut m.uc, arm, index, (round.argument)(index as u64));
        }
        {
            let mut state = self.state.borrow_mut();
            let calls = self.caller.returns.into_iter().zip(self.caller.sps());
            state.calls = calls.rev().collect();
            state.records = vec![None; state.calls.len()];
            state.before = Before::Nothing;
            state.left = state.most;
            state.depth = round.depth + state.calls.len();
        }
        let came_back = self.go(m, function, round.result);
        self.clean(m);
        came_back
    }

    /// From that function's entry to where it returns.
    fn go(&self, m: &mut Machine, function: u64, result: u64) -> bool {
        let (arm, mut pc) = (m.arm, function);
        loop {
            self.state.borrow_mut().stop = Stop::Fault;
            let done = m.uc.emu_start(pc, u64::MAX, 0, 0);
            let stop = self.state.borrow().stop;
            let interrupt = m.uc.get_data_mut().interrupt.take();
            m.uc.get_data_mut().fault = None;
            let now = m.registers();
            let to = match stop {
                Stop::Back => return self.caller.is_intact(&m.uc),
                Stop::Lost => return false,
                Stop::Skip(to) => to,
                _ if interrupt.is_some() => return false,
                // A jump to a function that is not there.
                Stop::Fault if done.is_ok() || self.state.borrow().is_inside(now.pc) => {
                    return false;
                }
                Stop::Out | Stop::Fault => {
                    let mut state = self.state.borrow_mut();
                    let Some((to, sp)) = state.calls.pop().filter(|_| state.keeps_record(&m.uc))
                    else {
                        return false;
                    };
                    let (found, behind) = if arm {
                        (Some(now.lr), now.sp)
                    } else {
                        (m.read_u64(now.sp), now.sp.wrapping_add(8))
                    };
                    if found != Some(to) || behind != sp {
                        return false;
                    }
                    state.before = Before::Nothing;
                    cpu::set(&mut m.uc, arm, to, sp);
                    to
                }
            };
            if arm {
                cpu::set_lr(&mut m.uc, to);
            }
            cpu::set_result(&mut m.uc, arm, result);
            if to == self.caller.returns[0] {
                return self.caller.is_intact(&m.uc);
            }
            pc = to;
        }
    }

    /// Takes what the run was given, and gives the library its data back.
    fn clean(&self, m: &mut Machine) {
        let mut state = self.state.borrow_mut();
        for page in state.pages.drain(..) {
            let _ = m.uc.mem_unmap(page, PAGE);
        }
        for page in state.written.drain(..) {
            for (start, bytes) in &self.data {
                let Some(from) = page.checked_sub(*start) else {
                    continue;
                };
                if let Some(rest) = bytes.get(from as usize..) {
                    let whole = rest.get(..PAGE as usize).unwrap_or(rest);
                    let _ = m.uc.mem_write(page, whole);
                }
            }
            let _ = m.uc.mem_protect(page, PAGE, Prot::READ);
        }
    }
}

impl State {
    fn is_inside(&self, pc: u64) -> bool {
        self.code.iter().any(|range| range.contains(&pc))
    }

    /// A page of zeros where there is no memory.
    fn give(&mut self, uc: &mut Unicorn<'_, Stopped>, page: u64) -> bool {
        let done =
            self.pages.len() < PAGES && uc.mem_map(page, PAGE, Prot::READ | Prot::WRITE).is_ok();
        if done {
            self.pages.push(page);
        }
        done
    }

    /// Lets a page of the library's data be written.
    fn write(&mut self, uc: &mut Unicorn<'_, Stopped>, page: u64) -> bool {
        let is_data = self.data.iter().any(|range| range.contains(&page));
        let done = is_data
            && !self.written.contains(&page)
            && uc.mem_protect(page, PAGE, Prot::READ | Prot::WRITE).is_ok();
        if done {
            self.written.push(page);
        }
        done
    }

    /// Whether the call that has just returned has left its caller's frame record as it was, and fp at it. Where
    /// skipped calls have set nothing, what is left on the stack is taken for pointers, and references are counted
    /// in frame records.
    fn keeps_record(&mut self, uc: &Unicorn<'_, Stopped>) -> bool {
        match self.records.pop().flatten() {
            Some((at, words)) => {
                let fp = cpu::registers(uc, self.arm).fp;
                fp == at && cpu::read_pair(uc, at) == Some(words)
            }
            None => true,
        }
    }

    /// Before the instruction at `pc`; `Some` where the CPU must stop.
    fn step(&mut self, uc: &mut Unicorn<'_, Stopped>, pc: u64, size: u32) -> Option<Stop> {
        self.left = match self.left.checked_sub(1) {
            Some(left) => left,
            None => return Some(Stop::Lost),
        };
        let now = cpu::registers(uc, self.arm);
        match std::mem::take(&mut self.before) {
            Before::Nothing => {}
            Before::Call(to, sp) => {
                let returns = self.calls.last().map(|call| call.0);
                let record = cpu::read_pair(uc, now.fp).filter(|words| Some(words[1]) == returns);
                self.records.push(record.map(|words| (now.fp, words)));
                self.calls.push((to, sp));
            }
            back => {
                let last = self.calls.last();
                let sp_fits = |sp: u64| self.arm || now.sp == sp;
                match (last, back) {
                    (Some((to, sp)), _) if *to == pc && sp_fits(*sp) => {
                        self.calls.pop();
                        if !self.keeps_record(uc) {
                            return Some(Stop::Lost);
                        }
                    }
                    (_, Before::Return) => return Some(Stop::Lost),
                    _ => {}
                }
            }
        }
        if self.judges
            && let Some(bench) = &mut self.bench
        {
            let callers = self.calls.iter().rev().map(|call| call.0).collect();
            bench.count(uc, pc, callers);
        }
        if self.stubs.iter().any(|range| range.contains(&pc)) {
            let lost = self.never_return.contains(&pc);
            return Some(if lost { Stop::Lost } else { Stop::Out });
        }
        let mut code = [0; 16];
        let code = &mut code[..size.min(16) as usize];
        uc.mem_read(pc, code).ok()?;
        let behind = pc + u64::from(size);
        let (before, target) = if self.arm {
            arm(code, pc)
        } else {
            x86(code, behind)
        };
        self.before = before;
        let Before::Call(..) = before else {
            return None;
        };
        let inside = target.filter(|target| self.is_inside(*target));
        if let Some(target) = inside
            && (self.calls.len() < self.depth || !self.comes_back.contains(&target))
        {
            self.before = Before::Call(behind, now.sp);
            return (self.calls.len() > DEPTH).then_some(Stop::Lost);
        }
        self.before = Before::Nothing;
        let lost = target.is_some_and(|target| self.never_return.contains(&target));
        Some(if lost { Stop::Lost } else { Stop::Skip(behind) })
    }
}

/// What an arm64 instruction is, and where a direct call leads.
fn arm(code: &[u8], pc: u64) -> (Before, Option<u64>) {
    let word = code.try_into().map_or(0, u32::from_le_bytes);
    match word {
        // bl; blr, blraa and their kin; ret, retaa, retab; br, braa and theirs
        _ if word >> 26 == 0x25 => {
            let distance = i64::from((word << 6) as i32 >> 6) * 4;
            (Before::Call(0, 0), Some(pc.wrapping_add_signed(distance)))
        }
        _ if word >> 25 == 0x6b && word >> 21 & 7 == 1 => (Before::Call(0, 0), None),
        _ if word >> 25 == 0x6b && word >> 21 & 7 == 2 => (Before::Return, None),
        _ if word >> 25 == 0x6b && word >> 21 & 7 == 0 => (Before::Jump, None),
        _ => (Before::Nothing, None),
    }
}

/// What an x86_64 instruction is that ends at `behind`, and where a direct call leads.
fn x86(code: &[u8], behind: u64) -> (Before, Option<u64>) {
    let prefixes = code
        .iter()
        .take_while(|byte| matches!(byte, 0x40..=0x4f | 0x66 | 0x3e | 0xf2 | 0xf3));
    match code[prefixes.count()..] {
        [0xe8, a, b, c, d] => {
            let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
            let target = behind.wrapping_add_signed(distance);
            (Before::Call(0, 0), Some(target))
        }
        [0xff, modrm, ..] if modrm >> 3 & 7 == 2 => (Before::Call(0, 0), None),
        [0xff, modrm, ..] if modrm >> 3 & 7 == 4 => (Before::Jump, None),
        [0xc2 | 0xc3, ..] => (Before::Return, None),
        _ => (Before::Nothing, None),
    }
}
