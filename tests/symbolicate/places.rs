//! Where debug files are found, and in which wrappings: each place laid out by the test itself.

use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use crate::support::symbolicate::{Workshop, chains, copy, line_of};
use serde_json::Value;
use wedjat::new;
use wedjat::report::{Found, Frame, Image, Report, Thread};
use wedjat::symbolicate::{Addresses, DebugFiles, Symbolicator};

const SOURCE: &str = "volatile int sink;
__attribute__((noinline)) static void hidden(int n) {
    sink = n;
    __asm__ volatile(\"mark: nop\" ::: \"memory\"); // @mark
}
int main(int argc, char **argv) { hidden(argc); return 0; }
";

fn workshop(flags: &str) -> (Workshop, u64, Vec<String>) {
    let shop = Workshop::new(&[("a.c", SOURCE)]);
    shop.run(&format!("gcc -g -O1 {flags} a.c -o program"));
    let mark = shop.address("program", "mark");
    (
        shop,
        mark,
        vec![format!("hidden:{}", line_of(SOURCE, "mark"))],
    )
}

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/macho")
        .join(path)
}

/// The debug file of one architecture, within its dSYM.
fn dwarf(arch: &str) -> PathBuf {
    fixture(&format!("{arch}/kiosk.dSYM/Contents/Resources/DWARF/kiosk"))
}

/// LLVM's word on one architecture: address, and the outermost function's linkage name and line.
fn golden(arch: &str) -> Vec<(u64, String, u64)> {
    let text = std::fs::read_to_string(fixture(&format!("golden/{arch}.ndjson"))).unwrap();
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let address = row["address"]
            .as_str()
            .unwrap()
            .trim_start_matches("0x")
            .to_owned();
        let outer = row["frames"].as_array().unwrap().last().unwrap().clone();
        let name = outer["linkage"].as_str().unwrap().to_owned();
        (
            u64::from_str_radix(&address, 16).unwrap(),
            name,
            outer["line"].as_u64().unwrap(),
        )
    };
    text.lines().map(row).collect()
}

#[track_caller]
fn assert_golden(path: &Path, arch: &str) {
    let mut files = DebugFiles::new().no_search();
    files.add(path).unwrap();
    let symbolicator = Addresses::new(&files, Some(arch), None).unwrap();
    for (address, name, line) in golden(arch) {
        let frames = symbolicator.frames(address);
        let outer = frames
            .last()
            .unwrap_or_else(|| panic!("{arch} {address:#x}"));
        let ours = (outer.mangled.as_deref(), outer.line.unwrap_or(0).into());
        assert_eq!(ours, (Some(&*name), line), "{arch} {address:#x}");
    }
}

/// A universal file of `slices`, as Apple's <mach-o/fat.h> has it, with 32- or 64-bit headers.
fn universal(slices: &[(u32, u32, Vec<u8>)], wide: bool) -> Vec<u8> {
    let mut header: Vec<u8> = Vec::new();
    let mut body: Vec<u8> = Vec::new();
    let magic: u32 = if wide { 0xcafe_babf } else { 0xcafe_babe };
    for word in [magic, slices.len() as u32] {
        header.extend(word.to_be_bytes());
    }
    const ALIGN: usize = 1 << 14;
    for (cpu, sub, bytes) in slices {
        body.resize(body.len().next_multiple_of(ALIGN), 0);
        let (offset, size) = (ALIGN + body.len(), bytes.len());
        header.extend([cpu.to_be_bytes(), sub.to_be_bytes()].concat());
        if wide {
            header.extend([(offset as u64).to_be_bytes(), (size as u64).to_be_bytes()].concat());
            header.extend([14u32.to_be_bytes(), 0u32.to_be_bytes()].concat());
        } else {
            header.extend(
                [offset as u32, size as u32, 14]
                    .map(u32::to_be_bytes)
                    .concat(),
            );
        }
        body.extend(bytes);
    }
    header.resize(ALIGN, 0);
    [header, body].concat()
}

const ARM64: u32 = 0x0100_000c;
const X86_64: u32 = 0x0100_0007;

