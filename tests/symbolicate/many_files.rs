//! Reports over more images than may be open at a time: how often each debug file is opened, by the kernel's own count.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::deadline::output;
use wedjat::new;
use wedjat::report::{End, Found, Frame, Image, Report, Thread};
use wedjat::symbolicate::{DebugFiles, Symbolicator};

const FILES: usize = 24;
const REPORTS: usize = 30;
/// Images lie at multiples of this.
const STEP: u64 = 1 << 28;
/// Digits of the build id that the linker is given.
const ID: [u8; 20] = *b"\x57one-of-many-files..";

/// Opened files of a folder, as the kernel notes them.
struct Openings(std::fs::File);

impl Openings {
    fn of(folder: &Path) -> Openings {
        let path = CString::new(folder.as_os_str().as_bytes()).unwrap();
        // SAFETY: a new descriptor, which nothing else closes, and a string that ends in a zero.
        unsafe {
            let inotify = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
            assert!(inotify >= 0);
            assert!(libc::inotify_add_watch(inotify, path.as_ptr(), libc::IN_OPEN) >= 0);
            Openings(std::fs::File::from_raw_fd(inotify))
        }
    }

    /// Count of openings by file name, since the last call.
    fn counts(&mut self) -> BTreeMap<String, usize> {
        let (mut counts, mut buffer) = (BTreeMap::new(), vec![0; 1 << 16]);
        while let Ok(length) = self.0.read(&mut buffer) {
            let mut rest = &buffer[..length];
            // The length of the name is the last of four numbers in front of it.
            while let Some(field) = rest.get(12..16) {
                let size = u32::from_ne_bytes(field.try_into().unwrap()) as usize;
                let name = rest[16..16 + size].split(|&byte| byte == 0).next();
                let name = OsStr::from_bytes(name.unwrap_or_default());
                if !name.is_empty() {
                    *counts.entry(name.to_string_lossy().into()).or_default() += 1;
                }
                rest = &rest[16 + size..];
            }
        }
        counts
    }
}

/// A library with debug information, in many files of other ids, and the addresses of its functions.
fn libraries(folder: &Path) -> (Vec<[u8; 20]>, Vec<u64>) {
    let build = tempfile::tempdir().unwrap();
    let text: String = (0..40)
        .map(|at| format!("int function_{at}(int n) {{\n    return n + {at};\n}}\n"))
        .collect();
    std::fs::write(build.path().join("a.c"), text).unwrap();
    let digits: String = ID.iter().map(|byte| format!("{byte:02x}")).collect();
    let line = format!(
        "cc -g -O0 -shared -fPIC -Wl,--build-id=0x{digits} a.c -o a.so && nm a.so | grep ' T function_'"
    );
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(&build)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let symbols = String::from_utf8(output.stdout).unwrap();
    let address = |line: &str| u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let library = std::fs::read(build.path().join("a.so")).unwrap();
    let at = library.windows(ID.len()).position(|window| window == ID);
    let at = at.unwrap();
    let ids = (0..FILES).map(|file| {
        let (mut id, mut library) = (ID, library.clone());
        id[19] = file as u8;
        library[at..at + ID.len()].copy_from_slice(&id);
        std::fs::write(folder.join(format!("a.so.{file}")), library).unwrap();
        id
    });
    (ids.collect(), symbols.lines().map(address).collect())
}

/// A report with a frame in each image.
fn report(number: usize, ids: &[[u8; 20]], functions: &[u64]) -> Report {
    let (mut report, mut thread) = (Report::default(), Thread::default());
    for (index, id) in ids.iter().enumerate() {
        let mut image = Image::default();
        image.name = format!("/app/a.so.{index}");
        image.id = id.to_vec();
        image.base = STEP * (index as u64 + 1);
        image.size = STEP;
        let mut frame = Frame::default();
        frame.pc = image.base + functions[(number + index) % functions.len()];
        frame.found = Found::Context;
        frame.image = Some(index as u32);
        report.images.push(image);
        thread.frames.push(frame);
    }
    report.threads.push(thread);
    report
}

#[test]
fn each_of_many_files_is_opened_a_few_times_however_few_stay_open() {
    let folder = tempfile::tempdir().unwrap();
    let (ids, functions) = libraries(folder.path());
    let mut openings = Openings::of(folder.path());
    let mut files = DebugFiles::new().no_search().limit(3);
    assert_eq!(files.add(folder.path()).unwrap().objects, FILES);
    let symbolicator = Symbolicator::new(files);
    openings.counts();
    let report = |number| report(number, &ids, &functions);
    let all = symbolicator.symbolicate_all((0..REPORTS).map(report).collect());
    let counts = openings.counts();
    assert_eq!(counts.len(), FILES, "{counts:?}");
    assert!(counts.values().all(|&count| count <= 2), "{counts:?}");
    for (number, named) in all.iter().enumerate() {
        for (index, frame) in named.threads[0].frames.iter().enumerate() {
            let at = functions[(number + index) % functions.len()];
            assert_eq!(frame.svma, Some(at));
            let source = &frame.frames[0];
            let name = source.function.as_deref().unwrap();
            let line: u32 = name.strip_prefix("function_").unwrap().parse().unwrap();
            assert_eq!(source.line, Some(3 * line + 1), "{name}");
        }
        // As of a report alone.
        assert_eq!(named.missing.len(), 0);
    }
    let alone = symbolicator.symbolicate(report(7));
    assert_eq!(alone.threads, all[7].threads);
    // What the kernel counts: for this one they were opened again.
    assert!(openings.counts().len() >= FILES - 3);
}

/// The command, which may have fewer files open than it reads.
#[test]
fn the_command_names_reports_over_more_files_than_it_may_have_open() {
    let (folder, reports) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (ids, functions) = libraries(folder.path());
    for number in 0..REPORTS {
        let mut report = report(number, &ids, &functions);
        report.head.id = [number as u8; 16];
        report.end = Some(new!(End {
            closed_by: "writer".into(),
        }));
        let path = reports.path().join(format!("{number}.wedjat"));
        std::fs::write(path, wedjat::report::to_bytes(&report)).unwrap();
    }
    let mut openings = Openings::of(folder.path());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 20; exec \"$0\" \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_symbolicate"));
    command.args(["--no-cache", "--no-search", "--jobs", "2", "--debug"]);
    let output = output(command.args([folder.path(), reports.path()]));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let mut named = 0;
    for line in text.lines().filter(|line| line.contains("function_")) {
        let number = |after: &str| {
            let digits = line.split_once(after).unwrap().1;
            let end = digits.find(|c: char| !c.is_ascii_digit());
            digits[..end.unwrap_or(digits.len())]
                .parse::<u32>()
                .unwrap()
        };
        assert_eq!(number("a.c:"), 3 * number("function_") + 1, "{line}");
        named += 1;
    }
    assert!(named >= FILES * REPORTS, "{named} of {}", FILES * REPORTS);
    // Twice while the folder is searched, once for all reports.
    let counts = openings.counts();
    assert!(counts.values().all(|&count| count <= 3), "{counts:?}");
}
