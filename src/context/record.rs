//! Layout of a record in its words: lengths and kind, a number, then the bytes of name and text.

use std::borrow::Cow;

use super::{NAME, TEXT};
use crate::report::ValueView;

/// The kind of a value, in the first word's last byte; 0 is an empty record.
mod kind {
    pub const NIL: u64 = 1;
    pub const BOOL: u64 = 2;
    pub const UNSIGNED: u64 = 3;
    pub const SIGNED: u64 = 4;
    pub const FLOAT: u64 = 5;
    pub const TEXT: u64 = 6;
    pub const BYTES: u64 = 7;
    pub const LINE: u64 = 8;
    pub const PAIR: u64 = 9;
}

/// Words that are written as a record.
///
/// Word 0: kind (8 bits), length of the name (8), length of the text (16). Word 1: a number. Then
/// the name's bytes and the text's, each from a word on. A `LINE` has its ticket in the place of the
/// name. A `PAIR` has a second number in the very last word, and a name that ends before it.
pub(super) struct Record<'a, const N: usize>(pub &'a mut [u64; N]);

impl<const N: usize> Record<'_, N> {
    pub fn set_value(mut self, key: &str, value: ValueView<'_>) {
        let (kind, number, text): (u64, u64, &[u8]) = match value {
            ValueView::Nil => (kind::NIL, 0, &[]),
            ValueView::Bool(value) => (kind::BOOL, u64::from(value), &[]),
            ValueView::Unsigned(value) => (kind::UNSIGNED, value, &[]),
            ValueView::Signed(value) => (kind::SIGNED, value as u64, &[]),
            ValueView::Float(value) => (kind::FLOAT, value.to_bits(), &[]),
            ValueView::Text(text) => (kind::TEXT, 0, cut(text, TEXT).as_bytes()),
            ValueView::Bytes(bytes) => (kind::BYTES, 0, bytes.get(..TEXT).unwrap_or(bytes)),
        };
        self.put(kind, number, cut(key, NAME).as_bytes(), text);
    }

    pub fn set_line(mut self, ticket: u64, time: u64, text: &str) {
        self.put(
            kind::LINE,
            time,
            &ticket.to_ne_bytes(),
            cut(text, TEXT).as_bytes(),
        );
    }

    pub fn set_pair(mut self, name: &str, number: u64, second: u64) {
        self.put(kind::PAIR, number, cut(name, NAME).as_bytes(), &[]);
        if let Some(last) = self.0.last_mut() {
            *last = second;
        }
    }

    /// Replaces the second number if it is `from`.
    pub fn close(self, from: u64, to: u64) -> bool {
        match self.0.last_mut() {
            Some(last) if *last == from => {
                *last = to;
                true
            }
            _ => false,
        }
    }

    fn put(&mut self, kind: u64, number: u64, name: &[u8], text: &[u8]) {
        self.0.fill(0);
        let lengths = (name.len() as u64) << 8 | (text.len() as u64) << 16;
        let words = self.0.iter_mut();
        let bytes = |chunk: &[u8]| {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            u64::from_ne_bytes(word)
        };
        let source = [kind | lengths, number]
            .into_iter()
            .chain(name.chunks(8).map(bytes))
            .chain(text.chunks(8).map(bytes));
        words.zip(source).for_each(|(to, from)| *to = from);
    }
}

/// A record as it was read: its bytes, copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    pub(super) kind: u64,
    pub(super) number: u64,
    /// Second number, or ticket.
    pub(super) second: u64,
    name: [u8; NAME],
    name_length: usize,
    text: [u8; TEXT],
    text_length: usize,
}

impl Read {
    pub const EMPTY: Read = Read {
        kind: 0,
        number: 0,
        second: 0,
        name: [0; NAME],
        name_length: 0,
        text: [0; TEXT],
        text_length: 0,
    };

