//! The captures' real-time signal: taken at install, looked at before each use, and given up for another where the app
//! has taken it.

use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::StopError;
use super::handler::capture;
use crate::platform::linux::{context, entry};
use crate::platform::signals::{NEEDED, action_now};
use crate::platform::{SystemError, signals};

/// The signal whose handler is ours; 0 before [`install`].
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// A bit for each signal that was ours and that somebody else has taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Installs the handler, once a process, and returns its signal. That is `wanted`, or else the first real-time signal
/// from `SIGRTMIN + 4` on without a handler. Later calls return the one in use.
///
/// It stays installed until `uninstall`, since an answer may come at any time later. Without the handler the
/// signal's default action would end the process.
pub fn install(wanted: Option<i32>) -> Result<i32, SystemError> {
    let installed = SIGNAL.load(Ordering::Relaxed);
    if installed != 0 {
        return Ok(installed);
    }
    let signal = wanted
        .or_else(|| free().next())
        .unwrap_or_else(|| libc::SIGRTMAX());
    entry::prepare();
    context::prepare();
    signals::exchange(signal, Some(&ours())).map_err(|source| SystemError {
        call: "sigaction",
        source,
    })?;
    // Two that come at once may have taken a signal each: the handler is the same, and the first one's
    // counts. (No lock: a child of `fork` must find none that a thread of its parent holds.)
    match SIGNAL.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(signal),
        Err(first) => Ok(first),
    }
}

/// Installs the handler for `signal` and no other.
///
/// # Errors
/// If it is not a real-time signal, if it has a handler, and if the handler stands for another one.
pub fn claim_signal(signal: i32) -> std::io::Result<()> {
    let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
    if !(first..=last).contains(&signal) {
        let why = format!("it is not a real-time signal ({first} to {last})");
        return Err(Error::new(ErrorKind::InvalidInput, why));
    }
    let installed = SIGNAL.load(Ordering::Relaxed);
    if installed == 0 && !signals::is_default(signal) {
        let why = "it has a handler already";
        return Err(Error::new(ErrorKind::ResourceBusy, why));
    }
    let installed = install(Some(signal)).map_err(|error| error.source)?;
    if installed != signal {
        let why = format!("captures of this process have been using signal {installed}");
        return Err(Error::new(ErrorKind::ResourceBusy, why));
    }
    Ok(())
}

/// Returns the signal to send: one for which our handler stands at this moment. Where the action was reset or
/// ignored ours is put back; a signal that somebody else handles by now is theirs, and the first free one takes its
/// place. Between this and the sending lie microseconds. Signal-safe.
///
/// # Errors
/// [`StopError::System`] where no real-time signal is free.
pub(super) fn in_place() -> Result<i32, StopError> {
    let signal = install(None).map_err(StopError::System)?;
    if is_ours(signal) {
        return Ok(signal);
    }
    if let Some(bit) = 1u64.checked_shl((signal as u32).wrapping_sub(1)) {
        TAKEN.fetch_or(bit, Ordering::Relaxed);
    }
    let free = free().find(|&free| is_ours(free)).ok_or_else(|| {
        StopError::System(SystemError {
            call: "finding a free real-time signal",
            source: Error::from_raw_os_error(libc::EBUSY),
        })
    })?;
    // If two come at once the first one's counts.
    let stored = SIGNAL.compare_exchange(signal, free, Ordering::AcqRel, Ordering::Acquire);
    Ok(stored.map_or_else(|first| first, |_| free))
}

/// Takes the handler from each real-time signal that has it.
pub(super) fn uninstall() {
    let is_ours =
        |signal: &i32| signals::disposition(*signal) == Some(capture as *const () as usize);
    for signal in (libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(is_ours) {
        // Drops what is pending.
        let _ = signals::exchange(signal, Some(&signals::action(libc::SIG_IGN, 0, &[])));
        signals::set_default(signal);
    }
}

/// Forgets which signals were taken: a new monitor.
pub fn forget_taken() {
    TAKEN.store(0, Ordering::Relaxed);
}

/// The signals that were the captures' own, and that somebody else has taken since [`forget_taken`].
pub fn taken() -> Vec<i32> {
    let _ = in_place();
    let taken = TAKEN.load(Ordering::Relaxed);
    (1..=64)
        .zip(0..64)
        .filter(|(_, bit)| taken >> bit & 1 == 1)
        .map(|(signal, _)| signal)
        .collect()
}

/// The real-time signals without a handler, from `SIGRTMIN + 4` on. Signal-safe.
fn free() -> impl Iterator<Item = i32> {
    free_among(|_| true)
}

/// Those of them that are `wanted`. Signal-safe.
pub(super) fn free_among(wanted: impl Fn(i32) -> bool) -> impl Iterator<Item = i32> {
    (libc::SIGRTMIN().saturating_add(4)..=libc::SIGRTMAX())
        .filter(move |&signal| wanted(signal) && signals::is_default(signal))
}

/// Returns true if our handler stands for `signal`, after putting it where no handler is. Signal-safe.
fn is_ours(signal: i32) -> bool {
    let is_ours = |action: usize| action == capture as *const () as usize;
    let is_free = |action: usize| matches!(action, libc::SIG_DFL | libc::SIG_IGN);
    match action_now(signal) {
        // A sandbox that denies the look lets nobody change it either.
        None => return true,
        Some((now, flags)) if is_ours(now) && flags & NEEDED == NEEDED => return true,
        // Without its flags, signal(2) has put back its address alone.
        Some((now, _)) if is_free(now) || is_ours(now) => {}
        Some(_) => return false,
    }
    // A handler that was put there in this very moment is put back.
    match signals::exchange(signal, Some(&ours())) {
        Ok(before) if is_ours(before.sa_sigaction) || is_free(before.sa_sigaction) => true,
        Ok(before) => {
            let _ = signals::exchange(signal, Some(&before));
            false
        }
        Err(_) => false,
    }
}

/// The action with our handler, which keeps to the rules of handlers. Signal-safe.
fn ours() -> libc::sigaction {
    let flags = libc::SA_RESTART | libc::SA_ONSTACK;
    signals::action(capture as *const () as usize, flags, &[])
}
