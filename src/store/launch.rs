//! The record of a launch: a small file that the process keeps up to date while it runs, so that the
//! next launch can tell how it ended, even where there is no report.
//!
//! It lies beside the reports as `<wall time>-<short id>.launch`, 40 words of 8 bytes in the machine's own order, and
//! is locked while its process lives. Its words are kept in memory and written by pwrite(2), never through a mapping:
//! on a full disk or in a truncated file that raises SIGBUS. A thread of the monitor's writes what the app sets about
//! itself. The thread that ends the process writes the end.
//!
//! If the process could create no file for the report of a crash, the report is in this file, after the record. The
//! next launch moves it into a file of its own.
//!
//! Signal-safe, except for `LaunchRecord` and `count`.
// A crash handler writes the record: nothing here can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::platform::file::File;
use crate::platform::folder::Folder;
use crate::platform::verified_fd::VerifiedFd;
use crate::platform::{clock, process_id, vitals};
use crate::report::name::Name;

mod read;

pub(crate) use read::take;
pub use read::{EndedLaunch, HowEnded, launches};
pub(super) use read::{ending_of, extract_report};

/// Extension of the file's name.
pub(super) const ENDING: &str = "launch";
/// Words in the file.
const WORDS: usize = 40;
/// Bytes of the record. A report may follow them.
const BYTES: usize = WORDS * 8;
/// Words in a file of older versions, which had none for the control group.
const FIRST_WORDS: usize = 32;
/// `wedjatL1`.
const MAGIC: u64 = u64::from_be_bytes(*b"wedjatL1");

/// Indices of the record's words.
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

/// Values of the word that holds the end.
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

/// This process' record, while its monitor is installed. After that the file stays open, to record a later exit.
#[derive(Debug)]
pub(crate) struct LaunchRecord {
    /// The file to remove if the install fails; `None` once it has succeeded.
    unconfirmed: Option<(Arc<Folder>, Name)>,
}

/// Words of the record.
static NOW: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// The file of the record. It is closed only when another record takes its place.
static FILE: VerifiedFd = VerifiedFd::unowned();
/// True if words have changed that are not written yet.
static CHANGED: AtomicBool = AtomicBool::new(false);
/// True while a thread writes changed words.
static WRITING: AtomicBool = AtomicBool::new(false);

/// Returns true if the record is this process', and not a parent's in a child of `fork`.
fn is_ours() -> bool {
    NOW[at::PID].load(Ordering::Relaxed) == u64::from(process_id())
}

/// Sets a word of the record, unless it is the parent's in a child of `fork`. [`write_from`] has yet to write it.
fn store(at: usize, value: u64) {
    if let Some(slot) = NOW.get(at)
        && is_ours()
    {
        slot.store(value, Ordering::Relaxed);
    }
}

/// Writes all words from `first` on to the file; `None` if that fails.
fn write_from(first: usize) -> Option<()> {
    if !is_ours() {
        return None;
    }
    let file = File::of(&FILE);
    // A truncated file is written whole.
    let is_cut = file.length().ok()? < BYTES as u64;
    write(&file, if is_cut { 0 } else { first })
}

/// Writes all words from `first` on to `file`.
fn write(file: &File, first: usize) -> Option<()> {
    let mut bytes = [0; BYTES];
    for (into, word) in bytes.chunks_exact_mut(8).zip(&NOW) {
        into.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
    let from = first.checked_mul(8)?;
    file.write_at(from as u64, bytes.get(from..)?).ok()
}

/// Returns the name of the record's file.
fn name(started: u64, launch: u64) -> Name {
    let mut name = Name::of(c"");
    // It has room for this.
    let _ = write!(name, "{started}-{:08x}.{ENDING}", launch >> 32);
    name
}

/// Writes the words that have changed, except for the end, which the thread that ends the process writes. If another
/// thread is writing, that one writes them.
pub(crate) fn write_changes() {
    while CHANGED.load(Ordering::Acquire) && !WRITING.swap(true, Ordering::AcqRel) {
        while CHANGED.swap(false, Ordering::AcqRel) {
            write_from(at::BACKGROUND);
        }
        WRITING.store(false, Ordering::Release);
    }
}

impl LaunchRecord {
    /// Creates the file of a new record and writes it.
    pub fn begin(
        folder: &Arc<Folder>,
        launch: &[u8; 16],
        version: &str,
    ) -> io::Result<LaunchRecord> {
        let started = clock::realtime();
        let id = u128::from_be_bytes(*launch);
        let name = name(started, (id >> 64) as u64);
        let file = folder
            .create(name.as_c_str())
            .map_err(io::Error::from_raw_os_error)?;
        if !is_ours() {
            // In a child of `fork`, a thread of the parent may have set it.
            WRITING.store(false, Ordering::Release);
        }
        for word in &NOW {
            word.store(0, Ordering::Relaxed);
        }
        NOW[at::PID].store(process_id().into(), Ordering::Relaxed);
        let halves = |at: usize, value: u128| {
            store(at, (value >> 64) as u64);
            store(at.wrapping_add(1), value as u64);
        };
        store(at::MAGIC, MAGIC);
        store(at::STATUS, NO_STATUS);
        store(at::STARTED, started);
        halves(at::LAUNCH, id);
        halves(at::BOOT, vitals::boot_id().unwrap_or(0));
        let length = version.floor_char_boundary((at::VERSION_END - at::VERSION) * 8);
        store(at::VERSION_LENGTH, length as u64);
        let bytes = version.as_bytes().get(..length).unwrap_or_default();
        for (at, chunk) in (at::VERSION..).zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            store(at, u64::from_ne_bytes(word));
        }
        file.replace(&FILE).map_err(io::Error::from_raw_os_error)?;
        // Until the helper thread has counted.
        store(at::OOM_KILLS, NOT_COUNTED);
        store(at::GROUP_KILLS, NOT_COUNTED);
        write_from(0);
        Ok(LaunchRecord {
            unconfirmed: Some((Arc::clone(folder), name)),
        })
    }

    /// Keeps the file from now on: the install has succeeded.
    pub fn confirm(&mut self) {
        self.unconfirmed = None;
    }
}

