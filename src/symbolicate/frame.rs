//! The result of symbolication: threads of physical frames, each of them one or more source frames.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use crate::report::model::{AsyncEnd, Found, IdText, Image, Omitted, Report};

/// One frame as the source code has it: a function, or an inlined copy of one.
///
/// Texts are shared: a fleet's reports name the same functions over and over.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct SourceFrame {
    /// The function, demangled; `None` where the truth is unknown.
    pub function: Option<Arc<str>>,
    /// Its name as the file has it; equal to `function` where nothing was mangled.
    pub mangled: Option<Arc<str>>,
    /// Path of the source file, as the compiler wrote it.
    pub file: Option<Arc<str>>,
    /// The line in it, from 1; `None` where the compiler gave none.
    pub line: Option<u32>,
    /// True if this function was inlined into that of the next frame.
    pub inlined: bool,
    /// Source of the name.
    pub source: Source,
}

words! {
    /// Whose code a frame is.
    #[non_exhaustive]
    pub enum Owner {
        /// The app's own: its workspace, and dependencies given by a path.
        App = "app",
        /// A dependency from a registry, a git checkout, a vendored folder, a package manager.
        Library = "library",
        /// The library and runtime of a programming language.
        Language = "language",
        /// This recorder, or another one.
        Recorder = "recorder",
        /// The operating system.
        System = "system",
    }
}

words! {
    /// The source of a frame's name.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Source {
        /// Debug information.
        #[default]
        DebugInfo = "debug info",
        /// A symbol table: no file, no line, no inlined frames.
        Symbols = "symbols",
        /// The report itself.
        Report = "report",
    }
}

impl SourceFrame {
    /// A frame with a name and nothing else. Names of more than 4,096 bytes are cut, and end with `…`.
    pub(crate) fn named(mangled: &str, demangled: &str) -> SourceFrame {
        let (mangled, demangled) = (&*bounded(mangled), &*bounded(demangled));
        let function: Arc<str> = demangled.into();
        let is_same = mangled == demangled;
        let mangled = if is_same {
            function.clone()
        } else {
            mangled.into()
        };
        SourceFrame {
            function: Some(function),
            mangled: Some(mangled),
            ..SourceFrame::default()
        }
    }
}

/// One frame of the machine's stack, with the source frames at its address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PhysicalFrame {
    /// The program counter (avma) as captured.
    pub pc: u64,
    /// Method by which the recorder found it.
    pub found: Found,
    /// Index into [`Symbolicated::images`]; `None` for an address in no known image.
    pub image: Option<u32>,
    /// The program counter as a link-time address (svma) of the image.
    pub svma: Option<u64>,
    /// Bytes from the start of the outermost function to the program counter.
    pub offset: Option<u64>,
    /// Innermost first. Empty where nothing is known.
    pub frames: Arc<[SourceFrame]>,
    /// Callers that called this function by a jump, as the last thing they did, and so left the stack: functions
    /// between this frame's and the next one's, innermost first. `None` where the code shows none.
    pub tail_callers: Option<Arc<[SourceFrame]>>,
}

impl PhysicalFrame {
    /// Returns true if no unwind information led to it: it was found by the frame pointer or the link register, and
    /// may be wrong.
    pub(crate) fn is_guess(&self) -> bool {
        matches!(self.found, Found::FramePointer | Found::LeafReturnAddress)
    }

    /// A frame of which nothing but the address is known.
    pub fn bare(pc: u64, found: Found, image: Option<u32>) -> PhysicalFrame {
        PhysicalFrame {
            pc,
            found,
            image,
            svma: None,
            offset: None,
            frames: Arc::from([]),
            tail_callers: None,
        }
    }

    /// Returns true if `frame` is one of [`tail_callers`](PhysicalFrame::tail_callers).
    pub(crate) fn is_tail_caller(&self, frame: &SourceFrame) -> bool {
        let mut callers = self.tail_callers.iter().flat_map(|callers| callers.iter());
        callers.any(|caller| std::ptr::eq(caller, frame))
    }
}

/// The frames of an address, and the function that they were inlined into.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// Innermost first; never empty.
    pub frames: Arc<[SourceFrame]>,
    /// Link-time address of the function that all of these were inlined into.
    pub entry: Option<u64>,
    /// Link-time address of the function that is called there, by the code.
    pub calls: Option<u64>,
}

impl Resolved {
    /// The answer of these frames, innermost first, of which the outermost begins at `entry`; `None` where they say
    /// nothing.
    pub fn of(mut frames: Arc<[SourceFrame]>, entry: Option<u64>) -> Option<Resolved> {
        let outermost = frames.len().checked_sub(1)?;
        for (index, frame) in Arc::get_mut(&mut frames)?.iter_mut().enumerate() {
            frame.inlined = index != outermost;
            if let Some(of) = frame.file.as_deref().and_then(swift_macro) {
                frame.file = Some(of.into());
            }
            // A line of no file says nothing.
            frame.line = frame.line.filter(|&line| line != 0 && frame.file.is_some());
        }
        let says_something = |frame: &SourceFrame| frame.function.is_some() || frame.file.is_some();
        frames.iter().any(says_something).then(|| Resolved {
            entry: entry.filter(|_| frames[outermost].function.is_some()),
            calls: None,
            frames,
        })
    }
}

