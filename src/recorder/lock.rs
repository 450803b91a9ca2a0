//! The lock that a blocked thread waits for, and its holder; of a stall, the one that it waits for most of its time.

use std::fmt::{self, Write};

use crate::platform::gauge::{Blocked, Holder};
use crate::platform::text::FixedText;
use crate::platform::{Thread, ThreadGauge, ThreadName};

/// Holders that are followed from one to the next, at most.
const MAX_HOLDERS: usize = 8;

/// A line with room for the names and numbers of them all.
pub(super) type LineBuffer = FixedText<512>;

/// The chain of threads that the watched thread waits for, each the holder of a lock that the one before waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    chain: [Option<Thread>; MAX_HOLDERS],
    /// The thread of the chain, or the watched one, that the last of the chain waits for.
    deadlock: Option<Thread>,
    /// True if the last one of the chain waits for a lock whose holder is unknown.
    unknown: bool,
}

impl Waiting {
    /// Follows the holders of the lock that a thread waits for; `None` if it waits for no lock.
    pub fn of(watched: Thread, gauge: &ThreadGauge) -> Option<Waiting> {
        let mut holder = gauge.blocked()?.holder()?;
        let mut waiting = Waiting {
            chain: [None; MAX_HOLDERS],
            deadlock: None,
            unknown: false,
        };
        for index in 0..MAX_HOLDERS {
            let Holder::Known(thread) = holder else {
                waiting.unknown = true;
                break;
            };
            if thread == watched || waiting.holders().any(|known| known == thread) {
                waiting.deadlock = Some(thread);
                break;
            }
            *waiting.chain.get_mut(index)? = Some(thread);
            match Blocked::of(thread).and_then(Blocked::holder) {
                Some(next) => holder = next,
                None => break,
            }
        }
        Some(waiting)
    }

    /// The threads that hold, each waiting for the next.
    pub fn holders(&self) -> impl Iterator<Item = Thread> + '_ {
        self.chain.iter().flatten().copied()
    }

    /// Returns true if any other thread might hold the lock at the chain's end.
    pub fn unknown(&self) -> bool {
        self.unknown
    }

    /// One line about it.
    pub fn line(&self, watched: Thread) -> LineBuffer {
        let mut line = LineBuffer::EMPTY;
        // A line that is full leaves out the rest.
        let _ = self.write(watched, &mut line);
        line
    }

    fn write(&self, watched: Thread, line: &mut LineBuffer) -> fmt::Result {
        if self.deadlock.is_some() {
            write!(line, "deadlock: ")?;
        }
        match self.chain.first().copied().flatten() {
            None if self.deadlock.is_some() => {
                write!(line, "thread {} waits for itself", NamedThread(watched))?
            }
            None => write!(line, "waits on a lock or an event, holder unknown")?,
            Some(first) => {
                write!(
                    line,
                    "waits for a lock held by thread {}",
                    NamedThread(first)
                )?;
                for next in self.holders().skip(1) {
                    write!(line, ", which waits for thread {}", NamedThread(next))?;
                }
                if let Some(thread) = self.deadlock {
                    write!(line, ", which waits for thread {}", NamedThread(thread))?;
                } else if self.unknown {
                    write!(line, ", which waits for a lock, holder unknown")?;
                }
            }
        }
        Ok(())
    }
}

/// A thread's number, and its name where it has one: `1193 (worker)`.
struct NamedThread(Thread);

impl fmt::Display for NamedThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.id())?;
        match ThreadName::of(self.0).as_str() {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

/// The candidate of the vote (Boyer and Moore 1981, "MJRTY"): a cause that has more than half of the time stays, whatever
/// comes between.
#[derive(Debug)]
pub(super) struct MainCause {
    /// `None`: no lock.
    candidate: Option<LineBuffer>,
    weight: u64,
    /// Time of the last vote since the stall's start, nanoseconds.
    last: u64,
}

impl MainCause {
    pub fn new() -> MainCause {
        MainCause {
            candidate: None,
            weight: 0,
            last: 0,
        }
    }

    /// Votes for the time since the vote before, `at` nanoseconds after the stall's start.
    pub fn count_cause(&mut self, at: u64, cause: Option<LineBuffer>) {
        let time = at.saturating_sub(self.last);
        self.last = at;
        if cause.as_ref().map(LineBuffer::as_str) == self.line() {
            self.weight = self.weight.saturating_add(time);
        } else if let Some(rest) = self.weight.checked_sub(time) {
            self.weight = rest;
        } else {
            self.weight = time.saturating_sub(self.weight);
            self.candidate = cause;
        }
    }

    /// The cause of most of the time.
    pub fn line(&self) -> Option<&str> {
        self.candidate.as_ref().map(LineBuffer::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn line(text: &str) -> Option<LineBuffer> {
        let mut line = LineBuffer::EMPTY;
        line.write_str(text).unwrap();
        Some(line)
    }

    #[test]
    fn the_cause_of_most_of_the_time_stays() {
        let mut cause = MainCause::new();
        cause.count_cause(250, None);
        cause.count_cause(300, line("a"));
        assert_eq!(cause.line(), None, "it computed for most of the time");
        for at in [800, 1_300, 1_800] {
            cause.count_cause(at, line("b"));
        }
        cause.count_cause(1_900, line("a"));
        assert_eq!(cause.line(), Some("b"));
    }
}
