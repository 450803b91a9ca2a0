//! Whose code a frame is, in programs that cargo and gcc have built with dependencies of every kind: what is blamed
//! is the app's own function. The programs tell their own stacks; who owns what is written beside each function here.

use std::path::Path;
use std::process::Command;

use wedjat::new;
use wedjat::report::to_bytes;
use wedjat::report::{Event, EventKind, Found};
use wedjat::symbolicate::Owner::{self, App, Language, Library};
use wedjat::symbolicate::{DebugFiles, Symbolicator};

use crate::support::symbolicate::Workshop;
use crate::tools::{GCC, GIT, Tests};

pub fn add(tests: Tests) -> Tests {
    tests
        .add(
            "dependencies_from_a_registry_and_from_git_are_not_the_apps",
            GIT,
            dependencies_from_a_registry_and_from_git_are_not_the_apps,
        )
        .add(
            "vendored_dependencies_are_not_the_apps",
            GIT,
            vendored_dependencies_are_not_the_apps,
        )
        .add(
            "remapped_paths_keep_their_owners",
            GIT,
            remapped_paths_keep_their_owners,
        )
        .add(
            "trimmed_paths_keep_their_owners",
            GIT,
            trimmed_paths_keep_their_owners,
        )
        .add(
            "packages_of_cocoapods_swiftpm_and_carthage_are_not_the_apps",
            GCC,
            packages_of_cocoapods_swiftpm_and_carthage_are_not_the_apps,
        )
}

/// Prints return addresses as the file has them, innermost first.
const TELL: &str = r#"
extern "C" {
    fn backtrace(into: *mut usize, most: i32) -> i32;
    static __executable_start: u8;
}
#[inline(never)]
pub fn spin() {
    let mut stack = [0usize; 64];
    let count = unsafe { backtrace(stack.as_mut_ptr(), 64) } as usize;
    let base = &raw const __executable_start as usize;
    stack[..count].iter().filter(|pc| **pc > base).for_each(|pc| println!("{:x}", pc - base));
}
"#;

fn write(shop: &Workshop, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = shop.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn package(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\nversion = \"1.2.3\"\nedition = \"2021\"\n{rest}")
}

/// An app of a workspace with two packages. `sorting` comes from a registry, `spinner` from a git repository, `tax` from
/// a folder beside the workspace.
fn workspace() -> Workshop {
    let shop = Workshop::new(&[]);
    let from_git = "spinner = { git = \"file://REPOSITORY\" }\n";
    let from_git = from_git.replace("REPOSITORY", &shop.path("spinner").display().to_string());
    let prices = "[dependencies]\nsorting = \"1\"\ntax = { path = \"../../tax\" }\n";
    write(
        &shop,
        &[
            ("spinner/Cargo.toml", &package("spinner", "")),
            ("spinner/src/lib.rs", TELL),
            (
                "sorting/Cargo.toml",
                &package("sorting", "description = \"-\"\nlicense = \"MIT\"\n"),
            ),
            (
                "sorting/src/lib.rs",
                "#[inline(never)]
pub fn by_key(list: &mut [u32], mut key: impl FnMut(&u32) -> u32) {
    list.sort_by_key(|item| key(item));
    std::hint::black_box(list);
}
",
            ),
            ("tax/Cargo.toml", &package("tax", "")),
            (
                "tax/src/lib.rs",
                "#[inline(never)]
pub fn apply(work: impl FnOnce()) {
    work();
    std::hint::black_box(());
}
",
            ),
            (
                "till/Cargo.toml",
                &package(
                    "till",
                    "[workspace]\nmembers = [\"prices\"]\n[dependencies]\nprices = { path = \"prices\" }\n[profile.release]\ndebug = true\n",
                ),
            ),
            (
                "till/src/main.rs",
                "fn main() {
    prices::total(&mut [3, 1, 2]);
    std::hint::black_box(());
}
",
            ),
            (
                "till/prices/Cargo.toml",
                &package("prices", &format!("{prices}{from_git}")),
            ),
            (
                "till/prices/src/lib.rs",
                "use std::sync::Once;
#[inline(never)]
pub fn total(list: &mut [u32]) {
    tax::apply(|| sorting::by_key(list, |item| look_up(*item)));
    std::hint::black_box(());
}
#[inline(never)]
fn look_up(item: u32) -> u32 {
    static ONCE: Once = Once::new();
    ONCE.call_once(spinner::spin);
    item
}
",
            ),
        ],
    );
    for line in [
        "git init -q",
        "git add -A",
        "git -c user.name=a -c user.email=a@example.org commit -q -m a",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let done = Command::new("git")
            .args(&words[1..])
            .current_dir(shop.path("spinner"))
            .status();
        assert!(done.unwrap().success(), "{line}");
    }
    shop
}

