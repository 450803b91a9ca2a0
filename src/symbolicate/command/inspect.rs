//! `--inspect`: the contents of a debug file or a report.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

use addr2line::gimli;
use object::Object as _;
use walkdir::WalkDir;

use super::parsed::readings;
use super::unpack::{self, Packing};
use crate::functions::ImageFile as _;
use crate::report::{self, limits};
use crate::symbolicate::debug_info::dwarf::DwarfSections;
use crate::symbolicate::debug_info::{checked_units, symbols};
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::object_file::{self, ObjectFile};
use crate::symbolicate::files::search;
use crate::symbolicate::format::plain;
use crate::symbolicate::{Error, id_text, import};

/// The contents of a file or a folder, in words.
#[derive(Default)]
pub(super) struct Inspected {
    pub text: String,
    /// True if a report in it is damaged.
    pub damaged: bool,
}

pub(super) fn inspect(path: &Path, input: &mut dyn Read) -> Result<Inspected, Error> {
    if path == Path::new("-") {
        let path = Path::new("standard input");
        let limit = limits::REPORT_BYTES as u64 + 1;
        let mut bytes = Vec::new();
        let read = input.take(limit).read_to_end(&mut bytes);
        read.map_err(|error| Error::io(path, error))?;
        if bytes.len() as u64 == limit {
            return Err(Error::bad_file(path, "longer than a report: give a file"));
        }
        return inspect_bytes(path, SharedBytes::from(bytes));
    }
    if !path.is_dir() {
        return inspect_bytes(path, SharedBytes::map(path)?);
    }
    let files = debug_files(path);
    if files.is_empty() {
        return Err(Error::bad_file(path, "no debug files in it"));
    }
    let mut all = Inspected::default();
    for file in &files {
        // An unreadable file does not prevent the others from being listed.
        match SharedBytes::map(file).and_then(|bytes| inspect_bytes(file, bytes)) {
            Ok(found) => all.text.push_str(&found.text),
            Err(error) => {
                let _ = writeln!(all.text, "{}", plain(&error.to_string()));
            }
        }
    }
    Ok(all)
}

fn inspect_bytes(path: &Path, bytes: SharedBytes) -> Result<Inspected, Error> {
    let mut found = Inspected::default();
    let text = &mut found.text;
    let (name, len) = (path.display().to_string(), bytes.len());
    let _ = writeln!(text, "{}: {len} bytes", plain(&name));
    let bytes = match Packing::of(&bytes) {
        Some(packing) => {
            let unpacked =
                unpack::unpacked(packing, &bytes).map_err(|error| Error::bad_file(path, error))?;
            let len = unpacked.len();
            let _ = writeln!(text, "  packed by {packing}: {len} bytes in it");
            SharedBytes::from(unpacked)
        }
        None => bytes,
    };
    if object_file::looks_like_object(&bytes) {
        for object in object_file::open_bytes(path, bytes)? {
            describe(&object, text);
        }
        return Ok(found);
    }
    let readings = match import::detect(&bytes) {
        Some(layout) => {
            let _ = writeln!(text, "  layout: {}", layout.as_str());
            import::read(&bytes).map_err(|error| Error::bad_file(path, error))?
        }
        None => {
            let (sound, mut broken): (Vec<_>, Vec<_>) = readings(&bytes).partition(Result::is_ok);
            found.damaged |= !broken.is_empty();
            if sound.is_empty()
                && let Some(Err(error)) = broken.pop()
            {
                return Err(Error::bad_file(path, error));
            }
            sound.into_iter().flatten().collect()
        }
    };
    for reading in &readings {
        describe_report(reading, text);
        found.damaged |= !reading.damage.is_empty();
    }
    Ok(found)
}

/// The debug files in a folder and those below it, in order of name. Links to folders are not followed.
fn debug_files(folder: &Path) -> Vec<PathBuf> {
    let entries = WalkDir::new(folder).max_depth(64).sort_by_file_name();
    let paths = entries
        .into_iter()
        .flatten()
        .map(walkdir::DirEntry::into_path);
    let is_object = |bytes: SharedBytes| object_file::looks_like_object(&bytes);
    let is_file = |path: &PathBuf| SharedBytes::map(path).is_ok_and(is_object);
    paths.filter(is_file).collect()
}

