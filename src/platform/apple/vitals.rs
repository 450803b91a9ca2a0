//! Gauges of the process and the machine, by Mach calls and `sysctl`, and the machine's name. Signal-safe, except for
//! the name.

use std::ffi::CStr;

use mach2::kern_return::KERN_SUCCESS;

use super::task;
use crate::platform::clock;
pub use crate::platform::surface::{MemoryGroup, MemoryUse, System, major_faults, uptime};

/// Keeps nothing open: names of ports are not valid in a child of `fork`.
#[derive(Debug)]
pub struct VitalsFiles;

unsafe extern "C" {
    // mach/mach_host.h
    fn host_statistics64(host: u32, flavor: i32, info: *mut i32, count: *mut u32) -> i32;
}

/// `TASK_VM_INFO` and the words of its first revision that has a footprint (mach/task_info.h).
const TASK_VM_INFO: u32 = 22;
const TASK_VM_INFO_WORDS: usize = 38;
/// Offsets in `task_vm_info`, bytes.
const RESIDENT: usize = 16;
const RESIDENT_PEAK: usize = 24;
const FOOTPRINT: usize = 144;

/// `HOST_CPU_LOAD_INFO`, `HOST_VM_INFO64` (mach/host_info.h).
const HOST_CPU_LOAD_INFO: i32 = 3;
const HOST_VM_INFO64: i32 = 4;
/// `HOST_VM_INFO64_COUNT`: words of `vm_statistics64` (mach/vm_statistics.h).
const HOST_VM_WORDS: usize = 38;

impl VitalsFiles {
    /// Creates it; nothing is open.
    pub(crate) const fn new() -> VitalsFiles {
        VitalsFiles
    }

    /// Looks up the start of the process, which [`uptime`] keeps.
    pub fn open(&self) {
        uptime();
    }

    /// Memory of process and machine.
    pub fn memory(&self) -> MemoryUse {
        let mut words = [0i32; TASK_VM_INFO_WORDS];
        let mut count = TASK_VM_INFO_WORDS as u32;
        // SAFETY: the kernel writes at most `count` words, the size of the buffer.
        let code = unsafe {
            mach2::task::task_info(task::own(), TASK_VM_INFO, words.as_mut_ptr(), &mut count)
        };
        let at = |offset: usize| {
            let [low, high] = *words.get(offset / 4..)?.first_chunk()?;
            (code == KERN_SUCCESS).then_some(u64::from(high as u32) << 32 | u64::from(low as u32))
        };
        let mut total = [0; 8];
        let known = sysctl(c"hw.memsize", &mut total) == Some(8);
        let page = self.page_size();
        // free, active, inactive (mach/vm_statistics.h): the inactive ones are easily freed.
        let device = self.host_words::<HOST_VM_WORDS>(HOST_VM_INFO64);
        let free = device.map(|words| u64::from(words[0]).saturating_add(u64::from(words[2])));
        MemoryUse {
            resident: at(RESIDENT),
            footprint: at(FOOTPRINT),
            peak: at(RESIDENT_PEAK),
            device_total: known.then(|| u64::from_le_bytes(total)),
            device_free: free.map(|pages| pages.saturating_mul(page)),
        }
    }

    /// Returns the kernel's ticks in which the machine's cores were busy, and idle, since boot.
    pub fn device_ticks(&self) -> Option<(u64, u64)> {
        // user, system, idle, nice
        let [user, system, idle, nice] = self.host_words::<4>(HOST_CPU_LOAD_INFO)?;
        let busy = u64::from(user)
            .saturating_add(system.into())
            .saturating_add(nice.into());
        Some((busy, u64::from(idle)))
    }

    fn host_words<const N: usize>(&self, flavor: i32) -> Option<[u32; N]> {
        let mut words = [0u32; N];
        let mut count = N as u32;
        // SAFETY: no arguments.
        let host = unsafe { mach2::mach_init::mach_host_self() };
        // SAFETY: the kernel writes at most `count` words, the size of the buffer; a port of 0
        // only makes it fail.
        let code =
            unsafe { host_statistics64(host, flavor, words.as_mut_ptr().cast(), &mut count) };
        task::release(host);
        (code == KERN_SUCCESS).then_some(words)
    }

    fn page_size(&self) -> u64 {
        // SAFETY: a static of libSystem's, set before any of our code runs.
        unsafe { mach2::vm_page_size::vm_page_size as u64 }
    }
}

/// Time at which this process started, on the clock that includes sleep, nanoseconds.
pub fn process_start() -> Option<u64> {
    // The kernel keeps the wall clock's time: `kp_proc.p_starttime` is a timeval and the first
    // field of `kinfo_proc` (sys/proc.h).
    let mut kinfo = [0u8; 648];
    if !task::kinfo(&mut kinfo) {
        return None;
    }
    let seconds = u64::from_le_bytes(kinfo.get(..8)?.try_into().ok()?);
    let micros = u32::from_le_bytes(kinfo.get(8..12)?.try_into().ok()?);
    let started = seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(micros) * 1000);
    let age = clock::realtime().saturating_sub(started);
    Some(clock::boottime().saturating_sub(age))
}

/// True if the kernel counts the processes that it has killed because memory ran out.
pub const OOM_KILLS_ARE_COUNTED: bool = false;

/// The group of processes whose memory is counted together; this system has no such group.
pub fn memory_group() -> Option<MemoryGroup> {
    None
}

/// Count of the processes that the kernel has killed because memory ran out; not reported here.
pub fn oom_kills() -> Option<u64> {
    None
}

/// Identifies the machine's present boot. Source: `kern.bootsessionuuid`.
pub fn boot_id() -> Option<u128> {
    let mut text = [0; 64];
    let length = sysctl(c"kern.bootsessionuuid", &mut text)?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    u128::from_str_radix(&text.trim_end_matches('\0').replace('-', ""), 16).ok()
}

/// Cores that are online.
pub fn cores() -> Option<u64> {
    let mut word = [0; 4];
    let known = sysctl(c"hw.activecpu", &mut word) == Some(4);
    known.then(|| u64::from(u32::from_le_bytes(word)))
}

/// Describes the system and the device. Allocates.
pub fn describe() -> System {
    let name = if cfg!(target_os = "macos") {
        "macOS"
    } else {
        "iOS"
    };
    // On iOS `hw.machine` is the model and `hw.model` the board.
    let model = if cfg!(target_os = "macos") {
        c"hw.model"
    } else {
        c"hw.machine"
    };
    System {
        name,
        version: text(c"kern.osproductversion").unwrap_or_default(),
        build: text(c"kern.osversion"),
        device: text(model),
    }
}

/// Reads a text by `sysctlbyname`.
fn text(name: &CStr) -> Option<String> {
    let mut buffer = [0u8; 256];
    let length = sysctl(name, &mut buffer)?;
    let text = buffer.get(..length)?.split(|&byte| byte == 0).next()?;
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

/// Reads a value by `sysctlbyname` and returns its length in bytes.
fn sysctl(name: &CStr, into: &mut [u8]) -> Option<usize> {
    let mut length = into.len();
    let errno = super::errno();
    // SAFETY: a C string; buffer and length are ours and live across the call.
    let done = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            into.as_mut_ptr().cast(),
            &mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    super::set_errno(errno);
    (done == 0).then_some(length)
}