/// A thread's stack. The report has the thread's other values, at the same index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stack {
    /// Innermost first.
    pub frames: Vec<PhysicalFrame>,
    /// Place and count of the frames that are missing among them.
    pub omitted: Option<Omitted>,
    /// The callers that await the functions of frames, in the frames' order.
    pub tasks: Vec<Awaiting>,
}

/// The functions that await the one of a frame: they are on no stack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Awaiting {
    /// Index of the frame in [`Stack::frames`].
    pub frame: usize,
    /// Each where it will resume, innermost first.
    pub callers: Vec<PhysicalFrame>,
    /// The reason why there are no more of them.
    pub end: AsyncEnd,
}

impl Stack {
    /// The functions that await the one of a frame.
    pub(crate) fn awaiting(&self, frame: usize) -> Option<&Awaiting> {
        let at = self.tasks.binary_search_by_key(&frame, |tasks| tasks.frame);
        self.tasks.get(at.ok()?)
    }

    /// All frames, innermost first, each followed by the callers that await its function.
    pub(crate) fn with_async_callers(&self) -> impl Iterator<Item = &PhysicalFrame> {
        self.frames.iter().enumerate().flat_map(|(index, frame)| {
            let callers = self.awaiting(index).map(|tasks| &tasks.callers);
            std::iter::once(frame).chain(callers.into_iter().flatten())
        })
    }
}

/// A report with names.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Symbolicated {
    /// The report as it was read.
    pub report: Report,
    /// Damage and gaps that the reader found, one line each.
    pub damage: Vec<String>,
    /// One for each of the report's threads.
    pub threads: Vec<Stack>,
    /// One for each of the report's samples, in full: the frames a sample shares with the one before
    /// it are filled in.
    pub samples: Vec<Stack>,
    /// The images that frames point into but whose debug file was not found, or not read in whole, each once.
    pub missing: Vec<MissingFile>,
    /// See [`KnownOwners`].
    pub(crate) known_owners: KnownOwners,
}

/// Facts that are found once for all frames of a report; `blame` fills them in.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownOwners {
    /// Whose code each image holds.
    pub images: OnceLock<Vec<Owner>>,
    /// Folders of this recorder's sources.
    pub folders: OnceLock<Vec<String>>,
}

impl Symbolicated {
    /// The image of a frame.
    pub fn image(&self, frame: &PhysicalFrame) -> Option<&Image> {
        self.report.images.get(frame.image? as usize)
    }

    /// All of the report's images.
    pub fn images(&self) -> &[Image] {
        &self.report.images
    }
}

/// Parts of the debug information of an image that are not read, as far as frames led to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Unread {
    /// Units with damaged lines; the lines before and after the damage are read. With a table of the whole file all units
    /// count.
    pub damaged: usize,
    /// Units and sections that are not read, because they are damaged or too large. The symbol table names their functions.
    pub refused: usize,
    /// True if a `.dwo`, `.dwp` or dwz file with a part of the debug information is missing or damaged.
    pub split: bool,
}

/// An image without debug information, or without all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingFile {
    /// Its path, as the report has it.
    pub name: String,
    /// UUID or build id; empty if it has none.
    pub id: Vec<u8>,
    /// Its architecture, if the report has it.
    pub arch: Option<String>,
    /// True if at least its symbol table was there to name functions.
    pub symbols: bool,
    /// The parts of its debug information that are not read, if its debug file was there.
    pub unread: Unread,
    /// True if it belongs to the operating system: its debug files are not the app's to keep.
    pub system: bool,
    /// Other versions of it that were found, by UUID or build id.
    pub others: Vec<Vec<u8>>,
}

/// Most bytes of a name or path: a short report or file may have a long one, and many frames with it.
pub(crate) const NAME_BYTES: usize = 4096;

/// A name or path as frames have it: cut, with an ellipsis at the end, where it is longer than [`NAME_BYTES`].
pub(crate) fn bounded(text: &str) -> Cow<'_, str> {
    const ELLIPSIS: &str = "…";
    if text.len() <= NAME_BYTES {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(NAME_BYTES - ELLIPSIS.len());
    Cow::Owned(format!("{}{ELLIPSIS}", &text[..end]))
}

/// Formats an id as people write it: a UUID with hyphens for Mach-O's 16 bytes, else hexadecimal digits.
pub fn id_text(id: &[u8]) -> String {
    IdText(id).to_string()
}

/// The digits of an id, in lower case and without hyphens.
pub(super) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The last part of an image's path, at most 1,024 bytes.
pub fn image_file_name(path: &str) -> &str {
    let from = path.len().saturating_sub(1024);
    let end = path.get(path.ceil_char_boundary(from)..).unwrap_or(path);
    let last = end.rsplit(['/', '\\']).find(|part| !part.is_empty());
    last.unwrap_or(end)
}

