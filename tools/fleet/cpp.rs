//! The app in C++: functions, methods, static methods of class templates, functions with internal linkage, lambdas; each
//! of these inlined, too.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::app::{Build, module};

/// Writes the sources; returns the compiler that makes the app of them.
pub fn compiler(build: &mut Build<'_>, folder: &Path) -> Result<Command, Box<dyn Error>> {
    let source = write(build, folder)?;
    let mut compiler = Command::new("g++");
    compiler
        .args([
            "-std=c++17",
            "-g",
            "-w",
            "-no-pie",
            "-fno-pie",
            "-fno-omit-frame-pointer",
        ])
        .args(["-fno-reorder-blocks-and-partition", "-fno-ipa-icf"])
        .arg(if build.index.is_multiple_of(2) {
            "-O1"
        } else {
            "-O2"
        })
        .arg(&source);
    Ok(compiler)
}

/// How a function is written.
enum Kind {
    Function,
    Method,
    Template,
    /// In an unnamed namespace: an inlined copy of it has no linkage name.
    Internal,
}

fn kind(name: &str) -> Kind {
    let sum: u32 = name.bytes().map(u32::from).sum();
    match sum % 4 {
        _ if module_of(name).is_empty() => Kind::Function,
        0 => Kind::Function,
        1 => Kind::Method,
        2 => Kind::Template,
        _ => Kind::Internal,
    }
}

fn module_of(name: &str) -> String {
    module(super::app::Language::Cpp, name).unwrap_or_default()
}

/// The class of a method.
fn class(name: &str) -> String {
    format!("Class_{name}")
}

fn write(build: &mut Build<'_>, folder: &Path) -> Result<std::path::PathBuf, Box<dyn Error>> {
    // The type of parameters changes between versions: overloads of one function.
    let number = if build.index < 2 { "int" } else { "long" };
    let mut declared = String::new();
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for (at, name) in build.order().into_iter().enumerate() {
        let mut text = String::new();
        for line in 0..build.random.below(6) {
            let _ = writeln!(text, "// {line}");
        }
        if build.random.chance(0.3) {
            let by = build.random.below(1000);
            let _ = writeln!(
                text,
                "inline {number} added_{at}({number} n) {{ return n * {by}; }}"
            );
        }
        let attribute = if build.inlined.contains(&name) {
            "__attribute__((always_inline)) inline"
        } else {
            "__attribute__((noinline, noclone))"
        };
        if name != "main" {
            let (is_free, class) = (matches!(kind(&name), Kind::Function), class(&name));
            // As older compilers' clones.
            let suffix = if build.index == 2 && is_free && !build.inlined.contains(&name) {
                format!(" __asm__(\"{}\")", symbol(build, &name, number))
            } else {
                String::new()
            };
            let declaration = match kind(&name) {
                Kind::Function => format!("{attribute} {number} {name}({number} n){suffix};"),
                Kind::Internal => {
                    format!("namespace {{ {attribute} {number} {name}({number} n); }}")
                }
                Kind::Method => format!(
                    "struct {class} {{ {number} at; {attribute} {number} run({number} n) const; }};"
                ),
                Kind::Template => format!(
                    "template <class T> struct {class} {{ {attribute} static T run(T n); }};"
                ),
            };
            let module = module_of(&name);
            let _ = if module.is_empty() {
                writeln!(declared, "{declaration}")
            } else {
                writeln!(declared, "namespace {module} {{ {declaration} }}")
            };
        }
        function(build, &mut text, &name, number);
        texts.entry(module_of(&name)).or_default().push_str(&text);
    }
    let root = texts.remove("").unwrap_or_default();
    let mut source = format!(
        "{HEAD}using Number = {number};\nNumber turn(const std::function<Number(Number)>& f, Number n);\n{declared}"
    );
    for (module, text) in texts {
        let file = build.file(folder, &module, "hpp");
        let _ = writeln!(
            source,
            "#include {:?}",
            file.file_name().unwrap_or_default()
        );
        std::fs::write(file, format!("namespace {module} {{\n{text}\n}}\n"))?;
    }
    let file = folder.join("till.cpp");
    std::fs::write(&file, format!("{source}{TURN}{root}}}\n"))?;
    Ok(file)
}

