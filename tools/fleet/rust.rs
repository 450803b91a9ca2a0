//! The app in Rust: of plain functions and closures, or of async functions and blocks.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::app::{Build, Language, module};

/// Writes the sources; returns the compiler that makes the app of them.
pub fn compiler(build: &mut Build<'_>, folder: &Path) -> Result<Command, Box<dyn Error>> {
    let source = write(build, folder)?;
    // Old and new mangling.
    let mangling = if build.index.is_multiple_of(2) {
        "legacy"
    } else {
        "v0"
    };
    let debug = match build.language {
        Language::Async(level) => level,
        _ => "full",
    };
    let mut rustc = Command::new("rustc");
    rustc
        .env("RUSTC_BOOTSTRAP", "1")
        .args([
            "--edition",
            "2024",
            "--crate-name",
            "till",
            "--cap-lints",
            "allow",
        ])
        .args(["-Zunstable-options", "-C"])
        .arg(format!("symbol-mangling-version={mangling}"))
        .arg(format!("-Cdebuginfo={debug}"))
        .arg(format!(
            "-Copt-level={}",
            if build.language.is_async() { 3 } else { 1 }
        ))
        .args([
            "-Ccodegen-units=1",
            "-Crelocation-model=static",
            "-Cforce-frame-pointers=yes",
        ])
        .args([
            "-Cpanic=abort",
            "-Clink-arg=-no-pie",
            "-Clinker-features=-lld",
        ])
        .arg(&source);
    Ok(rustc)
}

fn path(build: &Build<'_>, name: &str) -> String {
    match module(build.language, name) {
        Some(module) => format!("crate::{module}::{name}"),
        None => format!("crate::{name}"),
    }
}

fn write(build: &mut Build<'_>, folder: &Path) -> Result<std::path::PathBuf, Box<dyn Error>> {
    let mut texts: BTreeMap<Option<String>, String> = BTreeMap::new();
    for (at, name) in build.order().into_iter().enumerate() {
        let mut text = String::new();
        // What a version adds moves all that follows.
        for line in 0..build.random.below(6) {
            let _ = writeln!(text, "// {line}");
        }
        if build.random.chance(0.3) {
            let number = build.random.below(1000);
            let _ = writeln!(text, "pub fn added_{at}(n: i32) -> i32 {{ n * {number} }}");
        }
        function(build, &mut text, &name);
        let texts = texts.entry(module(build.language, &name)).or_default();
        texts.push_str(&text);
    }
    let mut root = format!(
        "{ROOT}{}",
        if build.language.is_async() {
            ASYNC
        } else {
            PLAIN
        }
    );
    root.push_str(&texts.remove(&None).unwrap_or_default());
    for (module, text) in texts {
        let module = module.unwrap_or_default();
        let file = build.file(folder, &module, "rs");
        let _ = writeln!(
            root,
            "#[path = {:?}]\nmod {module};",
            file.file_name().unwrap_or_default()
        );
        std::fs::write(file, format!("{USES}{text}"))?;
    }
    let source = folder.join("till.rs");
    std::fs::write(&source, root)?;
    Ok(source)
}

