//! The app, compiled: each version has its own order of functions, its own choice of what is inlined,
//! and its own build id.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSymbol};

use crate::random::Random;
use crate::stalls::World;

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
    /// `from!` where `from` does its own work.
    places: BTreeMap<String, u64>,
    inlined: BTreeSet<String>,
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
            })
            .map(|(name, _)| (*name).to_owned())
            .filter(|_| random.chance(0.25))
            .collect();
        let mut text = String::from("volatile int here, there;\n");
        for name in calls.keys() {
            let _ = writeln!(text, "{};", head(name, &inlined));
        }
        let mut order: Vec<&&str> = calls.keys().collect();
        random.shuffle(&mut order);
        for (at, name) in order.into_iter().enumerate() {
            // What a version adds moves all that follows.
            if random.chance(0.3) {
                let _ = writeln!(
                    text,
                    "int added_{at}(int n) {{ return n * {} + here; }}",
                    random.below(1000)
                );
            }
            body(&mut text, name, &calls[*name], &inlined);
        }
        let build_id: [u8; 20] = std::array::from_fn(|_| random.next() as u8);
        let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::create_dir_all(folder)?;
        let (source, program) = (folder.join("till.c"), folder.join("till"));
        std::fs::write(&source, text)?;
        let status = Command::new("cc")
            .args([
                "-g",
                "-O1",
                "-fno-optimize-sibling-calls",
                "-fno-omit-frame-pointer",
                "-w",
                "-no-pie",
            ])
            .arg(format!("-Wl,--build-id=0x{digits}"))
            .arg("-o")
            .args([&program, &source])
            .status()?;
        if !status.success() {
            return Err(format!("cc: {status}").into());
        }
        App::read(&std::fs::read(&program)?, build_id, inlined)
    }

    /// The places, from the symbol table alone: what the desk makes of the debug information is not
    /// asked.
    fn read(
        bytes: &[u8],
        build_id: [u8; 20],
        inlined: BTreeSet<String>,
    ) -> Result<App, Box<dyn Error>> {
        let file = object::File::parse(bytes)?;
        let base = BASE;
        let mut places = BTreeMap::new();
        for symbol in file.symbols() {
            if let Some(place) = symbol.name()?.strip_prefix("place_") {
                let place = place.replace("__to__", ">").replace("__works", "!");
                places.insert(place, symbol.address() - base);
            }
        }
        Ok(App {
            build_id,
            size: bytes.len() as u64,
            places,
            inlined,
        })
    }

    /// The addresses (from the image's base) of a chain's frames, innermost first.
    pub fn stack(&self, chain: &[String], again: usize) -> Vec<u64> {
        let mut frames = Vec::new();
        for pair in chain.windows(2) {
            if !self.inlined.contains(&pair[1]) {
                frames.push(self.places[&format!("{}>{}", pair[0], pair[1])]);
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

fn head(name: &str, inlined: &BTreeSet<String>) -> String {
    if name == "main" {
        "int main(int n)".to_owned()
    } else if inlined.contains(name) {
        format!("static inline __attribute__((always_inline)) int {name}(int n)")
    } else {
        format!("__attribute__((noinline, noclone)) int {name}(int n)")
    }
}

fn body(text: &mut String, name: &str, callees: &BTreeSet<&str>, inlined: &BTreeSet<String>) {
    let _ = writeln!(text, "{} {{\n  int sum = n;", head(name, inlined));
    for (at, callee) in callees.iter().enumerate() {
        let _ = writeln!(
            text,
            "  if (here == {at}) {{\n    sum += {callee}(n + {at});"
        );
        if !inlined.contains(*callee) {
            let _ = writeln!(
                text,
                "    __asm__ volatile(\"place_{name}__to__{callee}:\" : \"+r\"(sum));"
            );
        }
        text.push_str("    there = sum;\n  }\n");
    }
    let _ = writeln!(
        text,
        "  while (there > sum) {{\n    sum++;\n    __asm__ volatile(\"nop\\nplace_{name}__works:\" : \"+r\"(sum));\n    there += sum;\n  }}\n  return sum;\n}}"
    );
}
