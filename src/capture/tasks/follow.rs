//! Following a chain of async contexts.

use super::{ADDRESS, is_context};
use crate::platform::memory;
use crate::report::model::AsyncEnd;

/// Reads the first two words of a context: its parent, and the function at which that resumes.
pub(crate) type ReadContext<'r> = &'r mut dyn FnMut(u64) -> Result<[u64; 2], AsyncEnd>;

/// Follows a chain from a function's context, and passes the address at which each caller resumes to `caller`, which
/// returns false to end it. Returns why there are no more. Signal-safe, if both functions are.
pub(super) fn follow(
    context: u64,
    read: ReadContext<'_>,
    caller: &mut dyn FnMut(u64) -> bool,
) -> AsyncEnd {
    let mut at = context & ADDRESS;
    if at == 0 {
        return AsyncEnd::Root;
    }
    // A context that was met at a power of two: a loop comes back to one such (Brent 1980).
    let (mut met, mut count) = (at, 0u32);
    loop {
        if !is_context(at) {
            return AsyncEnd::Invalid;
        }
        let [parent, resumes] = match read(at) {
            Ok(words) => words.map(|word| word & ADDRESS),
            Err(end) => return end,
        };
        if parent == 0 && resumes == 0 {
            return AsyncEnd::Root;
        }
        if !is_code(resumes) {
            return AsyncEnd::Invalid;
        }
        if !caller(resumes) {
            return AsyncEnd::Limit;
        }
        count = count.wrapping_add(1);
        match parent {
            0 => return AsyncEnd::Root,
            _ if parent == met || parent == context & ADDRESS => return AsyncEnd::Loop,
            _ => at = parent,
        }
        if count.is_power_of_two() {
            met = at;
        }
    }
}

/// Reads a context of this process, checked. Signal-safe.
pub(super) fn read_context(at: u64) -> Result<[u64; 2], AsyncEnd> {
    let mut words = [0u8; 16];
    if memory::read(at, &mut words) < words.len() {
        return Err(AsyncEnd::Unreadable);
    }
    let (parent, resumes) = words.split_at(8);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    Ok([word(parent), word(resumes)])
}

/// Returns true if a word may be the address of code.
fn is_code(word: u64) -> bool {
    (super::PAGE..1 << super::ADDRESS_BITS).contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contexts at 0x10000 and every 32 bytes after it, by the index of the parent; a caller resumes at 0x5000 plus its
    /// index.
    fn of(parents: &[Option<u64>], room: usize) -> (Vec<u64>, AsyncEnd) {
        let address = |index: u64| 0x1_0000 + 32 * index;
        let mut read = |at: u64| {
            let index = (at - 0x1_0000) / 32;
            match parents.get(index as usize) {
                Some(parent) => Ok([parent.map_or(0, address), 0x5000 + index]),
                None => Err(AsyncEnd::Unreadable),
            }
        };
        collect(address(0), &mut read, room)
    }

    /// The callers of a context, as far as there is room.
    fn collect(context: u64, read: ReadContext<'_>, room: usize) -> (Vec<u64>, AsyncEnd) {
        let mut callers = Vec::new();
        let end = follow(context, read, &mut |caller| {
            let fits = callers.len() < room;
            callers.extend(fits.then_some(caller));
            fits
        });
        (callers, end)
    }

    fn resumes(count: u64) -> Vec<u64> {
        (0..count).map(|index| 0x5000 + index).collect()
    }

    #[test]
    fn chains_of_one_three_and_two_hundred_contexts_are_whole() {
        for count in [1, 3, 200] {
            let parents: Vec<_> = (1..count).map(Some).chain([None]).collect();
            assert_eq!(
                of(&parents, 512),
                (resumes(count), AsyncEnd::Root),
                "{count}"
            );
        }
    }

    #[test]
    fn a_chain_that_does_not_end_is_cut_and_says_why() {
        let parents: Vec<_> = (1..100).map(Some).chain([None]).collect();
        assert_eq!(of(&parents, 10), (resumes(10), AsyncEnd::Limit));
        // Freed and gone.
        assert_eq!(
            of(&[Some(1), Some(9)], 10),
            (resumes(2), AsyncEnd::Unreadable)
        );
        // Of one, of three, and with a way into it.
        assert_eq!(of(&[Some(0)], 10), (resumes(1), AsyncEnd::Loop));
        assert_eq!(
            of(&[Some(1), Some(2), Some(0)], 10),
            (resumes(3), AsyncEnd::Loop)
        );
        let (callers, end) = of(&[Some(1), Some(2), Some(3), Some(1)], 100);
        assert_eq!((&callers[..4], end), (&resumes(4)[..], AsyncEnd::Loop));
        assert!(callers.len() < 16, "{callers:?}");
    }

    #[test]
    fn rubbish_is_no_caller() {
        let with = |context: u64, words: [u64; 2]| collect(context, &mut |_| Ok(words), 4);
        assert_eq!(with(0x1_0001, [0, 0x5000]), (vec![], AsyncEnd::Invalid));
        assert_eq!(with(8, [0, 0x5000]), (vec![], AsyncEnd::Invalid));
        assert_eq!(with(0x1_0000, [0, 3]), (vec![], AsyncEnd::Invalid));
        assert_eq!(with(0x1_0000, [0, 0]), (vec![], AsyncEnd::Root));
        assert_eq!(
            with(0x1_0000, [5, 0x5000]),
            (vec![0x5000], AsyncEnd::Invalid)
        );
    }
}
