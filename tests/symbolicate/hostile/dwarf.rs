//! Debug information that lies: lines of no file, circles, depth without end, tables that are all size.

use std::fs;
use std::time::{Duration, Instant};

use wedjat::report::Found;
use wedjat::symbolicate::{Addresses, Cache, DebugFiles};

use super::{assembled, unit};
use crate::deadline::{Ran, most_memory, symbolicate};
use crate::support::symbolicate::{Workshop, crash, line_program};

/// What the command gives for `main` of it, which it must.
fn main_of(workshop: &Workshop, name: &str) -> Ran {
    let (path, main) = (workshop.path("a.so"), workshop.address("a.so", "main"));
    let (path, main) = (path.to_str().unwrap(), format!("{main:#x}"));
    let ran = symbolicate(["--no-cache", "--debug", path, "--address", &main]);
    assert_eq!(ran.code, Some(0), "{name}: {}", ran.err);
    ran
}

#[test]
fn a_line_of_no_file_is_not_shown() {
    // The unit names no function; its line program has a row for `main` and for the code behind it,
    // and no files.
    let rows = "
        .byte 0, 9, 2
        .quad main
        .byte 3
        .sleb128 41
        .byte 1
        .byte 2
        .uleb128 .Lbehind_end - main
        .byte 0, 1, 1";
    let behind = "
        .text
        .rept 16
        nop
        .endr
        .Lbehind_end:";
    let folder = tempfile::tempdir().unwrap();
    let workshop = assembled(&(unit("", "") + &line_program("", rows) + behind));
    let path = workshop.path("a.so");
    let data = fs::read(&path).unwrap();
    let object = object::File::parse(&*data).unwrap();
    use object::{Object, ObjectSymbol};
    let main = object
        .dynamic_symbols()
        .find(|symbol| symbol.name() == Ok("main"));
    let (start, size) = main
        .map(|symbol| (symbol.address(), symbol.size()))
        .unwrap();
    for cache in [None, Some(Cache::new(&folder.path().join("cache")))] {
        let mut files = DebugFiles::new().no_search().cache(cache);
        files.add(&path).unwrap();
        let addresses = Addresses::new(&files, None, None).unwrap();
        // Often enough that the whole table is made, too.
        for _ in 0..200 {
            for address in start..start + size {
                let frames = addresses.frames(address);
                assert_eq!(frames.len(), 1);
                assert_eq!(frames[0].function.as_deref(), Some("main"));
                assert_eq!((frames[0].file.as_deref(), frames[0].line), (None, None));
            }
            for address in start + size..start + size + 16 {
                assert_eq!(addresses.frames(address).len(), 0, "{address:#x}");
            }
        }
    }
}

#[test]
fn debug_information_that_runs_in_circles_or_goes_too_deep_comes_to_an_end() {
    // 2: subprogram with name, low_pc, high_pc; 3: with low_pc, high_pc, abstract_origin and children;
    // 4: inlined_subroutine likewise; 5: subprogram, specification alone.
    let abbreviations = "
        .uleb128 2, 0x2e
        .byte 1
        .uleb128 0x3, 0x8, 0x11, 1, 0x12, 7, 0, 0
        .uleb128 3, 0x2e
        .byte 1
        .uleb128 0x11, 1, 0x12, 7, 0x31, 0x13, 0, 0
        .uleb128 4, 0x1d
        .byte 1
        .uleb128 0x11, 1, 0x12, 7, 0x31, 0x13, 0, 0
        .uleb128 5, 0x2e
        .byte 0
        .uleb128 0x47, 0x13, 0, 0";
    let of_itself = "
        .Lself: .uleb128 3
        .quad main
        .quad .Lend - main
        .long .Lself - .Lunit
        .uleb128 0";
    let of_each_other = "
        .uleb128 3
        .quad main
        .quad .Lend - main
        .long .Lone - .Lunit
        .uleb128 0
        .Lone: .uleb128 5
        .long .Ltwo - .Lunit
        .Ltwo: .uleb128 5
        .long .Lone - .Lunit";
    let deep = "
        .Ldeep: .uleb128 2
        .string \"deep\"
        .quad main
        .quad .Lend - main
        .rept 100000
        .uleb128 4
        .quad main
        .quad .Lend - main
        .long .Ldeep - .Lunit
        .endr
        .rept 100001
        .uleb128 0
        .endr";
    let wide = "
        .Lwide: .uleb128 2
        .string \"wide\"
        .quad main
        .quad .Lend - main
        .rept 100000
        .uleb128 4
        .quad main
        .quad .Lend - main
        .long .Lwide - .Lunit
        .uleb128 0
        .endr
        .uleb128 0";
    for (name, dies) in [
        ("of_itself", of_itself),
        ("of_each_other", of_each_other),
        ("deep", deep),
        ("wide", wide),
    ] {
        let workshop = assembled(&unit(abbreviations, dies));
        let ran = main_of(&workshop, name);
        // At worst the symbol table names it.
        assert!(
            ran.out.contains("main") || ran.out.contains(name),
            "{name}: {}",
            ran.out
        );
        let path = workshop.path("a.so");
        let ran = symbolicate(["--inspect", path.to_str().unwrap()]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.err);
    }
    assert!(most_memory() < 700 << 20, "{} bytes", most_memory());
}