/// Appends the facts of one object: its id, code, DWARF, symbols and links.
fn describe(object: &ObjectFile, text: &mut String) {
    let mut say = |line: String| text.extend([&line, "\n"]);
    let id = Some(id_text(&object.id)).filter(|id| !id.is_empty());
    let id = id.unwrap_or("none".into());
    let kind = ["build id", "UUID"][usize::from(object.is_mach_o())];
    say(format!("  {} {}", object.format, object.arch));
    say(format!("    {kind}: {id}"));
    say(format!("    stated base: {:#x}", object.base));
    for (start, end) in &object.code {
        say(format!("    code: {start:#x} - {end:#x}"));
    }
    if let Some(survey) = survey(object) {
        let versions: Vec<String> = survey.versions.iter().map(ToString::to_string).collect();
        let (units, versions) = (survey.units, versions.join(", "));
        say(format!("    DWARF: {units} units, version {versions}"));
        let (damaged, unread) = (survey.damaged, survey.unread);
        if damaged > 0 {
            say(format!("    damage: in the lines of {damaged} units"));
        }
        if unread > 0 {
            say(format!("    damage: {unread} units cannot be read"));
        }
        for producer in &survey.producers {
            say(format!("    made by: {}", plain(producer)));
        }
    } else if object.parse().is_some_and(is_split_half) {
        say("    DWARF: split; it needs the program as it was linked, beside it".into());
    } else {
        say("    DWARF: none".into());
    }
    let symbols = symbols::read(object).len();
    say(format!("    symbols of functions: {symbols}"));
    if object.has_packed_symbols {
        let packed = object.packed_symbols(u64::MAX);
        say(match packed.map(|packed| symbols::read(&packed).len()) {
            Some(count) => format!("    packed symbols of functions: {count}"),
            None => "    damage: the packed symbols cannot be read".into(),
        });
    }
    let starts = |file: object::File<'_>| file.function_starts(object.base);
    if let Some(starts) = object.parse().and_then(starts) {
        say(format!("    function starts: {}", starts.len()));
    }
    if let Some((name, crc)) = &object.debuglink {
        say(format!("    debug link: {} (CRC {crc:#010x})", plain(name)));
    }
    if let Some((name, id)) = &object.altlink {
        say(format!("    dwz file: {} ({})", plain(name), id_text(id)));
    }
}

/// Returns true for a `.dwp` or `.dwo` file, whose units name no address.
fn is_split_half(file: object::File<'_>) -> bool {
    file.section_by_name(".debug_info.dwo").is_some()
}

fn describe_report(reading: &report::Reading, text: &mut String) {
    let report = &reading.report;
    let (head, event) = (&report.head, report.event.as_ref());
    let kind = event.map_or("no event", |event| event.kind.as_str());
    let mut say = |line: String| text.extend([&line, "\n"]);
    say(format!("  wedjat report, version {}: {kind}", head.version));
    say(format!("    id: {}", id_text(&head.id)));
    let (app, version) = (plain(&head.app.name), plain(&head.app.version));
    say(format!("    app: {app} {version}"));
    let (os, version) = (plain(&head.os.name), plain(&head.os.version));
    say(format!("    os: {os} {version}, {}", plain(&head.arch)));
    let threads = report.threads.iter();
    let frames: usize = threads.map(|thread| thread.frames.len()).sum();
    let threads = report.threads.len();
    say(format!("    threads: {threads}, with {frames} frames"));
    say(format!("    samples: {}", report.samples.len()));
    let chains = report.threads.iter().flat_map(|thread| &thread.tasks);
    let chains = chains.chain(report.samples.iter().flat_map(|sample| &sample.tasks));
    let callers: usize = chains.map(|chain| chain.callers.len()).sum();
    if callers > 0 {
        say(format!("    async callers: {callers}"));
    }
    for image in &report.images {
        let (id, name) = (id_text(&image.id), plain(&image.name));
        say(format!("    image: {id} {name}"));
    }
    for damage in &reading.damage {
        say(format!("    damage: {}", plain(&damage.to_string())));
    }
}

/// Counts and names from the units of an object.
#[derive(Debug, Default)]
struct UnitSurvey {
    units: usize,
    /// DWARF versions, each once.
    versions: BTreeSet<u16>,
    /// `DW_AT_producer`, each once.
    producers: BTreeSet<String>,
    /// Units that cannot be read.
    unread: usize,
    /// Units with lines that can be read in part only.
    damaged: usize,
}

/// Reads the root of every unit; `None` if there is no DWARF.
fn survey(object: &ObjectFile) -> Option<UnitSurvey> {
    let sections = DwarfSections::load(object)?;
    // If dwz moved a part of the DWARF to a shared file, the producer may be there.
    let shared = search::dwz_file(object, Vec::new(), true);
    let shared = shared.and_then(|shared| DwarfSections::load(&shared));
    let dwarf = checked_units::view_all(&sections, shared.as_ref())?;
    let mut survey = UnitSurvey::default();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        survey.units += 1;
        survey.versions.insert(header.version());
        let Ok(unit) = dwarf.unit(header) else {
            survey.unread += 1;
            continue;
        };
        let mut entries = unit.entries();
        if let Ok(Some(root)) = entries.next_dfs()
            && let Some(producer) = root.attr_value(gimli::DW_AT_producer)
            && let Ok(producer) = dwarf.attr_string(&unit, producer)
        {
            survey
                .producers
                .insert(producer.to_string_lossy().into_owned());
        }
    }
    survey.damaged = checked_units::mended(&sections, shared.as_ref()).map_or(0, |found| found.1);
    Some(survey)
}
