//! The app, compiled: each build has its own closures, lines, names of files, order of functions, choice
//! of what is inlined, mangling, and build id.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSymbol};

use super::random::Random;
use super::stalls::World;

/// The versions, and how many of the fleet run each.
pub const VERSIONS: [(&str, f64); 5] = [
    ("1.0", 0.05),
    ("1.1", 0.15),
    ("2.0", 0.1),
    ("2.1", 0.5),
    ("3.0-beta", 0.2),
];

/// A compiled version.
pub struct App {
    pub build_id: [u8; 20],
    pub size: u64,
    /// Of each place its address as stated in the file: `from>to` is where `to` returns to in `from`,
    /// `from@to` where the turn returns to through which `from` calls `to`, `from!` where `from` does its
    /// own work.
    places: BTreeMap<String, u64>,
    inlined: BTreeSet<String>,
    turned: BTreeSet<(String, String)>,
}

/// What one build does differently.
struct Build<'a> {
    world: &'a World,
    random: Random,
    inlined: BTreeSet<String>,
    calls: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Whether symbols have what other compilers append to them.
    suffixes: bool,
}

impl App {
    /// Compiles version `index` into `folder`.
    pub fn compile(
        world: &World,
        seed: u64,
        index: usize,
        folder: &Path,
    ) -> Result<App, Box<dyn Error>> {
        let mut random = Random::new(seed.wrapping_mul(31).wrapping_add(index as u64));
        let mut calls: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut callers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (chain, recursive) in world.chains.iter().zip(&world.recursive) {
            for pair in chain.windows(2) {
                calls.entry(&pair[0]).or_default().insert(&pair[1]);
                callers.entry(&pair[1]).or_default().insert(&pair[0]);
            }
            let last = chain.last().ok_or("an empty chain")?;
            let own = calls.entry(last).or_default();
            if *recursive {
                own.insert(last);
            }
        }
        // Only what is called from one place, and calls something else, so that each place is there
        // once.
        let inlined: BTreeSet<String> = calls
            .iter()
            .filter(|(name, callees)| {
                callers.get(*name).is_some_and(|callers| callers.len() == 1)
                    && !callees.is_empty()
                    && !callees.contains(*name)
                    && callees.iter().all(|callee| !world.is_turned(name, callee))
            })
            .map(|(name, _)| (*name).to_owned())
            .filter(|_| random.chance(0.25))
            .collect();
        let build_id: [u8; 20] = std::array::from_fn(|_| random.next() as u8);
        let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut build = Build {
            world,
            random,
            inlined,
            calls,
            suffixes: index == 2,
        };
        std::fs::create_dir_all(folder)?;
        let source = build.write(index, folder)?;
        let program = folder.join("till");
        // Old and new mangling.
        let mangling = if index.is_multiple_of(2) {
            "legacy"
        } else {
            "v0"
        };
        let output = Command::new("rustc")
            .env("RUSTC_BOOTSTRAP", "1")
            .args([
                "--edition",
                "2024",
                "--crate-name",
                "till",
                "--cap-lints",
                "allow",
                "-g",
            ])
            .args(["-Zunstable-options", "-C"])
            .arg(format!("symbol-mangling-version={mangling}"))
            .args([
                "-Copt-level=1",
                "-Ccodegen-units=1",
                "-Crelocation-model=static",
                "-Cforce-frame-pointers=yes",
            ])
            .args([
                "-Cpanic=abort",
                "-Clink-arg=-no-pie",
                "-Clinker-features=-lld",
            ])
            .arg(format!("-Clink-arg=-Wl,--build-id=0x{digits}"))
            .arg("-o")
            .args([&program, &source])
            .output()?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("rustc: {}\n{errors}", output.status).into());
        }
        let turned = world.turned.clone();
        App::read(&std::fs::read(&program)?, build_id, build.inlined, turned)
    }

    /// The places, from the symbol table alone: what the symbolicator makes of the debug information
    /// plays no part.
    fn read(
        bytes: &[u8],
        build_id: [u8; 20],
        inlined: BTreeSet<String>,
        turned: BTreeSet<(String, String)>,
    ) -> Result<App, Box<dyn Error>> {
        let file = object::File::parse(bytes)?;
        let mut places = BTreeMap::new();
        for symbol in file.symbols() {
            if let Some(place) = symbol.name()?.strip_prefix("place_") {
                let place = place.replace("__to__", ">").replace("__by__", "@");
                let place = place.replace("__works", "!");
                places.insert(place, symbol.address() - BASE);
            }
        }
        Ok(App {
            build_id,
            size: bytes.len() as u64,
            places,
            inlined,
            turned,
        })
    }

    /// The addresses (from the image's base) of a chain's frames, innermost first.
    pub fn stack(&self, chain: &[String], again: usize) -> Vec<u64> {
        let mut frames = Vec::new();
        for pair in chain.windows(2) {
            let (from, to) = (&pair[0], &pair[1]);
            if self.turned.contains(&(from.clone(), to.clone())) {
                frames.push(self.places[&format!("{from}@{to}")]);
                frames.push(self.places["turn!"]);
            }
            if !self.inlined.contains(to) {
                frames.push(self.places[&format!("{from}>{to}")]);
            }
        }
        let Some(last) = chain.last() else {
            return frames;
        };
        for _ in 0..again {
            frames.push(self.places[&format!("{last}>{last}")]);
        }
        frames.push(self.places[&format!("{last}!")]);
        frames.reverse();
        frames
    }
}

