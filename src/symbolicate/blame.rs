//! Whose code a frame is: the app's, or that of a library, the language, the recorder or the system.
//!
//! What decides is where the function was compiled from, inlined or not: a generic function of Rust's
//! library lies in the app's image, and is the library's all the same. Only a frame without a source
//! file goes by its image and its name.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use super::frame::{Frame, PhysicalFrame, Stack, Symbolicated, image_file_name};
use super::group::within;
use super::symbolicator::is_system;
use crate::report::Image;

/// Whose code a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Owner {
    /// The app's own: its workspace, and dependencies given by a path.
    App,
    /// A dependency from a registry, a git checkout, a vendored folder, a package manager.
    Library,
    /// The library and runtime of a programming language.
    Language,
    /// This recorder.
    Recorder,
    /// The operating system.
    System,
}

/// A source frame, and the physical frame that it is of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blamed<'a> {
    pub physical: &'a PhysicalFrame,
    /// `None` where nothing but the address is known.
    pub frame: Option<&'a Frame>,
}

impl<'a> Blamed<'a> {
    /// The function's name; where it is not known, that of the image.
    pub fn name(&self, of: &'a Symbolicated) -> &'a str {
        let name = self.frame.and_then(|frame| frame.function.as_deref());
        name.or_else(|| {
            let image = of.image(self.physical)?;
            Some(image_file_name(&image.name))
        })
        .unwrap_or("???")
    }
}

/// The app's innermost frame of a stack; else the innermost of its libraries' that has a name; else the
/// innermost that has one; else the innermost.
pub(crate) fn blamed<'a>(of: &'a Symbolicated, stack: &'a Stack) -> Option<Blamed<'a>> {
    let worth = |blamed: &Blamed<'_>| match owner(of, blamed.physical, blamed.frame) {
        Owner::App => 0,
        _ if blamed.frame.is_none_or(|frame| frame.function.is_none()) => 3,
        Owner::Library => 1,
        _ => 2,
    };
    // Of those worth the same, the first.
    each(stack).min_by_key(worth)
}

/// Every source frame of a stack, innermost first.
pub(crate) fn each(stack: &Stack) -> impl Iterator<Item = Blamed<'_>> {
    stack.frames.iter().flat_map(|physical| {
        let bare = physical.frames.is_empty().then_some(None);
        let frames = bare.into_iter().chain(physical.frames.iter().map(Some));
        frames.map(move |frame| Blamed { physical, frame })
    })
}

/// Whose code a source frame is.
pub(crate) fn owner(of: &Symbolicated, physical: &PhysicalFrame, frame: Option<&Frame>) -> Owner {
    if !of.known_owners.is_apps(of, physical) {
        return Owner::System;
    }
    let by_name = || match frame.and_then(|frame| frame.function.as_deref()) {
        Some(name) => of_name(name),
        None => Owner::App,
    };
    match frame.and_then(|frame| frame.file.as_ref()) {
        Some(file) if !is_made_up(file) => match kept_of_file(file) {
            Owner::App if by_name() == Owner::Recorder => Owner::Recorder,
            Owner::App if of.known_owners.is_recorders(of, file) => Owner::Recorder,
            owner => owner,
        },
        _ => by_name(),
    }
}

/// Whether a frame is the app's.
pub(crate) fn is_own(of: &Symbolicated, physical: &PhysicalFrame, frame: Option<&Frame>) -> bool {
    owner(of, physical, frame) == Owner::App
}

impl Symbolicated {
    /// Whose code a source frame of this report is; `None` stands for a frame of which nothing but the
    /// address is known.
    ///
    /// ```
    /// use wedjat::symbolicate::{Owner, Symbolicated};
    ///
    /// /// The app's innermost function on a thread's stack.
    /// fn to_blame(report: &Symbolicated, thread: usize) -> Option<&str> {
    ///     let mut frames = report.threads.get(thread)?.frames.iter().flat_map(|physical| {
    ///         physical.frames.iter().map(move |frame| (physical, frame))
    ///     });
    ///     let own = frames.find(|(physical, frame)| report.owner(physical, Some(frame)) == Owner::App);
    ///     own?.1.function.as_deref()
    /// }
    /// ```
    pub fn owner(&self, physical: &PhysicalFrame, frame: Option<&Frame>) -> Owner {
        owner(self, physical, frame)
    }
}

