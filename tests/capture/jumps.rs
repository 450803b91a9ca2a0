//! Captures of a thread that leaves its frames by `longjmp`: wherever it is stopped, the walk goes on to the
//! functions that are there before the jump and after it.

use crate::library;
use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
use wedjat::platform::Thread;
use wedjat::unwind::{Found, WalkEnd};

/// Jumps to a buffer that is static, on the heap, or in the frame of the function that set it.
const SOURCE: &str = r#"
#include <setjmp.h>
#include <stdlib.h>
volatile int stop;
static jmp_buf fixed;
__attribute__((noinline)) static void deeper(jmp_buf *to, int n) {
    volatile char room[64];
    room[n] = 1;
    if (n == 0) longjmp(*to, 1);
    deeper(to, n - 1);
    room[n] = 2;
}
__attribute__((noinline)) static int jumper(int kind) {
    jmp_buf own;
    jmp_buf *to = kind == 0 ? &fixed : kind == 1 ? malloc(sizeof(jmp_buf)) : &own;
    volatile int n = 0;
    if (setjmp(*to) == 0) deeper(to, 3);
    n++;
    if (kind == 1) free(to);
    return n;
}
int outer(int kind) {
    int n = 0;
    while (!stop) n += jumper(kind);
    return n;
}
"#;

struct Library {
    outer: extern "C" fn(i32) -> i32,
    stop: *mut i32,
    /// The functions of the test's own, by their names.
    functions: Vec<(&'static str, std::ops::Range<u64>)>,
}

// SAFETY: a function, and the address of a word that is written to end the loop.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// The library, built with these flags and loaded for good.
fn library(name: &str, flags: &[&str]) -> Library {
    use object::{Object, ObjectSymbol};
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let common = ["-O2", "-fno-optimize-sibling-calls", "-Wl,--build-id"];
    let library = library::made(folder, name, SOURCE, &[&common, flags].concat());
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: a library of ours, whose symbols have these types; it stays loaded.
    let (outer, stop) = unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null());
        let outer = libc::dlsym(handle, c"outer".as_ptr());
        let stop = libc::dlsym(handle, c"stop".as_ptr());
        (outer, stop.cast())
    };
    let bytes = std::fs::read(&library).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbol = |name: &str| {
        let found = file.symbols().find(|symbol| symbol.name() == Ok(name));
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let slide = outer as u64 - symbol("outer").address();
    let functions = ["deeper", "jumper", "outer"].map(|name| {
        let start = symbol(name).address() + slide;
        (name, start..start + symbol(name).size())
    });
    Library {
        // SAFETY: what the source says.
        outer: unsafe {
            std::mem::transmute::<*mut libc::c_void, extern "C" fn(i32) -> i32>(outer)
        },
        stop,
        functions: functions.into(),
    }
}

/// Captures a thread that jumps, and gives what was wrong: where it stood, and how often.
fn cut(library: &Library, kind: i32, wanted: usize) -> HashMap<String, usize> {
    // SAFETY: no other thread runs in the library now.
    unsafe { library.stop.write_volatile(0) };
    let mut limits = CaptureLimits::default();
    limits.answer = 10_000_000_000;
    let mut capturer = Capturer::new(&limits).unwrap();
    ImageTable::refresh();
    let mut wrong = HashMap::new();
    let (mut begun, mut inside) = (false, 0);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || {
            sender.send(Thread::current()).unwrap();
            (library.outer)(kind);
        });
        let thread = receiver.recv().unwrap();
        let begin = Instant::now();
        while inside < wanted && begin.elapsed() < Duration::from_secs(60) {
            let images = ImageTable::enter();
            let captured = capturer.capture(thread, &images).unwrap();
            let names: Vec<&str> = captured
                .frames
                .iter()
                .filter_map(|frame| {
                    let at = frame.pc - u64::from(frame.found != Found::Context);
                    let mut all = library.functions.iter();
                    all.find(|(_, range)| range.contains(&at))
                        .map(|(name, _)| *name)
                })
                .collect();
            let first = &captured.frames[0];
            let image = images.image_of(first);
            let in_libc = image.is_some_and(|image| image.name.contains("libc.so"));
            begun |= names.contains(&"outer");
            if !begun {
                continue;
            }
            inside += usize::from(in_libc);
            // In `deeper` as often as it has called itself, then its caller, and so on to the root.
            let mut rest = names.iter().skip_while(|name| **name == "deeper");
            let from = names.first().copied();
            let jumper = from != Some("outer");
            let good = (!jumper || rest.next() == Some(&"jumper"))
                && rest.next() == Some(&"outer")
                && rest.next().is_none()
                && captured.end == WalkEnd::Root;
            if !good {
                let at = image.map_or(0, |image| image.svma(first.pc));
                *wrong
                    .entry(format!("{at:#x} {names:?} {:?}", captured.end))
                    .or_insert(0) += 1;
            }
        }
        // SAFETY: a word of the library's, which the thread reads.
        unsafe { library.stop.write_volatile(1) };
    });
    assert!(inside >= wanted, "{inside} captures in the C library");
    wrong
}

#[test]
fn a_walk_goes_on_from_anywhere_in_a_long_jump() {
    for (name, flags) in [
        ("jumps", &["-U_FORTIFY_SOURCE"][..]),
        (
            "jumps_checked",
            &["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"],
        ),
    ] {
        let library = library(name, flags);
        for (kind, what) in ["static", "heap", "own frame"].iter().enumerate() {
            let wrong = cut(&library, kind as i32, 1_000);
            assert!(wrong.is_empty(), "{name}, {what}: {wrong:#?}");
        }
    }
}
