//! What the pages show is well-formed: their blocks of shell and TOML parse, those of C pass the compiler, those of CMake
//! stand in the example, those of Rust are compiled as doctests (those of Swift by `suites/swift/run`), commands
//! print what is shown, and what they link to is there.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Each page with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut paths = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    for folder in ["docs", "docs/decisions", "docs/measured"] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        let of_folder = entries.map(|entry| entry.unwrap().path());
        paths.extend(of_folder.filter(|path| path.extension() == Some("md".as_ref())));
    }
    paths.sort();
    assert!(paths.len() > 10);
    let read = |path: PathBuf| (path.clone(), std::fs::read_to_string(path).unwrap());
    paths.into_iter().map(read).collect()
}

/// The fenced blocks of a page: language, first line's number, text.
fn blocks(page: &str) -> Vec<(&str, usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(&str, usize, String)> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language, index + 1, String::new())),
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some((.., text))) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed: {open:?}");
    found
}

/// Those of one language, each with where it is.
fn blocks_of(wanted: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (path, page) in pages() {
        let blocks = blocks(&page).into_iter();
        let blocks = blocks.filter(|(language, ..)| language.split(',').next() == Some(wanted));
        found.extend(blocks.map(|(_, line, text)| (format!("{}:{line}", path.display()), text)));
    }
    found
}

#[test]
fn shell_parses() {
    let blocks = blocks_of("sh");
    assert!(blocks.len() > 10);
    for (place, text) in blocks {
        let mut bash = Command::new("bash");
        let mut bash = bash.arg("-n").stdin(Stdio::piped()).spawn().unwrap();
        let mut input = bash.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        drop(input);
        assert!(bash.wait().unwrap().success(), "{place}\n{text}");
    }
}

#[test]
fn toml_parses() {
    let blocks = blocks_of("toml");
    assert!(!blocks.is_empty());
    for (place, text) in blocks {
        let parsed = text.parse::<toml_edit::DocumentMut>();
        assert!(parsed.is_ok(), "{place}: {}", parsed.unwrap_err());
    }
}

/// Blocks of C are the body of a function.
#[cfg(unix)]
#[test]
fn c_compiles() {
    let blocks = blocks_of("c");
    assert!(!blocks.is_empty());
    for (place, text) in blocks {
        let text = format!("#include <wedjat.h>\nvoid shown(void) {{\n{text}}}\n");
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-fsyntax-only", "-Wall", "-Werror", "-x", "c"]);
        cc.arg("-I").arg(root().join("include"));
        let mut cc = cc.arg("-").stdin(Stdio::piped()).spawn().unwrap();
        let mut input = cc.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        drop(input);
        assert!(cc.wait().unwrap().success(), "{place}\n{text}");
    }
}

/// What a page shows of CMake stands in the example, which `suites/ffi/run` builds.
#[test]
fn cmake_is_that_of_the_example() {
    let example = std::fs::read_to_string(root().join("examples/cpp/CMakeLists.txt")).unwrap();
    let blocks = blocks_of("cmake");
    assert!(!blocks.is_empty());
    for (place, text) in blocks {
        for line in text.lines() {
            assert!(example.contains(line), "{place}: {line}");
        }
    }
}

/// A block that is not a page's of `src/lib.rs` would never be compiled.
#[test]
fn each_page_with_rust_is_compiled() {
    let library = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    for (path, page) in pages() {
        let has_rust = |(language, ..): &(&str, usize, String)| language.starts_with("rust");
        if blocks(&page).iter().any(has_rust) {
            let page = path.strip_prefix(root()).unwrap().display();
            let include = format!("include_str!(\"../{page}\")");
            assert!(library.contains(&include), "src/lib.rs lacks {include}");
        }
    }
}

