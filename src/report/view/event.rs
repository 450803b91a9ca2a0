//! `event`: what happened.

use super::optional::{optional_text, optional_unsigned};
use crate::report::encode::MapEncoder;
use crate::report::model::EventKind;

/// What `event` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventView<'a> {
    /// Which kind of event.
    pub kind: EventKind,
    /// Whether the process dies of it.
    pub fatal: bool,
    /// For a live report what the app gave; else one line for people.
    pub reason: Option<&'a str>,
    /// The signal, for a crash.
    pub signal: Option<SignalView<'a>>,
    /// Name of the exception or of the panicking thread.
    pub name: Option<&'a str>,
    /// Message of the panic or exception.
    pub message: Option<&'a str>,
    /// `file:line:column` of the panic.
    pub location: Option<&'a str>,
    /// Class of a stall.
    pub class: Option<&'a str>,
    /// The thresholds that a stall passed.
    pub thresholds: Option<ThresholdsView>,
}

/// What `event.thresholds` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThresholdsView {
    /// One beat's time-out, nanoseconds.
    pub timeout: u64,
    /// So many time-outs in a row are a stall.
    pub strikes: u64,
}

/// What `event.signal` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct SignalView<'a> {
    /// Its number.
    pub number: u64,
    /// As `SIGSEGV`.
    pub name: &'a str,
    /// `si_code`.
    pub code: i64,
    /// As `SEGV_MAPERR`.
    pub code_name: Option<&'a str>,
    /// The fault address.
    pub address: Option<u64>,
}

impl EventView<'_> {
    pub(crate) const KIND: &'static str = "event";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        self.encode_with(m, Some(self.kind.as_str()), |_| {}, |_| {});
    }

    pub(crate) fn encode_with(
        &self,
        m: &mut MapEncoder<'_, '_>,
        kind: Option<&str>,
        signal_extra: impl FnOnce(&mut MapEncoder<'_, '_>),
        thresholds_extra: impl FnOnce(&mut MapEncoder<'_, '_>),
    ) {
        optional_text(m, "type", kind);
        m.bool("fatal", self.fatal);
        if let Some(signal) = &self.signal {
            m.map("signal", |m| {
                m.unsigned("number", signal.number);
                m.text("name", signal.name);
                m.signed("code", signal.code);
                optional_text(m, "code_name", signal.code_name);
                optional_unsigned(m, "address", signal.address);
                signal_extra(m);
            });
        }
        if let Some(thresholds) = self.thresholds {
            m.map("thresholds", |m| {
                m.unsigned("timeout", thresholds.timeout);
                m.unsigned("strikes", thresholds.strikes);
                thresholds_extra(m);
            });
        }
        optional_text(m, "class", self.class);
        optional_text(m, "name", self.name);
        optional_text(m, "location", self.location);
        optional_text(m, "reason", self.reason);
        optional_text(m, "message", self.message);
    }
}
