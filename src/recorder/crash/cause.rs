//! What led to a fatal signal, as far as others have noted it: a panic, an exception, libc's last word.

use crate::platform::abort;
use crate::report::EventKind;
use crate::trigger::crash::Crashed;
use crate::trigger::panic::Pending;
use crate::trigger::terminate::Exception;

/// What led to the signal, as far as others have noted it.
pub(super) struct Cause {
    pub panic: Option<Pending>,
    pub exception: Option<Exception>,
    /// What libc said before it aborted.
    said: [u8; 1024],
    said_len: usize,
    aborted: bool,
}

impl Cause {
    /// Signal-safe.
    pub fn of(crashed: &Crashed<'_>) -> Cause {
        let aborted = crashed.signal.number == libc::SIGABRT;
        let trapped = matches!(crashed.signal.number, libc::SIGTRAP | libc::SIGILL);
        let mut said = [0; 1024];
        let said_len = if aborted || (abort::BEFORE_TRAPS && trapped) {
            abort::message(&mut said)
        } else {
            0
        };
        Cause {
            panic: Pending::of(crashed.thread, crashed.panicking),
            exception: Exception::of(crashed.thread).filter(|_| aborted),
            said,
            said_len,
            aborted,
        }
    }

    pub fn kind(&self) -> EventKind {
        match (self.aborted, &self.panic, &self.exception) {
            (true, _, Some(_)) => EventKind::Exception,
            (true, Some(_), None) => EventKind::Panic,
            _ => EventKind::Crash,
        }
    }

    pub fn message(&self) -> Option<&str> {
        if let Some(exception) = &self.exception {
            return exception.what();
        }
        if let Some(panic) = &self.panic {
            return Some(panic.message());
        }
        let said = self.said.get(..self.said_len)?;
        let said = match std::str::from_utf8(said) {
            Ok(said) => said,
            Err(error) => std::str::from_utf8(said.get(..error.valid_up_to())?).ok()?,
        };
        Some(said).filter(|said| !said.is_empty())
    }
}
