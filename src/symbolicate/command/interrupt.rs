//! Ctrl-C: what was done is kept, and nothing new is begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether someone pressed Ctrl-C, or asked the process to terminate.
#[derive(Debug, Clone, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first Ctrl-C only sets this; the second ends the process at once.
    pub fn install() -> Interrupt {
        let interrupt = Interrupt::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // In this order: at the first one the flag is not yet set. Where the system refuses,
            // Ctrl-C does what it always does.
            let _ = signal_hook::flag::register_conditional_default(signal, interrupt.0.clone());
            let _ = signal_hook::flag::register(signal, interrupt.0.clone());
        }
        interrupt
    }

    pub fn came(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
