//! What happened.

use super::{Extra, Value};

/// What a report is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum EventKind {
    /// The watched thread's run loop did not come round in time.
    Stall,
    /// A fatal signal or Mach exception.
    Crash,
    /// A Rust panic.
    Panic,
    /// An uncaught Objective-C or C++ exception.
    Exception,
    /// Asked for by the app.
    #[default]
    Live,
    /// Too much CPU for too long.
    Cpu,
    /// Too much memory.
    Memory,
    /// A type that this version does not know; its name is in [`Event::extra`] under `type`.
    Other,
}

impl EventKind {
    /// The word in the report, as `stall`.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Stall => "stall",
            EventKind::Crash => "crash",
            EventKind::Panic => "panic",
            EventKind::Exception => "exception",
            EventKind::Live => "live",
            EventKind::Cpu => "cpu",
            EventKind::Memory => "memory",
            EventKind::Other => "other",
        }
    }

    /// From the word in the report; [`EventKind::Other`] for a word that this version does not know.
    pub fn from_word(word: &str) -> EventKind {
        match word {
            "stall" => EventKind::Stall,
            "crash" => EventKind::Crash,
            "panic" => EventKind::Panic,
            "exception" => EventKind::Exception,
            "live" => EventKind::Live,
            "cpu" => EventKind::Cpu,
            "memory" => EventKind::Memory,
            _ => EventKind::Other,
        }
    }
}

impl Event {
    /// The word in the report that says what happened, be it one that this version does not know.
    pub fn word(&self) -> &str {
        word(
            self.kind.as_str(),
            self.kind == EventKind::Other,
            &self.extra,
            "type",
        )
    }
}

/// `known`, or what stands in its place in `extra`.
pub(super) fn word<'a>(known: &'a str, other: bool, extra: &'a Extra, key: &str) -> &'a str {
    let stated = extra.iter().find(|(name, _)| other && name == key);
    match stated {
        Some((_, Value::Text(word))) => word,
        _ => known,
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Event {
    /// Which kind of event.
    pub kind: EventKind,
    /// Whether the process died of it.
    pub fatal: bool,
    /// For a live report what the app gave; else one line for people.
    pub reason: Option<String>,
    /// The signal, for a crash.
    pub signal: Option<Signal>,
    /// Name of the exception or panic thread.
    pub name: Option<String>,
    /// Message of the panic or exception.
    pub message: Option<String>,
    /// `file:line:column` of the panic.
    pub location: Option<String>,
    /// Class of a stall: `busy`, `blocked`, `starved`, `suspended`, `debugger`, `modal`, `launch`.
    pub class: Option<String>,
    /// The thresholds that a stall passed.
    pub thresholds: Option<Thresholds>,
    /// Keys not known here.
    pub extra: Extra,
}

/// A fatal signal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signal {
    /// Its number on the platform that wrote the report.
    pub number: u64,
    /// As `SIGSEGV`.
    pub name: String,
    /// `si_code`.
    pub code: i64,
    /// As `SEGV_MAPERR`.
    pub code_name: Option<String>,
    /// The fault address; `None` where the CPU gave none.
    pub address: Option<u64>,
    /// Keys not known here.
    pub extra: Extra,
}

/// When a stall is one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Thresholds {
    /// One beat's time-out, nanoseconds.
    pub timeout: u64,
    /// So many time-outs in a row are a stall.
    pub strikes: u64,
    /// Keys not known here.
    pub extra: Extra,
}
