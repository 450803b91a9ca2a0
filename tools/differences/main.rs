//! Where wedjat, `llvm-symbolizer` and the addr2line crate differ, over real debug files.
//!
//! ```text
//! cargo run --release --example differences -- [--addresses N] [--show KIND] [--check] [NAME=]DEBUG_FILE[:ARCH]...
//!     [--symbols IMAGE...]
//! ```
//! prints a table: for each file, N addresses drawn over its functions and N over its whole text
//! (seeded, so that a run can be repeated), and how often each pair agrees on the whole chain of
//! inlined frames: linkage name, file and line of each; and a second table: for each kind of
//! difference, who is right by `llvm-dwarfdump --lookup`. `--show KIND` prints examples of one kind. A table of printed names has
//! each kind of difference that is accepted; any other one fails the run.
//! `--check` fails where llvm-symbolizer alone is right. Images after `--symbols` have no debug information: the third table
//! compares names from their symbol tables, and a wrong one fails the run.
//! `scripts/differences` runs it over the whole corpus.

mod judge;
mod kind;
mod names;
mod symbols;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::{Object, ObjectSection};
use wedjat::symbolicate::{Addresses, DebugFiles, SourceFrame};

/// A frame as all three have it: linkage name, file, line.
type Frame = (String, String, u32);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut count = 100_000;
    let mut show = None;
    let mut is_check = false;
    let (mut files, mut images) = (Vec::new(), Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--addresses" => count = args.next().ok_or("--addresses N")?.parse()?,
            "--check" => is_check = true,
            "--show" => show = Some(args.next().ok_or("--show KIND")?),
            "--symbols" => images.extend(args.by_ref()),
            _ => files.push(arg),
        }
    }
    println!(
        "| file | drawn over | addresses | same as llvm-symbolizer | same as addr2line | what differs from llvm-symbolizer |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let (mut verdicts, mut names) = (BTreeMap::new(), names::Kinds::default());
    for file in &files {
        let (name, file) = match file.split_once('=') {
            Some((name, file)) => (Some(name), file),
            None => (None, file.as_str()),
        };
        let (path, arch) = match file.rsplit_once(':') {
            Some((path, arch)) => (PathBuf::from(path), Some(arch)),
            None => (PathBuf::from(file), None),
        };
        compare(
            &path,
            arch,
            name,
            count,
            show.as_deref(),
            &mut verdicts,
            &mut names,
        )?;
    }
    judge::print(&verdicts);
    let is_worse = verdicts.values().any(|(_, verdict)| verdict.llvm > 0);
    if is_check && is_worse {
        return Err("llvm-symbolizer alone is right in the kinds above that say so".into());
    }
    if names.print() {
        return Err("names differ in ways that docs/measured/differences.md does not have".into());
    }
    if symbols::compare(&images, count)? {
        return Err("a symbol table gave a wrong name, or none where it has one".into());
    }
    Ok(())
}

