//! What `symbolicate` says beside LLVM's own tool, and of files that `dwz` has been at.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use wedjat::report::{self, EventKind, Found};
use wedjat::symbolicate::{Addresses, DebugFiles};

use crate::support::symbolicate::{Workshop, chains, line_of};
use crate::tools::{DWZ, LLD, LLVM_SYMBOLIZER, Tests};

pub fn add(tests: Tests) -> Tests {
    tests
        .add(
            "the_cold_part_of_a_function_is_named_after_it",
            LLVM_SYMBOLIZER,
            the_cold_part_of_a_function_is_named_after_it,
        )
        .add(
            "every_address_of_a_program_as_llvm_symbolizer_has_it",
            LLVM_SYMBOLIZER,
            every_address_of_a_program_as_llvm_symbolizer_has_it,
        )
        .add(
            "debug_information_that_dwz_shared",
            DWZ,
            debug_information_that_dwz_shared,
        )
        .add(
            "a_dwz_file_that_is_missing_is_said_and_leaves_no_table",
            DWZ,
            a_dwz_file_that_is_missing_is_said_and_leaves_no_table,
        )
        .add(
            "debug_information_that_dwz_shared_within_one_program",
            DWZ,
            debug_information_that_dwz_shared_within_one_program,
        )
        .add(
            "functions_that_lld_folded_have_name_and_lines_of_one",
            LLD,
            functions_that_lld_folded_have_name_and_lines_of_one,
        )
}

