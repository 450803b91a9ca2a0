//! Panics: the recorder of the hook, and the last panic when the process exits.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::platform::exit::{self, Leaving};
use crate::platform::forked::{First, ForkLock, around_forks};
use crate::recorder::{Helper, LiveRecorder, trace_report};
use crate::report::name::Name;
use crate::store::{self, launch};
use crate::trigger::{crash, panic};

/// The app's callback for reports.
pub(super) type OnReport = Arc<Mutex<dyn FnMut(&Path) + Send>>;

/// The recorder that the panic hook writes with (`None` once the monitor is dropped), and the folder of the reports.
static ON_PANIC: ForkLock<Option<(Option<Arc<LiveRecorder>>, PathBuf)>> = ForkLock::new(None);

/// Once in a process: forks wait for the lock, and [`leaving`] is called when the process exits.
pub(super) fn prepare() {
    around_forks!(ON_PANIC);
    static ONCE: First = First::new();
    if ONCE.is_now() {
        exit::on_leaving(leaving);
    }
}

/// Installs the hook, which writes with `live` into `directory`.
pub(super) fn write_with(live: Arc<LiveRecorder>, directory: PathBuf) {
    // A child of `fork` that can never have the lock goes without reports of panics.
    if let Some(mut on) = ON_PANIC.lock() {
        *on = Some((Some(live), directory));
        drop(on);
        panic::install(on_panic);
    }
}

fn for_panics() -> Option<(Option<Arc<LiveRecorder>>, PathBuf)> {
    // `try_lock`: a panic may come from anywhere, and `install` panics nowhere below.
    ON_PANIC.try_lock()?.clone()
}

fn on_panic(panic: &panic::Panic<'_>) -> Option<Name> {
    let (live, directory) = for_panics()?;
    let name = live?.panicked(panic)?.ok()?;
    Helper::tidy_soon();
    // The callback is not called for its own panics: it would panic again.
    if !IN_ON_REPORT.try_with(Cell::get).unwrap_or(false) {
        Helper::report_panic(directory.join(name.as_str()));
    }
    Some(name)
}

/// The monitor goes: no panic is written any more. Where those lie that were stays known, until the process exits.
pub(super) fn forget_recorder() {
    // If the lock is held, the recorder stays until the next install replaces it.
    if let Some(mut on) = ON_PANIC.try_lock()
        && let Some((live, ..)) = on.as_mut()
    {
        *live = None;
    }
}

/// The process exits: a panic that escaped from `main` was fatal, as is known only now. Or our library is unloaded.
fn leaving(leaving: Leaving) {
    let Leaving::Exits(status) = leaving else {
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

thread_local! {
    /// True while this thread runs the app's `on_report`.
    static IN_ON_REPORT: Cell<bool> = const { Cell::new(false) };
}

/// Gives a whole report to `tracing` and to the app. The panic hook has reported a callback that panics; what is watched
/// goes on being watched.
pub(super) fn call(on_report: &Option<OnReport>, path: &Path) {
    trace_report(path);
    if let Some(callback) = on_report {
        let mut callback = callback.lock().unwrap_or_else(PoisonError::into_inner);
        IN_ON_REPORT.set(true);
        let _ = catch_unwind(AssertUnwindSafe(|| callback(path)));
        IN_ON_REPORT.set(false);
    }
}
