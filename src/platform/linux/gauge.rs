//! The kernel's counters of one thread of this process, read without touching the thread.

use std::ffi::CString;

use super::proc_files::{Path, decimal, hexadecimal, read_file};
use super::threads::{Thread, state_in};
use crate::platform::clock;
use crate::platform::descriptors;
pub use crate::platform::surface::{Blocked, Futex, Holder, Waits};

/// Reads the state of one thread through descriptors that were opened once: later readings
/// neither allocate nor look up a path.
#[derive(Debug)]
pub struct ThreadGauge {
    tid: i32,
    stat: i32,
    schedstat: i32,
    syscall: i32,
    status: i32,
}

impl ThreadGauge {
    /// For the thread with this id. A file that cannot be opened (no `CONFIG_SCHED_INFO`, say)
    /// leaves its readings unknown.
    pub fn open(tid: i32) -> ThreadGauge {
        let open = |file: &str| match CString::new(format!("/proc/self/task/{tid}/{file}")) {
            Ok(path) => descriptors::open(&path, libc::O_RDONLY),
            Err(_) => -1,
        };
        ThreadGauge {
            tid,
            stat: open("stat"),
            schedstat: open("schedstat"),
            syscall: open("syscall"),
            status: open("status"),
        }
    }

    /// For the calling thread.
    pub fn current() -> ThreadGauge {
        // SAFETY: no arguments, always succeeds.
        ThreadGauge::open(unsafe { libc::gettid() })
    }

    /// The thread's id.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// CPU time used, nanoseconds.
    pub fn cpu(&self) -> u64 {
        clock::thread_cpu(self.tid)
    }

    /// Time for which it was ready to run but had no CPU, nanoseconds; 0 if unknown.
    /// Source: `/proc/PID/schedstat`, second field (Documentation/scheduler/sched-stats.rst).
    pub fn delay(&self) -> u64 {
        let mut buffer = [0; 96];
        let text = read(self.schedstat, &mut buffer);
        let mut words = text.split(|&byte| byte == b' ');
        words.nth(1).map_or(0, decimal)
    }

    /// The kernel's letter for its state, as `R`, `S`, `D`, `T` (stopped), `t` (held by a tracer);
    /// `None` where unknown.
    pub fn state(&self) -> Option<u8> {
        let mut buffer = [0; 128];
        state_in(read(self.stat, &mut buffer))
    }

    /// The system call in which it is blocked; `None` while it runs or if unknown.
    pub fn blocked(&self) -> Option<Blocked> {
        let mut buffer = [0; 256];
        Blocked::parse(read(self.syscall, &mut buffer))
    }

    /// The futex that it waits on: address, operation and value of the call; `None` while it does
    /// not. Source: proc(5), `/proc/PID/syscall`; futex(2).
    pub fn futex(&self) -> Option<Futex> {
        let mut buffer = [0; 256];
        Futex::parse(read(self.syscall, &mut buffer))
    }

    /// Returns the kind of wait of a thread in this [state](ThreadGauge::state).
    pub fn waits(&self, state: Option<u8>) -> Waits {
        let mut buffer = [0; 256];
        super::waits::of(state, read(self.syscall, &mut buffer))
    }

    /// Returns true if it sleeps in a call in which run loops wait for events: `poll`, `select`, `epoll_wait`
    /// and their kin.
    pub fn waits_for_events(&self) -> bool {
        let Some(number) = self.blocked().and_then(|at| at.call) else {
            return false;
        };
        let number = number as libc::c_long;
        #[cfg(target_arch = "x86_64")]
        if [libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait].contains(&number) {
            return true;
        }
        [
            libc::SYS_ppoll,
            libc::SYS_pselect6,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
        ]
        .contains(&number)
    }

    /// Returns true if a debugger or another tracer is attached to it.
    pub fn traced(&self) -> bool {
        let mut buffer = [0; 1024];
        is_traced_in(read(self.status, &mut buffer))
    }
}

/// Returns true if a debugger or another tracer is attached to the calling thread, as to all of this process.
/// Signal-safe.
pub fn is_debugged() -> bool {
    let mut buffer = [0; 1024];
    let mut path = Path::task(Thread::current().tid(), c"status");
    let length = read_file(path.as_c_str(), &mut buffer);
    is_traced_in(buffer.get(..length).unwrap_or_default())
}

