//! Printed names of functions, held against those of llvm-symbolizer, and the kinds of differences that are accepted.
//!
//! llvm-symbolizer's names are demangled by `llvm-cxxfilt`, and Swift's by `swift-demangle -simplified`; without that tool these
//! are compared as they are mangled. Of C++ and Rust neither return types, parameters, template arguments and qualifiers count
//! nor numbers of lambdas, which the demanglers spell in different ways. Versions of symbols are cut, and so are numbers of
//! blocks and the underscore that Mach-O puts before each symbol. A printed name is cut at 4,096 bytes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use object::{Object, ObjectSymbol};
use wedjat::symbolicate::SourceFrame;

use super::Frame;

/// The kinds of differences that are accepted; docs/measured/differences.md has the reason of each.
const MERGED: &str = "one of the functions that are one code";
const CHOSEN: &str = "the function that the code chooses as a program starts (IFUNC)";
const ALIAS: &str = "another symbol of the same function";
const LABEL: &str = "a symbol within the function";
const NOTHING: &str = "the nearest symbol, where no function is";
const SCOPES: &str = "the name without its scopes";
const HIDDEN: &str = "a number in place of the name";
const DEEP: &str = "demangled, where ours is mangled";

/// Differences of each kind: how many addresses, and one of them.
#[derive(Default)]
pub struct Kinds {
    accepted: BTreeMap<&'static str, (usize, String)>,
    others: Vec<(usize, String)>,
}

impl Kinds {
    /// Prints the table. Returns true if there are differences of no accepted kind.
    pub fn print(&self) -> bool {
        println!("\n| llvm-symbolizer's name is | addresses | for example |\n| --- | ---: | --- |");
        for (kind, (count, example)) in &self.accepted {
            println!("| {kind} | {count} | {example} |");
        }
        for (count, example) in &self.others {
            println!("NOT ACCEPTED, {count}: {example}");
        }
        !self.others.is_empty()
    }
}

/// A function: its printed name, and as the file has it.
type Printed = [Arc<str>; 2];

/// Names of inlined frames and their function at the addresses of one file, innermost first.
#[derive(Default)]
pub struct Chains {
    /// Of equal ones, how many there are, and the first address.
    seen: HashMap<(Vec<Printed>, Vec<String>), (usize, u64)>,
}

impl Chains {
    pub fn add(&mut self, address: u64, ours: &[SourceFrame], llvm: &[Frame]) {
        let text = |text: &Option<Arc<str>>| text.clone().unwrap_or_default();
        let ours = ours.iter().map(|f| [text(&f.function), text(&f.mangled)]);
        let llvm = llvm.iter().map(|frame| frame.0.clone());
        let chains = (ours.collect(), llvm.collect());
        self.seen.entry(chains).or_insert((0, address)).0 += 1;
    }

    /// Adds the differences of this file.
    pub fn compare(
        &self,
        name: &str,
        object: &object::File<'_>,
        kinds: &mut Kinds,
    ) -> Result<(), Box<dyn Error>> {
        let symbols = Symbols::read(object);
        let mangled: BTreeSet<&str> = self
            .seen
            .keys()
            .flat_map(|(_, llvm)| llvm.iter().map(String::as_str))
            .collect();
        let demangled = demangled(&mangled.into_iter().collect::<Vec<_>>())?;
        for ((ours, llvm), &(count, address)) in &self.seen {
            let is_known = llvm.iter().any(|name| !name.is_empty());
            let pairs: Vec<_> = match (ours.len(), llvm.len()) {
                (0, 1) if is_known => vec![(Printed::default(), &llvm[0])],
                (0, _) if !is_known => Vec::new(),
                (one, other) if one == other => ours.iter().cloned().zip(llvm).collect(),
                _ => {
                    kinds
                        .others
                        .push((count, format!("{name} {address:#x}: {ours:?}, {llvm:?}")));
                    continue;
                }
            };
            for ([printed, own], theirs) in pairs {
                let demangled = demangled[&**theirs].as_deref();
                if is_same(&printed, &own, theirs, demangled) {
                    continue;
                }
                let shown = demangled.unwrap_or(theirs);
                let example = format!("{name} {address:#x}: `{printed:.900}`, not `{shown:.900}`");
                match kind(&printed, &own, theirs, shown, address, &symbols) {
                    Some(kind) => kinds.accepted.entry(kind).or_insert((0, example)).0 += count,
                    None => kinds.others.push((count, example)),
                }
            }
        }
        Ok(())
    }
}

