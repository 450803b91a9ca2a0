//! Names of report files: `<wall time>-<event>-<short id>.partial`, `.wedjat` once they are whole.
// Signal-safe: nothing here can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

use std::ffi::CStr;
use std::fmt::{self, Write as _};

/// Ending of a report that is still being written.
pub const PARTIAL: &str = "partial";
/// Ending of a whole report.
pub const WHOLE: &str = "wedjat";
/// Ending of a file that held nothing that could be read back.
pub const DAMAGED: &str = "damaged";
/// Ending of a report that will never be sent.
pub const REFUSED: &str = "refused";
/// A file name without heap: a C string in place, at most 95 bytes long.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    bytes: [u8; 96],
    len: usize,
}

impl Name {
    const EMPTY: Name = Name {
        bytes: [0; 96],
        len: 0,
    };

    /// The name of a report: `2026-01-31T23-59-58.123Z-stall-0a1b2c3d.<ending>`. Times sort as text.
    ///
    /// `time`: nanoseconds since the Unix epoch, UTC. Signal-safe.
    pub fn new(time: u64, event: &str, id: &[u8; 16], ending: &str) -> Name {
        let millis = time / 1_000_000;
        let (days, in_day) = (millis / 86_400_000, millis % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (hours, minutes) = (in_day / 3_600_000, in_day / 60_000 % 60);
        let (seconds, millis) = (in_day / 1_000 % 60, in_day % 1_000);
        let [a, b, c, d, ..] = *id;
        let id = u32::from_be_bytes([a, b, c, d]);
        let mut name = Name::EMPTY;
        // A part that does not fit is omitted: writing to a `Name` does not fail.
        let _ = write!(
            name,
            "{year:04}-{month:02}-{day:02}T{hours:02}-{minutes:02}-{seconds:02}.{millis:03}Z-{event}-{id:08x}.{ending}"
        );
        name
    }

    /// This very name, as far as there is room. Signal-safe.
    pub fn of(text: &CStr) -> Name {
        let mut name = Name::EMPTY;
        text.to_bytes().iter().for_each(|&byte| name.push(byte));
        name
    }

    /// As the system calls want it. Signal-safe.
    #[inline(never)]
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// As text. Signal-safe.
    #[inline(never)]
    pub fn as_str(&self) -> &str {
        self.as_c_str().to_str().unwrap_or_default()
    }

    fn push(&mut self, byte: u8) {
        // The last byte stays 0: the C string's end.
        let [room @ .., _] = &mut self.bytes;
        if let Some(slot) = room.get_mut(self.len) {
            *slot = byte;
            self.len = self.len.wrapping_add(1);
        }
    }
}

impl fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}

/// The ending of a name as [`Name::new`] makes them; `None` for any other.
pub fn ending_of(name: &str) -> Option<&str> {
    const TIME: &[u8] = b"0000-00-00T00-00-00.000Z-";
    let (stem, ending) = name.rsplit_once('.')?;
    let (time, rest) = stem.as_bytes().split_at_checked(TIME.len())?;
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        form => byte == form,
    };
    let mut rest = rest.rsplitn(2, |&byte| byte == b'-');
    let (id, event) = (rest.next()?, rest.next()?);
    let is_event = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'_';
    let is_ours = time.iter().zip(TIME).all(fits)
        && !event.is_empty()
        && event.iter().all(is_event)
        && is_short_id(id);
    is_ours.then_some(ending)
}

/// Returns true if `text` is a short id of a file name: eight lower-case hexadecimal digits.
pub fn is_short_id(text: &[u8]) -> bool {
    text.len() == 8
        && text
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Year, month and day of a count of days since 1970-01-01.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`, for
/// days that are not negative.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let z = days.saturating_add(719_468);
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let days_but_leap = day_of_era
        .wrapping_sub(day_of_era / 1_460)
        .wrapping_add(day_of_era / 36_524)
        .wrapping_sub(day_of_era / 146_096);
    let year_of_era = days_but_leap / 365;
    let first_day_of_year = year_of_era
        .wrapping_mul(365)
        .wrapping_add(year_of_era / 4)
        .wrapping_sub(year_of_era / 100);
    let day_of_year = day_of_era.wrapping_sub(first_day_of_year);
    // Months are counted from March, so that the leap day comes last.
    let shifted = day_of_year.wrapping_mul(5).wrapping_add(2) / 153;
    let first_day_of_month = shifted.wrapping_mul(153).wrapping_add(2) / 5;
    let day = day_of_year.wrapping_sub(first_day_of_month).wrapping_add(1);
    let month = if shifted < 10 {
        shifted.wrapping_add(3)
    } else {
        shifted.wrapping_sub(9)
    };
    let shifted_year = era.wrapping_mul(400).wrapping_add(year_of_era);
    let year = shifted_year.wrapping_add(u64::from(month <= 2));
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; 16] = [
        0x0a, 0x1b, 0x2c, 0x3d, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
    ];

    #[test]
    fn names_tell_time_event_and_id() {
        // `date -u -d @1709251199.987` says Thu Feb 29 23:59:59 UTC 2024.
        let name = Name::new(1_709_251_199_987_654_321, "stall", &ID, PARTIAL);
        assert_eq!(
            name.as_str(),
            "2024-02-29T23-59-59.987Z-stall-0a1b2c3d.partial"
        );
        assert_eq!(
            Name::new(0, "live", &ID, WHOLE).as_str(),
            "1970-01-01T00-00-00.000Z-live-0a1b2c3d.wedjat"
        );
        // `date -u -d @4107542400` says Mon Mar  1 00:00:00 UTC 2100.
        let name = Name::new(4_107_542_400_000_000_000, "crash", &ID, WHOLE);
        assert_eq!(
            name.as_str(),
            "2100-03-01T00-00-00.000Z-crash-0a1b2c3d.wedjat"
        );
    }

    #[test]
    fn our_own_names_are_known_and_no_others() {
        let name = Name::new(1_709_251_199_987_654_321, "slow_frames", &ID, REFUSED);
        assert_eq!(ending_of(name.as_str()), Some(REFUSED));
        for other in [
            "",
            "film.partial",
            ".partial",
            "2024-02-29T23-59-59.987Z-stall-0a1b2c3d",
            "2024-02-29T23-59-59.987Z-stall-0a1b2c3.partial",
            "2024-02-29T23-59-59.987Z-stall-0A1B2C3D.partial",
            "2024-02-29T23-59-59.987Z--0a1b2c3d.partial",
            "2024-02-29T23-59-59.987Z-my film-0a1b2c3d.partial",
            "2024-02-29 23-59-59.987Z-stall-0a1b2c3d.partial",
            "x2024-02-29T23-59-59.987Z-stall-0a1b2c3d.partial",
        ] {
            assert_eq!(ending_of(other), None, "{other}");
        }
    }

    #[test]
    fn any_time_gives_a_name_of_bounded_length() {
        for time in [u64::MAX, u64::MAX - 1, 1] {
            let name = Name::new(time, &"e".repeat(200), &ID, WHOLE);
            assert!(name.as_c_str().to_bytes().len() <= 95);
        }
    }
}
