//! The time of the next observation: each time-out of a turn, ever more rarely in a stall, never while the app rests.

use super::detector::Detector;
use super::episode::Episode;
use super::observation::Next;
use crate::trigger::heartbeat::Beat;

/// The watchdog sleeps for good after so long without a beat.
pub(super) const REST_AFTER: u64 = 500_000_000;
/// While a stall lasts, the watchdog observes at least so often.
const STALL_PERIOD: u64 = 1_000_000_000;
/// After so long a stall, samples come ever more slowly: each a fortieth later than the one before.
const SAMPLES_SLOW_DOWN: u64 = 2_000_000_000;
/// An app that has not beaten for so long is left alone until it does.
pub(super) const MAX_SILENT_LAUNCH: u64 = 60_000_000_000;

impl Detector {
    /// Returns the time of the next observation, and if the next beat wakes the watchdog.
    pub(super) fn next(&mut self, now: u64, due: u64) -> Next {
        let tolerance = self.tolerance();
        // The next on the grid of time-outs; from now on if this observation came far off it.
        let on_grid = due.saturating_add(self.timeout);
        let mut at = if on_grid > now {
            on_grid
        } else {
            now + self.timeout
        };
        at = at.min(now + self.timeout);
        let (threshold, launch) = (self.threshold(), self.launch_threshold);
        let Some(episode) = &mut self.episode else {
            // A ping begins on the watchdog's own thread.
            let rests = now.saturating_sub(self.active) >= REST_AFTER;
            let asleep = rests || self.last.pinged.is_some();
            return Next {
                due: (!asleep).then_some(at),
                wake_on_beat: asleep,
            };
        };
        if let Some(since) = episode.resting_since {
            let rested = now.saturating_sub(since);
            return Next {
                due: Detector::next_at_rest(rested, now, at),
                wake_on_beat: true,
            };
        }
        if episode.idle.is_some() || episode.nested.is_some() {
            return Next {
                due: Some(now + tolerance),
                wake_on_beat: true,
            };
        }
        if episode.stalled {
            let never_beat = episode.launch && self.last.beat == Beat::NONE;
            if never_beat && self.launch_waits && now - episode.well_at > MAX_SILENT_LAUNCH {
                return Next {
                    due: None,
                    wake_on_beat: true,
                };
            }
            // A thread that is held is not sampled.
            let is_ahead = episode.next_sample > now;
            let at = if is_ahead {
                episode.next_sample
            } else {
                now + self.timeout
            };
            return Next {
                due: Some(at.min(now + STALL_PERIOD)),
                wake_on_beat: true,
            };
        }
        let limit = if episode.launch { launch } else { threshold };
        let rest = limit
            .saturating_sub(tolerance)
            .saturating_sub(episode.counted)
            .max(1);
        let grown = std::mem::replace(&mut episode.planned, episode.counted) != episode.counted;
        let wake_on_beat = episode.beat_wakes;
        let at = self.next_in_wait(now).unwrap_or(at);
        Next {
            due: Some(if grown { at.min(now + rest) } else { at }),
            wake_on_beat,
        }
    }

    /// Duration that makes a turn a stall, nanoseconds.
    pub(super) fn threshold(&self) -> u64 {
        self.timeout.saturating_mul(u64::from(self.strikes))
    }

    /// Duration that makes this episode a stall, nanoseconds.
    pub(super) fn limit(&self, episode: &Episode) -> u64 {
        if episode.launch {
            self.launch_threshold
        } else {
            self.threshold()
        }
    }

    /// A tenth of a strike: what the clocks and the scheduler may be off.
    pub(super) fn tolerance(&self) -> u64 {
        self.timeout / 10
    }

    /// Time from a sample at this length of the stall to the next one, nanoseconds.
    pub(super) fn sample_period(&self, at: u64) -> u64 {
        if at < SAMPLES_SLOW_DOWN {
            self.timeout
        } else {
            self.timeout.max(at / 40)
        }
    }
}
