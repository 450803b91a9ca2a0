//! The owner of a frame's code: the app, or a library, the language, the recorder or the system.
//!
//! The source file from which a function was compiled decides, inlined or not: a generic function of Rust's library
//! is in the app's image, but its owner is the language. The image and the name decide for a frame without a source
//! file.

mod file;
mod image;

pub(crate) use super::frame::Owner;
use super::frame::{
    KnownOwners, PhysicalFrame, Source, SourceFrame, Stack, Symbolicated, image_file_name,
};
use super::names::{Code, end_reason_of_trap, name};
use crate::report::EventKind;
use file::{is_package, kept_of_file, of_file, shows_owner};
use image::of_image;

/// Most folders of this recorder's sources that are remembered; a program has one or two.
const MAX_FOLDERS: usize = 16;

/// A source frame, and the physical frame that contains it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blamed<'a> {
    pub physical: &'a PhysicalFrame,
    /// `None` where nothing but the address is known.
    pub frame: Option<&'a SourceFrame>,
}

impl<'a> Blamed<'a> {
    /// Returns the function's name; if it is not known, the image's.
    pub fn name(&self, of: &'a Symbolicated) -> &'a str {
        let name = self.frame.and_then(|frame| frame.function.as_deref());
        name.or_else(|| {
            let image = of.image(self.physical)?;
            Some(image_file_name(&image.name))
        })
        .unwrap_or("???")
    }

    /// Returns true unless it is a function that does nothing but throw or abort, or may be one of several functions, as what is
    /// inlined into merged code.
    pub fn counts(&self) -> bool {
        let holder = self.physical.frames.last();
        let holder = holder.filter(|_| self.frame.is_some_and(|frame| frame.inlined));
        let mut frames = self.frame.into_iter().chain(holder);
        frames.all(|frame| name(frame).counts())
    }
}

/// Returns the frame of a stack to blame: the innermost of the app; else the innermost of a library that has a name;
/// else the innermost that has a name; else the innermost. If no frame of the stack is the app's, the callers that
/// await its functions are frames of it, too. Frames that throw or abort are skipped, and merged code.
pub(crate) fn blamed<'a>(of: &'a Symbolicated, stack: &'a Stack) -> Option<Blamed<'a>> {
    let worth = |blamed: &Blamed<'_>| match owner(of, blamed.physical, blamed.frame) {
        Owner::App => 0,
        _ if blamed.frame.is_none_or(|frame| frame.function.is_none()) => 3,
        Owner::Library => 1,
        _ => 2,
    };
    let frames = candidates(of, stack);
    // Returns the first of equal ones.
    frames.filter(Blamed::counts).min_by_key(worth)
}

/// Returns the source frames from which the one to blame is chosen, and by which a stack is grouped, innermost first.
/// If no frame of the stack is the app's, they include the callers that await its functions. They exclude a panic's
/// own handling, and inlined functions without a name, whose number is the compiler's choice.
pub(crate) fn candidates<'a>(
    of: &'a Symbolicated,
    stack: &'a Stack,
) -> impl Iterator<Item = Blamed<'a>> {
    let is_apps = |blamed: Blamed<'_>| is_own(of, blamed.physical, blamed.frame);
    let with_callers = !stack.tasks.is_empty() && !all_frames(stack).any(is_apps);
    let alone = (!with_callers).then(|| stack.frames.iter());
    let joined = with_callers.then(|| stack.with_async_callers());
    let frames = alone
        .into_iter()
        .flatten()
        .chain(joined.into_iter().flatten());
    let is_named = |blamed: &Blamed<'_>| {
        let is_unnamed = |frame: &SourceFrame| frame.inlined && frame.function.is_none();
        !blamed.frame.is_some_and(is_unnamed)
    };
    let sources = frames.flat_map(frames_of).skip(handling(of, stack));
    sources.filter(is_named)
}

