//! The unwinders that are judged, given the same sections of the same images.

use std::collections::BTreeMap;

use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};

use wedjat::unwind::{
    Arch, Found, Images, LoadedImage, Memory, Missing, Registers, RuleSource, Section, WalkEnd,
};

use crate::cpu;
use crate::loader::Image;
use crate::machine::Machine;

/// A chain of return addresses, innermost first, each with whether it is presented as certain; and
/// whether the walk itself says that it ended before the root.
pub type Chain = (Vec<(u64, bool)>, bool);

/// One unwinder that is judged.
pub trait Judge {
    /// Its name in the table.
    fn name(&self) -> &'static str;
    /// The chain that it finds, of at most so many frames.
    fn chain(
        &mut self,
        registers: &cpu::File,
        most: usize,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Chain;
    /// Prints how many frames were left by what, where it can say so.
    fn print_sources(&self, _arch: &str) {}
}

/// All of them; `starts` is whether ours is told where functions begin.
pub fn all(m: &Machine, starts: bool) -> Vec<Box<dyn Judge>> {
    let images = m.images.iter().map(|i| loaded(i, m.arm, starts)).collect();
    vec![
        Box::new(Ours {
            images: Images::new(images),
            unwinder: wedjat::unwind::Unwinder::new(),
            sources: BTreeMap::new(),
        }),
        Box::new(Framehop::new(m)),
    ]
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
    ) -> Chain {
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
    /// Frames that have a caller, by what they are left by, and whether they are the first of a walk.
    sources: BTreeMap<(bool, RuleSource), u64>,
}

fn loaded(image: &Image, arm: bool, starts: bool) -> LoadedImage {
    let file = &image.file;
    let part = |name: &str| {
        let section = file.section("__TEXT", name)?;
        Some(Section::new(
            section.svma.start,
            file.data(section).to_vec(),
        ))
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
        let bytes = file.data(section).to_vec();
        loaded = loaded.with_text(Section::new(section.svma.start, bytes));
    }
    if let Some(eh_frame) = part("__eh_frame") {
        loaded = loaded.with_eh_frame(eh_frame, None);
    }
    if let Some(unwind_info) = part("__unwind_info") {
        loaded = loaded.with_unwind_info(unwind_info);
    }
    if let Some(trampoline) = file.exports.get("__sigtramp") {
        loaded = loaded.with_signal_trampoline(*trampoline);
    }
    let starts = if starts {
        file.function_starts.clone()
    } else {
        0..0
    };
    loaded.with_function_starts(&file.bytes[starts])
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
    ) -> Chain {
        let mut registers = Registers::new(if r.arm { Arch::Arm64 } else { Arch::X86_64 });
        for (number, value) in r.by_dwarf() {
            registers.set(number, value);
        }
        let mut walk = self.unwinder.walk(&registers, &self.images, Guest(read));
        let mut found = vec![];
        let mut last = None;
        while let Some(frame) = walk.next()
            && found.len() < most + 2
        {
            if let Some(last) = last {
                *self.sources.entry(last).or_default() += 1;
                let certain = matches!(frame.found, Found::UnwindInfo | Found::Context);
                found.push((frame.pc, certain));
            }
            let first = last.is_none();
            last = walk.rule_source().map(|source| (first, source));
        }
        let early = !matches!(walk.end(), Some(WalkEnd::Root) | None);
        (found, early)
    }

    fn print_sources(&self, arch: &str) {
        for ((first, source), count) in &self.sources {
            let which = if *first { "the first" } else { "behind it" };
            println!("source|{arch}|{which}|{source:?}|{count}");
        }
    }
}
