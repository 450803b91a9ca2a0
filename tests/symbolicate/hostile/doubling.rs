//! Inputs of each kind at one, two and four times a size: memory and CPU time grow with the input, and stay in proportion to it.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use object::Object as _;
use wedjat::new;
use wedjat::report::{
    self, AppContext, AsyncChain, EventKind, Frame, Image, Report, Sample, Thread, Value,
};

use super::{assembled, unit};

/// The most that either grows by where the input doubles.
const GROWTH: f64 = 2.5;
/// Memory and time that grow by less than this are noise: KiB, milliseconds of CPU.
const FEW_KIB: i64 = 4 << 10;
const FEW_MS: i64 = 250;
/// Runs of each size. Another program on the same core may double the CPU time of one.
const TRIES: usize = 8;
/// Memory of the command without an input, and for each byte of one (SECURITY.md).
const LEAST_KIB: i64 = 48 << 10;
const PER_BYTE: i64 = 100;

/// A kind of input: its name, a size, what makes an input of a size in a folder, and the arguments.
type Generator = (&'static str, usize, fn(&Path, usize), &'static str);

const REPORT: &str = "--no-cache --format json 1.wedjat";
const TEXT: &str = "--no-cache 1.wedjat";
const TOP: &str = "--no-cache --top 5 1.wedjat";
const NAMED: &str = "--no-cache --debug a.so --format json 1.wedjat";
const TABLE: &str = "--cache cache --debug a.so --address -";
const NO_TABLE: &str = "--no-cache --debug a.so --address -";

const GENERATORS: &[Generator] = &[
    (
        "images",
        2_500,
        |to, n| write(to, &crash(n, vec![thread(1, 0)])),
        REPORT,
    ),
    (
        "threads",
        2_000,
        |to, n| write(to, &crash(1, vec![thread(4, 0); n])),
        TEXT,
    ),
    (
        "frames",
        3_000,
        |to, n| write(to, &crash(1, vec![thread(n, 0)])),
        REPORT,
    ),
    (
        "callers",
        90,
        |to, n| write(to, &crash(20 * n, vec![thread(1, 200); n])),
        REPORT,
    ),
    (
        "chains",
        2_500,
        |to, n| write(to, &crash(1, vec![chains(n)])),
        REPORT,
    ),
    ("samples", 1_500, |to, n| write(to, &samples(n)), REPORT),
    (
        "samples in groups",
        3_000,
        |to, n| write(to, &samples(n)),
        TOP,
    ),
    ("marks", 10_000, |to, n| write(to, &app(n, 0, 0)), TEXT),
    (
        "breadcrumbs",
        10_000,
        |to, n| write(to, &app(0, n, 0)),
        TEXT,
    ),
    ("keys", 10_000, |to, n| write(to, &app(0, 0, n)), REPORT),
    (
        "keys in groups",
        10_000,
        |to, n| write(to, &app(0, 0, n)),
        TOP,
    ),
    ("jumps between functions", 400, jumps, NAMED),
    ("names that are tails", 250, tails, TABLE),
    ("names that are tails, no table", 250, tails, NO_TABLE),
    ("names that nest", 1_500, nest, TABLE),
    ("names that nest, no table", 1_500, nest, NO_TABLE),
    ("units", 4_000, units, TABLE),
    ("units, no table", 4_000, units, NO_TABLE),
    ("lines", 20_000, lines, TABLE),
    ("lines, no table", 20_000, lines, NO_TABLE),
    ("inlines", 2_000, inlines, TABLE),
    ("inlines, no table", 2_000, inlines, NO_TABLE),
    ("abbreviations", 5_000, abbreviations, NO_TABLE),
];

