//! Judges a report as a whole: its head, its end and its checksum.

use super::{HeadState, SectionReader};
use crate::report::checksum::crc32;
use crate::report::damage::{DamageKind, ReadError, looks_like};
use crate::report::model::*;
use crate::report::section::{Checks, SectionAt};

impl SectionReader<'_> {
    /// Fails unless the bytes are a report in a version that can be read.
    pub(super) fn judge_head(&mut self, format: Option<Format>) -> Result<(), ReadError> {
        if b"\x92\xa4head".starts_with(self.bytes) {
            return Err(ReadError::CutInHead {
                bytes: self.bytes.len() as u64,
            });
        }
        let not_a_report = |looks_like| {
            Err(ReadError::NotAReport {
                offset: self.damages.base,
                looks_like,
            })
        };
        match (self.head, format) {
            (HeadState::Read, Some(Format::Other)) => not_a_report(Some(
                "a report of another kind: its `format` is not \"wedjat\"",
            )),
            (HeadState::Read, _) => {
                let version = self.report.head.version;
                if version != VERSION {
                    return Err(ReadError::Version { version });
                }
                Ok(())
            }
            // A single section may be one by chance, unless its kind is known.
            (HeadState::Missing, _) if self.sections == 0 || !self.has_known_sections() => {
                not_a_report(looks_like(self.bytes))
            }
            (HeadState::Damaged, _) if self.sections == 0 => {
                if self.cut {
                    return Err(ReadError::CutInHead {
                        bytes: self.bytes.len() as u64,
                    });
                }
                not_a_report(looks_like(self.bytes))
            }
            (HeadState::Missing | HeadState::Damaged, _) => {
                self.damages.add(0, DamageKind::Head, || {
                    "the report has no `head` that can be read: app, system, time and process are \
                     unknown"
                        .to_owned()
                });
                Ok(())
            }
        }
    }

    fn has_known_sections(&self) -> bool {
        self.sections > self.report.unknown.len() as u64
    }

    pub(super) fn judge_crc(&mut self, section: &SectionAt<'_>, end: &End) {
        let before = self.bytes.get(self.head_start..section.start);
        let before = before.unwrap_or_default();
        let actual = match self.checks {
            // It was found to fit.
            Checks::Ignore => end.crc32,
            _ => crc32(0, before),
        };
        if actual != end.crc32 {
            let stated = end.crc32;
            let hint = match self.checks {
                Checks::Required => "sections whose own check fits are whole",
                _ => "some of what was read may be wrong",
            };
            self.damages.add(section.start, DamageKind::Crc, || {
                format!(
                    "the bytes before `end` have the CRC-32 {actual:08x}, and it states {stated:08x}: \
                     the file was changed after it was written; {hint}"
                )
            });
        }
        if end.sections != self.sections {
            let (stated, actual) = (end.sections, self.sections);
            self.damages.add(section.start, DamageKind::Count, || {
                format!("`end` counts {stated} sections, and {actual} were read: some are missing")
            });
        }
    }

    pub(super) fn judge_end(&mut self, ended_at: Option<usize>) {
        if ended_at.is_none() && !self.cut {
            self.damages.add(self.bytes.len(), DamageKind::NoEnd, || {
                "the file has no `end`: its process died or is still writing, or the copy was cut; the \
                 sections that are there are whole"
                    .to_owned()
            });
        }
    }
}