fn compare(
    path: &Path,
    arch: Option<&str>,
    name: Option<&str>,
    count: usize,
    show: Option<&str>,
    verdicts: &mut BTreeMap<(String, &'static str), (usize, judge::Verdict)>,
    names: &mut names::Kinds,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut files = DebugFiles::new().no_search();
    files.add(path)?;
    let ours = Addresses::new(&files, arch, None)?;
    let data = std::fs::read(path)?;
    let slice = slice(&data, arch)?;
    let object = object::File::parse(slice)?;
    // For the whole run: the reader of addr2line then needs no owner.
    let load = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
        let data = object
            .section_by_name(id.name())
            .and_then(|s| s.uncompressed_data().ok())
            .unwrap_or_default();
        Ok(Reader::new(
            Vec::leak(data.into_owned()),
            gimli::RunTimeEndian::Little,
        ))
    };
    let mut dwarf = gimli::Dwarf::load(load)?;
    if let Some(shared) = dwz_file(path, &object)? {
        let shared = object::File::parse(&*Vec::leak(shared))?;
        dwarf.load_sup(|id| -> Result<Reader, gimli::Error> {
            let section = shared.section_by_name(id.name());
            let data = section.and_then(|s| s.uncompressed_data().ok());
            let data = Vec::leak(data.unwrap_or_default().into_owned());
            Ok(Reader::new(data, gimli::RunTimeEndian::Little))
        })?;
    }
    let mut functions = Vec::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag() == gimli::DW_TAG_subprogram {
                let mut ranges = dwarf.die_ranges(&unit, entry)?;
                while let Some(range) = ranges.next()? {
                    functions.push((range.begin, range.end));
                }
            }
        }
    }
    let text: Vec<(u64, u64)> = object
        .sections()
        .filter(|s| is_code(s) && s.size() > 0)
        .map(|s| (s.address(), s.address() + s.size()))
        .collect();
    functions
        .retain(|&(start, end)| start < end && text.iter().any(|&(a, b)| a <= start && start < b));
    let context = addr2line::Context::from_dwarf(dwarf)?;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = match (name, arch) {
        (Some(name), _) => name.to_owned(),
        (None, Some(arch)) => format!("{file_name} {arch}"),
        (None, None) => file_name.into_owned(),
    };
    let mut all: BTreeMap<&'static str, judge::Case> = BTreeMap::new();
    let mut chains = names::Chains::default();
    for (over, ranges) in [("functions", &functions), ("text", &text)] {
        let addresses = draw(ranges, count);
        let theirs = llvm(path, arch, &addresses)?;
        let mut kinds: BTreeMap<&'static str, usize> = BTreeMap::new();
        let (mut same_llvm, mut same_addr2line) = (0, 0);
        for (&address, llvm) in addresses.iter().zip(&theirs) {
            let frames = ours.frames(address);
            let wedjat = chain(&frames);
            chains.add(address, &frames, llvm);
            let addr2line = addr2line_at(&context, address);
            same_addr2line += usize::from(wedjat == addr2line);
            let kind = kind::of(&wedjat, llvm);
            if kind == "same" {
                same_llvm += 1;
            } else {
                let seen = kinds.entry(kind).or_default();
                *seen += 1;
                all.entry(kind).or_default().add(address, &wedjat, llvm);
                if show.is_some_and(|show| kind.contains(show)) && *seen <= 8 {
                    eprintln!(
                        "{kind} {address:#x}\n  wedjat    {wedjat:?}\n  llvm      {llvm:?}\n  addr2line {addr2line:?}"
                    );
                }
            }
        }
        let kinds: Vec<String> = kinds
            .iter()
            .map(|(kind, n)| format!("{n} {kind}"))
            .collect();
        println!(
            "| {name} | {over} | {} | {same_llvm} | {same_addr2line} | {} |",
            addresses.len(),
            kinds.join(", ")
        );
    }
    chains.compare(&name, &object, names)?;
    for (kind, case) in all {
        let verdict = case.judge(path, arch);
        verdicts.insert((name.clone(), kind), (case.seen, verdict));
    }
    Ok(())
}

/// The file that dwz made several debug files share, in the `.dwz` of a folder above.
fn dwz_file(path: &Path, object: &object::File) -> Result<Option<Vec<u8>>, std::io::Error> {
    let Ok(Some((link, _))) = object.gnu_debugaltlink() else {
        return Ok(None);
    };
    let link = String::from_utf8_lossy(link).into_owned();
    let Some((_, below)) = link.split_once("/.dwz/") else {
        return Ok(None);
    };
    let mut places = path.ancestors().map(|a| a.join(".dwz").join(below));
    places.find(|p| p.is_file()).map(std::fs::read).transpose()
}

/// Debug files without the code itself still say which sections it was in.
fn is_code<'data>(section: &impl ObjectSection<'data>) -> bool {
    match section.flags() {
        object::SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(object::elf::SHF_EXECINSTR),
        _ => section.kind() == object::SectionKind::Text,
    }
}