/// Compilers have no file for what they make themselves: `<compiler-generated>`.
fn is_made_up(file: &str) -> bool {
    file.is_empty() || file.starts_with('<') && file.ends_with('>')
}

/// Files whose owner is kept, on each thread.
const FILES: usize = 4096;

/// Whose code a source file is. What was found is kept: a fleet's reports name the same files over and over.
fn kept_of_file(file: &Arc<str>) -> Owner {
    thread_local! {
        static KNOWN: RefCell<FxHashMap<Arc<str>, Owner>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(owner) = known.get(file) {
            return *owner;
        }
        if known.len() >= FILES {
            known.clear();
        }
        let owner = of_file(file);
        known.insert(file.clone(), owner);
        owner
    })
}

/// Whose code a source file is, by where the compiler found it.
fn of_file(file: &str) -> Owner {
    let file = file.replace('\\', "/");
    let file = file.as_str();
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
    const LANGUAGE: [&str; 14] = [
        "/Contents/Developer/",
        "/Library/Developer/CommandLineTools/",
        "/AppleInternal/",
        "/BuildRoot/Library/",
        "/swift/stdlib/",
        "/usr/include/c++/",
        "/include/c++/v1/",
        "/usr/lib/gcc/",
        "/gcc/include/",
        "/libgcc/",
        "/glibc-",
        "/musl-",
        "/compiler-rt/",
        "/libunwind/src/",
    ];
    const LIBC: [&str; 7] = [
        "../sysdeps/",
        "../csu/",
        "./nptl/",
        "./csu/",
        "./stdlib/",
        "./string/",
        "./elf/",
    ];
    if has(&LANGUAGE) || LIBC.iter().any(|start| file.starts_with(start)) {
        return Owner::Language;
    }
    if file.starts_with("/usr/include/") || file.starts_with("/usr/src/") {
        return Owner::System;
    }
    // Cargo's registries and checkouts, wherever CARGO_HOME is or was remapped to; SwiftPM's, Carthage's
    // and CocoaPods' copies; vendored code.
    const LIBRARY: [&str; 17] = [
        "/registry/src/",
        "/cargo/registry/",
        "/git/checkouts/",
        "/.build/checkouts/",
        "/SourcePackages/checkouts/",
        "/Carthage/Checkouts/",
        "/Pods/",
        "/vendor/",
        "/vendored/",
        "/third_party/",
        "/third-party/",
        "/thirdparty/",
        "/ThirdParty/",
        "/node_modules/",
        "/conan/data/",
        "/vcpkg/buildtrees/",
        "/nix/store/",
    ];
    let from_root = format!("/{}", file.trim_start_matches("./").trim_start_matches('/'));
    if LIBRARY.iter().any(|part| from_root.contains(part)) || from_root.starts_with("/checkouts/") {
        return Owner::Library;
    }
    // Cargo's `trim-paths`, and such remapping as cuts all that stands before a package: what is left
    // begins with its name and version. The app's own paths begin in its workspace.
    let first = from_root.trim_start_matches('/').split('/').next();
    let remapped = ["/deps/", "/crates/", "/dep/"]
        .iter()
        .find_map(|folder| from_root.strip_prefix(folder));
    let second = remapped.and_then(|rest| rest.split('/').next());
    if first.into_iter().chain(second).any(has_version) {
        return Owner::Library;
    }
    Owner::App
}

