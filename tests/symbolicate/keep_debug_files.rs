//! `scripts/keep-debug-files`: what it keeps of a build names functions and lines when the build is gone, and
//! it fails where that is not so.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const SOURCE: &str = "\
static int half(int n) { return n / 2; }
__attribute__((noinline)) int work(int n) { return half(n) + 3; }
int main(int c, char **v) { return work(c) + !v; }
";

/// A build folder, and one for debug files.
struct Build {
    folder: TempDir,
    kept: TempDir,
}

impl Build {
    fn new(options: &[&str]) -> Build {
        let build = Build {
            folder: tempfile::tempdir().unwrap(),
            kept: tempfile::tempdir().unwrap(),
        };
        std::fs::write(build.folder.path().join("a.c"), SOURCE).unwrap();
        let options = options.join(" ");
        build.sh(&format!("cc -O1 -Wl,--build-id {options} a.c -o app"));
        build
    }

    fn sh(&self, line: &str) -> String {
        let mut command = Command::new("sh");
        let output = command.args(["-c", line]).current_dir(&self.folder);
        let output = output.output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn keep(&self, program: &str, debug: Option<&str>) -> Output {
        let mut command = keeper();
        command.current_dir(&self.folder);
        command.arg(program).arg(self.kept.path()).args(debug);
        command.output().unwrap()
    }

    /// The frames at the start of `work`, by what was kept alone.
    fn work(self) -> Vec<String> {
        let address = self.sh("nm app | awk '$3 == \"work\" { print $1 }'");
        let Build { folder, kept } = self;
        folder.close().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
        command.arg("--no-cache").arg("--debug").arg(kept.path());
        let output = command
            .args(["--address", address.trim()])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.kept).unwrap().next().is_none()
    }
}

fn keeper() -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(root.join("scripts/keep-debug-files"));
    command.env("SYMBOLICATE", env!("CARGO_BIN_EXE_symbolicate"));
    command
}

fn assert_fails(output: &Output, why: &str) {
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains(why), "{printed}");
}

const WORK: [&str; 2] = ["half (in app) (a.c:1)", "work (in app) (a.c:2)"];

#[test]
fn a_program_with_its_debug_information() {
    let build = Build::new(&["-g"]);
    let output = build.keep("app", None);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(build.work(), WORK);
}

#[test]
fn the_debug_file_of_a_program_that_was_stripped() {
    let build = Build::new(&["-g"]);
    build.sh("objcopy --only-keep-debug app app.debug; cp app whole; strip --strip-debug app");
    let output = build.keep("app", None);
    assert!(output.status.success(), "{output:?}");
    let kept = build.kept.path().join("app");
    let id = std::fs::read_dir(kept).unwrap().next().unwrap().unwrap();
    assert!(id.path().join("app.debug").is_file());
    assert_eq!(build.work().len(), 2);
}

#[test]
fn both_halves_of_a_split_program() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let build = Build::new(&[version, "-gsplit-dwarf"]);
        let output = build.keep("app", None);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(build.work(), WORK);
    }
}

#[test]
fn half_of_a_split_program_is_not_kept() {
    let build = Build::new(&["-g", "-gsplit-dwarf"]);
    build.sh("rm *.dwo");
    assert_fails(&build.keep("app", None), ".dwo: neither in");
    assert!(build.is_empty());
}

#[test]
fn a_package_in_place_of_its_parts() {
    let build = Build::new(&["-gdwarf-4", "-gsplit-dwarf"]);
    build.sh("dwp -e app -o app.dwp && rm *.dwo");
    let output = build.keep("app", None);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(build.work(), WORK);
}

/// Who builds with `strip` and `split-debuginfo = "packed"` has a package that names nothing.
#[test]
fn a_package_of_which_the_program_was_stripped() {
    let build = Build::new(&["-gdwarf-4", "-gsplit-dwarf"]);
    build.sh("dwp -e app -o app.dwp && strip app");
    assert_fails(&build.keep("app", None), "remove `strip`");
    assert!(build.is_empty());
    let symbolicate = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
        command.current_dir(&build.folder).args(options);
        let Output { stdout, stderr, .. } = command.output().unwrap();
        String::from_utf8([stdout, stderr].concat()).unwrap()
    };
    let printed = symbolicate(&["--debug", "app.dwp", "--address", "0x1130"]);
    assert!(
        printed.contains("app.dwp needs the unstripped program"),
        "{printed}"
    );
    let printed = symbolicate(&["--inspect", "app.dwp"]);
    assert!(printed.contains("DWARF: split"), "{printed}");
}

/// The packed half of another build: the ids of its units are others.
#[test]
fn a_package_of_another_build_is_not_kept() {
    let build = Build::new(&["-gdwarf-4", "-gsplit-dwarf"]);
    build.sh("printf 'int main(void) { return 1; }' > b.c && cc -gdwarf-4 -gsplit-dwarf b.c -o b");
    build.sh("dwp -e b -o app.dwp");
    assert_fails(&build.keep("app", None), "is not in it");
    assert!(build.is_empty());
}

#[test]
fn no_debug_information_or_that_of_another_program() {
    let build = Build::new(&["-g"]);
    build.sh("cp app other; cc -g -O2 a.c -o app; strip --strip-debug app");
    assert_fails(&build.keep("app", None), "no debug information");
    assert_fails(&build.keep("app", Some("other")), "not its debug files");
    build.sh("cc -g -Wl,--build-id=none a.c -o app");
    assert_fails(&build.keep("app", None), "it has no id");
    assert!(build.is_empty());
}

/// As Xcode calls it, with a program of two architectures; and with the dSYM of another build.
#[test]
fn a_dsym_in_a_run_script_phase() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/macho");
    let kept = tempfile::tempdir().unwrap();
    let run = |program: &str, dsym: &str| {
        let mut command = keeper();
        command.env("WEDJAT_DEBUG_FILES", kept.path());
        command.env("TARGET_BUILD_DIR", samples.join(program));
        command.env("EXECUTABLE_PATH", "kiosk");
        command.env("DWARF_DSYM_FOLDER_PATH", samples.join(dsym));
        command.env("DWARF_DSYM_FILE_NAME", "kiosk.dSYM");
        command.output().unwrap()
    };
    assert_fails(&run("arm64", "x86_64"), "not its debug files");
    assert!(std::fs::read_dir(&kept).unwrap().next().is_none());
    let output = run("universal", "universal");
    assert!(output.status.success(), "{output:?}");
    let id = std::fs::read_dir(kept.path().join("kiosk")).unwrap().next();
    let dsym = id.unwrap().unwrap().path().join("kiosk.dSYM");
    assert!(dsym.join("Contents/Resources/DWARF/kiosk").is_file());
}
