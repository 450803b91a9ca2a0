//! Panics: the recorder of the hook, and the last panic when the process exits.

use std::path::PathBuf;
use std::sync::Arc;

use super::reports::{self, Outbox, PANIC_SETTLES};
use crate::platform::exit::{self, ExitOrUnload};
use crate::platform::forked::{ForkLock, OnceFlag, around_forks};
use crate::recorder::{Helper, LiveRecorder};
use crate::report::name::Name;
use crate::store::{self, launch};
use crate::trigger::{crash, panic, terminate};

/// The recorder that the panic hook writes with, and where its reports go then.
type Writer = (Arc<LiveRecorder>, Outbox);
/// `None` for the writer once the monitor is dropped; and the folder of the reports.
static ON_PANIC: ForkLock<Option<(Option<Writer>, PathBuf)>> = ForkLock::new(None);

/// Once in a process: forks wait for the lock, and [`at_exit_or_unload`] is called when the process exits.
pub(super) fn prepare() {
    around_forks!(ON_PANIC);
    static ONCE: OnceFlag = OnceFlag::new();
    if ONCE.is_first_call() {
        exit::on_exit_or_unload(at_exit_or_unload);
    }
}

/// Installs the hook, which writes with `writer` into `directory`.
pub(super) fn write_with(writer: Writer, directory: PathBuf) {
    // A child of `fork` that can never have the lock goes without reports of panics.
    if let Some(mut on) = ON_PANIC.lock() {
        *on = Some((Some(writer), directory));
        drop(on);
        panic::install(on_panic);
    }
}

fn for_panics() -> Option<(Option<Writer>, PathBuf)> {
    ON_PANIC.lock_soon()?.clone()
}

fn on_panic(panic: &panic::Panic<'_>) -> Option<Name> {
    let (writer, directory) = for_panics()?;
    let (live, outbox) = writer?;
    let name = live.panicked(panic)?.ok()?;
    Helper::tidy_soon();
    reports::put(&outbox, directory.join(name.as_str()), PANIC_SETTLES);
    Some(name)
}

/// The monitor goes: no panic is written any more. Where those lie that were stays known, until the process exits.
pub(super) fn forget_recorder() {
    // If the lock is held, the recorder stays until the next install replaces it.
    if let Some(mut on) = ON_PANIC.lock_soon()
        && let Some((writer, ..)) = on.as_mut()
    {
        *writer = None;
    }
}

/// The process exits: a panic that escaped from `main` was fatal, as is known only now. Or our library is unloaded.
fn at_exit_or_unload(event: ExitOrUnload) {
    let ExitOrUnload::Exits(status) = event else {
        terminate::uninstall();
        #[cfg(target_os = "linux")]
        crate::platform::stop::uninstall();
        launch::close();
        return;
    };
    let panicked = panic::ends_process(status, launch::is_unwound());
    crash::ends_in_order();
    launch::exits(status, panicked);
    if panicked
        && let Some(name) = panic::last_report()
        && let Some((_, directory)) = for_panics()
    {
        // One that cannot be written again stays as it is.
        let _ = store::make_fatal(&directory.join(name.as_str()));
    }
}
