//! One image: where it lies, and the sections that hold how to unwind from there.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cfi::Cfi;
use super::compact::CompactTable;
use super::fingerprint::Fingerprint;
use super::flow::{self, Code};
use super::registers::Arch;
use super::section::Section;
use super::starts::FunctionStarts;
#[cfg(target_os = "linux")]
use crate::platform::code_copy::CodeCopy;
use crate::platform::memory;

/// Generation of the check that mapped files are whole.
static CHECK_GENERATION: AtomicU64 = AtomicU64::new(1);

/// From now on files are looked at anew, once each, before anything is read from them: a load from a
/// file that was cut is a SIGBUS. Signal-safe.
pub(super) fn recheck_all() {
    CHECK_GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// An executable or library in memory, with the data needed to unwind from it.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedImage {
    /// Its path; `[vdso]` for the one that the kernel maps.
    pub name: String,
    /// Build id or UUID; empty without one.
    pub id: Vec<u8>,
    /// Hash that distinguishes it from other builds if it has no id, see `report::text_hash`.
    pub(crate) text_hash: Option<[u8; 12]>,
    /// Tells it from another image at its place, if it is an image of this process.
    pub(super) fingerprint: Option<Fingerprint>,
    /// Address of its first byte (avma).
    pub base: u64,
    /// Its address in the file (svma of the same byte).
    pub base_svma: u64,
    /// Bytes from its first to the end of its last segment.
    pub size: u64,
    /// True for the executable of its process.
    pub main: bool,
    /// Number that no other load of this or another image has; 0 outside of the image table.
    pub(crate) serial: u32,
    /// The listing that had it first, if no other image can have been there since the listing before; else 0.
    pub(super) first: u32,
    arch: Arch,
    /// Instructions, svma; empty where that is not known: then all of it.
    code: Vec<Range<u64>>,
    text: Vec<Section>,
    /// Code that may be unloaded at any time, and its svma.
    #[cfg(target_os = "linux")]
    code_copies: Vec<(u64, CodeCopy)>,
    pub(super) entry: Option<u64>,
    pub(crate) cfi: Option<Cfi>,
    pub(super) compact: Option<CompactTable>,
    mach_o: bool,
    starts: FunctionStarts,
    /// Functions (svma) behind whose beginning others may begin, in order.
    uncertain: Vec<u64>,
    signal_trampoline: Option<u64>,
    /// Address in our own memory of the last byte of its sections, if they are a file's.
    last_byte: Option<u64>,
    /// The check, see [`look_anew`], at which that byte was last known to be there.
    seen_whole: AtomicU64,
}

impl LoadedImage {
    /// An image without unwind information. `base` is where its first byte lies (avma), `base_svma`
    /// its address in the file (svma), `size` how far it reaches.
    pub fn new(name: impl Into<String>, base: u64, base_svma: u64, size: u64) -> LoadedImage {
        LoadedImage {
            name: name.into(),
            id: Vec::new(),
            text_hash: None,
            fingerprint: None,
            base,
            base_svma,
            size,
            main: false,
            serial: 0,
            first: 0,
            arch: Arch::NATIVE,
            code: Vec::new(),
            text: Vec::new(),
            #[cfg(target_os = "linux")]
            code_copies: Vec::new(),
            entry: None,
            cfi: None,
            compact: None,
            mach_o: false,
            starts: FunctionStarts::default(),
            uncertain: Vec::new(),
            signal_trampoline: None,
            last_byte: None,
            seen_whole: AtomicU64::new(0),
        }
    }

    /// Sets another architecture than this machine's.
    pub fn with_arch(mut self, arch: Arch) -> LoadedImage {
        self.arch = arch;
        self
    }

    /// With its build id or UUID.
    pub fn with_id(mut self, id: impl Into<Vec<u8>>) -> LoadedImage {
        self.id = id.into();
        self
    }

    /// Returns true if it is the same load as another of the same addresses, as far as is known.
    pub(super) fn is_same(&self, other: &LoadedImage) -> bool {
        let facts =
            |image: &LoadedImage| (image.base, image.base_svma, image.size, image.text_hash);
        facts(self) == facts(other) && self.id == other.id && self.name == other.name
    }

    /// What it is and where it lay.
    pub(super) fn remembered(&self) -> LoadedImage {
        LoadedImage {
            id: self.id.clone(),
            text_hash: self.text_hash,
            main: self.main,
            serial: self.serial,
            first: self.first,
            ..LoadedImage::new(self.name.clone(), self.base, self.base_svma, self.size)
        }
    }

