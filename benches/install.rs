//! What `install` costs the thread that calls it, whatever lies in the folder: CPU time beside the budget.
//!
//! `cargo bench --bench install` prints the table, and fails where a row is over the budget. Each figure is the median of
//! five installs, with the recorders of stalls and of crashes, in a process that has installed before; each finds a
//! folder as it was made. The slow file system is a library that comes before libc and sleeps for a millisecond in each
//! call that names a file; it is compiled by `cc`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use wedjat::{Crash, Monitor, Stall, store};

const MANY: usize = 100_000;
const BUDGET: Duration = Duration::from_millis(5);
const INSTALLS: usize = 5;

/// What lies in a folder, and how many folders of it are made: one is enough where an install changes nothing.
struct Row {
    what: &'static str,
    fill: fn(&Path, &[u8]),
    folders: usize,
    is_slow: bool,
}

const fn row(what: &'static str, fill: fn(&Path, &[u8])) -> Row {
    Row {
        what,
        fill,
        folders: INSTALLS,
        is_slow: false,
    }
}

const ROWS: [Row; 12] = [
    row("nothing", |_, _| ()),
    Row {
        folders: 1,
        ..row("100,000 files, half of them named as reports", many)
    },
    row("1,000 .partial, reports that are cut", partials),
    row(
        "20 .partial of 64 KiB that are damaged",
        |folder, report| {
            damaged(folder, report, 64 << 10);
        },
    ),
    row("20 .partial of 1 MiB that are damaged", |folder, report| {
        damaged(folder, report, 1 << 20);
    }),
    row("1,000 .launch with a report behind each", launches),
    row("pipes by all our names", |folder, _| {
        each_name(folder, pipe)
    }),
    row("sockets by all our names", |folder, _| {
        each_name(folder, |path| {
            drop(std::os::unix::net::UnixListener::bind(path).unwrap());
        });
    }),
    row("devices by all our names (as root)", |folder, _| {
        each_name(folder, device);
    }),
    row("links in a circle by all our names", |folder, _| {
        each_name(folder, |path| {
            std::os::unix::fs::symlink(path, path).unwrap();
        });
    }),
    row("sparse files of 8 GiB by all our names", |folder, _| {
        each_name(folder, |path| {
            let file = std::fs::File::create(path).unwrap();
            file.set_len(8 << 30).unwrap();
        });
    }),
    Row {
        is_slow: true,
        ..row("1,000 .partial, a call takes 1 ms more", partials)
    },
];

fn report_name(number: usize, ending: &str) -> String {
    format!("2001-02-03T04-05-06.789Z-stall-{number:08x}.{ending}")
}

fn launch_name(number: usize) -> String {
    format!("1700000000{number:09}-{number:08x}.launch")
}

fn many(folder: &Path, _: &[u8]) {
    for number in 0..MANY {
        let name = match number % 2 {
            0 => format!("{number}.txt"),
            _ => report_name(number, "wedjat"),
        };
        std::fs::write(folder.join(name), "").unwrap();
    }
}

fn partials(folder: &Path, report: &[u8]) {
    for number in 0..1_000 {
        let cut = &report[..report.len() - 100 - number % 1_000];
        std::fs::write(folder.join(report_name(number, "partial")), cut).unwrap();
    }
}

/// The beginning of a report, and then what looks like sections again and again.
fn damaged(folder: &Path, report: &[u8], length: usize) {
    let mut bytes = report[..report.len() / 2].to_vec();
    while bytes.len() < length {
        bytes.extend(b"\x92\xa5image\x87\xa4name");
    }
    bytes.truncate(length);
    for number in 0..20 {
        std::fs::write(folder.join(report_name(number, "partial")), &bytes).unwrap();
    }
}

fn launches(folder: &Path, report: &[u8]) {
    let mut bytes = u64::from_be_bytes(*b"wedjatL1").to_ne_bytes().to_vec();
    bytes.resize(320, 0);
    bytes.extend(report);
    for number in 0..1_000 {
        std::fs::write(folder.join(launch_name(number)), &bytes).unwrap();
    }
}

fn each_name(folder: &Path, make: impl Fn(&Path)) {
    for number in 0..200 {
        for ending in ["partial", "wedjat", "damaged"] {
            make(&folder.join(report_name(number, ending)));
        }
        make(&folder.join(launch_name(number)));
    }
}