/// `serde_json-1.0.140`: a package's name and version.
fn has_version(folder: &str) -> bool {
    let versions = folder.match_indices('-').map(|(at, _)| &folder[at + 1..]);
    let mut versions = versions.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    versions.any(|rest| {
        let mut numbers = rest.splitn(3, '.');
        let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u64>().is_ok());
        let (major, minor, rest) = (numbers.next(), numbers.next(), numbers.next());
        is_number(major)
            && is_number(minor)
            && rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// `library/core/src/…`, as Rust's library is called where the path before it was cut off.
fn is_rust_library(file: &str) -> bool {
    const CRATES: [&str; 6] = [
        "alloc",
        "core",
        "panic_abort",
        "panic_unwind",
        "std",
        "unwind",
    ];
    let Some((front, behind)) = file.split_once("library/") else {
        return false;
    };
    let mut parts = behind.splitn(3, '/');
    let (name, src) = (parts.next().unwrap_or(""), parts.next());
    (front.is_empty() || front.ends_with("/rust/")) && CRATES.contains(&name) && src == Some("src")
}

/// What is found out once for all frames of a report.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownOwners {
    /// Whether each image is the app's own.
    images: OnceLock<Vec<bool>>,
    /// See [`shown_folders`].
    folders: OnceLock<Vec<String>>,
}

impl KnownOwners {
    fn is_apps(&self, of: &Symbolicated, physical: &PhysicalFrame) -> bool {
        let find = || of.images().iter().map(|image| is_apps(of, image)).collect();
        let images: &Vec<bool> = self.images.get_or_init(find);
        let known = physical.image.and_then(|at| images.get(at as usize));
        known.is_some_and(|is_apps| *is_apps)
    }

    fn is_recorders(&self, of: &Symbolicated, file: &str) -> bool {
        let folders = self.folders.get_or_init(|| shown_folders(of));
        folders.iter().any(|folder| file.starts_with(folder))
    }
}

/// Folders of this recorder's sources that a report shows by itself: a function of the crate `wedjat` was
/// compiled from there. Inlined functions have no crate in their name where the debug information holds
/// line tables alone, and a checkout may lie in a folder of any name.
fn shown_folders(of: &Symbolicated) -> Vec<String> {
    let mut folders: Vec<String> = Vec::new();
    let stacks = of.threads.iter().chain(&of.samples);
    let frames = stacks
        .flat_map(|stack| &stack.frames)
        .flat_map(|physical| &*physical.frames);
    for frame in frames {
        let (Some(name), Some(file)) = (&frame.function, &frame.file) else {
            continue;
        };
        let is_ours = name
            .strip_prefix('<')
            .unwrap_or(name)
            .starts_with("wedjat::");
        let Some(end) = file.rfind("/src/").filter(|_| is_ours) else {
            continue;
        };
        let folder = &file[..end + "/src/".len()];
        // A method of a foreign trait, `<wedjat::Stall as …>`, may be the app's or of Rust's library.
        let is_foreign = name.starts_with('<') && name.contains(" as ");
        let is_new = !folders.iter().any(|known| known == folder);
        if is_new && !is_foreign && of_file(file) == Owner::App {
            folders.push(folder.to_owned());
        }
    }
    folders
}

/// Whether a file is one of this recorder's.
fn is_recorders(file: &str) -> bool {
    // `wedjat/src/…`, `wedjat-0.1.0/src/…`, and `wedjat-<hash>/<revision>/src/…`.
    let mut folders = file.split('/').peekable();
    while let Some(folder) = folders.next() {
        let rest = folder.strip_prefix("wedjat");
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
            let mut next = folders.clone();
            let revision =
                next.next_if(|part| part.len() >= 7 && part.bytes().all(|c| c.is_ascii_hexdigit()));
            if revision.is_some() || folders.peek() == Some(&"src") {
                return next.next() == Some("src");
            }
        }
    }
    false
}

