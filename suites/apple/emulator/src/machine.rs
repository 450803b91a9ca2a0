//! The machine: a CPU, memory, images, threads, ports; and the deterministic scheduler that runs
//! the threads.
//!
//! A trap is a function of the system that the emulator has itself. The CPU stops at its entry;
//! the machine does what the function does, outside of any hook, and returns for it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use unicorn_engine::{Context, HookType};

use crate::cpu::{self, Fault, Registers, Uc};
use crate::loader::Image;
use crate::memory::Memory;
use crate::ports::Ports;
use crate::shadow::Shadow;
use crate::system;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A Mach semaphore, by name.
    Semaphore(u32),
    /// A word in memory (`ulock`).
    Word(u64),
    /// A message to a port.
    Message(u32),
    /// The answer to its exception.
    Exception(usize),
    /// Time alone.
    Time,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// What was waited for is there.
    Up,
    /// The deadline passed first.
    Late,
}

type Then = Box<dyn FnOnce(&mut Machine, Woken) -> Outcome>;

/// What comes of a trap.
pub enum Outcome {
    /// It returns this.
    Return(u64),
    /// The thread waits; `then` says what the call returns.
    Wait(Key, Option<u64>, Then),
    /// It returns this, and another thread's turn begins.
    Yield(u64),
    /// The thread is over.
    ThreadExit,
    /// The registers have been set: go on from there.
    Jump,
    /// The process is over: exit status.
    Exit(i32),
    /// It has raised an exception, and the thread waits or the process is over.
    Raised,
    /// It is not emulated.
    Unknown,
}

/// Where a thread stands.
pub enum Turn {
    /// It may run.
    Ready,
    /// It waits.
    Waiting(Key, Option<u64>, Then),
    /// It may run once this has been done.
    Woken(Then, Woken),
    /// It is over.
    Over,
}

/// A guest thread.
pub struct Thread {
    /// `thread_id` of `THREAD_IDENTIFIER_INFO`.
    pub tid: u64,
    /// Its port's name.
    pub port: u32,
    /// Where its `pthread` structure lies; 0 for a bare Mach thread.
    pub pthread: u64,
    /// Where it stands.
    pub turn: Turn,
    /// Depth of `thread_suspend`.
    pub suspended: u32,
    /// How many others it has suspended.
    pub holds: u32,
    /// Registers while it is not running.
    pub context: Option<Context>,
    /// Who called whom.
    pub shadow: Shadow,
    /// Name by `pthread_setname_np`.
    pub name: String,
    /// Virtual nanoseconds that it ran.
    pub cpu: u64,
    /// Blocked signals.
    pub mask: u32,
    /// `sigaltstack`: base, size; size 0 where there is none.
    pub alternate: (u64, u64),
    /// Depth of handlers on the alternate stack.
    pub on_alternate: bool,
    /// Thread-local blocks by image.
    pub locals: HashMap<usize, u64>,
    /// Signals that wait to be delivered.
    pub pending: VecDeque<system::signal::Signal>,
    /// Exception ports of its own by type: port, behaviour, flavour.
    pub exception_ports: HashMap<u32, (u32, u32, u32)>,
}

/// Everything.
pub struct Machine {
    /// The CPU.
    pub uc: Uc,
    /// arm64, or else x86_64.
    pub arm: bool,
    /// The map of memory.
    pub memory: Memory,
    /// Images in the order of loading.
    pub images: Vec<Image>,
    /// Traps by address.
    pub traps: HashMap<u64, String>,
    /// Threads, dead ones too.
    pub threads: Vec<Thread>,
    /// The running one.
    pub current: usize,
    /// Virtual time, nanoseconds since boot.
    pub now: u64,
    /// Mach's names.
    pub ports: Ports,
    /// The process's signal handlers and exception ports.
    pub signals: system::signal::Signals,
    /// Exit status, once there is one.
    pub exit: Option<Exit>,
    /// Calls of traps by name.
    pub calls: BTreeMap<String, u64>,
    /// Where shared objects are looked for.
    pub library_path: Vec<String>,
    /// Prints each trap.
    pub trace: bool,
    /// Nanoseconds that the machine has slept.
    pub asleep: u64,
    /// Whether a debugger is attached to the process.
    pub traced: bool,
    /// States that a test has set, by the notification that they go with.
    pub states: HashMap<String, u64>,
    /// Calls that will not go as usual.
    pub odd: Vec<system::guest::Odd>,
    /// What the guest has found on stacks that it stopped.
    pub found: crate::hunt::Found,
    /// A thread whose turn ended before its time: others are next, for so many turns.
    pub held: Option<(usize, u32)>,
    random: u64,
    /// The longest turn, instructions.
    pub slice: usize,
}

