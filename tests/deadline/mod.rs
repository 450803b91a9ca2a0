//! Runs the command with a deadline: whatever it is given, it comes to an end.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than anything here takes, even on a machine that is busy with other things.
const DEADLINE: Duration = Duration::from_secs(240);

pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

pub fn symbolicate<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ran {
    let child = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
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
pub fn finish(mut child: Child) -> Ran {
    let out = reader(child.stdout.take().unwrap());
    let err = reader(child.stderr.take().unwrap());
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > DEADLINE {
            child.kill().unwrap();
            panic!("the command hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ran {
        code: status.code(),
        out: out.join().unwrap(),
        err: err.join().unwrap(),
    }
}

fn reader(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).expect("all output is UTF-8")
    })
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