#[test]
fn memory_and_time_at_most_double_with_the_input() {
    let mut wrong = Vec::new();
    for generator in GENERATORS {
        let mut taken = measured(generator);
        for _ in 1..TRIES {
            if is_right(&taken) {
                break;
            }
            let again = measured(generator);
            taken = [0, 1, 2].map(|at| taken[at].or(again[at]));
        }
        println!("{}: {taken:?}", generator.0);
        if !is_right(&taken) {
            wrong.push(format!("{}: {taken:?}", generator.0));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the input takes at one, two and four times its size.
fn measured(&(_, size, generate, line): &Generator) -> [Taken; 3] {
    [1, 2, 4].map(|times| {
        let folder = tempfile::tempdir().unwrap();
        generate(folder.path(), size * times);
        run(folder.path(), line)
    })
}

fn is_right(taken: &[Taken; 3]) -> bool {
    taken.iter().all(Taken::is_little) && !grows(taken)
}

fn grows(taken: &[Taken; 3]) -> bool {
    let grows = |before: i64, after: i64, few: i64| {
        after - before > few && after as f64 > GROWTH * before as f64
    };
    let mut pairs = taken.windows(2);
    pairs.any(|two| grows(two[0].kib, two[1].kib, FEW_KIB) || grows(two[0].ms, two[1].ms, FEW_MS))
}

/// The input's bytes, and what a run took: KiB of memory at most, milliseconds of CPU time.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "all are printed")]
struct Taken {
    input: i64,
    kib: i64,
    ms: i64,
}

impl Taken {
    fn is_little(&self) -> bool {
        self.kib <= LEAST_KIB + PER_BYTE * self.input / 1024
    }

    /// What two runs say together: the peak of memory is looked for each millisecond, and may be missed.
    fn or(self, again: Taken) -> Taken {
        Taken {
            kib: self.kib.max(again.kib),
            ms: self.ms.min(again.ms),
            ..self
        }
    }
}

/// Runs the command in `folder`, by a line of arguments.
fn run(folder: &Path, line: &str) -> Taken {
    let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
    command
        .current_dir(folder)
        .arg("--no-search")
        .args(line.split(' '));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let addresses = File::open(folder.join("addresses"));
    command.stdin(addresses.map_or(Stdio::null(), Stdio::from));
    // SAFETY: a system call of its own.
    unsafe {
        command.pre_exec(|| {
            libc::alarm(120);
            Ok(())
        })
    };
    let pid = command.spawn().unwrap().id().cast_signed();
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let (mut status, mut kib) = (0, 0);
    // SAFETY: the places for the answers are valid; the child is this one's, and nobody else waits for it.
    while unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, usage.as_mut_ptr()) } == 0 {
        // What `usage` has of memory is at least that of this process.
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok());
        kib = peak.unwrap_or(0).max(kib);
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: all zero is a valid value, and wait4(2) has filled it.
    let usage = unsafe { usage.assume_init() };
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) < 2,
        "{line}: {status:#x}"
    );
    let ms = |time: libc::timeval| time.tv_sec * 1000 + time.tv_usec / 1000;
    let sizes =
        ["1.wedjat", "a.so"].map(|name| folder.join(name).metadata().map_or(0, |of| of.len()));
    Taken {
        input: sizes.iter().sum::<u64>().cast_signed(),
        kib,
        ms: ms(usage.ru_utime) + ms(usage.ru_stime),
    }
}

fn write(folder: &Path, report: &Report) {
    std::fs::write(folder.join("1.wedjat"), report::to_bytes(report)).unwrap();
}

fn crash(images: usize, threads: Vec<Thread>) -> Report {
    let mut report = Report::default();
    report.event.get_or_insert_default().kind = EventKind::Crash;
    let image = |at: usize| {
        new!(Image {
            name: format!("/x/{at}"),
            base: 0x1000 * (1 + at as u64),
            size: 1,
        })
    };
    report.images = (0..images).map(image).collect();
    report.threads = threads;
    report
}

fn frame(pc: u64) -> Frame {
    new!(Frame { pc, image: Some(0) })
}

fn thread(frames: usize, callers: u64) -> Thread {
    let chain = new!(AsyncChain {
        frame: 0,
        callers: (0..callers).map(|at| 0x1000 + at).collect(),
    });
    new!(Thread {
        frames: (0..frames as u64).map(|at| frame(0x1000 + at)).collect(),
        tasks: vec![chain; usize::from(callers > 0)],
    })
}

/// A chain for each frame.
fn chains(n: usize) -> Thread {
    let mut thread = thread(n, 0);
    let chain = |frame| {
        new!(AsyncChain {
            frame,
            callers: vec![0x1000]
        })
    };
    thread.tasks = (0..n as u64).rev().map(chain).collect();
    thread
}

fn samples(n: usize) -> Report {
    let mut report = crash(1, vec![thread(1, 0)]);
    report.event.get_or_insert_default().kind = EventKind::Stall;
    let sample = |at| {
        new!(Sample {
            count: 1,
            frames: vec![frame(0x1000 + at)],
        })
    };
    report.samples = (0..n as u64).map(sample).collect();
    report
}

fn app(marks: usize, breadcrumbs: usize, keys: usize) -> Report {
    let mut report = crash(1, vec![thread(1, 0)]);
    let at = |at: usize| Duration::from_millis(at as u64);
    report.context = Some(new!(AppContext {
        marks: (0..marks).map(|n| (format!("m{n}"), at(n), None)).collect(),
        breadcrumbs: (0..breadcrumbs).map(|n| (at(n), format!("b{n}"))).collect(),
        keys: (0..keys)
            .map(|n| (format!("k{n}"), Value::Text("v".into())))
            .collect(),
    }));
    report
}

/// The library with these sections, and a list of addresses to ask for.
fn library(folder: &Path, debug: &str, addresses: usize) {
    let shop = assembled(debug);
    std::fs::copy(shop.path("a.so"), folder.join("a.so")).unwrap();
    let main = shop.address("a.so", "main");
    let mut all = String::new();
    for at in 0..addresses as u64 {
        writeln!(all, "{:#x}", main + at % 64).unwrap();
    }
    std::fs::write(folder.join("addresses"), all).unwrap();
}

