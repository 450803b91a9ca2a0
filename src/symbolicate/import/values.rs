//! Numbers, ids, times, processors and signals as other recorders write them.

use jiff::fmt::strtime;

use crate::report::{Os, Value};

/// A decimal number, or a hexadecimal one after `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The address that a word is: hexadecimal digits after `0x`, or as many of them as an address has.
pub(super) fn address(word: &str) -> Option<u64> {
    let is_unprefixed = word.len() >= 16 && word.bytes().all(|c| c.is_ascii_hexdigit());
    let unprefixed = Some(word).filter(|_| is_unprefixed);
    let prefixed = word.strip_prefix("0x").or(word.strip_prefix("0X"));
    let digits = unprefixed.or(prefixed)?;
    u64::from_str_radix(digits, 16).ok()
}

/// A UUID or build id, with hyphens or without; empty if the text is not one or all zeros. Breakpad's have an age
/// after the UUID.
pub(super) fn id(text: &str) -> Vec<u8> {
    let text = without_age(text.trim());
    let digits: Vec<u8> = text.bytes().filter(|c| *c != b'-').collect();
    let byte = |pair: &[u8]| {
        let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
        u8::try_from(digit(0)? << 4 | digit(1)?).ok()
    };
    let id: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    id.filter(|id| id.iter().any(|byte| *byte != 0))
        .unwrap_or_default()
}

/// `F3EDF288…BBCF0` and `f3edf288-76ba-5ab7-9e46-49010d06bbcf-a` without what is after the UUID.
fn without_age(text: &str) -> &str {
    let len = match text.as_bytes().get(8) {
        Some(b'-') if text.len() > 36 => 36,
        _ if text.len() == 33 => 32,
        _ => text.len(),
    };
    text.get(..len).unwrap_or(text)
}

/// Nanoseconds since the epoch, from `2022-09-18 15:28:37.3451 +0900`, `2017-01-26T10:49:18Z` or
/// `Wed May 01 2024 10:00:00 GMT+0200 (Central European Summer Time)`.
pub(super) fn time(text: &str) -> Option<u64> {
    let spelled = text.split(" (").next().unwrap_or("");
    let at = strtime::parse("%a %b %d %Y %H:%M:%S GMT%z", spelled);
    let numbers = || strtime::parse("%Y-%m-%d %H:%M:%S%.f %z", numbers_of_time(text)?).ok();
    let at = at.ok().or_else(numbers)?.to_timestamp();
    u64::try_from(at.ok()?.as_nanosecond()).ok()
}

/// Date, time with a fraction, and zone, a blank between two.
fn numbers_of_time(text: &str) -> Option<String> {
    let (date, rest) = text.trim().split_at_checked(19)?;
    let zone_at = rest.find(['+', '-', 'Z', ' ']).unwrap_or(rest.len());
    let (fraction, zone) = rest.split_at(zone_at);
    // A point and nine digits.
    let fraction = fraction.get(..10).unwrap_or(fraction);
    let zone = zone.trim().replace(':', "");
    let zone = zone.get(..5).filter(|zone| zone.starts_with(['+', '-']));
    let (day, time) = (date.get(..10)?, date.get(11..)?);
    let zone = zone.unwrap_or("+0000");
    Some(format!("{day} {time}{fraction} {zone}"))
}

/// Nanoseconds since the epoch: from a text as above, from seconds, or from microseconds, a number above 10^12.
pub(super) fn instant(at: &Value) -> u64 {
    match at {
        Value::Text(text) => time(text).unwrap_or(0),
        Value::Unsigned(n) if *n > 1_000_000_000_000 => n.saturating_mul(1_000),
        Value::Unsigned(n) => n.saturating_mul(1_000_000_000),
        // Digits beyond microseconds are the float's own.
        Value::Float(seconds) => ((seconds * 1e6).round() as u64).saturating_mul(1_000),
        _ => 0,
    }
}

