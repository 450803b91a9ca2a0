//! Facts of a report besides its stacks, in words: the same for every format made for people.

use std::fmt::Write as _;
use std::time::SystemTime;

use super::{json::value_json, plain};
use crate::report::model::{Event, EventKind, Os, Report, Signal, Thread, Value, Watched};
use crate::report::time::{nanos, since_epoch};
use crate::symbolicate::blame::is_kernels;
use crate::symbolicate::frame::id_text;
use crate::symbolicate::keys::NUMBER;

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
    let joined = |parts: Vec<String>| Some(parts.join(", ")).filter(|text| !text.is_empty());
    if let Some(cpu) = &vitals.cpu {
        let shares = [("process", cpu.process), ("watchdog", cpu.watchdog)].into_iter();
        let shares = shares.filter_map(|(of, share)| {
            let share = share? * 100.0;
            Some(format!("{of} {share:.1} % of a core"))
        });
        let mut parts: Vec<String> = shares.collect();
        let cores = cpu.cores.map(|cores| count(cores, "core"));
        parts.extend(match (cpu.device, cores) {
            (Some(busy), Some(cores)) => Some(format!("device {busy:.1} of {cores} busy")),
            (Some(busy), None) => Some(format!("device {busy:.1} cores busy")),
            (None, cores) => cores,
        });
        add("CPU", joined(parts));
    }
    if let Some(memory) = &vitals.memory {
        let sizes = [
            ("resident", memory.resident),
            ("footprint", memory.footprint),
            ("peak", memory.peak),
            ("of the device", memory.device_total),
            ("free", memory.device_free),
        ];
        let sizes = sizes.into_iter();
        let parts = sizes.filter_map(|(what, size)| Some(format!("{what} {}", bytes(size?))));
        add("Memory", joined(parts.collect()));
    }
    let battery = vitals.battery.map(|level| level * 100.0);
    add("Battery", battery.map(|level| format!("{level:.0} %")));
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
    /// Nanoseconds; 0 of a breadcrumb, `None` of a mark that is not over.
    pub lasted: Option<u64>,
}

impl Moment {
    /// `page, lasted 120 ms`; of what takes no time the words alone.
    pub fn text(&self) -> String {
        match self.lasted {
            Some(0) => self.what.clone(),
            Some(lasted) => format!("{}, lasted {}", self.what, duration(lasted)),
            None => format!("{}, not over", self.what),
        }
    }

    /// When it was over, by the monotonic clock; `last` if it is not.
    pub fn end(&self, last: u64) -> u64 {
        let end = |lasted| self.start.saturating_add(lasted);
        self.lasted.map_or(last.max(self.start), end)
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
        when: time_in_words(report, start),
        start,
        what: what.to_owned(),
        lasted,
    };
    let keys = context.keys.iter();
    let keys = keys.map(|(key, value)| (key.clone(), value_text(value)));
    let gauges = context.gauges.iter();
    let gauges = gauges.map(|(name, value)| (name.clone(), value.to_string()));
    let marks = context.marks.iter();
    let breadcrumbs = context.breadcrumbs.iter();
    AppState {
        keys: keys.collect(),
        gauges: gauges.collect(),
        marks: marks
            .map(|(name, start, lasted)| moment(nanos(*start), name, lasted.map(nanos)))
            .collect(),
        breadcrumbs: breadcrumbs
            .map(|(at, text)| moment(nanos(*at), text, Some(0)))
            .collect(),
    }
}