/// Returns the count of the innermost source frames that handle a panic: hooks of any crate, up to the function by
/// which Rust's library begins a panic. 0 unless the report is of a panic.
pub(crate) fn handling(of: &Symbolicated, stack: &Stack) -> usize {
    let event = of.report.event.as_ref();
    if event.is_none_or(|event| event.kind != EventKind::Panic) {
        return 0;
    }
    let begins = |frame: &Blamed<'_>| {
        let name = frame.frame.and_then(|frame| frame.function.as_deref());
        // `__rustc::rust_begin_unwind`, and before Rust 1.86 without its crate.
        name.is_some_and(|name| name.rsplit("::").next() == Some("rust_begin_unwind"))
    };
    let frames = || all_frames(stack);
    let Some(begin) = frames().position(|frame| begins(&frame)) else {
        return 0;
    };
    // If the stack ends there, no other frame could be blamed.
    let is_last = frames().nth(begin + 1).is_none();
    if is_last { 0 } else { begin + 1 }
}

/// Every source frame of a stack, innermost first.
pub(crate) fn all_frames(stack: &Stack) -> impl Iterator<Item = Blamed<'_>> {
    stack.frames.iter().flat_map(frames_of)
}

/// Every source frame of a physical frame, without pseudo-functions, then its tail callers; `None` once for a frame without
/// source frames.
pub(crate) fn frames_of(physical: &PhysicalFrame) -> impl Iterator<Item = Blamed<'_>> {
    let empty = physical.frames.is_empty().then_some(None);
    let is_pseudo =
        |frame: &&SourceFrame| frame.inlined && matches!(name(frame).code, Code::Pseudo(_));
    let functions = physical
        .frames
        .iter()
        .filter(move |frame| !is_pseudo(frame));
    let callers = physical
        .tail_callers
        .iter()
        .flat_map(|callers| callers.iter());
    let frames = empty.into_iter().chain(functions.chain(callers).map(Some));
    frames.map(move |frame| Blamed { physical, frame })
}

/// The owner of a source frame's code.
pub(crate) fn owner(
    of: &Symbolicated,
    physical: &PhysicalFrame,
    frame: Option<&SourceFrame>,
) -> Owner {
    // Code of an interpreter lies in no image; the report has its files.
    let is_interpreted = |frame: &SourceFrame| {
        frame.source == Source::Report && (frame.file.is_some() || frame.line.is_some())
    };
    let image = of.known_owners.of_image(of, physical);
    if image != Owner::App && !(physical.image.is_none() && frame.is_some_and(is_interpreted)) {
        return image;
    }
    if let Some(owner) = frame.and_then(|frame| of_swift(physical, frame)) {
        return owner;
    }
    let function = frame.and_then(|frame| frame.function.as_ref());
    let by_name = || match frame.zip(function) {
        Some((frame, function)) if !is_named_like_the_app(of, function) => name(frame).owner,
        _ => Owner::App,
    };
    let Some(file) = frame.and_then(|frame| frame.file.as_ref().filter(|file| shows_owner(file)))
    else {
        return by_name();
    };
    match kept_of_file(file) {
        (Owner::App, _) if by_name() == Owner::Recorder => Owner::Recorder,
        (Owner::App, _) if of.known_owners.is_recorders(of, file) => Owner::Recorder,
        (Owner::App, Some(package)) if is_package(of, physical, function, &package) => {
            Owner::Library
        }
        (Owner::Language, _) if is_moved(frame) => by_name(),
        (owner, _) => owner,
    }
}

/// Returns the owner of a Swift function, or of code that Swift's compiler makes. The function's module decides, and
/// not the row's file, which may be a caller's. Modules of packages look like the app's: the file decides between
/// these. An inlined function without module and file is of Swift's library or a thunk, because app code has a file.
fn of_swift(physical: &PhysicalFrame, frame: &SourceFrame) -> Option<Owner> {
    match name(frame).code {
        Code::Pseudo(_) | Code::SwiftLanguage | Code::SwiftFatal => Some(Owner::Language),
        Code::Swift(_) => {
            let file = frame.file.as_ref().filter(|file| shows_owner(file));
            match file.map_or(Owner::App, |file| kept_of_file(file).0) {
                Owner::Language => Some(Owner::App),
                owner => Some(owner),
            }
        }
        Code::Other => {
            let has_file = frame.file.as_deref().is_some_and(shows_owner);
            (!has_file && unscoped(physical, frame)).then_some(Owner::Language)
        }
    }
}