    /// Returns true if another image, or none, lies at its addresses now. Signal-safe.
    #[inline(never)]
    pub(crate) fn is_gone(&self) -> bool {
        // The executable stays.
        !self.main && self.fingerprint.is_some_and(|bytes| bytes.has_changed())
    }

    /// With sections that lie in a mapped file: if that file is cut, they are not there any more.
    pub(crate) fn with_mapped_sections(mut self) -> LoadedImage {
        let cfi = self.cfi.iter().map(|cfi| &cfi.section);
        let compact = self.compact.iter().map(|compact| &compact.section);
        let sections = self.text.iter().chain(cfi).chain(compact);
        let ends = sections.map(|section| section.bytes.as_ptr_range().end as u64);
        self.last_byte = ends.max().and_then(|end| end.checked_sub(1));
        self
    }

    /// Returns true if its sections can be read: not if they lie in a file that was truncated. Signal-safe.
    pub(super) fn is_whole(&self) -> bool {
        let Some(last) = self.last_byte else {
            return true;
        };
        let now = CHECK_GENERATION.load(Ordering::Relaxed);
        if self.seen_whole.load(Ordering::Relaxed) == now {
            return true;
        }
        let whole = memory::is_there(last);
        if whole {
            self.seen_whole.store(now, Ordering::Relaxed);
        }
        whole
    }

    /// With the svmas of its instructions.
    pub fn with_code(mut self, code: Vec<Range<u64>>) -> LoadedImage {
        self.code = code;
        self
    }

    /// With instructions: the unwinder uses them to check that a return address follows a call.
    pub fn with_text(mut self, text: Section) -> LoadedImage {
        self.text.push(text);
        self
    }

    /// With code that may be unloaded at any time, of which each page is copied when it is first asked for.
    #[cfg(target_os = "linux")]
    pub(super) fn with_code_copy(mut self, svma: u64, code: CodeCopy) -> LoadedImage {
        self.code_copies.push((svma, code));
        self
    }

    /// Without anything that was read of it.
    #[cfg(target_os = "linux")]
    pub(super) fn without_sections(mut self) -> LoadedImage {
        self.text.clear();
        self.code_copies.clear();
        self.cfi = None;
        self
    }

    /// With the svma of its entry point (`e_entry`). Code there has no caller, even if it has no
    /// unwind information.
    pub fn with_entry(mut self, entry: u64) -> LoadedImage {
        self.entry = Some(entry).filter(|entry| *entry != 0);
        self
    }

    /// With `.eh_frame`, and `.eh_frame_hdr` if the image has it. This builds an index if the image
    /// has no usable table.
    pub fn with_eh_frame(mut self, eh_frame: Section, header: Option<Section>) -> LoadedImage {
        self.cfi = Cfi::new(eh_frame, header, &self.code);
        self
    }

    /// With Apple's `__unwind_info`. Where both sections describe a function,
    /// [`LoadedImage::with_eh_frame`] decides.
    ///
    /// Its instructions come first ([`LoadedImage::with_text`]): in some of them the size of a frame stands.
    ///
    /// `__unwind_info` is true in the bodies of functions. Prologues and epilogues are read from the
    /// instructions: see [`LoadedImage::with_text`] and [`LoadedImage::with_function_starts`].
    pub fn with_unwind_info(mut self, unwind_info: Section) -> LoadedImage {
        let text = self.text.first();
        self.compact = Some(CompactTable::new(unwind_info, self.base_svma, text));
        self.mach_o = true;
        self
    }

    /// With the table that `LC_FUNCTION_STARTS` of a Mach-O image points to (mach-o/loader.h): the
    /// addresses at which its functions begin.
    ///
    /// Pass an empty table if the image has no such command (`-no_function_starts`). Call this last then:
    /// the addresses are gathered from the image's entries, calls and instructions.
    pub fn with_function_starts(mut self, table: &[u8]) -> LoadedImage {
        self.mach_o = true;
        self.starts = FunctionStarts::new(table);
        if self.starts.is_empty() {
            self.gather_starts();
        }
        self
    }