/// Functions of one byte each, each with two jumps to others; a stack has a frame in each.
fn jumps(folder: &Path, n: usize) {
    let function = |at: usize| {
        let [one, two] = [7, 13].map(|step| (at * step + 1) % n);
        format!(
            ".globl f{at}\n.type f{at},@function\nf{at}: call f{one}\njmp f{two}\njmp f{one}\n.size f{at},.-f{at}\n"
        )
    };
    let code: String = (0..n).map(function).collect();
    let shop = assembled(&format!(".text\n{code}"));
    std::fs::copy(shop.path("a.so"), folder.join("a.so")).unwrap();
    let bytes = std::fs::read(shop.path("a.so")).unwrap();
    let id = object::File::parse(&*bytes)
        .unwrap()
        .build_id()
        .unwrap()
        .unwrap()
        .to_vec();
    let first = shop.address("a.so", "f0");
    let size = (shop.address("a.so", "f1") - first) as usize;
    let mut report = crash(1, Vec::new());
    report.images[0] = new!(Image {
        name: "/x/a.so".into(),
        id,
        base: 0x10_0000,
        size: 0x100_0000
    });
    let pc = |at: usize| 0x10_0000 + first + ((at * 31 % n) * size + 5) as u64;
    // More frames than functions: all pairs are asked for.
    let frames = (0..20 * n).map(|at| frame(pc(at + at / n))).collect();
    report.threads = vec![new!(Thread { frames })];
    write(folder, &report);
}

/// A function without children: its name by this form, its address and its size.
fn function(code: u32, form: u32) -> String {
    format!(".uleb128 {code}, 0x2e\n.byte 0\n.uleb128 0x03, {form}, 0x11, 1, 0x12, 6, 0, 0\n")
}

/// Functions whose names are tails of one string.
fn tails(folder: &Path, n: usize) {
    let entry = |at| format!(".uleb128 2\n.long {at}\n.quad main + {at} % 64\n.long 1\n");
    let dies: String = (0..n).map(entry).collect();
    let strings = format!(
        "\n.section .debug_str,\"MS\",@progbits,1\n.asciz \"{}\"\n.text\n",
        "a".repeat(n * 20)
    );
    library(folder, &(unit(&function(2, 0x0e), &dies) + &strings), n);
}

/// Namespaces in each other, with a function in each.
fn nest(folder: &Path, n: usize) {
    let namespace = ".uleb128 3, 0x39\n.byte 1\n.uleb128 0x03, 8, 0, 0\n";
    let entry = |at| {
        format!(
            ".uleb128 3\n.asciz \"space{at}\"\n.uleb128 2\n.asciz \"f\"\n.quad main + {at} % 64\n.long 1\n"
        )
    };
    let dies: String = (0..n).map(entry).collect();
    let dies = dies + &".uleb128 0\n".repeat(n);
    library(folder, &unit(&(function(2, 8) + namespace), &dies), n);
}

fn units(folder: &Path, n: usize) {
    let mut text = format!(
        ".section .debug_abbrev,\"\",@progbits\n.uleb128 1, 0x11\n.byte 1\n.uleb128 0x11, 1, 0x12, 7, 0, 0\n{}.uleb128 0\n.section .debug_info,\"\",@progbits\n",
        function(2, 8)
    );
    for at in 0..n {
        let place = format!("main + {at} % 64");
        writeln!(
            text,
            ".long 2f - 1f\n1: .value 4\n.long 0\n.byte 8\n.uleb128 1\n.quad {place}\n.quad 1\n.uleb128 2\n.asciz \"f{at}\"\n.quad {place}\n.long 1\n.uleb128 0\n2:"
        )
        .unwrap();
    }
    library(folder, &text, n);
}

fn lines(folder: &Path, n: usize) {
    let mut text = ".text\n.file 1 \"a.c\"\n".to_owned();
    for line in 1..=n {
        writeln!(text, ".loc 1 {line}\nnop").unwrap();
    }
    library(folder, &(text + &unit("", "")), n);
}

/// A function in itself.
fn inlines(folder: &Path, n: usize) {
    let abbreviations = ".uleb128 2, 0x2e\n.byte 1\n.uleb128 0x03, 8, 0x11, 1, 0x12, 6, 0, 0
        .uleb128 3, 0x1d\n.byte 1\n.uleb128 0x31, 0x13, 0x11, 1, 0x12, 6, 0, 0
        .uleb128 4, 0x2e\n.byte 0\n.uleb128 0x03, 8, 0x20, 0x0b, 0, 0\n";
    let entry = |at| {
        format!(
            ".uleb128 3\n.long .Labstract - .Lunit\n.quad main + {at} % 64\n.long 64 - {at} % 64\n"
        )
    };
    let inlined: String = (0..n).map(entry).collect();
    let dies = format!(
        ".Labstract: .uleb128 4\n.asciz \"a\"\n.byte 1\n.uleb128 2\n.asciz \"f\"\n.quad main\n.long 64\n{inlined}{}",
        ".uleb128 0\n".repeat(n + 1)
    );
    library(folder, &unit(abbreviations, &dies), n);
}

fn abbreviations(folder: &Path, n: usize) {
    let all: String = (2..n as u32 + 2).map(|code| function(code, 8)).collect();
    let entry = |at| format!(".uleb128 {at}\n.asciz \"f\"\n.quad main + {at} % 64\n.long 1\n");
    let dies: String = (2..n + 2).map(entry).collect();
    library(folder, &unit(&all, &dies), n);
}
