//! Battery, heat and low-power mode.

use super::os;

/// The state of the machine's power; `None` for each value that it does not report.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Power {
    /// Charge of the battery, 0 to 1.
    pub battery: Option<f64>,
    /// `nominal`, `fair`, `serious`, `critical`.
    pub thermal: Option<&'static str>,
    /// True if the user or the system wants less use of power.
    pub low_power: Option<bool>,
}

/// Words for heat, from cool to hot: Apple's (`ProcessInfo.ThermalState`).
pub const THERMAL: [&str; 4] = ["nominal", "fair", "serious", "critical"];

impl Power {
    /// Queries the system. May allocate and take milliseconds; not signal-safe.
    pub fn read() -> Power {
        os::power::read()
    }

    /// Into one word, so that it can be read at any instant; 0 where nothing is known.
    pub fn pack(&self) -> u64 {
        let battery = self.battery.map_or(0, |level| (level * 1000.0) as u64 + 1);
        let heat = THERMAL.iter().position(|&word| Some(word) == self.thermal);
        let heat = heat.map_or(0, |place| place as u64 + 1);
        let low = self.low_power.map_or(0, |low| 1 + u64::from(low));
        battery | heat << 32 | low << 40
    }

    /// Back from the word. Signal-safe.
    pub fn unpack(word: u64) -> Power {
        let known = |part: u64| part.checked_sub(1);
        Power {
            battery: known(word & 0xffff_ffff).map(|level| level as f64 / 1000.0),
            thermal: known(word >> 32 & 0xff).and_then(|at| THERMAL.get(at as usize).copied()),
            low_power: known(word >> 40 & 0xff).map(|low| low != 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let battery = [None, Some(0.0), Some(0.5), Some(1.0)];
        for battery in battery {
            for thermal in [None, Some("nominal"), Some("critical")] {
                for low_power in [None, Some(false), Some(true)] {
                    let power = Power {
                        battery,
                        thermal,
                        low_power,
                    };
                    assert_eq!(Power::unpack(power.pack()), power);
                }
            }
        }
        assert_eq!(Power::default().pack(), 0);
    }
}