    /// Functions begin where tables have entries, and where their instructions show it. Between them may begin others
    /// that share an entry, so that only those are certain which have one of their own.
    fn gather_starts(&mut self) {
        let mut entries = match &self.compact {
            Some(compact) => compact.entries(self.arch),
            None => Vec::new(),
        };
        let rows = self.cfi.iter().flat_map(Cfi::starts);
        entries.extend(rows.map(|start| (start, true)));
        let mut starts: BTreeMap<u64, bool> = entries.into_iter().collect();
        for part in &self.text {
            let code = Code::of(self.arch, part.svma, &part.bytes);
            for (_, start) in flow::beginnings(code) {
                let (_, whole) = starts.range(..=start).next_back().unzip();
                if part.at(start, 1).is_some() && whole != Some(&true) {
                    starts.insert(start, false);
                }
            }
        }
        let uncertain = starts.iter().filter(|(_, certain)| !**certain);
        self.uncertain = uncertain.map(|(start, _)| *start).collect();
        let base = self.base_svma;
        let offsets = starts
            .into_keys()
            .filter_map(|start| start.checked_sub(base));
        self.starts = FunctionStarts::of(offsets);
    }

    /// Returns true if the function that begins at `start` (svma) may be another one from some instruction on.
    /// Signal-safe.
    pub(crate) fn is_uncertain(&self, start: u64) -> bool {
        self.uncertain.binary_search(&start).is_ok()
    }

    /// With the svma of the function by which Darwin's kernel calls signal handlers (`_sigtramp`).
    /// Its caller is the code that the signal interrupted.
    pub fn with_signal_trampoline(mut self, svma: u64) -> LoadedImage {
        self.signal_trampoline = Some(svma);
        self
    }

    /// Returns true if an address (svma) lies in that function. Signal-safe.
    pub(crate) fn is_signal_trampoline(&self, svma: u64, arch: Arch) -> bool {
        self.signal_trampoline.is_some_and(|start| {
            let near = svma.checked_sub(start).is_some_and(|past| past < 4096);
            near && self
                .function(svma, arch)
                .is_some_and(|code| code.start == start)
        })
    }

    /// Returns true if its tables are right at calls alone: it is a Mach-O image, known by its compact unwind
    /// information or by the function starts that were given. Signal-safe.
    pub(crate) fn is_mach_o(&self) -> bool {
        self.mach_o
    }

