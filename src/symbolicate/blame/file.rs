//! The owner of a source file, by the path at which the compiler found it.

use std::sync::Arc;

use super::Owner;
use crate::symbolicate::frame::{PhysicalFrame, Symbolicated, image_file_name};
use crate::symbolicate::memo::Memo;

/// The owner of a source file, and its package.
pub(super) type FileOwner = (Owner, Option<Arc<str>>);

/// Returns true if a path shows the owner of its code. A bare file name, as Apple's text reports have it, does not. Nor does a
/// path that a compiler makes up: `<compiler-generated>`, in Apple's reports `/<…>`.
pub(super) fn shows_owner(file: &str) -> bool {
    let rest = file.trim_start_matches('/');
    let is_made_up = rest.is_empty() || rest.starts_with('<') && rest.ends_with('>');
    file.contains(['/', '\\']) && !is_made_up
}

/// Returns the owner of a source file, and the package in whose folder it is: see [`of_file`] and [`package_of`].
/// Remembers the results.
pub(super) fn kept_of_file(file: &Arc<str>) -> FileOwner {
    thread_local! {
        static KNOWN: std::cell::RefCell<Memo<Arc<str>, FileOwner, 4096>> = Default::default();
    }
    KNOWN.with_borrow_mut(|known| known.get_or_find(file, || (of_file(file), package_of(file))))
}

/// Returns the owner of a source file, by the path at which the compiler found it.
pub(super) fn of_file(file: &str) -> Owner {
    let file: &str = &file.replace('\\', "/");
    let has = |parts: &[&str]| parts.iter().any(|part| file.contains(part));
    if is_recorders(file) {
        return Owner::Recorder;
    }
    // Rust's own library: as shipped, as the `rust-src` component has it, and its own dependencies.
    let shipped =
        file.starts_with("/rustc/") || has(&["/rustlib/src/rust/", "/rustlib/rustc-src/"]);
    if shipped || file.starts_with("/rust/deps/") || is_rust_library(file) {
        return Owner::Language;
    }
    // Xcode's toolchain and SDKs, Swift's own build, gcc's and libc++'s headers, libc linked statically.
    #[rustfmt::skip]
    const LANGUAGE: [&str; 10] = [
        "/Contents/Developer/", "/Library/Developer/CommandLineTools/", "/AppleInternal/",
        "/BuildRoot/Library/", "/swift/stdlib/",
        "/usr/lib/gcc/", "/gcc/include/", "/libgcc/", "/compiler-rt/", "/libunwind/src/",
    ];
    #[rustfmt::skip]
    const LIBC: [&str; 7] = [
        "../sysdeps/", "../csu/", "./nptl/", "./csu/", "./stdlib/", "./string/", "./elf/",
    ];
    // `include/c++/12/vector`; what is the processor's, in `include/x86_64-linux-gnu/c++/12/`.
    let is_cpp = file
        .rsplit_once("/c++/")
        .is_some_and(|(front, _)| front.rsplit('/').take(2).any(|part| part == "include"));
    let is_version_of = |name| file.split(name).skip(1).any(starts_with_digit);
    let is_libc = LIBC.iter().any(|start| file.starts_with(start));
    if is_cpp || is_libc || has(&LANGUAGE) || ["/glibc-", "/musl-"].into_iter().any(is_version_of) {
        return Owner::Language;
    }
    if file.starts_with("/usr/include/") {
        return Owner::System;
    }
    // Cargo's registries and checkouts, wherever CARGO_HOME is or was remapped to; SwiftPM's, Carthage's
    // and CocoaPods' copies; vendored code.
    #[rustfmt::skip]
    const LIBRARY: [&str; 17] = [
        "/registry/src/", "/cargo/registry/", "/git/checkouts/", "/.build/checkouts/",
        "/SourcePackages/checkouts/", "/Carthage/Checkouts/", "/Pods/", "/vendor/", "/vendored/",
        "/third_party/", "/third-party/", "/thirdparty/", "/ThirdParty/", "/node_modules/",
        "/conan/data/", "/vcpkg/buildtrees/", "/nix/store/",
    ];
    let from_root = format!("/{}", file.trim_start_matches("./").trim_start_matches('/'));
    if LIBRARY.iter().any(|part| from_root.contains(part)) || from_root.starts_with("/checkouts/") {
        return Owner::Library;
    }
    // If the front of a path was cut off before a package, the path begins with the package's name and version. The
    // app's own paths begin in its workspace. But cargo's `trim-paths` writes dependencies given by a path in this
    // form, too, after `./`.
    let first = from_root[1..].split('/').next();
    let first = first.filter(|_| !file.starts_with("./"));
    let remapped = ["/deps/", "/crates/", "/dep/"]
        .iter()
        .find_map(|folder| from_root.strip_prefix(folder));
    let second = remapped.and_then(|rest| rest.split('/').next());
    if first.into_iter().chain(second).any(has_version) || is_cargos_copy(&from_root) {
        return Owner::Library;
    }
    Owner::App
}