fn c_path(path: &Path) -> std::ffi::CString {
    std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn pipe(path: &Path) {
    // SAFETY: a C string.
    assert_eq!(unsafe { libc::mkfifo(c_path(path).as_ptr(), 0o600) }, 0);
}

fn device(path: &Path) {
    // SAFETY: a C string. That of /dev/zero; without root it is not made.
    unsafe {
        let zero = libc::makedev(1, 5);
        libc::mknod(c_path(path).as_ptr(), libc::S_IFCHR | 0o600, zero);
    }
}

const SLOW: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>
static void slow(int folder) {
  struct timespec time = {0, 1000000};
  if (folder != AT_FDCWD) nanosleep(&time, 0);
}
#define NEXT(name) __typeof__(name) *next = dlsym(RTLD_NEXT, #name)
int openat(int folder, const char *name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int mode = va_arg(rest, int);
  va_end(rest);
  NEXT(openat);
  slow(folder);
  return next(folder, name, flags, mode);
}
int fstatat(int folder, const char *name, struct stat *into, int flags) {
  NEXT(fstatat);
  slow(folder);
  return next(folder, name, into, flags);
}
int renameat(int folder, const char *from, int to, const char *name) {
  NEXT(renameat);
  slow(folder);
  return next(folder, from, to, name);
}
int unlinkat(int folder, const char *name, int flags) {
  NEXT(unlinkat);
  slow(folder);
  return next(folder, name, flags);
}
"#;

fn slow_library(place: &Path) -> PathBuf {
    let (source, library) = (place.join("slow.c"), place.join("slow.so"));
    std::fs::write(&source, SLOW).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source]);
    assert!(cc.status().unwrap().success(), "cc is needed");
    library
}

fn cpu() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` lives across the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn install(folder: &Path) -> Monitor {
    Monitor::builder("bench", "1")
        .directory(folder)
        .limits(store::Limits::default().reports(2 * MANY).bytes(1 << 40))
        .stall(Stall::default())
        .crash(Crash::default())
        .install()
        .unwrap()
}

/// Installs in each of these folders, and prints the CPU time and the time of each in nanoseconds.
fn measure(folders: &[String]) {
    let warm = tempfile::tempdir().unwrap();
    drop(install(warm.path()));
    for folder in folders.iter().cycle().take(INSTALLS) {
        let (before, start) = (cpu(), Instant::now());
        let monitor = install(folder.as_ref());
        println!(
            "{} {}",
            (cpu() - before).as_nanos(),
            start.elapsed().as_nanos()
        );
        drop(monitor);
    }
}

/// The bytes of a whole report.
fn report() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let monitor = install(folder.path());
    std::fs::read(monitor.record("a report").unwrap()).unwrap()
}

fn median(mut all: Vec<u64>) -> Duration {
    all.sort_unstable();
    Duration::from_nanos(all[all.len() / 2])
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "--measure") {
        return measure(&args[1..]);
    }
    let (report, program) = (report(), std::env::current_exe().unwrap());
    let place = tempfile::tempdir().unwrap();
    let library = slow_library(place.path());
    let mut kept = true;
    println!("| in the folder | CPU, median | CPU, most | in all, median |");
    println!("| --- | ---: | ---: | ---: |");
    for row in ROWS {
        let folders = tempfile::tempdir().unwrap();
        let folders: Vec<PathBuf> = (0..row.folders)
            .map(|number| folders.path().join(number.to_string()))
            .inspect(|folder| {
                std::fs::create_dir(folder).unwrap();
                (row.fill)(folder, &report);
            })
            .collect();
        let mut measures = Command::new(&program);
        measures.arg("--measure").args(&folders);
        if row.is_slow {
            measures.env("LD_PRELOAD", &library);
        }
        let output = measures.output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", row.what);
        let text = String::from_utf8(output.stdout).unwrap();
        let (cpu, all): (Vec<u64>, Vec<u64>) = text
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(cpu, all)| (cpu.parse::<u64>().unwrap(), all.parse::<u64>().unwrap()))
            .unzip();
        let most = Duration::from_nanos(cpu.iter().copied().max().unwrap_or(0));
        let (cpu, all) = (median(cpu), median(all));
        let word = if cpu <= BUDGET { "" } else { " OVER BUDGET" };
        kept &= cpu <= BUDGET;
        println!(
            "| {} | {cpu:.2?}{word} | {most:.2?} | {all:.2?} |",
            row.what
        );
    }
    assert!(kept, "a row is over the budget of {BUDGET:?}");
}
