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

/// Look-ups that took less than one part in so many of the time to make a table are not kept for later processes: to open
/// the table takes about as long.
const KEPT_PART: u32 = 128;

/// The look-ups so far.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    answers: u32,
    /// With those of earlier processes.
    spent: Duration,
    /// How much of that is kept for later processes.
    kept: Duration,
    /// Time to make the table.
    making: Duration,
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

    /// Of a file whose look-ups took so long in earlier processes.
    pub(crate) fn of_earlier_runs(spent: Duration) -> Cost {
        Cost {
            spent,
            kept: spent,
            ..Cost::default()
        }
    }

    /// Returns true if nothing is known of look-ups yet.
    pub(crate) fn is_unknown(&self) -> bool {
        self.spent.is_zero()
    }

    /// Sets what a table is made of: bytes of `.debug_info` and of `.debug_line`.
    pub(crate) fn table_is_made_of(&mut self, info: usize, lines: usize) {
        let time = |per_byte: Duration, bytes: usize| {
            per_byte.saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX))
        };
        self.making = time(MAKING_PER_BYTE, info) + time(MAKING_PER_BYTE_OF_LINES, lines);
    }

    /// Returns true if the table costs no more than so many times the look-ups so far.
    pub(crate) fn pays_for_table(&self, times: u32) -> bool {
        self.answers > FEW_ANSWERS && self.spent.saturating_mul(times) > self.making
    }

    /// Returns the time that is to be kept for later processes, if it is much more than is kept. It is kept then.
    pub(crate) fn take_unkept(&mut self) -> Option<Duration> {
        let more = self.spent.saturating_sub(self.kept);
        if more <= self.making / KEPT_PART {
            return None;
        }
        self.kept = self.spent;
        Some(self.spent)
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
            let mut cost = Cost::of_earlier_runs(spent);
            cost.answers = answers;
            cost.table_is_made_of(info, lines);
            let found = cost.pays_for_table(1);
            assert_eq!(found, expected, "{answers} {spent:?} {info} {lines}");
        }
    }

    #[test]
    fn look_ups_of_several_processes_add_up() {
        let mut kept = Duration::ZERO;
        for run in 0.. {
            let mut cost = Cost::of_earlier_runs(kept);
            cost.table_is_made_of(100 << 20, 0);
            cost.answers = FEW_ANSWERS + 1;
            cost.spent += cost.making / 20;
            assert_eq!(cost.pays_for_table(3), run >= 6, "{run}");
            if cost.pays_for_table(3) {
                break;
            }
            kept = cost.take_unkept().expect("a twentieth is worth it");
            assert_eq!(cost.take_unkept(), None);
            cost.spent += cost.making / 200;
            assert_eq!(cost.take_unkept(), None);
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