/// Whose code a function of the app's image is, by its name alone.
fn of_name(name: &str) -> Owner {
    const LANGUAGE: [&str; 22] = [
        "std::",
        "core::",
        "alloc::",
        "panic_unwind::",
        "panic_abort::",
        "__gnu_cxx::",
        "_rdl_",
        "_rg_",
        "_rust_",
        "__rust_",
        "__rustc",
        "rust_begin_unwind",
        "rust_panic",
        "rust_eh_personality",
        "__cxa_",
        "__libc_",
        "_Unwind_",
        "Swift.",
        "generic specialization <",
        "thunk for ",
        "partial apply for",
        "reabstraction thunk",
    ];
    let starts = |name: &str| LANGUAGE.iter().any(|prefix| name.starts_with(prefix));
    if name.starts_with("__CFRUNLOOP_IS_") {
        return Owner::System;
    }
    // `<X as Trait>::method` is of who made the one or the other.
    if name.starts_with('<') {
        let inner = within(name);
        let inner = inner.strip_prefix("impl ").unwrap_or(inner);
        let (of, as_what) = inner.split_once(" as ").unwrap_or((inner, "std::"));
        let of = of.trim_start_matches(['&', '*', '<', '[', '(']);
        let of = of
            .trim_start_matches("mut ")
            .trim_start_matches("const ")
            .trim_start_matches("dyn ");
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let word = of
            .split([':', '>', ' ', ',', ']', ')'])
            .next()
            .unwrap_or(of);
        let built_in = word.len() <= 5 && word.chars().all(plain) && !of.contains("::");
        let (is_ours, is_languages) = (of.starts_with("wedjat::"), starts(of) || built_in);
        let (of_ours, of_languages) = (as_what.starts_with("wedjat::"), starts(as_what));
        // The app may implement its traits for ours, and ours for its types.
        return match (is_ours || is_languages, of_ours || of_languages) {
            (true, true) if is_ours || of_ours => Owner::Recorder,
            (true, true) => Owner::Language,
            _ => Owner::App,
        };
    }
    if name.starts_with("wedjat::") {
        Owner::Recorder
    } else if starts(name) {
        Owner::Language
    } else {
        Owner::App
    }
}