/// What each unit has of its own is small: what it shares is read for each.
#[test]
fn what_thousands_of_units_share_is_read_in_bounded_memory() {
    // Each table begins within the one before, and all end with the abbreviation that all units use.
    let tables = "
        .section .debug_abbrev,\"\",@progbits
        .set code, 1
        .rept 3000
        .byte (code & 127) | 128, ((code >> 7) & 127) | 128, code >> 14
        .byte 0x11, 0, 0x11, 1, 0x12, 7, 0, 0
        .set code, code + 1
        .endr
        .byte 0
        .section .debug_info,\"\",@progbits
        .set table, 0
        .rept 3000
        .long 26
        .value 4
        .long table
        .byte 8, (3000 & 127) | 128, ((3000 >> 7) & 127) | 128, 0
        .quad main
        .quad .Lend - main
        .set table, table + 11
        .endr";
    let rows = "
        .rept 3000
        .byte 0, 9, 2
        .quad 0x10
        .byte 1, 0x20, 0, 1, 1
        .endr";
    let lines = line_program("", rows);
    let with_lines = unit(
        "
        .uleb128 2, 0x11
        .byte 0
        .uleb128 0x10, 0x17, 0, 0",
        "",
    );
    let without_ranges = "
        .section .debug_info,\"\",@progbits
        .rept 3000
        .long 12
        .value 4
        .long 0
        .byte 8, 2
        .long 0
        .endr";
    let with_ranges = format!(
        ".section .debug_info,\"\",@progbits
        .rept 3000
        {}
        .endr",
        ".long 29
        .value 4
        .long 0
        .byte 8, 1
        .quad main
        .quad .Lend - main
        .long 0
        .byte 0"
    );
    let ranges = "
        .section .debug_abbrev,\"\",@progbits
        .uleb128 1, 0x11
        .byte 0
        .uleb128 0x55, 0x17, 0, 0
        .uleb128 0
        .section .debug_info,\"\",@progbits
        .rept 3000
        .long 12
        .value 4
        .long 0
        .byte 8, 1
        .long 0
        .endr
        .section .debug_ranges,\"\",@progbits
        .rept 6000
        .quad main, main + 1
        .endr
        .quad 0, 0";
    for (name, debug) in [
        ("ranges", ranges.to_owned()),
        ("tables", tables.to_owned()),
        (
            "lines without ranges",
            format!("{with_lines}{without_ranges}{lines}"),
        ),
        ("lines", format!("{with_lines}{with_ranges}{lines}")),
    ] {
        let workshop = assembled(&debug);
        let began = Instant::now();
        let ran = main_of(&workshop, name);
        assert!(ran.out.contains("main"), "{name}: {}", ran.out);
        let path = workshop.path("a.so");
        let ran = symbolicate(["--inspect", path.to_str().unwrap()]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.err);
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{name}: {:?}",
            began.elapsed()
        );
    }
    assert!(most_memory() < 700 << 20, "{} bytes", most_memory());
}

