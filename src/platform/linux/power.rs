//! Power and heat, from sysfs. Rust allocates nothing here; libc does for a folder's list.

use std::fmt;

use crate::platform::descriptors::{self, find_line};
use crate::platform::surface::{Power, THERMAL};
use crate::platform::text::FixedText;

/// Source: Documentation/ABI/testing/sysfs-class-power, sysfs-class-thermal and
/// sysfs-platform_profile.
pub fn read() -> Power {
    read_from("/sys")
}

fn read_from(sys: &str) -> Power {
    let profile = text(format_args!("{sys}/firmware/acpi/platform_profile"));
    Power {
        battery: battery(&format_args!("{sys}/class/power_supply")),
        thermal: heat(&format_args!("{sys}/class/thermal")),
        low_power: profile.map(|profile| ["low-power", "quiet"].contains(&profile.as_str())),
    }
}

/// The mean charge of all batteries.
fn battery(folder: &fmt::Arguments<'_>) -> Option<f64> {
    let (mut count, mut sum) = (0.0, 0.0);
    for_each(folder, |supply| {
        let is = |file: &str, what: &str| {
            text(format_args!("{folder}/{supply}/{file}")).is_some_and(|text| text.as_str() == what)
        };
        // Batteries of a mouse or a pen don't count.
        if is("type", "Battery") && !is("scope", "Device") {
            // Whole percents: <https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-class-power>.
            let level = text(format_args!("{folder}/{supply}/capacity"))?;
            sum += f64::from(level.as_str().parse::<u8>().ok()?.min(100));
            count += 1.0;
        }
        Some(())
    });
    (count > 0.0).then(|| sum / count / 100.0)
}

/// Rates the hottest zone by its own trip points: above `passive` fair, above `hot` serious,
/// above `critical` critical.
fn heat(folder: &fmt::Arguments<'_>) -> Option<&'static str> {
    let mut hottest = None;
    for_each(folder, |zone| {
        if !zone.starts_with("thermal_zone") {
            return None;
        }
        let number = |file: fmt::Arguments<'_>| -> Option<i64> {
            let text = text(format_args!("{folder}/{zone}/{file}"))?;
            text.as_str().parse().ok()
        };
        let now = number(format_args!("temp"))?;
        let trips = (0..16).map_while(|trip| {
            let kind = text(format_args!("{folder}/{zone}/trip_point_{trip}_type"))?;
            Some((kind, number(format_args!("trip_point_{trip}_temp"))?))
        });
        let levels = trips
            .filter(|(_, at)| *at > 0 && now >= *at)
            .map(|(kind, _)| match kind.as_str() {
                "passive" => 1,
                "hot" => 2,
                "critical" => 3,
                _ => 0,
            });
        hottest = hottest.max(Some(levels.max().unwrap_or(0)));
        Some(())
    });
    THERMAL.get(hottest?).copied()
}

/// Calls `each` with the names in a folder; one that is not there has none.
fn for_each(folder: &fmt::Arguments<'_>, mut each: impl FnMut(&str) -> Option<()>) {
    let path = FixedText::<1024>::path(*folder);
    if let Ok(folder) = descriptors::open_owned(path.as_c_str(), libc::O_DIRECTORY) {
        let _ = descriptors::list(folder, usize::MAX, &mut |name, _| {
            name.to_str().and_then(&mut each);
        });
    }
}

/// The first line of a file.
fn text(path: fmt::Arguments<'_>) -> Option<FixedText<32>> {
    find_line(path, |line| Some(FixedText::of(line.trim().as_bytes())))
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
        assert_eq!(read_from(sys.to_str().unwrap()), Power::default());
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
        assert_eq!(read_from(sys.to_str().unwrap()), power);
        fs::remove_dir_all(&sys).unwrap();
    }
}