fn function(build: &mut Build<'_>, text: &mut String, name: &str) {
    let (is_main, is_async) = (name == "main", build.language.is_async());
    if build.inlined.contains(name) {
        text.push_str("#[inline(always)]\n");
    } else {
        text.push_str("#[inline(never)]\n");
        if build.index == 2 && !is_main && !is_async {
            let suffixed = suffixed(build, name);
            let _ = writeln!(text, "#[unsafe(export_name = \"{suffixed}\")]");
        }
    }
    let _ = match (is_main, is_async) {
        (true, _) => writeln!(text, "fn main() {{\n    let n = here();"),
        (_, true) => writeln!(text, "pub async fn {name}(n: i32) -> i32 {{"),
        _ => writeln!(text, "pub fn {name}(n: i32) -> i32 {{"),
    };
    text.push_str("    let mut sum = n;\n");
    for (at, callee) in build.callees(name).into_iter().enumerate() {
        // Closures that a version adds come before those that were there.
        for _ in 0..build.random.below(2) {
            let number = build.random.below(1000);
            let added = match (is_main, is_async) {
                (false, true) => {
                    format!("boxed(turn(boxed(async move {{ n ^ (here() + {number}) }}))).await")
                }
                (true, true) => format!("(n ^ (here() + {number}))"),
                _ => format!("turn(|n| n ^ (here() + {number}), sum)"),
            };
            let _ = writeln!(
                text,
                "    if here() == {number} {{\n        sum += {added};\n    }}"
            );
        }
        let call = format!("{}(n + {at})", path(build, &callee));
        let call = match (is_main, is_async) {
            (_, false) => call,
            (true, _) => format!("polled(boxed({call}))"),
            _ if build.inlined.contains(&callee) => format!("{call}.await"),
            _ => format!("boxed({call}).await"),
        };
        let returns = place(&format!("{name}__to__{callee}"));
        let _ = writeln!(text, "    if here() == {at} {{");
        if build.world.is_turned(name, &callee) {
            let turned = place(&format!("{name}__by__{callee}"));
            let body = format!(
                "{{\n            let mut sum = {call};\n            {returns}\n            sum + here()\n        }}"
            );
            let _ = if is_async {
                writeln!(
                    text,
                    "        sum += boxed(turn(boxed(async move {body}))).await;\n        {turned}"
                )
            } else {
                writeln!(
                    text,
                    "        sum += turn(|n| {body}, n);\n        {turned}"
                )
            };
        } else if build.is_tail_call(name, &callee) {
            let _ = writeln!(text, "        return {call};\n    }}");
            continue;
        } else {
            let _ = writeln!(text, "        sum += {call};\n        {returns}");
        }
        text.push_str("        there(sum);\n    }\n");
    }
    let works = place(&format!("{name}__works"));
    let _ = writeln!(
        text,
        "    while here() > sum {{\n        sum += 1;\n        {works}\n        there(sum);\n    }}"
    );
    text.push_str(if is_main {
        "    there(sum);\n}\n"
    } else {
        "    sum\n}\n"
    });
}

/// The symbol as older Rust mangles it, with what some compiler's clone has behind it.
fn suffixed(build: &mut Build<'_>, name: &str) -> String {
    const SUFFIXES: [&str; 5] = [
        ".llvm.7720418529430",
        ".isra.0",
        ".constprop.2",
        ".part.0.cold",
        ".cold.1",
    ];
    let suffix = SUFFIXES[build.random.below(SUFFIXES.len())];
    let hash = build.random.next();
    let parts = [
        Some("till".to_owned()),
        module(build.language, name),
        Some(name.to_owned()),
    ];
    let part = |part: String| format!("{}{part}", part.len());
    let path: String = parts.into_iter().flatten().map(part).collect();
    format!("_ZN{path}17h{hash:016x}E{suffix}")
}

/// Names the address of what stands there, in the symbol table.
fn place(name: &str) -> String {
    format!(
        "unsafe {{ core::arch::asm!(\"nop\", \"place_{name}:\", \"nop\", inout(\"rax\") sum) }};"
    )
}

const USES: &str = "#[allow(unused_imports)]\nuse crate::*;\n";

const ROOT: &str = r#"use std::sync::atomic::AtomicI32;
static HERE: AtomicI32 = AtomicI32::new(0);
static THERE: AtomicI32 = AtomicI32::new(0);
#[inline(always)]
pub fn here() -> i32 { unsafe { HERE.as_ptr().read_volatile() } }
#[inline(always)]
pub fn there(n: i32) { unsafe { THERE.as_ptr().write_volatile(n) } }
"#;

const PLAIN: &str = r#"#[inline(never)]
pub fn turn(f: fn(i32) -> i32, n: i32) -> i32 {
    let mut sum = f(n);
    unsafe { core::arch::asm!("nop", "place_turn__works:", "nop", inout("rax") sum) };
    sum
}
"#;

const ASYNC: &str = r#"use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
pub type Boxed = Pin<Box<dyn Future<Output = i32>>>;
pub fn boxed(f: impl Future<Output = i32> + 'static) -> Boxed {
    let boxed: Boxed = Box::pin(f);
    std::hint::black_box(boxed)
}
#[inline(always)]
pub fn polled(mut f: Boxed) -> i32 {
    match f.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(n) => n,
        Poll::Pending => 0,
    }
}
pub async fn turn(f: Boxed) -> i32 {
    let mut sum = f.await;
    unsafe { core::arch::asm!("nop", "place_turn__works:", "nop", inout("rax") sum) };
    sum
}
"#;