/// A whole table has each end within another function: it is not made of what has millions of them.
#[test]
fn functions_that_all_end_within_others_are_looked_up_without_a_table() {
    let abbreviations = "
        .uleb128 2, 0x2e
        .byte 0
        .uleb128 0x3, 0x8, 0x11, 1, 0x12, 7, 0, 0";
    let functions = "
        .set at, 0
        .rept 3000
        .uleb128 2
        .string \"function\"
        .quad main + at
        .quad 6000 - 2 * at
        .set at, at + 1
        .endr
        .text
        .rept 6000
        nop
        .endr
        .section .debug_info";
    let workshop = assembled(&unit(abbreviations, functions));
    let (path, cache) = (workshop.path("a.so"), workshop.path("cache"));
    let main = workshop.address("a.so", "main");
    let addresses = (main..main + 60).map(|address| format!("{address:#x}"));
    let [path, cache] = [&path, &cache].map(|path| path.to_str().unwrap().to_owned());
    let args = [
        "--cache".into(),
        cache,
        "--debug".into(),
        path,
        "--address".into(),
    ];
    let began = Instant::now();
    let ran = symbolicate(args.into_iter().chain(addresses));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(
        ran.out.matches("function (in a.so)").count(),
        60,
        "{}",
        ran.out
    );
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn tables_that_are_all_size_are_read_in_bounded_memory() {
    let many_abbreviations = "
        .set code, 2
        .rept 100000
        .uleb128 code, 0x34
        .byte 0
        .uleb128 0x3, 0x8, 0, 0
        .set code, code + 1
        .endr";
    // A row a byte: two million of them, all at one address.
    let rows = "
        .byte 0, 9, 2
        .quad main
        .fill 2000000, 1, 0x13
        .byte 2, 64, 0, 1, 1";
    let many_rows = line_program(".string \"a.c\"\n.byte 0, 0, 0", rows);
    let lying_block = "
        .uleb128 2, 0x34
        .byte 0
        .uleb128 0x2, 0x4, 0, 0";
    for (name, debug) in [
        ("abbreviations", unit(many_abbreviations, "")),
        ("rows", unit("", "") + &many_rows),
        ("block", unit(lying_block, ".uleb128 2\n.long 0xfffffff0")),
    ] {
        let ran = main_of(&assembled(&debug), name);
        assert!(ran.out.contains("main"), "{name}: {}", ran.out);
    }
    assert!(most_memory() < 700 << 20, "{} bytes", most_memory());
}

/// What a line program is damaged by in its second sequence, of three: the rows around are read, at once and by the
/// table of the whole file, and the damage is told.
#[test]
fn a_damaged_line_program_keeps_the_rows_before_and_behind() {
    let row = |at: u32, line: u32| {
        format!(
            ".byte 0, 9, 2\n.quad main + {at}\n.byte 3\n.sleb128 {}\n.byte 1\n",
            line - 1
        )
    };
    let end = |len: u32| format!(".byte 2\n.uleb128 {len}\n.byte 0, 1, 1\n");
    let back = ".byte 2, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1\n";
    let second = row(16, 20) + ".byte 2, 8, 3, 1, 1\n";
    for (name, damage, third) in [
        ("goes back", second.clone() + back + ".byte 0, 1, 1\n", true),
        (
            "goes back at once",
            row(16, 20) + back + ".byte 0, 1, 1\n",
            true,
        ),
        (
            "a number too long",
            second.clone() + ".byte 2\n.fill 200, 1, 0x80\n.byte 0, 1, 1\n",
            true,
        ),
        (
            "an instruction longer than all",
            second.clone() + ".byte 0, 0xff, 0xff, 3, 2\n.byte 0, 1, 1\n",
            true,
        ),
        (
            "an address too short",
            second.clone() + ".byte 0, 3, 2, 1, 1\n.byte 0, 1, 1\n",
            true,
        ),
        ("no end", second.clone() + ".byte 4, 1, 4, 1\n", false),
        (
            "half an instruction",
            second.clone() + &end(8) + ".byte 0\n",
            false,
        ),
    ] {
        let third = if third {
            row(32, 30) + &end(16)
        } else {
            String::new()
        };
        let rows = row(0, 10) + &end(16) + &damage + &third;
        let files = ".string \"a.c\"\n.byte 0, 0, 0";
        let function = "
            .uleb128 2
            .string \"main\"
            .quad main
            .quad .Lend - main";
        let abbreviations = "
            .uleb128 2, 0x2e
            .byte 0
            .uleb128 0x3, 0x8, 0x11, 1, 0x12, 7, 0, 0";
        let workshop = assembled(&(unit(abbreviations, function) + &line_program(files, &rows)));
        let (path, main) = (workshop.path("a.so"), workshop.address("a.so", "main"));
        let line = |addresses: &Addresses, at: u64| {
            let frames = addresses.frames(main + at);
            assert_eq!(frames[0].function.as_deref(), Some("main"), "{name}");
            frames[0].line
        };
        let mut files = DebugFiles::new().no_search();
        files.add(&path).unwrap();
        let addresses = Addresses::new(&files, None, None).unwrap();
        // Often enough that the whole table is made, too.
        for _ in 0..200 {
            assert_eq!(line(&addresses, 0), Some(10), "{name}");
            if name != "goes back at once" {
                assert_eq!(line(&addresses, 16), Some(20), "{name}");
            }
            let behind = (!third.is_empty()).then_some(30);
            assert_eq!(line(&addresses, 32), behind, "{name}");
        }
        let ran = symbolicate(["--inspect", path.to_str().unwrap()]);
        let told = ran.out.contains("damage: in the lines of 1 units");
        assert!(told, "{name}: {}", ran.out);
        let report = crash(
            workshop.report("a.so", &[(main, Found::Context)]),
            "SIGSEGV",
        );
        let (file, bytes) = (workshop.path("a.wedjat"), wedjat::report::to_bytes(&report));
        fs::write(&file, bytes).unwrap();
        let ran = symbolicate([
            "--no-cache".as_ref(),
            "--strict".as_ref(),
            "--debug".as_ref(),
            path.as_os_str(),
            file.as_os_str(),
        ]);
        assert!(
            ran.err.contains("debug files not read in whole:"),
            "{}",
            ran.err
        );
        assert!(!ran.err.contains("debug files missing"), "{}", ran.err);
        assert_eq!(ran.code, Some(1), "{name}");
    }
}
