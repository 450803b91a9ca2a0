//! Exactness: before every instruction, the chain that framehop finds against the shadow stack.
//!
//! The shadow stack is kept by call and return instructions alone; framehop sees registers, memory
//! and the images' tables. A stop is exact when the whole chain of return addresses is equal.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};

use crate::cpu::{self, Registers};
use crate::loader::Image;
use crate::machine::Machine;

/// How often one address is judged: a hot loop must not outweigh the rest.
const EACH: u32 = 200;

enum Judge {
    Arm(Box<(UnwinderAarch64<Vec<u8>>, CacheAarch64)>),
    X86(Box<(UnwinderX86_64<Vec<u8>>, CacheX86_64)>),
}

/// What was seen.
#[derive(Default)]
pub struct Table {
    seen: HashMap<u64, u32>,
    wrong_at: HashSet<u64>,
    stops: u64,
    exact: u64,
    short: u64,
    wrong: u64,
    depth: u64,
    kinds: BTreeMap<&'static str, u64>,
    example: BTreeMap<&'static str, u64>,
}

impl Table {
    /// One line of the table, and one for each way to be wrong, with an address for it.
    pub fn print(&self, name: &str, m: &Machine) {
        let percent = |n: u64, of: u64| 100.0 * n as f64 / of.max(1) as f64;
        println!(
            "| {name} | {} | {} | {:.3} % | {} | {} | {} | {:.2} % | {:.1} |",
            if m.arm { "arm64" } else { "x86_64" },
            self.stops,
            percent(self.exact, self.stops),
            self.short,
            self.wrong,
            self.seen.len(),
            percent(self.wrong_at.len() as u64, self.seen.len() as u64),
            self.depth as f64 / self.stops.max(1) as f64,
        );
        for (kind, count) in &self.kinds {
            eprintln!("  {count:6} {kind}, as at {}", m.place(self.example[kind]));
        }
    }
}

fn module(image: &Image) -> Module<Vec<u8>> {
    let file = &image.file;
    let range = |s: &str, n: &str| file.section(s, n).map(|s| s.svma.clone());
    let data = |s: &str, n: &str| file.section(s, n).map(|s| file.data(s).to_vec());
    let text = file
        .segment_named("__TEXT")
        .expect("every image has a __TEXT");
    let info = ExplicitModuleSectionInfo {
        base_svma: file.base(),
        text_svma: range("__TEXT", "__text"),
        text: data("__TEXT", "__text"),
        stubs_svma: range("__TEXT", "__stubs"),
        stub_helper_svma: range("__TEXT", "__stub_helper"),
        got_svma: range("__DATA_CONST", "__got"),
        unwind_info: data("__TEXT", "__unwind_info"),
        eh_frame_svma: range("__TEXT", "__eh_frame"),
        eh_frame: data("__TEXT", "__eh_frame"),
        text_segment_svma: Some(text.svma.clone()),
        text_segment: Some(file.bytes[text.file.clone()].to_vec()),
        ..Default::default()
    };
    Module::new(image.path.clone(), image.text(), image.base(), info)
}

impl Judge {
    fn new(m: &Machine) -> Judge {
        if m.arm {
            let mut unwinder = UnwinderAarch64::new();
            m.images.iter().for_each(|i| unwinder.add_module(module(i)));
            Judge::Arm(Box::new((unwinder, CacheAarch64::new())))
        } else {
            let mut unwinder = UnwinderX86_64::new();
            m.images.iter().for_each(|i| unwinder.add_module(module(i)));
            Judge::X86(Box::new((unwinder, CacheX86_64::new())))
        }
    }

    /// Return addresses, innermost first, and whether an error ended them.
    fn chain(
        &mut self,
        r: Registers,
        most: usize,
        read: &mut dyn FnMut(u64) -> Result<u64, ()>,
    ) -> (Vec<u64>, bool) {
        let mut found = vec![];
        macro_rules! walk {
            ($pair:expr, $registers:expr) => {{
                let (unwinder, cache) = &mut **$pair;
                let mut read = |at: u64| read(at);
                let mut frames = unwinder.iter_frames(r.pc, $registers, cache, &mut read);
                loop {
                    match frames.next() {
                        Ok(Some(FrameAddress::ReturnAddress(at))) => found.push(at.get()),
                        Ok(Some(FrameAddress::InstructionPointer(_))) => {}
                        Ok(None) => return (found, false),
                        Err(_) => return (found, true),
                    }
                    if found.len() > most {
                        return (found, false);
                    }
                }
            }};
        }
        match self {
            Judge::Arm(pair) => walk!(pair, UnwindRegsAarch64::new(r.lr, r.sp, r.fp)),
            Judge::X86(pair) => walk!(pair, UnwindRegsX86_64::new(r.pc, r.sp, r.fp)),
        }
    }
}

/// Judges from now on. Slow: each instruction of every image stops the CPU for a moment.
pub fn watch(m: &mut Machine) -> Rc<RefCell<Table>> {
    let table = Rc::new(RefCell::new(Table::default()));
    let judge = Rc::new(RefCell::new(Judge::new(m)));
    m.uc.get_data_mut().watching = true;
    let arm = m.arm;
    let texts: Vec<_> = m
        .images
        .iter()
        .flat_map(|i| {
            ["__text", "__stubs"].map(|name| {
                (
                    i.slide,
                    i.file.section("__TEXT", name).map(|s| s.svma.clone()),
                )
            })
        })
        .filter_map(|(slide, range)| range.map(|r| r.start + slide..r.end + slide))
        .filter(|r| !r.is_empty())
        .collect();
    for range in texts {
        let (table, judge) = (table.clone(), judge.clone());
        m.uc.add_code_hook(range.start, range.end - 1, move |uc, pc, size| {
            let registers = Registers {
                pc,
                ..cpu::registers(uc, arm)
            };
            let shadow = &mut uc.get_data_mut().shadow;
            shadow.settle(arm, registers.sp);
            let want: Vec<u64> = shadow.calls.iter().rev().map(|c| c.to).collect();
            let mut code = vec![0; size as usize];
            let _ = uc.mem_read(pc, &mut code);
            uc.get_data_mut().shadow.look(arm, pc, &code);
            let mut table = table.borrow_mut();
            let seen = table.seen.entry(pc).or_default();
            *seen += 1;
            if *seen > EACH {
                return;
            }
            let mut read = |at: u64| {
                let mut word = [0; 8];
                uc.mem_read(at, &mut word)
                    .map(|()| u64::from_le_bytes(word))
                    .map_err(|_| ())
            };
            let (got, error) = judge
                .borrow_mut()
                .chain(registers, want.len() + 3, &mut read);
            table.stops += 1;
            table.depth += want.len() as u64;
            if got == want {
                table.exact += 1;
                return;
            }
            let kind = if error && want.starts_with(&got) {
                table.short += 1;
                "stopped early, with an error"
            } else {
                table.wrong += 1;
                table.wrong_at.insert(pc);
                if got.len() + 1 == want.len() && got[..] == want[1..] {
                    "caller skipped"
                } else if got.len() == want.len() + 1 && got[1..] == want[..] {
                    "a frame that is not there"
                } else if got.first() != want.first() {
                    "another caller"
                } else {
                    "wrong deeper"
                }
            };
            *table.kinds.entry(kind).or_default() += 1;
            table.example.entry(kind).or_insert(pc);
        })
        .expect("a code hook");
    }
    table
}
