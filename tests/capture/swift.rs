//! Code by the Swift compiler (testdata/swift): its marked frames are walked, and the callers that await it are read from
//! their contexts, in place and after another thread has stopped it. What a task needs of Swift's runtime is in run.c.

use std::ffi::{CString, c_long, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, mpsc};

use object::{Object, ObjectSymbol};
use wedjat::capture::{Captured, Capturer, ImageTable};
use wedjat::platform::Thread;
use wedjat::report::{AsyncEnd, Found, WalkEnd};

use crate::thread::{Flags, StopOnDrop, capturer, inner};

const CRUNCH: &str = "$s6frames6crunchySiySvXC_SvtF";
const FETCH: &str = "$s6frames5fetchySiySvXC_SvtYaFTY0_";
/// Where the callers resume: after the first and the second `await`.
const REFRESH: [&str; 2] = [
    "$s6frames7refreshySiySvXC_SvtYaFTQ0_",
    "$s6frames7refreshySiySvXC_SvtYaFTQ1_",
];
const OPEN: &str = "$s6frames4openySiySvXC_SvtYaFTQ0_";

/// A library has one task at a time.
static ONE: Mutex<()> = Mutex::new(());

type Look = extern "C" fn(*mut c_void);

struct Library {
    run: extern "C" fn(Look, *mut c_void) -> c_long,
    /// Name, address and length of each function.
    functions: Vec<(String, u64, u64)>,
}

impl Library {
    fn load(name: &str) -> Library {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/swift");
        let path = path.join(name);
        let text = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: plain strings, and a library without constructors that stays loaded.
        let run = unsafe {
            let library = libc::dlopen(text.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null(), "{}", path.display());
            libc::dlsym(library, c"run_task".as_ptr())
        };
        let bytes = std::fs::read(&path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let stated = |symbol: &object::Symbol<'_, '_>| symbol.name().unwrap().to_string();
        let symbol = file.symbols().find(|symbol| stated(symbol) == "run_task");
        let base = run as u64 - symbol.unwrap().address();
        let functions = file.symbols().filter(|symbol| symbol.size() > 0);
        Library {
            // SAFETY: the function of that name in run.c has this type.
            run: unsafe {
                std::mem::transmute::<*mut c_void, extern "C" fn(Look, *mut c_void) -> c_long>(run)
            },
            functions: functions
                .map(|symbol| (stated(&symbol), base + symbol.address(), symbol.size()))
                .collect(),
        }
    }

    fn function(&self, address: u64) -> Option<&str> {
        let mut functions = self.functions.iter();
        let found = functions.find(|(_, start, size)| (*start..start + size).contains(&address));
        found.map(|(name, ..)| name.as_str())
    }

    /// Asserts that a capture below `crunch` has the whole stack, and all callers of its one async function.
    fn assert_whole(&self, captured: &Captured<'_>, visit: usize) {
        assert_eq!(captured.end, WalkEnd::Root);
        let ours: Vec<_> = (captured.frames.iter().zip(0u32..))
            .filter_map(|(frame, index)| Some((index, self.function(frame.pc - 1)?, frame.found)))
            .collect();
        let names: Vec<_> = ours.iter().map(|(_, name, _)| *name).collect();
        assert_eq!(names, [CRUNCH, FETCH, "run_task"]);
        assert!(ours.iter().all(|(.., found)| *found == Found::UnwindInfo));
        let [chain] = captured.tasks.chains else {
            panic!("{:?}", captured.tasks.chains);
        };
        assert_eq!((chain.frame, chain.end), (ours[1].0, AsyncEnd::Root));
        let callers =
            &captured.tasks.callers[chain.first_caller as usize..][..chain.count as usize];
        let names: Vec<_> = callers.iter().map(|at| self.function(*at)).collect();
        let wanted = [REFRESH[visit], OPEN, "task_ends"];
        assert_eq!(names, wanted.map(Some));
    }
}

#[test]
fn swift_s_frames_and_the_callers_that_await_are_read_in_place() {
    struct Looks {
        library: Library,
        capturer: Capturer,
        visits: Vec<std::thread::Result<()>>,
    }
    extern "C" fn look(looks: *mut c_void) {
        // SAFETY: the value that the test has passed on, which nobody else uses meanwhile.
        let looks = unsafe { &mut *looks.cast::<Looks>() };
        let images = ImageTable::enter();
        let captured = looks.capturer.capture_here(&images);
        let (library, visit) = (&looks.library, looks.visits.len());
        // No panic passes through the task's frames.
        let whole = catch_unwind(AssertUnwindSafe(|| library.assert_whole(&captured, visit)));
        looks.visits.push(whole);
    }
    let _one = ONE.lock();
    for name in ["frames-O.so", "frames-Onone.so"] {
        let library = Library::load(name);
        let run = library.run;
        let mut looks = Looks {
            library,
            capturer: capturer(),
            visits: Vec::new(),
        };
        let result = run(look, (&raw mut looks).cast());
        assert_eq!((result, looks.visits.len()), (10, 2), "{name}");
        for visit in looks.visits {
            visit.unwrap_or_else(|panic| resume_unwind(panic));
        }
    }
}

/// The contexts may be freed once the thread runs: then the chain says so.
#[test]
fn a_thread_that_is_stopped_in_swift_has_the_callers_that_await() {
    extern "C" fn look(flags: *mut c_void) {
        // SAFETY: the value that the test has passed on, which lives until the thread has ended.
        inner(unsafe { &*flags.cast::<Flags>() });
    }
    let _one = ONE.lock();
    for name in ["frames-O.so", "frames-Onone.so"] {
        let library = Library::load(name);
        let (run, flags) = (library.run, Flags::default());
        std::thread::scope(|scope| {
            let _stops = StopOnDrop(&flags);
            let (sender, receiver) = mpsc::channel();
            let flags = &flags;
            scope.spawn(move || {
                sender.send(Thread::current()).unwrap();
                run(look, (&raw const *flags).cast_mut().cast())
            });
            let thread = receiver.recv().unwrap();
            while !flags.inside.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let (mut capturer, images) = (capturer(), ImageTable::enter());
            // On a busy machine they may be read too late.
            let is_known = (0..100).any(|_| {
                let captured = capturer.capture(thread, &images).unwrap();
                assert!(captured.bytes > 0, "{name}");
                let is_known =
                    captured.tasks.chains.first().map(|chain| chain.end) != Some(AsyncEnd::Changed);
                if is_known {
                    library.assert_whole(&captured, 0);
                }
                is_known
            });
            assert!(is_known, "{name}");
        });
    }
}