/// The bytes of a debug file with another UUID, and its architecture's subtype in the header changed.
fn another(arch: &str, subtype: u32) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = std::fs::read(dwarf(arch)).unwrap();
    bytes[8..12].copy_from_slice(&subtype.to_le_bytes());
    let uuid = std::fs::read_to_string(fixture(&format!("golden/{arch}.uuid"))).unwrap();
    let hex: Vec<u8> = uuid.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit =
        |i: usize| u8::from_str_radix(std::str::from_utf8(&hex[i..i + 2]).unwrap(), 16).unwrap();
    let id: Vec<u8> = (0..16).map(|i| digit(2 * i)).collect();
    let at = bytes.windows(16).position(|window| window == id).unwrap();
    bytes[at] ^= 0x80;
    (bytes[at..at + 16].to_vec(), bytes)
}

#[test]
fn universal_files_with_headers_of_either_width() {
    let folder = tempfile::tempdir().unwrap();
    let slices = [(ARM64, 0), (X86_64, 3)]
        .into_iter()
        .zip(["arm64", "x86_64"]);
    let slices: Vec<_> = slices
        .map(|((cpu, sub), arch)| (cpu, sub, std::fs::read(dwarf(arch)).unwrap()))
        .collect();
    for wide in [false, true] {
        let path = folder.path().join(format!("wide-{wide}"));
        std::fs::write(&path, universal(&slices, wide)).unwrap();
        assert_golden(&path, "arm64");
        assert_golden(&path, "x86_64");
    }
}

/// arm64 and arm64e are two images, with an id each: neither answers for the other.
#[test]
fn three_slices_two_of_them_much_alike() {
    let folder = tempfile::tempdir().unwrap();
    let (id, arm64e) = another("arm64", 0x8000_0002);
    let slices = vec![
        (X86_64, 3, std::fs::read(dwarf("x86_64")).unwrap()),
        (ARM64, 0, std::fs::read(dwarf("arm64")).unwrap()),
        (ARM64, 0x8000_0002, arm64e),
    ];
    let path = folder.path().join("three");
    std::fs::write(&path, universal(&slices, true)).unwrap();
    for arch in ["arm64", "x86_64"] {
        assert_golden(&path, arch);
    }
    let mut files = DebugFiles::new().no_search();
    assert_eq!(files.add(&path).unwrap().objects, 3);
    assert!(files.ids().any(|known| known == id));
    assert!(Addresses::new(&files, Some("arm64e"), None).is_ok());
    let error = Addresses::new(&files, None, None)
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("--arch") && error.contains("arm64e"),
        "{error}"
    );
}

/// Behind a first answer, the table of the slice in question is made, and no other one's.
#[test]
fn of_a_universal_file_only_the_slice_in_question_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let slice = |cpu, sub, arch| {
        let mut bytes = std::fs::read(dwarf(arch)).unwrap();
        bytes.resize(2 << 20, 0); // smaller ones are not worth a table
        (cpu, sub, bytes)
    };
    let slices = [slice(ARM64, 0, "arm64"), slice(X86_64, 3, "x86_64")];
    let path = folder.path().join("both");
    std::fs::write(&path, universal(&slices, false)).unwrap();
    let cache = folder.path().join("cache");
    for (queries, arch) in ["x86_64", "arm64"].into_iter().enumerate() {
        let (address, ..) = golden(arch).remove(0);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_symbolicate"));
        command.arg("--debug").arg(&path).arg("--cache").arg(&cache);
        // So many that a table is worth it.
        let lines: String = (0..2000)
            .map(|at| format!("{:#x}\n", address + at))
            .collect();
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(lines.as_bytes()).unwrap();
        input.rewind().unwrap();
        command
            .args(["--arch", arch, "--address", "-"])
            .stdin(input);
        assert!(command.output().unwrap().status.success());
        let uuid = |arch: &str| {
            let text = std::fs::read_to_string(fixture(&format!("golden/{arch}.uuid"))).unwrap();
            text.replace('-', "").trim().to_lowercase()
        };
        let has = |arch: &str| {
            let files = std::fs::read_dir(&cache).into_iter().flatten().flatten();
            let mut names = files.map(|file| file.file_name().into_string().unwrap());
            names.any(|name| name.starts_with(&uuid(arch)) && name.ends_with(".table"))
        };
        assert_eq!([has("x86_64"), has("arm64")], [true, queries == 1]);
    }
}