/// What makes cargo find `sorting` as it lies in a project that `cargo vendor` was run in.
fn vendored(shop: &Workshop) {
    let source = std::fs::read_to_string(shop.path("sorting/src/lib.rs")).unwrap();
    write(
        shop,
        &[
            ("till/vendor/sorting/Cargo.toml", &package("sorting", "")),
            ("till/vendor/sorting/src/lib.rs", &source),
            (
                "till/vendor/sorting/.cargo-checksum.json",
                "{\"files\":{},\"package\":null}",
            ),
            (
                "till/.cargo/config.toml",
                "[source.crates-io]\nreplace-with = \"vendored\"\n[source.vendored]\ndirectory = \"vendor\"\n",
            ),
        ],
    );
}

/// What makes cargo unpack `sorting` as from crates.io, from a registry in a folder.
fn registered(shop: &Workshop) {
    let top = shop.path("registry/sorting-1.2.3");
    std::fs::create_dir_all(&top).unwrap();
    shop.run(&format!(
        "cp -r sorting/Cargo.toml sorting/src {}",
        top.display()
    ));
    shop.run("tar -czf registry/sorting-1.2.3.crate -C registry sorting-1.2.3");
    let sum = shop.run("sha256sum registry/sorting-1.2.3.crate");
    let sum = sum.split(' ').next().unwrap();
    let entry = format!(
        "{{\"name\":\"sorting\",\"vers\":\"1.2.3\",\"deps\":[],\"cksum\":\"{sum}\",\"features\":{{}},\"yanked\":false}}\n"
    );
    let registry = shop.path("registry").display().to_string();
    let config = format!(
        "[source.crates-io]\nreplace-with = \"here\"\n[source.here]\nlocal-registry = \"{registry}\"\n"
    );
    write(
        shop,
        &[
            ("registry/index/so/rt/sorting", &entry),
            ("till/.cargo/config.toml", &config),
        ],
    );
}

/// Builds the app and runs it: the program, and the stack that it prints.
fn build(shop: &Workshop, set: &[(&str, &str)], arguments: &[&str]) -> (String, Vec<u64>) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "-q", "--release"]).args(arguments);
    cargo.current_dir(shop.path("till"));
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("CARGO") || name.starts_with("RUST"))
    {
        // What the toolchain's own set-up needs stays.
        if !matches!(name.as_str(), "RUSTUP_HOME" | "RUSTUP_TOOLCHAIN") {
            cargo.env_remove(name);
        }
    }
    cargo
        .env("CARGO_HOME", shop.path("home"))
        .env("CARGO_TARGET_DIR", shop.path("built"));
    cargo.envs(set.iter().copied());
    let output = cargo.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    built_and_run(shop, "built/release/till")
}

fn built_and_run(shop: &Workshop, program: &str) -> (String, Vec<u64>) {
    let stack = shop.run(&shop.path(program).display().to_string());
    let stack: Vec<u64> = stack
        .lines()
        .map(|line| u64::from_str_radix(line, 16).unwrap())
        .collect();
    assert!(stack.len() > 4, "{stack:x?}");
    (program.to_owned(), stack)
}

