//! Exactness: before every instruction, the chains that unwinders find against the shadow stack.
//!
//! The shadow stack is kept by call and return instructions alone; unwinders see registers, memory
//! and the images' tables. A stop is exact when the whole chain of return addresses is equal.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};

use wedjat::unwind::{
    Arch, Bytes, Found, Images, LoadedImage, Memory, Missing, Registers, Section, WalkEnd,
};

use crate::cpu;
use crate::loader::Image;
use crate::machine::Machine;

/// How often one address is judged: a hot loop must not outweigh the rest.
const EACH: u32 = 200;

/// One unwinder that is judged.
trait Judge {
    /// Its name in the table.
    fn name(&self) -> &'static str;
    /// Return addresses, innermost first, each with whether it is presented as certain; and
    /// whether the walk itself says that it ended before the root.
    fn chain(
        &mut self,
        registers: &cpu::File,
        most: usize,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> (Vec<(u64, bool)>, bool);
}

/// What was seen of one unwinder.
#[derive(Default)]
struct Tally {
    exact: u64,
    short: u64,
    wrong: u64,
    guessed: u64,
    wrong_at: HashSet<u64>,
    kinds: BTreeMap<String, (u64, u64)>,
}

/// What was seen.
#[derive(Default)]
pub struct Table {
    seen: HashMap<u64, u32>,
    stops: u64,
    depth: u64,
    tallies: Vec<(&'static str, Tally)>,
    /// Prints the misses of ours by place.
    pub places: bool,
}

impl Table {
    /// A line of the table for each unwinder.
    pub fn print(&self, name: &str, m: &Machine) {
        let percent = |n: u64, of: u64| 100.0 * n as f64 / of.max(1) as f64;
        for (unwinder, tally) in &self.tallies {
            println!(
                "| {} | {name} | {unwinder} | {} | {:.3} % | {:.3} % | {:.3} % | {:.3} % | {:.3} % | {} | {:.1} |",
                if m.arm { "arm64" } else { "x86_64" },
                self.stops,
                percent(tally.exact, self.stops),
                percent(tally.short, self.stops),
                percent(tally.wrong, self.stops),
                percent(tally.guessed, self.stops),
                percent(tally.wrong_at.len() as u64, self.seen.len() as u64),
                self.seen.len(),
                self.depth as f64 / self.stops.max(1) as f64,
            );
            if self.places {
                let mut kinds: Vec<_> = tally.kinds.iter().collect();
                kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
                for (kind, (count, pc)) in kinds.into_iter().take(60) {
                    eprintln!("  {unwinder} {count:6} {kind}, as at {}", m.place(*pc));
                }
            }
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

/// framehop as it comes.
enum Framehop {
    Arm(Box<(UnwinderAarch64<Vec<u8>>, CacheAarch64)>),
    X86(Box<(UnwinderX86_64<Vec<u8>>, CacheX86_64)>),
}

impl Framehop {
    fn new(m: &Machine) -> Framehop {
        if m.arm {
            let mut unwinder = UnwinderAarch64::new();
            m.images.iter().for_each(|i| unwinder.add_module(module(i)));
            Framehop::Arm(Box::new((unwinder, CacheAarch64::new())))
        } else {
            let mut unwinder = UnwinderX86_64::new();
            m.images.iter().for_each(|i| unwinder.add_module(module(i)));
            Framehop::X86(Box::new((unwinder, CacheX86_64::new())))
        }
    }
}

impl Judge for Framehop {
    fn name(&self) -> &'static str {
        "framehop 0.16"
    }

    fn chain(
        &mut self,
        r: &cpu::File,
        most: usize,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> (Vec<(u64, bool)>, bool) {
        let mut found = vec![];
        macro_rules! walk {
            ($pair:expr, $registers:expr) => {{
                let (unwinder, cache) = &mut **$pair;
                let mut read = |at: u64| read(at).ok_or(());
                let mut frames = unwinder.iter_frames(r.pc(), $registers, cache, &mut read);
                loop {
                    match frames.next() {
                        // It does not say how it found a frame.
                        Ok(Some(FrameAddress::ReturnAddress(at))) => found.push((at.get(), true)),
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
            Framehop::Arm(pair) => walk!(pair, UnwindRegsAarch64::new(r.lr(), r.sp(), r.fp())),
            Framehop::X86(pair) => walk!(pair, UnwindRegsX86_64::new(r.pc(), r.sp(), r.fp())),
        }
    }
}

/// Ours, as an app's recorder would be given the same images.
struct Ours {
    images: Images,
    unwinder: wedjat::unwind::Unwinder,
}

fn loaded(image: &Image, arm: bool) -> LoadedImage {
    let file = &image.file;
    let part = |name: &str| {
        let section = file.section("__TEXT", name)?;
        Some(Section {
            svma: section.svma.start,
            bytes: Bytes::from(file.data(section).to_vec()),
        })
    };
    // S_ATTR_PURE_INSTRUCTIONS, S_ATTR_SOME_INSTRUCTIONS
    let code = file.sections.iter().filter(|s| s.flags & 0x8000_0400 != 0);
    let code: Vec<_> = code.map(|s| s.svma.clone()).collect();
    let arch = if arm { Arch::Arm64 } else { Arch::X86_64 };
    let text = image.text();
    let mut loaded = LoadedImage::new(
        image.path.clone(),
        text.start,
        file.base(),
        text.end - text.start,
    )
    .with_arch(arch)
    .with_code(code.clone());
    for section in file.sections.iter().filter(|s| code.contains(&s.svma)) {
        loaded = loaded.with_text(Section {
            svma: section.svma.start,
            bytes: Bytes::from(file.data(section).to_vec()),
        });
    }
    if let Some(eh_frame) = part("__eh_frame") {
        loaded = loaded.with_eh_frame(eh_frame, None);
    }
    if let Some(unwind_info) = part("__unwind_info") {
        loaded = loaded.with_unwind_info(unwind_info);
    }
    loaded.with_function_starts(&file.bytes[file.function_starts.clone()])
}

/// Guest memory.
struct Guest<'r>(&'r mut dyn FnMut(u64) -> Option<u64>);

impl Memory for Guest<'_> {
    fn read(&mut self, address: u64) -> Result<u64, Missing> {
        (self.0)(address).ok_or(Missing::Unreadable)
    }
}

impl Judge for Ours {
    fn name(&self) -> &'static str {
        "wedjat"
    }

    fn chain(
        &mut self,
        r: &cpu::File,
        most: usize,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> (Vec<(u64, bool)>, bool) {
        let mut registers = Registers::new(if r.arm { Arch::Arm64 } else { Arch::X86_64 });
        for (number, value) in r.by_dwarf() {
            registers.set(number, value);
        }
        let mut walk = self.unwinder.walk(&registers, &self.images, Guest(read));
        let frames = walk.by_ref().take(most + 2).skip(1);
        let found = frames.map(|frame| {
            let certain = matches!(frame.found, Found::UnwindInfo | Found::Context);
            (frame.pc, certain)
        });
        let found = found.collect();
        let early = !matches!(walk.end(), Some(WalkEnd::Root) | None);
        (found, early)
    }
}

/// Judges from now on. Slow: each instruction of every image stops the CPU for a moment.
pub fn watch(m: &mut Machine, places: bool) -> Rc<RefCell<Table>> {
    let mut judges: Vec<Box<dyn Judge>> = vec![
        Box::new(Ours {
            images: Images::new(m.images.iter().map(|i| loaded(i, m.arm)).collect()),
            unwinder: wedjat::unwind::Unwinder::new(),
        }),
        Box::new(Framehop::new(m)),
    ];
    let table = Table {
        tallies: judges
            .iter()
            .map(|judge| (judge.name(), Tally::default()))
            .collect(),
        places,
        ..Table::default()
    };
    let table = Rc::new(RefCell::new(table));
    m.uc.get_data_mut().watching = true;
    let arm = m.arm;
    let names: Vec<(u64, String)> = {
        let mut all: Vec<_> = m
            .images
            .iter()
            .flat_map(|i| i.file.symbols.iter().map(|s| (s.0 + i.slide, s.1.clone())))
            .collect();
        all.sort();
        all
    };
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
    let seen = table.clone();
    let judge = move |uc: &mut unicorn_engine::Unicorn<'_, cpu::Stopped>, pc: u64, size: u32| {
        let mut registers = cpu::File::read(uc, arm);
        registers.set_pc(pc);
        let shadow = &mut uc.get_data_mut().shadow;
        shadow.settle(arm, pc, registers.sp());
        let want: Vec<u64> = shadow.calls.iter().rev().map(|c| c.to).collect();
        let mut code = vec![0; size as usize];
        let _ = uc.mem_read(pc, &mut code);
        uc.get_data_mut().shadow.look(arm, pc, &code);
        let mut table = seen.borrow_mut();
        let times = table.seen.entry(pc).or_default();
        *times += 1;
        if *times > EACH {
            return;
        }
        table.stops += 1;
        table.depth += want.len() as u64;
        let mut read = |at: u64| {
            let mut word = [0; 8];
            uc.mem_read(at, &mut word).ok()?;
            Some(u64::from_le_bytes(word))
        };
        for (judge, (_, tally)) in judges.iter_mut().zip(&mut table.tallies) {
            let (got, early) = judge.chain(&registers, want.len() + 3, &mut read);
            let same = got
                .iter()
                .zip(&want)
                .take_while(|(g, w)| g.0 == **w)
                .count();
            if same == want.len() && same == got.len() && !(early && want.is_empty()) {
                tally.exact += 1;
                continue;
            }
            let kind = if same == got.len() {
                tally.short += 1;
                if early {
                    "stopped early"
                } else {
                    "stopped early, as if at the root"
                }
            } else {
                tally.wrong_at.insert(pc);
                if got[same].1 {
                    tally.wrong += 1;
                } else {
                    tally.guessed += 1;
                }
                let pcs: Vec<u64> = got.iter().map(|g| g.0).collect();
                if same == 0 && want.len() > pcs.len() && pcs[..] == want[want.len() - pcs.len()..]
                {
                    "caller skipped"
                } else if same == 0 && pcs.len() == want.len() + 1 && pcs[1..] == want[..] {
                    "a frame that is not there"
                } else if same == 0 {
                    "another caller"
                } else {
                    "wrong deeper"
                }
            };
            let near = names.partition_point(|n| n.0 <= pc);
            let function = near.checked_sub(1).map_or("", |n| &names[n].1);
            let frame = want.get(same.wrapping_sub(1)).filter(|_| same > 0);
            let deeper = frame.map_or(String::new(), |at| {
                let near = names.partition_point(|n| n.0 < *at);
                near.checked_sub(1).map_or(String::new(), |n| {
                    format!(", below {}+{:#x}", names[n].1, at - names[n].0)
                })
            });
            let kind = if same > 0 {
                format!("{kind}{deeper}")
            } else {
                format!("{kind} in {function}")
            };
            tally.kinds.entry(kind).or_insert((0, pc)).0 += 1;
        }
    };
    let judge = Rc::new(RefCell::new(judge));
    for range in texts {
        let judge = judge.clone();
        m.uc.add_code_hook(range.start, range.end - 1, move |uc, pc, size| {
            (judge.borrow_mut())(uc, pc, size);
        })
        .expect("a code hook");
    }
    table
}
