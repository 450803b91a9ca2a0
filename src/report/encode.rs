//! MessagePack into a fixed buffer: never allocates, never panics, drops what does not fit and counts it.

/// Encodes MessagePack values, each in its smallest form, into a buffer that the caller gives.
///
/// What does not fit is left out whole: outside of a container the encoder turns *full* and stays so;
/// inside [`Encoder::map`] and [`Encoder::array`] the entry or item that did not fit is taken back and
/// counted in [`Encoder::dropped`], and the next one is tried. So what was written is well-formed
/// at any time.
///
/// Signal-safe: no allocation, no panic, no lock.
///
/// ```
/// use wedjat::report::Encoder;
/// let mut buffer = [0; 64];
/// let mut e = Encoder::new(&mut buffer);
/// e.map(|m| {
///     m.unsigned("pid", 7);
///     m.text("name", "main");
/// });
/// assert_eq!(e.bytes(), b"\x82\xa3pid\x07\xa4name\xa4main");
/// assert_eq!(e.dropped(), 0);
/// ```
#[derive(Debug)]
pub struct Encoder<'b> {
    buffer: &'b mut [u8],
    len: usize,
    /// Bytes at the buffer's end that may not be used yet.
    reserved: usize,
    /// Longer texts of map entries are cut.
    text_limit: usize,
    full: bool,
    dropped: u64,
}

impl<'b> Encoder<'b> {
    /// An encoder that fills `buffer` from its start.
    pub fn new(buffer: &'b mut [u8]) -> Encoder<'b> {
        Encoder {
            buffer,
            len: 0,
            reserved: 0,
            text_limit: usize::MAX,
            full: false,
            dropped: 0,
        }
    }

    /// What was written so far.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// How many bytes were written so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written so far.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes there is room for.
    pub fn room(&self) -> usize {
        self.buffer
            .len()
            .saturating_sub(self.reserved)
            .saturating_sub(self.len)
    }

    /// Whether a value did not fit that is in no container.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// How many entries and items were left out, or shortened, because they did not fit.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Says that the caller itself left out `count` entries or items for want of room.
    pub fn drop_count(&mut self, count: u64) {
        self.dropped = self.dropped.saturating_add(count);
    }

    /// `nil`.
    pub fn nil(&mut self) {
        self.put(&[0xc0]);
    }

    /// `true` or `false`.
    pub fn bool(&mut self, value: bool) {
        self.put(&[0xc2 | value as u8]);
    }

    /// An integer that is not negative.
    pub fn unsigned(&mut self, value: u64) {
        let (bytes, len) = unsigned_bytes(value);
        self.put(bytes.get(..len).unwrap_or_default());
    }

    /// An integer; not negative ones are written as [`Encoder::unsigned`] does.
    pub fn signed(&mut self, value: i64) {
        if let Ok(value) = u64::try_from(value) {
            return self.unsigned(value);
        }
        let bytes = value.to_be_bytes();
        if value >= -32 {
            self.put(&[value as i8 as u8]);
        } else if i8::try_from(value).is_ok() {
            self.put2(&[0xd0], bytes.get(7..).unwrap_or_default());
        } else if i16::try_from(value).is_ok() {
            self.put2(&[0xd1], bytes.get(6..).unwrap_or_default());
        } else if i32::try_from(value).is_ok() {
            self.put2(&[0xd2], bytes.get(4..).unwrap_or_default());
        } else {
            self.put2(&[0xd3], &bytes);
        }
    }

    /// A float, as 64 bits.
    pub fn float(&mut self, value: f64) {
        self.put2(&[0xcb], &value.to_bits().to_be_bytes());
    }

    /// A string.
    pub fn text(&mut self, value: &str) {
        let (header, len) = text_header(value.len());
        self.put2(header.get(..len).unwrap_or_default(), value.as_bytes());
    }

    /// Raw bytes.
    pub fn bin(&mut self, value: &[u8]) {
        let n = value.len() as u32;
        let [a, b, c, d] = n.to_be_bytes();
        match n {
            0..=0xff => self.put2(&[0xc4, d], value),
            0x100..=0xffff => self.put2(&[0xc5, c, d], value),
            _ => self.put2(&[0xc6, a, b, c, d], value),
        };
    }

    /// An extension value: its type and its bytes.
    pub fn extension(&mut self, kind: i8, value: &[u8]) {
        let n = value.len() as u32;
        let [a, b, c, d] = n.to_be_bytes();
        let t = kind as u8;
        match n {
            1 => self.put2(&[0xd4, t], value),
            2 => self.put2(&[0xd5, t], value),
            4 => self.put2(&[0xd6, t], value),
            8 => self.put2(&[0xd7, t], value),
            16 => self.put2(&[0xd8, t], value),
            0..=0xff => self.put2(&[0xc7, d, t], value),
            0x100..=0xffff => self.put2(&[0xc8, c, d, t], value),
            _ => self.put2(&[0xc9, a, b, c, d, t], value),
        };
    }

    /// A map; its count is that of the entries which `fill` makes and which fit.
    pub fn map(&mut self, fill: impl FnOnce(&mut MapEncoder<'_, 'b>)) {
        let at = self.len;
        if self.put(&[0x80]) {
            fill(&mut MapEncoder {
                encoder: self,
                at,
                count: 0,
            });
        }
    }

    /// An array; its count is that of the items which `fill` makes and which fit.
    pub fn array(&mut self, fill: impl FnOnce(&mut ArrayEncoder<'_, 'b>)) {
        let at = self.len;
        if self.put(&[0x90]) {
            fill(&mut ArrayEncoder {
                encoder: self,
                at,
                count: 0,
            });
        }
    }

    /// Bytes that are a MessagePack value already.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> bool {
        self.put2(bytes, &[])
    }

