//! Turns of pings: the watchdog itself begins each of them, so that it knows when.

use super::detector::Detector;
use super::episode::Episode;
use super::observation::{Observation, Pinged};

impl Detector {
    /// Returns the ping whose turn the thread is in, if it came since the last observation.
    pub(super) fn new_ping(&self, observation: &Observation) -> Option<Pinged> {
        let ping = observation.pinged?;
        (ping.begun > self.last.now && observation.beat.depth() != 0).then_some(ping)
    }

    /// Returns the episode of a [new ping](Self::new_ping). The watchdog's own lateness came before it.
    ///
    /// What the thread had worked before counts, but for one strike: it may have been many short turns, so the ping must be
    /// unanswered for so long. Of an observation that comes late no more than a strike counts: it may hide a stop of the process.
    pub(super) fn episode_of_ping(&self, observation: &Observation, now: u64) -> Option<Episode> {
        let ping = self.new_ping(observation)?;
        let begun = ping.begun.max(now.saturating_sub(self.timeout)).min(now);
        let worked = ping.worked.min(begun - self.last.now);
        let most = self.threshold().saturating_sub(self.timeout);
        let from = begun - worked;
        Some(Episode {
            first: from,
            cpu: observation.cpu.saturating_sub(worked),
            counted: now - begun + worked.min(most),
            ..self.episode_from(observation, from, false)
        })
    }

    /// Returns true if the episode, of a thread that is pinged, has missed no beat and is no launch.
    pub(super) fn was_quick(&self, episode: &Episode, observation: &Observation) -> bool {
        observation.pinged.is_some() && !episode.missed && !episode.launch
    }

    /// Returns true while no launch is open and no episode has missed a beat.
    pub fn is_calm(&self) -> bool {
        self.episode
            .as_ref()
            .is_none_or(|episode| !episode.missed && !episode.launch)
    }
}
