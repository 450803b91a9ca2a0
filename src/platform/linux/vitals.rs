//! Gauges of the process and the machine, read into a fixed buffer, and the machine's name. Signal-safe, but for the name.

pub use super::cgroup::memory_group;
use super::proc_files::{ProcFile, number, read_file};
use crate::platform::descriptors::find_line;
pub use crate::platform::surface::{MemoryGroup, MemoryUse, System, major_faults, uptime};

/// `/proc` files that are kept open, so that a process without descriptors left still reads them.
#[derive(Debug)]
pub struct VitalsFiles {
    status: ProcFile,
    meminfo: ProcFile,
    stat: ProcFile,
}

impl VitalsFiles {
    /// None open yet.
    pub(crate) const fn new() -> VitalsFiles {
        VitalsFiles {
            status: ProcFile::new(c"/proc/self/status", 0),
            meminfo: ProcFile::new(c"/proc/meminfo", 0),
            stat: ProcFile::new(c"/proc/stat", 0),
        }
    }

    /// Opens them, once a process.
    pub fn open(&self) {
        let each = [&self.status, &self.meminfo, &self.stat];
        each.into_iter().for_each(ProcFile::open);
        // It is known from now on.
        uptime();
    }

    /// Memory of process and machine. Source: proc(5), `status` and `meminfo`.
    pub fn memory(&self) -> MemoryUse {
        let mut buffer = [0; 4096];
        let mut text = self.status.read(&mut buffer);
        if kibibytes(text, b"VmRSS:").is_none() {
            // The first thread, whose file it is, has ended.
            text = read_file(c"/proc/thread-self/status", &mut buffer);
        }
        let resident = kibibytes(text, b"VmRSS:");
        let (own, swap) = (kibibytes(text, b"RssAnon:"), kibibytes(text, b"VmSwap:"));
        let peak = kibibytes(text, b"VmHWM:");
        let text = self.meminfo.read(&mut buffer);
        MemoryUse {
            resident,
            footprint: own.map(|own| own.saturating_add(swap.unwrap_or(0))),
            peak,
            device_total: kibibytes(text, b"MemTotal:"),
            device_free: kibibytes(text, b"MemAvailable:"),
        }
    }

    /// Time for which the cores of the machine have worked and idled since boot, in ticks of the kernel's.
    /// Source: proc(5), first line of `stat`.
    pub fn device_ticks(&self) -> Option<(u64, u64)> {
        let mut buffer = [0; 512];
        let text = self.stat.read(&mut buffer);
        let line = text
            .split(|&byte| byte == b'\n')
            .next()?
            .strip_prefix(b"cpu ")?;
        let (mut busy, mut idle) = (0u64, 0u64);
        // user nice system idle iowait irq softirq steal; guest times are in user's already.
        for (place, word) in line
            .split(|&byte| byte == b' ')
            .filter(|word| !word.is_empty())
            .take(8)
            .enumerate()
        {
            let ticks = number(word)?;
            match place {
                3 | 4 => idle = idle.saturating_add(ticks),
                _ => busy = busy.saturating_add(ticks),
            }
        }
        Some((busy, idle))
    }
}

/// Time at which this process started, on the clock that goes on while the machine sleeps, nanoseconds.
/// Source: proc(5), `stat` field 22, in clock ticks after boot.
pub fn process_start() -> Option<u64> {
    let mut buffer = [0; 1024];
    let text = read_file(c"/proc/self/stat", &mut buffer);
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    let mut words = text
        .get(name_end.checked_add(2)?..)?
        .split(|&byte| byte == b' ');
    let ticks = number(words.nth(19)?)?;
    // SAFETY: sysconf has no preconditions.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second = u64::try_from(per_second).ok().filter(|&ticks| ticks > 0)?;
    Some(ticks.saturating_mul(1_000_000_000u64.checked_div(per_second)?))
}

/// True if the kernel counts the processes that it has killed because memory ran out.
pub const OOM_KILLS_ARE_COUNTED: bool = true;

/// Count of the processes of this machine that the kernel has killed because memory ran out, since it started.
/// Not for handlers. Source: `oom_kill` in proc(5), `/proc/vmstat`.
pub fn oom_kills() -> Option<u64> {
    find_line(format_args!("/proc/vmstat"), |line| {
        line.strip_prefix("oom_kill ")?.trim().parse().ok()
    })
}

/// Identifies this start of the machine. Source: random(4), `boot_id`.
pub fn boot_id() -> Option<u128> {
    find_line(format_args!("/proc/sys/kernel/random/boot_id"), |line| {
        u128::from_str_radix(&line.replace('-', ""), 16).ok()
    })
}

/// Cores that are online. Not signal-safe: libc reads a file for it.
pub fn cores() -> Option<u64> {
    // SAFETY: sysconf has no preconditions.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).ok()
}

/// The number behind `key` at a line's start, in bytes.
#[inline(never)]
fn kibibytes(text: &[u8], key: &[u8]) -> Option<u64> {
    let line = text
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(key))?;
    let word = line
        .split(|byte| byte.is_ascii_whitespace())
        .find(|word| !word.is_empty())?;
    number(word)?.checked_mul(1024)
}

/// Queries the kernel. Allocates.
pub fn describe() -> System {
    let first_line = |path: &str| {
        let line = find_line(format_args!("{path}"), |line| {
            Some(line.trim_matches(['\0', ' ', '\t']).to_owned())
        });
        line.filter(|line| !line.is_empty())
    };
    System {
        name: "Linux",
        version: first_line("/proc/sys/kernel/osrelease").unwrap_or_default(),
        build: first_line("/proc/sys/kernel/version"),
        device: first_line("/sys/class/dmi/id/product_name")
            .or_else(|| first_line("/proc/device-tree/model")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_process_uses() {
        let files = VitalsFiles::new();
        files.open();
        let before = files.memory();
        let taken = vec![1u8; 64 << 20];
        let after = files.memory();
        std::hint::black_box(&taken);
        let grown = after.footprint.unwrap() - before.footprint.unwrap();
        assert!((60 << 20..80 << 20).contains(&grown), "{grown}");
        assert!(after.peak >= after.resident && after.device_total > after.device_free);
    }

    #[test]
    fn uptime_begins_with_the_process() {
        // Tests have not run for a day; and the clock moves.
        let first = uptime().unwrap();
        assert!(first < 86_400_000_000_000);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(uptime().unwrap() >= first + 20_000_000);
    }
}
