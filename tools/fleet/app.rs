//! The app, compiled: each build has its own closures, lines, names of files, order of functions, choice
//! of what is inlined, mangling, and build id.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

use super::random::Random;
use super::stalls::World;
use super::{cpp, rust};

/// What the app is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust, of plain functions and closures.
    Plain,
    /// Rust, of async functions and blocks, with debug information of this level.
    Async(&'static str),
    /// C++: functions, methods, templates and lambdas.
    Cpp,
}

impl Language {
    pub fn is_async(self) -> bool {
        matches!(self, Language::Async(_))
    }
}

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
    /// Start and end of each function of the symbol table.
    functions: Vec<(u64, u64)>,
    turned: BTreeSet<(String, String)>,
}

/// What one build does differently.
pub struct Build<'a> {
    pub world: &'a World,
    pub language: Language,
    /// Number of the build.
    pub index: usize,
    pub random: Random,
    /// Functions that are to be inlined.
    pub inlined: BTreeSet<String>,
    pub calls: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl App {
    /// Compiles version `index` into `folder`.
    pub fn compile(
        world: &World,
        language: Language,
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
            language,
            index,
            random,
            inlined,
            calls,
        };
        std::fs::create_dir_all(folder)?;
        let program = folder.join("till");
        let mut compiler = match language {
            Language::Cpp => cpp::compiler(&mut build, folder)?,
            _ => rust::compiler(&mut build, folder)?,
        };
        let output = compiler
            .arg(id_argument(language, &digits))
            .arg("-o")
            .arg(&program)
            .output()?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{compiler:?}: {}\n{errors}", output.status).into());
        }
        App::read(&std::fs::read(&program)?, build_id, world.turned.clone())
    }

    /// The places, from the symbol table alone: what the symbolicator makes of the debug information
    /// plays no part.
    fn read(
        bytes: &[u8],
        build_id: [u8; 20],
        turned: BTreeSet<(String, String)>,
    ) -> Result<App, Box<dyn Error>> {
        let file = object::File::parse(bytes)?;
        let mut places = BTreeMap::new();
        let mut functions = Vec::new();
        for symbol in file.symbols() {
            if symbol.kind() == SymbolKind::Text && symbol.size() > 0 {
                let start = symbol.address().wrapping_sub(BASE);
                functions.push((start, start + symbol.size()));
            }
            if let Some(place) = symbol.name()?.strip_prefix("place_") {
                let place = place.replace("__to__", ">").replace("__by__", "@");
                let place = place.replace("__works", "!");
                places.insert(place, symbol.address() - BASE);
            }
        }
        functions.sort_unstable();
        let text = file.section_by_name(".text").ok_or("no code")?;
        let (start, code) = (text.address() - BASE, text.data()?);
        let begins = |at: u64| functions.binary_search_by_key(&at, |of| of.0).is_ok();
        for (name, place) in &mut places {
            if !name.ends_with('!') {
                *place = returns(code, *place - start, |at| begins(start + at)) + start;
            }
        }
        Ok(App {
            build_id,
            size: bytes.len() as u64,
            places,
            functions,
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
            // A function that calls another one at its end returns nowhere.
            let Some(&returns) = self.places.get(&format!("{from}>{to}")) else {
                continue;
            };
            // An inlined function has no frame of its own.
            let works = self.places[&format!("{to}!")];
            if self.function_of(returns) != self.function_of(works) {
                frames.push(returns);
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

    fn function_of(&self, offset: u64) -> Option<(u64, u64)> {
        let after = self
            .functions
            .partition_point(|&(start, _)| start <= offset);
        let function = *self.functions.get(after.checked_sub(1)?)?;
        (offset < function.1).then_some(function)
    }
}

/// Offset of the instruction after the call that is next before a place; the place itself without one.
fn returns(code: &[u8], place: u64, begins: impl Fn(u64) -> bool) -> u64 {
    const NEAR: u64 = 40;
    let mut ends = (place.saturating_sub(NEAR).max(5)..=place).rev();
    let is_call = |end: &u64| {
        let call = &code[*end as usize - 5..*end as usize];
        let distance = i32::from_le_bytes([call[1], call[2], call[3], call[4]]);
        call[0] == 0xe8 && begins(end.wrapping_add_signed(distance.into()))
    };
    ends.find(is_call).unwrap_or(place)
}

fn id_argument(language: Language, digits: &str) -> String {
    let id = format!("-Wl,--build-id=0x{digits}");
    match language {
        Language::Cpp => id,
        _ => format!("-Clink-arg={id}"),
    }
}

/// Where the linker puts a program that is not moved.
pub const BASE: u64 = 0x40_0000;

/// The module of a function; the root's are in none. But in the plain app, each thing that users do has a module of its own,
/// as handlers of requests have.
pub fn module(language: Language, name: &str) -> Option<String> {
    let (kind, number) = name.split_once('_')?;
    let module = match kind {
        "screen" => "screens",
        "feature" => "features",
        "helper" => "helpers",
        "step" | "work" => "steps",
        _ => return None,
    };
    let has_its_own = language != Language::Plain && matches!(module, "steps" | "features");
    Some(if has_its_own {
        format!("{module}_{number}")
    } else {
        module.to_owned()
    })
}

impl Build<'_> {
    /// The functions in the order of this build.
    pub fn order(&mut self) -> Vec<String> {
        let mut order: Vec<String> = self.calls.keys().map(|&name| name.to_owned()).collect();
        self.random.shuffle(&mut order);
        order
    }

    /// The file of a module: of the plain app renamed in each build. Of the others, whose lambdas and async functions may
    /// have no name but their file's, one in twenty is.
    pub fn file(&mut self, folder: &Path, module: &str, extension: &str) -> PathBuf {
        let is_renamed =
            self.index > 0 && (self.language == Language::Plain || self.random.chance(0.05));
        folder.join(if is_renamed {
            format!("{module}_of_{}.{extension}", self.index)
        } else {
            format!("{module}.{extension}")
        })
    }

    /// Whether a function ends by calling another one, as every second build has it: its frame is not on the stack then.
    pub fn is_tail_call(&self, from: &str, to: &str) -> bool {
        let sum: u32 = from.bytes().chain(to.bytes()).map(u32::from).sum();
        let is_possible = from != "main" && from != to && !self.language.is_async();
        let is_call = !self.inlined.contains(from) && !self.world.is_turned(from, to);
        self.index % 2 == 1 && is_possible && is_call && sum % 5 < 2
    }

    /// The functions that a function calls.
    pub fn callees(&self, name: &str) -> Vec<String> {
        self.calls[name]
            .iter()
            .map(|&name| name.to_owned())
            .collect()
    }
}
