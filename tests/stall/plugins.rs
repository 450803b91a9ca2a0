//! Plug-ins that are loaded in turn at the same base within one stall: each frame has the image that it ran in.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use wedjat::report::{Frame, Report};
use wedjat::{Monitor, RateLimit, Stall};

use crate::stall_support::only_monitor;

#[path = "../library/mod.rs"]
mod library;

/// How long each plug-in has the thread: the second comes before the stall is certain and its report begins.
const HAS: [Duration; 3] = [
    Duration::from_millis(150),
    Duration::from_millis(300),
    Duration::from_millis(300),
];
/// The function of each plug-in lies at another offset, so that an address alone shows whose it is.
const APART: usize = 4096;
const ROOM: usize = 4 * APART;

/// A plug-in of which all but the place of its function is as in the others.
fn plugin(folder: &Path, which: usize, flags: &[&str]) -> PathBuf {
    let (before, behind) = (which * APART, ROOM - which * APART);
    let code = format!(
        "__asm__(\".text\\n.balign 4096\\n.skip {before}, 0x90\\n\");\n\
         static volatile int count;\n\
         __attribute__((noinline)) void plug_{which}(int n) {{ while (n-- > 0) count++; }}\n\
         __asm__(\".text\\n.skip {behind}, 0x90\\n\");\n"
    );
    // The loader maps a library where it was linked for, if there is room.
    let flags = [
        &[
            "-g",
            "-O1",
            "-fno-toplevel-reorder",
            "-Wl,-Ttext-segment=0x600000000000",
        ],
        flags,
    ]
    .concat();
    library::made(folder, &format!("plug{which}"), &code, &flags)
}

/// Runs the plug-in for its time and unloads it; returns where its function began.
fn run(path: &Path, which: usize) -> usize {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let name = CString::new(format!("plug_{which}")).unwrap();
    // SAFETY: a library of ours, whose function has this type; it is not used after dlclose.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null());
        let function = libc::dlsym(handle, name.as_ptr());
        assert!(!function.is_null());
        let call: extern "C" fn(i32) = std::mem::transmute(function);
        let start = Instant::now();
        while start.elapsed() < HAS[which] {
            call(100_000);
        }
        assert_eq!(libc::dlclose(handle), 0);
        function as usize
    }
}

/// The whole stacks of the report's samples.
fn stacks(report: &Report) -> Vec<Vec<Frame>> {
    let mut stack: Vec<Frame> = Vec::new();
    let whole = report.samples.iter().map(|sample| {
        let kept = stack.split_off(stack.len() - sample.keep as usize);
        stack = sample.frames.iter().cloned().chain(kept).collect();
        stack.clone()
    });
    whole.collect()
}

fn each_frame_has_its_own_image(flags: &[&str]) {
    let _only = only_monitor();
    let folder = tempfile::tempdir().unwrap();
    let plugins = [0, 1, 2].map(|which| plugin(folder.path(), which, flags));
    let monitor = Monitor::builder("Plugins", "1")
        .directory(folder.path().join("reports"))
        .stall(Stall::default())
        .rate_limit(RateLimit::default().same(100).per_hour(100))
        .names(true)
        .install()
        .unwrap();
    let heart = monitor.heartbeat();
    heart.turn(|| ());
    let mut functions = [0; 3];
    // A machine under load may leave a stall without a report.
    for _ in 0..6 {
        sleep(Duration::from_millis(400));
        heart.turn(|| {
            for (which, path) in plugins.iter().enumerate() {
                functions[which] = run(path, which);
            }
        });
        sleep(Duration::from_millis(300));
    }
    let stats = monitor.stats();
    drop(monitor);
    let stored = wedjat::store::reports(folder.path().join("reports")).unwrap();
    assert_eq!(functions[1] - functions[0], APART, "another base");
    assert_eq!(functions[2] - functions[1], APART, "another base");
    assert!(!stored.is_empty(), "{stats:?}");
    let mut known = [0; 3];
    for report in stored {
        let report = report.read().unwrap().report;
        for frame in stacks(&report).into_iter().flatten() {
            let of = |function: &usize| (frame.pc as usize).wrapping_sub(*function) < 512;
            let Some(which) = functions.iter().position(of) else {
                continue;
            };
            // Where it is not certain, none.
            if let Some(image) = frame.image {
                let name = &report.images[image as usize].name;
                assert_eq!(Path::new(name), plugins[which], "{frame:#x?}");
                let name = frame.name.as_deref();
                assert_eq!(name, Some(&*format!("plug_{which}")));
                known[which] += 1;
            }
        }
    }
    assert!(known.iter().all(|known| *known > 1), "{known:?}");
}

#[test]
fn of_plugins_with_build_ids() {
    each_frame_has_its_own_image(&["-Wl,--build-id"]);
}

#[test]
fn of_plugins_without_build_ids() {
    each_frame_has_its_own_image(&["-Wl,--build-id=none"]);
}
