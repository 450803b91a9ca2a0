//! Names of functions, as programs have them: the text, the title, the blame and the key of a group say the same.

use std::process::Command;

use serde_json::Value;
use wedjat::new;
use wedjat::report::{Found, Image, Report, to_bytes};
use wedjat::symbolicate::group::{Groups, normalised};
use wedjat::symbolicate::{DebugFiles, Symbolicator};

use crate::support::symbolicate::{Workshop, crash};

/// What is said of a report with the program as its only debug file.
struct Said {
    /// The report as JSON.
    json: Value,
    /// The names of its group, innermost first.
    stack: Vec<String>,
    key: u128,
}

impl Said {
    /// The names of all frames, innermost first.
    fn functions(&self) -> Vec<&str> {
        let frames = self.json["frames"].as_array().unwrap().iter();
        let sources = frames.flat_map(|frame| frame["frames"].as_array().unwrap());
        sources
            .filter_map(|frame| frame["function"].as_str())
            .collect()
    }
}

fn said(shop: &Workshop, report: Report) -> Said {
    let report = crash(report, "SIGILL");
    let path = shop.path("death.wedjat");
    std::fs::write(&path, to_bytes(&report)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
    command.args(["--no-cache", "--format", "ndjson", "--debug"]);
    let out = command
        .arg(shop.path("program"))
        .arg(path)
        .output()
        .unwrap();
    let mut files = DebugFiles::new().no_search();
    files.add(&shop.path("program")).unwrap();
    let report = Symbolicator::new(files).symbolicate(report);
    let stack = normalised(&report).into_iter().map(|name| name.to_string());
    Said {
        json: serde_json::from_slice(&out.stdout).unwrap(),
        stack: stack.collect(),
        key: Groups::default().add("a", &report),
    }
}

/// What is said of a death in the function with this symbol, which `main` called.
fn said_of(shop: &Workshop, symbol: &str) -> Said {
    let frames = [
        (shop.address("program", symbol) + 1, Found::Context),
        (shop.address("program", "main") + 1, Found::UnwindInfo),
    ];
    said(shop, shop.report("program", &frames))
}

/// A program of functions with these symbols, in assembly, and `main`.
fn program_of(symbols: &[&str]) -> Workshop {
    let function = |symbol: &str| {
        format!(
            "\t.type \"{symbol}\", @function\n\"{symbol}\": nop\n\tnop\n\tret\n\t.size \"{symbol}\", . - \"{symbol}\"\n"
        )
    };
    let functions: String = symbols.iter().map(|symbol| function(symbol)).collect();
    let text = format!("\t.text\n\t.globl main\n{functions}{}", function("main"));
    let shop = Workshop::new(&[("a.s", &text)]);
    shop.run("gcc -Wl,--build-id=sha1 a.s -o program");
    shop
}

#[test]
fn subscripts_have_their_labels_in_texts_and_keys() {
    let names = [
        ("$s4till4GridV3rowS2i_tcig", "Grid.subscript(row:).getter"),
        (
            "$s4till4GridV6columnS2i_tcig",
            "Grid.subscript(column:).getter",
        ),
        ("$s4till4GridV3rowS2i_tcis", "Grid.subscript(row:).setter"),
        ("$s4till4GridV3rowS2i_tciM", "Grid.subscript(row:).modify"),
    ];
    let shop = program_of(&names.map(|(symbol, _)| symbol));
    let mut keys = Vec::new();
    for (symbol, name) in names {
        let said = said_of(&shop, symbol);
        assert_eq!(said.functions()[0], name);
        assert_eq!(said.json["blame"], name, "{}", said.json);
        assert_eq!(said.stack[0], name);
        assert!(!keys.contains(&said.key), "{name}");
        keys.push(said.key);
    }
}

/// The number of a closure moves when another one is added before it.
#[test]
fn closures_are_told_apart_by_their_function_and_not_by_their_number() {
    let symbols = [
        "$s4till8checkoutyySiFyycfU_",
        "$s4till8checkoutyySiFyycfU0_",
        "$s4till6refundyySiFyycfU_",
    ];
    let shop = program_of(&symbols);
    let [first, second, other] = symbols.map(|symbol| said_of(&shop, symbol));
    assert_eq!(first.functions()[0], "closure #1 in checkout(_:)");
    assert_eq!(second.functions()[0], "closure #2 in checkout(_:)");
    assert_eq!(
        first.key, second.key,
        "{:?} {:?}",
        first.stack, second.stack
    );
    assert_ne!(first.key, other.key, "{:?} {:?}", first.stack, other.stack);
}

/// Line tables alone name the inlined accessor of a library `subscript.modify`, without its type: nobody knows whose it is.
#[test]
fn an_inlined_accessor_without_its_type_is_not_the_apps() {
    let source = "volatile int sink;
void pay(int n) __asm__(\"$s4till3payyySiF\");
#line 1 \"/<compiler-generated>\"
static inline __attribute__((always_inline)) void subscript_modify(int n) {
    sink = n;
    __asm__ volatile(\"mark: nop; nop\" ::: \"memory\");
}
#line 7 \"a.swift\"
__attribute__((noinline)) void pay(int n) { subscript_modify(n); sink = n; }
int main(void) { return sink; }
";
    let shop = Workshop::new(&[("a.c", source)]);
    shop.run("gcc -g1 -O1 -S a.c -o plain.s");
    let text = std::fs::read_to_string(shop.path("plain.s")).unwrap();
    assert!(text.contains("\"subscript_modify\""), "{text}");
    let text = text.replace("subscript_modify", "subscript.modify");
    std::fs::write(shop.path("a.s"), text).unwrap();
    shop.run("gcc -Wl,--build-id=sha1 a.s -o program");
    let said = said_of(&shop, "mark");
    assert_eq!(said.functions(), ["subscript.modify", "pay(_:)", "main"]);
    assert_eq!(said.json["blame"], "pay(_:)");
    assert_eq!(said.stack[0], "pay(_:)");
}

/// The library that a report names says it: only the program is given.
#[test]
fn an_error_that_leaves_main_is_the_reason_with_the_program_alone() {
    let library = "#include <stdlib.h>
void swift_errorInMain(void *error) { (void)error; abort(); }
";
    let source =
        "void swift_errorInMain(void *); int main(void) { swift_errorInMain(0); return 0; }";
    let shop = Workshop::new(&[("core.c", library), ("a.c", source)]);
    shop.run("gcc -O1 -shared -fPIC -Wl,--build-id=sha1 core.c -o libswiftCore.so");
    shop.run("gcc -g -O1 -Wl,--build-id=sha1 a.c ./libswiftCore.so -o program");
    let main = shop.address("program", "main") + 6;
    let thrown = shop.address("libswiftCore.so", "swift_errorInMain") + 6;
    let mut report = shop.report(
        "program",
        &[(thrown, Found::UnwindInfo), (main, Found::UnwindInfo)],
    );
    let base = 0x7f00_0000_0000;
    report.images.push(new!(Image {
        name: shop.path("libswiftCore.so").display().to_string(),
        id: shop.id("libswiftCore.so"),
        base,
        size: 0x10_0000,
    }));
    let frame = &mut report.threads[0].frames[0];
    (frame.pc, frame.image) = (base + thrown, Some(1));
    let said = said(&shop, report);
    assert_eq!(said.functions(), ["swift_errorInMain", "main"]);
    let text = said.json.to_string();
    assert!(text.contains("Swift: an error left main"), "{text}");
}

/// A lambda of C++ without its own name in the debug information, and Rust's code of a closure behind a pointer.
#[test]
fn a_function_has_its_full_name_whatever_the_debug_information_says() {
    let cpp = "#include <functional>
volatile int sink;
namespace till { __attribute__((noinline)) int call(const std::function<int(int)> &f) { return f(sink) + 1; }
int pay(int n) { return call([n](int m) { __asm__ volatile(\"mark: nop\" ::: \"memory\"); return n * m; }); } }
int main(int argc, char **argv) { return till::pay(argc); }
";
    let rust = "#[inline(never)] fn pay(f: Box<dyn FnOnce(u64) -> u64>) -> u64 { f(3) }
fn main() { let n = std::env::args().count() as u64; println!(\"{}\", pay(Box::new(move |m| { m * n }))); }
";
    let shop = Workshop::new(&[("a.cc", cpp), ("a.rs", rust)]);
    for level in ["-g1", "-g"] {
        shop.run(&format!(
            "g++ {level} -O1 -Wl,--build-id=sha1 a.cc -o program"
        ));
        let said = said_of(&shop, "mark");
        let names = said.functions();
        assert!(names[0].starts_with("till::pay"), "{level}: {names:?}");
        assert!(names[0].contains("::operator()"), "{level}: {names:?}");
        assert!(
            names.iter().all(|name| !name.contains("  ")),
            "{level}: {names:?}"
        );
        assert_eq!(said.stack[0], "till::pay::{lambda}::operator()", "{level}");
        let title = said.json["title"].as_str().unwrap();
        assert!(title.contains("till::pay"), "{level}: {title}");
    }
    for level in [1, 2] {
        shop.run(&format!(
            "rustc -C debuginfo={level} -C link-arg=-Wl,--build-id a.rs -o program"
        ));
        let listing = shop.run("nm program");
        let line = listing
            .lines()
            .find(|line| line.contains("vtable.shim"))
            .expect(&listing);
        let said = said_of(&shop, line.split(' ').nth(2).unwrap());
        let expected = "core::ops::function::FnOnce::call_once{{vtable.shim}}";
        assert_eq!(
            *said
                .functions()
                .iter()
                .rfind(|name| **name != "main")
                .unwrap(),
            expected,
            "{level}"
        );
    }
}

/// The adjustment of a pointer before a virtual function has the name that `c++filt` gives it, and that function's key.
#[test]
fn a_thunk_has_the_name_of_its_function() {
    let source = "volatile int sink;
namespace till { struct Row { virtual int row() { return sink; } }; struct Pay { virtual int pay(int) { return sink; } };
struct Cart : Row, Pay { int pay(int n) override; }; int Cart::pay(int n) { sink = n; return n + sink; }
struct Shelf : virtual Pay { int pay(int n) override; }; int Shelf::pay(int n) { sink = n; return n * sink; } }
int main(int argc, char **argv) { till::Cart cart; till::Shelf shelf; till::Pay *all[] = {&cart, &shelf}; return all[argc & 1]->pay(argc); }
";
    let shop = Workshop::new(&[("a.cc", source)]);
    shop.run("g++ -O1 -Wl,--build-id=sha1 a.cc -o program");
    let listing = shop.run("nm program");
    for (thunk, key) in [("_ZTh", "till::Cart::pay"), ("_ZTv", "till::Shelf::pay")] {
        let symbol = listing
            .split_whitespace()
            .find(|word| word.starts_with(thunk));
        let symbol = symbol.expect(&listing);
        let said = said_of(&shop, symbol);
        assert_eq!(
            said.functions()[0],
            shop.run(&format!("c++filt {symbol}")).trim()
        );
        assert_eq!(said.stack[0], key);
    }
}
