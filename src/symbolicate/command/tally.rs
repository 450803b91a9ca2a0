//! What is told once all reports are done: how many were damaged, and which debug files are missing.

use std::collections::BTreeMap;

use super::args::Args;
use super::{DAMAGED, DONE, NOTHING, Say};
use crate::symbolicate::format::missing_text;
use crate::symbolicate::{Missing, Symbolicated};

/// Missing debug files that are told; who lacks more has another trouble.
const MISSING: usize = 1 << 14;

/// What is told at the end.
#[derive(Default)]
pub(super) struct Tally {
    /// Reports of which something could be read.
    pub seen: u64,
    pub damaged: u64,
    pub missing: BTreeMap<(String, Vec<u8>), Missing>,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.seen += other.seen;
        self.damaged += other.damaged;
        for (key, missing) in other.missing {
            if self.missing.len() < MISSING {
                self.missing.entry(key).or_insert(missing);
            }
        }
    }

    pub fn note_missing(&mut self, report: &Symbolicated) {
        for missing in &report.missing {
            let key = (missing.name.clone(), missing.id.clone());
            self.missing.entry(key).or_insert_with(|| missing.clone());
        }
    }

    /// What people are told at the end, and the exit code.
    pub fn conclude(&self, args: &Args, say: &mut Say<'_>) -> u8 {
        // The system's own libraries are known to lack debug files: `--list-missing` has them.
        let missing: Vec<&Missing> = self
            .missing
            .values()
            .filter(|m| !(m.system && m.symbols))
            .collect();
        // Text names them itself.
        if !args.list_missing && !missing.is_empty() {
            say.warning("debug files missing (give them with --debug):");
            for missing in &missing {
                say.note(&format!("  {}", missing_text(missing)));
            }
        }
        match (self.seen, self.damaged) {
            (0, _) => NOTHING,
            (_, 1..) => DAMAGED,
            _ if args.strict && !missing.is_empty() => DAMAGED,
            _ => DONE,
        }
    }
}
