//! Runs a role of the test program as a child process, and reads the reports that it left.

pub use super::deadline;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use wedjat::report::{Reading, Report};
use wedjat::symbolicate::{DebugFiles, Symbolicator};

/// The variable that names the role of a child; its folder is in `WEDJAT_TEST_DIR`.
pub const ROLE: &str = "WEDJAT_TEST_ROLE";
const FOLDER: &str = "WEDJAT_TEST_DIR";
const DISTURBED: &str = "disturbed";

/// A folder that is gone when the value is.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("wedjat-{name}-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

static KEPT: Mutex<Vec<Folder>> = Mutex::new(Vec::new());

/// Keeps a folder until [`tidy`].
#[allow(dead_code, reason = "not every test program has such folders")]
pub fn keep(folder: Folder) -> PathBuf {
    let path = folder.0.clone();
    KEPT.lock().unwrap().push(folder);
    path
}

/// Removes the folders that were kept: at the end of the program, which drops no statics.
#[allow(dead_code, reason = "not every test program has such folders")]
pub fn tidy() {
    KEPT.lock().unwrap().clear();
}

/// In a child: its role and its folder.
pub fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(FOLDER)?.into()))
}

/// In a child: nothing that it could store to is a file's, which a full disk, or who cuts that file, takes
/// away from it.
#[allow(dead_code, reason = "not every test program has such children")]
pub fn no_shared_file() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut shared = maps.lines().filter(|line| {
        let mut words = line.split_whitespace();
        let rights = words.nth(1).unwrap_or_default();
        // What has no inode is no file of a report.
        rights.contains('w') && rights.ends_with('s') && words.nth(2) != Some("0")
    });
    assert_eq!(shared.next(), None);
}

/// In a child: leaves what disturbed it, nanoseconds, for [`Ended::disturbed`].
#[allow(dead_code, reason = "not every test program has such children")]
pub fn leave_disturbed(folder: &Path, time: u64) {
    std::fs::write(folder.join(DISTURBED), time.to_string()).unwrap();
}

/// How a child ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stderr: String,
    pub folder: Folder,
}

/// This test program. To be called once before the process takes mounts of its own: then the kernel may name the
/// program by a path of the old ones (in a root of its own, as `chroot` makes it).
pub fn program() -> &'static Path {
    static PROGRAM: std::sync::LazyLock<std::path::PathBuf> =
        std::sync::LazyLock::new(|| std::env::current_exe().expect("the path of this program"));
    &PROGRAM
}