/// Whether an image is the app's own, rather than the system's.
fn is_apps(of: &Symbolicated, image: &Image) -> bool {
    let name = image.name.as_str();
    let app = &of.report.head.app.name;
    if name.starts_with('[') || name.is_empty() {
        return false;
    }
    if !app.is_empty() && image_file_name(name) == app {
        return true;
    }
    const FOLDERS: [&str; 3] = ["/opt/homebrew/", "/usr/local/lib/", "/usr/local/Cellar/"];
    if is_system(name) || FOLDERS.iter().any(|folder| name.starts_with(folder)) {
        return false;
    }
    if name.contains('/') {
        return true;
    }
    // MetricKit gives names without paths.
    const FRAMEWORKS: [&str; 22] = [
        "AppKit",
        "AVFCore",
        "AVFAudio",
        "AVFoundation",
        "CFNetwork",
        "Combine",
        "CoreAnimation",
        "CoreData",
        "CoreFoundation",
        "CoreGraphics",
        "CoreLocation",
        "CoreText",
        "Foundation",
        "FrontBoardServices",
        "GraphicsServices",
        "ImageIO",
        "QuartzCore",
        "Security",
        "SwiftUI",
        "UIKit",
        "UIKitCore",
        "WebKit",
    ];
    let system_library = name.starts_with("lib") && name.ends_with(".dylib");
    !(name == "dyld" || name == "kernel" || system_library || FRAMEWORKS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use crate::report::model::Found;
    use crate::symbolicate::{DebugFiles, Symbolicator};

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
            ("/Applications/Xcode.app/Contents/Developer/Toolchains/x/usr/include/c++/v1/vector".into(), Language),
            ("../sysdeps/nptl/libc_start_call_main.h".into(), Language),
            ("/usr/include/glib-2.0/glib.h".into(), System),
            ("/Users/ann/.cargo/registry/src/index-1949cf8c6b5b557f/serde_json-1.0.140/src/de.rs".into(), Library),
            ("C:\\Users\\a\\.cargo\\registry\\src\\index-1949cf8c6b5b557f\\regex-1.11.1\\src\\lib.rs".into(), Library),
            ("/cargo/registry/src/index/regex-1.11.1/src/lib.rs".into(), Library),
            ("/usr/share/cargo/registry/regex-1.11.1/src/lib.rs".into(), Library),
            ("/Users/ann/.cargo/git/checkouts/gimli-8f1c/53c1b1b/src/read/line.rs".into(), Library),
            ("serde_json-1.0.140/src/de.rs".into(), Library),
            ("/serde_json-1.0.140/src/de.rs".into(), Library),
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

    #[test]
    fn a_checkout_in_a_folder_of_any_name_is_the_recorders() {
        let frame = |name: &str, file: &str, inlined| Frame {
            file: Some(file.into()),
            inlined,
            ..Frame::named(name, name)
        };
        let mut of = Symbolicator::new(DebugFiles::new()).symbolicate(Report::default());
        of.report.images.push(Image {
            name: "/opt/till/till".into(),
            ..Image::default()
        });
        // As line tables alone have it: inlined functions without their crate.
        let mut hook = PhysicalFrame::bare(1, Found::Context, Some(0));
        hook.frames = [
            frame("noted", "/Users/ann/fork/src/trigger/panic.rs", true),
            frame(
                "wedjat::trigger::panic::install::{{closure}}",
                "/Users/ann/fork/src/trigger/panic.rs",
                false,
            ),
        ]
        .into();
        let mut main = PhysicalFrame::bare(2, Found::UnwindInfo, Some(0));
        main.frames = [
            frame("{closure#1}", "/Users/ann/till/src/main.rs", true),
            frame(
                "turn<(), till::main::{closure_env#1}>",
                "/Users/ann/fork/src/trigger/heartbeat.rs",
                true,
            ),
            frame("till::main", "/Users/ann/till/src/main.rs", false),
        ]
        .into();
        let mut example = PhysicalFrame::bare(3, Found::UnwindInfo, Some(0));
        example.frames = [frame(
            "demo::main",
            "/Users/ann/fork/examples/demo.rs",
            false,
        )]
        .into();
        of.threads = vec![Stack {
            frames: vec![hook, main, example],
            omitted: None,
        }];
        let owners: Vec<Owner> = each(&of.threads[0])
            .map(|frame| owner(&of, frame.physical, frame.frame))
            .collect();
        use Owner::{App, Recorder};
        assert_eq!(owners, [Recorder, Recorder, App, Recorder, App, App]);
    }

    #[test]
    fn a_frame_without_a_file_goes_by_its_name() {
        use Owner::{App, Language, Recorder, System};
        for (name, owner) in [
            ("core::ops::function::FnOnce::call_once", Language),
            (
                "<core::fmt::Arguments as core::fmt::Display>::fmt",
                Language,
            ),
            ("<alloc::string::String as till::Price>::parse", App),
            ("<till::Price as core::fmt::Display>::fmt", App),
            ("<till::Price>::parse", App),
            ("<u64 as core::fmt::Display>::fmt", Language),
            (
                "<&mut core::iter::Map<I, F> as core::iter::Iterator>::next",
                Language,
            ),
            (
                "<wedjat::Heartbeat>::turn::<(), till::main::{closure#0}>",
                Recorder,
            ),
            ("wedjat::trigger::panic::panicked", Recorder),
            (
                "<wedjat::Heartbeat>::turn::<<u8 as till::Price>::Of>",
                Recorder,
            ),
            ("<wedjat::Stall as core::fmt::Debug>::fmt", Recorder),
            (
                "<alloc::vec::Vec<u8> as wedjat::report::Sink>::write",
                Recorder,
            ),
            ("<till::Store as wedjat::report::Sink>::write", App),
            ("<wedjat::Stall as till::Price>::parse", App),
            ("till::parse", App),
            ("stdout_of_till", App),
            (
                "__CFRUNLOOP_IS_CALLING_OUT_TO_A_SOURCE0_PERFORM_FUNCTION__",
                System,
            ),
            ("-[Till parse:]", App),
            (
                "partial apply for closure #1 () -> () in main.foo() -> ()",
                Language,
            ),
        ] {
            assert_eq!(of_name(name), owner, "{name}");
        }
    }
}
