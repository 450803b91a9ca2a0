//! Turns of pings: the watchdog itself begins each of them, so that it knows when.

use super::detector::Detector;
use super::episode::Episode;
use super::observation::Observation;

impl Detector {
    /// Returns the time of the ping whose turn the thread is in, if it came since the last observation.
    pub(super) fn new_ping(&self, observation: &Observation) -> Option<u64> {
        let is_new = |begun: &u64| *begun > self.last.now && observation.beat.depth() != 0;
        observation.pinged.filter(is_new)
    }

    /// Returns the episode of a [new ping](Self::new_ping). The watchdog's own lateness came before it.
    ///
    /// What the thread did before the ping may have been many short turns: none of it counts. Of an observation that comes late no
    /// more than a strike counts: it may hide a stop of the process.
    pub(super) fn episode_of_ping(&self, observation: &Observation, now: u64) -> Option<Episode> {
        let ping = self.new_ping(observation)?;
        let begun = ping.max(now.saturating_sub(self.timeout)).min(now);
        Some(Episode {
            begun_by: begun,
            ..self.episode_from(observation, begun, false)
        })
    }

    /// Returns true if the episode, of a thread that is pinged, has missed no beat and is no launch.
    pub(super) fn was_quick(&self, episode: &Episode, observation: &Observation) -> bool {
        observation.pinged.is_some() && !episode.missed && !episode.launch
    }

    /// Returns true while no launch is open and no episode has missed a beat.
    pub fn is_calm(&self) -> bool {
        let episode = self.episode.as_ref();
        episode.is_none_or(|episode| !episode.missed && !episode.launch)
    }
}
