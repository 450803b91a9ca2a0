//! Reports, debug files and folders that a stranger has made: what they choose is not read.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use wedjat::new;
use wedjat::report::{self, Found, Image, Report};
use wedjat::symbolicate::DebugFiles;

use crate::deadline::{Ran, symbolicate};
use crate::support::symbolicate::{Workshop, chains};

const SOURCE: &str = "void inner(void) { __builtin_trap(); }\nint main(void) { inner(); }\n";

fn write(report: &Report, path: &Path) {
    fs::write(path, report::to_bytes(report)).unwrap();
}

/// A whole report of nothing.
fn empty() -> Report {
    let mut report = Report::default();
    report.end = Some(new!(report::End {
        closed_by: "writer".to_owned(),
    }));
    report
}

fn run(args: &[&str]) -> Ran {
    symbolicate(["--no-cache"].iter().chain(args))
}

/// A program at a path of the report's choice, with the right id: the command reads it, the library does not.
#[test]
fn the_command_reads_a_program_at_the_path_of_the_report() {
    let shop = Workshop::new(&[("a.c", SOURCE)]);
    shop.run("gcc -g -Wl,--build-id=sha1 a.c -o program");
    let report = shop.report(
        "program",
        &[(shop.address("program", "inner"), Found::Context)],
    );
    assert_eq!(chains(DebugFiles::new(), report.clone()), [[""; 0]]);
    let mut given = DebugFiles::new().no_search();
    given.add(&shop.path("program")).unwrap();
    assert_eq!(chains(given, report.clone()), [["inner:1"]]);
    let path = shop.path("1.wedjat");
    write(&report, &path);
    let path = path.to_str().unwrap();
    let (found, refused) = (run(&[path]), run(&["--no-search", path]));
    assert!(
        found.out.contains("inner (a.c:1)") || found.out.contains("inner + "),
        "{}",
        found.out
    );
    assert!(found.out.contains("(a.c:1)"), "{}", found.out);
    assert!(!refused.out.contains("(a.c:1)"), "{}", refused.out);
    assert!(!refused.err.contains("not read"), "{}", refused.err);
}

/// What another user could have put there is found and not read, and the reason is printed.
#[test]
fn a_program_that_others_could_have_put_there_is_not_read() {
    let shop = Workshop::new(&[("a.c", SOURCE), ("b.c", "int main(void) { return 7; }\n")]);
    shop.run("mkdir folder");
    shop.run("gcc -g -Wl,--build-id=sha1 a.c -o folder/program");
    shop.run("gcc -g -Wl,--build-id=sha1 b.c -o other");
    let address = shop.address("folder/program", "inner");
    let report = shop.report("folder/program", &[(address, Found::Context)]);
    let path = shop.path("1.wedjat");
    write(&report, &path);
    let path = path.to_str().unwrap();
    let (folder, program) = (shop.path("folder"), shop.path("folder/program"));
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    let reads = |reason: &str| {
        let ran = run(&[path]);
        assert_eq!(
            ran.out.contains("(a.c:1)"),
            reason.is_empty(),
            "{}",
            ran.err
        );
        let says_so = ran.err.contains("at the path in the report, but not read");
        assert_eq!(says_so, !reason.is_empty(), "{}", ran.err);
        assert!(ran.err.contains(reason), "{}", ran.err);
    };
    reads("");
    for (mode, reason) in [
        (0o777, "may be written by others"),
        (0o775, "may be written by others"),
        // Nobody may replace what is another's in a sticky folder, as /tmp is one.
        (0o1777, ""),
        (0o755, ""),
    ] {
        set_mode(&folder, mode).unwrap();
        reads(reason);
    }
    set_mode(&program, 0o777).unwrap();
    reads("others may write in it");
    set_mode(&program, 0o755).unwrap();
    let moved = shop.path("moved");
    fs::rename(&program, &moved).unwrap();
    // Nothing is there.
    let ran = run(&[path]);
    assert!(!ran.err.contains("not read"), "{}", ran.err);
    symlink(&moved, &program).unwrap();
    reads("it is a link, or no regular file");
    fs::remove_file(&program).unwrap();
    shop.run("mkfifo folder/program");
    reads("it is a link, or no regular file");
    fs::remove_file(&program).unwrap();
    fs::copy(shop.path("other"), &program).unwrap();
    reads("another build of it is there");
}

