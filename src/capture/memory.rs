//! Memory from which an unwinder reads a thread's stack.

/// The reason why a word could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// It is after the end of the copy.
    Truncated,
    /// There is no readable memory there.
    Unreadable,
}

/// Memory that holds a stack. Implementations that are used in a handler must be signal-safe.
///
/// ```
/// use wedjat::unwind::{Memory, Missing};
///
/// /// A stack of words that begins at address 0x1000.
/// struct Words(Vec<u64>);
///
/// impl Memory for Words {
///     fn read(&mut self, address: u64) -> Result<u64, Missing> {
///         let at = address.checked_sub(0x1000).ok_or(Missing::Unreadable)? / 8;
///         self.0.get(at as usize).copied().ok_or(Missing::Truncated)
///     }
/// }
///
/// assert_eq!(Words(vec![7, 8]).read(0x1008), Ok(8));
/// ```
pub trait Memory {
    /// The eight bytes at this address, little-endian. The address need not be aligned.
    fn read(&mut self, address: u64) -> Result<u64, Missing>;
}

impl<M: Memory + ?Sized> Memory for &mut M {
    fn read(&mut self, address: u64) -> Result<u64, Missing> {
        (**self).read(address)
    }
}

/// A stack that was copied away from where it lay.
///
/// ```
/// use wedjat::unwind::{Memory, Missing, StackCopy};
///
/// let bytes = 5u64.to_le_bytes();
/// let mut copy = StackCopy::new(0x7fff_0000, &bytes);
/// assert_eq!(copy.read(0x7fff_0000), Ok(5));
/// assert_eq!(copy.read(0x7fff_0001), Err(Missing::Truncated));
/// assert_eq!(copy.read(0x1000), Err(Missing::Unreadable));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct StackCopy<'a> {
    base: u64,
    bytes: &'a [u8],
}

impl<'a> StackCopy<'a> {
    /// A copy of the bytes from address `base` on.
    pub fn new(base: u64, bytes: &'a [u8]) -> StackCopy<'a> {
        StackCopy { base, bytes }
    }
}

/// Distance behind the copy, in bytes, up to which an address still counts as the same stack.
const MAX_STACK: u64 = 64 << 20;

impl Memory for StackCopy<'_> {
    #[inline]
    fn read(&mut self, address: u64) -> Result<u64, Missing> {
        let offset = address.wrapping_sub(self.base);
        let word = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.bytes.get(offset..offset.checked_add(8)?));
        match word.and_then(<[u8]>::first_chunk) {
            Some(word) => Ok(u64::from_le_bytes(*word)),
            None if address >= self.base && offset < MAX_STACK => Err(Missing::Truncated),
            None => Err(Missing::Unreadable),
        }
    }
}

/// The copies of a stack and, where a signal handler runs on an alternate one, of the stack that it
/// interrupted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackCopies<'a> {
    pub(crate) inner: StackCopy<'a>,
    pub(crate) interrupted: StackCopy<'a>,
}

impl Memory for StackCopies<'_> {
    #[inline]
    fn read(&mut self, address: u64) -> Result<u64, Missing> {
        self.inner.read(address).or_else(|missing| {
            match (missing, self.interrupted.read(address)) {
                // An empty copy stands for no interrupted stack.
                (_, Err(_)) if self.interrupted.bytes.is_empty() => Err(missing),
                (_, Ok(word)) => Ok(word),
                (_, Err(Missing::Truncated)) => Err(Missing::Truncated),
                (missing, Err(_)) => Err(missing),
            }
        })
    }
}

/// The memory of this process, read through the kernel so that a bad address is no fault; a page
/// is kept, since a walk reads many words of it.
#[derive(Debug)]
pub(crate) struct LiveMemory {
    base: u64,
    length: usize,
    page: Box<[u8; PAGE]>,
}

const PAGE: usize = 4096;

impl LiveMemory {
    /// Allocates its page; reading does not.
    pub(crate) fn new() -> LiveMemory {
        LiveMemory {
            base: 0,
            length: 0,
            page: Box::new([0; PAGE]),
        }
    }

    /// Forgets what was read: the memory may have changed. Signal-safe.
    pub(crate) fn forget(&mut self) {
        self.length = 0;
    }

    fn cached_word(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        let kept = self.page.get(..self.length)?;
        let word = kept.get(offset..offset.checked_add(8)?)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }
}

impl Memory for LiveMemory {
    /// Signal-safe.
    fn read(&mut self, address: u64) -> Result<u64, Missing> {
        if let Some(word) = self.cached_word(address) {
            return Ok(word);
        }
        // From the word to the end of its page, and some of the next one if it can be read.
        self.base = address;
        self.length = crate::platform::memory::read(address, &mut self.page[..]);
        self.cached_word(address).ok_or(Missing::Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_copy_lacks_is_read_from_the_other() {
        let word = |value: u64| value.to_le_bytes();
        let (inner, outer) = (word(1), word(2));
        let mut both = StackCopies {
            inner: StackCopy::new(0x7fff_0000, &inner),
            interrupted: StackCopy::new(0x1000, &outer),
        };
        assert_eq!(both.read(0x7fff_0000), Ok(1));
        assert_eq!(both.read(0x1000), Ok(2));
        assert_eq!(both.read(0x7fff_0008), Err(Missing::Truncated));
        assert_eq!(both.read(0x1008), Err(Missing::Truncated));
        assert_eq!(both.read(0x10), Err(Missing::Unreadable));
        both.interrupted = StackCopy::new(0, &[]);
        assert_eq!(both.read(0x10), Err(Missing::Unreadable));
    }

    #[test]
    fn live_memory_is_read_and_bad_addresses_are_refused() {
        let words: Vec<u64> = (0..2000).collect();
        let mut live = LiveMemory::new();
        for (index, word) in words.iter().enumerate() {
            assert_eq!(live.read(&raw const words[index] as u64), Ok(*word));
        }
        for address in [0, 8, 0xffff_8000_0000_0000, u64::MAX, u64::MAX - 7] {
            assert_eq!(live.read(address), Err(Missing::Unreadable));
        }
    }
}
