//! The record of a launch: a small file that the process keeps up to date while it runs, so that the
//! next launch can tell how it ended, even where there is no report.
//!
//! It lies beside the reports as `<wall time>-<short id>.launch`, 40 words of 8 bytes in the machine's
//! own order, and is locked while its process lives. Its words are kept in memory and written by
//! pwrite(2), never through a mapping, which a full disk or a file that is cut turns into SIGBUS.
//! What the app sets about itself is written by a thread of the monitor's; an end by the thread that
//! ends the process.

use std::time::SystemTime;

use crate::report::time::wall;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::out_of_memory::{Now, Was, by_use_alone, out_of_memory};
use crate::platform::file::{File, Folder};
use crate::platform::vitals::MemoryGroup;
use crate::platform::{self, clock, descriptors, process_id, signals, vitals};
use crate::report::name::is_short_id;

/// The ending of its name.
pub(super) const ENDING: &str = "launch";
/// Words in the file.
const WORDS: usize = 40;
/// Words in the file before there were those of the control group.
const FIRST_WORDS: usize = 32;
/// `wedjatL1`.
const MAGIC: u64 = u64::from_be_bytes(*b"wedjatL1");

/// What stands where.
mod at {
    pub const MAGIC: usize = 0;
    pub const PID: usize = 1;
    pub const STARTED: usize = 2;
    pub const LAUNCH: usize = 3;
    pub const BOOT: usize = 5;
    pub const ENDED: usize = 7;
    pub const STATUS: usize = 8;
    pub const BACKGROUND: usize = 9;
    pub const SEEN: usize = 10;
    pub const FOOTPRINT: usize = 11;
    pub const FREE: usize = 12;
    pub const TOTAL: usize = 13;
    pub const LIMIT: usize = 14;
    pub const OOM_KILLS: usize = 15;
    pub const STALLED: usize = 16;
    pub const VERSION_LENGTH: usize = 17;
    pub const VERSION: usize = 18;
    pub const VERSION_END: usize = 32;
    pub const GROUP: usize = 32;
    pub const GROUP_KILLS: usize = 33;
    pub const GROUP_PEAK: usize = 34;
    pub const GROUP_OWN_PEAK: usize = 35;
    pub const GROUP_ALONE: usize = 36;
}

/// What is stored as the end.
mod ended {
    pub const EXIT: u64 = 1;
    pub const UNINSTALLED: u64 = 2;
    pub const CRASH: u64 = 3;
    pub const PANIC: u64 = 4;
    /// As UNINSTALLED, by a panic.
    pub const UNWOUND: u64 = 5;
}

/// The status where it is not known; no status has so many bits.
const NO_STATUS: u64 = u64::MAX;
/// The value of a counter that cannot be read.
const NOT_COUNTED: u64 = u64::MAX;

/// How a launch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HowEnded {
    /// By `exit`, or by a return of `main`, whatever the status.
    Exit,
    /// The app dropped its monitor, and what came after is not known: neither of those above.
    Uninstalled,
    /// By a crash, of which there is a report.
    Crash,
    /// By a Rust panic that left `main`, or that could not unwind; of which there is a report, unless
    /// [`Crash::panics`](crate::Crash::panics) is off.
    Panic,
    /// It was killed in the middle of a stall: by an impatient user, or a watchdog.
    Stalled,
    /// It was killed, most likely for want of memory: since it was last seen the kernel has counted such an end
    /// in its control group (or on the machine, where there is no such counter), memory was near its limit, and the
    /// process was alone in its group or had a good part of that memory. On Apple platforms, where such ends
    /// are not counted, it is a guess by what was used. `docs/endings.md` lists what cannot be distinguished.
    OutOfMemory,
    /// The machine was started anew: a loss of power, a kernel's panic, a restart.
    Reboot,
    /// Without a word: it was killed (by SIGKILL, say, by a signal that is not reported, or by a fault on a thread
    /// that blocks every signal), or it left by `_exit`. Afterwards these cannot be distinguished; whether it was in the
    /// foreground is in [`EndedLaunch::foreground`].
    Abrupt,
}

impl HowEnded {
    /// In a word, as `out_of_memory`.
    pub fn as_str(self) -> &'static str {
        match self {
            HowEnded::Exit => "exit",
            HowEnded::Uninstalled => "uninstalled",
            HowEnded::Crash => "crash",
            HowEnded::Panic => "panic",
            HowEnded::Stalled => "stalled",
            HowEnded::OutOfMemory => "out_of_memory",
            HowEnded::Reboot => "reboot",
            HowEnded::Abrupt => "abrupt",
        }
    }

    /// Whether the app itself wanted it.
    pub fn is_clean(self) -> bool {
        matches!(self, HowEnded::Exit | HowEnded::Uninstalled)
    }
}

