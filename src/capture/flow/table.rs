//! Jump tables of x86_64 in a function's own bytes.
//!
//! Clang puts them behind the function's last instruction, one behind the other, assembly also between its blocks:
//! words of four bytes, each the distance of a block from the beginning of its table, or 0 for no block. The code has
//! that beginning in a `lea` by rip. `LC_DATA_IN_CODE` lists them only where the linker has kept it, and neighbours as
//! one.

use super::x86_64::points_to;
use super::{Code, REACH};
use crate::capture::instructions::decode;

/// Most places in a function's own bytes that it may point to, for its tables to be read.
pub(super) const TABLES: usize = 64;

/// Notes all places in the function's bytes that its code points to by rip, in no order: the tables are among
/// them. How many there are; `None` where there is not room for all.
pub(super) fn note_tables(code: Code<'_>, found: &mut [u64]) -> Option<usize> {
    let range = code.range();
    let (mut at, mut count) = (code.start, 0);
    while let Some(bytes) = code.at(at) {
        let Some(instruction) = decode(bytes) else {
            at += 1;
            continue;
        };
        if let Some((_, to)) = points_to(&instruction, at)
            && range.contains(&to)
        {
            *found.get_mut(count)? = to;
            count += 1;
        }
        at += instruction.length as u64;
    }
    Some(count)
}

/// The words of the table at `table`: where each stands, and where it leads. `others` are where other tables may
/// begin; it ends there, before the first block that it leads to further on, and where a word leads out of the
/// function.
pub(super) fn targets<'t>(
    code: Code<'t>,
    table: u64,
    others: &[u64],
) -> impl Iterator<Item = (u64, u64)> + use<'t> {
    let range = code.range();
    let others = others.iter().filter(|other| **other > table);
    let mut end = others.min().copied().unwrap_or(range.end);
    let words = (table..end).step_by(4).take(REACH / 4);
    words.map_while(move |at| {
        let word = code.at(at)?.get(..4)?.try_into().ok()?;
        let target = table.wrapping_add_signed(i32::from_le_bytes(word).into());
        if target > table {
            end = end.min(target);
        }
        (at < end && range.contains(&target)).then_some((at, target))
    })
}
