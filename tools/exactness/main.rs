//! How exact the unwinder is: programs stopped after every instruction, their true chain of callers
//! known from the calls and returns that were seen.
//!
//! `cargo run --release --example exactness` writes the table into `docs/measured/exactness.md`; with
//! `--check` it runs the small corpora alone and fails where they miss what the table promises; with
//! `--blocked` it judges walks that know the program counter and the stack pointer alone; with
//! `--command -- PROGRAM ARGUMENTS` it runs any program, and prints its rows; with `--arm64` it steps async frames on
//! arm64, which needs `clang`, `qemu-aarch64` and Debian's `libc6-dev-arm64-cross`.
//! It needs `gcc`, `g++`, `gfortran` and `rustc`, Linux, and x86_64.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod arm64;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod corpus;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod remote;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod shadow;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod table;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod trace;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> std::process::ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--command") {
        return match any(&words[1..]) {
            Ok(()) => std::process::ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("exactness: {error}");
                std::process::ExitCode::from(3)
            }
        };
    }
    let check = words.iter().any(|word| word == "--check");
    let blocked = words.iter().any(|word| word == "--blocked");
    let verbose = words.iter().any(|word| word == "--misses");
    let only: Vec<&str> = words
        .iter()
        .filter(|word| !word.starts_with("--"))
        .map(String::as_str)
        .collect();
    let done = if words.iter().any(|word| word == "--arm64") {
        on_arm64()
    } else {
        run(check, blocked, verbose, &only)
    };
    match done {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(error) => {
            eprintln!("exactness: {error}");
            std::process::ExitCode::from(3)
        }
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/measured/exactness.md");

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn run(
    check: bool,
    blocked: bool,
    verbose: bool,
    only: &[&str],
) -> Result<bool, Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("exactness-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let all = corpus::all();
    let wanted: Vec<_> = all
        .iter()
        .map(|corpus| (corpus, if check { corpus.checked } else { usize::MAX }))
        .filter(|(corpus, count)| {
            *count > 0 && (only.is_empty() && corpus.in_table || only.contains(&corpus.name))
        })
        .collect();
    // Who traces a program is a thread: each corpus has its own.
    let done: Vec<Result<table::Table, String>> = std::thread::scope(|scope| {
        let running: Vec<_> = wanted
            .iter()
            .map(|(corpus, count)| {
                let folder = &folder;
                scope.spawn(move || {
                    measure(corpus, *count, folder, blocked).map_err(|error| error.to_string())
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("a tracer panicked".into()))
            })
            .collect()
    });
    let mut table = table::Table::default();
    for part in done {
        table.append(part?);
    }
    std::fs::remove_dir_all(&folder)?;
    if verbose {
        table.print_misses();
    }
    print!("{}", table.rows());
    table.print_sources();
    if check {
        let tabled = all.iter().filter(|corpus| corpus.in_table);
        let names: Vec<&str> = tabled.map(|corpus| corpus.name).collect();
        return table.check(DOCUMENT, &names);
    }
    if only.is_empty() && !blocked {
        table.write(DOCUMENT)?;
    }
    Ok(true)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn on_arm64() -> Result<bool, Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("exactness-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let good = arm64::run(&folder);
    std::fs::remove_dir_all(&folder)?;
    good
}

/// Any program: `[--stride N] [--most N] -- PROGRAM ARGUMENTS`. Each N-th instruction is judged (61), of at
/// most so many (20,000,000); its own threads are followed, its children are not.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn any(words: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let end = words.iter().position(|word| word == "--");
    let (options, command) = words.split_at(end.ok_or("no `--` before the program")?);
    let option = |name: &str, usual: u64| match options.iter().position(|word| word == name) {
        Some(at) => options.get(at + 1).and_then(|word| word.parse().ok()),
        None => Some(usual),
    };
    let mut command: Vec<_> = command[1..].iter().map(std::ffi::OsString::from).collect();
    let program = command.first_mut().ok_or("no program")?;
    if !program.to_string_lossy().contains('/') {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let mut places = std::env::split_paths(&folders).map(|folder| folder.join(&*program));
        let found = places.find(|place| place.exists());
        *program = found.ok_or("no such program")?.into_os_string();
    }
    let name = std::path::Path::new(program)
        .file_name()
        .unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let mut table = table::Table::default();
    let plan = trace::Plan {
        command: &command,
        stride: option("--stride", 61)
            .ok_or("--stride takes a number")?
            .max(1),
        blocked: options.iter().any(|word| word == "--blocked"),
        most: option("--most", 20_000_000).ok_or("--most takes a number")?,
    };
    trace::run(&plan, &mut table)?;
    table.close(&name);
    table.print_misses();
    print!("{}", table.rows());
    table.print_sources();
    Ok(())
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn measure(
    corpus: &corpus::Corpus,
    count: usize,
    folder: &std::path::Path,
    blocked: bool,
) -> Result<table::Table, Box<dyn std::error::Error>> {
    let mut table = table::Table::default();
    for build in corpus.builds(folder, count)? {
        let start = std::time::Instant::now();
        let command = [build.program.into_os_string()];
        let stops = trace::run(&trace::Plan::whole(&command, blocked), &mut table)?;
        eprintln!("{}: {stops} stops in {:.1?}", build.what, start.elapsed());
        table.close(corpus.name);
    }
    Ok(table)
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    eprintln!("exactness: needs Linux on x86_64");
    std::process::exit(2);
}
