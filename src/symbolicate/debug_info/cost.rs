//! CPU time that look-ups in a file's DWARF have taken, and whether a table of the whole file costs no more.

use std::time::Duration;

/// Runs of no more look-ups than this begin no second thread, however small the file and slow the machine.
const FEW_ANSWERS: u32 = 8;
/// The CPU time of so many look-ups is measured, and then that of one in so many: to read the clock twice takes 2 µs, a
/// look-up 20. A prime number is the length of few stacks that come over and over.
const ALL_MEASURED: u32 = 256;
const MEASURED_OF: u32 = 13;
/// Time to make the table of a whole file, for each byte of its `.debug_info`, and of its `.debug_line`. Once looking up
/// has taken as long, the table is worth it.
const MAKING_PER_BYTE: Duration = Duration::from_nanos(70);
const MAKING_PER_BYTE_OF_LINES: Duration = Duration::from_nanos(60);

/// The look-ups so far.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    answers: u32,
    spent: Duration,
}

/// A look-up that is under way.
pub(crate) struct Begun {
    at: Duration,
    /// Count of look-ups that it is measured for.
    count: u32,
}

impl Cost {
    /// Begins a look-up; `None` if it is not measured.
    pub(crate) fn begin(&self) -> Option<Begun> {
        let count = match self.answers {
            0..ALL_MEASURED => 1,
            answers if answers % MEASURED_OF == 0 => MEASURED_OF,
            _ => return None,
        };
        let at = cpu_time();
        Some(Begun { at, count })
    }

    /// Ends the look-up that was begun.
    pub(crate) fn end(&mut self, begun: Option<Begun>) {
        self.answers = self.answers.saturating_add(1);
        if let Some(Begun { at, count }) = begun {
            let spent = cpu_time().saturating_sub(at).saturating_mul(count);
            self.spent = self.spent.saturating_add(spent);
        }
    }

    /// Returns true if the table of a file with so many bytes of `.debug_info` and `.debug_line` costs no more than its
    /// look-ups have so far, if each of so many runs has as many of them.
    pub(crate) fn pays_for_table(&self, runs: u32, info: usize, lines: usize) -> bool {
        let time = |per_byte: Duration, bytes: usize| {
            per_byte.saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX))
        };
        let making = time(MAKING_PER_BYTE, info) + time(MAKING_PER_BYTE_OF_LINES, lines);
        self.answers > FEW_ANSWERS && self.spent.saturating_mul(runs) > making
    }
}

/// CPU time that this thread has used so far: on a busy machine the wall clock counts more.
fn cpu_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_made_after_some_look_ups_that_took_as_long() {
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(9));
        for (answers, spent, info, lines, expected) in [
            (1, long, 0, 0, false),
            (FEW_ANSWERS, long, 1 << 20, 0, false),
            (FEW_ANSWERS + 1, long, 1 << 20, 0, true),
            (FEW_ANSWERS + 1, short, 1 << 20, 0, false),
            (FEW_ANSWERS + 1, short, 0, 1 << 20, false),
            (u32::MAX, long, usize::MAX, 0, false),
            (u32::MAX, long, 0, usize::MAX, false),
        ] {
            let found = Cost { answers, spent }.pays_for_table(1, info, lines);
            assert_eq!(found, expected, "{answers} {spent:?} {info} {lines}");
        }
    }

    #[test]
    fn a_measured_look_up_counts_for_those_that_are_not() {
        let (mut cost, mut measured) = (Cost::default(), 0);
        let all = ALL_MEASURED + 100 * MEASURED_OF;
        for _ in 0..all {
            let begun = cost.begin();
            measured += begun.as_ref().map_or(0, |begun| begun.count);
            cost.end(begun);
        }
        assert_eq!(cost.answers, all);
        assert!(measured.abs_diff(all) < MEASURED_OF, "{measured} of {all}");
    }
}
