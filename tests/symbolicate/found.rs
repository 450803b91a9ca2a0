//! Debug files that are found without a path: beside the binary, by Spotlight, in Xcode's folders; and those that are packed.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::symbolicate::copy;

const REPORT: &str = "testdata/imported/simulated.ips";
const DSYM: &str = "testdata/macho/arm64/kiosk.dSYM";
const DWARF: &str = "Contents/Resources/DWARF/kiosk";
/// A line that only the debug file has.
const NAMED: &str = "kiosk.c:";

/// A home folder, an empty one of programs, and one with other files.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine {
            root: tempfile::tempdir().unwrap(),
        };
        for folder in ["home", "programs", "files"] {
            std::fs::create_dir(machine.path(folder)).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Puts the dSYM at this path.
    fn dsym(&self, path: &str) -> PathBuf {
        let path = self.path(path);
        copy(&Path::new(DSYM).join(DWARF), &path.join(DWARF));
        path
    }

    /// A stand-in for `mdfind`.
    fn mdfind(&self, script: &str) {
        let path = self.path("programs/mdfind");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.path("programs").display());
        Command::new(env!("CARGO_BIN_EXE_symbolicate"))
            .env("HOME", self.path("home"))
            .env("PATH", path)
            .args(["--no-cache"])
            .args(arguments)
            .output()
            .unwrap()
    }

    fn names_the_report(&self, more: &[&str]) -> bool {
        let output = self.run(&[more, &[REPORT]].concat());
        String::from_utf8(output.stdout).unwrap().contains(NAMED)
    }
}

const XCODE: &str = "home/Library/Developer/Xcode";

#[test]
fn the_places_of_xcode_are_searched_unless_no_search_is_given() {
    assert!(
        !Machine::new().names_the_report(&[]),
        "the test's own files have its names"
    );
    for place in [
        "Archives/2026-11-27/Kiosk 27.11.26, 01.00.xcarchive/dSYMs/kiosk.app.dSYM",
        "DerivedData/Kiosk-abcdef/Build/Products/Debug-iphoneos/kiosk.app.dSYM",
        "DerivedData/Kiosk-abcdef/Build/Products/Release/Till/till.framework.dSYM",
    ] {
        let machine = Machine::new();
        machine.dsym(&format!("{XCODE}/{place}"));
        assert!(machine.names_the_report(&[]), "{place}");
        assert!(!machine.names_the_report(&["--no-search"]), "{place}");
    }
}

#[test]
fn spotlight_is_asked_for_the_uuid() {
    let machine = Machine::new();
    let archive = machine.path("files/Kiosk.xcarchive");
    machine.dsym("files/Kiosk.xcarchive/dSYMs/kiosk.app.dSYM");
    let asked = machine.path("asked");
    let script = format!(
        "echo \"$1\" >> '{}'\ncase \"$1\" in *4C4C44E2-5555-3144-A15D-8DB1B87DBB83*) echo '{}';; esac",
        asked.display(),
        archive.display()
    );
    machine.mdfind(&script);
    assert!(machine.names_the_report(&[]));
    let text = std::fs::read_to_string(&asked).unwrap();
    let expected = "com_apple_xcode_dsym_uuids == 4C4C44E2-5555-3144-A15D-8DB1B87DBB83\n";
    assert_eq!(text, expected, "one question, for the app alone");
    assert!(!machine.names_the_report(&["--no-search"]));
}

#[test]
fn a_spotlight_that_fails_is_no_failure() {
    let machine = Machine::new();
    for script in [
        "exit 1",
        "echo /no/such/place",
        "head -c 1000000 /dev/zero",
        "echo /",
    ] {
        machine.mdfind(script);
        let output = machine.run(&[REPORT]);
        assert!(output.status.success(), "{script}: {output:?}");
    }
}

#[test]
fn the_library_of_the_same_build_of_the_system_comes_first() {
    let machine = Machine::new();
    let report = std::fs::read_to_string(REPORT).unwrap();
    // The app's image as one of the system's.
    let path = "/System/Library/Frameworks/kiosk.framework/kiosk";
    let report = report.replace(
        "/private/var/containers/Bundle/Application/1/kiosk.app/kiosk",
        path,
    );
    assert!(report.contains(path));
    std::fs::write(machine.path("files/report.ips"), report).unwrap();
    let run = || {
        let report = machine.path("files/report.ips").display().to_string();
        let output = machine.run(&["-v", &report]);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!run().contains(NAMED));
    for device in ["iPhone14,2 17.4 (21E219)", "iPhone12,1 16.0 (20A362)"] {
        let folder = format!("{XCODE}/iOS DeviceSupport/{device}/Symbols{path}");
        copy(&Path::new(DSYM).join(DWARF), &machine.path(&folder));
        assert!(run().contains(NAMED), "{device}");
        std::fs::remove_dir_all(machine.path(&format!("{XCODE}/iOS DeviceSupport"))).unwrap();
    }
}