/// An earlier launch, how it ended, and how it was when it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedLaunch {
    /// Identifies it; the same in all its reports.
    pub launch: [u8; 16],
    /// The app's version then, at most 112 bytes of it.
    pub app_version: String,
    /// The process' id then.
    pub pid: u64,
    /// How it ended.
    pub how: HowEnded,
    /// The exit status, where it ended by one and libc gives it (glibc does).
    pub status: Option<i32>,
    /// When the monitor was installed.
    pub started: SystemTime,
    /// When it was last seen at work.
    pub last_seen: SystemTime,
    /// Memory of its own then, bytes.
    pub footprint: Option<u64>,
    /// Free memory of the machine then, bytes.
    pub device_free: Option<u64>,
    /// Whether it was in the foreground, by its own word.
    pub foreground: bool,
}

/// The launches that have left a record in `directory` and are over, oldest first. The records stay:
/// the next monitor that is installed there removes them and has them as its previous launches.
///
/// # Errors
/// When the folder is there but cannot be listed.
///
/// ```
/// # let directory = std::env::temp_dir().join("wedjat-doc-none");
/// for launch in wedjat::store::launches(&directory)? {
///     if !launch.how.is_clean() {
///         println!("version {} ended by {}", launch.app_version, launch.how.as_str());
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn launches(directory: impl AsRef<Path>) -> io::Result<Vec<EndedLaunch>> {
    ended(&super::list(directory.as_ref())?, false)
}

/// Those of these records that are over, oldest first; removes them.
pub(crate) fn take(records: &[PathBuf]) -> io::Result<Vec<EndedLaunch>> {
    ended(records, true)
}

/// The ending, where a name is one of a record.
pub(super) fn ending_of(name: &str) -> Option<&str> {
    let (stem, ending) = name.rsplit_once('.')?;
    let (started, id) = stem.split_once('-')?;
    let is_ours = !started.is_empty()
        && started.bytes().all(|byte| byte.is_ascii_digit())
        && is_short_id(id.as_bytes())
        && ending == ENDING;
    is_ours.then_some(ending)
}

fn ended(records: &[PathBuf], remove: bool) -> io::Result<Vec<EndedLaunch>> {
    let boot = vitals::boot_id();
    let now = Now {
        kills: vitals::oom_kills(),
        group: vitals::memory_group(),
    };
    let mut found = Vec::new();
    for path in records {
        if super::ending(path) != Some(ENDING) {
            continue;
        }
        // One that cannot be read, or whose process is alive, counts for nothing.
        let Ok(file) = descriptors::open_file(path, libc::O_RDONLY) else {
            continue;
        };
        if !platform::descriptors::try_lock(&file) {
            continue;
        }
        let bytes = descriptors::read(path).unwrap_or_default();
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes))
            .collect();
        let ended = read(&words, boot, &now);
        // One that was never written to has nothing to keep.
        let is_ours = ended.is_some() || bytes.is_empty() && super::is_old(&file);
        found.extend(ended);
        if remove && is_ours {
            // One that stays is read once more.
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(found)
}

fn read(words: &[u64], boot: Option<u128>, now: &Now) -> Option<EndedLaunch> {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let known = |at: usize| Some(word(at)).filter(|&value| value != 0);
    if word(at::MAGIC) != MAGIC || words.len() < FIRST_WORDS {
        return None;
    }
    let pair = |at: usize| u128::from(word(at)) << 64 | u128::from(word(at + 1));
    let version: Vec<u8> = words
        .get(at::VERSION..at::VERSION_END)?
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take(word(at::VERSION_LENGTH) as usize)
        .collect();
    let foreground = word(at::BACKGROUND) == 0;
    let rebooted = boot.is_some_and(|boot| pair(at::BOOT) != 0 && boot != pair(at::BOOT));
    let how = match word(at::ENDED) {
        ended::EXIT => HowEnded::Exit,
        ended::UNINSTALLED | ended::UNWOUND => HowEnded::Uninstalled,
        ended::CRASH => HowEnded::Crash,
        ended::PANIC => HowEnded::Panic,
        _ if rebooted => HowEnded::Reboot,
        _ if killed_for_memory(&word, now) => HowEnded::OutOfMemory,
        _ if word(at::STALLED) != 0 => HowEnded::Stalled,
        _ => HowEnded::Abrupt,
    };
    let by_status = matches!(how, HowEnded::Exit | HowEnded::Panic);
    let status = Some(word(at::STATUS)).filter(|&status| by_status && status != NO_STATUS);
    Some(EndedLaunch {
        launch: pair(at::LAUNCH).to_be_bytes(),
        app_version: String::from_utf8_lossy(&version).into_owned(),
        pid: word(at::PID),
        how,
        status: status.map(|status| status as i32),
        started: wall(word(at::STARTED)),
        last_seen: wall(word(at::SEEN)),
        footprint: known(at::FOOTPRINT),
        device_free: known(at::FREE),
        foreground,
    })
}

