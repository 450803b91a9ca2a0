//! Exactness: before every instruction, the chains that unwinders find against the shadow stack.
//!
//! The shadow stack is kept by call, return and jump instructions alone; unwinders see registers,
//! memory and the images' tables. A stop is exact when the whole chain of return addresses is equal.

mod judges;
mod kinds;
mod table;

use std::cell::RefCell;
use std::rc::Rc;

use unicorn_engine::{HookType, Unicorn};

use self::judges::Judge;
use self::kinds::Kinds;
use self::table::Table;
use crate::cpu;
use crate::machine::Machine;
use crate::shadow::Held;

/// How often one address is judged: a hot loop must not outweigh the rest.
const EACH: u32 = 200;

/// Judges, and counts what comes of it.
pub struct Bench {
    arm: bool,
    judges: Vec<Box<dyn Judge>>,
    kinds: Kinds,
    table: Table,
}

/// What was seen so far.
pub struct Seen(Rc<RefCell<Bench>>);

/// Judges from now on; `starts` is whether unwinders are told where functions begin. Slow: each
/// instruction of every image stops the CPU for a moment.
pub fn watch(m: &mut Machine, places: bool, starts: bool) -> Seen {
    let bench = Rc::new(RefCell::new(Bench::new(m, places, starts)));
    m.uc.get_data_mut().watching = true;
    for range in m.texts() {
        let bench = bench.clone();
        m.uc.add_code_hook(range.start, range.end - 1, move |uc, pc, size| {
            bench.borrow_mut().stop(uc, pc, size);
        })
        .expect("a code hook");
    }
    if !m.arm {
        m.uc.add_mem_hook(HookType::MEM_WRITE, 1, 0, |uc, _, at, _, _| {
            uc.get_data_mut().shadow.written(at);
            true
        })
        .expect("a memory hook");
    }
    Seen(bench)
}

fn word(uc: &Unicorn<'_, cpu::Stopped>, at: u64) -> Option<u64> {
    let mut word = [0; 8];
    uc.mem_read(at, &mut word).ok()?;
    Some(u64::from_le_bytes(word))
}

impl Bench {
    /// Of the images that are loaded; `places` and `starts` as for [`watch`].
    pub fn new(m: &Machine, places: bool, starts: bool) -> Bench {
        let judges = judges::all(m, starts);
        let names: Vec<_> = judges.iter().map(|judge| judge.name()).collect();
        Bench {
            arm: m.arm,
            kinds: Kinds::new(m),
            table: Table::new(m, &names, places),
            judges,
        }
    }

    /// How many stops were counted.
    pub fn stops(&self) -> u64 {
        self.table.stops
    }

    /// Counts the stop before the instruction at `pc`, whose true chain is `callers`, innermost first.
    pub fn count(&mut self, uc: &mut Unicorn<'_, cpu::Stopped>, pc: u64, callers: Vec<u64>) {
        let mut file = cpu::File::read(uc, self.arm);
        file.set_pc(pc);
        if let Some(stop) = self.judge(uc, &file, callers) {
            self.table.count(&stop, &stop.callers);
        }
    }

    /// What the unwinders find at a stop; `None` where the address was judged often enough.
    fn judge(
        &mut self,
        uc: &Unicorn<'_, cpu::Stopped>,
        file: &cpu::File,
        callers: Vec<u64>,
    ) -> Option<Held> {
        let pc = file.pc();
        let times = self.table.seen.entry(pc).or_default();
        *times += 1;
        if *times > EACH {
            return None;
        }
        let mut read = |at: u64| word(uc, at);
        let kind = self.kinds.of(file, callers.first().copied(), &mut read);
        let most = callers.len() + 3;
        let chains = self.judges.iter_mut();
        let found = chains.map(|judge| judge.chain(file, most, &mut read));
        Some(Held {
            number: 0,
            pc,
            kind,
            found: found.collect(),
            callers,
        })
    }

    /// The tables.
    pub fn print(&self, name: &str, m: &Machine) {
        let arch = if m.arm { "arm64" } else { "x86_64" };
        for judge in &self.judges {
            judge.print_sources(arch);
        }
        self.table.print(name, m);
    }

    /// Before the instruction at `pc`.
    fn stop(&mut self, uc: &mut Unicorn<'_, cpu::Stopped>, pc: u64, size: u32) {
        let arm = self.arm;
        let mut file = cpu::File::read(uc, arm);
        file.set_pc(pc);
        let now = file.roles();
        let mut shadow = std::mem::take(&mut uc.get_data_mut().shadow);
        shadow.settle(arm, now);
        shadow.follow_handlers(|at| word(uc, at));
        for (stop, want) in shadow.settled.drain(..) {
            self.table.count(&stop, &want);
        }
        let (callers, in_doubt) = (shadow.callers(), shadow.is_in_doubt(arm, now));
        let mut code = vec![0; size as usize];
        let _ = uc.mem_read(pc, &mut code);
        shadow.look(arm, pc, &code);
        uc.get_data_mut().shadow = shadow;
        let Some(stop) = self.judge(uc, &file, callers) else {
            return;
        };
        if in_doubt {
            uc.get_data_mut().shadow.hold(stop);
        } else {
            self.table.count(&stop, &stop.callers);
        }
    }
}

impl Seen {
    /// The table, once the process is over.
    pub fn print(self, name: &str, m: &mut Machine) {
        let bench = &mut *self.0.borrow_mut();
        let table = &mut bench.table;
        let running = std::mem::take(&mut m.uc.get_data_mut().shadow);
        let others = m.threads.iter_mut().map(|t| std::mem::take(&mut t.shadow));
        for mut shadow in others.chain([running]) {
            for (stop, want) in shadow.rest() {
                table.count(&stop, &want);
            }
        }
        bench.print(name, m);
    }
}