/// How the process ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Exit {
    /// `exit` with a status.
    Status(i32),
    /// Killed by a signal.
    Signal(u32),
    /// The machine can't go on: why.
    Stuck(String),
}

/// Virtual nanoseconds for one instruction.
const INSTRUCTION: u64 = 50;
/// Virtual nanoseconds for one trap.
const TRAP: u64 = 500;

impl Machine {
    /// An empty machine. The seed decides the length and the order of turns; 0 is plain round robin.
    pub fn new(arm: bool, seed: u64) -> Machine {
        let mut uc = cpu::new(arm);
        let failed = HookType::MEM_UNMAPPED | HookType::MEM_PROT;
        uc.add_mem_hook(failed, 1, 0, |uc, kind, address, _, _| {
            use unicorn_engine::MemType as M;
            let protected = matches!(kind, M::READ_PROT | M::WRITE_PROT | M::FETCH_PROT);
            uc.get_data_mut().fault = Some(Fault { address, protected });
            false
        })
        .expect("a memory hook");
        uc.add_intr_hook(|uc, number| {
            uc.get_data_mut().interrupt = Some(number);
            let _ = uc.emu_stop();
        })
        .expect("an interrupt hook");
        Machine {
            uc,
            arm,
            memory: Memory::default(),
            images: vec![],
            traps: HashMap::new(),
            threads: vec![],
            current: 0,
            now: 1_000_000_000,
            ports: Ports::default(),
            signals: Default::default(),
            exit: None,
            calls: BTreeMap::new(),
            library_path: vec![],
            trace: false,
            asleep: 0,
            traced: false,
            states: HashMap::new(),
            odd: vec![],
            found: Default::default(),
            held: None,
            random: seed,
            slice: 20_000,
        }
    }

    /// Runs until the process is over.
    pub fn run(&mut self) -> Exit {
        loop {
            if let Some(exit) = &self.exit {
                return exit.clone();
            }
            match self.pick() {
                Some(thread) => self.turn(thread),
                None => match self.next_deadline() {
                    Some(deadline) => self.now = self.now.max(deadline),
                    None => return Exit::Stuck(format!("deadlock: {}", self.all_waits())),
                },
            }
        }
    }

    fn draw(&mut self) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn pick(&mut self) -> Option<usize> {
        let now = self.now;
        for thread in &mut self.threads {
            if matches!(thread.turn, Turn::Waiting(_, Some(deadline), _) if deadline <= now)
                && let Turn::Waiting(_, _, then) = std::mem::replace(&mut thread.turn, Turn::Ready)
            {
                thread.turn = Turn::Woken(then, Woken::Late);
            }
        }
        let count = self.threads.len();
        let ready: Vec<usize> = (1..=count)
            .map(|k| (self.current + k) % count)
            .filter(|i| {
                let t = &self.threads[*i];
                t.suspended == 0 && matches!(t.turn, Turn::Ready | Turn::Woken(..))
            })
            .collect();
        // It waits until it has been looked at, or the others have had turns enough for that.
        let held = self.held.map(|(thread, _)| thread);
        self.held = self
            .held
            .and_then(|(thread, turns)| Some((thread, turns.checked_sub(1)?)));
        let others: Vec<usize> = ready.iter().copied().filter(|i| Some(*i) != held).collect();
        let ready = if others.is_empty() { ready } else { others };
        if ready.is_empty() {
            return None;
        }
        let index = if self.random == 0 {
            0
        } else {
            self.draw() as usize % ready.len()
        };
        Some(ready[index])
    }

    fn next_deadline(&self) -> Option<u64> {
        let waiting = self.threads.iter().filter(|t| t.suspended == 0);
        waiting
            .filter_map(|t| {
                if let Turn::Waiting(_, deadline, _) = t.turn {
                    deadline
                } else {
                    None
                }
            })
            .min()
    }

