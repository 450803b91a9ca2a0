//! ELF programs made by gcc on the spot, in each of the shapes that debug information comes in. What
//! is expected stands in the C source itself, as comments `// @name`, and in `nm`'s listing.

use std::path::{Path, PathBuf};
use std::process::Command;

use wedjat::new;
use wedjat::report::{Event, EventKind, Found, Frame, Image, Report, Signal, Thread};
use wedjat::symbolicate::{Addresses, DebugFiles, Symbolicator};

use crate::deadline::{most_memory, symbolicate};

const SOURCE: &str = r#"
#include <stdio.h>
volatile int sink;
static inline __attribute__((always_inline)) void inner(int n) {
    sink += n;
    __asm__ volatile("mark_inner: nop" ::: "memory"); // @inner
}
static inline __attribute__((always_inline)) void middle(int n) {
    inner(n * 2); // @middle
}
__attribute__((noinline)) void outer(int n) {
    middle(n + 1); // @outer
    sink++;
}
__attribute__((noinline)) static void hidden(int n) {
    sink = n;
    __asm__ volatile("mark_hidden: nop" ::: "memory"); // @hidden
}
int main(int argc, char **argv) {
    outer(argc); // @call_outer
    hidden(argc);
    return 0;
}
"#;

fn line_of(mark: &str) -> u32 {
    let at = SOURCE
        .lines()
        .position(|line| line.ends_with(&format!("// @{mark}")))
        .unwrap();
    at as u32 + 1
}

struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    /// Compiles the source with `flags` to `folder/program`.
    fn new(flags: &[&str]) -> Program {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.c"), SOURCE).unwrap();
        let program = Program { folder };
        let mut args = vec!["-O1", "-Wl,--build-id=sha1", "a.c", "-o", "program"];
        args.extend(flags);
        program.run("gcc", &args);
        program
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        let output = Command::new(program)
            .args(args)
            .current_dir(self.folder.path())
            .output();
        let output = output.unwrap_or_else(|e| panic!("{program} is needed for this test: {e}"));
        assert!(
            output.status.success(),
            "{program} {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// The address that `nm` gives for a symbol.
    fn address(&self, symbol: &str) -> u64 {
        let listing = self.run("nm", &["program"]);
        let line = listing
            .lines()
            .find(|line| line.ends_with(&format!(" {symbol}")))
            .unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    }

    /// The chain at the mark in `inner`, from the files in `paths` alone.
    fn chain(&self, paths: &[&str], address: u64) -> Vec<(String, u32, bool)> {
        let mut files = DebugFiles::new().no_search();
        for path in paths {
            files.add(&self.path(path)).unwrap();
        }
        let addresses = Addresses::new(&files, None, None).unwrap();
        let frames = addresses.frames(address);
        for frame in frames.iter().filter(|f| f.line.is_some()) {
            assert_eq!(
                Path::new(&*frame.file.clone().unwrap())
                    .file_name()
                    .unwrap(),
                "a.c"
            );
        }
        let name =
            |f: &wedjat::symbolicate::SourceFrame| f.function.as_deref().unwrap_or("").to_owned();
        frames
            .iter()
            .map(|f| (name(f), f.line.unwrap_or(0), f.inlined))
            .collect()
    }
}

fn truth() -> Vec<(String, u32, bool)> {
    vec![
        ("inner".into(), line_of("inner"), true),
        ("middle".into(), line_of("middle"), true),
        ("outer".into(), line_of("outer"), false),
    ]
}

#[track_caller]
fn assert_inlined_chain(flags: &[&str]) {
    let program = Program::new(flags);
    assert_eq!(
        program.chain(&["program"], program.address("mark_inner")),
        truth(),
        "{flags:?}"
    );
}

#[test]
fn every_version_of_dwarf() {
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
        assert_inlined_chain(&["-g", version]);
    }
}

#[test]
fn position_independent_or_not() {
    assert_inlined_chain(&["-g", "-no-pie"]);
    assert_inlined_chain(&["-g", "-pie", "-fPIE"]);
}

