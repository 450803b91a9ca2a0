//! Code in all the shapes that compilers and linkers leave it in. What is true stands in the sources
//! made here, or is the word of `llvm-symbolizer`, `nm` and `readelf`.

use std::process::Command;

use crate::support::symbolicate::{Workshop, chains, crash, line_of};
use wedjat::new;
use wedjat::report::{End, Found};
use wedjat::symbolicate::group::normalised;
use wedjat::symbolicate::{DebugFiles, Source, Symbolicator};

/// Functions of C that the linker folded: debug information has both names, a symbol table alone says no more than of aliases.
/// What is inlined into them may be either's, too.
#[test]
fn a_folded_function_of_c_has_all_names() {
    let source = "volatile int sink;
static inline __attribute__((always_inline)) void first(int n) { sink = n; __asm__ volatile(\"nop\"); }
static inline __attribute__((always_inline)) void second(int n) { sink = n; __asm__ volatile(\"nop\"); }
int alpha(int n) { first(n); return n * 3; } // @alpha
int other(int n) { sink = n; return n * 5; }
int beta(int n) { second(n); return n * 3; } // @beta
int (*volatile table[])(int) = {alpha, beta, other};
int main(int argc, char **argv) { return table[argc](argc); }
";
    let shop = Workshop::new(&[("a.c", source)]);
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let flags = "-O1 -ffunction-sections -fuse-ld=gold -Wl,--icf=all,--build-id";
        shop.run(&format!("gcc -g {version} {flags} a.c -o program"));
        let (alpha, beta) = (
            shop.address("program", "alpha"),
            shop.address("program", "beta"),
        );
        assert_eq!(alpha, beta, "the linker folded them");
        let ours = shop.chain(&["program"], alpha);
        let name = ours.last().unwrap().split(':').next();
        assert_eq!(name, Some("merged alpha, beta"), "{version}: {ours:?}");
        let frames = [
            (alpha, Found::Context),
            (shop.address("program", "main") + 1, Found::UnwindInfo),
        ];
        let mut files = DebugFiles::new().no_search();
        files.add(&shop.path("program")).unwrap();
        let report = crash(shop.report("program", &frames), "SIGSEGV");
        let found = Symbolicator::new(files).symbolicate(report);
        assert_eq!(*normalised(&found)[0], *"main", "{version}: {ours:?}");
        shop.run("objcopy --strip-debug program symbols");
        let ours = shop.chain(&["symbols"], alpha);
        assert!(ours == ["alpha:0"] || ours == ["beta:0"], "{ours:?}");
    }
}

/// Functions of equal code that a linker or compiler made one: no one knows which of them ran.
#[test]
fn merged_code_has_all_names_and_is_neither_blamed_nor_in_keys() {
    let cpp = "volatile int sink;
namespace till {
__attribute__((noinline)) int draw(int n) { sink = n; return n * 3; }
__attribute__((noinline)) int load(int n) { sink = n; return n * 3; }
struct Cart { int n; __attribute__((noinline)) Cart(int m) : n(m) { sink = m; } };
}
int main(int argc, char **argv) { till::Cart cart(argc); return till::draw(argc) + till::load(argc + 1) + cart.n; }
";
    let library = "use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
static SINK: AtomicU64 = AtomicU64::new(0);
#[inline(never)] pub fn draw(n: u64) -> u64 { SINK.store(n, SeqCst); SINK.load(SeqCst).wrapping_mul(31).rotate_left(7) ^ n }
#[inline(never)] pub fn load(n: u64) -> u64 { SINK.store(n, SeqCst); SINK.load(SeqCst).wrapping_mul(31).rotate_left(7) ^ n }
";
    let rust = "fn main() { let n = std::env::args().count() as u64; println!(\"{}\", till::draw(n) + till::load(n + 1)); }";
    let files = [("a.cc", cpp), ("till.rs", library), ("a.rs", rust)];
    let shop = Workshop::new(&files);
    shop.run("g++ -g -O1 -ffunction-sections -fuse-ld=gold -Wl,--icf=all a.cc -o linked");
    shop.run("rustc -O -g --crate-type rlib -C symbol-mangling-version=v0 till.rs");
    shop.run("rustc -O -g -C link-arg=-Wl,--build-id a.rs --extern till=libtill.rlib -o compiled");
    for program in ["linked", "compiled"] {
        let listing = shop.run(&format!("nm {program}"));
        let of = |part: &str| {
            let line = listing.lines().find(|line| line.contains(part)).unwrap();
            let (address, symbol) = (&line[..16], &line[19..]);
            (u64::from_str_radix(address, 16).unwrap(), symbol)
        };
        let ((draw, _), (load, _)) = (of("4till4draw"), of("4till4load"));
        assert_eq!(draw, load, "{program}: {listing}");
        shop.run(&format!("objcopy --strip-debug {program} symbols"));
        let expected = "merged till::draw, till::load";
        for file in [program, "symbols"] {
            let ours = shop.chain(&[file], draw);
            assert!(ours.last().unwrap().starts_with(expected), "{ours:?}");
        }
        let main = of(" main").0 + 1;
        let frames = [(draw, Found::Context), (main, Found::UnwindInfo)];
        let mut files = DebugFiles::new().no_search();
        files.add(&shop.path(program)).unwrap();
        let report = crash(shop.report(program, &frames), "SIGSEGV");
        let found = Symbolicator::new(files).symbolicate(report);
        assert_eq!(*normalised(&found)[0], *"main", "{program}");
    }
    let constructor = shop.address("linked", "_ZN4till4CartC1Ei");
    let ours = shop.chain(&["linked"], constructor);
    assert!(ours[0].starts_with("till::Cart::Cart(int):"), "{ours:?}");
}

/// Reproducible builds map the folder they were made in to a relative one.
#[test]
fn a_relative_compilation_folder_stands_in_paths_once() {
    let source = "int answer(int n) { return n * 3; }
int main(int argc, char **argv) { return answer(argc); }
";
    let shop = Workshop::new(&[("a.c", source)]);
    let here = shop.path("").canonicalize().unwrap();
    let here = here.display();
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        shop.run(&format!(
            "gcc -g {version} -O1 -fdebug-prefix-map={here}=./src a.c -o program"
        ));
        let at = shop.address("program", "answer");
        let symbolicator = shop.symbolicator(&["program"]);
        let frames = symbolicator.frames(at);
        let file = frames.first().and_then(|frame| frame.file.clone());
        assert_eq!(file.as_deref(), Some("./src/a.c"), "{version}");
    }
}

/// All sections of an object file begin at address 0: nothing shows which of them is meant.
#[test]
fn an_object_file_names_nothing() {
    let source = "volatile int sink; int alpha(int n) { sink = n; return n * 3; }";
    let shop = Workshop::new(&[("a.c", source)]);
    shop.run("gcc -g -O1 -c a.c -o a.o");
    let mut files = DebugFiles::new().no_search();
    assert_eq!(files.add(&shop.path("a.o")).unwrap().objects, 0);
}

/// Bitcode builds replaced names in the debug information by numbers: the linker's symbol is the better
/// name, and where that was replaced, too, none.
#[test]
fn a_number_in_place_of_a_name_is_no_name() {
    let source = "volatile int sink;
__attribute__((noinline)) int known_to_the_linker(int n) { sink = n; return n; }
int main(int argc, char **argv) { return known_to_the_linker(argc); }
";
    let shop = Workshop::new(&[("a.c", source)]);
    shop.run("gcc -g -O1 -S a.c -o plain.s");
    let plain = std::fs::read_to_string(shop.path("plain.s")).unwrap();
    let name = "\"known_to_the_linker\"";
    assert!(plain.contains(name));
    let hidden = plain.replace(name, "\"__hidden#12_\"");
    std::fs::write(shop.path("hidden.s"), hidden).unwrap();
    shop.run("gcc hidden.s -o program");
    let at = shop.address("program", "known_to_the_linker");
    assert_eq!(shop.chain(&["program"], at), ["known_to_the_linker:2"]);
    let flags = "--redefine-sym known_to_the_linker=__hidden#13_";
    shop.run(&format!("objcopy {flags} program obscure"));
    assert_eq!(shop.chain(&["obscure"], at), ["?:2"]);
    // With symbols alone, nothing is left.
    shop.run("objcopy --strip-debug obscure symbols");
    assert!(shop.chain(&["symbols"], at).is_empty());
}

/// A second symbol at a function's entry does not take its name away.
#[test]
fn an_alias_does_not_win_over_the_debug_information() {
    let source = "volatile int sink;
__attribute__((noinline)) int original(int n) {
    sink = n; return n; // @inside
}
int aaa_alias(int) __attribute__((alias(\"original\")));
int zzz_alias(int) __attribute__((alias(\"original\")));
int main(int argc, char **argv) { return aaa_alias(argc) + zzz_alias(argc); }
";
    let shop = Workshop::new(&[("a.c", source)]);
    shop.run("gcc -g -O1 a.c -o program");
    let entry = shop.address("program", "original");
    assert_eq!(entry, shop.address("program", "zzz_alias"));
    let name = shop.chain(&["program"], entry)[0]
        .split(':')
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(name, "original");
}

/// Code between functions has no name, and a symbol without a size ends where its frame description
/// does.
const ASSEMBLY: &str = r#"
    .text
    .file 1 "hand.s"
    .globl described
described:
    .cfi_startproc
    nop
in_described:
    nop
    ret
    .cfi_endproc
nameless_gap:
    nop
    ret
    .globl "-[Shop price:]"
    .type "-[Shop price:]", @function
"-[Shop price:]":
    .cfi_startproc
    nop
    ret
    .cfi_endproc
    .size "-[Shop price:]", .-"-[Shop price:]"
    .globl "$s4main3fooyyF"
    .type "$s4main3fooyyF", @function
"$s4main3fooyyF":
    nop
    ret
    .size "$s4main3fooyyF", .-"$s4main3fooyyF"
    .globl OUTLINED_FUNCTION_0
    .type OUTLINED_FUNCTION_0, @function
OUTLINED_FUNCTION_0:
    nop
    ret
    .size OUTLINED_FUNCTION_0, .-OUTLINED_FUNCTION_0
after_the_last:
    nop
    nop
    .section .note.GNU-stack,"",@progbits
"#;

#[test]
fn a_stripped_library_names_its_exports_to_their_ends() {
    let shop = Workshop::new(&[("hand.s", ASSEMBLY)]);
    shop.run("gcc -shared -nostdlib -Wl,--build-id=sha1 hand.s -o full.so");
    let at = |name: &str| shop.address("full.so", name);
    let marks = [
        at("in_described"),
        at("nameless_gap"),
        at("after_the_last") + 1,
    ];
    let objective_c = {
        let listing = shop.run("nm full.so");
        let line = listing
            .lines()
            .find(|line| line.ends_with(" -[Shop price:]"))
            .unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    let (swift, outlined) = (at("$s4main3fooyyF"), at("OUTLINED_FUNCTION_0"));
    shop.run("objcopy --strip-all full.so stripped.so");
    // The symbol without a size is held to its frame description, as readelf shows it.
    let frames = shop.run("readelf --debug-dump=frames stripped.so");
    let range = format!("pc={:016x}..{:016x}", at("described"), marks[1]);
    assert!(frames.contains(&range), "{range} in {frames}");
    let symbolicator = shop.symbolicator(&["stripped.so"]);
    let name = |address: u64| {
        symbolicator
            .frames(address)
            .first()
            .map(|f| (f.function.clone().unwrap().to_string(), f.source))
    };
    let symbol = |text: &str| Some((text.to_owned(), Source::Symbols));
    assert_eq!(name(marks[0]), symbol("described"));
    assert_eq!(name(marks[1]), None, "behind its frame description");
    assert_eq!(name(marks[2]), None, "behind the last symbol's end");
    assert_eq!(name(objective_c + 1), symbol("-[Shop price:]"));
    assert_eq!(name(swift), symbol("foo()"));
    assert_eq!(
        &**symbolicator.frames(swift)[0].mangled.as_ref().unwrap(),
        "$s4main3fooyyF"
    );
    assert_eq!(name(outlined), symbol("OUTLINED_FUNCTION_0"));
}

#[test]
fn stubs_data_and_headers_have_no_name() {
    let source = "#include <stdio.h>
#include <stdlib.h>
int table[64] = {1};
const char text[] = \"constants\";
int main(int argc, char **argv) { puts(argv[0]); free(malloc(argc)); return table[argc]; }
";
    let shop = Workshop::new(&[("a.c", source)]);
    shop.run("gcc -g -O1 -fno-plt -Wl,-z,lazy a.c -o without");
    shop.run("gcc -g -O1 -fplt -Wl,-z,lazy a.c -o program");
    for file in ["program", "without"] {
        let symbolicator = shop.symbolicator(&[file]);
        let nothing = |start: u64, size: u64| {
            for address in start..start + size {
                let frames = symbolicator.frames(address);
                assert!(frames.is_empty(), "{file} {address:#x}: {frames:?}");
            }
        };
        nothing(0, 0x100); // the ELF header
        for section in [".plt", ".rodata", ".data", ".eh_frame", ".dynamic"] {
            if section != ".plt" || file == "program" {
                let (start, size) = shop.section(file, section);
                nothing(start, size.min(0x400));
            }
        }
        let (start, size) = shop.section(file, ".fini");
        nothing(start + size, 64);
    }
}

/// `int3` and a system call that seccomp forbids leave the program counter behind themselves; any
/// other fault, a frame that a signal interrupted, and return addresses go by their own rules.
#[test]
fn which_address_of_a_frame_is_looked_up() {
    let source = "volatile int sink;
__attribute__((noinline)) void trap(int n) {
    __asm__ volatile(\"trap_at: int3\" ::: \"memory\"); // @trap
    __asm__ volatile(\"behind: nop\" ::: \"memory\"); // @behind
    sink = n;
}
int main(int argc, char **argv) { trap(argc); return 0; }
";
    let shop = Workshop::new(&[("a.c", source)]);
    shop.run("gcc -g -O1 -Wl,--build-id=sha1 a.c -o program");
    let (at, behind) = (
        shop.address("program", "trap_at"),
        shop.address("program", "behind"),
    );
    assert_eq!(at + 1, behind);
    let (trap, next) = (
        format!("trap:{}", line_of(source, "trap")),
        format!("trap:{}", line_of(source, "behind")),
    );
    let files = || {
        let mut files = DebugFiles::new().no_search();
        files.add(&shop.path("program")).unwrap();
        files
    };
    let looked_up = |signal: &str, frames: &[(u64, Found)]| -> Vec<String> {
        let report = crash(shop.report("program", frames), signal);
        chains(files(), report)
            .into_iter()
            .map(|chain| chain[0].clone())
            .collect()
    };
    for signal in ["SIGTRAP", "SIGSYS"] {
        assert_eq!(
            looked_up(signal, &[(behind, Found::Context)])[0],
            trap,
            "{signal}"
        );
    }
    for signal in ["SIGSEGV", "SIGABRT", "SIGILL"] {
        assert_eq!(
            looked_up(signal, &[(behind, Found::Context)])[0],
            next,
            "{signal}"
        );
    }
    let called = [
        (behind, Found::Context),
        (behind, Found::UnwindInfo),
        (behind, Found::FramePointer),
    ];
    assert_eq!(
        looked_up("SIGSEGV", &called),
        [next.clone(), trap.clone(), trap.clone()]
    );
    // A handler's frame, the trampoline's first instruction, the interrupted frame, its caller.
    let interrupted = [
        (behind, Found::UnwindInfo),
        (behind, Found::UnwindInfo),
        (behind, Found::Context),
        (behind, Found::UnwindInfo),
    ];
    assert_eq!(
        looked_up("SIGSEGV", &interrupted),
        [trap.clone(), next.clone(), next, trap]
    );
}

/// A package of split DWARF 5, with the `.dwo` files gone. Debian's dwp and llvm-dwp both fail on what
/// gcc 12 writes, so the index of the package is made here, from the standard (section 7.3.5.3).
#[test]
fn split_dwarf_5_in_a_package() {
    let source = "volatile int sink;
static inline __attribute__((always_inline)) void inner(int n) {
    sink += n;
    __asm__ volatile(\"mark: nop\" ::: \"memory\"); // @inner
}
int main(int argc, char **argv) {
    inner(argc); // @main
    return 0;
}
";
    let shop = Workshop::new(&[("a.c", source)]);
    shop.run("gcc -g -gdwarf-5 -gsplit-dwarf -O1 -Wl,--build-id=sha1 a.c -o program");
    let mark = shop.address("program", "mark");
    let truth = [
        format!("inner:{}", line_of(source, "inner")),
        format!("main:{}", line_of(source, "main")),
    ];
    assert_eq!(shop.chain(&["program"], mark), truth);
    let info = shop.run("readelf --debug-dump=info program");
    let id = info
        .lines()
        .find_map(|line| line.trim().strip_prefix("DWO ID:"))
        .unwrap();
    let id = u64::from_str_radix(id.trim().trim_start_matches("0x"), 16).unwrap();
    // Version, columns, units, slots; a hash table of two slots; ids of the sections, offsets, sizes.
    let sections = [
        (1u32, ".debug_info.dwo"),
        (3, ".debug_abbrev.dwo"),
        (4, ".debug_line.dwo"),
        (6, ".debug_str_offsets.dwo"),
    ];
    let mut index: Vec<u8> = Vec::new();
    let mut words = |words: &[u32]| {
        words
            .iter()
            .for_each(|word| index.extend(word.to_le_bytes()))
    };
    words(&[5, sections.len() as u32, 1, 2]);
    let slot = (id & 1) as usize;
    let mut table = [0u64; 2];
    table[slot] = id;
    for id in table {
        words(&[id as u32, (id >> 32) as u32]);
    }
    words(&[u32::from(slot == 0), u32::from(slot == 1)]);
    words(&sections.map(|(id, _)| id));
    words(&[0; 4]);
    words(&sections.map(|(_, name)| shop.section("program-a.dwo", name).1 as u32));
    std::fs::write(shop.path("index"), index).unwrap();
    shop.run("objcopy --add-section .debug_cu_index=index program-a.dwo program.dwp");
    std::fs::remove_file(shop.path("program-a.dwo")).unwrap();
    assert_eq!(shop.chain(&["program"], mark), truth);
    assert_eq!(strict(&shop, mark), (Some(0), false));
    // Without the package the skeleton has lines, but not whose they are: that of the inlined function
    // must not be given for one of `main`.
    std::fs::remove_file(shop.path("program.dwp")).unwrap();
    assert_eq!(shop.chain(&["program"], mark), ["main:0"]);
    assert_eq!(strict(&shop, mark), (Some(1), true));
}

/// Damage after the unit of a `.dwo` file costs nothing of it; of a damaged unit nothing is read, and that is said.
#[test]
fn a_dwo_file_that_is_not_sound_is_said() {
    let source = "int f(int n) { return n + 1; }\nint main(int c, char **v) { return f(c); }\n";
    let shop = Workshop::new(&[("a.c", source)]);
    shop.run("gcc -g -gdwarf-4 -gsplit-dwarf -Wl,--build-id=sha1 a.c -o program");
    let main = shop.address("program", "main");
    assert_eq!(strict(&shop, main), (Some(0), false));
    let dwo = "program-a.dwo";
    shop.run(&format!(
        "objcopy --dump-section .debug_info.dwo=info {dwo}"
    ));
    let mut info = std::fs::read(shop.path("info")).unwrap();
    let update = |info: &[u8]| {
        std::fs::write(shop.path("info"), info).unwrap();
        shop.run(&format!(
            "objcopy --update-section .debug_info.dwo=info {dwo}"
        ));
    };
    info.extend([8, 0, 0, 0, 99, 0, 0, 0, 0, 0, 8, 0]);
    update(&info);
    assert_eq!(shop.chain(&["program"], main), ["main:2"]);
    assert_eq!(strict(&shop, main), (Some(0), false));
    // The version in the unit's header.
    info[4] = 99;
    update(&info);
    assert_eq!(shop.chain(&["program"], main), ["main:0"]);
    assert_eq!(strict(&shop, main), (Some(1), true));
}

/// What `--strict` ends with over a report of one frame in `program`, and whether a `.dwp` is reported as missing.
fn strict(shop: &Workshop, mark: u64) -> (Option<i32>, bool) {
    let mut report = crash(shop.report("program", &[(mark, Found::Context)]), "SIGSEGV");
    report.end = Some(new!(End {
        closed_by: "writer".into(),
    }));
    std::fs::write(shop.path("a.wedjat"), wedjat::report::to_bytes(&report)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .args(["--no-cache", "--strict", "--debug"])
        .args([shop.path("program"), shop.path("a.wedjat")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    (output.status.code(), text.contains(".dwp"))
}
