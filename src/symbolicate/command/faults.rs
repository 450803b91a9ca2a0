//! Catches panics of the symbolicator over one report, so that the other reports of the run are printed.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, Location, PanicHookInfo, catch_unwind};

thread_local! {
    /// True while this thread's panics are caught.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
    /// The message and place of the last one.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Installs a panic hook that stores the message of panics that [`run`] catches. Other panics are printed as before.
pub(super) fn note_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if IS_CAUGHT.get() {
            LAST_PANIC.set(panic_text(panic));
        } else {
            before(panic);
        }
    }));
}

fn panic_text(panic: &PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or("a panic");
    let place = panic.location().map(Location::to_string);
    format!("{message} ({})", place.unwrap_or_default())
}

/// Runs `work`.
///
/// # Errors
/// A sentence for the user, if `work` panics. Values that `work` changed are incomplete and must not be used.
pub(super) fn run<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let outer = IS_CAUGHT.replace(true);
    LAST_PANIC.take();
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(outer);
    let what = "a fault in symbolicate, not printed: please file an issue with this report";
    done.map_err(|_| format!("{what}: {}", LAST_PANIC.take()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_sentence() {
        note_panics();
        assert_eq!(run(|| 7), Ok(7));
        let fault = run(|| {
            if std::hint::black_box(true) {
                panic!("no room for {}", 7)
            }
        });
        let fault = fault.unwrap_err();
        assert!(
            fault.contains("no room for 7 (src/symbolicate/command/faults.rs:"),
            "{fault}"
        );
        // The inner one alone.
        assert_eq!(
            run(|| run(|| if std::hint::black_box(true) {
                panic!()
            })
            .is_err()),
            Ok(true)
        );
    }
}
