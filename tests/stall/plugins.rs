//! Plug-ins that are loaded in turn at the same base within one stall: each frame has the image that it ran in.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use wedjat::report::Report;
use wedjat::{Monitor, Stall};

use crate::support::library;
use crate::support::stall::{only_monitor, stacks};

/// How long each plug-in has the thread: the second comes before the stall is certain and its report begins. The third
/// has it until the next samples, which come the later the more the ones before have cost.
const HAS: [Duration; 3] = [
    Duration::from_millis(150),
    Duration::from_millis(400),
    Duration::from_millis(3000),
];
/// The function of each plug-in lies at another offset, so that an address alone shows whose it is.
const APART: usize = 512;
const ROOM: usize = 4 * APART;

/// A plug-in of which all but the place of its function is as in the others.
fn plugin(folder: &Path, which: usize, flags: &[&str]) -> PathBuf {
    // The loader's own functions lie before.
    let (before, behind) = ((1 + which) * APART, ROOM - which * APART);
    let fill = [0x90, 0xcc, 0xf4][which];
    let code = format!(
        "__asm__(\".text\\n.skip {before}, {fill}\\n\");\n\
         static volatile int count;\n\
         __attribute__((noinline)) void plug_{which}(int n) {{ while (n-- > 0) count++; }}\n\
         __asm__(\".text\\n.skip {behind}, {fill}\\n\");\n"
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

fn each_frame_has_its_own_image(flags: &[&str]) {
    let _only = only_monitor();
    let folder = tempfile::tempdir().unwrap();
    let plugins = [0, 1, 2].map(|which| plugin(folder.path(), which, flags));
    let mut known = [0; 3];
    // A machine under load may leave a stall without a report.
    for round in 0..20 {
        // Equal stalls are not reported twice in one folder.
        let reports = folder.path().join(format!("reports-{round}"));
        let monitor = Monitor::builder("Plugins", "1")
            .directory(&reports)
            .stall(Stall::default())
            .resolve_names(true)
            .install()
            .unwrap();
        let heart = monitor.heartbeat();
        heart.turn(|| ());
        sleep(Duration::from_millis(100));
        let mut functions = [0; 3];
        heart.turn(|| {
            for (which, path) in plugins.iter().enumerate() {
                functions[which] = run(path, which);
            }
        });
        assert_eq!(functions[1] - functions[0], APART, "another base");
        assert_eq!(functions[2] - functions[1], APART, "another base");
        // Ends the report.
        drop(monitor);
        for stored in wedjat::store::reports(&reports).unwrap() {
            check(
                &stored.read().unwrap().report,
                functions,
                &plugins,
                &mut known,
            );
        }
        if known.iter().all(|known| *known > 1) {
            return;
        }
    }
    panic!("{known:?}");
}

/// Counts frames of which the image is known and right.
fn check(report: &Report, functions: [usize; 3], plugins: &[PathBuf; 3], known: &mut [u32; 3]) {
    for frame in stacks(report).into_iter().flatten() {
        let of = |function: &usize| (frame.pc as usize).wrapping_sub(*function) < 128;
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

#[test]
fn of_plugins_with_build_ids() {
    each_frame_has_its_own_image(&["-Wl,--build-id"]);
}

#[test]
fn of_plugins_without_build_ids() {
    each_frame_has_its_own_image(&["-Wl,--build-id=none"]);
}