/// The C library, at its own path, by its id.
#[test]
fn the_system_s_libraries_are_found_unless_no_search_is_asked_for() {
    let shop = Workshop::new(&[("a.c", SOURCE)]);
    shop.run("gcc a.c -o program");
    let libraries = shop.run("ldd program");
    let library = libraries
        .split_whitespace()
        .find(|word| word.starts_with('/') && word.contains("libc."));
    let library = library.expect("a C library");
    let symbols = shop.run(&format!("nm -D {library}"));
    let symbol = symbols
        .lines()
        .find(|line| line.ends_with(" getpid@@GLIBC_2.2.5"))
        .unwrap();
    let address = u64::from_str_radix(&symbol[..16], 16).unwrap();
    let mut report = shop.report("program", &[(address, Found::Context)]);
    report.images[0] = new!(Image {
        name: library.to_owned(),
        id: shop.id(library),
        ..report.images[0].clone()
    });
    let path = shop.path("1.wedjat");
    write(&report, &path);
    let path = path.to_str().unwrap();
    let (found, refused) = (run(&[path]), run(&["--no-search", path]));
    assert!(found.out.contains("getpid"), "{}", found.out);
    assert!(!refused.out.contains("getpid"), "{}", refused.out);
}

/// The other half of a unit lies where the compiler put it, outside of what was given.
#[test]
fn paths_in_debug_files_are_looked_at_unless_no_search_is_asked_for() {
    let shop = Workshop::new(&[("a.c", SOURCE)]);
    shop.run("gcc -g -gsplit-dwarf -Wl,--build-id=sha1 a.c -o program");
    shop.run("mkdir given");
    shop.run("mv program given/");
    let address = shop.address("given/program", "inner");
    let report = shop.report("given/program", &[(address, Found::Context)]);
    let path = shop.path("1.wedjat");
    write(&report, &path);
    let (given, path) = (shop.path("given"), path.to_str().unwrap());
    let debug = ["--debug", given.to_str().unwrap()];
    let lines = |more: &[&str]| run(&[&debug, more, &[path]].concat()).out;
    assert!(lines(&[]).contains("a.c:1"));
    assert!(!lines(&["--no-search"]).contains("a.c:1"));
    // Next to the debug file, or below it, they belong to what was given.
    let halves = fs::read_dir(shop.path("")).unwrap().flatten();
    let is_half = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "dwo");
    let half = halves.map(|entry| entry.path()).find(is_half).unwrap();
    fs::rename(&half, given.join(half.file_name().unwrap())).unwrap();
    assert!(lines(&["--no-search"]).contains("a.c:1"));
}

/// A folder of another tenant's, linked to.
#[test]
fn links_out_of_the_folders_are_followed_if_that_is_asked_for() {
    let shop = Workshop::new(&[("a.c", SOURCE)]);
    shop.run("gcc -g -Wl,--build-id=sha1 a.c -o program");
    shop.run("mkdir reports symbols others");
    let report = shop.report(
        "program",
        &[(shop.address("program", "inner"), Found::Context)],
    );
    write(&report, &shop.path("others/1.wedjat"));
    write(&report, &shop.path("reports/2.wedjat"));
    shop.run("mv program others/");
    symlink("../others/1.wedjat", shop.path("reports/1.wedjat")).unwrap();
    symlink("2.wedjat", shop.path("reports/3.wedjat")).unwrap();
    symlink("../others", shop.path("symbols/others")).unwrap();
    symlink("../others/program", shop.path("symbols/program")).unwrap();
    let (reports, symbols) = (shop.path("reports"), shop.path("symbols"));
    let all = [
        "--debug",
        symbols.to_str().unwrap(),
        reports.to_str().unwrap(),
    ];
    let kept = run(&all);
    assert!(!kept.out.contains("inner"), "{}", kept.out);
    assert_eq!(
        kept.out.matches("Report Version:").count(),
        2,
        "{}",
        kept.out
    );
    assert_eq!(
        kept.err.matches("--follow-links follows them").count(),
        2,
        "{}",
        kept.err
    );
    let followed = run(&[&["--follow-links"], &all[..]].concat());
    assert_eq!(followed.out.matches("Report Version:").count(), 3);
    assert!(followed.out.contains("inner"), "{}", followed.out);
    assert!(!followed.err.contains("follow"), "{}", followed.err);
}