#[test]
fn a_dsym_beside_the_binary_is_read() {
    let machine = Machine::new();
    let binary = machine.path("files/kiosk");
    copy(Path::new("testdata/macho/arm64/kiosk"), &binary);
    let binary = binary.display().to_string();
    let output = machine.run(&["--debug", &binary, REPORT]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains(&format!("make a dSYM of it: dsymutil '{binary}'")),
        "{errors}"
    );
    assert!(!machine.names_the_report(&["--debug", &binary]));
    machine.dsym("files/kiosk.dSYM");
    let output = machine.run(&["--debug", &binary, REPORT]);
    assert!(
        !String::from_utf8(output.stderr)
            .unwrap()
            .contains("dsymutil")
    );
    assert!(machine.names_the_report(&["--debug", &binary]));
    assert!(!machine.names_the_report(&["--no-search", "--debug", &binary]));
}

/// In a folder too, unless a dSYM of the image is in it.
#[test]
fn a_debug_map_in_a_folder_is_said_once_no_dsym_has_its_information() {
    let machine = Machine::new();
    let binary = machine.path("files/target/debug/kiosk");
    copy(Path::new("testdata/macho/arm64/kiosk"), &binary);
    let files = machine.path("files").display().to_string();
    let hint = || {
        let output = machine.run(&["--debug", &files, REPORT]);
        String::from_utf8(output.stderr).unwrap()
    };
    let expected = format!("make a dSYM of it: dsymutil '{}'", binary.display());
    assert!(hint().contains(&expected), "{}", hint());
    machine.dsym("files/symbols/kiosk.dSYM");
    assert!(!hint().contains("dsymutil"), "{}", hint());
}

#[test]
fn folders_of_symbol_stores_are_read() {
    let id = "4c4c44e255553144a15d8db1b87dbb83";
    for store in [
        format!("{}/{}/debuginfo", &id[..2], &id[2..]),
        format!(".build-id/{}/{}.debug", &id[..2], &id[2..]),
        format!("kiosk/{id}/kiosk"),
    ] {
        let machine = Machine::new();
        copy(
            &Path::new(DSYM).join(DWARF),
            &machine.path("files").join(&store),
        );
        let files = machine.path("files").display().to_string();
        assert!(
            machine.names_the_report(&["--no-search", "--debug", &files]),
            "{store}"
        );
    }
}

#[test]
fn the_places_are_said() {
    let machine = Machine::new();
    machine.mdfind("exit 0");
    std::fs::create_dir_all(machine.path(&format!("{XCODE}/Archives"))).unwrap();
    let files = machine.path("files").display().to_string();
    for option in ["--verbose", "--list-missing"] {
        let output = machine.run(&[option, "--debug", &files, REPORT]);
        let errors = String::from_utf8(output.stderr).unwrap();
        let line = errors
            .lines()
            .find(|line| line.starts_with("searched for debug files: "));
        let line = line.unwrap_or_else(|| panic!("{option}: {errors}"));
        for place in [&*files, "Spotlight (", "Xcode/Archives", "/usr/lib/debug"] {
            assert!(line.contains(place), "{option}: {place}: {line}");
        }
        assert!(!line.contains("DerivedData"), "it is not there: {line}");
        let output = machine.run(&[option, "--no-search", "--debug", &files, REPORT]);
        let errors = String::from_utf8(output.stderr).unwrap();
        let expected = format!("searched for debug files: {files}\n");
        assert!(errors.contains(&expected), "{option}: {errors}");
    }
}

#[test]
fn packed_files_are_refused_with_the_command_that_unpacks_them() {
    let machine = Machine::new();
    let folder = machine.path("files");
    let shell = |line: &str| {
        let done = Command::new("sh")
            .args(["-c", line])
            .current_dir(&folder)
            .status();
        assert!(done.unwrap().success(), "{line}");
    };
    machine.dsym("files/it's kiosk.dSYM");
    shell("tar -czf dSYMs.tar.gz *.dSYM && rm -r *.dSYM");
    let files = folder.display().to_string();
    let packed = folder.join("dSYMs.tar.gz").display().to_string();
    for given in [&files, &packed] {
        let output = machine.run(&["--debug", given, REPORT]);
        let errors = String::from_utf8(output.stderr).unwrap();
        let (_, command) = errors
            .split_once("unpack it: ")
            .unwrap_or_else(|| panic!("{errors}"));
        let command = command.lines().next().unwrap();
        assert!(!machine.names_the_report(&["--debug", &files]));
        shell(command);
        assert!(machine.names_the_report(&["--debug", &files]), "{command}");
        std::fs::remove_dir_all(folder.join("dSYMs")).unwrap();
    }
    // Other archives are nobody's concern.
    shell("mv dSYMs.tar.gz holidays.tar.gz");
    let output = machine.run(&["--debug", &files, REPORT]);
    assert!(!String::from_utf8(output.stderr).unwrap().contains("unpack"));
}
