//! Clocks, in nanoseconds.
//!
//! Signal-safe: each is one `clock_gettime`, which POSIX lists as such, or another single system call; nothing
//! allocates, and `errno` is kept.

/// Time since some point before the process began, without the time that the machine slept. It is never set back.
/// `CLOCK_MONOTONIC`; on Apple platforms `CLOCK_UPTIME_RAW`, which is `mach_absolute_time` in nanoseconds.
pub fn monotonic() -> u64 {
    #[cfg(target_os = "linux")]
    return read(libc::CLOCK_MONOTONIC);
    #[cfg(target_vendor = "apple")]
    read(libc::CLOCK_UPTIME_RAW)
}

/// As [`monotonic`], with the time that the machine slept. `CLOCK_BOOTTIME`; on Apple platforms
/// `CLOCK_MONOTONIC_RAW`, which is `mach_continuous_time`.
pub fn boottime() -> u64 {
    #[cfg(target_os = "linux")]
    return read(libc::CLOCK_BOOTTIME);
    #[cfg(target_vendor = "apple")]
    read(libc::CLOCK_MONOTONIC_RAW)
}

/// Time for which the machine has slept since it started.
pub fn time_asleep() -> u64 {
    boottime().saturating_sub(monotonic())
}

/// Time since the Unix epoch (`CLOCK_REALTIME`). It may jump.
pub fn realtime() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// CPU time that all threads of this process have used.
pub fn process_cpu() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time that a thread of this process has used, by its id, on Apple platforms the name of its port; 0 when there
/// is no such thread.
///
/// On Linux the clock's id is made from the thread's as in the kernel's `include/linux/posix-timers_types.h`
/// (`MAKE_THREAD_CPUCLOCK` with `CPUCLOCK_SCHED`), so that no `pthread_t` is needed.
pub fn thread_cpu(tid: i32) -> u64 {
    #[cfg(target_os = "linux")]
    {
        const PER_THREAD: libc::clockid_t = 4;
        const SCHED: libc::clockid_t = 2;
        read((!tid << 3) | PER_THREAD | SCHED)
    }
    #[cfg(target_vendor = "apple")]
    super::apple::thread_cpu(tid)
}

/// Reads a clock; 0 if the system does not have it.
#[inline(never)]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if !super::os::read_clock(clock, &mut time) {
        return 0;
    }
    let seconds = (time.tv_sec as u64).wrapping_mul(1_000_000_000);
    seconds.wrapping_add(time.tv_nsec as u64)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn the_clocks_agree_with_the_standard_library_and_with_each_other() {
        let before = std::time::SystemTime::now();
        let real = super::realtime();
        let after = std::time::SystemTime::now();
        let nanos = |t: std::time::SystemTime| {
            t.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
        };
        assert!(nanos(before) <= real && real <= nanos(after));
        let monotonic = super::monotonic();
        assert!(super::monotonic() >= monotonic);
        // With sleep is never less than without.
        assert!(super::boottime() >= monotonic);
    }

    #[test]
    fn a_threads_cpu_clock_counts_its_work_alone() {
        // SAFETY: no arguments, always succeeds.
        let tid = unsafe { libc::gettid() };
        let other = std::thread::spawn(move || {
            let before = super::thread_cpu(tid);
            let own = super::process_cpu();
            let mut n = 0u64;
            while super::process_cpu() - own < 5_000_000 {
                n = std::hint::black_box(n + 1);
            }
            super::thread_cpu(tid) - before
        });
        // The main thread of this test only waits, while the other burns 5 ms.
        assert!(other.join().unwrap() < 5_000_000);
        assert!(super::thread_cpu(tid) > 0);
        assert_eq!(
            super::thread_cpu(5_000_000),
            0,
            "above the kernel's highest thread id"
        );
    }
}