#[test]
fn the_output_is_the_users_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [report, output] = ["1.wedjat", "out.txt"].map(|name| folder.path().join(name));
    write(&empty(), &report);
    let run = run(&[
        "--output",
        output.to_str().unwrap(),
        report.to_str().unwrap(),
    ]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let mode = fs::metadata(output).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_page_neither_loads_nor_sends_nor_moves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.wedjat");
    write(&empty(), &path);
    let page = run(&["--format", "html", path.to_str().unwrap()]).out;
    for rule in [
        "default-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ] {
        assert!(page.contains(rule), "{rule}");
    }
}

/// Answers do not need a table; `-v` says why there is none.
#[test]
fn why_there_is_no_table_is_said() {
    // Functions in functions, deeper than any compiler nests them, in a file that is worth a table.
    let nested = [vec!["2"; 300], vec!["0"; 300]].concat().join(",");
    let source = format!(
        ".text\n.globl main\n.type main,@function\nmain: .rept 64\nnop\n.endr\nret\n.Lend:\n.size main,.-main
         .section .debug_abbrev,\"\",@progbits
         .uleb128 1, 0x11
         .byte 1
         .uleb128 0x11, 1, 0x12, 7, 0, 0
         .uleb128 2, 0x2e
         .byte 1, 0, 0, 0
         .section .debug_info,\"\",@progbits
         .long .Linfo_end - .Linfo
         .Linfo: .value 4
         .long 0
         .byte 8, 1
         .quad main
         .quad .Lend - main
         .byte {nested}, 0
         .Linfo_end:
         .section .rodata\n.zero 1200000
         .section .note.GNU-stack,\"\",@progbits\n"
    );
    let shop = Workshop::new(&[("a.s", &source), ("b.c", SOURCE)]);
    shop.run("gcc -shared -nostdlib -Wl,--build-id=sha1 a.s -o a.so");
    shop.run("gcc -g -gsplit-dwarf -Wl,--build-id=sha1 b.c -o b");
    let cache = shop.path("cache");
    for (file, function, why) in [
        ("a.so", "main", "units nest"),
        ("b", "inner", "in other files"),
    ] {
        let begin = shop.address(file, function);
        let frames: Vec<_> = (0..24).map(|at| (begin + at, Found::Context)).collect();
        let path = shop.path("1.wedjat");
        let mut report = shop.report(file, &frames);
        report.threads = frames
            .chunks(1)
            .map(|frame| shop.report(file, frame).threads.remove(0))
            .collect();
        write(&report, &path);
        let debug = shop.path(file);
        let args = [
            "-v",
            "--cache",
            cache.to_str().unwrap(),
            "--debug",
            debug.to_str().unwrap(),
            path.to_str().unwrap(),
        ];
        let ran = symbolicate(args);
        let note = format!("{}: no lookup table can be made: ", debug.display());
        let said = ran.err.lines().find_map(|line| line.strip_prefix(&note));
        assert!(
            said.is_some_and(|said| said.contains(why)),
            "{file}: {}",
            ran.err
        );
        assert!(ran.out.contains(function), "{}", ran.out);
    }
}
