//! `emulator [OPTIONS] PROGRAM [ARGUMENTS]`: runs a Mach-O program as Darwin would, deterministically,
//! and ends as it ended. `--seed N` orders the turns of the threads, `--slice N` bounds them,
//! `--exact` and `--misses` judge unwinders (`--no-starts`: without any table of function starts), `--hunt N` holds the main
//! thread N times before each instruction; `--library` judges unwinders on libraries that were built elsewhere
//! (`library.rs`); `--as NAME` is what a table calls the program; `EMULATOR_COVERAGE` names a file for the blocks that were
//! executed.

mod covered;
mod cpu;
mod exact;
mod hunt;
mod library;
mod loader;
mod machine;
mod macho;
mod memory;
mod ports;
mod shadow;
mod system;

use machine::{Exit, Machine};

const STACK: u64 = 0x1_6fe0_0000;
const STACK_SIZE: u64 = 1 << 20;

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut seed = 0;
    let mut library_path = vec![];
    let (mut trace, mut called) = (false, None);
    let (mut exact, mut misses, mut hunt, mut slice) = (false, false, None, None);
    let (mut starts, mut library, mut arch) = (true, false, None);
    while let Some(option) = arguments.next_if(|a| a.starts_with("--")) {
        match option.as_str() {
            "--seed" => {
                seed = arguments
                    .next()
                    .and_then(|n| n.parse().ok())
                    .unwrap_or_else(|| usage())
            }
            "--library-path" => library_path.push(arguments.next().unwrap_or_else(|| usage())),
            "--trace" => trace = true,
            "--as" => called = arguments.next(),
            "--hunt" => hunt = arguments.next().and_then(|n| n.parse().ok()),
            "--slice" => slice = arguments.next().and_then(|n| n.parse().ok()),
            "--exact" => exact = true,
            "--no-starts" => starts = false,
            "--misses" => (exact, misses) = (true, true),
            "--library" => library = true,
            "--arch" => arch = arguments.next(),
            _ => usage(),
        }
    }
    if let Ok(more) = std::env::var("EMULATOR_LIBRARY_PATH") {
        library_path.extend(more.split(':').map(String::from));
    }
    if let Ok(text) = std::env::var("EMULATOR_SEED") {
        seed = text.parse().unwrap_or_else(|_| usage());
    }
    let guest: Vec<String> = arguments.collect();
    if guest.is_empty() {
        usage();
    }
    if library {
        let arm = arch.map(|arch| arch == "arm64");
        judge_libraries(&guest, called.as_deref(), arm, (misses, starts));
        return;
    }
    let mut machine = match start(&guest, seed, library_path) {
        Ok(machine) => machine,
        Err(why) => {
            eprintln!("emulator: {why}");
            std::process::exit(126);
        }
    };
    machine.trace = trace || std::env::var_os("EMULATOR_TRACE").is_some();
    let table = exact.then(|| exact::watch(&mut machine, misses, starts));
    machine.slice = slice.unwrap_or(machine.slice);
    let hunted = hunt.map(|each| hunt::watch(&mut machine, each));
    let coverage = std::env::var_os("EMULATOR_COVERAGE");
    let covered = coverage.map(|path| (covered::watch(&mut machine), path));
    let end = machine.run();
    let file = guest[0].rsplit('/').next().unwrap_or_default();
    let name = called.as_deref().unwrap_or(file);
    if let Some(table) = table {
        table.print(name, &mut machine);
    }
    if let Some(stood) = hunted {
        hunt::print(&mut machine, &stood.borrow(), name);
    }
    if let Some((blocks, path)) = covered
        && let Err(why) = covered::write(&blocks, &path)
    {
        eprintln!("emulator: {}: {why}", path.to_string_lossy());
    }
    match end {
        Exit::Status(status) => std::process::exit(status),
        Exit::Signal(number) => {
            eprintln!("emulator: killed by signal {number} (Darwin's number)");
            std::process::exit(128 + number as i32);
        }
        Exit::Stuck(why) => {
            let registers = machine.registers();
            eprintln!(
                "emulator: {why}; pc {} sp {:#x}",
                machine.place(registers.pc),
                registers.sp
            );
            std::process::exit(125);
        }
    }
}

/// Each file by itself; one that cannot be run ends the process at last.
fn judge_libraries(files: &[String], name: Option<&str>, arm: Option<bool>, how: (bool, bool)) {
    let mut failed = false;
    for path in files {
        if let Err(why) = library::judge(path, name, arm, how) {
            eprintln!("emulator: {why}");
            failed = true;
        }
    }
    if failed {
        std::process::exit(126);
    }
}

fn usage() -> ! {
    eprintln!(
        "usage: emulator [--seed N] [--slice N] [--library-path DIR] [--trace] [--as NAME] [--exact | --misses | --hunt N] [--no-starts] PROGRAM [ARGUMENTS]
       emulator --library [--misses] [--no-starts] [--arch arm64|x86_64] [--as NAME] FILE ..."
    );
    std::process::exit(2)
}

/// Loads the program and leaves its main thread at the system's `start`.
fn start(guest: &[String], seed: u64, library_path: Vec<String>) -> Result<Machine, String> {
    let arm = macho::File::parse(&guest[0])?.arm;
    let mut m = Machine::new(arm, seed);
    let name = if arm { "arm64" } else { "x86_64" };
    m.library_path = library_path
        .iter()
        .map(|p| p.replace("{arch}", name))
        .collect();
    let path = std::fs::canonicalize(&guest[0]).map_err(|e| format!("{}: {e}", guest[0]))?;
    let path = path.to_string_lossy().into_owned();
    loader::load(&mut m, &guest[0], &path)?;
    let entry = m
        .images
        .iter()
        .find_map(|i| i.file.entry.map(|e| e + i.slide))
        .ok_or("no entry point")?;
    let first =
        loader::resolve(&m, "_emulator_start").ok_or("no libSystem: run suites/apple/run first")?;

    let Machine { memory, uc, .. } = &mut m;
    let base = memory.map(uc, Some(STACK), STACK_SIZE, 3);
    let top = base + STACK_SIZE;
    // The main thread's pthread structure, then the strings, then the vectors.
    let pthread = top - 0x3000;
    let mut at = top - 0x1f00;
    let mut put = |m: &mut Machine, text: &str| {
        let place = at;
        m.write(place, text.as_bytes());
        at += text.len() as u64 + 1;
        place
    };
    let arguments: Vec<u64> = guest.iter().map(|text| put(&mut m, text)).collect();
    let kept = std::env::vars()
        .filter(|(k, v)| (k.starts_with("RUST_") || k.starts_with("WEDJAT_")) && v.len() < 200);
    let environment: Vec<u64> = kept
        .map(|(k, v)| put(&mut m, &format!("{k}={v}")))
        .collect();
    if at >= top {
        return Err("arguments and environment are too long".into());
    }
    let vectors = pthread - 0x1000;
    let words = arguments
        .iter()
        .copied()
        .chain([0])
        .chain(environment.iter().copied())
        .chain([0, 0]);
    for (k, word) in words.enumerate() {
        m.write_u64(vectors + 8 * k as u64, word);
    }
    let sp = vectors - 0x100 - if arm { 0 } else { 8 };
    let count = guest.len() as u64;
    let index = m.spawn(
        first,
        sp,
        pthread,
        &[entry, count, vectors, pthread, top, STACK_SIZE],
    );
    system::thread::introduce(&mut m, index);
    m.uc.get_data_mut().shadow = shadow::Shadow::new();
    Ok(m)
}
