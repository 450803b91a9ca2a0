//! Names and paths that a bitcode build hid, and the BCSymbolMap that has them: files of `testdata/macho`, in which some
//! are numbers. The truth is what the same files say with their own names.

use std::path::Path;

use crate::deadline::symbolicate;
use wedjat::symbolicate::{Addresses, DebugFiles};

const DSYM: &str = "testdata/macho/arm64/kiosk.dSYM/Contents/Resources/DWARF/kiosk";
const BINARY: &str = "testdata/macho/arm64/kiosk";
/// Functions, and the name of a source file.
const HIDDEN: [&str; 7] = [
    "kiosk_fault",
    "handle_event",
    "render_receipt",
    "grain_grind",
    "receipt.cpp",
    "_ZN7receipt3allIjEEyPK5orderj",
    "_ZZNK7receipt6ColumnIjLi5EE5printEvENKUliE_clEi",
];
const UUID: &str = "4C4C44E2-5555-3144-A15D-8DB1B87DBB83";
const OTHER: &str = "4C4C44E2-5555-3144-A15D-8DB1B87DBB84";

fn map() -> String {
    format!("BCSymbolMap Version: 2.0\n{}\n", HIDDEN.join("\n"))
}

/// The file with numbers in place of these texts, also where a symbol table has an underscore more.
fn hidden(path: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(path).unwrap();
    let mut count = 0;
    for (number, text) in HIDDEN.iter().enumerate() {
        for old in [format!("\0{text}\0"), format!("\0_{text}\0")] {
            let mut new = format!("\0__hidden#{number}_").into_bytes();
            assert!(new.len() < old.len(), "{text} is too short");
            new.resize(old.len(), 0);
            while let Some(at) = bytes.windows(old.len()).position(|of| of == old.as_bytes()) {
                bytes[at..at + old.len()].copy_from_slice(&new);
                count += 1;
            }
        }
    }
    assert!(count >= 4, "{path}: {count}");
    bytes
}

/// A folder with files of these contents.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    folder
}

/// Function, name as the file has it, file and line of all frames at all addresses, by the debug files at `paths`.
fn answers(paths: &[&Path], search: bool) -> Vec<String> {
    let mut files = DebugFiles::new().system(search);
    for path in paths {
        assert!(files.add(path).unwrap().objects > 0, "{path:?}");
    }
    let addresses = Addresses::new(&files, None, None).unwrap();
    let mut answers = Vec::new();
    // The code of both files.
    for address in (0x1_0000_0000..0x1_0000_8000).step_by(4) {
        for frame in addresses.frames(address).iter() {
            let (name, mangled) = (&frame.function, &frame.mangled);
            let (file, line) = (&frame.file, frame.line);
            answers.push(format!(
                "{address:#x} {name:?} {mangled:?} {file:?} {line:?}"
            ));
        }
    }
    answers
}

#[test]
fn a_map_has_the_names_and_paths_of_debug_information_and_symbols() {
    let map_file = format!("maps/{UUID}.bcsymbolmap");
    for path in [DSYM, BINARY] {
        let folder = folder(&[("kiosk", &hidden(path)[..]), (&*map_file, map().as_bytes())]);
        let (file, maps) = (folder.path().join("kiosk"), folder.path().join("maps"));
        let truth = answers(&[Path::new(path)], false);
        assert!(truth.len() > 100, "{path}");
        let without = answers(&[&file], false);
        let is_wrong =
            |answer: &&String| answer.contains("handle_event") || answer.contains("\"__hidden");
        assert_eq!(without.iter().find(is_wrong), None, "{path}");
        for given in [&maps, &folder.path().join(&map_file)] {
            assert_eq!(answers(&[&file, given], false), truth, "{path}");
        }
        assert_eq!(answers(&[folder.path()], false), truth, "{path}");
    }
}

/// A dSYM of Apple's own compilation states the UUID of the build that was sent, by which the map is named.
#[test]
fn a_map_is_found_by_the_id_of_the_original_build_and_in_the_archive() {
    let truth = answers(&[Path::new(DSYM)], false);
    let facts = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\">\n<dict>\n\t<key>DBGArchitecture</key>\n\t\
         <string>arm64</string>\n\t<key>DBGOriginalUUID</key>\n\t<string>{OTHER}</string>\n</dict>\n</plist>\n"
    );
    let dsym = "Kiosk.xcarchive/dSYMs/kiosk.app.dSYM/Contents/Resources";
    let (dwarf, map) = (hidden(DSYM), map());
    for (id, facts) in [(UUID, ""), (OTHER, &*facts)] {
        let folder = folder(&[
            (&*format!("{dsym}/DWARF/kiosk"), &dwarf[..]),
            (&*format!("{dsym}/{UUID}.plist"), facts.as_bytes()),
            (
                &*format!("Kiosk.xcarchive/BCSymbolMaps/{id}.bcsymbolmap"),
                map.as_bytes(),
            ),
        ]);
        let archive = folder.path().join("Kiosk.xcarchive");
        assert_eq!(answers(&[&archive], false), truth, "{id}");
        let alone = folder.path().join(dsym).join("DWARF/kiosk");
        assert_eq!(answers(&[&alone], true), truth, "{id}");
        assert_ne!(
            answers(&[&alone], false),
            truth,
            "{id}: nothing was to be searched"
        );
    }
}

#[test]
fn a_map_that_is_none_is_said() {
    let name = format!("{UUID}.bcsymbolmap");
    let folder = folder(&[(&*name, &b"BCSymbolMap Version: 9.9\n_pay\n"[..])]);
    for given in [folder.path().to_owned(), folder.path().join(&name)] {
        let report = Path::new("testdata/imported/simulated.ips");
        let ran = symbolicate([
            Path::new("--no-cache"),
            Path::new("--debug"),
            given.as_path(),
            report,
        ]);
        assert!(ran.err.contains("it does not begin with"), "{}", ran.err);
    }
}