/// Whether it was most likely killed for want of memory.
fn killed_for_memory(word: &dyn Fn(usize) -> u64, now: &Now) -> bool {
    let known = |at: usize| Some(word(at)).filter(|&value| value != 0);
    let counted = |at: usize| Some(word(at)).filter(|&count| count != NOT_COUNTED);
    let was = Was {
        footprint: word(at::FOOTPRINT),
        free: word(at::FREE),
        total: word(at::TOTAL),
        kills: counted(at::OOM_KILLS),
        group: known(at::GROUP).map(|id| MemoryGroup {
            id,
            limit: known(at::LIMIT),
            peak: known(at::GROUP_PEAK),
            own_peak: known(at::GROUP_OWN_PEAK),
            kills: counted(at::GROUP_KILLS),
            alone: word(at::GROUP_ALONE) != 0,
        }),
    };
    match vitals::OOM_KILLS_ARE_COUNTED {
        true => out_of_memory(&was, now),
        false => by_use_alone(&was),
    }
}

/// This process' record, while its monitor is installed. Behind that it stays open, for an exit that may come, until
/// [`let_go`].
#[derive(Debug)]
pub(crate) struct LaunchRecord(());

/// Its words.
static NOW: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// Where they are written to; null without a record.
static FILE: AtomicPtr<File> = AtomicPtr::new(std::ptr::null_mut());
/// How many threads look at the file just now.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// Whether words have changed that are not written yet.
static CHANGED: AtomicBool = AtomicBool::new(false);
/// Whether a thread is writing what has changed.
static WRITING: AtomicBool = AtomicBool::new(false);
/// Letting a record go waits at most so often, a millisecond each, for a thread that writes to it.
const WAITS: u32 = 100;

/// Whether the record is this process', and no parent's of a child of `fork`. Signal-safe.
fn is_ours() -> bool {
    NOW[at::PID].load(Ordering::Relaxed) == u64::from(process_id())
}

fn store(at: usize, value: u64) {
    if let Some(slot) = NOW.get(at)
        && is_ours()
    {
        slot.store(value, Ordering::Relaxed);
    }
}