/// Checks that these functions are in the stack in this order, each its owner's, and that the first of the app's is
/// blamed by the program itself.
fn check(shop: &Workshop, (program, stack): (String, Vec<u64>), expected: &[(&str, Owner)]) {
    let frames: Vec<(u64, Found)> = stack.iter().map(|pc| (*pc, Found::UnwindInfo)).collect();
    let mut report = shop.report(&program, &frames);
    report.event = Some(new!(Event {
        kind: EventKind::Live,
    }));
    let file = shop.path("report.wedjat");
    std::fs::write(&file, to_bytes(&report)).unwrap();
    let mut files = DebugFiles::new().no_search();
    files.add(&shop.path(&program)).unwrap();
    let of = Symbolicator::new(files).symbolicate(report);
    let mut all = Vec::new();
    for physical in &of.threads[0].frames {
        for frame in &*physical.frames {
            let name = frame.function.clone().unwrap_or_default();
            all.push((name, frame.file.clone(), of.owner(physical, Some(frame))));
        }
    }
    let mut rest = all.iter();
    for (function, owner) in expected {
        let found = rest.find(|(name, ..)| name.trim_start_matches('<').starts_with(function));
        let found = found.unwrap_or_else(|| panic!("no {function} in this order in {all:#?}"));
        assert_eq!(found.2, *owner, "{found:?}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .args(["--no-cache", "--color", "never", "--debug"])
        .args([shop.path(&program).as_path(), Path::new(&file)])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let blamed = text
        .lines()
        .find_map(|line| line.strip_prefix("Frame to Blame: "))
        .unwrap_or_default();
    let (own, _) = expected.iter().find(|(_, owner)| *owner == App).unwrap();
    assert!(
        blamed.contains(own),
        "{blamed:?} should be {own}:\n{text}{errors}"
    );
}

/// The app's stack, innermost first, and whose each function is.
const RUST: [(&str, Owner); 9] = [
    ("spinner::spin", Library),
    ("std::sync", Language),
    ("prices::look_up", App),
    ("prices::total::{", App),
    ("core::slice", Language),
    ("sorting::by_key", Library),
    ("tax::apply", App),
    ("prices::total", App),
    ("till::main", App),
];

fn dependencies_from_a_registry_and_from_git_are_not_the_apps() {
    let shop = workspace();
    registered(&shop);
    check(&shop, build(&shop, &[], &[]), &RUST);
}

fn vendored_dependencies_are_not_the_apps() {
    let shop = workspace();
    vendored(&shop);
    check(&shop, build(&shop, &[], &[]), &RUST);
}

fn remapped_paths_keep_their_owners() {
    let shop = workspace();
    registered(&shop);
    let here = shop.path("").canonicalize().unwrap();
    let here = here.display().to_string();
    let here = here.trim_end_matches('/');
    // As builds are made reproducible: all of it below a folder that is on no machine.
    let flags = format!("--remap-path-prefix={here}/home=/cargo --remap-path-prefix={here}=/build");
    check(&shop, build(&shop, &[("RUSTFLAGS", &flags)], &[]), &RUST);
    // The workspace's own paths relative to it.
    let flags = format!(
        "--remap-path-prefix={here}/home=/cargo --remap-path-prefix={here}/till= --remap-path-prefix={here}=.."
    );
    check(&shop, build(&shop, &[("RUSTFLAGS", &flags)], &[]), &RUST);
    // All that stands before a package of the registry is cut off.
    let sources = std::fs::read_dir(shop.path("home/registry/src")).unwrap();
    let source = sources.flatten().next().unwrap().path();
    let source = source.canonicalize().unwrap();
    let flags = format!("--remap-path-prefix={}/=", source.display());
    check(&shop, build(&shop, &[("RUSTFLAGS", &flags)], &[]), &RUST);
}

/// What cargo calls `trim-paths`, which is not stable yet.
fn trimmed_paths_keep_their_owners() {
    let shop = workspace();
    registered(&shop);
    let trim = [
        "-Ztrim-paths",
        "--config",
        "profile.release.trim-paths=\"all\"",
    ];
    check(
        &shop,
        build(&shop, &[("RUSTC_BOOTSTRAP", "1")], &trim),
        &RUST,
    );
}

/// C, laid out as package managers of Apple's platforms leave their packages in a project or beside it.
fn packages_of_cocoapods_swiftpm_and_carthage_are_not_the_apps() {
    let tell = "#include <execinfo.h>
#include <stdint.h>
#include <stdio.h>
extern char __executable_start;
void log_line(void) {
  void *stack[64];
  int count = backtrace(stack, 64);
  for (int i = 0; i < count; i++) printf(\"%lx\\n\", (uintptr_t)stack[i] - (uintptr_t)&__executable_start);
}
";
    let shop = Workshop::new(&[]);
    let through = |name: &str| {
        format!("volatile int sink;\nvoid {name}(void (*work)(void)) {{ work(); sink = 1; }}\n")
            .replace("volatile int sink", "static volatile int sink")
    };
    write(&shop, &[
        ("till/main.c", "void session(void (*)(void)), draw(void (*)(void)), send(void (*)(void)), log_line(void);
static volatile int sink;
static void parse(void) { log_line(); sink = 1; }
static void refresh(void) { send(parse); sink = 1; }
static void tap(void) { draw(refresh); sink = 1; }
int main(void) { session(tap); return 0; }
"),
        ("till/Pods/Alamo/Source/session.c", &through("session")),
        ("till/Carthage/Checkouts/Paint/draw.c", &through("draw")),
        ("DerivedData/till-abc/SourcePackages/checkouts/mail/Sources/send.c", &through("send")),
        ("till/.build/checkouts/swift-log/log.c", tell),
    ]);
    let expected = [
        ("log_line", Library),
        ("parse", App),
        ("send", Library),
        ("refresh", App),
        ("draw", Library),
        ("tap", App),
        ("session", Library),
        ("main", App),
    ];
    let here = shop.path("").canonicalize().unwrap();
    let here = here.display().to_string();
    let here = here.trim_end_matches('/');
    let sources = "till/main.c till/Pods/Alamo/Source/session.c till/Carthage/Checkouts/Paint/draw.c \
        DerivedData/till-abc/SourcePackages/checkouts/mail/Sources/send.c till/.build/checkouts/swift-log/log.c";
    for (sources, mapped) in [
        (absolute(sources, here), String::new()),
        (
            absolute(sources, here),
            format!("-ffile-prefix-map={here}/till=. -ffile-prefix-map={here}=/build"),
        ),
        (sources.to_owned(), String::new()),
    ] {
        shop.run(&format!("gcc -g -O1 -fno-optimize-sibling-calls -Wl,--build-id=sha1 {mapped} -o program {sources}"));
        check(&shop, built_and_run(&shop, "program"), &expected);
    }
}

fn absolute(sources: &str, folder: &str) -> String {
    let sources = sources
        .split_whitespace()
        .map(|source| format!("{folder}/{source}"));
    sources.collect::<Vec<_>>().join(" ")
}