type Reader = gimli::EndianSlice<'static, gimli::RunTimeEndian>;

fn slice<'a>(data: &'a [u8], arch: Option<&str>) -> Result<&'a [u8], Box<dyn std::error::Error>> {
    use object::read::macho::FatArch;
    let wanted = match arch {
        Some("x86_64") => object::Architecture::X86_64,
        _ => object::Architecture::Aarch64,
    };
    if let Ok(fat) = object::read::macho::MachOFatFile32::parse(data) {
        let arch = fat
            .arches()
            .iter()
            .find(|a| a.architecture() == wanted)
            .ok_or("no such slice")?;
        return Ok(arch.data(data)?);
    }
    Ok(data)
}

/// Addresses drawn uniformly over the bytes of `ranges`, by a fixed seed.
fn draw(ranges: &[(u64, u64)], count: usize) -> Vec<u64> {
    let mut ends = Vec::with_capacity(ranges.len());
    let mut total = 0u64;
    for (start, end) in ranges {
        total += end - start;
        ends.push(total);
    }
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    if total == 0 {
        return Vec::new();
    }
    (0..count)
        .map(|_| {
            let at = next() % total;
            let index = ends.partition_point(|&end| end <= at);
            ranges[index].1 - (ends[index] - at)
        })
        .collect()
}

fn chain(frames: &[SourceFrame]) -> Vec<Frame> {
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().unwrap_or("").to_owned();
    frames
        .iter()
        .map(|f| (text(&f.mangled), text(&f.file), f.line.unwrap_or(0)))
        .collect()
}

fn addr2line_at(context: &addr2line::Context<Reader>, address: u64) -> Vec<Frame> {
    let mut result = Vec::new();
    let Ok(mut frames) = context.find_frames(address).skip_all_loads() else {
        return result;
    };
    while let Ok(Some(frame)) = frames.next() {
        let name = frame
            .function
            .and_then(|f| Some(f.raw_name().ok()?.into_owned()))
            .unwrap_or_default();
        let (file, line) = frame.location.map_or((String::new(), 0), |l| {
            (l.file.unwrap_or_default().to_owned(), l.line.unwrap_or(0))
        });
        result.push((name, file, line));
    }
    result
}

fn llvm(
    path: &Path,
    arch: Option<&str>,
    addresses: &[u64],
) -> Result<Vec<Vec<Frame>>, Box<dyn std::error::Error>> {
    let mut command = Command::new("llvm-symbolizer");
    command.args([
        "--inlines",
        "--no-demangle",
        "--functions=linkage",
        "--output-style=LLVM",
    ]);
    command.arg("--obj").arg(path);
    if let Some(arch) = arch {
        command.arg(format!("--default-arch={arch}"));
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("no stdin")?;
    let lines: String = addresses.iter().map(|a| format!("{a:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let mut result = Vec::with_capacity(addresses.len());
    let mut frames = Vec::new();
    let mut name: Option<String> = None;
    for line in BufReader::new(child.stdout.take().ok_or("no stdout")?).lines() {
        let line = line?;
        match name.take() {
            _ if line.is_empty() => result.push(std::mem::take(&mut frames)),
            None => name = Some(line),
            Some(function) => {
                let known = |text: &str| {
                    if text == "??" {
                        String::new()
                    } else {
                        text.to_owned()
                    }
                };
                let mut parts = line.rsplitn(3, ':');
                let (_column, number, file) = (parts.next(), parts.next(), parts.next());
                frames.push((
                    known(&function),
                    known(file.unwrap_or("")),
                    number.unwrap_or("0").parse().unwrap_or(0),
                ));
            }
        }
    }
    if !frames.is_empty() {
        result.push(frames);
    }
    writer.join().map_err(|_| "writer panicked")??;
    child.wait()?;
    if result.len() != addresses.len() {
        return Err(format!(
            "llvm-symbolizer answered {} of {}",
            result.len(),
            addresses.len()
        )
        .into());
    }
    Ok(result)
}
