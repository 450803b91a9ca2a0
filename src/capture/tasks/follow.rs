//! Following a chain of async contexts.

use super::{ADDRESS, is_context};
use crate::report::model::AsyncEnd;

/// Reads the first two words of a context: its parent, and the function at which that resumes.
pub(crate) type ReadContext<'r> = &'r mut dyn FnMut(u64) -> Result<[u64; 2], AsyncEnd>;

/// Follows a chain from a function's context, and notes the address at which each caller resumes. Returns the count of
/// them and why there are no more. Signal-safe, if `read` is.
pub(super) fn follow(context: u64, read: ReadContext<'_>, into: &mut [u64]) -> (usize, AsyncEnd) {
    let (mut at, mut count) = (context & ADDRESS, 0);
    // A context that was met at a power of two: a loop comes back to one such (Brent 1980).
    let mut met = at;
    loop {
        if !is_context(at) {
            return (count, AsyncEnd::Invalid);
        }
        let [parent, resumes] = match read(at) {
            Ok(words) => words.map(|word| word & ADDRESS),
            Err(end) => return (count, end),
        };
        if parent == 0 && resumes == 0 {
            return (count, AsyncEnd::Root);
        }
        if !is_code(resumes) {
            return (count, AsyncEnd::Invalid);
        }
        let Some(slot) = into.get_mut(count) else {
            return (count, AsyncEnd::Limit);
        };
        *slot = resumes;
        count = count.saturating_add(1);
        match parent {
            0 => return (count, AsyncEnd::Root),
            _ if parent == met || parent == context & ADDRESS => return (count, AsyncEnd::Loop),
            _ => at = parent,
        }
        if count.is_power_of_two() {
            met = at;
        }
    }
}

/// Returns true if a word may be the address of code.
fn is_code(word: u64) -> bool {
    (super::PAGE..1 << super::ADDRESS_BITS).contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contexts at 0x10000 and every 32 bytes behind, by the index of the parent; a caller resumes at 0x5000 plus its
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
        let mut callers = vec![0; room];
        let (count, end) = follow(address(0), &mut read, &mut callers);
        callers.truncate(count);
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
        let with = |context: u64, words: [u64; 2]| {
            let mut callers = [0; 4];
            let (count, end) = follow(context, &mut |_| Ok(words), &mut callers);
            (callers[..count].to_vec(), end)
        };
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
