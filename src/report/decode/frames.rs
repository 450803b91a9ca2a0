//! Stacks, and the gap in them.

use super::Decoder;
use crate::report::limits;
use crate::report::model::{Found, Frame, Omitted};
use crate::report::token::Token;

impl Decoder<'_, '_> {
    /// A stack. Where a frame can't be read, the gap is told as any other.
    pub(super) fn frames(&mut self, frames: &mut Vec<Frame>, omitted: &mut Option<Omitted>) {
        let Some(count) = self.count("frames", "an array") else {
            return;
        };
        frames.reserve((count as usize).min(limits::FRAMES));
        for index in 0..count as usize {
            let at = self.at;
            if frames.len() >= limits::FRAMES {
                let left = u64::from(count) - index as u64;
                self.limit("frames", "frames", limits::FRAMES);
                let gap = Omitted {
                    at: frames.len() as u64,
                    count: left,
                };
                widen_gap(frames, omitted, gap);
                (index..count as usize).for_each(|_| self.skip());
                return;
            }
            if let Some(frame) = self.frame() {
                frames.push(frame);
            } else {
                self.field(at, "frames", || {
                    format!("element {index} is no [pc, found, image]; it is shown as a gap")
                });
                let gap = Omitted {
                    at: frames.len() as u64,
                    count: 1,
                };
                widen_gap(frames, omitted, gap);
                self.at = at;
                self.skip();
            }
        }
    }

    /// A frame; where there is none, the place is not that of the next value.
    pub(super) fn frame(&mut self) -> Option<Frame> {
        let Some(Token::Array(length @ 3..)) = self.token() else {
            return None;
        };
        let Some(Token::Unsigned(pc)) = self.token() else {
            return None;
        };
        let Some(Token::Unsigned(found)) = self.token() else {
            return None;
        };
        let found = Found::from_code(u8::try_from(found).ok()?);
        let image = match self.token() {
            Some(Token::Unsigned(image)) => Some(u32::try_from(image).ok()?),
            Some(Token::Nil) => None,
            _ => return None,
        };
        let name = match self.peek() {
            Some(Token::Text(name)) if length > 3 => Some(self.utf8(self.at, name)),
            _ => None,
        };
        (3..length).for_each(|_| self.skip());
        Some(Frame {
            pc,
            found,
            image,
            name,
        })
    }

    pub(super) fn omitted(&mut self, key: &str) -> Option<Omitted> {
        let (at, end) = (self.at, self.end_of_value());
        let omitted = match (self.token(), self.token(), self.token()) {
            (Some(Token::Array(2..)), Some(Token::Unsigned(at)), Some(Token::Unsigned(count))) => {
                Some(Omitted { at, count })
            }
            _ => {
                self.field(at, key, || "is no [at, count]; it was skipped".to_owned());
                None
            }
        };
        self.at = end;
        omitted
    }
}

/// Adds `gap` to the one gap that a stack can tell; frames between the two are given up.
pub(super) fn widen_gap(frames: &mut Vec<Frame>, omitted: &mut Option<Omitted>, gap: Omitted) {
    let Some(before) = *omitted else {
        *omitted = Some(gap);
        return;
    };
    let (from, to) = (before.at.min(gap.at), before.at.max(gap.at));
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(frames.len());
    let given_up = frames.drain(index(from)..index(to)).len() as u64;
    let count = before
        .count
        .saturating_add(gap.count)
        .saturating_add(given_up);
    *omitted = Some(Omitted { at: from, count });
}
