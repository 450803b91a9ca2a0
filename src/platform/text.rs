//! Text in fixed room, for where nothing may allocate.

use std::fmt;

/// At most `ROOM` bytes of text, cut at a character's end. Signal-safe throughout.
#[derive(Clone, Copy)]
pub(crate) struct FixedText<const ROOM: usize> {
    bytes: [u8; ROOM],
    len: usize,
}

impl<const ROOM: usize> FixedText<ROOM> {
    pub const EMPTY: FixedText<ROOM> = FixedText {
        bytes: [0; ROOM],
        len: 0,
    };

    /// The bytes that `fill` puts into the room and counts, up to the first that is no text.
    pub fn filled(fill: impl FnOnce(&mut [u8]) -> usize) -> FixedText<ROOM> {
        let mut text = FixedText::EMPTY;
        let len = fill(&mut text.bytes);
        let filled = text.bytes.get(..len).unwrap_or_default();
        text.len = match std::str::from_utf8(filled) {
            Ok(whole) => whole.len(),
            Err(error) => error.valid_up_to(),
        };
        text
    }

    /// As much of `bytes` as there is room for, up to the first that is no text.
    pub fn of(bytes: &[u8]) -> FixedText<ROOM> {
        let copied = |(slot, byte): (&mut u8, &u8)| *slot = *byte;
        FixedText::filled(|room| room.iter_mut().zip(bytes).map(copied).count())
    }

    /// What `text` says, with the end of a C string. One that is cut has no end: as a path it is empty then.
    #[cfg(target_os = "linux")]
    #[inline(never)]
    pub fn path(text: fmt::Arguments<'_>) -> FixedText<ROOM> {
        let mut path = FixedText::EMPTY;
        let _ = fmt::write(&mut path, format_args!("{text}\0"));
        path
    }

    #[cfg(target_os = "linux")]
    #[inline(never)]
    pub fn as_c_str(&self) -> &std::ffi::CStr {
        std::ffi::CStr::from_bytes_until_nul(self.as_str().as_bytes()).unwrap_or_default()
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds as much of `text` as there is room for; returns true if that is all of it.
    pub fn add(&mut self, text: &str) -> bool {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let end = text.floor_char_boundary(room.len());
        for (slot, byte) in room.iter_mut().zip(text.bytes().take(end)) {
            *slot = byte;
        }
        self.len = self.len.saturating_add(end);
        end == text.len()
    }

    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl<const ROOM: usize> fmt::Write for FixedText<ROOM> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text).then_some(()).ok_or(fmt::Error)
    }
}

impl<const ROOM: usize> fmt::Debug for FixedText<ROOM> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_a_character_s_end() {
        let mut text = FixedText::<4>::EMPTY;
        assert!(text.add("ab"));
        assert!(!text.add("c\u{e9}d"));
        assert_eq!(text.as_str(), "abc");
        assert_eq!(FixedText::<4>::of(b"a\xc3\xa9\xff").as_str(), "a\u{e9}");
        assert_eq!(FixedText::<4>::of(b"abc\xc3\xa9").as_str(), "abc");
    }
}
