//! What the symbolicator does with files that mean it ill: a clear error, an exit code, no hang, bounded memory.
#![cfg(all(feature = "symbolicate", target_os = "linux"))]

mod deadline;
mod symbolicate_support;

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use deadline::{Ran, finish, most_memory, symbolicate};
use symbolicate_support::Workshop;
use wedjat::report::{self, Event, EventKind, Found, Frame, Image, Report, Thread};
use wedjat::symbolicate::{Addresses, Cache, DebugFiles, Symbolicator};

const DSYM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/testdata/macho/arm64/kiosk.dSYM/Contents/Resources/DWARF/kiosk"
);
/// Where the code of that file lies.
const CODE: std::ops::Range<u64> = 0x1_0000_0000..0x1_0000_8000;

/// A live report with a frame in each image.
fn report_of(images: Vec<Image>) -> Vec<u8> {
    let mut report = Report::default();
    report.event = Some(Event {
        kind: EventKind::Live,
        ..Event::default()
    });
    let frames = images.iter().enumerate().map(|(index, image)| Frame {
        pc: image.base + 0x10,
        found: Found::Context,
        image: Some(index as u32),
        name: None,
    });
    report.threads.push(Thread {
        frames: frames.collect(),
        ..Thread::default()
    });
    report.images = images;
    report.end = Some(report::End {
        closed_by: "writer".to_owned(),
        ..report::End::default()
    });
    report::to_bytes(&report)
}

