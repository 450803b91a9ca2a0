//! The threads of this process, listed and named without allocating.
//!
//! Signal-safe throughout.

use std::sync::atomic::{AtomicBool, Ordering};

use super::proc_files::{TASKS, hexadecimal, number, read_task};
use super::send_to;
use super::system_call;
use crate::platform::descriptors;

pub use crate::platform::surface::ThreadProgress;

/// One thread of this process, by the kernel's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thread(i32);

impl Thread {
    /// The calling thread.
    pub fn current() -> Thread {
        // Not libc's: musl's reads it at the thread pointer.
        Thread(system_call::thread_id())
    }

    /// The thread with which the process began.
    pub fn main() -> Thread {
        // SAFETY: no arguments, cannot fail.
        Thread(unsafe { libc::getpid() })
    }

    /// Returns the thread with this id.
    pub fn from_id(id: u64) -> Thread {
        Thread(id as i32)
    }

    /// The kernel's id (tid).
    pub fn id(self) -> u64 {
        self.0 as u64
    }

    /// The kernel's id, in the type that system calls take.
    pub fn tid(self) -> i32 {
        self.0
    }

    /// Returns true if it is the thread with which the process began.
    pub fn is_main(self) -> bool {
        self == Thread::main()
    }

    /// Returns true if this process has such a thread now.
    pub fn is_alive(self) -> bool {
        // Signal 0 is not sent.
        let known = send_to(self, 0) == 0;
        // One that has ended stays known for a moment, the first thread until all others have ended (wait(2), proc(5)).
        known && !matches!(self.state(), Some(b'Z' | b'X'))
    }

    /// Returns true if it is running or ready to run.
    pub fn is_ready(self) -> bool {
        self.state() == Some(b'R')
    }

    /// Returns the kernel's letter for its state; `None` if that is unknown.
    fn state(self) -> Option<u8> {
        state_in(read_task(self.0, "stat", &mut [0; 512]))
    }

    /// Its name, as `/proc` has it: at most 15 bytes. Returns its length.
    pub fn name(self, buffer: &mut [u8; 32]) -> usize {
        let length = read_task(self.0, "comm", buffer).len();
        if length == 0 && self == Thread::current() {
            // Without `/proc`, a thread can read its own name. SAFETY: there is room for the 16 bytes that it writes.
            unsafe { libc::prctl(libc::PR_GET_NAME, buffer.as_mut_ptr()) };
            return buffer.iter().position(|&byte| byte == 0).unwrap_or(0);
        }
        let read = buffer.get(..length).unwrap_or_default();
        read.strip_suffix(b"\n").unwrap_or(read).len()
    }

    /// Returns true if the thread blocks a signal that is pending for it. (While its handler runs, a signal is
    /// blocked but not pending.)
    pub fn withholds(self, signal: i32) -> bool {
        self.signals().is_some_and(|signals| {
            signals.pending & signals.blocked & ThreadSignals::bit(signal) != 0
        })
    }

    /// The signals that are pending for the thread, and those that it blocks; `None` where the kernel does not report them.
    ///
    /// Source: proc(5), `SigPnd` and `SigBlk` in `/proc/PID/status`.
    pub fn signals(self) -> Option<ThreadSignals> {
        let mut buffer = [0; 2048];
        let status = read_task(self.0, "status", &mut buffer);
        let mask = |key: &[u8]| {
            let at = status.windows(key.len()).position(|window| window == key)?;
            Some(hexadecimal(status.get(at.saturating_add(key.len())..)?))
        };
        Some(ThreadSignals {
            pending: mask(b"\nSigPnd:\t")?,
            blocked: mask(b"\nSigBlk:\t")?,
        })
    }

    /// Counters that change when the thread runs: while two results are equal and the thread is not running now, its
    /// stack cannot have changed. `None` if the kernel does not report it.
    ///
    /// Source: proc(5): the state in `/proc/PID/stat`, the time on the CPU and the count of time
    /// slices in `/proc/PID/schedstat`.
    pub fn progress(self) -> Option<ThreadProgress> {
        let state = self.state()?;
        let mut buffer = [0; 512];
        let text = read_task(self.0, "schedstat", &mut buffer);
        let mut words = text.split(|byte| byte.is_ascii_whitespace());
        let cpu = number(words.next()?)?;
        let slices = number(words.nth(1)?)?;
        Some(ThreadProgress {
            running: state == b'R',
            cpu,
            slices,
        })
    }
}

/// Sets of signals of one thread, see [`Thread::signals`].
#[derive(Debug, Clone, Copy)]
pub struct ThreadSignals {
    /// Signals that were sent to this thread alone, and have not been delivered.
    pub pending: u64,
    /// Signals that it blocks.
    pub blocked: u64,
}