impl Drop for LaunchRecord {
    fn drop(&mut self) {
        if let Some((folder, name)) = self.unconfirmed.take() {
            // If it stays, it reads as a launch that was uninstalled.
            let _ = folder.remove(name.as_c_str());
        }
        ends(if std::thread::panicking() {
            ended::UNWOUND
        } else {
            ended::UNINSTALLED
        });
    }
}

/// Unlocks the record of a monitor that was dropped, which makes it one of an earlier launch. The next record gets
/// the end of the process. The install calls it.
pub(crate) fn unlock_record() {
    File::of(&FILE).unlock();
}

/// Closes the file, when the library with this code is unloaded.
pub(crate) fn close() {
    File::of(&FILE).close();
}

/// Returns the record's file and the offset at which the report of a crash may begin; `None` if this process has no
/// record.
pub(crate) fn room_after_record(folder: &Folder) -> Option<(File, u64)> {
    let file = folder.reopen_for_crash(&FILE)?;
    if !is_ours() {
        return None;
    }
    file.truncate(BYTES as u64).ok()?;
    Some((file, BYTES as u64))
}

/// Returns true if a panic has dropped this process' monitor, and none was installed since.
pub(crate) fn is_unwound() -> bool {
    is_ours() && NOW[at::ENDED].load(Ordering::Relaxed) == ended::UNWOUND
}

/// Records the time and the memory of a process at work. Not for the watched thread.
pub(crate) fn record_at_work(memory: &vitals::MemoryUse) {
    store(at::SEEN, clock::realtime());
    store(at::FOOTPRINT, memory.footprint.unwrap_or(0));
    store(at::FREE, memory.device_free.unwrap_or(0));
    store(at::TOTAL, memory.device_total.unwrap_or(0));
    CHANGED.store(true, Ordering::Release);
    write_changes();
}

/// Records the kernel's count of kills so far, and the counters of the control group. The next launch compares them
/// with its own. Not for the watched thread.
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
        record_at_work(memory);
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

/// Records that a stall has begun, or is over. Not for the watched thread.
pub(crate) fn stalled(now: bool) {
    store(at::STALLED, now.into());
    CHANGED.store(true, Ordering::Release);
    write_changes();
}

/// Records if the app is in the foreground. [`write_changes`] has yet to write it.
pub(crate) fn foreground(now: bool) {
    store(at::BACKGROUND, u64::from(!now));
    CHANGED.store(true, Ordering::Release);
}

/// Records that the process exits, by a panic or not.
pub(crate) fn exits(status: Option<i32>, panicked: bool) {
    let status = status.map_or(NO_STATUS, |status| u64::from(status as u32));
    store(at::STATUS, status);
    ends(if panicked { ended::PANIC } else { ended::EXIT });
}

/// Records that a report is about to be written, of a crash or of a panic that aborts.
pub(crate) fn crashes(folder: &Folder, panicked: bool) {
    store(at::STATUS, NO_STATUS);
    ends_in(folder, if panicked { ended::PANIC } else { ended::CRASH });
}

/// Records that the process survived a reported crash. Removes a report after the record.
pub(crate) fn retract_survived(folder: &Folder) {
    let file = File::of(&FILE);
    if is_ours() && file.length().is_ok_and(|length| length > BYTES as u64) {
        // If it stays, the next launch finds it.
        let _ = file.truncate(BYTES as u64);
    }
    ends_in(folder, 0);
}

/// Writes the end. If the app has closed the record's descriptor, creates the file anew, so that record and report
/// agree.
fn ends_in(folder: &Folder, how: u64) {
    if ends(how).is_none() && is_ours() {
        let started = NOW[at::STARTED].load(Ordering::Relaxed);
        let launch = NOW[at::LAUNCH].load(Ordering::Relaxed);
        let name = name(started, launch);
        let create = || folder.create(name.as_c_str());
        let file = create().or_else(|_| {
            folder.remove(name.as_c_str())?;
            create()
        });
        let _ = file.ok().and_then(|file| write(&file, 0));
    }
}

/// Writes the end to the record's file; `None` if that fails.
fn ends(how: u64) -> Option<()> {
    store(at::ENDED, how);
    write_from(0)
}
