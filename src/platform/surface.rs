//! Types that `linux/` and `apple/` have in common, and functions that need libc alone.

use super::forked::OnceAProcess;
use super::text::FixedText;
use super::{Semaphore, SystemError, Thread, clock, context, os};

/// The reason why a thread could not be captured.
#[cfg_attr(target_vendor = "apple", allow(dead_code, reason = "Linux alone"))]
#[derive(Debug)]
#[non_exhaustive]
pub enum StopError {
    /// It did not answer in time: on Linux, it blocks the signal, sleeps uninterruptibly, is stopped, or has an
    /// alternate stack that is not mapped. Never on Apple platforms, where the kernel answers.
    Unresponsive,
    /// It blocks each signal that captures may use, as its mask shows.
    Blocked,
    /// There is no such thread (any more).
    Gone,
    /// It is the calling thread, which cannot wait for itself.
    CallingThread,
    /// A call failed.
    System(SystemError),
}

impl std::fmt::Display for StopError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            StopError::Blocked => "the thread blocks the signals of captures",
            StopError::Unresponsive => "the thread did not answer in time",
            StopError::Gone => "the thread has ended",
            StopError::CallingThread => "a thread cannot stop itself; capture it in place",
            StopError::System(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for StopError {}

/// Limits of one stop.
#[derive(Debug, Clone)]
pub struct StopBudget {
    /// The copy is cut short when it has taken this long, nanoseconds.
    pub stopped: u64,
    /// A thread that has not answered after this long is unresponsive, nanoseconds; unused on Apple
    /// platforms, where the kernel does not keep us waiting.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "see above"))]
    pub answer: u64,
}

/// The copy of a stopped thread's registers and stack.
#[derive(Debug, Clone)]
pub struct Copied<'a> {
    /// The registers, numbered as in [`context`].
    pub registers: &'a [u64; context::REGISTERS],
    /// Address of the first copied byte of the stack.
    pub base: u64,
    /// The stack, from [`Copied::base`] on.
    pub stack: &'a [u8],
    /// The stack that a signal handler on an alternate stack has interrupted, and its address; empty if the thread runs
    /// no such handler.
    pub interrupted: (u64, &'a [u8]),
    /// The time at which the thread was let go (monotonic, nanoseconds).
    pub released_at: u64,
    /// Time for which the thread was stopped, nanoseconds.
    pub stopped: u64,
    /// True if the copy ends before the stack does, because room or time ran out.
    pub cut: bool,
}

/// Memory of the process and of the machine, bytes; `None` where the kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Resident size.
    pub resident: Option<u64>,
    /// Memory that is the process' own and no file's: `RssAnon` + `VmSwap` on Linux, `phys_footprint`, which the
    /// system's limit counts, on Apple platforms.
    pub footprint: Option<u64>,
    /// Highest resident size so far.
    pub peak: Option<u64>,
    /// Memory of the machine.
    pub device_total: Option<u64>,
    /// Memory of the machine that is free or easily freed.
    pub device_free: Option<u64>,
}

/// The control group that counts a process' memory, bytes. Never known on Apple platforms, which have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryGroup {
    /// Identifies it, until the machine is started anew.
    pub id: u64,
    /// The smallest limit of this group and of the groups that contain it.
    pub limit: Option<u64>,
    /// Peak use of the group that sets `limit`; its present use on kernels that do not count the peak.
    pub peak: Option<u64>,
    /// As `peak`, of this group.
    pub own_peak: Option<u64>,
    /// Count of its processes that the kernel has killed because memory ran out.
    pub kills: Option<u64>,
    /// True if this process is the only one in it.
    pub alone: bool,
}

/// The operating system and the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// `Linux`, `macOS` or `iOS`.
    pub name: &'static str,
    /// The system's version (`14.5`); on Linux the kernel's release (`6.1.0-21-amd64`).
    pub version: String,
    /// The system's build (`23F79`); on Linux the kernel's build, from uname(2).
    pub build: Option<String>,
    /// The model, as `Mac14,2`; on Linux the machine's product name (DMI or device tree), where it has
    /// one.
    pub device: Option<String>,
}

/// The place where a thread is blocked, as the kernel reports it without touching the thread. Never known on Apple
/// platforms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// The number of the system call that it is in; `None` outside of any.
    pub call: Option<u64>,
    /// Its arguments; zeroes outside of any.
    #[cfg_attr(target_vendor = "apple", allow(dead_code, reason = "Linux alone"))]
    pub arguments: [u64; 6],
    /// Its stack pointer.
    pub sp: u64,
    /// Its program counter, after the instruction that made the call.
    pub pc: u64,
}

/// The holder of the lock that a thread waits for.
#[cfg_attr(target_vendor = "apple", allow(dead_code, reason = "Linux alone"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// This thread holds it.
    Known(Thread),
    /// The lock does not record its holder, such as Rust's `Mutex`, parking_lot's, and bare futexes.
    Unknown,
}