/// `arm64`, `arm64e`, `x86_64` and the like, from the many words for them.
pub(super) fn arch(text: &str) -> String {
    let word = text.split_whitespace().next().unwrap_or("");
    let word = word.to_ascii_lowercase();
    match word.as_str() {
        "arm-64" | "aarch64" => "arm64".into(),
        "x86-64" => "x86_64".into(),
        "x86" | "i386" => "i386".into(),
        _ => word,
    }
}

/// The same, from Mach's `cputype` and `cpusubtype`.
pub(super) fn mach_arch(cpu: u64, subtype: u64) -> Option<&'static str> {
    // Bits above 24 hold flags, as the version of pointer authentication.
    Some(match (cpu as u32, subtype & 0x00ff_ffff) {
        (0x0100_000c, 2) => "arm64e",
        (0x0100_000c, _) => "arm64",
        (0x0200_000c, _) => "arm64_32",
        (0x0100_0007, _) => "x86_64",
        (7, _) => "i386",
        (12, 9) => "armv7",
        (12, 11) => "armv7s",
        (12, _) => "arm",
        _ => return None,
    })
}

/// `iPhone OS 16.0 (20A362)`.
pub(super) fn os(text: &str) -> Os {
    let (text, build) = match text.split_once(" (") {
        Some((front, build)) => (front, Some(build.trim_end_matches(')'))),
        None => (text, None),
    };
    let build = build.map(|build| build.trim_start_matches("Build ").to_owned());
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let number = text.split_whitespace().find(is_number);
    let at = number.and_then(|word| text.find(word));
    let (name, version) = text.split_at(at.unwrap_or(text.len()));
    Os {
        name: name.trim().to_owned(),
        version: version.trim().to_owned(),
        build,
        ..Os::default()
    }
}

/// The signals of Darwin, where these reports come from.
#[rustfmt::skip]
const SIGNALS: [(u64, &str); 16] = [
    (1, "SIGHUP"), (2, "SIGINT"), (3, "SIGQUIT"), (4, "SIGILL"), (5, "SIGTRAP"), (6, "SIGABRT"),
    (7, "SIGEMT"), (8, "SIGFPE"), (9, "SIGKILL"), (10, "SIGBUS"), (11, "SIGSEGV"), (12, "SIGSYS"),
    (13, "SIGPIPE"), (15, "SIGTERM"), (24, "SIGXCPU"), (25, "SIGXFSZ"),
];

pub(super) fn signal_number(name: &str) -> u64 {
    let found = SIGNALS.iter().find(|(_, known)| *known == name);
    found.map_or(0, |(number, _)| *number)
}

/// The name of a signal on Linux, or on Darwin.
pub(super) fn signal_name(number: u64, is_linux: bool) -> Option<&'static str> {
    match (is_linux, number) {
        (true, 7) => Some("SIGBUS"),
        (true, 10) => Some("SIGUSR1"),
        (true, 31) => Some("SIGSYS"),
        _ => Some(SIGNALS.iter().find(|(known, _)| *known == number)?.1),
    }
}

/// The number of the signal that Swift's backtraces describe so.
pub(super) fn signal_described(text: &str, is_linux: bool) -> Option<u64> {
    let bus = if is_linux { 7 } else { 10 };
    let text = text.to_ascii_lowercase();
    #[rustfmt::skip]
    let words = [
        ("illegal instruction", 4), ("runtime failure", 4), ("trace trap", 5), ("system trap", 5), ("trap", 5),
        ("abort", 6), ("bus error", bus), ("floating point", 8), ("arithmetic", 8), ("bad pointer", 11),
        ("segmentation", 11), ("quit", 3),
    ];
    let mut words = words.iter();
    Some(words.find(|(word, _)| text.contains(word))?.1)
}

