//! Before the first beat: tells a working thread from one that rests, as an app does that waits for its first event.

use super::detector::Detector;
use super::due::{MAX_SILENT_LAUNCH, REST_AFTER};
use super::episode::{CpuShare, Episode, Launching};
use super::observation::{Decision, Held, Observation};
use crate::platform::gauge::Waits;
use crate::trigger::heartbeat::Beat;

/// While the thread rests, the watchdog observes only so often whether it has begun to work, nanoseconds.
const REST_PERIOD: u64 = 250_000_000;

impl Detector {
    /// Classifies the time since the last observation. An episode whose thread rested until its first beat begins anew.
    pub(super) fn before_first_beat(
        &self,
        episode: &mut Episode,
        observation: &Observation,
        now: u64,
        interval: u64,
    ) -> Launching {
        if observation.beat != Beat::NONE {
            if episode.resting_since.take().is_none() {
                return Launching::Works;
            }
            *episode = self.episode_from(observation, now, true);
            return Launching::Begins;
        }
        if self.launch_waits || observation.held != Held::No {
            return Launching::Works;
        }
        let waits = matches!(observation.waits, Waits::Disk | Waits::Lock);
        if waits && episode.resting_since.is_some() {
            // The wait may have begun after the last observation.
            *episode = self.episode_from(observation, now, true);
            return Launching::Begins;
        }
        let before = match (observation.waits, self.estimate_use(observation, interval)) {
            (_, CpuShare::All) | (Waits::Disk | Waits::Lock, _) => Launching::Works,
            (Waits::Nothing, _) => Launching::Unclear,
            (Waits::Event, _) => Launching::Rests,
        };
        if before == Launching::Unclear && episode.counted == 0 {
            *episode = self.episode_from(observation, now, true);
        }
        if before != Launching::Rests {
            episode.resting_since = None;
        }
        before
    }

    /// Returns the time of the next observation of a thread that was seen to wait for a disk or a lock before its first
    /// beat. It is not in step with anything that comes regularly: a disk that is written to sixty times a second would
    /// be seen each time, or never.
    pub(super) fn next_in_wait(&self, now: u64) -> Option<u64> {
        const SIXTY_FOURTHS: [u64; 8] = [17, 27, 21, 33, 13, 29, 19, 25];
        let waits = matches!(self.last.waits, Waits::Disk | Waits::Lock);
        let part = SIXTY_FOURTHS[(self.observations % 8) as usize];
        (waits && self.last.beat == Beat::NONE && !self.launch_waits)
            .then_some(now.saturating_add((self.timeout / 64).saturating_mul(part).max(1)))
    }

    /// The thread's rest ends this episode; the next one begins when the thread works again.
    pub(super) fn rest_before_first_beat(
        &mut self,
        episode: Episode,
        observation: &Observation,
        now: u64,
    ) -> Decision {
        let since = episode.resting_since.unwrap_or(now);
        let decision = self.end_episode(episode, observation, now);
        self.episode = Some(Episode {
            resting_since: Some(since),
            ..self.episode_from(observation, now, true)
        });
        decision
    }

    /// Returns the time of the next observation of a thread that has rested for so long; `at` is the next on the grid.
    pub(super) fn next_at_rest(rested: u64, now: u64, at: u64) -> Option<u64> {
        match rested {
            MAX_SILENT_LAUNCH.. => None,
            REST_AFTER.. => Some(at.max(now.saturating_add(REST_PERIOD))),
            _ => Some(at),
        }
    }
}
