//! Data flows one way: which room may import which, and where operating-system calls may stand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each room, and the rooms that it may import. `ARCHITECTURE.md` says why.
const ROOMS: &[(&str, &[&str])] = &[
    ("macros", &[]),
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
    ("symbolicate", &["functions", "platform", "report"]),
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
        // The symbolicator, which has no platform, reads which signals are ignored.
        let queries = file.ends_with("symbolicate/command/interrupt.rs");
        for call in calls.iter().filter(|call| code.contains(**call)) {
            if !(queries && *call == "libc::sigaction(") {
                wrong.push(format!("{}: {call}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// It reads reports of other machines: what it may ask of this one is whose its files are.
#[test]
fn the_symbolicator_has_of_platform_the_ownership_of_files_alone() {
    let mut wrong = sources();
    wrong.retain(|file| {
        let code = code_of(file);
        let mut uses = code.split("crate::platform").skip(1);
        room_of(file) == "symbolicate" && uses.any(|rest| !rest.starts_with("::ownership::"))
    });
    assert!(wrong.is_empty(), "{wrong:?}");
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

/// A printed name says less than the mangled one, and each tool prints another: the crate `swift-name` reads the latter,
/// `names/` alone the former. (`import/swift/` reads the lines of Swift's own reports.)
#[test]
fn one_place_reads_the_names_of_swift() {
    let words = [
        "closure #",
        " in conformance ",
        "specialized ",
        "generic specialization",
        "partial apply",
        "resume partial function",
        "(extension in ",
        "protocol witness",
        "merged ",
        "thunk for",
        "Swift runtime failure",
        "_assertionFailure",
        "Swift.",
        " infix",
    ];
    let mut wrong = Vec::new();
    for file in sources() {
        let mut folders = file.components().map(|part| part.as_os_str());
        let of_swift = folders.any(|folder| folder == "names" || folder == "swift");
        if room_of(&file) != "symbolicate" || of_swift {
            continue;
        }
        let code = code_of(&file);
        let literals = code.split('"').skip(1).step_by(2);
        for text in literals.filter(|text| words.iter().any(|word| text.contains(word))) {
            wrong.push(format!("{}: {text:?}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is counted: an edge from a file to each file of its room that it names, in a `use` or by a path
/// (`super::`, `self::`, `crate::`). A name that a module re-exports counts as one of the file that it comes from. Not
/// counted: edges between a module and those nested in it, since a module declares and re-exports its children, and
/// they use its types; nor `mod tests`.
#[test]
fn no_files_of_a_room_import_each_other_in_a_circle() {
    let (wrong, edges) = circles(usize::MAX, |_| true);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(edges > 300, "the imports were not found");
}

/// As above, with each folder counted as one. A loose file of the room counts as a folder.
#[test]
fn no_folders_of_the_symbolicator_import_each_other_in_a_circle() {
    let (wrong, edges) = circles(2, |module| module[0] == "symbolicate");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(edges > 60, "the imports were not found");
}

/// The edges that are part of a circle, and the count of all edges, between modules cut to so many parts of their paths.
fn circles(parts: usize, is_counted: impl Fn(&Module) -> bool) -> (Vec<String>, usize) {
    let modules: BTreeMap<Module, Uses> = sources()
        .iter()
        .map(|file| (module_of(file), uses(&code_of(file))))
        .collect();
    let cut = |module: &Module| module[..parts.min(module.len())].to_vec();
    let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, uses) in modules.iter().filter(|(module, _)| is_counted(module)) {
        let from = cut(module);
        let named = uses.iter().filter_map(|used| {
            let target = cut(&origin(&modules, module, &used.path)?);
            let nested = target.starts_with(&from) || from.starts_with(&target);
            (target.first() == from.first() && !nested).then_some(target)
        });
        edges.entry(from.clone()).or_default().extend(named);
    }
    let reaches = |from: &Module, to: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            if seen.insert(module) {
                next.extend(edges.get(module).into_iter().flatten());
            }
        }
        seen.contains(to)
    };
    let mut wrong = Vec::new();
    for (from, targets) in &edges {
        let back = targets.iter().filter(|to| reaches(to, from));
        wrong.extend(back.map(|to| format!("{} -> {}", from.join("::"), to.join("::"))));
    }
    (wrong, edges.values().map(BTreeSet::len).sum())
}

/// Ceilings of code, in lines without tests, comments and blank lines. A change may lower one, and never raises one.
const CEILINGS: &[(&str, usize)] = &[
    ("bin", 3),
    ("capture", 7269),
    ("context", 701),
    ("ffi", 872),
    ("functions", 438),
    ("lib", 55),
    ("macros", 66),
    ("monitor", 1009),
    ("platform", 2491),
    ("platform/apple", 1934),
    ("platform/linux", 2848),
    ("recorder", 2873),
    ("report", 5256),
    ("store", 1008),
    ("symbolicate", 1742),
    ("symbolicate/blame", 431),
    ("symbolicate/command", 2657),
    ("symbolicate/debug_files", 278),
    ("symbolicate/debug_info", 3192),
    ("symbolicate/files", 1921),
    ("symbolicate/format", 4205),
    ("symbolicate/group", 596),
    ("symbolicate/import", 5098),
    ("symbolicate/names", 1020),
    ("trigger", 4663),
    ("unwind", 5),
    ("vitals", 231),
];
const CODE_CEILING: usize = 52862;
const FILE_CEILING: usize = 385;

#[test]
fn each_room_is_at_or_below_its_ceiling() {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    let mut files = 0;
    for file in sources() {
        if is_test(&file) {
            continue;
        }
        files += 1;
        let code = code_of(&file);
        let count = code.lines().filter(|line| !line.trim().is_empty()).count();
        *lines.entry(counted_room(&file)).or_default() += count;
    }
    let mut wrong = Vec::new();
    for (room, count) in &lines {
        match CEILINGS.iter().find(|(name, _)| name == room) {
            Some((_, ceiling)) if count <= ceiling => {}
            Some((_, ceiling)) => wrong.push(format!("{room}: {count} lines, ceiling {ceiling}")),
            None => wrong.push(format!("{room}: {count} lines, no ceiling")),
        }
    }
    let gone = CEILINGS
        .iter()
        .filter(|(name, _)| !lines.contains_key(*name));
    wrong.extend(gone.map(|(name, _)| format!("{name}: no such room")));
    let total: usize = lines.values().sum();
    if total > CODE_CEILING || files > FILE_CEILING {
        wrong.push(format!(
            "src: {total} lines in {files} files, ceilings {CODE_CEILING} and {FILE_CEILING}"
        ));
    }
    assert!(
        wrong.is_empty(),
        "{}\nas counted: {lines:#?}",
        wrong.join("\n")
    );
}

/// The folders of `platform` and `symbolicate` are rooms of their own; their loose files are one.
fn counted_room(file: &Path) -> String {
    let parts: Vec<&str> = file.iter().map(|part| part.to_str().unwrap()).collect();
    match parts[..] {
        ["src", room @ ("platform" | "symbolicate"), folder, _, ..] => format!("{room}/{folder}"),
        _ => room_of(file),
    }
}

fn is_test(file: &Path) -> bool {
    file.iter()
        .any(|part| part == "tests.rs" || part == "tests")
}

type Module = Vec<String>;
type Uses = Vec<Use>;

/// A path that a file names; `exported` is the name by which it re-exports it.
struct Use {
    path: Vec<String>,
    exported: Option<String>,
}

fn module_of(file: &Path) -> Module {
    let path = file.with_extension("");
    let parts = path.iter().skip(1).map(|part| part.to_str().unwrap());
    parts
        .filter(|part| *part != "mod")
        .map(str::to_owned)
        .collect()
}

/// The paths of `use` trees, written out, and those in the code itself.
fn uses(code: &str) -> Uses {
    let mut found = Vec::new();
    for part in code.split(';') {
        let (_, tree) = part.rsplit_once("use ").unwrap_or(("", ""));
        let start = part.len() - tree.len();
        let head = part[..start].rsplit('\n').next().unwrap_or_default();
        let is_use = !tree.is_empty()
            && matches!(
                head.trim().split('(').next(),
                Some("use" | "pub" | "pub use")
            );
        if is_use {
            let exported = head.trim().starts_with("pub");
            spread(tree, "", &mut |path| {
                let (path, name) = path.split_once(" as ").unwrap_or((&path, ""));
                let path: Vec<String> = path.trim().split("::").map(str::to_owned).collect();
                let name = match name {
                    "" => path.last().unwrap(),
                    name => name,
                };
                let exported = exported.then(|| name.trim().to_owned());
                found.push(Use { path, exported });
            });
            continue;
        }
        for start in ["super::", "self::", "crate::"] {
            for (at, _) in part.match_indices(start) {
                let end = part[at..].find(|c: char| !c.is_alphanumeric() && !"_:".contains(c));
                let path = &part[at..end.map_or(part.len(), |end| at + end)];
                let path = path.trim_end_matches(':').split("::").map(str::to_owned);
                found.push(Use {
                    path: path.collect(),
                    exported: None,
                });
            }
        }
    }
    found
}

/// Calls `found` with each path of a `use` tree.
fn spread(tree: &str, before: &str, found: &mut dyn FnMut(String)) {
    let Some((path, rest)) = tree.split_once('{') else {
        found(format!("{before}{}", tree.trim()));
        return;
    };
    let before = format!("{before}{}", path.trim());
    let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let item = inner[start..at].trim();
                if !item.is_empty() {
                    spread(item, &before, found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The file that a path, as `from` writes it, comes from.
fn origin(modules: &BTreeMap<Module, Uses>, from: &Module, path: &[String]) -> Option<Module> {
    let (mut module, mut rest) = match path.first()?.as_str() {
        "crate" => (Module::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        _ => (from.clone(), path),
    };
    while rest.first().is_some_and(|part| part == "super") {
        module.pop();
        rest = &rest[1..];
    }
    while let Some(part) = rest.first() {
        let child = [module.as_slice(), std::slice::from_ref(part)].concat();
        if !modules.contains_key(&child) {
            break;
        }
        (module, rest) = (child, &rest[1..]);
    }
    if rest.len() == path.len() || !modules.contains_key(&module) {
        return None;
    }
    let exports = modules[&module].iter();
    let mut exports = exports.filter(|used| used.exported.is_some());
    match exports.find(|used| used.exported.as_ref() == rest.first()) {
        Some(used) if used.path != path || module != *from => {
            origin(modules, &module, &used.path).or(Some(module))
        }
        _ => Some(module),
    }
}

#[test]
fn every_file_says_its_one_job_in_its_first_line() {
    for file in sources() {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//! "), "{} does not", file.display());
    }
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

#[test]
fn every_test_program_is_on_the_map() {
    let map = std::fs::read_to_string("tests/README.md").unwrap();
    let entries = std::fs::read_dir("tests").unwrap();
    let missing: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some("rs".as_ref()) || path.join("main.rs").exists())
        .filter(|path| {
            !map.contains(&format!(
                "`{}`",
                path.file_stem().unwrap().to_str().unwrap()
            ))
        })
        .collect();
    assert!(
        missing.is_empty(),
        "tests/README.md does not name {missing:?}"
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
    let mut lines = text.lines().peekable();
    let mut code = Vec::new();
    while let Some(line) = lines.next() {
        if is_for_tests(line) {
            while lines.next_if(|line| line.starts_with('#')).is_some() {}
            if let Some(module) = lines.next_if(|line| line.contains("mod "))
                && !module.ends_with(';')
            {
                lines.find(|line| *line == "}");
            }
        } else if !line.trim_start().starts_with("//") {
            code.push(line);
        }
    }
    code.join("\n")
}

/// Returns true for the condition of an item that only tests have, as `#[cfg(all(loom, test))]`.
fn is_for_tests(line: &str) -> bool {
    let condition = line
        .strip_prefix("#[cfg(")
        .and_then(|rest| rest.strip_suffix(")]"));
    let all = |condition: &str| {
        condition.strip_prefix("all(").is_some_and(|parts| {
            parts
                .trim_end_matches(')')
                .split(", ")
                .any(|part| part == "test")
        })
    };
    condition.is_some_and(|condition| {
        condition == "test" || !condition.contains("not(all") && all(condition)
    })
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
