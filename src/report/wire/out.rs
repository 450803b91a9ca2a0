//! A fixed buffer as a writer, and the headers of containers in it, whose counts grow.

use std::io;

/// The buffer, as a writer that takes all or nothing.
#[derive(Debug)]
pub(super) struct Out<'b> {
    pub buffer: &'b mut [u8],
    pub len: usize,
    /// Bytes at the buffer's end that may not be used yet.
    pub reserved: usize,
}

impl Out<'_> {
    pub fn room(&self) -> usize {
        let end = self.buffer.len().saturating_sub(self.reserved);
        end.saturating_sub(self.len)
    }

    pub fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(to) = self.buffer.get_mut(at..at.saturating_add(bytes.len())) {
            to.copy_from_slice(bytes);
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
    pub fn set_count(&mut self, at: usize, count: u32, fix: u8) -> bool {
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

impl io::Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > self.room() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.patch(self.len, bytes);
        self.len = self.len.saturating_add(bytes.len());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
