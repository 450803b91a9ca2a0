//! Libraries that were built elsewhere: the slices of a file, the pointers that a loader writes, and which
//! of its imports never return (`mach-o/fat.h`, `mach-o/loader.h`).

use std::collections::HashSet;
use std::ops::Range;

use crate::macho::{File, Fixup};

/// A thin file's own bytes, or those of each slice of a fat one that the emulator has a CPU for.
pub fn slices(bytes: Vec<u8>) -> Vec<Vec<u8>> {
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?;
        Some(u32::from_be_bytes(word.try_into().ok()?))
    };
    let (each, wide) = match word(0) {
        Some(0xcafe_babe) => (20, false),
        Some(0xcafe_babf) => (32, true),
        _ => return vec![bytes],
    };
    let slice = |at: usize| {
        // CPU_TYPE_ARM64, CPU_TYPE_X86_64
        matches!(word(at)?, 0x0100_000c | 0x0100_0007).then_some(())?;
        let (start, size) = if wide {
            (word(at + 12)?, word(at + 20)?)
        } else {
            (word(at + 8)?, word(at + 12)?)
        };
        let range = start as usize..start as usize + size as usize;
        bytes.get(range).map(<[u8]>::to_vec)
    };
    let count = word(4).unwrap_or(0).min(16) as usize;
    (0..count).filter_map(|k| slice(8 + each * k)).collect()
}

fn uleb(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Stated addresses of the functions, in order: those of `LC_FUNCTION_STARTS`, or else of the symbols.
pub fn functions(file: &File) -> Vec<u64> {
    let bytes = file.bytes.get(file.function_starts.clone());
    let (bytes, mut at, mut function) = (bytes.unwrap_or_default(), 0, file.base());
    let mut found = vec![];
    while let Some(distance) = uleb(bytes, &mut at).filter(|distance| *distance != 0) {
        function += distance;
        found.push(function);
    }
    if found.is_empty() {
        found.extend(file.symbols.iter().map(|symbol| symbol.0));
    }
    let code: Vec<_> = code(file).map(|section| section.svma.clone()).collect();
    found.retain(|at| code.iter().any(|range| range.contains(at)));
    found.dedup();
    found
}

/// The sections that have functions.
pub fn code(file: &File) -> impl Iterator<Item = &crate::macho::Section> {
    // S_ATTR_PURE_INSTRUCTIONS, S_ATTR_SOME_INSTRUCTIONS; not S_SYMBOL_STUBS
    let has_code = |s: &&crate::macho::Section| s.flags & 0x8000_0400 != 0 && s.kind() != 8;
    let sections = file.sections.iter().filter(has_code);
    sections.filter(|s| s.name != "__stub_helper" && !s.svma.is_empty())
}

/// The pointers that a loader would write: into the library itself what is right, to elsewhere 0.
pub fn pointers(file: &File, slide: u64) -> Vec<(u64, u64)> {
    let chained = file.fixups.iter().map(|fixup| match fixup {
        Fixup::Rebase { at, to } => (at + slide, to + slide),
        Fixup::Bind { at, .. } => (at + slide, 0),
    });
    let mut all: Vec<_> = chained.collect();
    let word = |at: u64| {
        let segment = file.segments.iter().find(|s| s.svma.contains(&at))?;
        let at = segment.file.start + (at - segment.svma.start) as usize;
        let word = file.bytes.get(at..at + 8)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    };
    let places = rebases(file).unwrap_or_default();
    let known = places.into_iter().filter_map(|at| Some((at, word(at)?)));
    all.extend(known.map(|(at, to)| (at + slide, to + slide)));
    all
}

/// Where `LC_DYLD_INFO` has pointers into the library itself (`REBASE_OPCODE_*`).
fn rebases(file: &File) -> Option<Vec<u64>> {
    const MOST: usize = 1 << 22;
    let bytes = file.bytes.get(file.rebases.clone())?;
    let (mut at, mut place, mut found) = (0, 0u64, vec![]);
    while let Some(byte) = bytes.get(at).filter(|_| found.len() < MOST) {
        at += 1;
        let low = u64::from(byte & 0x0f);
        let (count, skip) = match byte >> 4 {
            0 => break,
            1 => continue,
            2 => {
                place = file.segments.get(low as usize)?.svma.start + uleb(bytes, &mut at)?;
                continue;
            }
            3 => (0, uleb(bytes, &mut at)?),
            4 => (0, low * 8),
            5 => (low, 0),
            6 => (uleb(bytes, &mut at)?, 0),
            7 => (1, uleb(bytes, &mut at)?),
            8 => (uleb(bytes, &mut at)?, uleb(bytes, &mut at)?),
            _ => return None,
        };
        if count == 0 {
            place = place.wrapping_add(skip);
        }
        for _ in 0..count.min(MOST as u64) {
            found.push(place);
            place = place.wrapping_add(8 + skip);
        }
    }
    Some(found)
}

/// Where the stubs of functions that never return lie: what stands behind a call of one is not what runs
/// next.
pub fn never_return(file: &File) -> HashSet<u64> {
    const NAMES: [&str; 22] = [
        "_abort",
        "_exit",
        "__exit",
        "_quick_exit",
        "_err",
        "_errx",
        "_longjmp",
        "__longjmp",
        "_siglongjmp",
        "_pthread_exit",
        "___stack_chk_fail",
        "___assert_rtn",
        "__Unwind_Resume",
        "___cxa_throw",
        "___cxa_rethrow",
        "___cxa_bad_cast",
        "___cxa_pure_virtual",
        "___cxa_call_unexpected",
        "__ZSt9terminatev",
        "_objc_exception_throw",
        "_objc_exception_rethrow",
        "_Py_Exit",
    ];
    // libc++'s and libstdc++'s std::__throw_*, libgfortran's, Python's.
    const PARTS: [&str; 8] = [
        "__throw_",
        "_throw_bad_",
        "_gfortran_stop_",
        "_gfortran_error_stop_",
        "_gfortran_runtime_error",
        "_gfortran_os_error",
        "_chk_fail",
        "Py_FatalError",
    ];
    let never = |name: &str| NAMES.contains(&name) || PARTS.iter().any(|part| name.contains(part));
    let mut found = HashSet::new();
    for section in file.sections.iter().filter(|section| section.kind() == 8) {
        let Range { start, end } = section.svma;
        let each = u64::from(section.stub_size.max(1));
        let stubs = (start..end).step_by(each as usize).enumerate();
        found.extend(stubs.filter_map(|(k, at)| {
            let name = file.indirect_symbol(section.first_symbol as usize + k)?;
            never(&name).then_some(at)
        }));
    }
    found
}