/// Writes all words from this one on. What cannot be written is not known to the next launch.
/// Signal-safe.
fn write_from(first: usize) {
    if !is_ours() {
        return;
    }
    INSIDE.fetch_add(1, Ordering::SeqCst);
    // SAFETY: null, or a file that is not freed while INSIDE counts this thread.
    if let Some(file) = unsafe { FILE.load(Ordering::SeqCst).as_ref() } {
        // Of a file that was cut, nothing is left.
        let whole = (WORDS * 8) as u64;
        let first = match file.length() {
            Ok(length) if length >= whole => first,
            _ => 0,
        };
        let mut bytes = [0; WORDS * 8];
        for (into, word) in bytes.chunks_exact_mut(8).zip(&NOW) {
            into.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        let bytes = bytes.get(first * 8..).unwrap_or_default();
        let _ = file.write_at(first as u64 * 8, bytes);
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

/// Writes what has changed, if anything has; but for the end, which the thread that ends the process
/// writes. Where another thread is at it, that one writes it. Signal-safe.
pub(crate) fn write_changes() {
    while CHANGED.load(Ordering::Acquire) && !WRITING.swap(true, Ordering::AcqRel) {
        while CHANGED.swap(false, Ordering::AcqRel) {
            write_from(at::BACKGROUND);
        }
        WRITING.store(false, Ordering::Release);
    }
}

impl LaunchRecord {
    /// Begins it.
    pub fn begin(
        folder: &Folder,
        launch: &[u8; 16],
        version: &str,
        memory: &vitals::MemoryUse,
    ) -> io::Result<LaunchRecord> {
        let started = clock::realtime();
        let id = u128::from_be_bytes(*launch);
        let name = format!("{started}-{:08x}.{ENDING}", (id >> 96) as u32);
        let name = std::ffi::CString::new(name)?;
        let file = folder.create(&name).map_err(io::Error::from_raw_os_error)?;
        if !is_ours() {
            // In a child of `fork`, a thread that it has not may have been at it.
            INSIDE.store(0, Ordering::SeqCst);
            WRITING.store(false, Ordering::Release);
        }
        for word in &NOW {
            word.store(0, Ordering::Relaxed);
        }
        NOW[at::PID].store(process_id().into(), Ordering::Relaxed);
        let halves = |at: usize, value: u128| {
            store(at, (value >> 64) as u64);
            store(at + 1, value as u64);
        };
        store(at::MAGIC, MAGIC);
        store(at::STATUS, NO_STATUS);
        store(at::STARTED, started);
        halves(at::LAUNCH, id);
        halves(at::BOOT, vitals::boot_id().unwrap_or(0));
        count(memory);
        let mut length = version.len().min((at::VERSION_END - at::VERSION) * 8);
        while !version.is_char_boundary(length) {
            length -= 1;
        }
        store(at::VERSION_LENGTH, length as u64);
        let bytes = version.as_bytes().get(..length).unwrap_or_default();
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word.iter_mut()
                .zip(chunk)
                .for_each(|(to, from)| *to = *from);
            store(at::VERSION + index, u64::from_ne_bytes(word));
        }
        FILE.store(Box::into_raw(Box::new(file)), Ordering::SeqCst);
        // Only now is it one.
        write_from(0);
        Ok(LaunchRecord(()))
    }
}

impl Drop for LaunchRecord {
    fn drop(&mut self) {
        ends(match std::thread::panicking() {
            true => ended::UNWOUND,
            false => ended::UNINSTALLED,
        });
    }
}

/// Closes the record of a monitor that is dropped: how the process ends stands in the next one's. For the install.
pub(crate) fn let_go() {
    let file = FILE.swap(std::ptr::null_mut(), Ordering::SeqCst);
    for _ in 0..WAITS {
        if INSIDE.load(Ordering::SeqCst) == 0 {
            break;
        }
        signals::pause(1_000_000);
    }
    if INSIDE.load(Ordering::SeqCst) == 0 && !file.is_null() {
        // SAFETY: it came out of a box in `begin`, it is not read, and never will be.
        drop(unsafe { Box::from_raw(file) });
    }
}

/// Whether a panic has dropped this process' monitor, and none was installed since.
pub(crate) fn is_unwound() -> bool {
    is_ours() && NOW[at::ENDED].load(Ordering::Relaxed) == ended::UNWOUND
}

/// The process is at work: its memory now. Not for the watched thread. Signal-safe.
pub(crate) fn seen(memory: &vitals::MemoryUse) {
    store(at::SEEN, clock::realtime());
    store(at::FOOTPRINT, memory.footprint.unwrap_or(0));
    store(at::FREE, memory.device_free.unwrap_or(0));
    store(at::TOTAL, memory.device_total.unwrap_or(0));
    CHANGED.store(true, Ordering::Release);
    write_changes();
}

/// Whom the kernel has killed so far, and what the control group has: what is counted later came later. Not for
/// the watched thread; allocates.
pub(crate) fn count(memory: &vitals::MemoryUse) {
    if !vitals::OOM_KILLS_ARE_COUNTED {
        return;
    }
    // An idle process writes nothing to a disk that may sleep.
    let (then, now) = (
        NOW[at::FOOTPRINT].load(Ordering::Relaxed),
        memory.footprint.unwrap_or(0),
    );
    if now.abs_diff(then) > then / 8 {
        seen(memory);
    }
    let mut changed = false;
    let mut note = |at: usize, value: u64| {
        changed |= NOW
            .get(at)
            .is_some_and(|word| word.load(Ordering::Relaxed) != value);
        store(at, value);
    };
    note(at::OOM_KILLS, vitals::oom_kills().unwrap_or(NOT_COUNTED));
    let group = vitals::memory_group();
    let group = group.as_ref();
    let bytes = |value: Option<u64>| value.unwrap_or(0);
    note(at::GROUP, bytes(group.map(|group| group.id)));
    note(at::LIMIT, bytes(group.and_then(|group| group.limit)));
    let kills = group.and_then(|group| group.kills);
    note(at::GROUP_KILLS, kills.unwrap_or(NOT_COUNTED));
    note(at::GROUP_PEAK, bytes(group.and_then(|group| group.peak)));
    note(
        at::GROUP_OWN_PEAK,
        bytes(group.and_then(|group| group.own_peak)),
    );
    note(
        at::GROUP_ALONE,
        group.is_some_and(|group| group.alone).into(),
    );
    if changed {
        CHANGED.store(true, Ordering::Release);
    }
}

/// A stall has begun, or is over. Not for the watched thread. Signal-safe.
pub(crate) fn stalled(now: bool) {
    store(at::STALLED, now.into());
    CHANGED.store(true, Ordering::Release);
    write_changes();
}

/// Whether the app is in the foreground. [`write_changes`] has yet to write it. Signal-safe.
pub(crate) fn foreground(now: bool) {
    store(at::BACKGROUND, u64::from(!now));
    CHANGED.store(true, Ordering::Release);
}

/// The process exits, by a panic or not. Signal-safe.
pub(crate) fn exits(status: Option<i32>, panicked: bool) {
    let status = status.map_or(NO_STATUS, |status| u64::from(status as u32));
    store(at::STATUS, status);
    ends(if panicked { ended::PANIC } else { ended::EXIT });
}

/// A report of a crash is begun, or of a panic that aborts. Signal-safe.
pub(crate) fn crashes(panicked: bool) {
    store(at::STATUS, NO_STATUS);
    ends(if panicked { ended::PANIC } else { ended::CRASH });
}

/// The process lives on after what was reported as a crash. Signal-safe.
pub(crate) fn goes_on() {
    ends(0);
}

fn ends(how: u64) {
    store(at::ENDED, how);
    write_from(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// How a small process ended, before which 3 were killed.
    fn how(change: impl Fn(&mut [u64]), boot: u128, kills: u64) -> HowEnded {
        let mut words = [0u64; WORDS];
        words[at::MAGIC] = MAGIC;
        words[at::BOOT + 1] = 7;
        words[at::OOM_KILLS] = 3;
        words[at::TOTAL] = 8 * GIB;
        words[at::FREE] = 4 * GIB;
        words[at::FOOTPRINT] = GIB / 4;
        change(&mut words);
        let now = Now {
            kills: Some(kills),
            group: None,
        };
        read(&words, Some(boot), &now).unwrap().how
    }

    #[test]
    fn how_a_launch_ended_follows_from_what_it_left() {
        let plain = |_: &mut [u64]| ();
        assert_eq!(how(plain, 7, 3), HowEnded::Abrupt);
        assert_eq!(how(|w| w[at::BACKGROUND] = 1, 7, 3), HowEnded::Abrupt);
        assert_eq!(how(plain, 8, 3), HowEnded::Reboot);
        assert_eq!(how(|w| w[at::STALLED] = 1, 7, 3), HowEnded::Stalled);
        assert_eq!(how(|w| w[at::ENDED] = ended::EXIT, 8, 3), HowEnded::Exit);
        assert_eq!(how(|w| w[at::ENDED] = ended::CRASH, 7, 9), HowEnded::Crash);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn no_end_that_was_noted_is_one_for_want_of_memory() {
        let large = |words: &mut [u64]| words[at::FOOTPRINT] = 7 * GIB;
        assert_eq!(how(large, 7, 4), HowEnded::OutOfMemory);
        assert_eq!(how(large, 7, 3), HowEnded::Abrupt, "no process was killed");
        assert_eq!(how(|_| (), 7, 4), HowEnded::Abrupt, "another one was");
        assert_eq!(how(large, 8, 4), HowEnded::Reboot);
        let exited = |words: &mut [u64]| {
            large(words);
            words[at::ENDED] = ended::EXIT;
        };
        assert_eq!(how(exited, 7, 4), HowEnded::Exit);
        let uncounted = |words: &mut [u64]| {
            large(words);
            words[at::OOM_KILLS] = NOT_COUNTED;
        };
        assert_eq!(how(uncounted, 7, 4), HowEnded::Abrupt);
    }

    #[test]
    fn a_record_from_before_there_were_groups_is_read() {
        let mut words = [0; FIRST_WORDS];
        (words[at::MAGIC], words[at::PID]) = (MAGIC, 17);
        (words[at::VERSION_LENGTH], words[at::VERSION]) = (3, u64::from_ne_bytes(*b"1.2....."));
        let ended = read(&words, None, &Now::default()).unwrap();
        assert_eq!((ended.pid, ended.how), (17, HowEnded::Abrupt));
        assert_eq!(ended.app_version, "1.2");
    }

    #[test]
    fn what_is_no_record_is_ignored() {
        let now = Now::default();
        assert_eq!(read(&[], None, &now), None);
        assert_eq!(read(&[0; WORDS], None, &now), None);
        assert_eq!(read(&[MAGIC; 5], None, &now), None);
    }
}
