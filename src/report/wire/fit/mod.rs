//! A serde serializer into a fixed buffer, over that of `rmp-serde`: what does not fit is removed and counted.

mod containers;

// An error with nothing to drop, which serde knows: each field of each section passes one on.
use std::fmt::Error;
use std::io;

use rmp_serde::encode::Serializer as Rmp;
use serde::ser::{Impossible, Serialize, Serializer};

use super::part::{Part, Rules};
use super::{EXTENSION, OTHER, row};

/// Puts values into a buffer. Where a map's entry or an array's element does not fit, it is omitted whole
/// and counted, and the next one is tried; tuples are whole or not at all. A struct's field that is `None`
/// has no entry, and its field [`EXTRA`] is a map whose entries are the struct's own. Structs that
/// [`row`] knows are tuples.
///
/// Signal-safe: no allocation, no panic, no lock.
pub(super) struct FixedSerializer<'b> {
    rmp: Rmp<FixedBuffer<'b>>,
    rules: Rules,
    part: Part<'b>,
    pub(super) dropped: u64,
    /// True if the next text may be cut.
    may_cut: bool,
    /// True if the last value written was `None`.
    is_none: bool,
    /// The map that the next one's entries belong to: where it begins, and its count.
    splice: Option<(usize, u32)>,
    /// The map that was closed last.
    closed: (usize, u32),
    /// Count of elements of the next array to leave out.
    skipped: usize,
}

impl<'b> FixedSerializer<'b> {
    /// The last `reserved` bytes of `buffer` are left for later.
    #[inline(never)]
    pub(super) fn new(buffer: &'b mut [u8], reserved: usize, rules: Rules, part: Part<'b>) -> Self {
        FixedSerializer {
            rmp: Rmp::new(FixedBuffer {
                buffer,
                len: 0,
                reserved: reserved.saturating_add(part.held()),
            }),
            rules,
            part,
            dropped: part.dropped,
            may_cut: false,
            is_none: false,
            splice: None,
            closed: (usize::MAX, 0),
            skipped: 0,
        }
    }

    /// What bytes go to that are MessagePack already.
    pub(super) fn out(&mut self) -> &mut FixedBuffer<'b> {
        self.rmp.get_mut()
    }

    /// Count of bytes written.
    pub(super) fn len(&self) -> usize {
        self.rmp.get_ref().len
    }

    /// Reopens the map that begins at `map`, which may now use the whole buffer. `None` unless it was the last map
    /// closed.
    pub(super) fn reopen(&mut self, map: usize) -> Option<OpenValue<'_, 'b>> {
        self.out().reserved = 0;
        let (at, count) = self.closed;
        (at == map).then_some(self.container(0x80, at, count))
    }

    #[inline(never)]
    fn open(&mut self, fix: u8) -> Result<OpenValue<'_, 'b>, Error> {
        let cut = self.may_cut && self.rules.cuts_values;
        self.may_cut = cut && fix == 0x80;
        if let (Some((at, count)), 0x80) = (self.splice.take(), fix) {
            return Ok(OpenValue {
                is_spliced: true,
                ..self.container(fix, at, count)
            });
        }
        let at = self.len();
        self.out().push(&[fix]).then_some(()).ok_or(Error)?;
        Ok(self.container(fix, at, 0))
    }

    #[inline(never)]
    fn text(&mut self, text: &str) -> Result<(), Error> {
        self.rmp.serialize_str(text).or(Err(Error))
    }

    fn container(&mut self, fix: u8, at: usize, count: u32) -> OpenValue<'_, 'b> {
        OpenValue {
            at,
            fix,
            count,
            key: at,
            skipped: 0,
            is_spliced: false,
            fit: self,
        }
    }
}

/// A map or array that is being filled.
pub(super) struct OpenValue<'s, 'b> {
    fit: &'s mut FixedSerializer<'b>,
    at: usize,
    fix: u8,
    count: u32,
    /// Offset of the entry's key; `usize::MAX` if it did not fit.
    key: usize,
    /// Count of elements still to be omitted.
    skipped: usize,
    is_spliced: bool,
}

impl OpenValue<'_, '_> {
    /// The entry or element that began at `before` ends with `value`.
    fn entry<T: Serialize + ?Sized>(&mut self, before: usize, value: &T) {
        let is_whole = value.serialize(&mut *self.fit).is_ok();
        self.end_entry(before, is_whole);
    }

    #[inline(never)]
    fn end_entry(&mut self, before: usize, is_whole: bool) {
        let count = self.count.saturating_add(1);
        if is_whole && std::mem::take(&mut self.fit.is_none) && self.fix == 0x80 && !self.is_spliced
        {
            self.fit.out().len = before;
        } else if is_whole && self.fit.out().set_count(self.at, count, self.fix) {
            self.count = count;
        } else {
            self.take_back(before);
        }
    }

    fn take_back(&mut self, before: usize) {
        self.fit.out().len = before;
        self.fit.is_none = false;
        self.fit.dropped = self.fit.dropped.saturating_add(1);
    }

    /// An entry of this key.
    pub(super) fn field<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        if let Some(before) = self.key(key) {
            self.entry(before, value);
            self.fit.may_cut = false;
        }
    }

    /// Begins an entry, whose text may be cut; returns where. `None` if not even the key fits.
    #[inline(never)]
    fn key(&mut self, key: &str) -> Option<usize> {
        let before = self.fit.len();
        if self.fit.text(key).is_err() {
            self.take_back(before);
            return None;
        }
        self.fit.may_cut = true;
        Some(before)
    }

    fn close(self) -> Result<(), Error> {
        self.fit.is_none = false;
        self.fit.may_cut = false;
        self.fit.closed = (self.at, self.count);
        Ok(())
    }
}

