//! The ends of earlier launches, read from their records.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::{BYTES, ENDING, FIRST_WORDS, MAGIC, NO_STATUS, NOT_COUNTED, at, ended as stored};
use crate::platform::directory::Directory;
use crate::platform::vitals::{self, MemoryGroup};
use crate::report::model::IdText;
use crate::report::name::{Name, PARTIAL, WHOLE, is_short_id};
use crate::report::time::wall;
use crate::report::{self, EventKind, limits};
use crate::store::out_of_memory::{CurrentCounts, LastState, by_use_alone, out_of_memory};
use crate::store::unfinished::{self, Budget};
use crate::store::{self, HeldFile};

words! {
    /// The end of a launch.
    #[non_exhaustive]
    pub enum HowEnded {
        /// By `exit`, `quick_exit`, a return of `main`, or the end of the app's last thread, whatever the status.
        Exit = "exit",
        /// The app dropped its monitor; its later end is unknown.
        Uninstalled = "uninstalled",
        /// By a crash that has a report.
        Crash = "crash",
        /// By a Rust panic that left `main`, or that could not unwind. It has a report, unless
        /// [`Crash::panics`](crate::Crash::panics) is off.
        Panic = "panic",
        /// It was killed in the middle of a stall: by an impatient user, or a watchdog.
        Stalled = "stalled",
        /// It was killed, most likely because memory ran out. Since it was last seen, the kernel has counted such an end in
        /// its control group, or on the machine if the group has no counter. Memory was near its limit, and the process was
        /// alone in its group or had a large part of that memory. Apple platforms don't count such ends: there it is a guess
        /// from the memory that was used. `docs/measured/endings.md` lists what cannot be distinguished.
        OutOfMemory = "out_of_memory",
        /// The machine was restarted: a loss of power, a kernel's panic, a restart.
        Reboot = "reboot",
        /// It was killed, or it left by `_exit`; these cannot be distinguished afterwards. SIGKILL, a signal that is not
        /// reported, and a fault on a thread that blocks every signal end it so. [`EndedLaunch::foreground`] is true if
        /// it was in the foreground.
        Abrupt = "abrupt",
    }
}

impl HowEnded {
    /// Returns true if the app itself ended the launch.
    pub fn is_clean(self) -> bool {
        matches!(self, HowEnded::Exit | HowEnded::Uninstalled)
    }
}

/// An earlier launch: its end, and its state when last seen.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedLaunch {
    /// Identifies it; the same in all its reports.
    pub launch: [u8; 16],
    /// The app's version then, at most 112 bytes of it.
    pub app_version: String,
    /// The process' id then.
    pub pid: u64,
    /// The way it ended.
    pub how: HowEnded,
    /// The exit status, if it ended by one and libc passes it on (glibc does).
    pub status: Option<i32>,
    /// When the monitor was installed.
    pub started: SystemTime,
    /// When it was last seen at work.
    pub last_seen: SystemTime,
    /// Memory of its own then, bytes.
    pub footprint: Option<u64>,
    /// Free memory of the machine then, bytes.
    pub device_free: Option<u64>,
    /// True if the app was in the foreground, by its last call.
    pub foreground: bool,
}

impl fmt::Debug for EndedLaunch {
    /// Its id as a UUID.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("EndedLaunch"))
            .field("launch", &format_args!("{}", IdText(&self.launch)))
            .field("app_version", &self.app_version)
            .field("pid", &self.pid)
            .field("how", &self.how)
            .field("status", &self.status)
            .field("started", &self.started)
            .field("last_seen", &self.last_seen)
            .field("footprint", &self.footprint)
            .field("device_free", &self.device_free)
            .field("foreground", &self.foreground)
            .finish()
    }
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
    let Some(folder) = store::open(directory.as_ref())? else {
        return Ok(Vec::new());
    };
    Ok(ended(&folder, &store::list(&folder)?, Budget::max(), false))
}

/// Reads and removes the records of launches that are over, as many as `budget` allows, the latest ones. Returns them
/// oldest first.
pub(crate) fn take(folder: &Directory, records: &[String], budget: Budget) -> Vec<EndedLaunch> {
    ended(folder, records, budget, true)
}

/// Returns the extension of a record's file name; `None` for other names.
pub(in crate::store) fn ending_of(name: &str) -> Option<&str> {
    let (stem, ending) = name.rsplit_once('.')?;
    let (started, id) = stem.split_once('-')?;
    let is_ours = !started.is_empty()
        && started.bytes().all(|byte| byte.is_ascii_digit())
        && is_short_id(id.as_bytes())
        && ending == ENDING;
    is_ours.then_some(ending)
}

