//! Clocks, in nanoseconds.
//!
//! Signal-safe: each is a read of the commpage or one system call; nothing allocates, and `errno`
//! is kept.

use super::task;

/// Time since the machine started, without the time that it slept (`CLOCK_UPTIME_RAW`, which is
/// `mach_absolute_time` in nanoseconds). Nobody can set it back.
pub fn monotonic() -> u64 {
    read(libc::CLOCK_UPTIME_RAW)
}

/// As [`monotonic`], with the time that the machine slept (`CLOCK_MONOTONIC_RAW`, which is
/// `mach_continuous_time`).
pub fn boottime() -> u64 {
    read(libc::CLOCK_MONOTONIC_RAW)
}

/// Time since the Unix epoch (`CLOCK_REALTIME`). It may jump.
pub fn realtime() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// CPU time that all threads of this process have used.
pub fn process_cpu() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time that a thread of this process has used, by its port's name; 0 when there is no such
/// thread.
pub fn thread_cpu(port: i32) -> u64 {
    task::extended(port as u32).map_or(0, |facts| {
        facts.pth_user_time.saturating_add(facts.pth_system_time)
    })
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let errno = super::errno();
    // SAFETY: `time` is a valid timespec that lives across the call.
    let done = unsafe { libc::clock_gettime(clock, &mut time) };
    if done != 0 {
        super::set_errno(errno);
        return 0;
    }
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}
