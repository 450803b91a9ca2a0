//! Facts of a report besides its stacks, in words: the same for every format made for people.

use super::json::value_json;
use super::units::{bytes, count, duration};
use crate::report::model::{EventKind, Report, Value};
use crate::report::time::nanos;

/// The vitals that are known, each with its label.
pub(super) fn vitals(report: &Report) -> Vec<(&'static str, String)> {
    let Some(vitals) = &report.vitals else {
        return Vec::new();
    };
    let mut facts = Vec::new();
    let mut add = |label, text: Option<String>| facts.extend(text.map(|text| (label, text)));
    let since = |time| format!("{} since the process started", duration(time));
    add("Uptime", vitals.uptime.map(nanos).map(since));
    let launch = match (vitals.launch_time.map(nanos), &vitals.launch_kind) {
        (Some(time), Some(kind)) => Some(format!("{} ({kind})", duration(time))),
        (Some(time), None) => Some(duration(time)),
        (None, kind) => kind.clone(),
    };
    add("Launch", launch);
    let rate = |rate| format!("{rate:.1} frames a second");
    add("Frame Rate", vitals.frame_rate.map(rate));
    if let Some(cpu) = &vitals.cpu {
        let mut parts = Vec::new();
        let of_a_core = |share: f64| format!("{:.1} % of a core", share * 100.0);
        parts.extend(
            cpu.process
                .map(|share| format!("process {}", of_a_core(share))),
        );
        parts.extend(
            cpu.watchdog
                .map(|share| format!("watchdog {}", of_a_core(share))),
        );
        parts.extend(match (cpu.device, cpu.cores) {
            (Some(busy), Some(cores)) => {
                Some(format!("device {busy:.1} of {} busy", count(cores, "core")))
            }
            (Some(busy), None) => Some(format!("device {busy:.1} cores busy")),
            (None, cores) => cores.map(|cores| count(cores, "core")),
        });
        add(
            "CPU",
            Some(parts.join(", ")).filter(|text| !text.is_empty()),
        );
    }
    if let Some(memory) = &vitals.memory {
        let sizes = [
            ("resident", memory.resident),
            ("footprint", memory.footprint),
            ("peak", memory.peak),
            ("of the device", memory.device_total),
            ("free", memory.device_free),
        ];
        let parts = sizes
            .iter()
            .filter_map(|(what, size)| Some(format!("{what} {}", bytes((*size)?))));
        let parts: Vec<String> = parts.collect();
        add(
            "Memory",
            Some(parts.join(", ")).filter(|text| !text.is_empty()),
        );
    }
    add(
        "Battery",
        vitals
            .battery
            .map(|level| format!("{:.0} %", level * 100.0)),
    );
    add("Thermal State", vitals.thermal.clone());
    let on = |on| if on { "on" } else { "off" }.to_owned();
    add("Low Power Mode", vitals.low_power.map(on));
    facts
}

/// The state that the app has set: keys, gauges, marks, breadcrumbs.
#[derive(Default)]
pub(super) struct AppState {
    /// Keys and values, in the order in which the app first set them.
    pub keys: Vec<(String, String)>,
    /// Gauges by name.
    pub gauges: Vec<(String, String)>,
    /// Timed marks and breadcrumbs: when, what, how long.
    pub marks: Vec<Moment>,
    pub breadcrumbs: Vec<Moment>,
}

/// Something that the app noted with its time.
pub(super) struct Moment {
    /// In words, from when the report was begun.
    pub when: String,
    /// Monotonic, nanoseconds.
    pub start: u64,
    pub what: String,
    /// Nanoseconds; `None` where it lasts still, or takes no time.
    pub lasted: Option<u64>,
}

impl Moment {
    /// `lasted 120 ms`, or that it did not end.
    pub fn how_long(&self) -> String {
        match self.lasted {
            Some(lasted) => format!("lasted {}", duration(lasted)),
            None => "not over".to_owned(),
        }
    }
}

impl AppState {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
            && self.gauges.is_empty()
            && self.marks.is_empty()
            && self.breadcrumbs.is_empty()
    }
}

pub(super) fn app_state(report: &Report) -> AppState {
    let Some(context) = &report.context else {
        return AppState::default();
    };
    let moment = |start: u64, what: &str, lasted| Moment {
        when: when(report, start),
        start,
        what: what.to_owned(),
        lasted,
    };
    let marks = context.marks.iter();
    let breadcrumbs = context.breadcrumbs.iter();
    AppState {
        keys: context
            .keys
            .iter()
            .map(|(key, value)| (key.clone(), value_text(value)))
            .collect(),
        gauges: context
            .gauges
            .iter()
            .map(|(name, value)| (name.clone(), value.to_string()))
            .collect(),
        marks: marks
            .map(|(name, start, lasted)| moment(nanos(*start), name, lasted.map(nanos)))
            .collect(),
        breadcrumbs: breadcrumbs
            .map(|(at, text)| moment(nanos(*at), text, None))
            .collect(),
    }
}