fn is_same(printed: &str, own: &str, theirs: &str, demangled: Option<&str>) -> bool {
    let Some(demangled) = demangled else {
        // The names of merged code are there in their source form alone.
        return printed.starts_with("merged ") || plain(own) == plain(theirs);
    };
    let is_cut = printed.ends_with('…') && plain(own) == plain(theirs);
    let is_block = own.contains("_block_invoke");
    let without_number = |text: &str| match text.rfind(" (.") {
        Some(at) if is_block => text[..at].to_owned(),
        _ => text.to_owned(),
    };
    // Labels are a part of Swift's names.
    let compared = |text: &str| {
        let is_swift = is_swift(plain(own)) || is_swift(plain(theirs));
        if is_swift {
            text.to_owned()
        } else {
            without_number(&normal(text))
        }
    };
    is_cut || compared(printed) == compared(demangled)
}

/// The accepted kind of a difference; `None` where llvm-symbolizer may be right.
fn kind(
    printed: &str,
    own: &str,
    theirs: &str,
    shown: &str,
    address: u64,
    symbols: &Symbols,
) -> Option<&'static str> {
    let without_brackets = |name: &str| name.replace(['<', '>'], "");
    if let Some(list) = printed.strip_prefix("merged ") {
        let shown = shown.trim_start_matches("specialized ");
        let theirs = [shown, &normal(shown)].map(without_brackets);
        let list = without_brackets(list);
        return list
            .split(", ")
            .any(|one| theirs.iter().any(|name| name == one))
            .then_some(MERGED);
    }
    if printed.is_empty() {
        let is_hidden = theirs.starts_with("__hidden#");
        let kind = if is_hidden { HIDDEN } else { NOTHING };
        return (is_hidden || !symbols.is_in_function(address)).then_some(kind);
    }
    if plain(own) == plain(theirs) {
        return (printed == own).then_some(DEEP);
    }
    let of_theirs = symbols.addresses(theirs);
    if of_theirs.is_empty() {
        return normal(printed)
            .ends_with(&format!("::{}", normal(shown)))
            .then_some(SCOPES);
    }
    if of_theirs
        .range(..=address)
        .next_back()
        .is_some_and(|begin| symbols.chosen.contains(begin))
    {
        return Some(CHOSEN);
    }
    let of_ours = symbols.addresses(own);
    if of_ours.intersection(&of_theirs).next().is_some() {
        return Some(ALIAS);
    }
    let is_within = |begin: &u64| {
        let inner = of_theirs.range(begin + 1..=address).next_back();
        inner.is_some() && symbols.ends(*begin).is_none_or(|end| address < end)
    };
    of_ours.iter().any(is_within).then_some(LABEL)
}

/// The symbols of a file.
struct Symbols {
    by_name: HashMap<String, BTreeSet<u64>>,
    /// The end of each that has a size, by its address.
    sized: BTreeMap<u64, u64>,
    /// Where code begins that chooses a function as a program starts.
    chosen: BTreeSet<u64>,
}

impl Symbols {
    fn read(object: &object::File<'_>) -> Self {
        let (mut by_name, mut sized) = (HashMap::<String, BTreeSet<u64>>::new(), BTreeMap::new());
        let mut chosen = BTreeSet::new();
        for symbol in object.symbols().filter(|symbol| !symbol.is_undefined()) {
            let address = symbol.address();
            let name =
                String::from_utf8_lossy(symbol.name_bytes().unwrap_or_default()).into_owned();
            by_name
                .entry(plain(&name).to_owned())
                .or_default()
                .insert(address);
            if matches!(symbol.flags(), object::SymbolFlags::Elf { st_info, .. } if st_info.0 & 0xf == object::elf::STT_GNU_IFUNC.0)
            {
                chosen.insert(address);
            }
            if symbol.size() > 0 {
                let end = sized.entry(address).or_insert(0);
                *end = (*end).max(address + symbol.size());
            }
        }
        Self {
            by_name,
            sized,
            chosen,
        }
    }

    fn addresses(&self, name: &str) -> BTreeSet<u64> {
        self.by_name.get(plain(name)).cloned().unwrap_or_default()
    }

    fn ends(&self, begin: u64) -> Option<u64> {
        self.sized.get(&begin).copied()
    }

    fn is_in_function(&self, address: u64) -> bool {
        let before = self.sized.range(..=address).next_back();
        before.is_some_and(|(_, &end)| address < end)
    }
}

/// A name without the version of its symbol, and without Mach-O's underscore.
fn plain(name: &str) -> &str {
    let name = name.split('@').next().unwrap_or(name);
    let rest = name.strip_prefix('_').unwrap_or(name);
    let is_mangled =
        rest.starts_with("_Z") || rest.starts_with('$') || rest.starts_with("OUTLINED_");
    if is_mangled { rest } else { name }
}