/// Returns the package in whose folder a file is, `…/serde-1.0.219/src/…`, in the form that functions have it
/// (`serde_json`).
fn package_of(file: &str) -> Option<Arc<str>> {
    let (before, _) = file.split_once("/src/")?;
    let folder = before.rsplit('/').next().unwrap_or(before);
    let mut versions = folder.match_indices('-');
    let (at, _) = versions.find(|(at, _)| has_version(&folder[*at..]))?;
    let is_one = at > 0 && !file.starts_with("./");
    is_one.then(|| folder[..at].replace('-', "_").into())
}

/// Returns true if a function is of the package in whose folder its file is. Such a path may begin with the
/// workspace, which the compiler put in place of a front that was cut off. False for the app's own package, which may
/// itself be in such a folder.
pub(super) fn is_package(
    of: &Symbolicated,
    physical: &PhysicalFrame,
    name: Option<&Arc<str>>,
    package: &str,
) -> bool {
    let name = name.map_or("", |name| name.trim_start_matches('<'));
    let image = of.image(physical).map(|image| image_file_name(&image.name));
    let is_apps = |name: &str| name.replace('-', "_") == package;
    let apps = [Some(of.report.head.app.name.as_str()), image];
    name.strip_prefix(package)
        .is_some_and(|rest| rest.starts_with("::"))
        && !apps.into_iter().flatten().any(is_apps)
}

/// Returns true for a path of cargo's copy of a package, with all before the copy cut off:
/// `/gimli-8f1c2b3d4e5f6a7b/53c1b1b/src/…` of a git repository,
/// `/index.crates.io-1949cf8c6b5b557f/serde-1.0.219/src/…` of a registry.
fn is_cargos_copy(from_root: &str) -> bool {
    let mut folders = from_root.trim_start_matches('/').split('/');
    let source = folders.next().and_then(|first| first.rsplit_once('-'));
    source.is_some_and(|(_, hash)| hash.len() == 16 && is_revision(hash))
        && folders
            .next()
            .is_some_and(|copy| is_revision(copy) || has_version(copy))
}