/// The Mach exceptions (`mach/exception_types.h`).
pub(super) fn exception_name(number: u64) -> Option<&'static str> {
    #[rustfmt::skip]
    const NAMES: [&str; 13] = [
        "EXC_BAD_ACCESS", "EXC_BAD_INSTRUCTION", "EXC_ARITHMETIC", "EXC_EMULATION", "EXC_SOFTWARE",
        "EXC_BREAKPOINT", "EXC_SYSCALL", "EXC_MACH_SYSCALL", "EXC_RPC_ALERT", "EXC_CRASH",
        "EXC_RESOURCE", "EXC_GUARD", "EXC_CORPSE_NOTIFY",
    ];
    let at = usize::try_from(number.checked_sub(1)?).ok()?;
    NAMES.get(at).copied()
}

/// The signal that a Mach exception becomes where no handler takes it (xnu's `ux_exception`).
pub(super) fn signal_of_exception(name: &str) -> Option<&'static str> {
    Some(match name {
        "EXC_BAD_ACCESS" => "SIGSEGV",
        "EXC_BAD_INSTRUCTION" => "SIGILL",
        "EXC_ARITHMETIC" => "SIGFPE",
        "EXC_BREAKPOINT" => "SIGTRAP",
        _ => return None,
    })
}

/// Nanoseconds, from `20 sec`, `1,250 ms`.
pub(super) fn duration(text: &str) -> Option<u64> {
    let text = text.replace(',', "");
    let text = text.trim();
    // `20 sec`, or `4.20s`.
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (amount, unit) = text.split_at(at);
    let amount: f64 = amount.parse().ok()?;
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" | "sec" | "secs" | "second" | "seconds" => 1e9,
        "min" | "mins" | "minute" | "minutes" => 60e9,
        _ => return None,
    };
    (amount >= 0.0).then_some((amount * unit) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_date() {
        // `date -u -d '2022-09-18 15:28:37 +0900' +%s`
        for (text, expected) in [
            (
                "2022-09-18 15:28:37.3451 +0900",
                Some(1_663_482_517_345_100_000),
            ),
            ("2017-01-26T10:49:18Z", Some(1_485_427_758_000_000_000)),
            ("2019-01-09 17:42:22 +0000", Some(1_547_055_742_000_000_000)),
            (
                "Wed May 01 2024 10:00:00 GMT+0200 (Central European Summer Time)",
                Some(1_714_550_400_000_000_000),
            ),
            ("yesterday", None),
            ("2019-é1-09 17:42:22 +0000", None),
        ] {
            assert_eq!(time(text), expected, "{text}");
        }
    }

    #[test]
    fn seconds_with_a_fraction_are_those_that_were_written() {
        let at = Value::Float(1_714_557_600.25);
        assert_eq!(instant(&at), 1_714_557_600_250_000_000);
        assert_eq!(instant(&Value::Float(f64::MAX)), u64::MAX);
    }

    #[test]
    fn ids_have_hyphens_or_not() {
        assert_eq!(id("2d903291397d3d14bfca52c7fb8c5e00").len(), 16);
        let unprefixed = "f3edf28876ba5ab79e4649010d06bbcf";
        assert_eq!(id(&format!("{unprefixed}0")), id(unprefixed));
        assert_eq!(id("f3edf288-76ba-5ab7-9e46-49010d06bbcf-a"), id(unprefixed));
        let hyphens = id("82D13D98-219E-3040-B62A-07A297007A7C");
        assert_eq!(hyphens[..2], [0x82, 0xd1]);
        assert!(id("00000000-0000-0000-0000-000000000000").is_empty());
        assert!(id("none").is_empty());
    }

    #[test]
    fn systems_have_a_name_of_several_words() {
        let os = os("iPhone OS 16.0 (20A362)");
        assert_eq!((&*os.name, &*os.version), ("iPhone OS", "16.0"));
        assert_eq!(os.build.as_deref(), Some("20A362"));
        assert_eq!(super::os("macOS 14.5").version, "14.5");
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("20 sec"), Some(20_000_000_000));
        assert_eq!(duration("1,250 ms"), Some(1_250_000_000));
        assert_eq!(duration("long"), None);
    }
}
