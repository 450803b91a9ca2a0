//! Clocks, in nanoseconds.
//!
//! Signal-safe: every function here is one `clock_gettime`, which POSIX lists as such; nothing
//! allocates, and `errno` is kept.

use libc::{clockid_t, timespec};

/// Time since some point before the process began, without the time that the machine slept
/// (`CLOCK_MONOTONIC`). Nobody can set it back.
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// As [`monotonic`], with the time that the machine slept (`CLOCK_BOOTTIME`).
pub fn boottime() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// Time since the Unix epoch (`CLOCK_REALTIME`). It may jump.
pub fn realtime() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// CPU time that all threads of this process have used.
pub fn process_cpu() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time that a thread of this process has used; 0 when there is no such thread.
///
/// The clock's id is made from the thread's as in the kernel's `include/linux/posix-timers_types.h`
/// (`MAKE_THREAD_CPUCLOCK` with `CPUCLOCK_SCHED`), so that no `pthread_t` is needed.
pub fn thread_cpu(tid: i32) -> u64 {
    const PER_THREAD: clockid_t = 4;
    const SCHED: clockid_t = 2;
    read((!tid << 3) | PER_THREAD | SCHED)
}

fn read(clock: clockid_t) -> u64 {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let errno = super::errno();
    // SAFETY: `time` is a valid timespec that lives across the call; an unknown clock only makes
    // the call fail.
    let done = unsafe { libc::clock_gettime(clock, &mut time) };
    if done != 0 {
        super::set_errno(errno);
        return 0;
    }
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
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
