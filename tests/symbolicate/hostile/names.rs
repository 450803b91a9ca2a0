//! Names and paths that share the bytes of one long text, or that stand with each frame.

use wedjat::new;
use wedjat::report::{self, Event, EventKind, Frame, Report, Thread};

use super::{Workshop, assembled, limited, unit};

/// Memory, KiB: a hundred times the largest input here.
const MEMORY: u32 = 200_000;
/// Length of the text.
const LONG: usize = 200_000;
/// Names that end with it, each beginning at another byte of it.
const TAILS: usize = 10_000;

fn number(bytes: &[u8], at: usize, len: usize) -> usize {
    let bytes = bytes[at..at + len].iter().rev();
    bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// A library with functions of one byte each, whose names are made tails of one, and the address of the first one.
fn with_names(debug: &str) -> (Workshop, u64) {
    let function = |at| format!(".type f{at},@function\nf{at}: nop\n.size f{at},1\n");
    let functions: String = (0..TAILS).map(function).collect();
    let shop = assembled(&format!("{functions}\n{debug}"));
    let first = shop.address("a.so", "f0");
    let path = shop.path("a.so");
    let mut file = std::fs::read(&path).unwrap();
    // The table of names is moved to the end of the file, the long one behind it.
    let (headers, count) = (number(&file, 0x28, 8), number(&file, 0x3c, 2));
    let header = |at| headers + 64 * at;
    let table = (0..count)
        .map(header)
        .find(|at| number(&file, at + 4, 4) == 2);
    let table = table.expect("a symbol table");
    let (symbols, size) = (number(&file, table + 24, 8), number(&file, table + 32, 8));
    let names = header(number(&file, table + 40, 4));
    let (offset, len) = (number(&file, names + 24, 8), number(&file, names + 32, 8));
    let end = file.len();
    file.extend_from_within(offset..offset + len);
    file.extend([b'a'; LONG]);
    file.push(0);
    let moved = [end as u64, (file.len() - end) as u64];
    file[names + 24..names + 40].copy_from_slice(&moved.map(u64::to_le_bytes).concat());
    let mut tails = 0;
    for at in (symbols..symbols + size).step_by(24) {
        if file[at + 4] & 15 == 2 && number(&file, at + 16, 8) == 1 {
            let name = (len + tails) as u32;
            file[at..at + 4].copy_from_slice(&name.to_le_bytes());
            tails += 1;
        }
    }
    assert_eq!(tails, TAILS);
    std::fs::write(&path, file).unwrap();
    (shop, first)
}

/// With debug information a table of all names is made, too.
#[test]
fn names_that_are_tails_of_one() {
    for debug in [String::new(), unit("", "")] {
        let (shop, first) = with_names(&debug);
        let file = shop.path("a.so").display().to_string();
        let mut args = vec!["--debug".to_owned(), file, "--address".to_owned()];
        let addresses = (0..TAILS as u64).step_by(50);
        args.extend(addresses.map(|at| format!("{:x}", first + at)));
        let ran = limited(MEMORY, 20, &args);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let names = ran.out.lines().filter(|line| line.starts_with("aaa"));
        assert_eq!(names.clone().count(), TAILS / 50);
        assert!({ names }.all(|line| line.contains("a… (in a.so)") && line.len() < 4_200));
    }
}

/// Lines of DWARF 5 with as many files.
fn with_paths() -> Workshop {
    let files: String = (0..TAILS).map(|at| format!(".long {at}\n")).collect();
    assembled(&format!(
        ".section .debug_line_str,\"MS\",@progbits,1
         .asciz \"{}\"
         .section .debug_abbrev,\"\",@progbits
         .uleb128 1, 0x11
         .byte 0
         .uleb128 0x11, 1, 0x12, 7, 0x10, 0x17, 0, 0, 0
         .section .debug_info,\"\",@progbits
         .long .Linfo_end - .Linfo
         .Linfo: .value 5
         .byte 1, 8
         .long 0
         .uleb128 1
         .quad main
         .quad .Lend - main
         .long 0
         .Linfo_end:
         .section .debug_line,\"\",@progbits
         .long .Lline_end - .Lline
         .Lline: .value 5
         .byte 8, 0
         .long .Lprogram - .Lheader
         .Lheader: .byte 1, 1, 1, -5, 14, 13
         .byte 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
         .byte 1
         .uleb128 1, 0x1f, 1
         .long {}
         .byte 1
         .uleb128 1, 0x1f, {TAILS}
         {files}
         .Lprogram: .byte 0, 9, 2
         .quad main
         .byte 1, 2
         .uleb128 8
         .byte 0, 1, 1
         .Lline_end:",
        "a".repeat(LONG),
        LONG - 1,
    ))
}

#[test]
fn paths_that_are_tails_of_one() {
    let shop = with_paths();
    let file = shop.path("a.so").display().to_string();
    let main = format!("{:x}", shop.address("a.so", "main"));
    let ran = limited(MEMORY, 20, ["--debug", &file, "--address", &main]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.out.starts_with("main "),
        "by its symbol: {:.100}",
        ran.out
    );
}

/// A report of a few kilobytes whose one long name stands with each frame.
#[test]
fn a_long_name_is_cut_wherever_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = Report::default();
    report.event = Some(new!(Event {
        kind: EventKind::Crash,
    }));
    let frame = |name: &str| {
        new!(Frame {
            pc: 0x1000,
            name: Some(name.to_owned()),
        })
    };
    let names = [
        "é".repeat(250_000),
        format!("_ZN1a{}E", "1b".repeat(100_000)),
        format!("_R{}", "a".repeat(9_000)),
    ];
    let frames = names.iter().map(|name| frame(name)).collect();
    report.threads.push(new!(Thread {
        main: true,
        crashed: true,
        frames,
    }));
    report.end = Some(new!(report::End {
        closed_by: "writer".to_owned(),
    }));
    let path = folder.path().join("1.wedjat");
    std::fs::write(&path, report::to_bytes(&report)).unwrap();
    for format in ["text", "json", "ndjson", "folded", "firefox", "html"] {
        for more in [&[][..], &["--no-demangle"]] {
            let args = ["--format", format, path.to_str().unwrap()];
            let ran = limited(MEMORY, 20, args.iter().chain(more));
            assert_eq!(ran.code, Some(0), "{format}: {}", ran.err);
            let longest = ran.out.split(['\n', '"', '>', ';']).map(str::len).max();
            assert!(longest.unwrap() < 13_000, "{format}: {longest:?}");
        }
    }
}