    fn all_waits(&self) -> String {
        let one = |(i, t): (usize, &Thread)| match &t.turn {
            Turn::Over => None,
            Turn::Waiting(key, ..) => Some(format!("thread {i} '{}' waits for {key:x?}", t.name)),
            _ => Some(format!(
                "thread {i} '{}' is suspended {} deep",
                t.name, t.suspended
            )),
        };
        self.threads
            .iter()
            .enumerate()
            .filter_map(one)
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// One turn of one thread.
    fn turn(&mut self, thread: usize) {
        self.current = thread;
        let slice = if self.random == 0 {
            self.slice
        } else {
            1 + self.draw() as usize % self.slice
        };
        let mut context = self.threads[thread]
            .context
            .take()
            .expect("a thread that is not running has a context");
        self.uc
            .context_restore(&context)
            .expect("a context of this CPU");
        std::mem::swap(
            &mut self.uc.get_data_mut().shadow,
            &mut self.threads[thread].shadow,
        );
        let started = self.now;
        let mut going = true;
        if let Turn::Woken(then, woken) =
            std::mem::replace(&mut self.threads[thread].turn, Turn::Ready)
        {
            let outcome = then(self, woken);
            going = self.settle(outcome);
        }
        self.uc.get_data_mut().is_main = thread == 0;
        let mut left = slice as i64;
        while going && left > 0 && self.exit.is_none() && self.threads[thread].suspended == 0 {
            if !self.threads[thread].pending.is_empty() {
                system::signal::deliver_pending(self);
                if self.exit.is_some() {
                    break;
                }
            }
            let pc = self.registers().pc;
            let result = self.uc.emu_start(pc, u64::MAX, 0, left as usize);
            let stopped = self.uc.get_data_mut();
            let (trap, fault, interrupt) = (
                stopped.trap.take(),
                stopped.fault.take(),
                stopped.interrupt.take(),
            );
            if std::mem::take(&mut stopped.held) {
                self.held = Some((thread, 200));
                self.now += INSTRUCTION;
                left = 0;
            } else if let Some(address) = trap {
                self.now += TRAP;
                left -= 200;
                going = self.trap(address);
            } else if result.is_err() || interrupt.is_some() {
                self.now += TRAP;
                left -= 200;
                going = system::exception::raise(self, fault, interrupt, result.err());
            } else {
                self.now += left as u64 * INSTRUCTION;
                left = 0;
            }
        }
        self.uc
            .context_save(&mut context)
            .expect("a context of this CPU");
        std::mem::swap(
            &mut self.uc.get_data_mut().shadow,
            &mut self.threads[thread].shadow,
        );
        let ran = self.now - started;
        let thread = &mut self.threads[thread];
        thread.context = Some(context);
        thread.cpu += ran;
    }

    /// Plays the trap at this address. Returns whether the thread goes on.
    fn trap(&mut self, address: u64) -> bool {
        let Some(name) = self.traps.get(&address).cloned() else {
            self.exit = Some(Exit::Stuck(format!("no trap at {address:#x}")));
            return false;
        };
        *self.calls.entry(name.clone()).or_default() += 1;
        let mut a = [0; 8];
        for (index, value) in a.iter_mut().enumerate() {
            *value = cpu::argument(&self.uc, self.arm, index);
        }
        if self.trace {
            eprintln!(
                "[{:>12} t{}] {name}({:x}, {:x}, {:x}, {:x}) from {}",
                self.now,
                self.current,
                a[0],
                a[1],
                a[2],
                a[3],
                self.place(self.return_address())
            );
        }
        if self.threads[self.current].holds > 0 && !system::may_hold(&name) {
            let from = self.place(self.return_address());
            self.exit = Some(Exit::Stuck(format!(
                "{name} is called while a thread is suspended, from {from}"
            )));
            return false;
        }
        match system::call(self, &name, &a) {
            Outcome::Unknown => {
                let from = self.place(self.return_address());
                self.exit = Some(Exit::Stuck(format!(
                    "unknown import {name}, called from {from}"
                )));
                false
            }
            outcome => self.settle(outcome),
        }
    }

    /// Does what an outcome says. Returns whether the thread goes on.
    pub fn settle(&mut self, outcome: Outcome) -> bool {
        let current = self.current;
        match outcome {
            Outcome::Return(value) => {
                self.finish(value);
                true
            }
            Outcome::Yield(value) => {
                self.finish(value);
                false
            }
            Outcome::Jump => true,
            Outcome::Wait(key, deadline, then) => {
                self.threads[current].turn = Turn::Waiting(key, deadline, then);
                false
            }
            Outcome::ThreadExit => {
                self.threads[current].turn = Turn::Over;
                false
            }
            Outcome::Exit(status) => {
                self.exit = Some(Exit::Status(status));
                false
            }
            Outcome::Raised | Outcome::Unknown => false,
        }
    }

    /// Returns from the function that the CPU stands at the entry of.
    fn finish(&mut self, value: u64) {
        let to = self.return_address();
        let sp = self.registers().sp + if self.arm { 0 } else { 8 };
        cpu::set_result(&mut self.uc, self.arm, value);
        cpu::set(&mut self.uc, self.arm, to, sp);
        let (arm, now) = (self.arm, self.registers());
        let entry = Registers {
            pc: 0,
            sp: sp - if arm { 0 } else { 8 },
            ..now
        };
        let shadow = &mut self.uc.get_data_mut().shadow;
        shadow.settle(arm, entry);
        shadow.returned(arm, now);
    }

    /// Where the function returns that the CPU stands at the entry of.
    pub fn return_address(&self) -> u64 {
        let registers = self.registers();
        if self.arm {
            registers.lr
        } else {
            self.read_u64(registers.sp).unwrap_or(0)
        }
    }

    /// Wakes up to `count` threads that wait for `key`; returns how many.
    pub fn wake(&mut self, key: Key, count: usize) -> usize {
        let mut woken = 0;
        for thread in &mut self.threads {
            if woken == count {
                break;
            }
            if matches!(thread.turn, Turn::Waiting(k, ..) if k == key)
                && let Turn::Waiting(_, _, then) = std::mem::replace(&mut thread.turn, Turn::Ready)
            {
                thread.turn = Turn::Woken(then, Woken::Up);
                woken += 1;
            }
        }
        woken
    }

    /// Makes a thread that will begin at `pc` on that stack.
    pub fn spawn(&mut self, pc: u64, sp: u64, pthread: u64, arguments: &[u64]) -> usize {
        // Written through the live CPU, which gets its own registers back.
        let mut saved = self.uc.context_alloc().expect("memory for a context");
        self.uc
            .context_save(&mut saved)
            .expect("a context of this CPU");
        cpu::set(&mut self.uc, self.arm, pc, sp);
        cpu::set_fp(&mut self.uc, self.arm, 0);
        if self.arm {
            cpu::set_lr(&mut self.uc, 0);
        }
        cpu::set_thread_pointer(&mut self.uc, self.arm, pthread);
        for (index, value) in arguments.iter().enumerate() {
            cpu::set_argument(&mut self.uc, self.arm, index, *value);
        }
        let mut context = self.uc.context_alloc().expect("memory for a context");
        self.uc
            .context_save(&mut context)
            .expect("a context of this CPU");
        self.uc
            .context_restore(&saved)
            .expect("a context of this CPU");
        let index = self.threads.len();
        let port = self.ports.thread(index);
        self.threads.push(Thread {
            tid: 0x1_0000 + index as u64 * 0x11,
            port,
            pthread,
            turn: Turn::Ready,
            suspended: 0,
            holds: 0,
            context: Some(context),
            shadow: Shadow::new(),
            name: String::new(),
            cpu: 0,
            mask: 0,
            alternate: (0, 0),
            on_alternate: false,
            locals: HashMap::new(),
            pending: VecDeque::new(),
            exception_ports: HashMap::new(),
        });
        index
    }

    /// The live registers by role.
    pub fn registers(&self) -> Registers {
        cpu::registers(&self.uc, self.arm)
    }

    /// Bytes of guest memory, whatever their protection.
    pub fn read(&self, at: u64, size: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size as usize];
        self.uc.mem_read(at, &mut bytes).ok()?;
        Some(bytes)
    }

