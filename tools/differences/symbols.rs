//! Names of Mach-O images without debug information, held against `llvm-nm` and `llvm-objdump --function-starts`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use wedjat::symbolicate::{Addresses, DebugFiles};

type Error = Box<dyn std::error::Error>;

/// Addresses drawn past the end of the code, where nothing has a name.
const PAST_THE_END: u64 = 20_000;

/// Prints a row for each architecture of each image, with all symbols and with exported ones alone. Returns true if a name was
/// wrong, or missing where the symbol table has one.
pub fn compare(images: &[String], count: usize) -> Result<bool, Error> {
    println!();
    println!(
        "| image | symbols | addresses | right | known to nobody, not named | not named though known | wrong |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let folder = tempfile::tempdir()?;
    let mut is_worse = false;
    for image in images.iter().map(Path::new) {
        for arch in run("llvm-lipo", &["-archs".as_ref(), image])?.split_whitespace() {
            let truth = Truth::read(image, arch)?;
            let addresses = super::draw(&[(truth.start, truth.end + PAST_THE_END)], count);
            let (thin, stripped) = (folder.path().join("thin"), folder.path().join("stripped"));
            let to_thin = ["-thin".as_ref(), Path::new(arch), "-output".as_ref(), &thin];
            // An image of one architecture has nothing to take out.
            let is_fat = run("llvm-lipo", &[&[image][..], &to_thin].concat()).is_ok();
            let source = if is_fat { &thin } else { image };
            let to_strip = ["-x".as_ref(), "-o".as_ref(), stripped.as_path(), source];
            run("llvm-strip", &to_strip)?;
            for (file, symbols) in [(image, "all"), (stripped.as_path(), "exported ones")] {
                let mut files = DebugFiles::new().no_search();
                files.add(file)?;
                let names = Addresses::new(&files, Some(arch), None)?;
                let is_whole = file == image;
                let (mut right, mut quiet, mut missed, mut wrong) = (0, 0, 0, 0);
                for &address in &addresses {
                    let known = truth.at(address);
                    let frames = names.frames(address);
                    match frames.first().and_then(|frame| frame.mangled.as_deref()) {
                        Some(name)
                            if known.is_some_and(|known| {
                                let is_merged = name.starts_with("merged ") && known.len() > 1;
                                is_merged || known.contains(name)
                            }) =>
                        {
                            right += 1;
                        }
                        Some(name) => {
                            println!("WRONG {address:#x}: {name}, not {known:?}");
                            wrong += 1;
                        }
                        None if known.is_some() && is_whole => missed += 1,
                        None => quiet += 1,
                    }
                }
                is_worse |= wrong > 0 || missed > 0;
                let name = image.file_name().unwrap_or_default().to_string_lossy();
                println!(
                    "| {name} {arch} | {symbols} | {} | {right} | {quiet} | {missed} | {wrong} |",
                    addresses.len()
                );
            }
        }
    }
    Ok(is_worse)
}

/// Symbols and functions of one architecture, by LLVM's tools.
struct Truth {
    names: BTreeMap<u64, BTreeSet<String>>,
    functions: BTreeSet<u64>,
    start: u64,
    end: u64,
}

impl Truth {
    fn read(image: &Path, arch: &str) -> Result<Self, Error> {
        let arch = format!("--arch={arch}");
        let mut names: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for line in run("llvm-nm", &[arch.as_ref(), image])?.lines() {
            let mut words = line.splitn(3, ' ');
            if let (Some(address), Some("t" | "T"), Some(name)) =
                (words.next(), words.next(), words.next())
            {
                let address = u64::from_str_radix(address, 16)?;
                names.entry(address).or_default().insert(plain(name).into());
            }
        }
        let objdump = |what: &str| {
            let words = ["--macho".as_ref(), what.as_ref(), arch.as_ref(), image];
            run("llvm-objdump", &words)
        };
        let functions = objdump("--function-starts")?
            .lines()
            .filter(|line| line.len() == 16)
            .filter_map(|line| u64::from_str_radix(line, 16).ok())
            .collect();
        let headers = objdump("--private-headers")?;
        let (_, section) = headers.split_once("sectname __text\n").ok_or("no __text")?;
        let field = |name: &str| {
            let mut lines = section.lines().map(str::trim);
            let value = lines.find_map(|line| line.strip_prefix(name)?.trim().strip_prefix("0x"));
            u64::from_str_radix(value.unwrap_or_default(), 16)
        };
        let start = field("addr ")?;
        Ok(Self {
            names,
            functions,
            start,
            end: start + field("size ")?,
        })
    }

    /// Names of the function at `address`: the last symbol at or before it, if that lies in the function.
    fn at(&self, address: u64) -> Option<&BTreeSet<String>> {
        let function = *self.functions.range(..=address).next_back()?;
        let (_, names) = self.names.range(function..=address).next_back()?;
        (self.start..self.end).contains(&address).then_some(names)
    }
}

/// A name without the underscore that Mach-O puts before each.
fn plain(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// Output of a tool of LLVM; Debian has some of them with the version in their name alone.
fn run(tool: &str, words: &[&Path]) -> Result<String, Error> {
    let versions = (14..30).rev().map(|version| format!("{tool}-{version}"));
    for name in std::iter::once(tool.to_owned()).chain(versions) {
        match Command::new(&name).args(words).output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Ok(output) if output.status.success() => return Ok(String::from_utf8(output.stdout)?),
            Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).into()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(format!("{tool} is missing: apt-get install llvm").into())
}