/// Reads the records of launches that are over, oldest first; removes them if `remove`.
fn ended(folder: &Directory, records: &[String], budget: Budget, remove: bool) -> Vec<EndedLaunch> {
    let boot = vitals::boot_id();
    let mut now = None;
    let mut found = Vec::new();
    let most = budget.bytes.max(limits::INSTALL_BYTES << 4);
    let is_record = |name: &&String| store::ending(name) == Some(ENDING);
    for (done, name) in records.iter().rev().filter(is_record).enumerate() {
        if budget.is_spent(done) {
            break;
        }
        let _closing = unfinished::closing();
        // A record that cannot be read, or whose process is alive, is skipped.
        let Ok(Some(record)) = HeldFile::lock(folder, name, most) else {
            continue;
        };
        let words: Vec<u64> = record
            .bytes
            .chunks_exact(8)
            .filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes))
            .collect();
        let now = now.get_or_insert_with(|| CurrentCounts {
            kills: vitals::oom_kills(),
            group: vitals::memory_group(),
        });
        let ended = read(&words, boot, now);
        if remove && extract_held_report(folder, &record, budget.bytes).is_ok() {
            // A record that cannot be removed is read again by the next launch. An empty one holds nothing.
            let _ = match ended {
                Some(_) => folder.remove(name),
                None => record.remove_if_empty(folder, name),
            };
        }
        found.extend(ended);
    }
    found.reverse();
    found
}

/// Moves the report after the record of an ended launch into its own file.
pub(in crate::store) fn extract_report(
    folder: &Directory,
    name: &str,
    most: u64,
) -> io::Result<()> {
    match HeldFile::lock(folder, name, most)? {
        Some(record) => extract_held_report(folder, &record, most),
        None => Ok(()),
    }
}

fn extract_held_report(folder: &Directory, record: &HeldFile, most: u64) -> io::Result<()> {
    let report = record.bytes.get(BYTES..).unwrap_or_default();
    let is_record = record.bytes.starts_with(&MAGIC.to_ne_bytes());
    let Some(origin) = report::edit::origin(report) else {
        return Ok(());
    };
    if !is_record {
        return Ok(());
    }
    let kind = origin.kind.unwrap_or(EventKind::Crash).as_str();
    let name = |ending| Name::new(origin.time, kind, &origin.id, ending);
    let (partial, whole) = (name(PARTIAL), name(WHOLE));
    // If it exists, a launch wrote it and died before it truncated the record.
    if folder.own_length(whole.as_str()).is_none() {
        folder.write(partial.as_str(), report)?;
        // If it cannot be closed now, a later launch closes it.
        let _ = store::close_partial(folder, partial.as_str(), most);
    }
    record.file.set_len(BYTES as u64)
}

fn read(words: &[u64], boot: Option<u128>, now: &CurrentCounts) -> Option<EndedLaunch> {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let known = |at: usize| Some(word(at)).filter(|&value| value != 0);
    if word(at::MAGIC) != MAGIC || words.len() < FIRST_WORDS {
        return None;
    }
    let pair = |at: usize| u128::from(word(at)) << 64 | u128::from(word(at.wrapping_add(1)));
    let version: Vec<u8> = words
        .get(at::VERSION..at::VERSION_END)?
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take(word(at::VERSION_LENGTH) as usize)
        .collect();
    let foreground = word(at::BACKGROUND) == 0;
    let rebooted = boot.is_some_and(|boot| pair(at::BOOT) != 0 && boot != pair(at::BOOT));
    let how = match word(at::ENDED) {
        stored::EXIT => HowEnded::Exit,
        stored::UNINSTALLED | stored::UNWOUND => HowEnded::Uninstalled,
        stored::CRASH => HowEnded::Crash,
        stored::PANIC => HowEnded::Panic,
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

/// Returns true if it was most likely killed because memory ran out.
fn killed_for_memory(word: &dyn Fn(usize) -> u64, now: &CurrentCounts) -> bool {
    let known = |at: usize| Some(word(at)).filter(|&value| value != 0);
    let counted = |at: usize| Some(word(at)).filter(|&count| count != NOT_COUNTED);
    let was = LastState {
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
    if vitals::OOM_KILLS_ARE_COUNTED {
        out_of_memory(&was, now)
    } else {
        by_use_alone(&was)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::launch::WORDS;

    const GIB: u64 = 1 << 30;

    /// Returns the end of a process with little memory; the kernel had killed 3 processes when it was last seen.
    fn how(change: impl Fn(&mut [u64]), boot: u128, kills: u64) -> HowEnded {
        let mut words = [0u64; WORDS];
        words[at::MAGIC] = MAGIC;
        words[at::BOOT + 1] = 7;
        words[at::OOM_KILLS] = 3;
        words[at::TOTAL] = 8 * GIB;
        words[at::FREE] = 4 * GIB;
        words[at::FOOTPRINT] = GIB / 4;
        change(&mut words);
        let now = CurrentCounts {
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
        assert_eq!(how(|w| w[at::ENDED] = stored::EXIT, 8, 3), HowEnded::Exit);
        assert_eq!(how(|w| w[at::ENDED] = stored::CRASH, 7, 9), HowEnded::Crash);
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
            words[at::ENDED] = stored::EXIT;
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
        words[at::MAGIC] = MAGIC;
        words[at::PID] = 17;
        words[at::VERSION_LENGTH] = 3;
        words[at::VERSION] = u64::from_ne_bytes(*b"1.2.....");
        let ended = read(&words, None, &CurrentCounts::default()).unwrap();
        assert_eq!((ended.pid, ended.how), (17, HowEnded::Abrupt));
        assert_eq!(ended.app_version, "1.2");
    }

    #[test]
    fn what_is_no_record_is_ignored() {
        let now = CurrentCounts::default();
        assert_eq!(read(&[], None, &now), None);
        assert_eq!(read(&[0; WORDS], None, &now), None);
        assert_eq!(read(&[MAGIC; 5], None, &now), None);
    }
}