    /// A word of guest memory.
    pub fn read_u64(&self, at: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.read(at, 8)?.try_into().ok()?))
    }

    /// Half a word of guest memory.
    pub fn read_u32(&self, at: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.read(at, 4)?.try_into().ok()?))
    }

    /// A C string.
    pub fn read_text(&self, at: u64) -> String {
        let mut bytes = vec![];
        while let Some(byte) = self.read(at + bytes.len() as u64, 1).filter(|b| b[0] != 0) {
            bytes.push(byte[0]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Writes guest memory, whatever its protection; false where there is none.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.uc.mem_write(at, bytes).is_ok()
    }

    /// Writes a word.
    pub fn write_u64(&mut self, at: u64, value: u64) -> bool {
        self.write(at, &value.to_le_bytes())
    }

    /// Writes half a word.
    pub fn write_u32(&mut self, at: u64, value: u32) -> bool {
        self.write(at, &value.to_le_bytes())
    }

    /// Where the images' instructions lie.
    pub fn texts(&self) -> Vec<Range<u64>> {
        let sections = |image: &Image| {
            ["__text", "__stubs"].map(|name| {
                let svma = image.file.section("__TEXT", name)?.svma.clone();
                Some(svma.start + image.slide..svma.end + image.slide)
            })
        };
        let texts = self.images.iter().flat_map(sections).flatten();
        texts.filter(|range| !range.is_empty()).collect()
    }

    /// An address for people: symbol and image.
    pub fn place(&self, avma: u64) -> String {
        for image in &self.images {
            if image.text().contains(&avma) {
                let symbols = &image.file.symbols;
                let svma = avma - image.slide;
                let after = symbols.partition_point(|s| s.0 <= svma);
                let near = after.checked_sub(1).map(|i| &symbols[i]);
                return near.map_or(format!("{svma:#x}"), |s| {
                    format!("{}+{:#x}", s.1, svma - s.0)
                });
            }
        }
        format!("{avma:#x}")
    }
}