    /// Two runs of bytes, both or none.
    fn put2(&mut self, head: &[u8], tail: &[u8]) -> bool {
        if self.full || head.len().saturating_add(tail.len()) > self.room() {
            self.full = true;
            return false;
        }
        for part in [head, tail] {
            let end = self.len.saturating_add(part.len());
            if let Some(to) = self.buffer.get_mut(self.len..end) {
                to.copy_from_slice(part);
                self.len = end;
            }
        }
        true
    }

    /// Cuts texts of map entries that are longer than `bytes`.
    pub(crate) fn limit_text(&mut self, bytes: usize) {
        self.text_limit = bytes;
    }

    /// Keeps `bytes` bytes at the buffer's end from being used.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.reserved = bytes;
    }

    /// Takes back everything after `len`, and the fullness that it led to.
    fn take_back(&mut self, len: usize) {
        self.len = len;
        self.full = false;
        self.drop_count(1);
    }

    /// Writes the header of the container at `at`, whose count is now `count`; `fix` is `0x80` for a
    /// map, `0x90` for an array. Widens the header where the count has outgrown it.
    fn set_count(&mut self, at: usize, count: u32, fix: u8) {
        let wide16 = if fix == 0x80 { 0xde } else { 0xdc };
        let [a, b, c, d] = count.to_be_bytes();
        match count {
            0..=15 => self.patch(at, &[fix | d]),
            16 => {
                if self.widen(at.saturating_add(1)) {
                    self.patch(at, &[wide16, c, d]);
                }
            }
            17..=0xffff => self.patch(at, &[wide16, c, d]),
            0x1_0000 => {
                if self.widen(at.saturating_add(3)) {
                    self.patch(at, &[wide16 | 1, a, b, c, d]);
                }
            }
            _ => self.patch(at, &[wide16 | 1, a, b, c, d]),
        }
    }

    /// Makes two bytes of room at `at` by moving up all that follows.
    fn widen(&mut self, at: usize) -> bool {
        if self.full || self.room() < 2 || at > self.len {
            self.full = true;
            return false;
        }
        // In bounds: `at <= len` and `len + 2` is within the buffer, as just checked.
        self.buffer.copy_within(at..self.len, at.saturating_add(2));
        self.len = self.len.saturating_add(2);
        true
    }

    fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(to) = self.buffer.get_mut(at..at.saturating_add(bytes.len())) {
            to.copy_from_slice(bytes);
        }
    }
}

/// Fills a map, one entry after the other. Made by [`Encoder::map`]. Signal-safe.
#[derive(Debug)]
pub struct MapEncoder<'e, 'b> {
    encoder: &'e mut Encoder<'b>,
    at: usize,
    count: u32,
}

