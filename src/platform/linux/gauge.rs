//! Reads one thread's state, CPU times and system call from the kernel, without stopping the thread.

use super::proc_files::{hexadecimal, number, read_open, read_task, task_path};
use super::threads::{Thread, state_in};
use crate::platform::clock;
use crate::platform::descriptors;
pub use crate::platform::surface::{Blocked, Holder, Waits};
use crate::platform::verified_fd::VerifiedFd;

/// Reads the state of one thread through descriptors that were opened once: later readings
/// neither allocate nor look up a path. If the app has closed a descriptor, a reading may come from one of the app's
/// files. `pread` does not move that file's offset.
#[derive(Debug)]
pub struct ThreadGauge {
    tid: i32,
    stat: VerifiedFd,
    schedstat: VerifiedFd,
    syscall: VerifiedFd,
    status: VerifiedFd,
}

impl ThreadGauge {
    /// For the thread with this id. A file that cannot be opened (no `CONFIG_SCHED_INFO`, say)
    /// leaves its readings unknown.
    pub fn open(tid: i32) -> ThreadGauge {
        let open = |file: &str| {
            let fd = descriptors::open_owned(task_path(tid, file).as_c_str(), libc::O_RDONLY);
            (fd.ok().and_then(|fd| VerifiedFd::new(fd).ok())).unwrap_or(VerifiedFd::unowned())
        };
        ThreadGauge {
            tid,
            stat: open("stat"),
            schedstat: open("schedstat"),
            syscall: open("syscall"),
            status: open("status"),
        }
    }

    /// For one of many threads: each reading opens the file that it needs, and closes it.
    pub fn unopened(tid: i32) -> ThreadGauge {
        let none = VerifiedFd::unowned;
        ThreadGauge {
            tid,
            stat: none(),
            schedstat: none(),
            syscall: none(),
            status: none(),
        }
    }

    /// Reads a file of the thread's from its start.
    fn read<'b>(&self, file: &VerifiedFd, name: &str, buffer: &'b mut [u8]) -> &'b [u8] {
        match file.known().number {
            ..0 => read_task(self.tid, name, buffer),
            number => read_open(number, buffer),
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
    #[inline(never)]
    pub fn run_delay(&self) -> u64 {
        let mut buffer = [0; 96];
        let text = self.read(&self.schedstat, "schedstat", &mut buffer);
        let mut words = text.split(|&byte| byte == b' ');
        words.nth(1).and_then(number).unwrap_or(0)
    }

    /// The kernel's letter for its state, as `R`, `S`, `D`, `T` (stopped), `t` (held by a tracer);
    /// `None` where unknown.
    pub fn state(&self) -> Option<u8> {
        state_in(self.read(&self.stat, "stat", &mut [0; 128]))
    }

    /// The system call in which it is blocked; `None` while it runs or if unknown.
    pub fn blocked(&self) -> Option<Blocked> {
        Blocked::parse(self.read(&self.syscall, "syscall", &mut [0; 256]))
    }

    /// Returns the kind of wait of a thread in this [state](ThreadGauge::state).
    pub fn waits(&self, state: Option<u8>) -> Waits {
        super::waits::of(state, self.read(&self.syscall, "syscall", &mut [0; 256]))
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
        is_traced_in(self.read(&self.status, "status", &mut [0; 1024]))
    }
}

/// Returns true if a debugger or another tracer is attached to the calling thread, as to all of this process.
/// Signal-safe.
pub fn is_debugged() -> bool {
    is_traced_in(read_task(Thread::current().tid(), "status", &mut [0; 1024]))
}

/// Source: proc(5), `/proc/PID/status`, `TracerPid`.
fn is_traced_in(status: &[u8]) -> bool {
    const KEY: &[u8] = b"\nTracerPid:\t";
    status
        .windows(const { KEY.len() + 1 })
        .find(|window| window.starts_with(KEY))
        .and_then(|window| window.last())
        .is_some_and(|&digit| digit != b'0')
}

impl Blocked {
    /// Reads the place where any thread of this process is blocked, without opening anything before. Signal-safe.
    pub fn of(thread: Thread) -> Option<Blocked> {
        Blocked::parse(read_task(thread.tid(), "syscall", &mut [0; 256]))
    }

    /// Source: proc(5), `/proc/PID/syscall`: the call's number, its six arguments, stack pointer and
    /// program counter; `-1` and the last two for a thread that is blocked outside a call; `running`.
    /// The kernel has seen to it that the thread stood still while it wrote that.
    pub(super) fn parse(text: &[u8]) -> Option<Blocked> {
        let mut words = text
            .split(|&byte| byte == b' ' || byte == b'\n')
            .filter(|word| !word.is_empty());
        let call = match words.next()? {
            b"-1" => None,
            call => Some(number(call)?),
        };
        let mut arguments = [0; 6];
        for argument in arguments.iter_mut().filter(|_| call.is_some()) {
            *argument = hexadecimal(words.next()?);
        }
        Some(Blocked {
            call,
            arguments,
            sp: hexadecimal(words.next()?),
            pc: hexadecimal(words.next()?),
        })
    }
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