#[test]
fn compressed_debug_sections() {
    let program = Program::new(&["-g"]);
    let address = program.address("mark_inner");
    for kind in ["zlib", "zlib-gnu", "zstd"] {
        let flag = format!("--compress-debug-sections={kind}");
        program.run("objcopy", &[&flag, "program", kind]);
        let sections = program.run("readelf", &["-SW", kind]);
        assert!(
            sections.contains(".zdebug_info")
                || sections
                    .lines()
                    .any(|l| l.contains(".debug_info") && l.contains(" C "))
        );
        assert_eq!(program.chain(&[kind], address), truth(), "{kind}");
    }
}

#[test]
fn split_dwarf_in_dwo_files() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        assert_inlined_chain(&["-g", version, "-gsplit-dwarf"]);
    }
}

#[test]
fn split_dwarf_in_a_package() {
    let program = Program::new(&["-g", "-gdwarf-4", "-gsplit-dwarf"]);
    // The package alone must be enough: the .dwo files are gone.
    program.run("dwp", &["-e", "program", "-o", "program.dwp"]);
    for entry in std::fs::read_dir(program.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ext| ext == "dwo") {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(
        program.chain(&["program"], program.address("mark_inner")),
        truth()
    );
}

/// As after a rebuild: it is read once, however many addresses need it.
#[test]
fn split_dwarf_of_another_build_is_not_used() {
    let program = Program::new(&["-g", "-gdwarf-4", "-gsplit-dwarf"]);
    let files = std::fs::read_dir(program.folder.path()).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    let own = files.find(|path| path.extension().is_some_and(|ext| ext == "dwo"));
    let flags = ["-O0", "-g", "-gdwarf-4", "-gsplit-dwarf", "-c"];
    program.run("gcc", &[&flags[..], &["a.c", "-o", "other.o"]].concat());
    program.run("truncate", &["-s", "16M", "large"]);
    let large = ["--add-section", ".debug_loc.dwo=large", "other.dwo"];
    program.run("objcopy", &large);
    std::fs::rename(program.path("other.dwo"), own.unwrap()).unwrap();
    let path = program.path("program").display().to_string();
    let (outer, args) = (program.address("outer"), ["--no-cache", "--debug", &path]);
    let addresses = (outer..outer + 20).map(|address| format!("{address:#x}"));
    let addresses = ["--address".to_owned()].into_iter().chain(addresses);
    let ran = symbolicate(args.map(str::to_owned).into_iter().chain(addresses));
    let lines = ran.out.lines().filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 20, "{lines:?}");
    for line in lines {
        assert!(line.starts_with("outer (in program) + "), "{line}");
    }
    assert!(most_memory() < 700 << 20, "{} bytes", most_memory());
}

#[test]
fn a_stripped_program_beside_its_debug_file() {
    let program = Program::new(&["-g"]);
    let address = program.address("mark_inner");
    program.run(
        "objcopy",
        &["--only-keep-debug", "program", "program.debug"],
    );
    program.run("objcopy", &["--strip-all", "program", "stripped"]);
    assert_eq!(program.chain(&["program.debug"], address), truth());
    assert_eq!(
        program.chain(&["stripped", "program.debug"], address),
        truth()
    );
}

#[test]
fn a_debug_link_is_followed_from_the_images_own_path() {
    let program = Program::new(&["-g"]);
    let address = program.address("mark_inner");
    std::fs::create_dir(program.path(".debug")).unwrap();
    program.run(
        "objcopy",
        &["--only-keep-debug", "program", ".debug/linked"],
    );
    program.run(
        "objcopy",
        &[
            "--strip-all",
            "--add-gnu-debuglink=.debug/linked",
            "program",
            "stripped",
        ],
    );
    let report = report(
        &program.path("stripped"),
        id(&program),
        &[(address, Found::Context)],
    );
    let mut files = DebugFiles::new();
    files.add(&program.path("stripped")).unwrap();
    let result = Symbolicator::new(files).symbolicate(report);
    let frames = &result.threads[0].frames[0].frames;
    let chain: Vec<_> = frames
        .iter()
        .map(|f| (f.function.as_deref().unwrap(), f.line.unwrap()))
        .collect();
    assert_eq!(
        chain,
        [
            ("inner", line_of("inner")),
            ("middle", line_of("middle")),
            ("outer", line_of("outer"))
        ]
    );
    assert!(result.missing.is_empty());
}