fn fifo(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: `path` ends with a zero and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

#[test]
fn what_is_no_file_is_an_error_and_never_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.wedjat");
    fifo(&pipe);
    let socket = folder.path().join("socket.wedjat");
    let _socket = UnixListener::bind(&socket).unwrap();
    let whole = folder.path().join("whole.wedjat");
    fs::write(&whole, report_of(vec![])).unwrap();
    let device = Path::new("/dev/zero");
    for (path, what) in [
        (&*pipe, "a named pipe"),
        (&*socket, "a socket"),
        (device, "a device"),
    ] {
        let ran = symbolicate([path]);
        assert_eq!(ran.code, Some(3), "{}", ran.err);
        assert!(ran.err.contains(what), "{}", ran.err);
        let ran = symbolicate([Path::new("--inspect"), path]);
        assert_eq!(ran.code, Some(3), "{}", ran.err);
        assert!(ran.err.contains(what), "{}", ran.err);
        // The report is read all the same.
        let ran = symbolicate([Path::new("--debug"), path, &whole]);
        assert!(ran.err.contains(what), "{}", ran.err);
        assert!(ran.out.contains("Incident"), "{}", ran.out);
        let ran = symbolicate(["--debug", path.to_str().unwrap(), "--address", "0x10"]);
        assert_eq!(ran.code, Some(3), "{}", ran.err);
    }
    // In a folder: the others are read.
    let ran = symbolicate([folder.path()]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("a named pipe") && ran.err.contains("a socket"));
    assert!(ran.out.contains("Incident"));
    // A folder as a stream.
    let child = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .arg("-")
        .stdin(File::open(folder.path()).unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let ran = finish(child.unwrap());
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(ran.err.contains("standard input"), "{}", ran.err);
}

#[test]
fn endless_and_sparse_files_take_neither_time_nor_memory() {
    const HUGE: u64 = 10 << 30;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let sparse = |name: &str, start: &[u8]| {
        let mut file = File::create(path(name)).unwrap();
        file.write_all(start).unwrap();
        file.set_len(HUGE).unwrap();
        path(name)
    };
    for name in ["a.wedjat", "a.json", "a.ips", "a.crash", "a.plcrash"] {
        let ran = symbolicate([sparse(name, b"")]);
        assert_eq!(ran.code, Some(3), "{name}: {}", ran.err);
        assert!(ran.err.contains("error"), "{name}: {}", ran.err);
    }
    // A report with ten gigabytes of nothing behind it is read.
    let ran = symbolicate([sparse("b.wedjat", &report_of(vec![]))]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("Incident"), "{}", ran.err);
    let ran = symbolicate([folder.path().as_os_str(), "--top".as_ref()]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    // As debug files: nothing, a header alone, and a whole one.
    let zeros = sparse("zeros", b"");
    let ran = symbolicate([
        "--debug".as_ref(),
        zeros.as_os_str(),
        "--address".as_ref(),
        "1".as_ref(),
    ]);
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(ran.err.contains("neither Mach-O nor ELF"), "{}", ran.err);
    let whole = fs::read(DSYM).unwrap();
    for start in [&whole[..64], &whole[..4000]] {
        let cut = sparse("cut", start);
        let ran = symbolicate([
            "--debug".as_ref(),
            cut.as_os_str(),
            "--address".as_ref(),
            "1".as_ref(),
        ]);
        assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.err);
        let ran = symbolicate(["--inspect".as_ref(), cut.as_os_str()]);
        assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.err);
    }
    let long = sparse("long", &whole);
    let ran = symbolicate([
        "--debug".as_ref(),
        long.as_os_str(),
        "--address".as_ref(),
        "1".as_ref(),
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.out.contains("kiosk") || ran.out.contains("long"),
        "{}",
        ran.out
    );
    // An endless stream that is no report.
    let child = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .arg("-")
        .stdin(File::open("/dev/zero").unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let ran = finish(child.unwrap());
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(most_memory() < 700 << 20, "{} bytes", most_memory());
}

#[test]
fn loops_of_links_and_dots_in_paths_lead_nowhere_twice() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("MyApp.xcarchive/dSYMs/deep");
    fs::create_dir_all(&below).unwrap();
    fs::copy(DSYM, below.join("kiosk")).unwrap();
    symlink("..", below.join("up")).unwrap();
    symlink(folder.path(), below.join("top")).unwrap();
    symlink("self", below.join("self")).unwrap();
    symlink("nowhere", below.join("dangling")).unwrap();
    symlink("/dev/zero", below.join("zero")).unwrap();
    fifo(&below.join("pipe"));
    fs::write(below.join("one.wedjat"), report_of(vec![])).unwrap();
    let dotted = folder
        .path()
        .join("MyApp.xcarchive/../MyApp.xcarchive/./dSYMs");
    let plain = answers(Path::new(DSYM));
    assert!(plain.contains("main"), "{plain}");
    for given in [folder.path(), &dotted] {
        assert_eq!(answers(given), plain);
        // Each report once, however many ways lead to it.
        let ran = symbolicate([given.as_os_str(), "--format".as_ref(), "ndjson".as_ref()]);
        assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
        let ran = symbolicate(["--inspect".as_ref(), given.as_os_str()]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
}

/// What `--address` says of every place in the fixture.
fn answers(debug: &Path) -> String {
    let mut args = vec![
        "--debug".into(),
        debug.as_os_str().to_owned(),
        "--address".into(),
    ];
    args.extend(
        CODE.step_by(64)
            .map(|address| format!("{address:x}").into()),
    );
    let ran = symbolicate(args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    ran.out
}

#[test]
fn a_report_s_paths_are_never_shown_what_lies_there() {
    let folder = tempfile::tempdir().unwrap();
    fifo(&folder.path().join("pipe"));
    let up = "../".repeat(40);
    let names = [
        "/etc/passwd".to_owned(),
        format!("/usr/lib/{up}etc/passwd"),
        format!("{up}etc/passwd"),
        folder.path().join("pipe").display().to_string(),
        "/dev/zero".to_owned(),
        "/proc/self/mem".to_owned(),
        "/proc/kcore".to_owned(),
        "/proc/kmsg".to_owned(),
        "/".to_owned(),
        "\0/etc/passwd".to_owned(),
        "/".repeat(5000),
    ];
    let images = names.iter().enumerate().flat_map(|(index, name)| {
        let image = |id: &[u8]| Image {
            name: name.clone(),
            id: id.to_vec(),
            base: 0x10_0000 * (index as u64 + 1),
            size: 0x1000,
            ..Image::default()
        };
        [image(b""), image(b"..\0/\xff"), image(&[b'.'; 64])]
    });
    let path = folder.path().join("1.wedjat");
    fs::write(&path, report_of(images.collect())).unwrap();
    let ran = symbolicate([&path]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.out.contains("root:"), "{}", ran.out);
}

#[test]
fn a_debug_file_that_shrinks_while_it_is_used_ends_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kiosk");
    fs::copy(DSYM, &path).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .args(["--no-cache", "--address", "-", "--debug"])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    // An answer: the file is mapped.
    writeln!(input, "0").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("kiosk"), "{line}");
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(0)
        .unwrap();
    // Until something has to be read that was not read before.
    for address in CODE.step_by(4) {
        if writeln!(input, "{address:x}").is_err() {
            break;
        }
    }
    drop(input);
    let rest = std::thread::spawn(move || output.lines().count());
    child.stdout = Some(empty_pipe());
    let ran = finish(child);
    rest.join().unwrap();
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(
        ran.err.contains("got shorter while it was read"),
        "{}",
        ran.err
    );
}

/// The end of a pipe without a writer.
fn empty_pipe() -> std::process::ChildStdout {
    let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    child.wait().unwrap();
    child.stdout.take().unwrap()
}

/// Looks at a debug file in every way the symbolicator has, in this process.
fn use_up(path: &Path) {
    let mut files = DebugFiles::new().system(false);
    let Ok(added) = files.add(path) else { return };
    assert!(added.damaged.iter().all(|text| !text.is_empty()));
    let ids: Vec<Vec<u8>> = files.ids().map(<[u8]>::to_vec).collect();
    if let Ok(addresses) = Addresses::new(&files, None, None) {
        for address in CODE.step_by(256).chain((0..0x4000).step_by(64)) {
            addresses.frames(address);
        }
    }
    let symbolicator = Symbolicator::new(files);
    for id in ids {
        let image = Image {
            id,
            base: CODE.start,
            stated: CODE.start,
            size: 0x8000,
            ..Image::default()
        };
        symbolicator.symbolicate(report::read(&report_of(vec![image])).unwrap().report);
    }
}

#[test]
fn cut_and_changed_debug_files_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kiosk");
    let whole = fs::read(DSYM).unwrap();
    for len in (0..whole.len()).step_by(701) {
        fs::write(&path, &whole[..len]).unwrap();
        use_up(&path);
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for _ in 0..120 {
        let mut changed = whole.clone();
        for _ in 0..8 {
            // Headers more often than what they lead to.
            let at = if next(2) == 0 {
                next(4096)
            } else {
                next(whole.len())
            };
            changed[at] = [0, 0xff, 0x7f, 0x80, next(256) as u8][next(5)];
        }
        fs::write(&path, &changed).unwrap();
        use_up(&path);
    }
}

/// The library `a.so` with `.debug_*` sections around a function `main`.
fn assembled(debug: &str) -> Workshop {
    let source = format!(
        ".text\n.globl main\n.type main,@function\nmain: nop\n.rept 64\nnop\n.endr\nret\n.Lend:\n.size main,.-main\n{debug}\n.section .note.GNU-stack,\"\",@progbits\n"
    );
    let workshop = Workshop::new(&[("a.s", &source)]);
    workshop.run("gcc -shared -nostdlib -Wl,--build-id=sha1 a.s -o a.so");
    workshop
}

/// What the command gives for `main` of it, which it must.
fn main_of(workshop: &Workshop, name: &str) -> Ran {
    let (path, main) = (workshop.path("a.so"), workshop.address("a.so", "main"));
    let (path, main) = (path.to_str().unwrap(), format!("{main:#x}"));
    let ran = symbolicate(["--no-cache", "--debug", path, "--address", &main]);
    assert_eq!(ran.code, Some(0), "{name}: {}", ran.err);
    ran
}

/// A DWARF 4 unit with these DIEs behind its root, and these further abbreviations.
fn unit(abbreviations: &str, dies: &str) -> String {
    format!(
        ".section .debug_abbrev,\"\",@progbits
         .uleb128 1, 0x11
         .byte 1
         .uleb128 0x11, 1, 0x12, 7, 0x10, 0x17, 0, 0
         {abbreviations}
         .uleb128 0
         .section .debug_info,\"\",@progbits
         .Lunit: .long .Lunit_end - .Lversion
         .Lversion: .value 4
         .long 0
         .byte 8
         .uleb128 1
         .quad main
         .quad .Lend - main
         .long 0
         {dies}
         .uleb128 0
         .Lunit_end:"
    )
}

#[test]
fn a_line_of_no_file_is_not_shown() {
    // The unit names no function; its line program has a row for `main` and for the code behind it,
    // and no files.
    let lines = "
        .section .debug_line,\"\",@progbits
        .long .Lline_end - .Lline_version
        .Lline_version: .value 4
        .long .Lprogram - .Lheader
        .Lheader: .byte 1, 1, 1, -5, 14, 13
        .byte 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
        .byte 0, 0
        .Lprogram: .byte 0, 9, 2
        .quad main
        .byte 3
        .sleb128 41
        .byte 1
        .byte 2
        .uleb128 .Lbehind_end - main
        .byte 0, 1, 1
        .Lline_end:
        .text
        .rept 16
        nop
        .endr
        .Lbehind_end:";
    let folder = tempfile::tempdir().unwrap();
    let workshop = assembled(&(unit("", "") + lines));
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
        let mut files = DebugFiles::new().system(false).cache(cache);
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
    let lines = "
        .section .debug_line,\"\",@progbits
        .long .Lline_end - .Lline_version
        .Lline_version: .value 4
        .long .Lprogram - .Lprologue
        .Lprologue: .byte 1, 1, 1, -5, 14, 13
        .byte 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
        .byte 0, 0
        .Lprogram: .rept 3000
        .byte 0, 9, 2
        .quad 0x10
        .byte 1, 0x20, 0, 1, 1
        .endr
        .Lline_end:";
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
    for (name, debug) in [
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
    let many_rows = "
        .section .debug_line,\"\",@progbits
        .long .Lline_end - .Lline_version
        .Lline_version: .value 4
        .long .Lprogram - .Lprologue
        .Lprologue: .byte 1, 1, 1, -5, 14, 13
        .byte 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
        .byte 0
        .string \"a.c\"
        .byte 0, 0, 0, 0
        .Lprogram: .byte 0, 9, 2
        .quad main
        .fill 2000000, 1, 0x13
        .byte 2, 64, 0, 1, 1
        .Lline_end:";
    let lying_block = "
        .uleb128 2, 0x34
        .byte 0
        .uleb128 0x2, 0x4, 0, 0";
    for (name, debug) in [
        ("abbreviations", unit(many_abbreviations, "")),
        ("rows", unit("", "") + many_rows),
        ("block", unit(lying_block, ".uleb128 2\n.long 0xfffffff0")),
    ] {
        let ran = main_of(&assembled(&debug), name);
        assert!(ran.out.contains("main"), "{name}: {}", ran.out);
    }
    assert!(most_memory() < 700 << 20, "{} bytes", most_memory());
}

#[test]
fn a_section_that_claims_to_unpack_without_end_is_an_error() {
    // A header as that of a compressed section: zlib, and how long it will be.
    let bomb = |unpacked: u64| {
        format!(
            "{}\n.section .debug_str,\"\",@progbits\n.long 1, 0\n.quad {unpacked}, 1\n.fill 1000, 1, 0x78",
            unit("", "")
        )
    };
    for (unpacked, is_reported) in [(1 << 42, true), (8 << 30, true), (4000, false)] {
        let workshop = assembled(&bomb(unpacked));
        let path = workshop.path("a.so");
        let mut bytes = fs::read(&path).unwrap();
        mark_compressed(&mut bytes, ".debug_str");
        fs::write(&path, bytes).unwrap();
        let ran = symbolicate([
            "--no-cache",
            "--debug",
            path.to_str().unwrap(),
            "--address",
            "10",
        ]);
        assert_eq!(
            ran.code,
            Some(if is_reported { 3 } else { 0 }),
            "{}",
            ran.err
        );
        assert_eq!(
            ran.err.contains("claims to unpack from 1000 bytes"),
            is_reported,
            "{}",
            ran.err
        );
    }
    assert!(most_memory() < 700 << 20, "{} bytes", most_memory());
}

/// Each of them within what its size allows, as several over the same bytes are.
#[test]
fn sections_that_together_claim_to_unpack_without_end_are_an_error() {
    for (count, is_reported) in [(40, true), (2, false)] {
        let names: Vec<String> = (0..count).map(|at| format!(".debug_x{at:02}")).collect();
        let section = |name: &String| {
            format!(
                "\n.section {name},\"\",@progbits\n.long 1, 0\n.quad 1000000, 1\n.fill 1000, 1, 0x78"
            )
        };
        let sections: String = names.iter().map(section).collect();
        let workshop = assembled(&(unit("", "") + &sections));
        let path = workshop.path("a.so");
        let mut bytes = fs::read(&path).unwrap();
        for name in &names {
            mark_compressed(&mut bytes, name);
        }
        fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        let ran = symbolicate(["--no-cache", "--debug", path, "--address", "10"]);
        let code = if is_reported { 3 } else { 0 };
        assert_eq!(ran.code, Some(code), "{}", ran.err);
        let words = "its sections claim to unpack to";
        assert_eq!(ran.err.contains(words), is_reported, "{}", ran.err);
    }
}

/// Sets SHF_COMPRESSED in the header of a section of an ELF file of 64 bits.
fn mark_compressed(bytes: &mut [u8], name: &str) {
    let number = |bytes: &[u8], at: usize, len: usize| {
        let mut wide = [0; 8];
        wide[..len].copy_from_slice(&bytes[at..at + len]);
        u64::from_le_bytes(wide) as usize
    };
    let (headers, count) = (number(bytes, 0x28, 8), number(bytes, 0x3c, 2));
    let names = headers + 64 * number(bytes, 0x3e, 2);
    let names = number(bytes, names + 0x18, 8);
    for header in (0..count).map(|index| headers + 64 * index) {
        let at = names + number(bytes, header, 4);
        if bytes[at..].starts_with(format!("{name}\0").as_bytes()) {
            bytes[header + 9] |= 0x08;
            return;
        }
    }
    panic!("no section {name}");
}
