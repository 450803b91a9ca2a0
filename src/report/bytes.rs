//! A report from memory back to bytes: what was read, unknown kinds and keys included.

use super::checksum::crc32;
use super::limits;
use super::model::*;
use super::wire::section::{Encoded, Rules, WriteSection, encode};
use super::write::ClosedBy;

/// The bytes of a report, as its writer would have written them.
///
/// They read back as the same report, with keys that this version does not know. Only [`Report::end`] is made
/// anew, with the CRC and count of these bytes. A report without `end` gets none. Sections are in the order of worth:
/// - head, event, first thread, images, vitals, capture,
/// - samples, the other threads, context, memory, loss,
/// - the end of the stall, unknown kinds.
///
/// Allocates: for tools, not for signal handlers.
///
/// ```
/// use wedjat::report::{self, Report};
/// let mut report = Report::default();
/// report.head.app.name = "MyApp".to_owned();
/// let bytes = report::to_bytes(&report);
/// assert_eq!(report::read(&bytes)?.report, report);
/// # Ok::<(), report::ReadError>(())
/// ```
pub fn to_bytes(report: &Report) -> Vec<u8> {
    // A section that is no map has no room for a check; then no section has one.
    let is_map = |value: &Value| matches!(value, Value::Map(_));
    let rules = Rules {
        checked: report.unknown.iter().all(|(_, value)| is_map(value)),
        text_bytes: limits::TEXT_BYTES,
        cuts_values: false,
    };
    let mut file = ReportFile {
        bytes: Vec::new(),
        sections: 0,
        buffer: vec![0; 1 << 16],
        rules,
    };
    let (first, others) = report.threads.split_at(report.threads.len().min(1));
    file.section(&report.head);
    file.sections(&report.event);
    file.sections(first);
    file.sections(&report.images);
    file.sections(&report.vitals);
    file.sections(&report.capture);
    file.sections(&report.samples);
    file.sections(others);
    file.sections(&report.context);
    file.sections(&report.memory);
    file.sections(&report.loss);
    file.sections(&report.stall_end);
    for (kind, value) in &report.unknown {
        let rules = Rules {
            checked: rules.checked && is_map(value),
            ..rules
        };
        file.fitting(|buffer| encode(buffer, kind, rules, value));
    }
    if let Some(end) = &report.end {
        let closed_by = match end.closed_by.as_str() {
            "" => ClosedBy::Writer.as_str().to_owned(),
            word => word.to_owned(),
        };
        let (crc32, sections) = (crc32(0, &file.bytes), file.sections + 1);
        file.section(&End {
            crc32,
            sections,
            closed_by,
            extra: end.extra.clone(),
        });
    }
    file.bytes
}

struct ReportFile {
    bytes: Vec<u8>,
    sections: u64,
    buffer: Vec<u8>,
    rules: Rules,
}

impl ReportFile {
    fn sections<'a, S: WriteSection + 'a>(&mut self, sections: impl IntoIterator<Item = &'a S>) {
        sections
            .into_iter()
            .for_each(|section| self.section(section));
    }

    fn section(&mut self, section: &impl WriteSection) {
        let rules = self.rules;
        self.fitting(|buffer| section.encode(buffer, rules));
    }

    /// Takes over what `encode` writes, in a buffer with room for all of it.
    fn fitting(&mut self, encode: impl Fn(&mut [u8]) -> Encoded) {
        let len = loop {
            let Encoded { len, dropped, .. } = encode(&mut self.buffer);
            if (len > 0 && dropped == 0) || self.buffer.len() >= limits::SECTION_BYTES {
                break len;
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        };
        self.bytes.extend_from_slice(&self.buffer[..len]);
        self.sections += u64::from(len > 0);
    }
}