/// Of a stripped program only the exported functions have names; none may lend its own to others.
#[test]
fn a_stripped_program_alone_names_what_it_exports_and_nothing_else() {
    let program = Program::new(&["-g", "-rdynamic"]);
    let (inner, hidden) = (
        program.address("mark_inner"),
        program.address("mark_hidden"),
    );
    program.run("objcopy", &["--strip-all", "program", "stripped"]);
    assert_eq!(
        program.chain(&["stripped"], inner),
        [("outer".into(), 0, false)]
    );
    assert_eq!(program.chain(&["stripped"], hidden), []);
}

#[test]
fn symbols_alone_name_functions_to_their_ends() {
    let program = Program::new(&[]);
    assert_eq!(
        program.chain(&["program"], program.address("mark_inner")),
        [("outer".into(), 0, false)]
    );
    assert_eq!(
        program.chain(&["program"], program.address("mark_hidden")),
        [("hidden".into(), 0, false)]
    );
    let (main, size) = {
        let listing = program.run("nm", &["-S", "program"]);
        let line = listing
            .lines()
            .find(|line| line.ends_with(" T main"))
            .unwrap()
            .to_owned();
        let mut words = line
            .split(' ')
            .map(|word| u64::from_str_radix(word, 16).unwrap_or(0));
        (words.next().unwrap(), words.next().unwrap())
    };
    assert_eq!(program.chain(&["program"], main + size - 1)[0].0, "main");
    let behind = program.chain(&["program"], main + size);
    assert!(behind.is_empty() || behind[0].0 != "main", "{behind:?}");
}

/// The offset of an image in memory in the tests below.
const SLIDE: u64 = 0x5555_0000_0000;