/// The unlikely half of a function lies far from it, under its name with `.cold` and with its own lines.
fn the_cold_part_of_a_function_is_named_after_it() {
    let source = "#include <stdexcept>
volatile int sink;
__attribute__((noinline)) int work(int n) {
    for (int i = 0; i < n; i++) sink += i;
    if (n > 1000) {
        sink = 1;
        throw std::runtime_error(\"too many\");
    }
    return n + sink;
}
int main(int argc, char **argv) { return work(argc); }
";
    let shop = Workshop::new(&[("a.cpp", source)]);
    shop.run("g++ -g -O2 a.cpp -o program");
    let cold = shop.address("program", "_Z4worki.cold");
    let work = shop.address("program", "_Z4worki");
    assert!(cold.abs_diff(work) > 0x80);
    let addresses: Vec<u64> = (cold..cold + 0x30).collect();
    let symbolicator = shop.symbolicator(&["program"]);
    for (address, theirs) in addresses
        .iter()
        .zip(llvm_symbolizer(&shop, "program", &addresses))
    {
        let ours = lines(&symbolicator.frames(*address));
        assert!(
            same_but_for_the_symbol(&ours, &theirs),
            "{ours:?} {theirs:?}"
        );
        assert!(
            ours.last().unwrap().starts_with("_Z4worki.cold a.cpp:"),
            "{ours:?}"
        );
    }
    // With symbols alone, as the linker has it.
    shop.run("objcopy --strip-debug program symbols");
    assert_eq!(shop.chain(&["symbols"], cold), ["work(int) (.cold):0"]);
}

/// What `dwz` moves into a file that two programs share is read from there, wherever the link leads.
fn debug_information_that_dwz_shared() {
    let shop = Workshop::new(&[
        ("a.cpp", SHARED),
        ("b.cpp", &format!("int other;\n{SHARED}")),
    ]);
    for name in ["a", "b"] {
        shop.run(&format!(
            "g++ -g -O1 -gdwarf-4 -Wl,--build-id=sha1 {name}.cpp -o {name}"
        ));
    }
    let truth: Vec<Vec<String>> = ["a", "b"]
        .map(|name| shop.chain(&[name], shop.address(name, "mark")))
        .into();
    assert_eq!(
        truth[0],
        [
            format!("Ledger::add(long):{}", line_of(SHARED, "mark")),
            "main:0".into()
        ]
        .map(|s| {
            // the call's line, where main inlined it
            if s == "main:0" {
                format!("main:{}", line_of(SHARED, "call"))
            } else {
                s
            }
        })
    );
    for (one, other) in [("a", "c"), ("b", "d")] {
        std::fs::copy(shop.path(one), shop.path(other)).unwrap();
    }
    shop.run("dwz -m shared.debug a b");
    let sections = shop.run("readelf -SW a");
    assert!(sections.contains(".gnu_debugaltlink"), "{sections}");
    for (name, truth) in ["a", "b"].iter().zip(&truth) {
        assert_eq!(&shop.chain(&[name], shop.address(name, "mark")), truth);
    }
    // Moved elsewhere, and given.
    std::fs::create_dir(shop.path("elsewhere")).unwrap();
    std::fs::rename(shop.path("shared.debug"), shop.path("elsewhere/x.debug")).unwrap();
    let mut files = DebugFiles::new().no_search();
    for path in ["a", "elsewhere"] {
        files.add(&shop.path(path)).unwrap();
    }
    let report = shop.report("a", &[(shop.address("a", "mark"), Found::Context)]);
    assert_eq!(chains(files, report), [truth[0].clone()]);
    // Both in a tree that a package was unpacked to.
    shop.run("dwz -m shared.debug -M /usr/lib/debug/.dwz/shared.debug c d");
    for (folder, name) in [
        ("tree/usr/bin", "c"),
        ("tree/usr/lib/debug/.dwz", "shared.debug"),
    ] {
        std::fs::create_dir_all(shop.path(folder)).unwrap();
        std::fs::rename(shop.path(name), shop.path(folder).join(name)).unwrap();
    }
    let at = shop.address("tree/usr/bin/c", "mark");
    assert_eq!(shop.chain(&["tree"], at), truth[0]);
    // What programs share is no image to look addresses up in: a folder with one program has one image.
    let only = |name: &str| {
        let folder = shop.path(&format!("only-{name}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::copy(shop.path(name), folder.join(name)).unwrap();
        std::fs::copy(shop.path("elsewhere/x.debug"), folder.join("x.debug")).unwrap();
        let mut files = DebugFiles::new().no_search();
        files.add(&folder).unwrap();
        files
    };
    for (name, truth) in ["a", "b"].iter().zip(&truth) {
        let addresses = Addresses::new(&only(name), None, None).expect("one image");
        let frames = addresses.frames(shop.address(name, "mark"));
        let named: Vec<&str> = frames
            .iter()
            .filter_map(|f| f.function.as_deref())
            .collect();
        let wanted: Vec<&str> = truth
            .iter()
            .filter_map(|f| Some(f.rsplit_once(':')?.0))
            .collect();
        assert_eq!(named, wanted, "{name}");
    }
}

/// Without it the names of inlined functions are not there; once it is, none of that stays.
fn a_dwz_file_that_is_missing_is_said_and_leaves_no_table() {
    // A file that is worth a table.
    let source = format!("extern const char large[1 << 20] = {{1}};\n{SHARED}");
    let shop = Workshop::new(&[("a.cpp", &source), ("b.cpp", &source)]);
    for name in ["a", "b"] {
        shop.run(&format!(
            "g++ -g -O1 -Wl,--build-id=sha1 {name}.cpp -o {name}"
        ));
    }
    shop.run("dwz -m shared.debug a b");
    std::fs::create_dir(shop.path("elsewhere")).unwrap();
    let shared = [shop.path("shared.debug"), shop.path("elsewhere/x.debug")];
    std::fs::rename(&shared[0], &shared[1]).unwrap();
    let (start, size) = shop.section("a", ".text");
    let all: Vec<_> = (start..start + size)
        .map(|at| (at, Found::Context))
        .collect();
    let mut report = shop.report("a", &all[..all.len().min(900)]);
    report.event.get_or_insert_default().kind = EventKind::Live;
    report.end.get_or_insert_default().closed_by = "writer".into();
    std::fs::write(shop.path("a.wedjat"), report::to_bytes(&report)).unwrap();
    let path = |name: &str| shop.path(name).display().to_string();
    let run = |more: &[&str]| {
        let (debug, report) = (path("a"), path("a.wedjat"));
        let fixed = [
            "--strict", "--format", "json", "--debug", &debug, &report, "--cache",
        ];
        let ran = crate::support::deadline::symbolicate(fixed.iter().chain(more));
        let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        (ran.code, json, ran.err)
    };
    let (cache, elsewhere) = (path("cache"), path("elsewhere"));
    for _ in 0..2 {
        let (code, json, err) = run(&[&cache]);
        assert_eq!(
            (code, &json["missing"][0]["split"]),
            (Some(1), &true.into())
        );
        assert!(err.contains("dwz"), "{err}");
    }
    let (debug, address) = (path("a"), format!("{start:#x}"));
    let asked = ["--strict", "--debug", &debug, "--address", &address];
    let asked = crate::support::deadline::symbolicate(asked);
    assert!(asked.err.contains("dwz"), "{}", asked.err);
    assert_eq!(asked.code, Some(1));
    let with = run(&[&cache, "--debug", &elsewhere]);
    assert_eq!(
        (with.0, &with.1["missing"]),
        (Some(0), &serde_json::json!([]))
    );
    assert!(with == run(&[&path("other"), "--debug", &elsewhere]));
    assert!(with.1.to_string().contains("Ledger::add"));
}

/// What units of one program share stands in partial units, which have lines, but no code: no address is theirs.
fn debug_information_that_dwz_shared_within_one_program() {
    let header = "#include <stdio.h>\n#include <stdlib.h>\n";
    let one = format!(
        "{header}FILE *file; div_t quotient; extern int table[16];
static inline int weight(int x) {{ return
    x * table[x & 15]; }}
__attribute__((noinline)) int sum(int n) {{
    int s = 0;
    for (int i = 0; i < n; i++)
        s += weight(i) ^ s;
    return s; }}
"
    );
    let two = format!(
        "{header}int table[16]; int sum(int);
int main(int c, char **v) {{ FILE *f = stdout; div_t d = div(c, 2); table[1] = d.quot;
    return fprintf(f, \"%d\", sum(c)); }}
"
    );
    let shop = Workshop::new(&[("one.c", &one), ("two.c", &two)]);
    for version in 2..=5 {
        shop.run(&format!(
            "gcc -g -gdwarf-{version} -O2 one.c two.c -o plain"
        ));
        shop.run("dwz plain -o shared");
        let plain = shop.symbolicator(&["plain"]);
        let (start, size) = shop.section("plain", ".text");
        let mut inlined = 0;
        for address in (start..start + size).step_by(2) {
            let expected = lines(&plain.frames(address));
            // Each anew: once there are more, the table of the whole file answers.
            let first = lines(&shop.symbolicator(&["shared"]).frames(address));
            assert_eq!(first, expected, "DWARF {version} {address:#x}");
            inlined += usize::from(expected.len() > 1);
        }
        assert!(inlined > 0, "DWARF {version}");
    }
}

/// Of two functions of a unit that lld makes one of, it keeps the lines of both and the entry of one.
fn functions_that_lld_folded_have_name_and_lines_of_one() {
    let source = "volatile int sink;
int first(int a) {
    sink += a * 3; // first
    return sink * 5; // first
}
int second(int price) {
    sink += price * 3; // second
    return sink * 5; // second
}
void start(void) { sink = first(1) + second(2); }
";
    for version in [4, 5] {
        let shop = Workshop::new(&[("a.c", source)]);
        shop.run(&format!(
            "gcc -g -gdwarf-{version} -O1 -fno-inline -ffunction-sections -c a.c"
        ));
        shop.run("ld.lld-14 --icf=all --build-id -e start a.o -o program");
        let begin = shop.address("program", "first");
        assert_eq!(begin, shop.address("program", "second"), "it was folded");
        let all = shop.symbolicator(&["program"]);
        let (start, size) = shop.section("program", ".text");
        // In time for the table of the whole file to be made.
        let count = (start..start + size)
            .filter(|&at| !all.frames(at).is_empty())
            .count();
        assert!(count > 8);
        std::thread::sleep(std::time::Duration::from_millis(100));
        let later = shop.symbolicator(&["program"]);
        (start..start + size)
            .rev()
            .for_each(|at| drop(later.frames(at)));
        std::thread::sleep(std::time::Duration::from_millis(100));
        for address in (begin..begin + 16).step_by(2) {
            let first = shop.symbolicator(&["program"]);
            let frames = [&first, &all, &later].map(|symbolicator| symbolicator.frames(address));
            for frame in frames.iter().map(|frames| frames.last().unwrap()) {
                let name = frame.function.as_deref().unwrap();
                let line = source
                    .lines()
                    .nth(frame.line.unwrap() as usize - 1)
                    .unwrap();
                assert!(
                    line.contains(name),
                    "DWARF {version} {address:#x}: {name} at {line}"
                );
            }
        }
    }
}

const SHARED: &str = "#include <map>
#include <string>
volatile long sink;
struct Ledger {
    std::map<std::string, long> rows;
    inline __attribute__((always_inline)) void add(long n) {
        sink += n;
        __asm__ volatile(\"mark: nop\" ::: \"memory\"); // @mark
    }
};
int main(int argc, char **) {
    Ledger ledger;
    ledger.rows[\"a\"] = argc;
    ledger.add(argc); // @call
    return ledger.rows.size() == 1;
}
";

/// C++ with templates, lambdas and inlining, in every version of DWARF: all over the code, addresses
/// have the frames that llvm-symbolizer gives it.
fn every_address_of_a_program_as_llvm_symbolizer_has_it() {
    let source = r#"
#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
namespace shop {
template <typename T> struct Shelf {
    std::vector<T> goods;
    T heaviest() const {
        return *std::max_element(goods.begin(), goods.end(), [](const T &a, const T &b) { return a < b; });
    }
};
struct Till {
    std::map<std::string, long> rows;
    virtual ~Till() = default;
    virtual long total() const {
        long sum = 0;
        for (const auto &row : rows) sum += row.second;
        return sum;
    }
    long operator()(long n) { return rows["call"] += n; }
};
static long recurse(long n) { return n < 2 ? n : recurse(n - 1) + recurse(n - 2); }
}
int main(int argc, char **argv) {
    shop::Shelf<int> ints{{3, 1, argc}};
    shop::Shelf<std::string> texts{{"a", argv[0]}};
    shop::Till till;
    try {
        if (argc > 3) throw std::runtime_error("too many");
        till(argc);
    } catch (const std::exception &e) {
        std::puts(e.what());
    }
    std::printf("%d %s %ld %ld\n", ints.heaviest(), texts.heaviest().c_str(), till.total(), shop::recurse(argc));
}
"#;
    let shop = Workshop::new(&[("a.cpp", source)]);
    for flags in [
        "-O2 -gdwarf-5",
        "-O2 -gdwarf-4",
        "-O1 -gdwarf-3 -gno-strict-dwarf",
        "-O0 -gdwarf-2 -gno-strict-dwarf",
    ] {
        shop.run(&format!("g++ -g {flags} a.cpp -o program"));
        let step = if flags.starts_with("-O0") { 11 } else { 5 };
        let (start, size) = shop.section("program", ".text");
        let addresses: Vec<u64> = (start..start + size).step_by(step).collect();
        let theirs = llvm_symbolizer(&shop, "program", &addresses);
        let symbolicator = shop.symbolicator(&["program"]);
        let mut wrong = BTreeSet::new();
        let mut named = 0;
        for (address, theirs) in addresses.iter().zip(theirs) {
            let ours = as_short(lines(&symbolicator.frames(*address)), &theirs);
            named += usize::from(!ours.is_empty());
            // llvm-symbolizer puts the symbol's name in the place of the function's: `f.cold`, or an
            // alias as constructors have it; and prints an object file where there is no source file.
            if ours != theirs && !same_but_for_the_symbol(&ours, &theirs) {
                wrong.insert(format!(
                    "{flags} {address:#x}\n  ours   {ours:?}\n  theirs {theirs:?}"
                ));
            }
        }
        assert!(
            named * 10 > addresses.len() * 9,
            "{flags}: {named} of {}",
            addresses.len()
        );
        assert!(
            wrong.is_empty(),
            "{}: {}",
            wrong.len(),
            wrong.first().unwrap()
        );
    }
}

/// `linkage file:line` for each frame.
fn lines(frames: &[wedjat::symbolicate::SourceFrame]) -> Vec<String> {
    let line = |f: &wedjat::symbolicate::SourceFrame| {
        let name = f.mangled.as_deref().unwrap_or("??");
        let file = f.file.as_deref().unwrap_or("??");
        format!(
            "{name} {}:{}",
            file.rsplit('/').next().unwrap_or(file),
            f.line.unwrap_or(0)
        )
    };
    frames.iter().map(line).collect()
}

/// Our frames with the bare names of theirs, where theirs has a function without a linkage name: ours then has its scopes
/// (`shop::recurse` for `recurse`).
fn as_short(mut ours: Vec<String>, theirs: &[String]) -> Vec<String> {
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        let bare = theirs.split(' ').next().unwrap();
        let (full, place) = ours.rsplit_once(' ').unwrap();
        let full = format!("::{full}");
        let bare_at = |next: &str| full.contains(&format!("::{bare}{next}"));
        if bare_at("(") || bare_at("<") || full.ends_with(&format!("::{bare}")) {
            *ours = format!("{bare} {place}");
        }
    }
    ours
}

/// Whether two chains differ in the outermost frame alone, by what the symbol table is known to add.
fn same_but_for_the_symbol(ours: &[String], theirs: &[String]) -> bool {
    let (Some((ours, inner)), Some((theirs, their_inner))) =
        (ours.split_last(), theirs.split_last())
    else {
        // No frames at all: theirs is the nearest symbol's, without a place.
        return theirs.len() == 1 && theirs[0].ends_with(" ??:0");
    };
    let (our_name, our_place) = ours.split_once(' ').unwrap();
    let (their_name, their_place) = theirs.split_once(' ').unwrap();
    // `C1` and `C2` are two names of one constructor's code, `D1` and `D2` of a destructor's.
    let plain = |name: &str| {
        let name = name.split(['.', '@']).next().unwrap_or("");
        name.replace("C2", "C1").replace("D2", "D1")
    };
    let place = |text: &str| {
        if text.contains(".c:0") || text.contains(".S:0") || text.ends_with("??:0") {
            "??:0".to_owned()
        } else {
            text.to_owned()
        }
    };
    inner == their_inner
        && plain(our_name) == plain(their_name)
        && place(our_place) == place(their_place)
}

/// `linkage file:line` for each frame of each address.
fn llvm_symbolizer(shop: &Workshop, file: &str, addresses: &[u64]) -> Vec<Vec<String>> {
    let mut child = Command::new("llvm-symbolizer-14")
        .args(["--inlines", "--no-demangle", "--output-style=LLVM", "--obj"])
        .arg(shop.path(file))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("llvm-symbolizer-14 is needed for this test");
    let mut stdin = child.stdin.take().unwrap();
    let input: String = addresses
        .iter()
        .map(|address| format!("{address:#x}\n"))
        .collect();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let chains = text.split("\n\n").filter(|chain| !chain.trim().is_empty());
    let chains: Vec<Vec<String>> = chains
        .map(|chain| {
            let lines: Vec<&str> = chain.trim().lines().collect();
            let frame = |pair: &[&str]| {
                // path:line:column
                let mut parts = pair[1].rsplitn(3, ':');
                let (_, line, path) = (parts.next(), parts.next().unwrap(), parts.next().unwrap());
                format!("{} {}:{line}", pair[0], path.rsplit('/').next().unwrap())
            };
            lines.chunks_exact(2).map(frame).collect()
        })
        .collect();
    assert_eq!(chains.len(), addresses.len());
    chains
}