/// Returns true if the operating system, an SDK, a simulator or a compiler's toolchain owns a path.
pub(crate) fn is_system(path: &str) -> bool {
    #[rustfmt::skip]
    const SYSTEM: [&str; 13] = [
        "/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/libexec/", "/System/",
        "/Library/Apple/", "/private/preboot/", "/snap/core", "/AppleInternal/", "/Developer/",
        "/private/var/db/", "/cores/",
    ];
    // Simulators' runtimes, SDKs, platforms, Xcode itself, toolchains.
    #[rustfmt::skip]
    const WITHIN: [&str; 12] = [
        ".simruntime/", ".sdk/System/", ".sdk/usr/", ".platform/Developer/", ".xctoolchain/",
        "/Contents/Developer/", "/Contents/SharedFrameworks/", "/Developer/CommandLineTools/",
        "/CoreSimulator/Profiles/", "/CoreSimulator/Volumes/", "/usr/lib/swift/", "/usr/lib/swift_static/",
    ];
    SYSTEM.iter().any(|prefix| path.starts_with(prefix))
        || WITHIN.iter().any(|part| path.contains(part))
        || is_redacted_runtime(path)
}

/// Returns true for what a simulator's runtime holds, on a disk of its own, as reports write it where they hide folders:
/// `/Volumes/VOLUME/*/UIKitCore.framework/UIKitCore`. Apps lie in bundles.
fn is_redacted_runtime(path: &str) -> bool {
    const BUNDLES: [&str; 3] = [".app", ".appex", ".xctest"];
    let rest = path.strip_prefix("/Volumes/VOLUME/*/");
    let is_bundle = |part: &str| BUNDLES.iter().any(|end| part.ends_with(end));
    rest.is_some_and(|rest| !rest.split('/').any(is_bundle))
}

/// The macro of whose expansion a file holds the text, and where it is written: there is no such file on any disk. `None` for
/// other files.
fn swift_macro(file: &str) -> Option<String> {
    let name = file.rsplit(['/', '\\']).next()?;
    let mangled = name.starts_with("@__swiftmacro_").then_some(name)?;
    let mangled = mangled.strip_suffix(".swift").unwrap_or(mangled);
    swift_name::simplified(mangled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_macro_is_its_name_and_where_it_is_written() {
        let file = "/opt/till/@__swiftmacro_1a13testStringifyAA1bySi_SitF9stringifyfMf_.swift";
        let frame = SourceFrame {
            file: Some(file.into()),
            line: Some(15),
            ..SourceFrame::named("main", "main")
        };
        let resolved = Resolved::of([frame].into(), None).unwrap();
        assert_eq!(
            resolved.frames[0].file.as_deref(),
            Some("freestanding macro expansion #1 of stringify in testStringify(a:b:)")
        );
        assert_eq!(swift_macro("/opt/till/main.swift"), None);
        assert_eq!(swift_macro("@__swiftmacro_.swift"), None);
    }

    #[test]
    fn a_path_is_the_systems_or_the_apps() {
        for path in [
            "/System/Library/Frameworks/UIKit.framework/UIKit",
            "/Volumes/VOLUME/*/UIKitCore.framework/UIKitCore",
            "/Volumes/VOLUME/*/libobjc.A.dylib",
            "/Library/Developer/CoreSimulator/Volumes/iOS_22A/Library/Developer/CoreSimulator/Profiles/Runtimes/iOS 18.0.simruntime/Contents/Resources/RuntimeRoot/usr/lib/dyld_sim",
            "/Applications/Xcode.app/Contents/Developer/Platforms/iPhoneSimulator.platform/Developer/SDKs/iPhoneSimulator12.0.sdk/System/Library/Frameworks/UIKit.framework/UIKit",
            "/Applications/Xcode.app/Contents/Developer/Platforms/iPhoneOS.platform/Developer/Library/Frameworks/XCTest.framework/XCTest",
            "/Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib/swift-5.5/macosx/libswift_Concurrency.dylib",
            "/opt/swift/usr/lib/swift/linux/libFoundation.so",
        ] {
            assert!(is_system(path), "{path}");
        }
        for path in [
            "/Applications/kiosk.app/Contents/MacOS/kiosk",
            "/Users/USER/*/kiosk.app/kiosk",
            "/Volumes/VOLUME/*/kiosk.app/Frameworks/Till.framework/Till",
            "/Users/ann/Library/Developer/CoreSimulator/Devices/11111111-2222-3333-4444-555555555555/data/Containers/Bundle/Application/1/kiosk.app/kiosk",
            "/private/var/containers/Bundle/Application/1/kiosk.app/Frameworks/Till.framework/Till",
            "/usr/bin/till",
        ] {
            assert!(!is_system(path), "{path}");
        }
    }
}
