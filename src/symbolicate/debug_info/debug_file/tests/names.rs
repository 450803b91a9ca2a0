//! Names that debug information has in part only: the same straight from it and in the full table.

use super::*;

/// Files with these texts in a folder, and what the commands, a line each, make of them.
fn made(files: &[(&str, &str)], commands: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let mut shell = std::process::Command::new("sh");
    shell.args(["-ec", commands]).current_dir(folder.path());
    assert!(shell.status().unwrap().success(), "{commands}");
    folder
}

/// All symbols of functions, with their addresses.
fn functions(path: &str) -> Vec<(String, u64)> {
    use object::ObjectSymbol as _;
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let functions = file
        .symbols()
        .filter(|symbol| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text);
    functions
        .map(|symbol| (symbol.name().unwrap().to_owned(), symbol.address()))
        .collect()
}

/// The name of the outermost function at an address, in each engine.
fn outermost(path: &str) -> impl Fn(u64) -> [Option<String>; 2] {
    let object = object_file::open(path.as_ref()).unwrap().remove(0);
    let (file, table) = engines(object).unwrap();
    move |address| {
        let direct = file.lookup_directly(address);
        [direct, table.lookup(address)].map(|answer| {
            let answer = answer?;
            Some(answer.frames.last()?.function.as_deref()?.to_owned())
        })
    }
}

/// Link-time optimization clones functions, gives the clones symbols of their own, and has their entries refer to those of
/// other units, in other languages.
#[test]
fn a_clone_has_the_name_of_its_symbol() {
    let first = "extern volatile int sink; int work(int n); int price(int n);
__attribute__((noinline)) static int scaled(int n, int by) { sink = n; return n * by + sink; }
int main(int c, char **v) { return scaled(c, 7) * scaled(c + 1, 7) + work(c) + price(c); }
";
    let second = "volatile int sink;
static inline int twice(int n) { sink = n; return n * sink; }
__attribute__((noinline)) int step(int n, int by, int *at) { sink = n + *at; return twice(n) * by + sink; }
int work(int n) { return step(n, 3, &n) * step(n + 1, 3, &n); }
";
    let third = "extern \"C\" { extern volatile int sink; int price(int); }
namespace { template <class T> __attribute__((noinline)) T cost(T n, int by) { sink = n; return n / by * sink; } }
extern \"C\" int price(int n) { return cost(n, 9) + cost(n + 2, 9) + cost(long(n), 9); }
";
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let files = [("a.c", first), ("b.c", second), ("c.cc", third)];
        let folder = made(
            &files,
            &format!(
                "for file in a.c b.c c.cc; do gcc -O2 {version} -flto -c $file; done
                 g++ -O2 {version} -flto a.o b.o c.o -o program"
            ),
        );
        let path = folder.path().join("program").display().to_string();
        let (differ, known) = differences(&path);
        assert_eq!(differ, [""; 0], "{version}");
        assert!(known > 50, "{version}: only {known} are known");
        let names = outermost(&path);
        let mut clones = 0;
        for (symbol, address) in functions(&path) {
            if symbol.contains(".constprop.") && !symbol.starts_with('_') {
                let name = Some(symbol.clone());
                assert_eq!(names(address), [name.clone(), name], "{version} {symbol}");
                clones += 1;
            }
        }
        assert!(clones >= 2, "{version}: {:?}", functions(&path));
    }
}

/// Symbols of Swift, the plain name that the debug information has at their addresses, and the name in full:
/// Swift's own tests have most of the former.
const SWIFT: [(&str, &str, &str); 6] = [
    ("$s3foo3barCACycfc", "init", "bar.init()"),
    ("$s3foo3barSivlu", "bar.get", "bar.unsafeAddressor"),
    (
        "$s4main3abc33_D84986C8784D58FAC22AA7A4A9C32B49LLyyF",
        "abc",
        "abc()",
    ),
    ("$sSo1ACfE", "A", "A.__ivar_destroyer"),
    ("$sSS5_dumpyyF", "_dump", "String._dump()"),
    ("of_another_language", "plain", "plain"),
];

/// A unit of Swift in assembly, whose entries of functions have no linkage names.
fn swift_unit() -> String {
    let (mut code, mut entries) = (String::new(), String::new());
    for (number, (symbol, plain, _)) in SWIFT.iter().enumerate() {
        code.push_str(&format!(
            "
            .type \"{symbol}\", %function
            \"{symbol}\": .Lf{number}: nop
            nop
            .Le{number}: .size \"{symbol}\", .Le{number} - .Lf{number}
            "
        ));
        entries.push_str(&format!(
            "
            .byte 2
            .asciz \"{plain}\"
            .8byte .Lf{number}
            .4byte .Le{number} - .Lf{number}
            "
        ));
    }
    format!(
        "
        .text
        .globl _start
        _start: nop
        .Lbegin: {code}
        .Lend:
        .section .debug_abbrev,\"\",%progbits
        .Labbreviations:
        .uleb128 1, 0x11
        .byte 1
        .uleb128 0x13, 0x0b, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0
        .uleb128 2, 0x2e
        .byte 0
        .uleb128 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0
        .byte 0
        .section .debug_info,\"\",%progbits
        .4byte .Lunit_end - .Lunit
        .Lunit: .2byte 4
        .4byte .Labbreviations
        .byte 8, 1, 0x1e
        .asciz \"till.swift\"
        .8byte .Lbegin
        .4byte .Lend - .Lbegin
        {entries}
        .byte 0
        .Lunit_end:
        "
    )
}

#[test]
fn a_plain_name_of_swift_gives_way_to_the_symbol_that_begins_there() {
    let command = "gcc -nostdlib -static -Wl,--build-id a.s -o program";
    let folder = made(&[("a.s", &swift_unit())], command);
    let path = folder.path().join("program").display().to_string();
    let (names, functions) = (outermost(&path), functions(&path));
    for (symbol, _, full) in SWIFT {
        let found = functions.iter().find(|(known, _)| known == symbol);
        let (_, address) = found.unwrap_or_else(|| panic!("{symbol}: {functions:?}"));
        for address in [*address, address + 1] {
            let full = Some(full.to_owned());
            assert_eq!(
                names(address),
                [full.clone(), full],
                "{symbol} {address:#x}"
            );
        }
    }
    assert_eq!(differences(&path).0, [""; 0]);
}