/// Returns true for an inlined Swift function that line tables alone name by its last part (`subscript.get`, `map`), or not
/// at all: the module, the type and the labels are unknown.
pub(crate) fn unscoped(physical: &PhysicalFrame, frame: &SourceFrame) -> bool {
    let is_of_swift = |frame: &SourceFrame| {
        let file = frame.file.as_deref();
        file.is_some_and(|file| file.ends_with(".swift")) || name(frame).code != Code::Other
    };
    if !frame.inlined || frame.source != Source::DebugInfo || name(frame).code != Code::Other {
        return false;
    }
    match frame.file.as_deref() {
        Some(file) if shows_owner(file) => file.ends_with(".swift"),
        _ => physical.frames.last().is_some_and(is_of_swift),
    }
}

/// Returns true for the kernel's name of an exception (`EXC_BREAKPOINT`), which is the reason in reports of Apple's
/// platforms. The reason from [`trap`] is better.
pub(crate) fn is_kernels(reason: &str) -> bool {
    reason.starts_with("EXC_")
}

/// Returns the reason of a trap: that of a pseudo-function at the innermost frame, or that of a runtime's function
/// that is known by name.
pub(crate) fn trap(stack: &Stack) -> Option<std::sync::Arc<str>> {
    /// Most frames of a runtime between the innermost one and the function that ended the program.
    const MAX_RUNTIME_FRAMES: usize = 16;
    let innermost = stack.frames.first()?.frames.iter();
    let pseudo = innermost.clone().find_map(|frame| match &name(frame).code {
        Code::Pseudo(reason) => Some(reason.clone()),
        _ => None,
    });
    pseudo.or_else(|| {
        let mut near = stack
            .frames
            .iter()
            .take(MAX_RUNTIME_FRAMES)
            .flat_map(|physical| &*physical.frames);
        near.find_map(|frame| end_reason_of_trap(frame.function.as_deref()?))
            .map(std::sync::Arc::from)
    })
}

/// Returns true if the row of a function with a path (`a::b`) has no line. Code that the compiler moved has such
/// rows; their file may be that of any function inlined there.
fn is_moved(frame: Option<&SourceFrame>) -> bool {
    let name = frame.and_then(|frame| frame.function.as_deref());
    frame.is_some_and(|frame| frame.line.is_none()) && name.is_some_and(|name| name.contains("::"))
}

/// Returns true if the function is of a crate or module with the app's own name, as `gimli::main` of the app gimli.
fn is_named_like_the_app(of: &Symbolicated, name: &str) -> bool {
    let app = &of.report.head.app.name;
    let name = name.trim_start_matches('<');
    let is_app = |(word, rest): (&str, &str)| {
        let letters = app.bytes().map(|c| if c == b'-' { b'_' } else { c });
        (rest.is_empty() || rest.starts_with("::")) && (word == app || word.bytes().eq(letters))
    };
    !app.is_empty() && name.split_at_checked(app.len()).is_some_and(is_app)
}

/// Returns true if a frame is the app's.
pub(crate) fn is_own(
    of: &Symbolicated,
    physical: &PhysicalFrame,
    frame: Option<&SourceFrame>,
) -> bool {
    owner(of, physical, frame) == Owner::App
}

impl Symbolicated {
    /// Returns the owner of a source frame's code. `None` is a frame that has only an address.
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
    pub fn owner(&self, physical: &PhysicalFrame, frame: Option<&SourceFrame>) -> Owner {
        owner(self, physical, frame)
    }
}

impl KnownOwners {
    fn of_image(&self, of: &Symbolicated, physical: &PhysicalFrame) -> Owner {
        let images = of.images().iter();
        let find = || images.map(|image| of_image(of, image)).collect();
        let images: &Vec<Owner> = self.images.get_or_init(find);
        let known = physical.image.and_then(|at| images.get(at as usize));
        known.copied().unwrap_or(Owner::System)
    }

    fn is_recorders(&self, of: &Symbolicated, file: &str) -> bool {
        let folders = self.folders.get_or_init(|| shown_folders(of));
        folders.iter().any(|folder| file.starts_with(folder))
    }
}

