//! Notes about async contexts, made while a thread stands still: the chain of each word of its stacks that has the mark.
//!
//! A note is a few words: its key, the count of callers and why there are no more (one word), and their addresses. The key
//! is the address of the marked word, or 0 where the context was in its register.

use super::follow::{ReadContext, follow};
use super::{ADDRESS, REGISTER, is_context, without_mark};
use crate::platform::clock::monotonic as now;
use crate::platform::memory;
use crate::platform::stop::Standing;
use crate::report::model::AsyncEnd;

/// Most marked words of a stack whose chains are read: frames of async functions, and what dead ones have left.
const MOST: usize = 24;

/// Most callers of a chain.
pub(super) const CALLERS: usize = 512;

/// The key of the chain whose first context was in its register.
pub(super) const BY_REGISTER: u64 = 0;

/// Notes the chains of a thread that stands still, in so many words. Signal-safe.
pub(crate) fn note(standing: &Standing<'_>, into: &mut [u64]) -> usize {
    let mut reads = 0u32;
    let mut read = |at: u64| {
        reads = reads.wrapping_add(1);
        // A look at the clock costs as much as the read.
        if reads.is_multiple_of(8) && now() > standing.until {
            Err(AsyncEnd::Limit)
        } else {
            read_context(at)
        }
    };
    let fp = standing.registers[if cfg!(target_arch = "x86_64") { 6 } else { 29 }];
    let by_register = without_mark(fp).map(|_| (BY_REGISTER, standing.registers[REGISTER]));
    let marked = standing
        .stacks
        .iter()
        .flat_map(|(base, bytes)| marked(*base, bytes));
    write(by_register.into_iter().chain(marked), &mut read, into)
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

/// The address of each marked word of a stack that points further out, and the context in the word below it.
fn marked(base: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let words = bytes
        .chunks_exact(8)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
    let mut below = 0;
    words
        .zip((base..).step_by(8))
        .filter_map(move |(word, place)| {
            let context = std::mem::replace(&mut below, word);
            let fp = without_mark(word)?;
            let is_frame = fp.is_multiple_of(8) && fp > place;
            (is_frame && is_context(context & ADDRESS)).then_some((place, context))
        })
}

/// Writes a note for each key and context.
fn write(
    contexts: impl Iterator<Item = (u64, u64)>,
    read: ReadContext<'_>,
    into: &mut [u64],
) -> usize {
    let mut used = 0;
    for (key, context) in contexts.take(MOST) {
        let Some(room) = into.get_mut(used..) else {
            break;
        };
        let Some((head, callers)) = room.split_at_mut_checked(2) else {
            break;
        };
        let most = callers.len().min(CALLERS);
        let (count, end) = follow(
            context,
            &mut *read,
            callers.get_mut(..most).unwrap_or_default(),
        );
        head.copy_from_slice(&[key, (count as u64) << 8 | end as u64]);
        used = used.saturating_add(count).saturating_add(2);
    }
    used
}

/// The callers of the note with this key, and why there are no more.
pub(super) fn find(mut notes: &[u64], key: u64) -> Option<(&[u64], AsyncEnd)> {
    while let [of, head, rest @ ..] = notes {
        let (callers, others) = rest.split_at_checked((head >> 8) as usize)?;
        if *of == key {
            let end = AsyncEnd::ALL.get((head & 0xff) as usize);
            return Some((callers, end.copied().unwrap_or_default()));
        }
        notes = others;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::tests::bytes_of;

    const MARK: u64 = 1 << 60;

    #[test]
    fn a_chain_is_found_by_the_place_of_the_marked_frame_pointer() {
        // Two frames at 0x1010 and 0x1030; what is no frame: below, with more bits, with no context.
        let words = [
            7,
            0x9000,
            0x1030 | MARK,
            0x5001,
            7,
            0xa000,
            0x1080 | MARK,
            0x9000,
            0x1010 | MARK,
            0x9000,
            0x1080 | 3 << 60,
            7,
            0x1080 | MARK,
        ];
        let stack = bytes_of(&words);
        let found: Vec<_> = marked(0x1000, &stack).collect();
        assert_eq!(found, [(0x1010, 0x9000), (0x1030, 0xa000)]);
        let mut read = |at: u64| Ok([0, at + 0x100]);
        let mut notes = [0; 64];
        let used = write(found.into_iter(), &mut read, &mut notes);
        let notes = &notes[..used];
        assert_eq!(find(notes, 0x1010), Some((&[0x9100][..], AsyncEnd::Root)));
        assert_eq!(find(notes, 0x1030), Some((&[0xa100][..], AsyncEnd::Root)));
        assert_eq!(find(notes, 0x1060), None);
    }

    #[test]
    fn notes_end_where_their_room_does() {
        let mut read = |at: u64| Ok([at + 16, 0x5000]);
        for room in 0..40 {
            let mut notes = vec![0; room];
            let used = write(
                [(8, 0x9000), (16, 0xa000)].into_iter(),
                &mut read,
                &mut notes,
            );
            assert!(used <= room);
            let first = find(&notes[..used], 8);
            assert_eq!(first.is_some(), room >= 2, "{room}");
            assert!(first.is_none_or(|(_, end)| end == AsyncEnd::Limit));
        }
        // Words of chance are no endless loop.
        assert_eq!(find(&[u64::MAX; 5], 1), None);
    }
}