    /// The instructions of the function that an address (svma) lies in. Signal-safe.
    pub(crate) fn function(&self, svma: u64, arch: Arch) -> Option<Code<'_>> {
        let part = self
            .text
            .iter()
            .find(|part| part.at(svma, 1).is_some_and(|at| !at.is_empty()))?;
        let around = self.starts.function_at(svma.checked_sub(self.base_svma)?);
        let svma_at = |offset: u64| self.base_svma.wrapping_add(offset);
        let start = around
            .map_or(part.svma, |(start, _)| svma_at(start))
            .max(part.svma);
        let end = around.and_then(|(_, next)| next).map(svma_at);
        let length = end.map_or(usize::MAX, |end| end.saturating_sub(start) as usize);
        let bytes = part.at(start, length)?;
        let around = (part.svma, &*part.bytes);
        Some(Code {
            arch,
            start,
            bytes,
            around,
        })
    }

    /// The same function, with what comes before where that falls into it: a label, as assembly has them
    /// within functions. Signal-safe.
    pub(crate) fn whole_function<'t>(&'t self, code: Code<'t>) -> Code<'t> {
        /// Most labels of a function before the one in question.
        const LABELS: usize = 64;
        let mut whole = code;
        for _ in 0..LABELS {
            match self.with_preceding(whole) {
                Some((before, both)) if flow::falls_in(before) => whole = both,
                _ => break,
            }
        }
        whole
    }

    /// The function before, and that together with this one. Signal-safe.
    pub(crate) fn with_preceding<'t>(&'t self, code: Code<'t>) -> Option<(Code<'t>, Code<'t>)> {
        let end = code.start.saturating_add(code.bytes.len() as u64);
        let before = self.function(code.start.checked_sub(1)?, code.arch)?;
        let length = end.saturating_sub(before.start) as usize;
        let part = |part: &'t Section| part.at(before.start, length);
        let bytes = self.text.iter().find_map(part)?;
        Some((before, Code { bytes, ..before }))
    }

    /// The svma that lies at an avma.
    pub fn svma(&self, avma: u64) -> u64 {
        avma.wrapping_sub(self.base).wrapping_add(self.base_svma)
    }

    /// The avma at which an svma lies.
    pub(crate) fn avma(&self, svma: u64) -> u64 {
        svma.wrapping_sub(self.base_svma).wrapping_add(self.base)
    }

    /// Returns true if an address (avma) lies in it.
    pub fn contains(&self, avma: u64) -> bool {
        let offset = avma.checked_sub(self.base);
        offset.is_some_and(|offset| offset < self.size)
    }

    /// Returns true if an address (avma) may hold an instruction.
    pub(crate) fn is_code(&self, avma: u64) -> bool {
        let svma = self.svma(avma);
        self.contains(avma)
            && (self.code.is_empty() || self.code.iter().any(|range| range.contains(&svma)))
    }

    /// The entry point (svma), if an address (svma) lies in its own code: a few dozen bytes of
    /// assembly. What it calls is another function, also where that stands directly behind it. Signal-safe.
    pub(crate) fn entry_at(&self, svma: u64) -> Option<u64> {
        const MAX_GAP: u64 = 80;
        let entry = self.entry?;
        svma.checked_sub(entry).filter(|past| *past < MAX_GAP)?;
        let part = self
            .text
            .iter()
            .find_map(|part| part.at(entry, MAX_GAP as usize));
        let bytes = part.unwrap_or_default();
        let code = Code::of(self.arch, entry, bytes);
        let mut others = flow::beginnings(code).take_while(|(at, _)| *at < svma);
        let other = others.find(|(_, start)| entry < *start && *start <= svma);
        other.is_none().then_some(entry)
    }

    /// The instruction bytes from this avma on, as far as they are known. Signal-safe.
    pub(crate) fn instructions(&self, avma: u64, length: usize) -> Option<&[u8]> {
        let svma = self.svma(avma);
        let mut text = self.text.iter().filter_map(|part| part.at(svma, length));
        let known = text.find(|part| !part.is_empty());
        #[cfg(target_os = "linux")]
        let known = known.or_else(|| self.copied_code(svma, length));
        known
    }

    #[cfg(target_os = "linux")]
    fn copied_code(&self, svma: u64, length: usize) -> Option<&[u8]> {
        let mut parts = self.code_copies.iter().filter_map(|(start, copy)| {
            let offset = usize::try_from(svma.checked_sub(*start)?).ok()?;
            copy.at(offset, length, &|| !self.is_gone())
        });
        parts.find(|part| !part.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::tests::{image, x86_64};

    #[test]
    fn without_a_table_functions_begin_where_calls_lead_and_frames_are_made_but_not_for_certain() {
        // From 0x100: the callee is at 0x108, a function that nothing calls at 0x110.
        let code = x86_64(
            "call 1f; ret; .balign 8; 1: nop; ret; .balign 16; push %rbx; nop; pop %rbx; ret",
        );
        let image = image(Arch::X86_64, 0x5000, 0x100, code).with_function_starts(&[]);
        for (svma, start, length) in [(0x109, 0x108, 8), (0x112, 0x110, 4)] {
            let function = image.function(svma, Arch::X86_64).unwrap();
            assert_eq!((function.start, function.bytes.len()), (start, length));
            assert!(image.is_uncertain(start));
        }
    }

    #[test]
    fn a_function_that_the_entry_calls_is_not_the_entry() {
        let found = |code: Vec<u8>, svma| {
            let image = image(Arch::X86_64, 0, 0x100, code).with_entry(0x100);
            image.entry_at(svma)
        };
        // musl's `_start_c` stands behind `_start`, which calls it.
        let start =
            x86_64("xor %rbp,%rbp; mov %rsp,%rdi; and $-16,%rsp; call .+6; .fill 256, 1, 0x90");
        for (svma, entry) in [
            (0x10a, Some(0x100)),
            (0x10f, Some(0x100)),
            (0x110, None),
            (0x120, None),
        ] {
            assert_eq!(found(start.clone(), svma), entry, "{svma:#x}");
        }
        // The code of glibc's loader goes on behind the call.
        let start =
            x86_64("xor %rbp,%rbp; mov %rsp,%rdi; and $-16,%rsp; call .-0x7a; .fill 256, 1, 0x90");
        for (svma, entry) in [(0x10f, Some(0x100)), (0x14f, Some(0x100)), (0x150, None)] {
            assert_eq!(found(start.clone(), svma), entry, "{svma:#x}");
        }
    }
}