fn id(program: &Program) -> Vec<u8> {
    let notes = program.run("readelf", &["-n", "program"]);
    let line = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "))
        .unwrap()
        .to_owned();
    (0..line.len() / 2)
        .map(|i| u8::from_str_radix(&line[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// A report of one thread with frames at these stated addresses.
fn report(path: &Path, id: Vec<u8>, frames: &[(u64, Found)]) -> Report {
    let mut report = Report::default();
    report.head.arch = "x86_64".into();
    let size = std::fs::metadata(path).unwrap().len() + 0x10000;
    report.images.push(new!(Image {
        name: path.display().to_string(),
        id,
        base: SLIDE,
        size,
    }));
    let frames = frames.iter().map(|&(svma, found)| {
        let image = (svma != 0).then_some(0);
        new!(Frame {
            pc: if svma == 0 { 0 } else { SLIDE + svma },
            found,
            image,
        })
    });
    report.threads.push(new!(Thread {
        main: true,
        crashed: true,
        frames: frames.collect(),
    }));
    report
}

/// The return address of the call of `outer` in `main`, by the disassembly.
fn return_address(program: &Program) -> u64 {
    let listing = program.run("objdump", &["-d", "--no-show-raw-insn", "program"]);
    let mut lines = listing
        .lines()
        .skip_while(|line| !line.ends_with("<main>:"));
    lines
        .find(|line| line.contains("call") && line.contains("<outer>"))
        .unwrap();
    let next = lines.next().unwrap();
    u64::from_str_radix(next.trim().split(':').next().unwrap(), 16).unwrap()
}

#[test]
fn a_jump_to_nowhere_is_a_bare_address_and_its_caller_is_right() {
    let program = Program::new(&["-g"]);
    let frames = [
        (0, Found::Context),
        (return_address(&program), Found::LeafReturnAddress),
    ];
    let mut report = report(&program.path("program"), id(&program), &frames);
    report.event = Some(new!(Event {
        kind: EventKind::Crash,
        fatal: true,
        signal: Some(new!(Signal {
            number: 11,
            name: "SIGSEGV".into(),
        })),
    }));
    let mut files = DebugFiles::new();
    files.add(&program.path("program")).unwrap();
    let result = Symbolicator::new(files).symbolicate(report);
    let [nowhere, caller] = &result.threads[0].frames[..] else {
        panic!("two frames")
    };
    assert!(nowhere.frames.is_empty() && nowhere.image.is_none());
    let frame = &caller.frames[0];
    assert_eq!(
        (frame.function.as_deref(), frame.line),
        (Some("main"), Some(line_of("call_outer")))
    );
}

#[test]
fn a_debug_file_of_another_build_is_not_used_and_reported_as_such() {
    let program = Program::new(&["-g"]);
    let address = program.address("mark_inner");
    let mut other = id(&program);
    other[0] ^= 1;
    let mut files = DebugFiles::new().no_search();
    files.add(&program.path("program")).unwrap();
    let report = report(
        &program.path("program"),
        other.clone(),
        &[(address, Found::Context)],
    );
    let result = Symbolicator::new(files).symbolicate(report);
    assert!(result.threads[0].frames[0].frames.is_empty());
    assert_eq!(result.missing.len(), 1);
    assert_eq!(result.missing[0].id, other);
    assert_eq!(result.missing[0].others, [id(&program)]);
}

/// A SymCache has 32 bits for an address: such a file is answered without one.
#[test]
fn code_more_than_4_gib_apart_has_its_own_names() {
    let program = Program::new(&[]);
    let at = |name: &str| program.path(name);
    let near = "int near_one(int x) { return x * 3; }\nint near_two(int x) { return x / 3; }\n";
    std::fs::write(at("near.c"), near).unwrap();
    let far = ".section .far,\"ax\"\n.globl far\n.type far,%function\nfar: .skip 64\n.size far,64\n\
               .section .note.GNU-stack,\"\"\n";
    std::fs::write(at("far.s"), far).unwrap();
    let script = "PHDRS { a PT_LOAD; b PT_LOAD; n PT_NOTE; } SECTIONS {
        . = 0x10000; .note.gnu.build-id : { *(.note.gnu.build-id) } :a :n
        . = 0x11000; .text : { *(.text*) } :a  /DISCARD/ : { *(.eh_frame*) }
        . = 0x100011002; .far : { *(.far) } :b }";
    std::fs::write(at("far.ld"), script).unwrap();
    program.run("gcc", &["-g", "-O1", "-c", "near.c"]);
    program.run("gcc", &["-c", "far.s"]);
    let link = [
        "-T",
        "far.ld",
        "--build-id",
        "near.o",
        "far.o",
        "-e",
        "near_one",
    ];
    program.run("ld", &[&link[..], &["-o", "far"]].concat());
    // After some answers, a table would be made on a second thread.
    let mut files = DebugFiles::new().no_search();
    files.add(&at("far")).unwrap();
    let addresses = Addresses::new(&files, None, None).unwrap();
    let name = |address| {
        let frames = addresses.frames(address);
        frames.last().and_then(|frame| frame.function.clone())
    };
    for address in 0x1_0001_1002..0x1_0001_1032 {
        assert_eq!(name(address).as_deref(), Some("far"), "{address:#x}");
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    for address in 0x1_0001_1032..0x1_0001_1042 {
        assert_eq!(name(address).as_deref(), Some("far"), "{address:#x}");
    }
    assert_eq!(name(0x11002).as_deref(), Some("near_one"));
}

/// What compilers add to a name (`.constprop.0`, `.cold`) stays as the symbol table has it: with debug information and without,
/// from the table and without one.
#[test]
fn names_keep_what_compilers_add_to_them() {
    const CLONES: &str = r#"
        #include <stdlib.h>
        namespace till { static __attribute__((noinline)) int pay(int a, int *b, int k) {
            volatile int s = 0;
            for (int i = 0; i < a; i++) s += *b * k;
            if (a == 77) abort();
            return s;
        } }
        extern "C" __attribute__((noinline)) int plain(int a) { return a * 3; }
        int main(int c, char **v) {
            int x = c;
            return till::pay(c * 7, &x, 3) + till::pay(c + 2, &x, 3) + plain(c);
        }
    "#;
    let folder = tempfile::tempdir().unwrap();
    let c = CLONES.replace("namespace till {", "").replace("} }", "}");
    let c = c.replace("extern \"C\"", "").replace("till::", "");
    std::fs::write(folder.path().join("a.cpp"), CLONES).unwrap();
    std::fs::write(folder.path().join("a.c"), c).unwrap();
    let external = CLONES.replace("static __attribute__", "__attribute__");
    std::fs::write(folder.path().join("b.cpp"), external).unwrap();
    let program = Program { folder };
    let mangled = "till::pay(int, int*, int)";
    for (compiler, source, scope, pay) in [
        ("gcc", "a.c", "-fno-whole-program", "pay"),
        ("g++", "a.cpp", "-fno-whole-program", mangled),
        // The debug information has the linkage name, which is not that of the clone.
        ("g++", "b.cpp", "-fwhole-program", mangled),
    ] {
        for flags in [&["-g"][..], &["-g1"], &[]] {
            let args = [&["-O2", scope, source, "-o", "program"], flags].concat();
            program.run(compiler, &args);
            let listing = program.run("nm", &["program"]);
            let clones = listing.lines().filter(|line| line.contains(".constprop.0"));
            let clones: Vec<(u64, &str)> = clones
                .map(|line| {
                    let address = u64::from_str_radix(&line[..16], 16).unwrap();
                    let marks = &line[line.find(".constprop").unwrap()..];
                    (address, marks)
                })
                .collect();
            assert_eq!(clones.len(), 2, "{listing}");
            let file = program.path("program");
            let cache = program.path("cache");
            for _ in 0..2 {
                for (address, marks) in &clones {
                    let name = match pay {
                        "pay" => format!("pay{marks}"),
                        pay => format!("{pay} ({marks})"),
                    };
                    // Of so many addresses a table is made.
                    for count in [1, 5000] {
                        let input = program.path("input");
                        std::fs::write(&input, format!("{address:#x}\n").repeat(count)).unwrap();
                        let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
                        command.args(["--format", "ndjson", "--cache"]).arg(&cache);
                        command.arg("--debug").arg(&file).args(["--address", "-"]);
                        let out = command.stdin(std::fs::File::open(&input).unwrap()).output();
                        let out = String::from_utf8(out.unwrap().stdout).unwrap();
                        assert_eq!(out.lines().count(), count);
                        let named = format!("\"function\":\"{name}\"");
                        assert_eq!(
                            out.matches(&named).count(),
                            count,
                            "{flags:?}: {name}: {out:.300}"
                        );
                    }
                }
            }
        }
    }
}

/// Addresses of a program without debug information are named by the file that its link means, with a build id and without, as
/// reports are.
#[test]
fn an_address_is_named_by_the_debug_file_that_the_program_links_to() {
    for id in ["sha1", "none"] {
        let program = Program::new(&["-g", &format!("-Wl,--build-id={id}")]);
        let mark = program.address("mark_hidden");
        program.run("objcopy", &["--only-keep-debug", "program", "p.debug"]);
        for strip in ["-g", "-s"] {
            program.run("strip", &[strip, "program"]);
            let _ = Command::new("objcopy")
                .args(["--remove-section=.gnu_debuglink", "program"])
                .current_dir(program.path(""))
                .status();
            program.run("objcopy", &["--add-gnu-debuglink=p.debug", "program"]);
            std::fs::create_dir_all(program.path(".debug")).unwrap();
            for place in ["p.debug", ".debug/p.debug"] {
                if place.starts_with('.') {
                    std::fs::rename(program.path("p.debug"), program.path(place)).unwrap();
                }
                let mut files = DebugFiles::new();
                assert_eq!(files.add(&program.path("program")).unwrap().objects, 1);
                let addresses = Addresses::new(&files, None, None).unwrap();
                let frames = addresses.frames(mark);
                assert_eq!(
                    frames[0].function.as_deref(),
                    Some("hidden"),
                    "{id} {place}"
                );
                assert_eq!(frames[0].line, Some(line_of("hidden")), "{id} {place}");
            }
            std::fs::rename(program.path(".debug/p.debug"), program.path("p.debug")).unwrap();
        }
    }
}