fn report(id: &[u8], name: &str, pc: u64) -> Report {
    let mut report = Report::default();
    report.images.push(new!(Image {
        name: name.into(),
        id: id.to_vec(),
        base: 0x1_0000_0000,
        base_svma: 0x1_0000_0000,
        size: 0x100_0000,
    }));
    let frame = new!(Frame {
        pc,
        found: Found::Context,
        image: Some(0),
    });
    report.threads.push(new!(Thread {
        frames: vec![frame],
    }));
    report
}

#[test]
fn one_dsym_with_several_binaries() {
    let folder = tempfile::tempdir().unwrap();
    let within = folder.path().join("App.dSYM/Contents/Resources/DWARF");
    copy(&dwarf("arm64"), &within.join("kiosk"));
    let (other_id, other) = another("arm64", 0);
    // What sets the two apart, but for the id: the other one calls a source file by another name.
    let from = b"receipt.cpp";
    let mut other = other;
    let places: Vec<usize> = (0..other.len() - from.len())
        .filter(|&i| other[i..].starts_with(from))
        .collect();
    assert!(!places.is_empty());
    places
        .iter()
        .for_each(|&at| other[at..at + from.len()].copy_from_slice(b"voucher.cpp"));
    std::fs::write(within.join("helper"), other).unwrap();
    let mut files = DebugFiles::new().no_search();
    assert_eq!(
        files.add(&folder.path().join("App.dSYM")).unwrap().objects,
        2
    );
    let symbolicator = Symbolicator::new(files);
    let rows = golden("arm64");
    let texts = |id: &[u8]| -> String {
        let file = |(pc, ..): &(u64, String, u64)| {
            let result = symbolicator.symbolicate(report(id, "any", *pc));
            let frames = result.threads[0].frames[0].frames.clone();
            frames
                .last()
                .and_then(|f| f.file.clone())
                .unwrap_or_default()
                .to_string()
        };
        rows.iter().step_by(7).map(file).collect()
    };
    let own: Vec<u8> = symbolicator
        .files()
        .ids()
        .find(|id| *id != other_id)
        .unwrap()
        .to_vec();
    let (own, other) = (texts(&own), texts(&other_id));
    assert!(own.contains("receipt.cpp") && !own.contains("voucher.cpp"));
    assert!(other.contains("voucher.cpp") && !other.contains("receipt.cpp"));
}

/// As Xcode lays out an archive: stripped products, and dSYMs beside them.
#[test]
fn an_xcarchive() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("Kiosk 2026-11-21.xcarchive");
    copy(
        &fixture("arm64/kiosk.stripped"),
        &archive.join("Products/Applications/Kiosk.app/Kiosk"),
    );
    copy(
        &dwarf("arm64"),
        &archive.join("dSYMs/Kiosk.app.dSYM/Contents/Resources/DWARF/Kiosk"),
    );
    std::fs::write(
        archive.join("Info.plist"),
        "<?xml version=\"1.0\"?><plist/>",
    )
    .unwrap();
    assert_golden(&archive, "arm64");
    assert_golden(folder.path(), "arm64");
}