/// Returns folders of this recorder's sources, by the report alone: a function of the crate `wedjat` was compiled
/// from there. Inlined functions have no crate in their name where the debug information holds line tables alone, and
/// a checkout may lie in a folder of any name.
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
        let path = name.strip_prefix('<').unwrap_or(name);
        if !path.starts_with("wedjat::") {
            continue;
        }
        let Some(end) = file.rfind("/src/") else {
            continue;
        };
        let folder = &file[..end + "/src/".len()];
        // `<wedjat::Stall as …>` is a method of a trait, which may be the app's or of Rust's library.
        let is_of_trait = name.starts_with('<') && name.contains(" as ");
        let is_new = folders.len() < MAX_FOLDERS && !folders.iter().any(|known| known == folder);
        if is_new && !is_of_trait && of_file(file) == Owner::App {
            folders.push(folder.to_owned());
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{AsyncEnd, Event, Found};
    use crate::report::{Image, Report};
    use crate::symbolicate::frame::Awaiting;
    use crate::symbolicate::{DebugFiles, Symbolicator};

    /// As `-gline-tables-only` has it: one function with its symbol, and what was inlined into it.
    #[test]
    fn an_inlined_function_may_lack_its_module() {
        let frame = |name: &str, file: &str, inlined| SourceFrame {
            file: Some(file.into()),
            inlined,
            ..SourceFrame::named(name, name)
        };
        let mut physical = PhysicalFrame::bare(1, crate::report::Found::Context, Some(0));
        physical.frames = [
            frame("subscript.get", "/<compiler-generated>", true),
            frame("subscript.modify", "/<compiler-generated>", true),
            frame("total.read", "/Users/ann/till/main.swift", true),
            frame("secret", "/Users/ann/till/main.swift", true),
            frame(
                "closure #1 in refund(_:)",
                "/Users/ann/till/main.swift",
                true,
            ),
            frame("clamp", "/Users/ann/till/clamp.h", true),
            frame("main", "/Users/ann/till/main.swift", false),
        ]
        .into();
        let bare: Vec<bool> = physical
            .frames
            .iter()
            .map(|frame| unscoped(&physical, frame))
            .collect();
        assert_eq!(bare, [true, true, true, true, false, false, false]);
        // A function of C inlined into one of C.
        physical.frames = [
            frame("clamp", "", true),
            frame("pay", "/Users/ann/till/pay.c", false),
        ]
        .into();
        assert!(!unscoped(&physical, &physical.frames[0]));
    }

    /// A report with these images.
    fn app(images: &[&str]) -> Symbolicated {
        let mut of = Symbolicator::new(DebugFiles::new()).symbolicate(Report::default());
        let image = |name: &&str| Image {
            name: (*name).into(),
            ..Image::default()
        };
        of.report.images.extend(images.iter().map(image));
        of
    }

    #[test]
    fn a_runtime_that_the_app_brings_along_is_not_the_apps() {
        let of = app(&[
            "/private/var/containers/Bundle/Application/1/till.app/Frameworks/libswiftCore.dylib",
            "/private/var/containers/Bundle/Application/1/till.app/Frameworks/KSCrash.framework/KSCrash",
            "/private/var/containers/Bundle/Application/1/till.app/till",
        ]);
        let frames = (0..3).map(|at| PhysicalFrame::bare(1, Found::UnwindInfo, Some(at)));
        let stack = Stack {
            frames: frames.collect(),
            omitted: None,
            ..Stack::default()
        };
        use Owner::{App, Language, Recorder};
        let owners: Vec<Owner> = all_frames(&stack)
            .map(|frame| owner(&of, frame.physical, frame.frame))
            .collect();
        assert_eq!(owners, [Language, Recorder, App]);
        assert_eq!(blamed(&of, &stack).unwrap().name(&of), "till");
    }

    #[test]
    fn a_checkout_in_a_folder_of_any_name_is_the_recorders() {
        let frame = |name: &str, file: &str, inlined| SourceFrame {
            file: Some(file.into()),
            inlined,
            ..SourceFrame::named(name, name)
        };
        let mut of = app(&["/opt/till/till"]);
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
        let demo = "/Users/ann/fork/examples/demo.rs";
        example.frames = [frame("demo::main", demo, false)].into();
        let frames = vec![hook, main, example];
        let omitted = None;
        of.threads = vec![Stack {
            frames,
            omitted,
            ..Stack::default()
        }];
        let frames = all_frames(&of.threads[0]);
        let owners = frames.map(|frame| owner(&of, frame.physical, frame.frame));
        let owners: Vec<Owner> = owners.collect();
        use Owner::{App, Recorder};
        assert_eq!(owners, [Recorder, Recorder, App, Recorder, App, App]);
    }

    /// The row of code that the compiler moved has line 0, and the file of a function inlined there.
    #[test]
    fn a_file_without_a_line_does_not_take_a_function_from_the_app() {
        let of = app(&["/opt/till/till"]);
        let cell = "/rustc/90b35a6239c3d8bdabc530a6a0816f7ff89a0aaf/library/core/src/cell.rs";
        let owned = |name: &str, file: &str, line| {
            let mut physical = PhysicalFrame::bare(1, Found::UnwindInfo, Some(0));
            physical.frames = [SourceFrame {
                file: Some(file.into()),
                line,
                ..SourceFrame::named(name, name)
            }]
            .into();
            owner(&of, &physical, physical.frames.first())
        };
        use Owner::{App, Language};
        assert_eq!(owned("till::prices::total", cell, None), App);
        assert_eq!(owned("till::prices::total", cell, Some(9)), Language);
        assert_eq!(owned("core::cell::RefCell::borrow", cell, None), Language);
        assert_eq!(
            owned("memcpy", "../sysdeps/x86_64/memcpy.S", None),
            Language
        );
    }

    /// A queue calls a function that continues after its `await`: its callers are on no stack.
    #[test]
    fn where_no_frame_is_the_apps_the_caller_that_awaits_is_blamed() {
        let mut of = app(&["/opt/till/till", "/usr/lib/swift/libswift_Concurrency.so"]);
        let frame = |name: &str, image| {
            let mut physical = PhysicalFrame::bare(1, Found::UnwindInfo, Some(image));
            physical.frames = [SourceFrame::named(name, name)].into();
            physical
        };
        let awaiting = Awaiting {
            frame: 0,
            callers: vec![
                frame("$s4till6LoaderC7refreshyyYaFTQ1_", 0),
                frame("$s4till9openStoreyyYaFTQ0_", 0),
            ],
            end: AsyncEnd::Root,
        };
        let runtime = frame("swift_task_switchImpl", 1);
        let stack = Stack {
            frames: vec![runtime, frame("swift_job_run", 1)],
            omitted: None,
            tasks: vec![awaiting],
        };
        let name =
            |of: &Symbolicated, stack: &Stack| blamed(of, stack).unwrap().name(of).to_owned();
        assert_eq!(name(&of, &stack), "$s4till6LoaderC7refreshyyYaFTQ1_");
        let mut own = stack.clone();
        own.frames.push(frame("main", 0));
        assert_eq!(name(&of, &own), "main");
        of.threads = vec![stack];
        of.report.threads = vec![Default::default()];
        let grouped = crate::symbolicate::group::normalised(&of);
        assert_eq!(
            *grouped,
            ["Loader.refresh()", "openStore()"].map(std::sync::Arc::<str>::from)
        );
    }

    /// Line tables alone name no inlined function of some compilers: a build that inlines less has fewer of them.
    #[test]
    fn an_inlined_function_without_a_name_is_not_in_the_key() {
        let mut of = app(&["/opt/till/till"]);
        let mut physical = PhysicalFrame::bare(1, Found::UnwindInfo, Some(0));
        let unnamed = SourceFrame {
            file: Some("/src/till/main.swift".into()),
            inlined: true,
            ..SourceFrame::default()
        };
        let own = SourceFrame::named("$s4till3payyyF", "pay()");
        physical.frames = [unnamed, own].into();
        let stack = Stack {
            frames: vec![physical],
            ..Stack::default()
        };
        assert_eq!(blamed(&of, &stack).unwrap().name(&of), "pay()");
        of.threads = vec![stack];
        of.report.threads = vec![Default::default()];
        assert_eq!(*crate::symbolicate::group::normalised(&of)[0], *"pay()");
    }

    #[test]
    fn an_error_that_leaves_main_is_said_in_words() {
        let frame = |name: &str| {
            let mut physical = PhysicalFrame::bare(1, Found::UnwindInfo, Some(0));
            physical.frames = [SourceFrame::named(name, name)].into();
            physical
        };
        let names = [
            "$ss17_assertionFailure__4file4line5flagss5NeverOs12StaticStringV_SSAHSus6UInt32VtF",
            "swift_errorInMain",
            "main",
        ];
        let stack = Stack {
            frames: names.into_iter().map(frame).collect(),
            ..Stack::default()
        };
        assert_eq!(trap(&stack).as_deref(), Some("Swift: an error left main"));
        assert_eq!(
            blamed(&app(&["/opt/till/till"]), &stack)
                .unwrap()
                .physical
                .frames[0]
                .function
                .as_deref(),
            Some("main")
        );
    }

    /// At -O the compiler inlines a pseudo-function where code traps, without a line of its own.
    #[test]
    fn what_says_why_code_traps_is_not_blamed() {
        let mut of = app(&["/opt/till/till"]);
        let mut trapped = PhysicalFrame::bare(1, Found::Context, Some(0));
        let inlined = |name: &str| SourceFrame {
            file: Some("/opt/till/<compiler-generated>".into()),
            inlined: true,
            ..SourceFrame::named(name, name)
        };
        let function = "$e4main4RingV10difference33_D84986C8784D58FAC22AA7A4A9C32B49LLyS2i_SitF";
        let check = "$eSlsE20_failEarlyRangeCheck_6boundsy5IndexQz_SnyADGtFSnySiG_Tt1g5";
        // Inlined from Swift's library, with the caller's file.
        let library = SourceFrame {
            file: Some("/opt/till/main.swift".into()),
            line: Some(7),
            ..inlined(check)
        };
        let own = SourceFrame {
            file: Some("/opt/till/main.swift".into()),
            line: Some(7),
            ..SourceFrame::named(function, "Ring.difference(_:_:)")
        };
        trapped.frames = [
            inlined("Swift runtime failure: Index out of range"),
            library,
            own,
        ]
        .into();
        let stack = Stack {
            frames: vec![trapped],
            omitted: None,
            tasks: Vec::new(),
        };
        assert_eq!(
            blamed(&of, &stack).unwrap().name(&of),
            "Ring.difference(_:_:)"
        );
        assert_eq!(all_frames(&stack).count(), 2);
        assert_eq!(trap(&stack).as_deref(), Some("Swift: Index out of range"));
        of.threads = vec![stack];
        of.report.threads = vec![Default::default()];
        assert_eq!(
            *crate::symbolicate::group::normalised(&of)[0],
            *"Ring.difference(_:_:)"
        );
    }

    #[test]
    fn swifts_runtime_is_not_the_apps_where_it_is_linked_statically() {
        let of = app(&[
            "/opt/till/till",
            "/opt/till/lib/libdispatch.so",
            "/opt/till/lib/libFoundation.so",
        ]);
        let owned = |name: &str, image| {
            let mut physical = PhysicalFrame::bare(1, Found::UnwindInfo, Some(image));
            physical.frames = [SourceFrame::named(name, name)].into();
            owner(&of, &physical, physical.frames.first())
        };
        for name in [
            "swift_unexpectedError",
            "_swift_runtime_on_report",
            "swift::fatalErrorv(unsigned int, char const*, __va_list_tag*)",
            "_dispatch_client_callout",
            "async_MainTQ0_",
        ] {
            assert_eq!(owned(name, 0), Owner::Language, "{name}");
        }
        assert_eq!(owned("dispatch_main", 1), Owner::Language);
        assert_eq!(owned("anything", 2), Owner::Language);
        assert_eq!(owned("swiftly_done", 0), Owner::App);
    }

    /// A hook without line tables looks like the app's.
    #[test]
    fn whoever_has_set_a_panics_hook_is_not_blamed_for_the_panic() {
        let mut of = app(&["/opt/till/till"]);
        let frame = |(name, pc): (&str, u64)| {
            let mut frame = PhysicalFrame::bare(pc, Found::UnwindInfo, Some(0));
            frame.frames = [SourceFrame::named(name, name)].into();
            frame
        };
        let names = [
            "wedjat::trigger::panic::panicked",
            "<sentry_panic::PanicIntegration>::setup::{{closure}}",
            "__rustc::rust_begin_unwind",
            "core::panicking::panic_fmt",
            "till::parse",
            "till::main",
        ];
        let stack = Stack {
            frames: names.into_iter().zip(1..).map(frame).collect(),
            omitted: None,
            ..Stack::default()
        };
        let blamed_in = |of: &Symbolicated| blamed(of, &stack).unwrap().name(of).to_owned();
        // A stall within the hook is the hook's.
        assert!(blamed_in(&of).contains("sentry_panic"));
        of.report.event = Some(Event {
            kind: EventKind::Panic,
            ..Event::default()
        });
        assert_eq!(blamed_in(&of), "till::parse");
    }
}