/// Starts this test program in a role.
pub fn command(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(program());
    command
        .env(ROLE, role)
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Plays a role to its end.
#[allow(dead_code, reason = "not every test program plays without changes")]
pub fn play(role: &str) -> Ended {
    play_with(role, |command| command)
}

/// Plays a role to its end, with changes to how it is started.
#[track_caller]
pub fn play_with(role: &str, change: impl FnOnce(&mut Command) -> &mut Command) -> Ended {
    let folder = Folder::new(role);
    let mut command = command(role, &folder.0);
    let command = change(&mut command).process_group(0).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let ended = deadline::end(child, deadline::PATIENCE);
    Ended {
        status: ended.status,
        stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
        folder,
    }
}

impl Ended {
    /// Fails unless it ended with status 0.
    #[allow(dead_code, reason = "not every test program has children that live on")]
    #[track_caller]
    pub fn succeeded(&self) {
        assert!(self.status.success(), "{:?} {}", self.status, self.stderr);
    }

    /// The signal that it died of.
    #[allow(dead_code, reason = "not every test program has children that die")]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// What it says of what disturbed it, nanoseconds.
    #[allow(dead_code, reason = "not every test program has such children")]
    pub fn disturbed(&self) -> u64 {
        let text = std::fs::read_to_string(self.folder.0.join(DISTURBED));
        text.map_or(0, |time| time.parse().unwrap())
    }

    /// What it left, as the next launch finds it.
    pub fn readings(&self) -> Vec<Reading> {
        let found = wedjat::store::reports(&self.folder.0).unwrap();
        found.iter().map(|report| report.read().unwrap()).collect()
    }

    /// The one report that it left, whole.
    #[allow(dead_code, reason = "not every test program has one")]
    pub fn report(&self) -> Report {
        let mut readings = self.readings();
        assert_eq!(
            readings.len(),
            1,
            "one death, one report; it printed: {}",
            self.stderr
        );
        let reading = readings.remove(0);
        assert!(reading.damage.is_empty(), "{:?}", reading.damage);
        assert_eq!(
            reading
                .report
                .end
                .as_ref()
                .map(|end| end.closed_by.as_str()),
            Some("writer")
        );
        reading.report
    }
}

/// The functions of the first thread (or of that of index `thread`), innermost first, with file
/// name and line, inlined ones among them.
#[allow(dead_code, reason = "not every test program uses them")]
pub fn stack(report: &Report, thread: usize) -> Vec<(String, String, u64)> {
    // One for all: what it has read of a debug file it keeps.
    static RECORDER: OnceLock<Mutex<Symbolicator>> = OnceLock::new();
    let own = || {
        let mut files = DebugFiles::new();
        let program = std::env::current_exe().expect("the path of this program");
        files.add(&program).expect("its debug information");
        // Libraries that the test has made: a report's own paths lead to the system's alone.
        let paths = report.images.iter().map(|image| Path::new(&image.name));
        for made in paths.filter(|path| path.starts_with(std::env::temp_dir())) {
            let _ = files.add(made);
        }
        Mutex::new(Symbolicator::new(files))
    };
    let symbolicator = RECORDER.get_or_init(own);
    let symbolicator = symbolicator
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let named = symbolicator.symbolicate(report.clone());
    drop(symbolicator);
    let mut stack = Vec::new();
    for frame in named.threads[thread]
        .frames
        .iter()
        .flat_map(|physical| physical.frames.iter())
    {
        let file = frame.file.as_deref().unwrap_or_default();
        let file = file.rsplit('/').next().unwrap_or_default();
        let function = frame.function.as_deref().unwrap_or_default().to_owned();
        stack.push((
            function,
            file.to_owned(),
            u64::from(frame.line.unwrap_or_default()),
        ));
    }
    stack
}

/// Whether `wanted` (ends of function names) stand in the stack in this order, nothing in between.
#[allow(dead_code, reason = "not every test program uses them")]
pub fn calls(stack: &[(String, String, u64)], wanted: &[&str]) -> bool {
    stack.windows(wanted.len()).any(|part| {
        part.iter().zip(wanted).all(|((function, ..), wanted)| {
            function
                .split('<')
                .next()
                .unwrap_or_default()
                .ends_with(wanted)
                || function.ends_with(wanted)
        })
    })
}

/// The functions of a thread, innermost first, as the symbol tables of its images name them (not
/// our symbolicator): mangled, without inlined ones; empty where no symbol covers the address.
#[allow(dead_code, reason = "not every test program uses them")]
pub fn functions(report: &Report, thread: usize) -> Vec<String> {
    let frames = &report.threads[thread].frames;
    let name = |frame: &wedjat::report::Frame| {
        let image = &report.images[frame.image? as usize];
        let back = u64::from(frame.found != wedjat::report::Found::Context);
        let address = frame.pc - back - image.base + image.base_svma;
        symbols(&image.name)
            .iter()
            .find(|(range, _)| range.contains(&address))
            .map(|(_, name)| name.clone())
    };
    frames
        .iter()
        .map(|frame| name(frame).unwrap_or_default())
        .collect()
}

type Symbols = Vec<(std::ops::Range<u64>, String)>;

fn symbols(path: &str) -> std::sync::Arc<Symbols> {
    use object::{Object, ObjectSymbol};
    use std::collections::HashMap;
    use std::sync::Arc;
    static KNOWN: Mutex<Option<HashMap<String, Arc<Symbols>>>> = Mutex::new(None);
    let mut known = KNOWN
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let known = known.get_or_insert_with(HashMap::new);
    if let Some(symbols) = known.get(path) {
        return symbols.clone();
    }
    let bytes = std::fs::read(path).unwrap_or_default();
    let mut found = Symbols::new();
    if let Ok(file) = object::File::parse(&*bytes) {
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() == object::SymbolKind::Text && symbol.size() > 0 {
                let range = symbol.address()..symbol.address() + symbol.size();
                found.push((range, symbol.name().unwrap_or_default().to_owned()));
            }
        }
    }
    let found = Arc::new(found);
    known.insert(path.to_owned(), found.clone());
    found
}

/// Whether functions of these names stand in the stack in this order, nothing in between. A name is
/// that of a C function, or the last part of a Rust function's path.
#[allow(dead_code, reason = "not every test program uses them")]
pub fn in_order(functions: &[String], wanted: &[&str]) -> bool {
    functions.windows(wanted.len()).any(|part| {
        part.iter().zip(wanted).all(|(function, wanted)| {
            function == wanted || function.contains(&format!("{}{wanted}", wanted.len()))
        })
    })
}
