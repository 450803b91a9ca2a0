//! Data flows one way: which room may import which, and where operating-system calls may stand.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each room, and the rooms that it may import. `ARCHITECTURE.md` says why.
const ROOMS: &[(&str, &[&str])] = &[
    ("report", &[]),
    ("platform", &[]),
    ("functions", &[]),
    ("capture", &["platform", "report"]),
    ("unwind", &["capture", "report"]),
    ("context", &["platform", "report"]),
    ("vitals", &["platform", "report"]),
    ("store", &["platform", "report"]),
    ("trigger", &["capture", "platform", "report"]),
    (
        "recorder",
        &[
            "capture",
            "context",
            "functions",
            "platform",
            "report",
            "store",
            "trigger",
            "vitals",
        ],
    ),
    (
        "monitor",
        &[
            "capture", "context", "platform", "recorder", "report", "store", "trigger", "vitals",
        ],
    ),
    ("ffi", &["context", "monitor", "report", "store", "trigger"]),
    ("symbolicate", &["functions", "report"]),
    ("bin", &["symbolicate"]),
];

#[test]
fn rooms_import_only_what_lies_below_them() {
    let mut wrong = Vec::new();
    for file in sources() {
        let room = room_of(&file);
        if room == "lib" {
            continue;
        }
        let allowed = ROOMS.iter().find(|(name, _)| *name == room);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{room} is a room without a place"));
        for import in imports(&code_of(&file)) {
            let known = ROOMS.iter().any(|(name, _)| *name == import);
            if known && import != room && !allowed.contains(&import.as_str()) {
                wrong.push(format!(
                    "{}: {room} must not import {import}",
                    file.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn system_calls_stand_in_platform_alone() {
    // Constants and types of libc are no calls; extern functions are.
    let calls = [
        "libc::open(",
        "libc::write(",
        "libc::mmap(",
        "libc::syscall(",
        "libc::kill(",
        "libc::sigaction(",
        "libc::close(",
        "libc::read(",
        "libc::ioctl(",
        "std::arch::asm!",
    ];
    let mut wrong = Vec::new();
    for file in sources() {
        if room_of(&file) == "platform" {
            continue;
        }
        let code = code_of(&file);
        // The symbolicator, which has no platform, asks which signals are ignored.
        let asks = file.ends_with("symbolicate/command/interrupt.rs");
        for call in calls.iter().filter(|call| code.contains(**call)) {
            if !(asks && *call == "libc::sigaction(") {
                wrong.push(format!("{}: {call}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Elsewhere than in `platform/descriptors.rs` a file could get a number that is the app's.
#[test]
fn the_recorder_opens_files_in_one_place() {
    let calls = [
        "libc::open(",
        "libc::openat(",
        "libc::opendir(",
        "fs::read(",
        "fs::read_dir(",
        "fs::read_to_string(",
        "fs::write(",
        "File::create",
        "File::open(",
        "File::options(",
        "OpenOptions",
    ];
    let mut wrong = Vec::new();
    for file in sources() {
        if ["symbolicate", "bin"].contains(&&*room_of(&file)) || file.ends_with("descriptors.rs") {
            continue;
        }
        let code = code_of(&file);
        for call in calls.iter().filter(|call| code.contains(**call)) {
            wrong.push(format!("{}: {call}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_says_its_one_job_in_its_first_line() {
    for file in sources() {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//! "), "{} does not", file.display());
    }
}

/// `ARCHITECTURE.md`, "Words", has what took their place.
#[test]
fn names_of_no_other_project_are_gone() {
    let gone = [
        "desk",
        "scribe",
        "pen",
        "bell",
        "pulse",
        "workbench",
        "leafward",
        "rootward",
        "restraint",
    ];
    let gone_types = [
        "Desk",
        "Scribe",
        "Pen",
        "Hand",
        "Bell",
        "Pulse",
        "Eyes",
        "Look",
        "Gate",
        "Workbench",
        "Restraint",
        "Scrub",
        "Foreign",
        "WholeFile",
    ];
    let mut wrong = Vec::new();
    for file in sources() {
        let code = code_of(&file);
        // Identifiers, and the words that they are made of.
        for name in code.split(|c: char| !c.is_alphanumeric() && c != '_') {
            let is_word = |word: &str| gone.contains(&word);
            let ends_in = |word: &&str| name.ends_with(*word);
            if name.to_lowercase().split('_').any(is_word)
                || gone_types.iter().any(|word| ends_in(&word))
            {
                wrong.push(format!("{}: {name}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_that_the_architecture_names_are_there() {
    let text = std::fs::read_to_string("ARCHITECTURE.md").unwrap();
    let all: Vec<String> = sources()
        .iter()
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    let mut checked = 0;
    let mut missing = Vec::new();
    for name in text.split('`').skip(1).step_by(2) {
        if !name.ends_with(".rs") || name.contains(' ') {
            continue;
        }
        checked += 1;
        let systems = [
            name.to_owned(),
            name.replace('*', "linux"),
            name.replace('*', "apple"),
        ];
        let is_there = |name: &String| {
            Path::new(name).exists() || all.iter().any(|path| path.ends_with(&format!("/{name}")))
        };
        let wanted = if name.contains('*') {
            &systems[1..]
        } else {
            &systems[..1]
        };
        if !wanted.iter().all(is_there) {
            missing.push(name);
        }
    }
    assert!(
        checked > 50 && missing.is_empty(),
        "{checked}: {missing:#?}"
    );
}

fn sources() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("src"), &mut found);
    assert!(found.len() > 20, "the sources were not found");
    found
}

fn room_of(file: &Path) -> String {
    let first = file
        .components()
        .nth(1)
        .unwrap()
        .as_os_str()
        .to_str()
        .unwrap();
    first.trim_end_matches(".rs").to_owned()
}

/// The file without its tests and without comments.
fn code_of(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The rooms that `crate::…` and, in the binary, `wedjat::…` paths name.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for start in ["crate::", "wedjat::"] {
        for part in code.split(start).skip(1) {
            let word = |text: &str| {
                let end = text
                    .find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(text.len());
                text[..end].to_owned()
            };
            if let Some(list) = part.strip_prefix('{') {
                let list = list.split('}').next().unwrap_or_default();
                found.extend(list.split(',').map(|item| word(item.trim_start())));
            } else {
                found.insert(word(part));
            }
        }
    }
    found
}