impl<'b> MapEncoder<'_, 'b> {
    /// One entry: `value` must write exactly one value. Returns whether it fitted; an entry that did
    /// not is left out and counted.
    pub fn entry(&mut self, key: &str, value: impl FnOnce(&mut Encoder<'b>)) -> bool {
        let before = self.encoder.len;
        self.encoder.text(key);
        value(self.encoder);
        self.close(before)
    }

    /// An entry whose key need not be a string: `both` writes exactly two values.
    pub fn pair(&mut self, both: impl FnOnce(&mut Encoder<'b>)) -> bool {
        let before = self.encoder.len;
        both(self.encoder);
        self.close(before)
    }

    fn close(&mut self, before: usize) -> bool {
        if !self.encoder.full {
            self.encoder
                .set_count(self.at, self.count.saturating_add(1), 0x80);
        }
        if self.encoder.full {
            self.encoder.take_back(before);
            return false;
        }
        self.count = self.count.saturating_add(1);
        true
    }

    /// How many bytes there is room for.
    pub fn room(&self) -> usize {
        self.encoder.room()
    }

    /// How many bytes of the buffer are taken, this map's own and those before it.
    pub fn len(&self) -> usize {
        self.encoder.len()
    }

    /// Whether the map has no entry yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// As [`Encoder::drop_count`].
    pub fn drop_count(&mut self, count: u64) {
        self.encoder.drop_count(count);
    }

    /// As [`Encoder::dropped`].
    pub fn dropped(&self) -> u64 {
        self.encoder.dropped()
    }

    /// As [`Encoder::reserve`].
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.encoder.reserve(bytes);
    }

    /// Keeps `bytes` more bytes from being used, until they are released.
    pub(crate) fn hold(&mut self, bytes: usize) {
        self.encoder.reserved = self.encoder.reserved.saturating_add(bytes);
    }

    /// Lets `bytes` bytes that were held be used.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.encoder.reserved = self.encoder.reserved.saturating_sub(bytes);
    }

    /// A `true` or `false`.
    pub fn bool(&mut self, key: &str, value: bool) {
        self.entry(key, |e| e.bool(value));
    }

    /// An integer that is not negative.
    pub fn unsigned(&mut self, key: &str, value: u64) {
        self.entry(key, |e| e.unsigned(value));
    }

    /// An integer.
    pub fn signed(&mut self, key: &str, value: i64) {
        self.entry(key, |e| e.signed(value));
    }

    /// A float.
    pub fn float(&mut self, key: &str, value: f64) {
        self.entry(key, |e| e.float(value));
    }

    /// Raw bytes.
    pub fn bin(&mut self, key: &str, value: &[u8]) {
        self.entry(key, |e| e.bin(value));
    }

    /// A string; one that does not fit is shortened at its end, and counted.
    pub fn text(&mut self, key: &str, value: &str) {
        // Key, its header, the value's header, and a header of this map that has to widen.
        let overhead = key.len().saturating_add(5 + 5 + 4);
        let room = match self.room().checked_sub(overhead) {
            Some(room) if room < value.len() => room,
            _ => usize::MAX,
        };
        let cut = prefix(value, room.min(self.encoder.text_limit));
        if self.entry(key, |e| e.text(cut)) && cut.len() < value.len() {
            self.encoder.drop_count(1);
        }
    }

    /// A map.
    pub fn map(&mut self, key: &str, fill: impl FnOnce(&mut MapEncoder<'_, 'b>)) {
        self.entry(key, |e| e.map(fill));
    }

    /// An array.
    pub fn array(&mut self, key: &str, fill: impl FnOnce(&mut ArrayEncoder<'_, 'b>)) {
        self.entry(key, |e| e.array(fill));
    }
}

/// Fills an array, one item after the other. Made by [`Encoder::array`]. Signal-safe.
#[derive(Debug)]
pub struct ArrayEncoder<'e, 'b> {
    encoder: &'e mut Encoder<'b>,
    at: usize,
    count: u32,
}

impl<'b> ArrayEncoder<'_, 'b> {
    /// One item: `value` must write exactly one value. Returns whether it fitted; an item that did
    /// not is left out and counted.
    pub fn item(&mut self, value: impl FnOnce(&mut Encoder<'b>)) -> bool {
        let before = self.encoder.len;
        value(self.encoder);
        if !self.encoder.full {
            self.encoder
                .set_count(self.at, self.count.saturating_add(1), 0x90);
        }
        if self.encoder.full {
            self.encoder.take_back(before);
            return false;
        }
        self.count = self.count.saturating_add(1);
        true
    }

    /// As [`Encoder::drop_count`].
    pub fn drop_count(&mut self, count: u64) {
        self.encoder.drop_count(count);
    }
}

/// The longest start of `text` that has at most `bytes` bytes and ends between characters.
pub(crate) fn prefix(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while end > 0 && !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// How many bytes [`Encoder::unsigned`] takes.
pub(crate) fn unsigned_len(value: u64) -> usize {
    unsigned_bytes(value).1
}

fn unsigned_bytes(value: u64) -> ([u8; 9], usize) {
    let [a, b, c, d, e, f, g, h] = value.to_be_bytes();
    match value {
        0..=0x7f => ([h, 0, 0, 0, 0, 0, 0, 0, 0], 1),
        0x80..=0xff => ([0xcc, h, 0, 0, 0, 0, 0, 0, 0], 2),
        0x100..=0xffff => ([0xcd, g, h, 0, 0, 0, 0, 0, 0], 3),
        0x1_0000..=0xffff_ffff => ([0xce, e, f, g, h, 0, 0, 0, 0], 5),
        _ => ([0xcf, a, b, c, d, e, f, g, h], 9),
    }
}

fn text_header(len: usize) -> ([u8; 5], usize) {
    let [a, b, c, d] = (len as u32).to_be_bytes();
    match len {
        0..=31 => ([0xa0 | d, 0, 0, 0, 0], 1),
        32..=0xff => ([0xd9, d, 0, 0, 0], 2),
        0x100..=0xffff => ([0xda, c, d, 0, 0], 3),
        _ => ([0xdb, a, b, c, d], 5),
    }
}