/// A name of C++ or Rust without what demanglers spell in different ways; any other as it is, without its version.
fn normal(name: &str) -> String {
    let name = plain(name);
    if name.starts_with("-[") || name.starts_with("+[") || !name.contains(['<', '(', ':', ' ']) {
        return name.to_owned();
    }
    let (name, suffix) = name.split_at(name.find(" (.").unwrap_or(name.len()));
    let mut text = name.replace("(anonymous namespace)", "{anonymous}");
    for (words, one) in [
        ("virtual thunk to ", "virtual-thunk-to-"),
        ("invocation function for block in ", "block-in-"),
    ] {
        text = text.replace(words, one);
    }
    for (begin, end, one) in [
        ("'lambda", "'", "{lambda}"),
        ("'unnamed", "'", "{unnamed}"),
        ("{unnamed type#", "}", "{unnamed}"),
        ("[abi:", "]", ""),
    ] {
        text = replaced(&text, begin, end, one);
    }
    let mut text = replaced(&without_brackets(&text), "{lambda#", "}", "{lambda}");
    while let Some(at) = [" const", " volatile", " &", " &&"]
        .iter()
        .find(|end| text.ends_with(**end))
    {
        text.truncate(text.len() - at.len());
    }
    // The type that a function returns is before its name.
    let word = if text.starts_with('<') {
        None
    } else {
        text.rsplit_once(' ')
    };
    word.map_or(&*text, |(_, word)| word).to_owned() + suffix
}

fn replaced(text: &str, begin: &str, end: &str, one: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((front, after)) = rest.split_once(begin) {
        let Some((_, behind)) = after.split_once(end) else {
            break;
        };
        out += front;
        out += one;
        rest = behind;
    }
    out + rest
}

/// Without what is within brackets, except for the type of a method of Rust, with which the name begins. Operators stay.
fn without_brackets(text: &str) -> String {
    let mut out = String::new();
    let (mut depth, mut rest, mut last) = (0, text, ' ');
    while let Some(c) = rest.chars().next() {
        let operator = rest
            .strip_prefix("operator")
            .filter(|_| !last.is_alphanumeric() && last != '_');
        if let Some(after) = operator.filter(|_| depth == 0) {
            let is_call = after.starts_with("()");
            let is_sign = |c: char| "<>=!+-*/&|^~,%[]".contains(c);
            let length = if is_call {
                2
            } else {
                let length = after.find(|c| !is_sign(c)).unwrap_or(after.len());
                // `operator<<<char>(` is `<<` and its template argument.
                let opens =
                    after[..length].ends_with('<') && !after[length..].starts_with(['(', ' ']);
                length - usize::from(opens && length > 1)
            };
            let signs = &after[..length];
            out += "operator";
            out += &signs
                .replace('<', "lt")
                .replace('>', "gt")
                .replace("()", "call");
            // `operator bool`, `operator<< <char>`
            let (behind, is_type) = (&after[length..], length == 0 && after.starts_with(' '));
            let behind = if is_call { behind } else { behind.trim_start() };
            out += if is_type { "-" } else { "" };
            (rest, last) = (behind, ' ');
            continue;
        }
        let is_arrow = c == '>' && last == '-';
        let is_first = c == '<' && out.is_empty() && depth == 0 && rest.len() == text.len();
        match c {
            '<' | '(' if !is_first => depth += 1,
            '>' | ')' if depth > 0 && !is_arrow => depth -= 1,
            _ if depth == 0 => out.push(c),
            _ => {}
        }
        (rest, last) = (&rest[c.len_utf8()..], c);
    }
    out
}

/// Each name in its source form; `None` for one of Swift where `swift-demangle` is missing.
fn demangled<'n>(names: &[&'n str]) -> Result<HashMap<&'n str, Option<String>>, Box<dyn Error>> {
    let (swift, others): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| is_swift(plain(name)));
    let others = others.iter().copied().zip(
        filtered("llvm-cxxfilt", &[], &others)?
            .into_iter()
            .map(Some),
    );
    let mut all: HashMap<&str, Option<String>> = others.collect();
    match filtered("swift-demangle", &["-simplified"], &swift) {
        Ok(texts) => all.extend(swift.into_iter().zip(texts.into_iter().map(Some))),
        Err(_) => all.extend(swift.into_iter().map(|name| (name, None))),
    }
    Ok(all)
}

fn is_swift(name: &str) -> bool {
    ["$s", "$S", "$e", "_T"]
        .iter()
        .any(|begin| name.starts_with(begin))
}

/// What a filter makes of each line.
fn filtered(tool: &str, words: &[&str], lines: &[&str]) -> Result<Vec<String>, Box<dyn Error>> {
    let mut command = Command::new(tool);
    command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("{tool}: {error}"))?;
    let mut input = child.stdin.take().ok_or("no stdin")?;
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| "writer panicked")??;
    let found: Vec<String> = String::from_utf8(output.stdout)?
        .lines()
        .map(str::to_owned)
        .collect();
    if found.len() != lines.len() {
        return Err(format!("{tool} answered {} of {}", found.len(), lines.len()).into());
    }
    Ok(found)
}
