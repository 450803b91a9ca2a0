//! What can go wrong in the app: chains of calls, outermost first.

use std::collections::BTreeSet;

use super::random::Random;

const SCREENS: usize = 18;
const FEATURES: usize = 70;
const HELPERS: usize = 40;

/// The app's functions and its stalls.
pub struct World {
    /// Of each stall, its functions, outermost first. No two are the same.
    pub chains: Vec<Vec<String>>,
    /// The stalls whose innermost function calls itself, some times more in each report.
    pub recursive: Vec<bool>,
    /// Caller and called, where a closure stands between them.
    pub turned: BTreeSet<(String, String)>,
    /// Longest, in milliseconds, on an average device.
    pub millis: Vec<f64>,
}

impl World {
    /// As many stalls as are asked for.
    pub fn new(seed: u64, stalls: usize) -> World {
        let mut random = Random::new(seed ^ 0x5ca1_e000);
        let mut world = World {
            chains: Vec::new(),
            recursive: Vec::new(),
            turned: BTreeSet::new(),
            millis: Vec::new(),
        };
        // A feature has one screen; helpers are shared, so that the same work is waited for from
        // different places, which are different stalls.
        let screen: Vec<usize> = (0..FEATURES).map(|_| random.below(SCREENS)).collect();
        while world.chains.len() < stalls {
            let number = world.chains.len();
            let feature = random.below(FEATURES);
            let mut chain = vec![
                "main".to_owned(),
                "run_loop".to_owned(),
                "dispatch_event".to_owned(),
                format!("screen_{}", screen[feature]),
                format!("feature_{feature}"),
            ];
            if random.chance(0.3) {
                chain.push(format!("helper_{}", random.below(HELPERS)));
            } else {
                chain.push(format!("step_{number}"));
                chain.push(format!("work_{number}"));
            }
            if world.chains.contains(&chain) {
                continue;
            }
            if random.chance(0.5) {
                world.turned.insert((chain[4].clone(), chain[5].clone()));
            }
            let own_work = chain.len() == 7;
            world.chains.push(chain);
            world.recursive.push(own_work && random.chance(0.2));
            world
                .millis
                .push(250.0 * (1.0 / (0.02 + random.share())).powf(0.8));
        }
        world
    }

    /// Whether `from` calls `to` within a closure.
    pub fn is_turned(&self, from: &str, to: &str) -> bool {
        self.turned.contains(&(from.to_owned(), to.to_owned()))
    }
}
