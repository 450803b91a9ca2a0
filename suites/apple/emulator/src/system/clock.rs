//! Clocks: `mach/mach_time.h`, `time.h`. One tick is one virtual nanosecond. The machine sleeps only
//! at a call of the guest.

use crate::machine::{Key, Machine, Outcome};

/// Wall clock at virtual time 0: 2024-01-01T00:00:00Z.
const EPOCH: u64 = 1_704_067_200_000_000_000;

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    let now = m.now;
    Some(match name {
        "mach_absolute_time" | "mach_approximate_time" => Outcome::Return(now),
        "mach_continuous_time" => Outcome::Return(now + m.asleep),
        "mach_timebase_info" => {
            m.write_u32(a[0], 1);
            m.write_u32(a[0] + 4, 1);
            Outcome::Return(0)
        }
        "clock_gettime_nsec_np" => Outcome::Return(read(m, a[0])),
        "clock_gettime" => {
            let value = read(m, a[0]);
            m.write_u64(a[1], value / 1_000_000_000);
            m.write_u64(a[1] + 8, value % 1_000_000_000);
            Outcome::Return(0)
        }
        // `sys/resource.h`: the CPU time is the user's, and no page comes from a disk.
        "getrusage" => {
            let cpu = read(m, 12);
            m.write_u64(a[1], cpu / 1_000_000_000);
            m.write_u64(a[1] + 8, cpu % 1_000_000_000 / 1_000);
            for word in 2..18 {
                m.write_u64(a[1] + 8 * word, 0);
            }
            Outcome::Return(0)
        }
        "time" => {
            let seconds = read(m, 0) / 1_000_000_000;
            if a[0] != 0 {
                m.write_u64(a[0], seconds);
            }
            Outcome::Return(seconds)
        }
        "nanosleep" => {
            let seconds = m.read_u64(a[0]).unwrap_or(0);
            let length = seconds.saturating_mul(1_000_000_000) + m.read_u64(a[0] + 8).unwrap_or(0);
            Outcome::Wait(
                Key::Time,
                Some(now.saturating_add(length)),
                Box::new(|_, _| Outcome::Return(0)),
            )
        }
        _ => return None,
    })
}

/// `clockid_t`: 0 realtime, 4 and 6 (`CLOCK_MONOTONIC_RAW`, `CLOCK_MONOTONIC`) with the time asleep,
/// 8 (`CLOCK_UPTIME_RAW`) without it, 12 and 16 process and thread CPU.
fn read(m: &Machine, clock: u64) -> u64 {
    match clock {
        0 => EPOCH + m.now + m.asleep,
        4..=6 => m.now + m.asleep,
        12 => m.threads.iter().map(|t| t.cpu).sum(),
        16 => m.threads[m.current].cpu,
        _ => m.now,
    }
}