/// Returns true for `53c1b1b`: seven hexadecimal digits or more.
fn is_revision(folder: &str) -> bool {
    folder.len() >= 7 && folder.bytes().all(|c| c.is_ascii_hexdigit())
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns true for `serde_json-1.0.140`: a package's name and version.
fn has_version(folder: &str) -> bool {
    let mut versions = folder.match_indices('-').map(|(at, _)| &folder[at + 1..]);
    versions.any(|rest| {
        let mut numbers = rest.splitn(3, '.');
        let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u64>().is_ok());
        let (major, minor, rest) = (numbers.next(), numbers.next(), numbers.next());
        is_number(major)
            && is_number(minor)
            && rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Returns true for `library/core/src/…`, the paths of Rust's library with their front cut off.
fn is_rust_library(file: &str) -> bool {
    #[rustfmt::skip]
    const CRATES: [&str; 6] = [
        "alloc", "core", "panic_abort", "panic_unwind", "std", "unwind",
    ];
    file.split_once("library/").is_some_and(|(front, after)| {
        let name = after.split_once("/src/").map_or("", |(name, _)| name);
        (front.is_empty() || front.ends_with("/rust/")) && CRATES.contains(&name)
    })
}

/// Returns true if a file is one of this recorder's.
fn is_recorders(file: &str) -> bool {
    // `wedjat/src/…`, `wedjat-0.1.0/src/…`, and `wedjat-<hash>/<revision>/src/…`.
    let folders: Vec<&str> = file.split('/').collect();
    let is_copy = |folder: &str| {
        let version = folder.strip_prefix("wedjat-");
        folder == "wedjat"
            || version.is_some_and(|rest| starts_with_digit(rest) || is_revision(rest))
    };
    folders.windows(3).any(|part| {
        is_copy(part[0]) && (part[1] == "src" || is_revision(part[1]) && part[2] == "src")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_of_where_it_was_compiled_from() {
        use Owner::{App, Language, Library, Recorder, System};
        let hash = "90b35a6239c3d8bdabc530a6a0816f7ff89a0aaf";
        for (file, owner) in [
            (format!("/rustc/{hash}/library/core/src/num/mod.rs"), Language),
            ("/Users/ann/.rustup/toolchains/stable/lib/rustlib/src/rust/library/std/src/rt.rs".into(), Language),
            ("library/alloc/src/vec/mod.rs".into(), Language),
            ("/rust/deps/hashbrown-0.15.2/src/raw/mod.rs".into(), Language),
            ("/usr/include/c++/12/bits/stl_vector.h".into(), Language),
            // As clang writes gcc's folder.
            ("/usr/bin/../lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/bits/stl_vector.h".into(), Language),
            ("/opt/gcc-13.2/include/c++/13.2.0/vector".into(), Language),
            ("/Applications/Xcode.app/Contents/Developer/Toolchains/x/usr/include/c++/v1/vector".into(), Language),
            ("../sysdeps/nptl/libc_start_call_main.h".into(), Language),
            ("/usr/bin/../lib/gcc/x86_64-linux-gnu/12/../../../../include/x86_64-linux-gnu/c++/12/bits/gthr.h".into(), Language),
            ("/usr/include/x86_64-linux-gnu/c++/12/bits/gthr.h".into(), Language),
            ("/Users/ann/c++/till/include/coin.h".into(), App),
            ("/Users/ann/include/till/src/c++/coin.h".into(), App),
            ("/build/glibc-sMfBJT/glibc-2.31/stdlib/abort.c".into(), Language),
            ("/aports/main/musl/src/musl-1.2.4/src/exit/abort.c".into(), Language),
            ("/build/musl-static/till/app.c".into(), App),
            ("/build/till-glibc-static/app.c".into(), App),
            ("/usr/include/glib-2.0/glib.h".into(), System),
            // As the Docker images of languages compile an app, and as Yocto names its sources.
            ("/usr/src/myapp/src/main.rs".into(), App),
            ("/usr/src/debug/till/1.0-r0/main.c".into(), App),
            ("/Users/ann/.cargo/registry/src/index-1949cf8c6b5b557f/serde_json-1.0.140/src/de.rs".into(), Library),
            ("C:\\Users\\a\\.cargo\\registry\\src\\index-1949cf8c6b5b557f\\regex-1.11.1\\src\\lib.rs".into(), Library),
            ("/cargo/registry/src/index/regex-1.11.1/src/lib.rs".into(), Library),
            ("/usr/share/cargo/registry/regex-1.11.1/src/lib.rs".into(), Library),
            ("/Users/ann/.cargo/git/checkouts/gimli-8f1c/53c1b1b/src/read/line.rs".into(), Library),
            ("serde_json-1.0.140/src/de.rs".into(), Library),
            ("gimli-8f1c2b3d4e5f6a7b/53c1b1b/src/read/line.rs".into(), Library),
            ("./index.crates.io-1949cf8c6b5b557f/serde-1.0.219/src/lib.rs".into(), Library),
            ("gimli-8f1c2b3d4e5f6a7b/src/read/line.rs".into(), App),
            ("/serde_json-1.0.140/src/de.rs".into(), Library),
            ("./prices-1.2.3/src/lib.rs".into(), App),
            ("/deps/tokio-1.44.0-rc.1/src/runtime/mod.rs".into(), Library),
            ("/Users/ann/till/vendor/serde/src/lib.rs".into(), Library),
            ("vendor/serde/src/lib.rs".into(), Library),
            ("third_party/zlib/inflate.c".into(), Library),
            ("/Users/a/till/Pods/Alamofire/Source/Session.swift".into(), Library),
            ("Pods/Alamofire/Source/Session.swift".into(), Library),
            ("/Users/a/Library/Developer/Xcode/DerivedData/till-x/SourcePackages/checkouts/swift-nio/Sources/NIO/Loop.swift".into(), Library),
            ("/Users/a/till/.build/checkouts/swift-log/Sources/Logging/Logging.swift".into(), Library),
            ("checkouts/swift-log/Sources/Logging/Logging.swift".into(), Library),
            ("/Users/ann/.cargo/registry/src/index/wedjat-0.1.0/src/trigger/panic.rs".into(), Recorder),
            ("/Users/ann/.cargo/git/checkouts/wedjat-8f1c2b3d4e5f6a7b/53c1b1b/src/trigger/panic.rs".into(), Recorder),
            ("/Users/ann/wedjat/src/monitor/mod.rs".into(), Recorder),
            ("/Users/ann/wedjat/examples/demo.rs".into(), App),
            ("/Users/ann/.cargo/git/checkouts/wedjat-ef1c2b3d4e5f6a7b/53c1b1b/src/trigger/panic.rs".into(), Recorder),
            ("wedjat-0.1.0/src/lib.rs".into(), Recorder),
            ("/Users/ann/wedjat-demo/src/main.rs".into(), App),
            ("/Users/ann/wedjat-till/deadbee/src/main.rs".into(), App),
            ("/Users/ann/wedjat-till/app/src/main.rs".into(), App),
            ("/Users/ann/wedjat/app/src/main.rs".into(), App),
            ("/Users/ann/till/src/main.rs".into(), App),
            ("/Users/ann/till-1.2.3/src/main.rs".into(), App),
            ("/Users/ann/till/crates/prices/src/lib.rs".into(), App),
            ("/Users/ann/shared/prices/src/lib.rs".into(), App),
            ("src/main.rs".into(), App),
            ("crates/prices/src/lib.rs".into(), App),
            ("/Users/ann/till/src/library/shelf.rs".into(), App),
            ("/Users/ann/till/library/core/src/shelf.rs".into(), App),
            ("till/src/vendors.rs".into(), App),
        ] {
            assert_eq!(of_file(&file), owner, "{file}");
        }
    }
}