    /// Takes the record out of its words. Signal-safe.
    pub fn fill<const N: usize>(&mut self, words: &[u64; N]) {
        let head = words.first().copied().unwrap_or(0);
        self.kind = head & 0xff;
        self.number = words.get(1).copied().unwrap_or(0);
        self.name_length = ((head >> 8) as usize & 0xff).min(NAME);
        self.text_length = ((head >> 16) as usize & 0xffff).min(TEXT);
        let name_words = self.name_length.div_ceil(8);
        let bytes = |from: usize| {
            let rest = words.get(from..).unwrap_or(&[]);
            rest.iter().flat_map(|word| word.to_ne_bytes())
        };
        self.name
            .iter_mut()
            .zip(bytes(2))
            .for_each(|(to, from)| *to = from);
        self.text
            .iter_mut()
            .zip(bytes(name_words.saturating_add(2)))
            .for_each(|(to, from)| *to = from);
        self.second = match self.kind {
            kind::LINE => words.get(2).copied().unwrap_or(0),
            _ => words.last().copied().unwrap_or(0),
        };
    }

    pub fn name(&self) -> &str {
        let name = self.name.get(..self.name_length).unwrap_or(&[]);
        std::str::from_utf8(name).unwrap_or("")
    }

    pub fn line(&self) -> &str {
        std::str::from_utf8(self.bytes()).unwrap_or("")
    }

    fn bytes(&self) -> &[u8] {
        self.text.get(..self.text_length).unwrap_or(&[])
    }

    pub fn value(&self) -> Option<ValueView<'_>> {
        Some(match self.kind {
            kind::NIL => ValueView::Nil,
            kind::BOOL => ValueView::Bool(self.number != 0),
            kind::UNSIGNED => ValueView::Unsigned(self.number),
            kind::SIGNED => ValueView::Signed(self.number as i64),
            kind::FLOAT => ValueView::Float(f64::from_bits(self.number)),
            kind::TEXT => ValueView::Text(self.line()),
            kind::BYTES => ValueView::Bytes(self.bytes()),
            _ => return None,
        })
    }
}

/// As much of the text as has room, whole characters.
fn cut(text: &str, room: usize) -> &str {
    text.get(..text.floor_char_boundary(room)).unwrap_or("")
}

/// FNV-1a (Fowler, Noll, Vo), never 0.
pub(super) fn hash(name: &str) -> u64 {
    let hash = cut(name, NAME)
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    hash.max(1)
}

macro_rules! values {
    ($($from:ty => $kind:ident as $to:ty),*) => {$(
        impl From<$from> for ValueView<'_> {
            fn from(value: $from) -> Self {
                ValueView::$kind(<$to>::from(value))
            }
        }
    )*};
}

values! {
    bool => Bool as bool,
    u8 => Unsigned as u64, u16 => Unsigned as u64, u32 => Unsigned as u64, u64 => Unsigned as u64,
    f32 => Float as f64, f64 => Float as f64
}

macro_rules! integers {
    ($($from:ty),*) => {$(
        impl From<$from> for ValueView<'_> {
            fn from(value: $from) -> Self {
                match u64::try_from(value) {
                    Ok(value) => ValueView::Unsigned(value),
                    Err(_) => ValueView::Signed(value as i64),
                }
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, isize, usize);

impl<'a> From<&'a str> for ValueView<'a> {
    fn from(value: &'a str) -> Self {
        ValueView::Text(value)
    }
}

impl<'a> From<&'a String> for ValueView<'a> {
    fn from(value: &'a String) -> Self {
        ValueView::Text(value)
    }
}

impl<'a> From<&'a Cow<'_, str>> for ValueView<'a> {
    fn from(value: &'a Cow<'_, str>) -> Self {
        ValueView::Text(value)
    }
}

impl<'a> From<&'a [u8]> for ValueView<'a> {
    fn from(value: &'a [u8]) -> Self {
        ValueView::Bytes(value)
    }
}
