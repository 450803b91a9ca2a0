//! Deadlines: whatever a test starts or waits for comes to an end, and what hung is named.
//!
//! A program that is started has [`PATIENCE`]; the test program that has this module, as a whole,
//! has [`PROGRAM`] (not in a run of soaks or for ignored tests, which take what they take).
#![allow(dead_code, reason = "each test program uses its own part")]

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Signals as a program at a terminal has them: who is started in the background has SIGINT ignored, and so have its children.
pub fn as_at_a_terminal(command: &mut Command) {
    let by_default = || {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: `signal` is async-signal-safe, as what runs between fork and exec has to be.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: as above; nothing is allocated.
    unsafe { command.pre_exec(by_default) };
}

/// Far more than anything here takes, even on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// The same for a whole test program.
pub const PROGRAM: Duration = Duration::from_secs(1800);

/// This test program, to run one of its tests by itself in another process.
pub fn one_test(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args([
        name,
        "--exact",
        "--include-ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command
}

/// Notes that something is run again since the machine kept it from the CPU: on standard error, and in
/// `target/tmp/run-again.txt`, whose lines `.ci/run` shows.
#[track_caller]
pub fn run_again(why: &str) {
    use std::io::Write;
    let here = std::panic::Location::caller();
    let line = format!("{here}: {why}\n");
    eprint!("run again: {line}");
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("run-again.txt");
    let list = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path);
    let written = list.and_then(|mut list| list.write_all(line.as_bytes()));
    written.expect("the list of what was run again");
}

pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

pub fn symbolicate<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ran {
    let Some(program) = option_env!("CARGO_BIN_EXE_symbolicate") else {
        panic!("this is a build without the symbolicator");
    };
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finish(child)
}

/// Waits for the end; panics where it does not come.
#[track_caller]
pub fn finish(child: Child) -> Ran {
    let text = |bytes: Vec<u8>| {
        if bytes.starts_with(b"PAR1") {
            // Parquet: its texts are in it as they are.
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            String::from_utf8(bytes).expect("all other output is UTF-8")
        }
    };
    let ended = end(child, PATIENCE);
    Ran {
        code: ended.status.code(),
        out: text(ended.stdout),
        err: text(ended.stderr),
    }
}

/// Runs it to its end and takes what it says.
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    let (out, err) = (Stdio::piped(), Stdio::piped());
    let command = command.process_group(0).stdout(out).stderr(err);
    end(command.spawn().unwrap(), PATIENCE)
}

/// Runs it to its end.
#[track_caller]
pub fn status(command: &mut Command) -> ExitStatus {
    end(command.process_group(0).spawn().unwrap(), PATIENCE).status
}

/// Waits for the end, for so long, and takes what comes through the pipes that there are. What hangs
/// is killed, and the panic says where it hung.
#[track_caller]
pub fn end(mut child: Child, patience: Duration) -> Output {
    let out = child.stdout.take().map(reader);
    let err = child.stderr.take().map(reader);
    let begin = Instant::now();
    let mut status = None;
    loop {
        status = status.or_else(|| child.try_wait().unwrap());
        // A child of the child may have the pipes still.
        let closed = |reader: &Option<Reader>| reader.as_ref().is_none_or(|it| it.is_finished());
        if let Some(status) = status
            && closed(&out)
            && closed(&err)
        {
            let read = |reader: Option<Reader>| reader.map(|reader| reader.join().unwrap());
            return Output {
                status,
                stdout: read(out).unwrap_or_default(),
                stderr: read(err).unwrap_or_default(),
            };
        }
        if begin.elapsed() > patience {
            let hung = whereabouts(child.id());
            let _ = child.kill();
            let _ = child.wait();
            // And those that it has left, where it was given a group of its own.
            // SAFETY: a plain call; without such a group it does nothing.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
            std::thread::sleep(Duration::from_millis(500));
            let printed = [out, err].into_iter().flatten();
            let printed: Vec<u8> = printed
                .filter(|reader| reader.is_finished())
                .flat_map(|reader| reader.join().unwrap())
                .collect();
            let printed = String::from_utf8_lossy(&printed);
            panic!(
                "process {} hung for {patience:?}: {hung}\nIt printed: {printed}",
                child.id()
            );
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until it is so, for [`PATIENCE`]; the child must be there until then.
#[track_caller]
pub fn until(child: &mut Child, what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("{status} before {what}");
        }
        if begin.elapsed() > PATIENCE {
            let hung = whereabouts(child.id());
            let _ = child.kill();
            panic!("no {what} in {PATIENCE:?}: {hung}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

type Reader = std::thread::JoinHandle<Vec<u8>>;

fn reader(mut stream: impl Read + Send + 'static) -> Reader {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// What the threads of a process and of its children wait for, as far as the kernel says.
pub fn whereabouts(process: u32) -> String {
    let mut all = String::new();
    let read = |path: &std::path::Path, name: &str| {
        let text = std::fs::read_to_string(path.join(name)).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    for thread in threads.into_iter().flatten().flatten() {
        let path = thread.path();
        let facts = ["comm", "wchan", "syscall"].map(|name| read(&path, name));
        all += &format!("\n{}: {}", path.display(), facts.join(", "));
        for child in read(&path, "children").split(' ') {
            if let Ok(child) = child.parse() {
                all += &whereabouts(child);
            }
        }
    }
    all
}

// Miri plays no signals.
#[cfg(target_os = "linux")]
#[used]
#[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
static BEGIN: extern "C" fn() = begin;

/// Runs before `main`.
#[cfg(target_os = "linux")]
extern "C" fn begin() {
    let is_set = |variable| std::env::var_os(variable).is_some();
    let patient = ["WEDJAT_RUNS", "WEDJAT_SOAK"].into_iter().any(is_set)
        || std::env::args().any(|argument| argument.ends_with("ignored"));
    if !patient {
        // SAFETY: an all-zero `sigaction` is a valid value; nothing else runs yet.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = too_late as *const () as usize;
            action.sa_flags = libc::SA_NODEFER | libc::SA_RESTART;
            libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
            libc::alarm(PROGRAM.as_secs() as u32);
        }
    }
}

/// The names of the threads are those of the tests that still run.
#[cfg(target_os = "linux")]
extern "C" fn too_late(signal: libc::c_int) {
    // SAFETY: plain calls. What follows may wait for a lock that the interrupted thread holds: then
    // the second alarm ends it.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::alarm(10);
    }
    let hung = whereabouts(std::process::id());
    let printed = format!("\nthis test program hangs, after {PROGRAM:?}: {hung}\n");
    // SAFETY: the text lives across the call.
    unsafe {
        libc::write(2, printed.as_ptr().cast(), printed.len());
        libc::raise(signal);
    }
}

/// The most memory that any command run by this process has had resident so far, in bytes.
#[cfg(target_os = "linux")]
pub fn most_memory() -> u64 {
    // SAFETY: all zeros are a valid rusage; the call fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage), 0);
        usage
    };
    usage.ru_maxrss as u64 * 1024
}

/// A machine that keeps a thread from its CPU for longer than this, nanoseconds, shows nothing about
/// freezes of a quarter of a second.
pub const DISTURBED: u64 = 100_000_000;

/// Returns for how many nanoseconds a thread was ready to run but had no CPU; 0 of one that has ended.
pub fn delay(tid: i32) -> u64 {
    let Ok(text) = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")) else {
        return 0;
    };
    text.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The same of all threads of this process.
pub fn starved() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let tids = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
    tids.map(|tid| delay(tid.parse().unwrap())).sum()
}

/// Nanoseconds for which a hypervisor has kept this machine from its CPUs since it started: no thread's clock shows them.
fn stolen() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let steal = text.split_whitespace().nth(8);
    let ticks: u64 = steal.map_or(0, |ticks| ticks.parse().unwrap());
    ticks * 10_000_000
}

/// Plays, and checks what came of it. Where the check fails and the machine's own load was part
/// of the play (it says for how many nanoseconds), or a hypervisor's, it is played again, a few times.
#[track_caller]
pub fn undisturbed<T>(limit: u64, play: impl Fn() -> (T, u64), check: impl Fn(T)) {
    for attempt in 1.. {
        let before = stolen();
        let (shown, starved) = play();
        let starved = starved + stolen() - before;
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(shown)));
        match checked {
            Ok(()) => return,
            Err(_) if starved >= limit && attempt < 8 => {
                run_again(&format!("disturbed for {starved} ns"));
            }
            Err(failure) => std::panic::resume_unwind(failure),
        }
    }
}
