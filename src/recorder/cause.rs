//! The lock that a stall waits for most of its time: a majority vote over its observations.

use super::lock::LineBuffer;

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
    pub fn vote(&mut self, at: u64, cause: Option<LineBuffer>) {
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
        cause.vote(250, None);
        cause.vote(300, line("a"));
        assert_eq!(cause.line(), None, "it computed for most of the time");
        for at in [800, 1_300, 1_800] {
            cause.vote(at, line("b"));
        }
        cause.vote(1_900, line("a"));
        assert_eq!(cause.line(), Some("b"));
    }
}
