//! Gauges of the process and the machine, read into a fixed buffer. Signal-safe throughout.

use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, Ordering};

use super::{clock, errno, set_errno};

/// Memory of the process and of the machine, bytes; `None` where the kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Resident size.
    pub resident: Option<u64>,
    /// `RssAnon` + `VmSwap`: what is the process' own and no file's.
    pub footprint: Option<u64>,
    /// Highest resident size so far.
    pub peak: Option<u64>,
    /// Memory of the machine.
    pub device_total: Option<u64>,
    /// Of it, free or easily freed.
    pub device_free: Option<u64>,
}

/// `/proc` files that are kept open, so that a process without descriptors left still reads them.
#[derive(Debug)]
pub struct VitalsFiles {
    status: AtomicI32,
    meminfo: AtomicI32,
    stat: AtomicI32,
}

impl VitalsFiles {
    /// None open yet.
    pub const fn new() -> VitalsFiles {
        VitalsFiles {
            status: AtomicI32::new(-1),
            meminfo: AtomicI32::new(-1),
            stat: AtomicI32::new(-1),
        }
    }

    /// Opens them, once.
    pub fn open(&self) {
        let each = [
            (&self.status, c"/proc/self/status"),
            (&self.meminfo, c"/proc/meminfo"),
            (&self.stat, c"/proc/stat"),
        ];
        for (slot, path) in each {
            if slot.load(Ordering::Acquire) < 0 {
                slot.store(open(path), Ordering::Release);
            }
        }
    }

    /// Memory of process and machine. Source: proc(5), `status` and `meminfo`. Signal-safe.
    pub fn memory(&self) -> MemoryUse {
        let mut buffer = [0; 4096];
        let text = read(&self.status, &mut buffer);
        let resident = kibibytes(text, b"VmRSS:");
        let (own, swap) = (kibibytes(text, b"RssAnon:"), kibibytes(text, b"VmSwap:"));
        let peak = kibibytes(text, b"VmHWM:");
        let text = read(&self.meminfo, &mut buffer);
        MemoryUse {
            resident,
            footprint: own.map(|own| own.saturating_add(swap.unwrap_or(0))),
            peak,
            device_total: kibibytes(text, b"MemTotal:"),
            device_free: kibibytes(text, b"MemAvailable:"),
        }
    }

    /// How long the cores of the machine have worked and idled since boot, in ticks of the kernel's.
    /// Source: proc(5), first line of `stat`. Signal-safe.
    pub fn device_ticks(&self) -> Option<(u64, u64)> {
        let mut buffer = [0; 512];
        let text = read(&self.stat, &mut buffer);
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

impl Default for VitalsFiles {
    fn default() -> VitalsFiles {
        VitalsFiles::new()
    }
}

/// When this process started, on the clock that goes on while the machine sleeps, nanoseconds.
/// Source: proc(5), `stat` field 22, in clock ticks after boot. Signal-safe.
pub fn process_start() -> Option<u64> {
    let file = AtomicI32::new(open(c"/proc/self/stat"));
    let mut buffer = [0; 1024];
    let text = read(&file, &mut buffer);
    // SAFETY: opened above, and not used again.
    unsafe { libc::close(file.load(Ordering::Relaxed)) };
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    let mut words = text.get(name_end + 2..)?.split(|&byte| byte == b' ');
    let ticks = number(words.nth(19)?)?;
    // SAFETY: sysconf has no preconditions.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second = u64::try_from(per_second).ok().filter(|&ticks| ticks > 0)?;
    Some(ticks.saturating_mul(1_000_000_000 / per_second))
}

/// How long this process has run, time asleep included, nanoseconds. Signal-safe.
pub fn uptime() -> Option<u64> {
    Some(clock::boottime().saturating_sub(process_start()?))
}

/// Cores that are online. Not signal-safe: libc reads a file for it.
pub fn cores() -> Option<u64> {
    // SAFETY: sysconf has no preconditions.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).ok()
}

fn open(path: &CStr) -> i32 {
    // SAFETY: a C string.
    unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) }
}

fn read<'b>(file: &AtomicI32, buffer: &'b mut [u8]) -> &'b [u8] {
    let before = errno();
    let fd = file.load(Ordering::Acquire);
    // SAFETY: the buffer is ours and of the length given; a bad descriptor only fails.
    let got = unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    set_errno(before);
    buffer
        .get(..usize::try_from(got).unwrap_or(0))
        .unwrap_or_default()
}

/// The number behind `key` at a line's start, in bytes.
fn kibibytes(text: &[u8], key: &[u8]) -> Option<u64> {
    let line = text
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(key))?;
    let word = line
        .split(|byte| byte.is_ascii_whitespace())
        .find(|word| !word.is_empty())?;
    number(word)?.checked_mul(1024)
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
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
