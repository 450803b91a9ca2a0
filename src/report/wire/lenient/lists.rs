//! The elements of an array; frames among them that can't be read are a gap.

use serde::de::{self, DeserializeSeed, Visitor};

use super::{Error, Gap, Value, Walk};
use crate::report::limits;

impl<'a> Value<'_, 'a, '_> {
    pub(super) fn seq<V: Visitor<'a>>(
        &self,
        left: u32,
        at: usize,
        frames: bool,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut seq = Seq {
            walk: self.walk,
            at,
            left,
            index: 0,
            given: 0,
            frames,
        };
        let result = visitor.visit_seq(&mut seq);
        let end = (0..seq.left).fold(seq.at, |at, _| self.walk.skip(at));
        self.done(end, result)
    }
}

struct Seq<'w, 'a, 'd> {
    walk: &'w Walk<'a, 'd>,
    at: usize,
    left: u32,
    index: u64,
    /// How many frames were read.
    given: usize,
    /// Whether these are frames.
    frames: bool,
}

impl Seq<'_, '_, '_> {
    fn gap(&self, count: u64) {
        let given = self.given;
        let before = self.walk.gap.get().unwrap_or(Gap {
            from: given,
            to: given,
            count: 0,
        });
        let count = before.count.saturating_add(count);
        self.walk.gap.set(Some(Gap {
            to: given,
            count,
            ..before
        }));
    }
}

impl<'a> de::SeqAccess<'a> for Seq<'_, 'a, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if self.left > 0 && self.frames && self.given >= limits::FRAMES {
            self.walk.limit(self.at, "frames", limits::FRAMES);
            self.gap(u64::from(self.left));
            self.at = (0..self.left).fold(self.at, |at, _| self.walk.skip(at));
            self.left = 0;
        }
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let start = self.at;
        self.walk.end.set(0);
        self.walk.is_quiet.set(self.frames);
        self.walk.has_failed.set(false);
        let found = seed.deserialize(Value {
            walk: self.walk,
            at: start,
        });
        self.at = self.walk.end_of(start);
        if self.frames {
            if self.walk.has_failed.take() {
                let index = self.index;
                let what =
                    format_args!("element {index} is no [pc, found, image]; it is shown as a gap");
                self.walk.field(start, what);
                self.gap(1);
            } else {
                self.given += 1;
            }
        }
        self.index += 1;
        found.map(Some)
    }

    /// Each element takes a byte at least, and all are there.
    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}
