//! The times at which the watchdog wakes for several threads: one wake-up serves all that would be due soon. Pure.

/// Returns true if a thread that is due at `due`, and is observed each `timeout`, is observed at `now` already. A thread
/// that another one's wake-up finds within half a time-out of its own time takes over that time: so all threads of one
/// time-out come to share their wake-ups.
pub(super) fn is_due(due: u64, timeout: u64, now: u64) -> bool {
    due <= now.saturating_add(timeout / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Count of wake-ups within a second of threads with these time-outs, which begin at different times; and the longest
    /// time between two observations of a thread, in its time-outs.
    fn second_of(timeouts: &[u64]) -> (usize, f64) {
        let begin = |index: usize| (index as u64 * 7_919_113) % (50 * MS);
        let mut due: Vec<u64> = (0..timeouts.len()).map(begin).collect();
        let mut seen = due.clone();
        let (mut woken, mut longest) = (0, 0.0_f64);
        loop {
            let now = *due.iter().min().unwrap();
            // The first tenth of a second is for finding each other.
            if now > 1_100 * MS {
                return (woken, longest);
            }
            woken += usize::from(now > 100 * MS);
            for (index, timeout) in timeouts.iter().enumerate() {
                if is_due(due[index], *timeout, now) {
                    let since = now.saturating_sub(seen[index]) as f64 / *timeout as f64;
                    longest = longest.max(since);
                    seen[index] = now;
                    due[index] = now + timeout;
                }
            }
        }
    }

    #[test]
    fn many_threads_wake_the_watchdog_as_often_as_one() {
        let one = second_of(&[50 * MS]);
        assert_eq!(one, (20, 1.0));
        for count in [2, 8, 64, 256] {
            assert_eq!(
                second_of(&vec![50 * MS; count]),
                (20, 1.0),
                "{count} threads"
            );
        }
    }

    #[test]
    fn each_thread_is_observed_by_its_own_time_out() {
        let (woken, longest) = second_of(&[50 * MS, 1_000 * MS, 200 * MS, 50 * MS]);
        assert!(woken <= 21 && longest <= 1.0, "{woken} {longest}");
    }
}