/// Events that were not reported since launch, and the cost of the report.
pub(super) fn recorder(report: &Report) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(capture) = &report.capture {
        let mut parts = Vec::new();
        parts.extend(
            capture
                .stopped
                .map(nanos)
                .map(|time| format!("thread stopped for {}", duration(time))),
        );
        parts.extend(
            capture
                .unwind
                .map(nanos)
                .map(|time| format!("unwinding {}", duration(time))),
        );
        parts.extend(
            capture
                .bytes
                .map(|size| format!("{} of stacks copied", bytes(size))),
        );
        parts.extend(capture.samples.map(|number| count(number, "sample")));
        parts.extend(
            capture
                .unanswered
                .map(|number| format!("{} did not answer", count(number, "thread"))),
        );
        if !parts.is_empty() {
            facts.push(("Capture Cost", parts.join(", ")));
        }
    }
    let counts = report.loss.as_ref().map_or(&[][..], |loss| &loss.counts);
    let lost = counts.iter().filter(|(_, number)| *number > 0);
    let lost: Vec<String> = lost
        .map(|(reason, number)| format!("{number} by {}", reason.replace('_', " ")))
        .collect();
    if !lost.is_empty() {
        facts.push(("Not Reported", lost.join(", ")));
    }
    facts
}

pub(super) fn value_text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        // JSON has no such numbers.
        Value::Float(number) if !number.is_finite() => number.to_string(),
        value => value_json(value).to_string(),
    }
}

/// A moment of the monotonic clock, in words, from when the report was begun.
fn when(report: &Report, at: u64) -> String {
    let clock = nanos(report.head.clock);
    if at <= clock {
        format!("{} before", duration(clock - at))
    } else {
        format!("{} after", duration(at - clock))
    }
}

/// When the stall began, by the monotonic clock: the report was begun when it was confirmed, as long after
/// as its thresholds are.
pub(super) fn began(report: &Report) -> u64 {
    let event = report.event.as_ref();
    let is_stall = event.is_some_and(|event| event.kind == EventKind::Stall);
    let limits = event
        .and_then(|event| event.thresholds.as_ref())
        .filter(|_| is_stall);
    let until_confirmed = limits.map_or(0, |limits| {
        nanos(limits.timeout).saturating_mul(limits.strikes)
    });
    let lasted = report
        .stall_end
        .as_ref()
        .map_or(u64::MAX, |end| nanos(end.duration));
    nanos(report.head.clock).saturating_sub(until_confirmed.min(lasted))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::model::{Context, Cpu, Event, StallEnd, Thresholds, Vitals};

    #[test]
    fn vitals_explain_their_units() {
        let report = Report {
            vitals: Some(Vitals {
                cpu: Some(Cpu {
                    process: Some(1.25),
                    device: Some(2.0),
                    cores: Some(2),
                    ..Cpu::default()
                }),
                frame_rate: Some(58.26),
                launch_time: Some(Duration::from_millis(1_200)),
                launch_kind: Some("cold".into()),
                battery: Some(0.42),
                low_power: Some(true),
                ..Vitals::default()
            }),
            ..Report::default()
        };
        let expected = [
            ("Launch", "1.20 s (cold)"),
            ("Frame Rate", "58.3 frames a second"),
            (
                "CPU",
                "process 125.0 % of a core, device 2.0 of 2 cores busy",
            ),
            ("Battery", "42 %"),
            ("Low Power Mode", "on"),
        ];
        let found = vitals(&report);
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(label, text)| (*label, text.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn moments_count_from_where_the_report_began() {
        let mut report = Report::default();
        report.head.clock = Duration::from_secs(10);
        report.context = Some(Context {
            marks: vec![
                (
                    "page".into(),
                    Duration::from_secs(9),
                    Some(Duration::from_millis(300)),
                ),
                ("sync".into(), Duration::from_millis(10_500), None),
            ],
            ..Context::default()
        });
        assert_eq!(value_text(&Value::Float(f64::NAN)), "NaN");
        let marks = app_state(&report).marks;
        assert_eq!(
            (marks[0].when.as_str(), marks[0].how_long()),
            ("1.00 s before", "lasted 300 ms".into())
        );
        assert_eq!(
            (marks[1].when.as_str(), marks[1].how_long()),
            ("500 ms after", "not over".into())
        );
        assert_eq!(began(&report), 10_000_000_000);
        report.event = Some(Event {
            kind: EventKind::Stall,
            thresholds: Some(Thresholds {
                timeout: Duration::from_millis(50),
                strikes: 5,
                ..Thresholds::default()
            }),
            ..Event::default()
        });
        report.stall_end = Some(StallEnd {
            duration: Duration::from_millis(400),
            ..StallEnd::default()
        });
        assert_eq!(began(&report), 9_750_000_000);
    }
}
