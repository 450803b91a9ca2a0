//! Power and heat, from sysfs.

use std::path::{Path, PathBuf};

use crate::platform::descriptors;
use crate::platform::surface::{Power, THERMAL};

/// Source: Documentation/ABI/testing/sysfs-class-power, sysfs-class-thermal and
/// sysfs-platform_profile.
pub fn read() -> Power {
    read_from(Path::new("/sys"))
}

fn read_from(sys: &Path) -> Power {
    let profile = text(&sys.join("firmware/acpi/platform_profile"));
    Power {
        battery: battery(&sys.join("class/power_supply")),
        thermal: heat(&sys.join("class/thermal")),
        low_power: profile.map(|profile| profile == "low-power" || profile == "quiet"),
    }
}

/// The mean charge of all batteries.
fn battery(folder: &Path) -> Option<f64> {
    let levels = entries(folder, "")
        .filter(|supply| text(&supply.join("type")).as_deref() == Some("Battery"))
        // Batteries of a mouse or a pen don't count.
        .filter(|supply| text(&supply.join("scope")).as_deref() != Some("Device"))
        // Whole percents: <https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-class-power>.
        .filter_map(|supply| text(&supply.join("capacity"))?.parse::<u8>().ok())
        .map(|level| f64::from(level.min(100)));
    let (count, sum) = levels.fold((0.0, 0.0), |(count, sum), level| (count + 1.0, sum + level));
    (count > 0.0).then(|| sum / count / 100.0)
}

/// Rates the hottest zone by its own trip points: above `passive` fair, above `hot` serious,
/// above `critical` critical.
fn heat(folder: &Path) -> Option<&'static str> {
    let zones = entries(folder, "thermal_zone").filter_map(|zone| {
        let now: i64 = text(&zone.join("temp"))?.parse().ok()?;
        let trips = (0..16).map_while(|trip| {
            let kind = text(&zone.join(format!("trip_point_{trip}_type")))?;
            let at: i64 = text(&zone.join(format!("trip_point_{trip}_temp")))?
                .parse()
                .ok()?;
            Some((kind, at))
        });
        let level = trips
            .filter(|(_, at)| *at > 0 && now >= *at)
            .map(|(kind, _)| match &*kind {
                "passive" => 1,
                "hot" => 2,
                "critical" => 3,
                _ => 0,
            });
        Some(level.max().unwrap_or(0))
    });
    zones
        .max()
        .and_then(|level: usize| THERMAL.get(level).copied())
}

fn entries(folder: &Path, begin: &'static str) -> impl Iterator<Item = PathBuf> {
    let mut found = Vec::new();
    // One that is not there has none.
    let _ = descriptors::list(folder, |name, _| {
        if name.as_encoded_bytes().starts_with(begin.as_bytes()) {
            found.push(folder.join(name));
        }
    });
    found.into_iter()
}

fn text(path: &Path) -> Option<String> {
    Some(descriptors::read_text(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_power_of_a_laptop_is_read() {
        let sys = std::env::temp_dir().join(format!("wedjat-sys-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let path = sys.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(read_from(&sys), Power::default());
        write("class/power_supply/AC/type", "Mains\n");
        write("class/power_supply/BAT0/type", "Battery\n");
        write("class/power_supply/BAT0/capacity", "40\n");
        write("class/power_supply/mouse/type", "Battery\n");
        write("class/power_supply/mouse/scope", "Device\n");
        write("class/power_supply/mouse/capacity", "99\n");
        write("class/thermal/thermal_zone0/temp", "96000\n");
        for (trip, kind, at) in [
            (0, "critical", 105_000),
            (1, "hot", 95_000),
            (2, "passive", 90_000),
        ] {
            write(
                &format!("class/thermal/thermal_zone0/trip_point_{trip}_type"),
                kind,
            );
            write(
                &format!("class/thermal/thermal_zone0/trip_point_{trip}_temp"),
                &at.to_string(),
            );
        }
        write("class/thermal/cooling_device0/type", "Fan\n");
        write("firmware/acpi/platform_profile", "low-power\n");
        let power = Power {
            battery: Some(0.4),
            thermal: Some("serious"),
            low_power: Some(true),
        };
        assert_eq!(read_from(&sys), power);
        fs::remove_dir_all(&sys).unwrap();
    }
}
