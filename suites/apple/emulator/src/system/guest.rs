//! What a test program calls the machine itself for: no part of Darwin. Looked up by `dlsym`.

use crate::hunt;
use crate::machine::{Machine, Outcome};

/// A call that will not go as usual.
#[derive(Debug)]
pub struct Odd {
    name: String,
    /// So many calls go as usual first.
    after: u64,
    /// It returns without having done anything; or else it does what it does, and then another
    /// thread's turn begins.
    fails: bool,
    /// What it returns.
    pub result: u64,
    /// Instead: -1 and this `errno`.
    pub errno: u32,
}

/// The call of `name` that begins now, if it is to fail.
pub fn odd(m: &mut Machine, name: &str) -> Option<Odd> {
    due(m, name, true)
}

/// Whether the turn of the thread that calls `name` now ends with that call.
pub fn is_last(m: &mut Machine, name: &str) -> bool {
    due(m, name, false).is_some()
}

fn due(m: &mut Machine, name: &str, fails: bool) -> Option<Odd> {
    let odd = m.odd.iter();
    let at = odd
        .into_iter()
        .position(|o| o.name == name && o.fails == fails)?;
    if m.odd[at].after > 0 {
        m.odd[at].after -= 1;
        return None;
    }
    Some(m.odd.remove(at))
}

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    Some(Outcome::Return(match name {
        // (pairs of address and certainty, how many pairs, ended at the root)
        "__emulator_judge" => {
            let word = |k: u64| m.read_u64(a[0] + 8 * k).unwrap_or(0);
            let chain: Vec<_> = (0..a[1])
                .map(|k| (word(2 * k), word(2 * k + 1) != 0))
                .collect();
            hunt::judge(m, &chain, a[2] != 0);
            0
        }
        // (0 names of ports, 1 references to them, 2 bytes that are mapped)
        "__emulator_count" => match a[0] {
            0 => m.ports.names(),
            1 => m.ports.references(),
            _ => m.memory.mapped(),
        },
        // (nanoseconds): the machine sleeps for so long
        "__emulator_sleep" => {
            m.asleep += a[0];
            0
        }
        // (yes or no): a debugger is attached
        "__emulator_trace" => {
            m.traced = a[0] != 0;
            0
        }
        // (name, how many calls go well first, what the next one returns, or its errno)
        "__emulator_fail" => {
            let name = m.read_text(a[0]);
            let errno = a[3] as u32;
            m.odd.push(Odd {
                name,
                after: a[1],
                fails: true,
                result: a[2],
                errno,
            });
            0
        }
        // (name, how many calls go on first): then another thread's turn begins behind the call
        "__emulator_interrupt" => {
            let name = m.read_text(a[0]);
            m.odd.push(Odd {
                name,
                after: a[1],
                fails: false,
                result: 0,
                errno: 0,
            });
            0
        }
        _ => return None,
    }))
}
