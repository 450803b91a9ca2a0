//! Damages as they are found.

use crate::report::damage::{Damage, DamageKind};
use crate::report::limits;

/// Damages found so far, as many as are told one by one.
#[derive(Debug, Default)]
pub(crate) struct Damages {
    list: Vec<Damage>,
    more: u64,
    /// What is added to each offset: where the bytes stand in their stream.
    pub(crate) base: u64,
}

impl Damages {
    pub(crate) fn new(base: u64) -> Damages {
        Damages {
            base,
            ..Damages::default()
        }
    }

    pub(crate) fn add(
        &mut self,
        offset: usize,
        kind: DamageKind,
        message: impl FnOnce() -> String,
    ) {
        if self.list.len() >= limits::DAMAGES {
            self.more = self.more.saturating_add(1);
            return;
        }
        let offset = self.base.saturating_add(offset as u64);
        self.list.push(Damage {
            offset,
            kind,
            message: message(),
        });
    }

    pub(crate) fn into_list(mut self) -> Vec<Damage> {
        self.list.sort_by_key(|damage| damage.offset);
        if self.more > 0 {
            let offset = self.list.last().map_or(0, |last| last.offset);
            let message = format!("{} more damages behind it are not listed", self.more);
            self.list.push(Damage {
                offset,
                kind: DamageKind::More,
                message,
            });
        }
        self.list
    }
}