/// The longest start of `text` that has at most `bytes` bytes and ends between characters.
fn prefix(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes))
        .unwrap_or_default()
}

macro_rules! as_rmp_serde_does {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(#[inline(never)]
        fn $name(self, $($argument: $type),*) -> Result<(), Error> { self.rmp.$name($($argument),*).or(Err(Error)) })*
    };
}

macro_rules! never {
    ($($name:ident($($type:ty),*);)*) => {
        $(fn $name(self, $(_: $type),*) -> Result<Impossible<(), Error>, Error> { Err(Error) })*
    };
}

impl<'s, 'b> Serializer for &'s mut FixedSerializer<'b> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = OpenValue<'s, 'b>;
    type SerializeTuple = OpenValue<'s, 'b>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = OpenValue<'s, 'b>;
    type SerializeStruct = OpenValue<'s, 'b>;
    type SerializeStructVariant = Impossible<(), Error>;

    as_rmp_serde_does! {
        serialize_bool(value: bool);
        serialize_i8(value: i8);
        serialize_i16(value: i16);
        serialize_i32(value: i32);
        serialize_i64(value: i64);
        serialize_u8(value: u8);
        serialize_u16(value: u16);
        serialize_u32(value: u32);
        serialize_u64(value: u64);
        serialize_f32(value: f32);
        serialize_f64(value: f64);
        serialize_char(value: char);
        serialize_bytes(value: &[u8]);
        serialize_unit();
        serialize_unit_struct(name: &'static str);
    }

    never! {
        serialize_tuple_struct(&'static str, usize);
        serialize_tuple_variant(&'static str, u32, &'static str, usize);
        serialize_struct_variant(&'static str, u32, &'static str, usize);
    }

    #[inline(never)]
    fn serialize_str(self, text: &str) -> Result<(), Error> {
        /// The longest header of a text, what a wider count of the map takes, and some more.
        const BESIDES: usize = 13;
        if !std::mem::take(&mut self.may_cut) {
            return self.text(text);
        }
        let room = match self.out().room().checked_sub(BESIDES) {
            Some(room) if room < text.len() => room,
            _ => usize::MAX,
        };
        let cut = prefix(text, room.min(self.rules.text_bytes));
        self.text(cut)?;
        self.dropped = self
            .dropped
            .saturating_add(u64::from(cut.len() < text.len()));
        Ok(())
    }

    /// A word. One that this version does not know is an entry of [`EXTRA`].
    #[inline(never)]
    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        word: &'static str,
    ) -> Result<(), Error> {
        match word {
            OTHER => self.serialize_none(),
            word => self.text(word),
        }
    }

    #[inline(never)]
    fn serialize_none(self) -> Result<(), Error> {
        self.is_none = true;
        self.rmp.serialize_none().or(Err(Error))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        if name == EXTENSION {
            return self
                .rmp
                .serialize_newtype_struct(name, value)
                .or(Err(Error));
        }
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Error> {
        Err(Error)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<OpenValue<'s, 'b>, Error> {
        let skipped = std::mem::take(&mut self.skipped);
        let open = self.open(0x90)?;
        Ok(OpenValue { skipped, ..open })
    }

    fn serialize_tuple(self, _: usize) -> Result<OpenValue<'s, 'b>, Error> {
        self.open(0x90)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<OpenValue<'s, 'b>, Error> {
        self.open(0x80)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<OpenValue<'s, 'b>, Error> {
        self.open(if row(name).is_some() { 0x90 } else { 0x80 })
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The buffer, as a writer that takes all or nothing.
#[derive(Debug)]
pub(super) struct FixedBuffer<'b> {
    buffer: &'b mut [u8],
    len: usize,
    /// Bytes at the buffer's end that may not be used yet.
    reserved: usize,
}

impl FixedBuffer<'_> {
    fn room(&self) -> usize {
        (self.buffer.len().saturating_sub(self.reserved)).saturating_sub(self.len)
    }

    /// Takes all bytes or none.
    #[inline(never)]
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.room();
        if fits {
            self.patch(self.len, bytes);
            self.len = self.len.saturating_add(bytes.len());
        }
        fits
    }

    fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(to) = self.buffer.get_mut(at..at.saturating_add(bytes.len())) {
            to.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        }
    }

    /// Makes two bytes of room at `at` by moving up all that follows.
    fn widen(&mut self, at: usize) -> bool {
        if self.room() < 2 || at > self.len {
            return false;
        }
        // In bounds: `at <= len` and `len + 2` is within the buffer, as just checked.
        self.buffer.copy_within(at..self.len, at.saturating_add(2));
        self.len = self.len.saturating_add(2);
        true
    }

    /// Writes the header of the container at `at`, whose count is now `count`; `fix` is `0x80` for a map,
    /// `0x90` for an array. Widens the header where the count has outgrown it, if there is room.
    #[inline]
    fn set_count(&mut self, at: usize, count: u32, fix: u8) -> bool {
        let wide = if fix == 0x80 { 0xde } else { 0xdc };
        let [a, b, c, d] = count.to_be_bytes();
        let is_wide = match count {
            16 => self.widen(at.saturating_add(1)),
            0x1_0000 => self.widen(at.saturating_add(3)),
            _ => true,
        };
        match count {
            _ if !is_wide => return false,
            0..=15 => self.patch(at, &[fix | d]),
            16..=0xffff => self.patch(at, &[wide, c, d]),
            _ => self.patch(at, &[wide | 1, a, b, c, d]),
        }
        true
    }
}

impl io::Write for FixedBuffer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let fits = self.push(bytes);
        fits.then_some(())
            .ok_or_else(|| io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
