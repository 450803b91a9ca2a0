//! `--inspect`: the contents of a debug file or a report.

use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::functions::ImageFile as _;
use crate::report::{self, limits};
use crate::symbolicate::debug_info::symbols;
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::object_file::{self, ObjectFile};
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
        let most = limits::REPORT_BYTES as u64 + 1;
        let mut bytes = Vec::new();
        input
            .take(most)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::io(path, error))?;
        if bytes.len() as u64 == most {
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
        // One that cannot be read does not keep the others from being listed.
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
    let _ = writeln!(
        text,
        "{}: {} bytes",
        plain(&path.display().to_string()),
        bytes.len()
    );
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
            vec![report::read(&bytes).map_err(|error| Error::bad_file(path, error))?]
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
    paths
        .filter(|path| SharedBytes::map(path).is_ok_and(is_object))
        .collect()
}

fn describe(object: &ObjectFile, text: &mut String) {
    let id = if object.id.is_empty() {
        "none".into()
    } else {
        id_text(&object.id)
    };
    let kind = if object.is_mach_o() {
        "UUID"
    } else {
        "build id"
    };
    let _ = writeln!(text, "  {} {}", object.format, object.arch);
    let _ = writeln!(text, "    {kind}: {id}");
    let _ = writeln!(text, "    stated base: {:#x}", object.base);
    for (start, end) in &object.code {
        let _ = writeln!(text, "    code: {start:#x} - {end:#x}");
    }
    match crate::symbolicate::debug_info::survey::survey(object) {
        Some(survey) => {
            let versions: Vec<String> = survey.versions.iter().map(ToString::to_string).collect();
            let _ = writeln!(
                text,
                "    DWARF: {} units, version {}",
                survey.units,
                versions.join(", ")
            );
            if survey.damaged > 0 {
                let count = survey.damaged;
                let _ = writeln!(text, "    damage: in the lines of {count} units");
            }
            if survey.unread > 0 {
                let count = survey.unread;
                let _ = writeln!(text, "    damage: {count} units cannot be read");
            }
            for producer in &survey.producers {
                let _ = writeln!(text, "    made by: {}", plain(producer));
            }
        }
        None => text.push_str("    DWARF: none\n"),
    }
    let symbols = symbols::read(object);
    let _ = writeln!(text, "    symbols of functions: {}", symbols.len());
    let starts = |file: object::File<'_>| file.function_starts(object.base);
    if let Some(starts) = object.parse().and_then(starts) {
        let _ = writeln!(text, "    function starts: {}", starts.len());
    }
    if let Some((name, crc)) = &object.debuglink {
        let _ = writeln!(text, "    debug link: {} (CRC {crc:#010x})", plain(name));
    }
    if let Some((name, id)) = &object.altlink {
        let _ = writeln!(text, "    dwz file: {} ({})", plain(name), id_text(id));
    }
}

fn describe_report(reading: &report::Reading, text: &mut String) {
    let report = &reading.report;
    let head = &report.head;
    let kind = report
        .event
        .as_ref()
        .map_or("no event", |event| event.kind.as_str());
    let _ = writeln!(text, "  wedjat report, version {}: {kind}", head.version);
    let _ = writeln!(text, "    id: {}", id_text(&head.id));
    let _ = writeln!(
        text,
        "    app: {} {}",
        plain(&head.app.name),
        plain(&head.app.version)
    );
    let _ = writeln!(
        text,
        "    os: {} {}, {}",
        plain(&head.os.name),
        plain(&head.os.version),
        plain(&head.arch)
    );
    let frames: usize = report
        .threads
        .iter()
        .map(|thread| thread.frames.len())
        .sum();
    let _ = writeln!(
        text,
        "    threads: {}, with {frames} frames",
        report.threads.len()
    );
    let _ = writeln!(text, "    samples: {}", report.samples.len());
    for image in &report.images {
        let _ = writeln!(
            text,
            "    image: {} {}",
            id_text(&image.id),
            plain(&image.name)
        );
    }
    for damage in &reading.damage {
        let _ = writeln!(text, "    damage: {}", plain(&damage.to_string()));
    }
}
