//! The event of a crash report, from the labels at its beginning.

use super::CrashText;
use crate::report::{EventKind, Signal, Value};
use crate::symbolicate::import::draft::Draft;
use crate::symbolicate::import::ips::{code_name, fault_address};
use crate::symbolicate::import::values;

impl CrashText {
    pub(super) fn event(&mut self, draft: &mut Draft) {
        let labels = &mut self.labels;
        let kind = labels.take("Exception Type");
        let subtype = labels.take("Exception Subtype");
        let codes = labels.take_one(&["Exception Codes", "Exception Codes (raw)"]);
        let reason = labels.take_one(&["Termination Reason", "Termination Signal"]);
        let crashed = labels.take_one(&["Triggered by Thread", "Crashed Thread"]);
        let hang = labels
            .get("Event")
            .is_some_and(|event| event.contains("hang") || event.contains("spin"));
        let message = self.application_message();
        let number = crashed.and_then(|text| {
            text.split_whitespace()
                .next()
                .and_then(|word| word.parse::<u64>().ok())
        });
        if let Some(number) = number.filter(|_| draft.report.threads.iter().all(|t| !t.crashed)) {
            let found = draft
                .report
                .threads
                .iter_mut()
                .find(|thread| thread.id == number);
            found.into_iter().for_each(|thread| thread.crashed = true);
        }
        let event = draft.event();
        if event.kind != EventKind::Exception {
            event.kind = if hang {
                EventKind::Stall
            } else {
                EventKind::Crash
            };
        }
        event.fatal = !hang;
        event.reason = reason;
        event.message = message;
        let Some(kind) = kind else {
            return;
        };
        // `EXC_BAD_ACCESS (SIGSEGV)`, or the signal alone.
        let (name, signal) = match kind.split_once(" (") {
            Some((name, signal)) => (name.trim(), Some(signal.trim_end_matches(')').to_owned())),
            None if kind.starts_with("SIG") => ("", Some(kind.trim().to_owned())),
            None => (
                kind.trim(),
                values::signal_of_exception(kind.trim()).map(str::to_owned),
            ),
        };
        event.name = Some(name.to_owned()).filter(|name| !name.is_empty());
        // `0x0000000000000001, 0x000000018a98520c`, `KERN_INVALID_ADDRESS at 0x10`, `SEGV_MAPERR at 0x88`
        let numbers: Vec<u64> = codes
            .iter()
            .flat_map(|codes| codes.split(','))
            .filter_map(|code| values::number(code).filter(|_| code.contains("0x")))
            .collect();
        let words = subtype.as_deref().or(codes.as_deref());
        if let Some(signal) = signal {
            event.signal = Some(Signal {
                number: values::signal_number(&signal),
                name: signal,
                code: numbers.first().map_or(0, |code| *code as i64),
                code_name: words.and_then(code_name),
                address: fault_address(event.name.as_deref(), words, &numbers),
                extra: Vec::new(),
            });
        }
        let codes = codes.map(|codes| ("exception_codes".to_owned(), Value::Text(codes)));
        let subtype = subtype.map(|text| ("exception_subtype".to_owned(), Value::Text(text)));
        event.extra.extend(codes.into_iter().chain(subtype));
    }

    /// The lines behind `Application Specific Information:`, which has no value of its own.
    fn application_message(&mut self) -> Option<String> {
        let title = "Application Specific Information:";
        let at = self.rest.iter().position(|line| line.trim() == title)?;
        let end = self.rest[at + 1..]
            .iter()
            .position(|line| line.trim().ends_with(':'))
            .map_or(self.rest.len(), |len| at + 1 + len);
        let lines: Vec<String> = self.rest.drain(at..end).skip(1).collect();
        let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        Some(lines.join("\n")).filter(|text| !text.is_empty())
    }
}
