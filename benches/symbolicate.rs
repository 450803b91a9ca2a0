//! The symbolicator against its peers, in one run: llvm-symbolizer, the addr2line crate, bare symbolic.
//!
//! ```text
//! cargo bench --bench symbolicate
//! WEDJAT_DEBUG_FILE=target/corpus/…/DWARF/NativeScript:arm64 cargo bench --bench symbolicate
//! ```
//! Without the variable it works on the benched program itself. `distinct`: addresses drawn evenly
//! over the code, each once, names demangled, nothing remembered from before. `fleet`: addresses as a
//! fleet repeats them, by a Zipf law over 2,000. Each iteration looks up [`COUNT`] addresses; that of
//! llvm-symbolizer starts its process, too, as it has no other way. `first answer`: whole processes,
//! for one address each, beside a process that does nothing; their peak memory is printed before.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use object::{Object, ObjectSection};
use wedjat::symbolicate::{Addresses, Cache, DebugFiles};

const COUNT: usize = 20_000;
/// So many addresses' first answers are looked at for their peak memory.
const PEAKS: usize = 48;

type Reader = gimli::EndianSlice<'static, gimli::RunTimeEndian>;

struct Input {
    path: PathBuf,
    arch: Option<String>,
    slice: &'static [u8],
}

fn input() -> Input {
    let (path, arch) = match std::env::var("WEDJAT_DEBUG_FILE") {
        Ok(file) => match file.rsplit_once(':') {
            Some((path, arch)) => (PathBuf::from(path), Some(arch.to_owned())),
            None => (PathBuf::from(file), None),
        },
        Err(_) => (std::env::current_exe().expect("the benched program"), None),
    };
    let data = Vec::leak(std::fs::read(&path).expect("the debug file"));
    let wanted = match arch.as_deref() {
        Some("x86_64") => object::Architecture::X86_64,
        _ => object::Architecture::Aarch64,
    };
    use object::read::macho::FatArch;
    let slice = match object::read::macho::MachOFatFile32::parse(&*data) {
        Ok(fat) => {
            let arch = fat
                .arches()
                .iter()
                .find(|a| a.architecture() == wanted)
                .expect("the slice");
            arch.data(&*data).expect("the slice")
        }
        Err(_) => &*data,
    };
    Input { path, arch, slice }
}

/// Addresses drawn over the code by a fixed seed: evenly, or repeating by a Zipf law.
fn draw(slice: &[u8], zipf: bool) -> Vec<u64> {
    let file = object::File::parse(slice).expect("an object");
    let text = file
        .sections()
        .filter(|s| s.kind() == object::SectionKind::Text)
        .max_by_key(|s| s.size())
        .expect("code");
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    if !zipf {
        return (0..COUNT)
            .map(|_| text.address() + random() % text.size())
            .collect();
    }
    let hot: Vec<u64> = (0..2_000)
        .map(|_| text.address() + random() % text.size())
        .collect();
    let weights: Vec<f64> = (1..=hot.len()).map(|rank| 1.0 / rank as f64).collect();
    let total: f64 = weights.iter().sum();
    let sums: Vec<f64> = weights
        .iter()
        .scan(0.0, |sum, weight| {
            *sum += weight / total;
            Some(*sum)
        })
        .collect();
    let mut one = || {
        let at = (random() >> 11) as f64 / (1u64 << 53) as f64;
        hot[sums.partition_point(|&sum| sum < at).min(hot.len() - 1)]
    };
    (0..COUNT).map(|_| one()).collect()
}

fn symbolicator(input: &Input, cache: &Path) -> Addresses {
    let mut files = DebugFiles::new().no_search().cache(Some(Cache::new(cache)));
    files.add(&input.path).expect("debug files");
    Addresses::new(&files, input.arch.as_deref(), None).expect("one image")
}