/// Commands of pages that read files of the repository print the lines that the page shows, in that order.
#[cfg(unix)]
#[test]
fn commands_over_files_of_the_repository_print_what_is_shown() {
    let Some(program) = option_env!("CARGO_BIN_EXE_symbolicate") else {
        return;
    };
    let folder = Path::new(program).parent().unwrap().display();
    let mut run = 0;
    for (place, text) in blocks_of("console") {
        for part in text.split("$ ").skip(1) {
            let (command, shown) = part.split_once('\n').unwrap();
            if !command.starts_with("symbolicate ") || !command.contains("testdata/") {
                continue;
            }
            let script = format!("PATH='{folder}':$PATH; {command}");
            let mut bash = Command::new("bash");
            let bash = bash.args(["-c", &script]).current_dir(root());
            let said = bash.stderr(Stdio::null()).output().unwrap().stdout;
            let said = String::from_utf8(said).unwrap();
            let mut rest = said.as_str();
            for line in shown.lines().filter(|line| *line != "…") {
                let found = rest.split_once(line);
                (_, rest) = found.unwrap_or_else(|| panic!("{place}: no {line:?} in:\n{said}"));
            }
            run += 1;
        }
    }
    assert!(run > 4, "{run}");
}

/// Links to files, as `](docs/c.md)`; not those to the network or within a page.
#[test]
fn links_lead_somewhere() {
    let mut links = 0;
    for (path, page) in pages() {
        let targets = page.split("](").skip(1).filter_map(|rest| {
            let target = rest.split([')', '#']).next()?;
            (!target.is_empty() && !target.contains("://")).then_some(target)
        });
        for target in targets {
            links += 1;
            let file = path.parent().unwrap().join(target);
            assert!(file.exists(), "{}: {target}", path.display());
        }
    }
    assert!(links > 20);
}

/// `src/…` and its like in backticks.
#[test]
fn files_of_the_repository_that_pages_name_are_there() {
    let folders = [
        "src/",
        "tests/",
        "suites/",
        "examples/",
        "tools/",
        "scripts/",
        "benches/",
        "fuzz/",
        "include/",
    ];
    // The published package leaves out what only the repository can run.
    let left_out = ["suites", "examples/loops", "fuzz"];
    let is_package = !root().join("fuzz").exists();
    let mut named = 0;
    for (path, page) in pages() {
        for word in page.split('`').skip(1).step_by(2) {
            let is_path = |c: char| c.is_alphanumeric() || "_./-".contains(c);
            if !folders.iter().any(|folder| word.starts_with(folder)) || !word.chars().all(is_path)
            {
                continue;
            }
            if is_package && left_out.iter().any(|folder| word.starts_with(folder)) {
                continue;
            }
            named += 1;
            assert!(root().join(word).exists(), "{}: {word}", path.display());
        }
    }
    assert!(named > 50, "{named}");
}

/// The tool writes the table below its own head.
#[test]
fn the_page_of_exactness_begins_as_the_tool_writes_it() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    assert!(read("docs/measured/exactness.md").starts_with(&read("tools/exactness/head.md")));
}

/// `parse_price (demo.rs:98)`: a reader looks that line up.
#[test]
fn lines_of_the_demo_that_pages_name_lie_in_their_functions() {
    let source = std::fs::read_to_string(root().join("demo/demo.rs")).unwrap();
    let lines: Vec<&str> = source.lines().collect();
    let mut named = 0;
    for (path, page) in pages() {
        for line in page.lines() {
            let Some((before, number)) = line.split_once(" (demo.rs:") else {
                continue;
            };
            let number: usize = number.split_once(')').unwrap().0.parse().unwrap();
            let names = before.split_whitespace().rev();
            let mut names = names.filter(|word| word.starts_with(|c: char| c.is_alphabetic()));
            let name = names.next().unwrap().rsplit("::").next().unwrap();
            let begin = lines.iter().position(|line| {
                line.trim_start_matches("pub ")
                    .starts_with(&format!("fn {name}("))
            });
            let begin = begin.unwrap_or_else(|| panic!("{}: no fn {name}", path.display()));
            let end = begin + lines[begin..].iter().position(|line| *line == "}").unwrap();
            assert!(
                (begin + 1..=end + 1).contains(&number),
                "{}: {name} has lines {} to {}, not {number}",
                path.display(),
                begin + 1,
                end + 1
            );
            named += 1;
        }
    }
    assert!(named > 5, "{named}");
}
