//! The cause of a fatal signal, as far as others have noted it: a panic, an exception, libc's last words.

use crate::platform::abort;
use crate::report::EventKind;
use crate::trigger::crash::Crashed;
use crate::trigger::panic::Pending;
use crate::trigger::terminate::Exception;

/// The cause of the signal, as far as others have noted it.
pub(super) struct Cause {
    pub panic: Option<Pending>,
    pub exception: Option<Exception>,
    /// libc's last words before it aborted.
    words: [u8; 1024],
    words_len: usize,
    aborted: bool,
}

impl Cause {
    /// Signal-safe.
    pub fn of(crashed: &Crashed) -> Cause {
        let aborted = crashed.signal.number == libc::SIGABRT;
        let trapped = matches!(crashed.signal.number, libc::SIGTRAP | libc::SIGILL);
        let mut words = [0; 1024];
        let words_len = if aborted || (abort::BEFORE_TRAPS && trapped) {
            abort::message(&mut words)
        } else {
            0
        };
        Cause {
            panic: Pending::of(crashed.thread, crashed.panicking),
            exception: Exception::of(crashed.thread).filter(|_| aborted),
            words,
            words_len,
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
        let words = self.words.get(..self.words_len)?;
        let words = match std::str::from_utf8(words) {
            Ok(words) => words,
            Err(error) => std::str::from_utf8(words.get(..error.valid_up_to())?).ok()?,
        };
        Some(words).filter(|words| !words.is_empty())
    }
}
