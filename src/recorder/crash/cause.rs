//! The cause of a fatal signal, as far as others have noted it: a panic, an exception, libc's last words.

use crate::platform::abort;
use crate::platform::text::FixedText;
use crate::report::EventKind;
use crate::trigger::crash::Crashed;
use crate::trigger::panic::PanicNote;
use crate::trigger::terminate::Exception;

/// The cause of the signal, as far as others have noted it.
pub(super) struct Cause {
    pub panic: Option<&'static PanicNote>,
    pub exception: Option<&'static Exception>,
    /// libc's last words before it aborted.
    words: FixedText<1024>,
    aborted: bool,
}

impl Cause {
    /// Signal-safe.
    pub fn of(crashed: &Crashed) -> Cause {
        let aborted = crashed.signal.number == libc::SIGABRT;
        let trapped = matches!(crashed.signal.number, libc::SIGTRAP | libc::SIGILL);
        let words = match aborted || (abort::BEFORE_TRAPS && trapped) {
            true => FixedText::filled(abort::message),
            false => FixedText::EMPTY,
        };
        Cause {
            panic: PanicNote::of(crashed.thread, crashed.panicking),
            exception: Exception::of(crashed.thread).filter(|_| aborted),
            words,
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
        Some(self.words.as_str()).filter(|words| !words.is_empty())
    }
}