impl ThreadSignals {
    /// The bit of a signal in these sets; 0 for a number that is no signal.
    pub fn bit(signal: i32) -> u64 {
        let shift = u32::try_from(signal).ok().and_then(|at| at.checked_sub(1));
        shift.and_then(|shift| 1u64.checked_shl(shift)).unwrap_or(0)
    }
}

/// Lists the threads of this process into `into` and returns how many there are. They may be more than there was room
/// for.
pub fn list(into: &mut [Thread]) -> usize {
    let errno = super::errno();
    /// True while a thread reads through the descriptor that is kept open. All threads share its file offset.
    static KEPT_IN_USE: AtomicBool = AtomicBool::new(false);
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let opened = descriptors::open_at(libc::AT_FDCWD, c"/proc/self/task", flags, 0);
    let mut folder = opened;
    if opened < 0
        && let Some(kept) = TASKS.get()
        && !KEPT_IN_USE.swap(true, Ordering::Acquire)
    {
        folder = kept;
        // SAFETY: a plain call on an open descriptor.
        unsafe { libc::lseek(folder, 0, libc::SEEK_SET) };
    }
    let mut count = 0usize;
    if folder >= 0 {
        let mut entries = [0u8; 4096];
        loop {
            // SAFETY: the buffer is ours and of the length given.
            let got = unsafe {
                libc::syscall(
                    libc::SYS_getdents64,
                    folder,
                    entries.as_mut_ptr(),
                    entries.len(),
                )
            };
            let Some(filled) = usize::try_from(got).ok().filter(|&got| got > 0) else {
                break;
            };
            let mut rest = entries.get(..filled).unwrap_or(&[]);
            // struct linux_dirent64: u64 ino, u64 off, u16 reclen, u8 type, name (getdents(2)).
            while let (Some(low), Some(high)) = (rest.get(16), rest.get(17)) {
                let length = usize::from(u16::from_le_bytes([*low, *high]));
                let name = rest.get(19..length).unwrap_or(&[]);
                let name = name.split(|&byte| byte == 0).next().unwrap_or(&[]);
                if let Some(id) = number(name) {
                    if let Some(slot) = into.get_mut(count) {
                        *slot = Thread(id as i32);
                    }
                    count = count.saturating_add(1);
                }
                if length < 19 {
                    break;
                }
                rest = rest.get(length..).unwrap_or(&[]);
            }
        }
        if opened >= 0 {
            // SAFETY: opened above, closed once.
            unsafe { libc::close(opened) };
        } else {
            KEPT_IN_USE.store(false, Ordering::Release);
        }
    }
    super::set_errno(errno);
    count
}

/// Returns the letter of the state. Source: proc(5), `/proc/PID/stat`, the field after the last `)`.
pub(super) fn state_in(stat: &[u8]) -> Option<u8> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(name_end.checked_add(2)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_is_listed_even_those_without_room() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let barrier = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let sender = sender.clone();
                let barrier = &barrier;
                scope.spawn(move || {
                    sender.send(Thread::current()).unwrap();
                    barrier.wait();
                });
            }
            let started: Vec<Thread> = (0..3).map(|_| receiver.recv().unwrap()).collect();
            let mut all = [Thread(0); 64];
            let count = list(&mut all);
            for thread in started.iter().chain([&Thread::current(), &Thread::main()]) {
                assert!(all[..count].contains(thread), "{thread:?} is missing");
            }
            let mut few = [Thread(0); 2];
            assert!(list(&mut few) >= 4);
            barrier.wait();
        });
    }

    #[test]
    fn a_thread_has_its_name() {
        std::thread::Builder::new()
            .name("a-nameable-one".into())
            .spawn(|| {
                let mut name = [0; 32];
                let length = Thread::current().name(&mut name);
                assert_eq!(&name[..length], b"a-nameable-one");
            })
            .unwrap()
            .join()
            .unwrap();
    }

    #[test]
    fn a_sleeping_thread_makes_no_progress_and_a_busy_one_does() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            sender.send(Thread::current()).unwrap();
            woken.recv().ok();
            let mut n = 0u64;
            while woken.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                n = std::hint::black_box(n + 1);
            }
        });
        let thread = receiver.recv().unwrap();
        while thread.progress().unwrap().running {
            std::thread::yield_now();
        }
        let before = thread.progress();
        assert_eq!(thread.progress(), before);
        wake.send(()).unwrap();
        while thread.progress() == before {
            std::thread::yield_now();
        }
        drop(wake);
        sleeper.join().unwrap();
    }
}