/// Events that were not reported since launch, and the cost of the report.
pub(super) fn recorder(report: &Report) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(capture) = &report.capture {
        let time = |time: Option<_>| time.map(nanos).map(duration);
        // The pictures count those that there are.
        let samples = capture.samples.filter(|_| report.samples.is_empty());
        let parts = [
            time(capture.stopped).map(|time| format!("thread stopped for {time}")),
            time(capture.unwind).map(|time| format!("unwinding {time}")),
            capture
                .bytes
                .map(|size| format!("{} of stacks copied", bytes(size))),
            samples.map(|number| count(number, "sample")),
            capture
                .unanswered
                .map(|number| format!("{} did not answer", count(number, "thread"))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
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

/// What a thread is and was at: `main thread`, `blocked`, `in futex`.
pub(super) fn describe_thread(thread: &Thread) -> impl Iterator<Item = String> {
    let words = [thread.main.then_some("main thread"), thread.state_word()];
    let syscall = thread.syscall.as_ref().map(|call| format!("in {call}"));
    let words = words.into_iter().flatten().map(str::to_owned);
    words.chain(syscall)
}

/// Returns true if a thread crashed; that of a stall, which recorders mark in the same way, did not.
pub(super) fn has_crashed(report: &Report, thread: &Thread) -> bool {
    let event = report.event.as_ref();
    thread.crashed && event.is_none_or(|event| event.kind != EventKind::Stall)
}

/// The number of a thread: the report's own, where another recorder gave it one, else its place. Control characters are escaped.
pub(super) fn number(thread: &Thread, index: usize) -> String {
    let own = thread.extra.iter().find(|(key, _)| key == NUMBER);
    let own = own.map(|(_, own)| plain(&value_text(own)).into_owned());
    own.unwrap_or_else(|| index.to_string())
}

/// A moment of the monotonic clock, in words, from when the report was begun.
fn time_in_words(report: &Report, at: u64) -> String {
    let clock = nanos(report.head.clock);
    if at <= clock {
        format!("{} before", duration(clock - at))
    } else {
        format!("{} after", duration(at - clock))
    }
}

/// `iOS 17.4 (21E219)`.
pub(super) fn os_text(os: &Os) -> String {
    let build = os.build.as_ref();
    let build = build.map_or(String::new(), |build| format!(" ({build})"));
    format!("{} {}{build}", os.name, os.version)
}

/// The code of a signal and its address, empty if neither is known; of a trap first why the compiler or the runtime let it
/// die: `trap (Swift: Index out of range), ILL_ILLOPN at 0x0000000100003f2c`.
pub(super) fn signal_code(event: &Event, signal: &Signal) -> String {
    let number = (signal.code != 0).then(|| signal.code.to_string());
    let code = signal.code_name.clone().or(number).unwrap_or_default();
    let is_trap = matches!(&*signal.name, "SIGILL" | "SIGTRAP");
    let reason = event.reason.as_deref().filter(|_| is_trap);
    let mut text = match reason.filter(|reason| !is_kernels(reason)) {
        Some(reason) if code.is_empty() => format!("trap ({reason})"),
        Some(reason) => format!("trap ({reason}), {code}"),
        None => code,
    };
    let _ = (signal.address).map(|at| write!(text, " at {at:#018x}"));
    text.trim_start().to_owned()
}

/// The duration of a stall, and how it ended.
pub(super) fn lasted(report: &Report) -> Option<String> {
    let is_stall = |event: &Event| event.kind == EventKind::Stall;
    match &report.stall_end {
        Some(end) if end.duration.is_zero() => Some(end.how_word().to_owned()),
        Some(end) => {
            let least = if end.at_least { "≥ " } else { "" };
            let duration = duration(nanos(end.duration));
            Some(format!("{least}{duration} ({})", end.how_word()))
        }
        None if report.event.as_ref().is_some_and(is_stall) => {
            Some("unknown: the report ends before the stall does".into())
        }
        None => None,
    }
}

/// The words of an event that are known, each with its label; `thread` is that of a panic's thread, `name` of others.
pub(super) fn event_facts<'a>(
    report: &'a Report,
    event: &'a Event,
    thread: &'static str,
    name: &'static str,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let named = match event.kind {
        EventKind::Panic => thread,
        _ => name,
    };
    let subtype = event.extra.iter().find_map(|(key, value)| match value {
        Value::Text(text) if key == "subtype" => Some(text.as_str()),
        _ => None,
    });
    let words = [
        (named, event.name.as_deref()),
        ("Subtype", subtype),
        ("Message", event.message.as_deref()),
        ("Location", event.location.as_deref()),
        ("Reason", report.reason()),
    ];
    let words = words.into_iter();
    words.filter_map(|(label, text)| Some((label, text?)))
}

/// The watched thread that stalled, and its pool: `tokio 3 of 16, not the main thread; 2 in a stall, 13 at rest`.
pub(super) fn watched(report: &Report) -> Option<String> {
    let event = report.event.as_ref()?;
    let watched = event.watched.as_ref()?;
    let mut text = watched_name(watched);
    let _ = (watched.pool).map(|pool| write!(text, " of {pool}"));
    let is_it = |thread: &&Thread| Some(thread.id) == event.thread;
    let is_main = (report.threads.iter().find(is_it)).is_some_and(|thread| thread.main);
    text.push_str(if is_main {
        ", the main thread"
    } else {
        ", not the main thread"
    });
    if let (Some(stalled), Some(at_rest)) = (watched.stalled, watched.at_rest) {
        let _ = write!(text, "; {stalled} in a stall, {at_rest} at rest");
    }
    Some(text)
}

/// The name of a watched thread, in a pool with its number: `tokio 3`.
pub(super) fn watched_name(watched: &Watched) -> String {
    let mut text = match watched.name.as_str() {
        "" => "(no name)".to_owned(),
        name => name.to_owned(),
    };
    let _ = (watched.number).map(|number| write!(text, " {number}"));
    text
}

/// When the stall began, by the monotonic clock: the report was begun when it was confirmed, as long after
/// as its thresholds are.
pub(super) fn began(report: &Report) -> u64 {
    let event = report.event.as_ref();
    let stall = event.filter(|event| event.kind == EventKind::Stall);
    let limits = stall.and_then(|event| event.thresholds.as_ref());
    let until_confirmed = limits.map_or(0, |of| nanos(of.timeout).saturating_mul(of.strikes));
    let end = report.stall_end.as_ref();
    let lasted = end.map_or(u64::MAX, |end| nanos(end.duration));
    nanos(report.head.clock).saturating_sub(until_confirmed.min(lasted))
}

/// Nanoseconds for people.
pub(super) fn duration(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match nanoseconds {
        0..1_000_000 => format!("{:.0} µs", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.0} ms", seconds * 1e3),
        1_000_000_000..120_000_000_000 => format!("{seconds:.2} s"),
        _ => format!("{:.1} min", seconds / 60.0),
    }
}

pub(super) fn bytes(count: u64) -> String {
    match count {
        0..1_024 => format!("{count} B"),
        1_024..1_048_576 => format!("{:.1} KiB", count as f64 / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", count as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", count as f64 / 1_073_741_824.0),
    }
}

/// The lines about copies, and about reports that have the ids of others and are no copies of them.
pub(crate) fn copies_lines(again: u64, others: u64) -> impl Iterator<Item = String> {
    let (s, reports) = (if again == 1 { "s" } else { "" }, count(again, "report"));
    let again = (again > 0).then(|| format!("{reports} came again and count{s} once"));
    let reports = count(others, "report");
    let other = || format!("no copies, though their id came before: {reports}; each counts");
    again.into_iter().chain((others > 0).then(other))
}

/// `1 report`, `2 reports`.
pub(crate) fn count(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

/// The report's id; `None` where it has none.
pub(super) fn known_id(report: &Report) -> Option<String> {
    let id = &report.head.id;
    (*id != [0; 16]).then(|| id_text(id))
}

/// A time in words; `None` for the epoch, where a report has none.
pub(super) fn known_time(time: SystemTime) -> Option<String> {
    let at = since_epoch(time);
    (at > 0).then(|| date_time(at))
}

/// `2026-11-21 10:28:30.123 +0000`, from nanoseconds since the epoch.
pub(super) fn date_time(nanoseconds: u64) -> String {
    // All of `u64` lies within jiff's years.
    let at = jiff::Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default();
    at.strftime("%Y-%m-%d %H:%M:%S.%3f +0000").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::model::{AppContext, StallEnd, Thresholds};

    #[test]
    fn moments_count_from_where_the_report_began() {
        let mut report = Report::default();
        report.head.clock = Duration::from_secs(10);
        report.context = Some(AppContext {
            marks: vec![
                (
                    "page".into(),
                    Duration::from_secs(9),
                    Some(Duration::from_millis(300)),
                ),
                ("sync".into(), Duration::from_millis(10_500), None),
            ],
            ..AppContext::default()
        });
        assert_eq!(value_text(&Value::Float(f64::NAN)), "NaN");
        let marks = app_state(&report).marks;
        assert_eq!(
            (marks[0].when.as_str(), marks[0].text()),
            ("1.00 s before", "page, lasted 300 ms".into())
        );
        assert_eq!(
            (marks[1].when.as_str(), marks[1].text()),
            ("500 ms after", "sync, not over".into())
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

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date_time(0), "1970-01-01 00:00:00.000 +0000");
        let (leap, later) = (951_782_400_000_000_000, 1_795_257_510_123_000_000);
        assert_eq!(date_time(leap), "2000-02-29 00:00:00.000 +0000");
        assert_eq!(date_time(later), "2026-11-21 10:38:30.123 +0000");
    }

    #[test]
    fn a_trap_has_its_reason_and_an_exception_of_the_kernel_is_none() {
        let signal = Signal {
            name: "SIGTRAP".to_owned(),
            code_name: Some("TRAP_BRKPT".to_owned()),
            ..Signal::default()
        };
        let code = |reason: Option<&str>| {
            let event = Event {
                reason: reason.map(str::to_owned),
                ..Event::default()
            };
            signal_code(&event, &signal)
        };
        assert_eq!(code(None), "TRAP_BRKPT");
        assert_eq!(code(Some("EXC_BREAKPOINT")), "TRAP_BRKPT");
        let swift = "Swift: Index out of range";
        assert_eq!(code(Some(swift)), format!("trap ({swift}), TRAP_BRKPT"));
    }

    #[test]
    fn a_watched_thread_has_its_name_its_pool_and_if_it_is_the_main_one() {
        let watched_as = |main: bool, watched: Watched| {
            let mut report = Report::default();
            let mut thread = Thread::default();
            (thread.id, thread.main) = (7, main);
            report.threads = vec![thread, Thread::default()];
            report.event = Some(Event {
                thread: Some(7),
                watched: Some(watched),
                ..Event::default()
            });
            super::watched(&report).unwrap()
        };
        let named = |name: &str| Watched {
            name: name.to_owned(),
            ..Watched::default()
        };
        let pool = Watched {
            number: Some(3),
            pool: Some(16),
            at_rest: Some(13),
            stalled: Some(2),
            ..named("tokio")
        };
        assert_eq!(
            watched_as(false, pool),
            "tokio 3 of 16, not the main thread; 2 in a stall, 13 at rest"
        );
        assert_eq!(
            watched_as(false, named("render")),
            "render, not the main thread"
        );
        // The monitor was installed on another thread.
        assert_eq!(watched_as(true, named("ui")), "ui, the main thread");
        assert_eq!(
            watched_as(false, named("")),
            "(no name), not the main thread"
        );
    }
}
