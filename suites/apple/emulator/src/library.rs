//! Exactness on libraries that were built elsewhere: each of their functions runs by itself, from its first
//! instruction, called by a caller of ours.
//!
//! A function that comes back to its caller, with the stack pointer and all preserved registers as they
//! were, and whose callees have left its frame record alone, has run as functions do; of such runs alone
//! the stops count. The true chain is that of the calls and returns as they execute, down to the caller's.
//! Calls out of the library are skipped: they return a number. So are those within it of functions that
//! came back by themselves, in the first of three rounds; in the others two calls deep are followed first.
//! Memory that is not there is given, a page of zeros at a time.

mod apart;
mod caller;
mod file;
mod run;

use std::collections::HashSet;

use apart::{At, apart};
use caller::Caller;
use run::{Library, Round, Runner};

use crate::exact::Bench;
use crate::loader::Image;
use crate::machine::Machine;
use crate::macho::File;

/// Where libraries go.
const BASE: u64 = 0x2_0000_0000;

/// With stops enough the rest of a library's functions are left out, which are taken in no order.
const STOPS: u64 = 400_000;

const ROUNDS: [Round; 3] = [
    // Arguments point to zeros.
    Round {
        depth: 0,
        argument: |k| 0x5_0000_0000 + k * 0x10_0000,
        result: 0,
    },
    Round {
        depth: 2,
        argument: |_| 0,
        result: 0,
    },
    Round {
        depth: 2,
        argument: |k| k + 1,
        result: 0x5_1000_0000,
    },
];

/// Judges the library in a file, each slice of it. An error is what
/// could not be run at all. `arm` chooses among the slices; `how` is
/// whether misses are printed by place, and whether ours has the library's table of function starts.
pub fn judge(
    path: &str,
    name: Option<&str>,
    arm: Option<bool>,
    how: (bool, bool),
) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|why| format!("{path}: {why}"))?;
    let own = path.rsplit('/').next().unwrap_or_default();
    let mut any = false;
    for slice in file::slices(bytes) {
        let parsed = std::panic::catch_unwind(|| File::of(slice, path, true));
        let file = parsed.map_err(|_| format!("{path}: a malformed file"))??;
        if file.segment_named("__TEXT").is_none() {
            return Err(format!("{path}: no __TEXT"));
        }
        if arm.is_some_and(|arm| arm != file.arm) {
            continue;
        }
        let slice = |at: &At, left_out: &HashSet<u64>| {
            slice_of(file.clone(), name.unwrap_or(own), own, how, (at, left_out))
        };
        let left_out = apart(slice).map_err(|why| format!("{path}: {why}"))?;
        for function in left_out {
            eprintln!("{own}: the function at {function:#x} ends the emulator, and is left out");
        }
        any = true;
    }
    any.then_some(())
        .ok_or_else(|| format!("{path}: no slice for arm64 or x86_64"))
}

fn slice_of(
    mut file: File,
    name: &str,
    own: &str,
    (places, starts): (bool, bool),
    (now, left_out): (&At, &HashSet<u64>),
) {
    let mut m = Machine::new(file.arm, 0);
    let slide = BASE.wrapping_sub(file.base());
    let mut functions = file::functions(&file);
    functions.retain(|at| !left_out.contains(&(at - file.base())));
    name_functions(&mut file, &functions, own);
    if !starts {
        file.function_starts = 0..0;
    }
    let avma = |svma: &std::ops::Range<u64>| svma.start + slide..svma.end + slide;
    let mut data = vec![];
    for segment in file.segments.iter().filter(|s| !s.svma.is_empty()) {
        let at = avma(&segment.svma);
        let text = segment.protection & 4 != 0;
        let rights = if text { 5 } else { 3 };
        m.memory
            .map(&mut m.uc, Some(at.start), at.end - at.start, rights);
        m.write(
            at.start,
            file.bytes.get(segment.file.clone()).unwrap_or_default(),
        );
        if !text && segment.name != "__LINKEDIT" {
            data.push(at);
        }
    }
    for (at, to) in file::pointers(&file, slide) {
        m.write_u64(at, to);
    }
    let code: Vec<_> = file::code(&file)
        .map(|section| avma(&section.svma))
        .collect();
    let all = file.sections.iter().filter(|s| s.flags & 0x8000_0400 != 0);
    let stubs = all
        .map(|s| avma(&s.svma))
        .filter(|s| !code.contains(s) && !s.is_empty());
    let library = Library {
        stubs: stubs.collect(),
        never_return: file::never_return(&file)
            .iter()
            .map(|at| at + slide)
            .collect(),
        code,
        data,
    };
    m.images.push(Image {
        path: own.into(),
        file,
        slide,
        name_at: 0,
    });
    let caller = Caller::new(&mut m);
    let bench = Bench::new(&m, places, true);
    let mut runner = Runner::new(&mut m, caller, library, bench);
    let functions: Vec<u64> = functions.iter().map(|svma| svma + slide).collect();
    runner.learn(&mut m, &functions, &ROUNDS, &|avma| now.begin(avma - BASE));
    let mut ran = 0;
    for at in in_no_order(functions.len()) {
        if runner.bench().stops() >= STOPS {
            break;
        }
        if runner.comes_back(functions[at]) {
            ran += 1;
            now.begin(functions[at] - BASE);
            for round in ROUNDS {
                runner.run(&mut m, functions[at], round);
            }
        }
    }
    let arch = if m.arm { "arm64" } else { "x86_64" };
    let come_back = functions.iter().filter(|at| runner.comes_back(**at));
    eprintln!(
        "{arch} {own}: of {} functions {} come back; {ran} of them are judged",
        functions.len(),
        come_back.count()
    );
    runner.bench().print(name, &m);
}

/// Each number below `count` once.
fn in_no_order(count: usize) -> impl Iterator<Item = usize> {
    // A prime that no count has as a factor but by accident.
    const STEP: usize = 1_000_003;
    let step = if count.is_multiple_of(STEP) { 1 } else { STEP };
    (0..count).map(move |k| k * step % count)
}

/// Functions without a symbol are known by their address.
fn name_functions(file: &mut File, functions: &[u64], own: &str) {
    let known: std::collections::HashSet<u64> = file.symbols.iter().map(|s| s.0).collect();
    let unknown = functions.iter().filter(|at| !known.contains(at));
    let names = unknown.map(|at| (*at, format!("{own}:{at:#x}")));
    let names: Vec<_> = names.collect();
    file.symbols.extend(names);
    file.symbols.sort();
}