/// Where the linker puts a program that is not moved.
pub const BASE: u64 = 0x40_0000;

/// The modules; their files have other names in each build.
const MODULES: [&str; 4] = ["screens", "features", "helpers", "steps"];

/// The module of a function; the root's are in none.
fn module(name: &str) -> Option<&'static str> {
    let kinds = ["screen_", "feature_", "helper_", "step_", "work_"];
    let at = kinds.iter().position(|kind| name.starts_with(kind))?;
    MODULES.get(at.min(3)).copied()
}

fn path(name: &str) -> String {
    match module(name) {
        Some(module) => format!("crate::{module}::{name}"),
        None => format!("crate::{name}"),
    }
}

impl Build<'_> {
    /// Writes the sources; returns the first of them.
    fn write(&mut self, index: usize, folder: &Path) -> Result<std::path::PathBuf, Box<dyn Error>> {
        let mut texts: BTreeMap<Option<&str>, String> = BTreeMap::new();
        let mut order: Vec<&str> = self.calls.keys().copied().collect();
        self.random.shuffle(&mut order);
        for (at, name) in order.into_iter().enumerate() {
            let mut text = String::new();
            // What a version adds moves all that follows.
            for line in 0..self.random.below(6) {
                let _ = writeln!(text, "// {line}");
            }
            if self.random.chance(0.3) {
                let number = self.random.below(1000);
                let _ = writeln!(text, "pub fn added_{at}(n: i32) -> i32 {{ n * {number} }}");
            }
            self.function(&mut text, name);
            texts.entry(module(name)).or_default().push_str(&text);
        }
        let mut root = String::from(ROOT);
        for module in MODULES {
            let file = if index == 0 {
                format!("{module}.rs")
            } else {
                format!("{module}_{index}.rs")
            };
            let _ = writeln!(root, "#[path = \"{file}\"]\nmod {module};");
            let text = texts.remove(&Some(module)).unwrap_or_default();
            std::fs::write(folder.join(file), format!("{USES}{text}"))?;
        }
        root.push_str(&texts.remove(&None).unwrap_or_default());
        let source = folder.join("till.rs");
        std::fs::write(&source, root)?;
        Ok(source)
    }

    fn function(&mut self, text: &mut String, name: &str) {
        let is_main = name == "main";
        if self.inlined.contains(name) {
            text.push_str("#[inline(always)]\n");
        } else {
            text.push_str("#[inline(never)]\n");
            if self.suffixes && !is_main {
                let _ = writeln!(text, "#[unsafe(export_name = \"{}\")]", self.suffixed(name));
            }
        }
        if is_main {
            text.push_str("fn main() {\n    let n = here();\n");
        } else {
            let _ = writeln!(text, "pub fn {name}(n: i32) -> i32 {{");
        }
        text.push_str("    let mut sum = n;\n");
        let callees: Vec<&str> = self.calls[name].iter().copied().collect();
        for (at, callee) in callees.into_iter().enumerate() {
            // Closures that a version adds come before those that were there.
            for _ in 0..self.random.below(2) {
                let number = self.random.below(1000);
                let _ = writeln!(
                    text,
                    "    if here() == {number} {{\n        sum += turn(|n| n ^ (here() + {number}), sum);\n    }}"
                );
            }
            let call = path(callee);
            let returns = if self.inlined.contains(callee) {
                String::new()
            } else {
                place(&format!("{name}__to__{callee}"))
            };
            let _ = writeln!(text, "    if here() == {at} {{");
            if self.world.is_turned(name, callee) {
                let turned = place(&format!("{name}__by__{callee}"));
                let _ = writeln!(
                    text,
                    "        sum += turn(|n| {{\n            let mut sum = {call}(n + {at});\n            {returns}\n            sum + here()\n        }}, n);\n        {turned}"
                );
            } else {
                let _ = writeln!(text, "        sum += {call}(n + {at});\n        {returns}");
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
    fn suffixed(&mut self, name: &str) -> String {
        const SUFFIXES: [&str; 5] = [
            ".llvm.7720418529430",
            ".isra.0",
            ".constprop.2",
            ".part.0.cold",
            ".cold.1",
        ];
        let suffix = SUFFIXES[self.random.below(SUFFIXES.len())];
        let hash = self.random.next();
        let mut parts = vec!["till"];
        parts.extend(module(name));
        parts.push(name);
        let path: String = parts
            .iter()
            .map(|part| format!("{}{part}", part.len()))
            .collect();
        format!("_ZN{path}17h{hash:016x}E{suffix}")
    }
}

/// Names the address of what stands there, in the symbol table.
fn place(name: &str) -> String {
    format!(
        "unsafe {{ core::arch::asm!(\"nop\", \"place_{name}:\", \"nop\", inout(\"rax\") sum) }};"
    )
}

const USES: &str = "#[allow(unused_imports)]\nuse crate::{here, there, turn};\n";

const ROOT: &str = r#"use std::sync::atomic::AtomicI32;
static HERE: AtomicI32 = AtomicI32::new(0);
static THERE: AtomicI32 = AtomicI32::new(0);
#[inline(always)]
pub fn here() -> i32 { unsafe { HERE.as_ptr().read_volatile() } }
#[inline(always)]
pub fn there(n: i32) { unsafe { THERE.as_ptr().write_volatile(n) } }
#[inline(never)]
pub fn turn(f: fn(i32) -> i32, n: i32) -> i32 {
    let mut sum = f(n);
    unsafe { core::arch::asm!("nop", "place_turn__works:", "nop", inout("rax") sum) };
    sum
}
"#;