/// CPU time of all threads but the calling one, nanoseconds: of those that have ended, too.
fn cpu_of_others() -> u64 {
    let now = |clock| {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is writable.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    now(libc::CLOCK_PROCESS_CPUTIME_ID) - now(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Has a process look up so much that it makes the table of the file and leaves it in the cache, as one with many
/// reports does. Prints what the table took.
fn fill(input: &Input, cache: &Path) {
    let before = cpu_of_others();
    let symbolicator = symbolicator(input, cache);
    let addresses = draw(input.slice, false);
    for near in (0..256).step_by(4) {
        for address in &addresses {
            black_box(symbolicator.frames(address + near));
        }
    }
    // Ends once the table is written.
    drop(symbolicator);
    let entries = std::fs::read_dir(cache).expect("the cache");
    let sizes = entries.map(|entry| entry.and_then(|entry| entry.metadata()).map(|of| of.len()));
    let bytes: u64 = sizes.map(|size| size.expect("its size")).sum();
    assert!(bytes > 1 << 12, "no table was written");
    eprintln!(
        "conversion of the file, its table written to the cache: {} ms of CPU time on a thread of its own, {} KiB",
        (cpu_of_others() - before) / 1_000_000,
        bytes >> 10
    );
}

fn peers(c: &mut Criterion) {
    let input = input();
    let folder = tempfile::tempdir().expect("a folder");
    fill(&input, folder.path());
    let warm = symbolicator(&input, folder.path());
    for address in draw(input.slice, false) {
        black_box(warm.frames(address));
    }

    let object = object::File::parse(input.slice).expect("an object");
    let dwarf = gimli::Dwarf::load(|id| -> Result<Reader, gimli::Error> {
        let data = object
            .section_by_name(id.name())
            .and_then(|s| s.uncompressed_data().ok())
            .unwrap_or_default();
        Ok(Reader::new(
            Vec::leak(data.into_owned()),
            gimli::RunTimeEndian::Little,
        ))
    });
    let context = addr2line::Context::from_dwarf(dwarf.expect("DWARF")).expect("DWARF");

    let archive = symbolic::debuginfo::Object::parse(input.slice).expect("an object");
    let mut converter = symbolic::symcache::SymCacheConverter::new();
    converter.process_object(&archive).expect("a SymCache");
    let mut symcache = Vec::new();
    converter.serialize(&mut symcache).expect("a SymCache");
    let symcache = symbolic::symcache::SymCache::parse(&symcache).expect("a SymCache");

    for (name, zipf) in [("distinct", false), ("fleet", true)] {
        let addresses = draw(input.slice, zipf);
        let mut group = c.benchmark_group(name);
        group
            .throughput(Throughput::Elements(COUNT as u64))
            .sample_size(10);
        group.bench_function(BenchmarkId::from_parameter("wedjat"), |b| {
            // A new symbolicator each time, so that `distinct` remembers nothing.
            b.iter_batched_ref(
                || {
                    if zipf {
                        None
                    } else {
                        Some(symbolicator(&input, folder.path()))
                    }
                },
                |fresh| {
                    let symbolicator = fresh.as_ref().unwrap_or(&warm);
                    addresses
                        .iter()
                        .map(|&address| black_box(symbolicator.frames(address)).len())
                        .sum::<usize>()
                },
                criterion::BatchSize::PerIteration,
            );
        });
        group.bench_function(
            BenchmarkId::from_parameter("symbolic, names as stored"),
            |b| {
                b.iter(|| {
                    let mut count = 0;
                    for &address in &addresses {
                        for location in symcache.lookup(address) {
                            black_box((
                                location.function().name(),
                                location.file().map(|f| f.full_path()),
                                location.line(),
                            ));
                            count += 1;
                        }
                    }
                    count
                });
            },
        );
        group.bench_function(
            BenchmarkId::from_parameter("symbolic, each name demangled once"),
            |b| {
                use symbolic_demangle::{Demangle, DemangleOptions};
                b.iter(|| {
                    let mut names: HashMap<String, String> = HashMap::new();
                    for &address in &addresses {
                        for location in symcache.lookup(address) {
                            let function = location.function();
                            if !names.contains_key(function.name()) {
                                let name = function.name_for_demangling();
                                let demangled =
                                    name.try_demangle(DemangleOptions::complete()).into_owned();
                                names.insert(function.name().to_owned(), demangled);
                            }
                            black_box((
                                names.get(function.name()),
                                location.file().map(|f| f.full_path()),
                                location.line(),
                            ));
                        }
                    }
                    names.len()
                });
            },
        );
        group.bench_function(BenchmarkId::from_parameter("addr2line crate"), |b| {
            b.iter(|| {
                let mut count = 0;
                for &address in &addresses {
                    let Ok(mut frames) = context.find_frames(address).skip_all_loads() else {
                        continue;
                    };
                    while let Ok(Some(frame)) = frames.next() {
                        let name = frame.function.as_ref().and_then(|f| f.demangle().ok());
                        black_box((name, frame.location.and_then(|l| l.line)));
                        count += 1;
                    }
                }
                count
            });
        });
        if Command::new("llvm-symbolizer")
            .arg("--version")
            .output()
            .is_err()
        {
            eprintln!("llvm-symbolizer is not installed: no bench of it");
        } else {
            let lines: String = addresses
                .iter()
                .map(|address| format!("{address:#x}\n"))
                .collect();
            group.bench_function(BenchmarkId::from_parameter("llvm-symbolizer"), |b| {
                b.iter(|| llvm(&input, &lines))
            });
        }
        group.finish();
    }
}

fn llvm_command(input: &Input) -> Command {
    let mut command = Command::new("llvm-symbolizer");
    command.args(["--inlines", "--obj"]).arg(&input.path);
    if let Some(arch) = &input.arch {
        command.arg(format!("--default-arch={arch}"));
    }
    command
}

fn llvm(input: &Input, lines: &str) -> usize {
    let mut child = llvm_command(input)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("llvm-symbolizer");
    let mut stdin = child.stdin.take().expect("stdin");
    let lines = lines.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("llvm-symbolizer");
    writer.join().expect("the writer").expect("its input");
    output.stdout.len()
}

/// Makes the command of a process to start.
type Start<'a> = Box<dyn Fn() -> Command + 'a>;

/// One address in a function and one that only the symbol table may know.
fn first_answers(c: &mut Criterion) {
    let input = input();
    let cache = tempfile::tempdir().expect("a folder");
    fill(&input, cache.path());
    let symbolicator = symbolicator(&input, cache.path());
    let addresses = draw(input.slice, false);
    let known = |wanted: &dyn Fn(&wedjat::symbolicate::SourceFrame) -> bool| {
        let fits = |&&address: &&u64| symbolicator.frames(address).last().is_some_and(wanted);
        addresses.iter().find(fits).copied()
    };
    let in_function = known(&|frame| frame.line.is_some()).expect("a function with a line");
    let in_symbols = known(&|frame| frame.source == wedjat::symbolicate::Source::Symbols);
    drop(symbolicator);
    let wedjat = |cache: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
        match cache {
            Some(folder) => command.arg("--cache").arg(folder),
            None => command.arg("--no-cache"),
        };
        command.arg("--debug").arg(&input.path);
        command.args(input.arch.iter().flat_map(|arch| ["--arch", arch]));
        command.arg("--address");
        command
    };
    let mut rows: Vec<(&str, Start<'_>)> = vec![
        ("empty process", Box::new(|| Command::new("true"))),
        (
            "wedjat, warm cache",
            Box::new(|| add(wedjat(Some(cache.path())), in_function)),
        ),
        (
            "wedjat, no cache",
            Box::new(|| add(wedjat(None), in_function)),
        ),
    ];
    if let Some(address) = in_symbols {
        rows.push((
            "wedjat, no cache, no DWARF there",
            Box::new(move || add(wedjat(None), address)),
        ));
    }
    rows.push((
        "llvm-symbolizer",
        Box::new(|| {
            let mut command = llvm_command(&input);
            command.arg(format!("{in_function:#x}"));
            command
        }),
    ));
    for (name, mut command) in [
        ("wedjat, warm cache", add(wedjat(Some(cache.path())), "-")),
        ("wedjat, no cache", add(wedjat(None), "-")),
        ("llvm-symbolizer", llvm_command(&input)),
    ] {
        // What an address costs hangs on where it lies: the highest of some that are spread over the code.
        let spread = addresses.iter().step_by(addresses.len() / PEAKS).copied();
        let peaks = spread.chain([in_function]).chain(in_symbols);
        let peaks: Vec<[u64; 2]> = peaks.filter_map(|at| peak(&mut command, at)).collect();
        let most = |which: usize| peaks.iter().map(|of| of[which]).max().unwrap_or(0);
        eprintln!(
            "peak memory of a first answer, {name}: {} KiB at most, of its own {} KiB, over {} addresses",
            most(0),
            most(1),
            peaks.len()
        );
    }
    let mut group = c.benchmark_group("first answer");
    group.sample_size(20);
    for (name, command) in &rows {
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| command().output().map_or(0, |output| output.stdout.len()));
        });
    }
    group.finish();
}

fn add(mut command: Command, address: impl AsAddress) -> Command {
    command.arg(address.as_address());
    command
}

/// How `--address` has it.
trait AsAddress {
    fn as_address(&self) -> String;
}

impl AsAddress for u64 {
    fn as_address(&self) -> String {
        format!("{self:#x}")
    }
}

impl AsAddress for &str {
    fn as_address(&self) -> String {
        (*self).to_owned()
    }
}

/// Memory of a process that answers a stream, once it gave its first answer, in KiB: the highest there was, with as
/// much of the mapped files as the system has mapped around what was read; and what is no file's.
fn peak(command: &mut Command, address: u64) -> Option<[u64; 2]> {
    use std::io::{BufRead, BufReader};
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    writeln!(stdin, "{address:#x}").ok()?;
    stdin.flush().ok()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take()?)
        .read_line(&mut line)
        .ok()?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    drop(stdin);
    child.wait().ok()?;
    let status = status.ok()?;
    let field = |name| {
        let of = status.lines().find_map(|line| line.strip_prefix(name))?;
        of.split_whitespace().next()?.parse().ok()
    };
    Some([field("VmHWM:")?, field("RssAnon:")?])
}

criterion_group!(benches, first_answers, peers);
criterion_main!(benches);