fn function(build: &mut Build<'_>, text: &mut String, name: &str, number: &str) {
    let is_main = name == "main";
    let _ = match kind(name) {
        _ if is_main => writeln!(
            text,
            "}}\nusing namespace till;\nint main() {{\n    {number} n = here();"
        ),
        Kind::Function => writeln!(text, "{number} {name}({number} n) {{"),
        Kind::Internal => writeln!(text, "namespace {{\n{number} {name}({number} n) {{"),
        Kind::Method => writeln!(text, "{number} {}::run({number} n) const {{", class(name)),
        Kind::Template => writeln!(text, "template <class T> T {}<T>::run(T n) {{", class(name)),
    };
    text.push_str("    Number sum = n;\n");
    for (at, callee) in build.callees(name).into_iter().enumerate() {
        // Lambdas that a version adds come before those that were there.
        for _ in 0..build.random.below(2) {
            let by = build.random.below(1000);
            let _ = writeln!(
                text,
                "    if (here() == {by}) sum += turn([](Number n) {{ return n ^ (here() + {by}); }}, sum);"
            );
        }
        let module = module_of(&callee);
        let path = if module.is_empty() {
            String::from("::till")
        } else {
            format!("::till::{module}")
        };
        let call = match kind(&callee) {
            Kind::Function | Kind::Internal => format!("{path}::{callee}(n + {at})"),
            Kind::Method => format!("{path}::{}{{n}}.run(n + {at})", class(&callee)),
            Kind::Template => format!("{path}::{}<Number>::run(n + {at})", class(&callee)),
        };
        let returns = place(&format!("{name}__to__{callee}"));
        let _ = writeln!(text, "    if (here() == {at}) {{");
        let _ = if build.world.is_turned(name, &callee) {
            writeln!(
                text,
                "        sum += turn([](Number n) {{\n            Number sum = {call};\n            {returns}\n            return sum + here();\n        }}, n);\n        {}",
                place(&format!("{name}__by__{callee}"))
            )
        } else if is_in_lambda(name, &callee) {
            writeln!(
                text,
                "        sum += [&](Number n) __attribute__((always_inline)) {{\n            Number sum = {call};\n            \
                 {returns}\n            return sum;\n        }}(n);"
            )
        } else if build.is_tail_call(name, &callee) && !matches!(kind(&callee), Kind::Method) {
            let _ = writeln!(text, "        return {call};\n    }}");
            continue;
        } else {
            writeln!(text, "        sum += {call};\n        {returns}")
        };
        text.push_str("        there(sum);\n    }\n");
    }
    let works = place(&format!("{name}__works"));
    let _ = writeln!(
        text,
        "    while (here() > sum) {{\n        sum += 1;\n        {works}\n        there(sum);\n    }}"
    );
    text.push_str("    return sum;\n}\n");
    if matches!(kind(name), Kind::Internal) {
        text.push_str("}\n");
    }
    if is_main {
        text.push_str("namespace till {\n");
    }
}

/// Returns true if a function calls another one in a lambda, which is inlined.
fn is_in_lambda(name: &str, callee: &str) -> bool {
    let bytes = name.bytes().chain(callee.bytes());
    bytes.map(u32::from).sum::<u32>().is_multiple_of(3)
}

/// The symbol of a free function, with what GCC's clones have behind it.
fn symbol(build: &mut Build<'_>, name: &str, number: &str) -> String {
    const SUFFIXES: [&str; 4] = [".isra.0", ".constprop.2", ".part.0", ".lto_priv.0"];
    let suffix = SUFFIXES[build.random.below(SUFFIXES.len())];
    let parts = ["till".to_owned(), module_of(name), name.to_owned()];
    let parts = parts.iter().filter(|part| !part.is_empty());
    let path: String = parts.map(|part| format!("{}{part}", part.len())).collect();
    format!("_ZN{path}E{}{suffix}", &number[..1])
}

/// Names the address of what stands there, in the symbol table.
fn place(name: &str) -> String {
    format!("asm volatile(\"nop\\nplace_{name}:\\nnop\" : \"+r\"(sum));")
}

const HEAD: &str = r#"#include <functional>
static volatile int HERE, THERE;
namespace till {
static inline __attribute__((always_inline)) int here() { return HERE; }
static inline __attribute__((always_inline)) void there(int n) { THERE = n; }
"#;

const TURN: &str = r#"__attribute__((noinline, noclone)) Number turn(const std::function<Number(Number)>& f, Number n) {
    Number sum = f(n);
    asm volatile("nop\nplace_turn__works:\nnop" : "+r"(sum));
    return sum;
}
"#;