#[test]
fn a_dsym_beside_the_stripped_app() {
    let folder = tempfile::tempdir().unwrap();
    copy(
        &fixture("x86_64/kiosk.stripped"),
        &folder.path().join("kiosk"),
    );
    copy(
        &dwarf("x86_64"),
        &folder
            .path()
            .join("kiosk.dSYM/Contents/Resources/DWARF/kiosk"),
    );
    assert_golden(folder.path(), "x86_64");
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sentry's unified layout: `ab/cdef…/debuginfo` beside `executable`.
#[test]
fn a_unified_symbol_folder() {
    let (shop, mark, truth) = workshop("-Wl,--build-id=sha1");
    let id = hex(&shop.id("program"));
    let folder = shop.path("symbols").join(&id[..2]).join(&id[2..]);
    std::fs::create_dir_all(&folder).unwrap();
    shop.run("objcopy --only-keep-debug program debuginfo");
    shop.run("objcopy --strip-all program executable");
    copy(&shop.path("debuginfo"), &folder.join("debuginfo"));
    copy(&shop.path("executable"), &folder.join("executable"));
    std::fs::write(folder.join("meta"), "{\"name\": \"program\"}").unwrap();
    let mut files = DebugFiles::new().no_search();
    assert_eq!(files.add(&shop.path("symbols")).unwrap().objects, 1);
    assert_eq!(
        chains(files, shop.report("program", &[(mark, Found::Context)])),
        [truth]
    );
}

#[test]
fn a_build_id_folder() {
    let (shop, mark, truth) = workshop("-Wl,--build-id=sha1");
    let id = hex(&shop.id("program"));
    shop.run("objcopy --only-keep-debug program debug");
    let below = format!("usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    copy(&shop.path("debug"), &shop.path(&below));
    let mut files = DebugFiles::new().no_search();
    files.add(&shop.path("usr")).unwrap();
    assert_eq!(
        chains(files, shop.report("program", &[(mark, Found::Context)])),
        [truth]
    );
}

/// Where there is no build id, the link's CRC-32 says whether a debug file is the right one.
#[test]
fn a_debug_link_is_held_to_its_crc() {
    let (shop, mark, truth) = workshop("-Wl,--build-id=none");
    assert!(shop.id("program").is_empty());
    shop.run("objcopy --only-keep-debug program linked.debug");
    shop.run("objcopy --strip-all --add-gnu-debuglink=linked.debug program stripped");
    let of = |shop: &Workshop| {
        let mut files = DebugFiles::new();
        files.add(&shop.path("stripped")).unwrap();
        chains(files, shop.report("stripped", &[(mark, Found::Context)]))
    };
    assert_eq!(of(&shop)[0], truth);
    // From `.debug`, too.
    std::fs::create_dir(shop.path(".debug")).unwrap();
    std::fs::rename(shop.path("linked.debug"), shop.path(".debug/linked.debug")).unwrap();
    assert_eq!(of(&shop), [truth]);
    // A debug file of another build under the same name.
    shop.run("gcc -g -O0 -Wl,--build-id=none a.c -o other");
    shop.run("objcopy --only-keep-debug other .debug/linked.debug");
    assert_eq!(of(&shop), [Vec::<String>::new()]);
}

/// A file without any id still serves `--address`, which names it itself.
/// An image that is given and has nothing to name functions by: no name, and no failure.
#[test]
fn an_image_with_no_symbol_left() {
    for flags in ["-Wl,--build-id=sha1", "-Wl,--build-id=none"] {
        let (shop, mark, _) = workshop(flags);
        shop.run("strip program");
        for (format, answer) in [
            ("text", format!("{mark:#x} (in program)\n")),
            (
                "ndjson",
                format!("{{\"address\":\"{mark:#x}\",\"frames\":[]}}\n"),
            ),
        ] {
            let output = std::process::Command::new(env!("CARGO_BIN_EXE_symbolicate"))
                .arg("--debug")
                .arg(shop.path("program"))
                .args([
                    "--no-cache",
                    "--format",
                    format,
                    "--address",
                    &format!("{mark:#x}"),
                ])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), answer);
            assert_eq!(output.status.code(), Some(0));
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(errors.contains("no debug files in it"), "{errors}");
        }
    }
}

#[test]
fn a_file_without_an_id() {
    let (shop, mark, truth) = workshop("-Wl,--build-id=none");
    assert_eq!(shop.chain(&["program"], mark), truth);
    // But no report's image is taken to be it: nothing says that it is.
    let mut files = DebugFiles::new().no_search();
    files.add(&shop.path("program")).unwrap();
    assert_eq!(
        chains(files, shop.report("program", &[(mark, Found::Context)])),
        [Vec::<String>::new()]
    );
}