/// Source: proc(5), `/proc/PID/status`, `TracerPid`.
fn is_traced_in(status: &[u8]) -> bool {
    const KEY: &[u8] = b"\nTracerPid:\t";
    status
        .windows(KEY.len() + 1)
        .find(|window| window.starts_with(KEY))
        .and_then(|window| window.last())
        .is_some_and(|&digit| digit != b'0')
}

impl Drop for ThreadGauge {
    fn drop(&mut self) {
        for file in [self.stat, self.schedstat, self.syscall, self.status] {
            if file >= 0 {
                // SAFETY: the descriptor is ours alone and is not used again.
                unsafe { libc::close(file) };
            }
        }
    }
}

impl Blocked {
    /// Reads the place where any thread of this process is blocked, without opening anything before. Signal-safe.
    pub fn of(thread: Thread) -> Option<Blocked> {
        let mut buffer = [0; 256];
        let length = read_file(Path::task(thread.tid(), c"syscall").as_c_str(), &mut buffer);
        Blocked::parse(buffer.get(..length)?)
    }

    /// Source: proc(5), `/proc/PID/syscall`: the call's number, its six arguments, stack pointer and
    /// program counter; `-1` and the last two for a thread that is blocked outside a call; `running`.
    /// The kernel has seen to it that the thread stood still while it wrote that.
    fn parse(text: &[u8]) -> Option<Blocked> {
        let mut words = text
            .split(|&byte| byte == b' ' || byte == b'\n')
            .filter(|word| !word.is_empty());
        let number = words.next()?;
        let call = match number.first()? {
            b'-' => None,
            digit if digit.is_ascii_digit() => Some(decimal(number)),
            _ => return None,
        };
        if call.is_some() {
            words.nth(5)?;
        }
        Some(Blocked {
            call,
            sp: hexadecimal(words.next()?),
            pc: hexadecimal(words.next()?),
        })
    }
}

impl Futex {
    /// Reads the futex of any thread of this process, without opening anything before. Signal-safe.
    pub fn of(thread: Thread) -> Option<Futex> {
        let mut buffer = [0; 256];
        let length = read_file(Path::task(thread.tid(), c"syscall").as_c_str(), &mut buffer);
        Futex::parse(buffer.get(..length)?)
    }

    pub(super) fn parse(text: &[u8]) -> Option<Futex> {
        let mut words = text.split(|&byte| byte == b' ' || byte == b'\n');
        let number = words
            .next()
            .filter(|word| word.first().is_some_and(u8::is_ascii_digit))?;
        if decimal(number) != libc::SYS_futex as u64 {
            return None;
        }
        let mut next = || words.next().map(hexadecimal);
        Some(Futex {
            address: next()?,
            operation: next()? as i32,
            value: next()? as u32,
        })
    }
}

/// Reads a file of `/proc` from its start; empty if it cannot be read. Signal-safe.
fn read(file: i32, buffer: &mut [u8]) -> &[u8] {
    if file < 0 {
        return &[];
    }
    let errno = super::errno();
    // SAFETY: the buffer is valid for writes of its length.
    let length = unsafe { libc::pread(file, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    super::set_errno(errno);
    usize::try_from(length)
        .ok()
        .and_then(|length| buffer.get(..length))
        .unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_that_polls_is_seen_to_wait_for_events() {
        let (sender, tid) = mpsc::channel();
        let (pipe, end) = std::io::pipe().unwrap();
        let sleeper = std::thread::spawn(move || {
            use std::os::fd::AsRawFd;
            // SAFETY: no arguments.
            sender.send(unsafe { libc::gettid() }).unwrap();
            let mut wait = libc::pollfd {
                fd: pipe.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one valid pollfd.
            unsafe { libc::poll(&mut wait, 1, -1) };
        });
        let gauge = ThreadGauge::open(tid.recv().unwrap());
        while !gauge.waits_for_events() {
            std::thread::yield_now();
        }
        assert_eq!(gauge.state(), Some(b'S'));
        drop(end);
        sleeper.join().unwrap();
    }

    #[test]
    fn the_calling_thread_runs() {
        let gauge = ThreadGauge::current();
        assert_eq!(gauge.state(), Some(b'R'));
        assert!(gauge.cpu() > 0);
        assert!(!gauge.waits_for_events());
    }
}
