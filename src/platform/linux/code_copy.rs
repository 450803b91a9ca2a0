//! Code of an image that the loader may unmap at any time, copied page by page as it is asked for.

use std::sync::atomic::{AtomicU8, Ordering};

use super::memory::{self, Reserved};
use crate::platform::SystemError;

/// Bytes that are copied at a time.
const PAGE: usize = 4096;
/// The most bytes that one call returns.
const MAX_COPY: usize = 1 << 17;

const EMPTY: u8 = 0;
const BEING_FILLED: u8 = 1;
const FILLED: u8 = 2;

/// A copy of code, of which only the pages that were asked for are resident. A page that was copied once stays readable
/// after the image is unmapped.
#[derive(Debug)]
pub struct CodeCopy {
    /// Address of the code itself (avma).
    from: u64,
    length: usize,
    pages: Reserved,
    states: Box<[AtomicU8]>,
}

impl CodeCopy {
    /// Reserves addresses for `length` bytes of code at `from` (avma). Nothing is copied yet. Not signal-safe.
    pub fn new(from: u64, length: usize) -> Result<CodeCopy, SystemError> {
        let states = (0..length.div_ceil(PAGE)).map(|_| AtomicU8::new(EMPTY));
        Ok(CodeCopy {
            from,
            length,
            states: states.collect(),
            pages: Reserved::sparse(length)?,
        })
    }

    /// Returns the code at an offset, of at most `length` bytes. `is_there` is asked after each new page was read and
    /// returns true if the image is mapped still. `None` where the image is gone, and where another thread copies one
    /// of the pages just now. Signal-safe.
    pub fn at(&self, offset: usize, length: usize, is_there: &dyn Fn() -> bool) -> Option<&[u8]> {
        let rest = self.length.checked_sub(offset)?;
        let range = offset..offset.saturating_add(length.min(MAX_COPY).min(rest));
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            self.fill(page, is_there)?;
        }
        // SAFETY: within the reserved bytes; each page of the range is FILLED, and no such page is written to again.
        Some(unsafe {
            std::slice::from_raw_parts(self.pages.as_ptr().add(range.start), range.len())
        })
    }

    /// Sees to it that a page is filled; `None` where it is not.
    fn fill(&self, page: usize, is_there: &dyn Fn() -> bool) -> Option<()> {
        let state = self.states.get(page)?;
        if state.load(Ordering::Acquire) == FILLED {
            return Some(());
        }
        let claim = |state: &AtomicU8| {
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            state.compare_exchange(EMPTY, BEING_FILLED, acquire, relaxed)
        };
        claim(state).ok()?;
        let start = page.checked_mul(PAGE)?;
        let length = self.length.checked_sub(start)?.min(PAGE);
        let from = self.from.wrapping_add(start as u64);
        // SAFETY: within the reserved bytes, which nothing refers to before this page is FILLED; the claim above makes
        // this thread the only writer.
        let copied = unsafe { memory::read_raw(from, self.pages.as_ptr().add(start), length) };
        let is_whole = copied == length && is_there();
        state.store(if is_whole { FILLED } else { EMPTY }, Ordering::Release);
        is_whole.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_read_stays_after_its_source_is_gone() {
        let source = Reserved::touched(3 * PAGE, 3 * PAGE).unwrap();
        let start = source.as_ptr() as u64;
        // SAFETY: ours, reserved above.
        unsafe { source.as_ptr().add(PAGE - 1).write_bytes(0xc3, 2) };
        let copy = CodeCopy::new(start, 3 * PAGE - 5).unwrap();
        let there = &|| true;
        assert_eq!(copy.at(PAGE - 2, 4, there), Some(&[0, 0xc3, 0xc3, 0][..]));
        assert_eq!(copy.at(2 * PAGE, 9, &|| false), None);
        drop(source);
        assert_eq!(copy.at(PAGE - 1, 1, &|| false), Some(&[0xc3][..]));
        assert_eq!(copy.at(2 * PAGE, 9, there), None);
        assert_eq!(copy.at(3 * PAGE, 1, there), None);
        assert_eq!(copy.at(PAGE, 0, there), Some(&[][..]));
    }

    #[test]
    fn code_ends_where_it_was_said_to_end() {
        let source = Reserved::touched(PAGE, PAGE).unwrap();
        let copy = CodeCopy::new(source.as_ptr() as u64, 100).unwrap();
        assert_eq!(copy.at(90, 1000, &|| true).map(<[u8]>::len), Some(10));
        assert_eq!(copy.at(101, 1, &|| true), None);
    }
}