/// The state of the main queue at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueWorker {
    /// The thread that runs its work; `None` if no thread other than the usual one is known to.
    pub by: Option<Thread>,
    /// True if it is empty and no thread runs its work, false if one does; `None` if the queue does not show it.
    pub rests: Option<bool>,
}

/// The kind of wait that a thread is in, as far as the kernel reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waits {
    /// For nothing: it runs, is ready to, or is stopped.
    #[default]
    Nothing,
    /// For a disk or another file system.
    Disk,
    /// For a lock that a thread holds.
    Lock,
    /// For an event, a time or another process, or for something that the kernel does not report.
    Event,
}

/// The state of the machine's power; `None` for each value that it does not report.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Power {
    /// Charge of the battery, 0 to 1.
    pub battery: Option<f64>,
    /// `nominal`, `fair`, `serious`, `critical`.
    pub thermal: Option<&'static str>,
    /// True if the user or the system wants less use of power.
    pub low_power: Option<bool>,
}

/// Words for heat, from cool to hot: Apple's (`ProcessInfo.ThermalState`).
pub const THERMAL: [&str; 4] = ["nominal", "fair", "serious", "critical"];

impl Power {
    /// Queries the system. May allocate and take milliseconds; not signal-safe.
    pub fn read() -> Power {
        os::power::read()
    }

    /// Packs the state into one word, which can be read at any instant; 0 if nothing is known.
    pub fn pack(&self) -> u64 {
        let level = self.battery.map(|level| (level * 1000.0) as u64);
        let battery = level.map_or(0, |level| level.saturating_add(1));
        let heat = THERMAL.iter().position(|&word| Some(word) == self.thermal);
        let heat = heat.map_or(0, |place| (place as u64).saturating_add(1));
        let low = self.low_power.map_or(0, |low| if low { 2 } else { 1 });
        battery | heat << 32 | low << 40
    }

    /// Restores the state from a packed word. Signal-safe.
    pub fn unpack(word: u64) -> Power {
        let known = |part: u64| part.checked_sub(1);
        Power {
            battery: known(word & 0xffff_ffff).map(|level| level as f64 / 1000.0),
            thermal: known(word >> 32 & 0xff).and_then(|at| THERMAL.get(at as usize).copied()),
            low_power: known(word >> 40 & 0xff).map(|low| low != 0),
        }
    }
}

/// The name of a thread, up to the first byte that is not UTF-8, such as where the kernel cut a character.
#[derive(Debug, Clone, Copy)]
pub struct ThreadName(FixedText<32>);

impl ThreadName {
    /// Reads the name that the kernel has now. Signal-safe.
    #[inline(never)]
    pub fn of(thread: Thread) -> ThreadName {
        let fill = |room: &mut [u8]| room.first_chunk_mut().map_or(0, |room| thread.name(room));
        ThreadName(FixedText::filled(fill))
    }

    /// Returns the name; `None` if it is empty. Signal-safe.
    pub fn as_str(&self) -> Option<&str> {
        let name = self.0.as_str();
        (!name.is_empty()).then_some(name)
    }
}

/// Counters of a thread's progress, see [`Thread::progress`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadProgress {
    /// True if it is running or ready to run.
    pub running: bool,
    /// Its time on the CPU, nanoseconds.
    pub cpu: u64,
    /// Times that it got the CPU; 0 on Apple platforms, where the kernel does not report it.
    pub slices: u64,
}

/// Time for which this process has run, time asleep included, nanoseconds. Signal-safe.
///
/// Apple's kernel has the start by the wall clock, which may be set later: the first answer is kept.
pub fn uptime() -> Option<u64> {
    static STARTED: OnceAProcess = OnceAProcess::new();
    let started = STARTED.get(os::vitals::process_start)?;
    Some(clock::boottime().saturating_sub(started))
}

/// Count of the times that this process has waited for a page from the disk. Signal-safe.
///
/// Source: getrusage(2), `ru_majflt`.
pub fn major_faults() -> Option<u64> {
    // SAFETY: an all-zero `rusage` is a valid value of that plain struct.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `used` lives across the call.
    let known = unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut used) } == 0;
    known.then(|| u64::try_from(used.ru_majflt).unwrap_or(0))
}

impl Semaphore {
    /// Takes one permit, waiting for it as long as it takes.
    pub fn wait(&self) {
        self.wait_until(u64::MAX);
    }

    /// Takes one permit; `false` when none came within so many nanoseconds.
    pub fn wait_timeout(&self, nanoseconds: u64) -> bool {
        self.wait_until(clock::monotonic().saturating_add(nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let battery = [None, Some(0.0), Some(0.5), Some(1.0)];
        for battery in battery {
            for thermal in [None, Some("nominal"), Some("critical")] {
                for low_power in [None, Some(false), Some(true)] {
                    let power = Power {
                        battery,
                        thermal,
                        low_power,
                    };
                    assert_eq!(Power::unpack(power.pack()), power);
                }
            }
        }
        assert_eq!(Power::default().pack(), 0);
    }
}
